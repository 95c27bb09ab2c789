"""Beam search: cases worked out by hand, limits, and models that misbehave."""

from collections.abc import Iterator
from math import log

import numpy as np
import pytest
from msgspec.structs import replace

from dragoman.config import SearchConfig
from dragoman.errors import RequestError
from dragoman.search.beam import Beam, advance, beam_search, stream_greedy
from dragoman.search.request import SourceRequest
from dragoman.search.scoring import Hypothesis
from oracles.enumeration import Ids, Rules, TableModel, ToyStepper, enumerate_outputs

SOURCE = SourceRequest((4, 5), max_length=4)


def search(stepper: ToyStepper, settings: SearchConfig, *requests: SourceRequest) -> list[list[Hypothesis]]:
    found = dict(beam_search(stepper, requests, settings, slots=3))
    assert sorted(found) == list(range(len(requests)))
    return [found[index] for index in range(len(requests))]


class WantsToEnd(ToyStepper):
    """p(EOS) = .6 and p(a) = .4 at first, .95 and .05 afterwards; a is 3, all else is impossible."""

    def log_probs(self, source: Ids, prefix: Ids) -> np.ndarray:
        log_probs = np.full(self.vocab_size, -np.inf)
        log_probs[[self.eos_id, 3]] = np.log([0.95, 0.05] if prefix else [0.6, 0.4])
        return log_probs


class Broken(ToyStepper):
    """Gives ``value`` as one log-probability of the sentences that begin with 9, after ``healthy`` tokens."""

    value: float = np.nan
    healthy: int = 0

    def log_probs(self, source: Ids, prefix: Ids) -> np.ndarray:
        log_probs = self.model.log_probs(source, prefix)
        if source[0] == 9 and len(prefix) >= self.healthy:
            log_probs[3] = self.value
        return log_probs


@pytest.mark.parametrize("n_best", [1, 2, 3, 4])
def test_mean_and_sum_disagree(n_best: int) -> None:
    """Case 27: the sum prefers the empty output, the mean prefers "a", whatever n_best is."""
    for alpha, ids, score in ((1.0, (3,), log(0.4 * 0.95) / 2), (0.0, (), log(0.6))):
        settings = SearchConfig(beam_size=4, n_best=n_best, length_penalty=alpha)
        [found] = search(WantsToEnd(TableModel(5)), settings, SOURCE)
        assert found[0].ids == ids
        assert found[0].score == pytest.approx(score, abs=1e-12)
        assert len(found) == n_best


@pytest.mark.parametrize("beam", [4, 5, 6, 16, 64])
def test_beam_wider_than_the_vocabulary(beam: int) -> None:
    model = TableModel(5, impossible=(0, 1))
    [found] = search(ToyStepper(model), SearchConfig(beam_size=beam, n_best=beam), SourceRequest((4,), max_length=2))
    expected = enumerate_outputs(model, (4,), Rules(max_length=2), alpha=1.0, norm="power")[:beam]
    assert [h.ids for h in found] == [output.ids for output in expected]
    assert all(np.isfinite(h.score) for h in found)


def test_fewer_outputs_exist_than_asked_for() -> None:
    settings = SearchConfig(beam_size=6, n_best=6)
    [found] = search(ToyStepper(TableModel(5)), settings, SourceRequest((4,), max_length=1))
    assert sorted(h.ids for h in found) == [(), (0,), (1,), (3,), (4,)]


@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("length", [1, 2, 3])
def test_max_length_counts_the_end_of_sentence(beam: int, length: int) -> None:
    model = TableModel(6, eos_bonus=-20.0)
    [found] = search(ToyStepper(model), SearchConfig(beam_size=beam), SourceRequest((4,), max_length=length))
    assert len(found[0].ids) == length == len(found[0].token_log_probs)
    assert found[0].finish_reason == "length"
    eager = TableModel(6, eos_bonus=20.0)
    [found] = search(ToyStepper(eager), SearchConfig(beam_size=beam), SourceRequest((4,), max_length=length))
    assert (found[0].ids, found[0].finish_reason, len(found[0].token_log_probs)) == ((), "eos", 1)


@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("prefix", [(), (3, 4)])
def test_min_length_holds_back_the_end(beam: int, prefix: Ids) -> None:
    eager = ToyStepper(TableModel(6, eos_bonus=20.0))
    settings = SearchConfig(beam_size=beam, min_length=3)
    [found, exact] = search(
        eager, settings, SourceRequest((4,), prefix), SourceRequest((4,), prefix, max_length=3, min_length=3)
    )
    assert (len(found[0].ids), found[0].finish_reason, found[0].ids[: len(prefix)]) == (3, "eos", prefix)
    assert (len(exact[0].ids), exact[0].finish_reason) == (3, "length")


def test_a_prefix_as_long_as_the_limit() -> None:
    [found] = search(ToyStepper(TableModel(6)), SearchConfig(n_best=5), SourceRequest((4,), (3, 4), max_length=2))
    assert [(h.ids, h.finish_reason) for h in found] == [((3, 4), "length")]


def test_constant_model_costs_ln_v_per_token() -> None:
    """Case 33: with the mean every output scores -ln V."""
    stepper = ToyStepper(TableModel(6, sharpness=0.0))
    for source in ((4,), (4,) * 50):
        [found] = search(stepper, SearchConfig(n_best=5), SourceRequest(source, max_length=7))
        assert [h.score for h in found] == pytest.approx([-log(6)] * 5, abs=1e-12)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("healthy", [0, 2])
@pytest.mark.parametrize("changes", [{}, {"suppress": (3,)}])
def test_a_broken_sentence_is_empty_and_alone(value: float, healthy: int, changes: dict[str, object]) -> None:
    settings = replace(SearchConfig(beam_size=4, n_best=4), **changes)
    stepper = Broken(TableModel(8, eos_bonus=-3.0))
    stepper.value, stepper.healthy = value, healthy
    good = [SourceRequest((i,)) for i in range(1, 5)]
    answers = search(stepper, settings, SourceRequest((9,)), good[0], good[1], good[2], SourceRequest((9, 1)), good[3])
    assert answers[0] == answers[4] == []
    assert [answers[i] for i in (1, 2, 3, 5)] == [search(stepper, settings, request)[0] for request in good]


def test_an_impossible_prefix_is_empty_and_alone() -> None:
    stepper = ToyStepper(TableModel(6, impossible=(3,)))
    bad, good = SourceRequest((4,), prefix=(5, 3)), SourceRequest((4,), prefix=(5,))
    answers = search(stepper, SearchConfig(), good, bad, good)
    assert answers[1] == []
    assert answers[0] == answers[2] == search(stepper, SearchConfig(), good)[0] != []


def test_nothing_but_dead_ends() -> None:
    settings = SearchConfig(suppress=(2,), no_repeat_ngram=1)
    assert search(ToyStepper(TableModel(4)), settings, SourceRequest((4,), max_length=9)) == [[]]
    assert search(ToyStepper(TableModel(4)), SearchConfig(suppress=(0, 1, 2, 3)), SOURCE) == [[]]


def test_full_log_probs_are_asked_for_only_under_constraints() -> None:
    stepper = ToyStepper(TableModel(9, eos_bonus=-4.0))
    search(stepper, SearchConfig(), *(SourceRequest((i,)) for i in range(9)))
    assert stepper.full_steps == 0 < stepper.top_steps
    search(stepper, SearchConfig(), SourceRequest((4,), prefix=(3, 4)))
    assert stepper.full_steps == 2


def test_slots_are_kept_and_requests_drawn_lazily() -> None:
    drawn: list[int] = []

    def requests() -> Iterator[SourceRequest]:
        for number in range(50):
            drawn.append(number)
            yield SourceRequest((number,), max_length=2 + number % 7)

    stepper = ToyStepper(TableModel(9, eos_bonus=-4.0))
    found = beam_search(stepper, requests(), SearchConfig(beam_size=3), slots=8)
    assert drawn == []
    next(found)
    assert len(drawn) == 8
    assert sorted(index for index, _ in found) == list(range(1, 50)) or len(drawn) == 50
    assert stepper.widest <= 8 * 3
    assert max(stepper.started) == 8 == stepper.started[0]


def test_single_precision_is_summed_in_double() -> None:
    stepper = ToyStepper(TableModel(9), dtype=np.float32)
    for settings in (SearchConfig(), SearchConfig(no_repeat_ngram=9)):
        [[best]] = search(stepper, settings, SourceRequest((4,), max_length=30))
        tokens = best.ids + (2,) * (best.finish_reason == "eos")
        expected = [float(np.float32(value)) for value in stepper.model.score_tokens((4,), tokens)]
        assert best.token_log_probs == tuple(expected)
        assert best.log_prob == pytest.approx(sum(expected), abs=1e-12)


def test_no_requests() -> None:
    stepper = ToyStepper(TableModel(6))
    assert list(beam_search(stepper, [], SearchConfig(), slots=4)) == []
    assert advance(stepper, Beam(), SearchConfig())[1] == []


def test_settings_are_refused_at_the_call() -> None:
    settings = replace(SearchConfig(), n_best=10)
    with pytest.raises(RequestError, match="n_best=10 does not fit beam_size=5"):
        beam_search(ToyStepper(TableModel(6)), [SOURCE], settings, slots=1)
    with pytest.raises(RequestError, match="slots=0"):
        beam_search(ToyStepper(TableModel(6)), [SOURCE], SearchConfig(), slots=0)
    with pytest.raises(RequestError, match="suppress=6"):
        stream_greedy(ToyStepper(TableModel(6)), SOURCE, SearchConfig(suppress=(6,)))


def test_a_request_is_refused_when_its_turn_comes() -> None:
    found = beam_search(ToyStepper(TableModel(6)), [SOURCE, SourceRequest((4,), max_length=0)], SearchConfig(), slots=1)
    assert next(found)[0] == 0
    with pytest.raises(RequestError, match="sentence 1: max_length=0"):
        next(found)


def test_streaming_tells_each_token_at_once() -> None:
    stepper = ToyStepper(TableModel(9, eos_bonus=-9.0))
    stream = stream_greedy(stepper, SourceRequest((4,), prefix=(3, 4), max_length=6), SearchConfig(n_best=5))
    told = []
    for steps, token in enumerate(stream, start=1):
        told.append(token)
        assert stepper.top_steps + stepper.full_steps == steps
    assert told[:2] == [3, 4]
    assert len(told) == 6


def test_streaming_fails_aloud() -> None:
    with pytest.raises(RequestError, match="max_length=0"):
        stream_greedy(ToyStepper(TableModel(6)), SourceRequest((4,), max_length=0), SearchConfig())
    stream = stream_greedy(Broken(TableModel(8)), SourceRequest((9,)), SearchConfig())
    with pytest.raises(RequestError, match="sentence 0: the model gave"):
        list(stream)
