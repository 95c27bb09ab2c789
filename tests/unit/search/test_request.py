"""Requests: defaults and every refusal."""

from collections.abc import Iterator
from itertools import count

import pytest
from msgspec.structs import replace

from dragoman.config import SearchConfig
from dragoman.errors import RequestError
from dragoman.search.request import Queue, SourceRequest, check_settings, nothing_found, prepare

SETTINGS = SearchConfig(max_length_ratio=2.0, max_length_extra=10, min_length=2)
EOS = 2


def test_defaults_come_from_the_settings() -> None:
    sentence = prepare(SourceRequest((4, 5, 6)), SETTINGS, vocab_size=9, eos_id=EOS, index=7)
    assert (sentence.max_length, sentence.min_length, sentence.key, sentence.prefix) == (16, 2, 7, ())


def test_the_request_overrules_the_settings() -> None:
    request = SourceRequest([4, 5], prefix=[3, 3, 3], max_length=3, min_length=0, key=99)
    sentence = prepare(request, SETTINGS, vocab_size=9, eos_id=EOS, index=7)
    assert (sentence.max_length, sentence.min_length, sentence.key, sentence.guarded) == (3, 0, 99, 3)


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (SourceRequest(()), 12),
        (SourceRequest((4,), prefix=(3,) * 50), 60),
        (SourceRequest((4,), min_length=30), 40),
    ],
)
def test_the_default_limit_leaves_room(request_: SourceRequest, expected: int) -> None:
    assert prepare(request_, SETTINGS, vocab_size=9, eos_id=EOS, index=0).max_length == expected


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (SourceRequest((4,), max_length=0), r"sentence 7: max_length=0 leaves nothing"),
        (SourceRequest((4,), max_length=-3), r"max_length=-3"),
        (SourceRequest((4,), max_length=3, min_length=4), r"min_length=4 must lie between 0 and max_length=3"),
        (SourceRequest((4,), max_length=1), r"min_length=2 must lie between 0 and max_length=1"),
        (SourceRequest((4,), min_length=-1), r"min_length=-1"),
        (SourceRequest((4,), prefix=(3, 3, 3, 3), max_length=3), r"prefix has 4 tokens, more than max_length=3"),
        (SourceRequest((4,), prefix=(3, EOS)), r"prefix contains the end of sentence \(id 2\)"),
        (SourceRequest((4,), prefix=(3, 9)), r"prefix has id 9, outside 0 to 8"),
        (SourceRequest((4,), prefix=(-1,)), r"prefix has id -1, outside 0 to 8"),
        (SourceRequest((4,), key=-1), r"key=-1"),
        (SourceRequest((4,), key=2**64), r"key=18446744073709551616"),
    ],
)
def test_refusals(request_: SourceRequest, message: str) -> None:
    with pytest.raises(RequestError, match=message):
        prepare(request_, SETTINGS, vocab_size=9, eos_id=EOS, index=7)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_best": 10}, r"n_best=10 does not fit beam_size=5"),
        ({"n_best": 0}, r"n_best=0"),
        ({"suppress": (3, 9)}, r"suppress=9 is not an id of this vocabulary \(0 to 8\)"),
        ({"suppress": (-1,)}, r"suppress=-1"),
        ({"temperature": float("nan")}, r"temperature=nan"),
        ({"temperature": -1.0}, r"temperature=-1.0"),
        ({"temperature": float("inf")}, r"temperature=inf"),
        ({"top_p": 0.0}, r"top_p=0.0"),
        ({"top_p": 1.5}, r"top_p=1.5"),
        ({"top_p": float("nan")}, r"top_p=nan"),
        ({"top_k": -1}, r"top_k=-1"),
    ],
)
def test_settings_refused(changes: dict[str, object], message: str) -> None:
    """Copies with changed values have not been through the configuration's own checks."""
    with pytest.raises(RequestError, match=message):
        check_settings(replace(SearchConfig(), **changes), vocab_size=9)


def test_nothing_found_names_sentence_and_prefix() -> None:
    assert str(nothing_found(4, SourceRequest((1,), prefix=(3, 5)))).startswith("sentence 4: ")
    assert "under the target prefix [3, 5]" in str(nothing_found(4, SourceRequest((1,), prefix=(3, 5))))
    assert "prefix [" not in str(nothing_found(4, SourceRequest((1,))))


def queue_of(requests: Iterator[SourceRequest], slots: int) -> Queue:
    return Queue(requests, count(), slots, SearchConfig(), vocab_size=9, eos_id=EOS)


def test_the_queue_is_lazy_and_refills_by_eighths() -> None:
    drawn: list[int] = []

    def endless() -> Iterator[SourceRequest]:
        for number in count():
            drawn.append(number)
            yield SourceRequest((number,))

    queue = queue_of(endless(), slots=16)
    assert [sentence.index for sentence in queue.next_batch(busy=0)] == list(range(16))
    assert queue.next_batch(busy=16) == []
    assert queue.next_batch(busy=15) == []
    assert [sentence.index for sentence in queue.next_batch(busy=14)] == [16, 17]
    assert drawn == list(range(18))


def test_the_queue_ends() -> None:
    queue = queue_of(iter([SourceRequest((3,))]), slots=4)
    assert len(queue.next_batch(busy=0)) == 1
    assert queue.next_batch(busy=1) == []
    assert queue.next_batch(busy=0) == []


def test_no_slots() -> None:
    with pytest.raises(RequestError, match="slots=0"):
        queue_of(iter([]), slots=0)
