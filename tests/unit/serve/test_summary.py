"""What a page shows of a journal."""

from typing import Any

import pytest

from dragoman.serve import summary
from watched import END, update, validation


@pytest.mark.parametrize(
    ("events", "is_running", "word"),
    [
        ([], False, "empty"),
        ([], True, "preparing"),
        ([update(50)], True, "running"),
        ([update(50)], False, "stopped"),
        ([update(200)], False, "stopped"),  # killed before the last validation: it has to be done again
        ([validation(200, 10.0)], False, "stopped"),  # and before the last checkpoint
        ([validation(200, 10.0), END], False, "finished"),
        ([validation(200, 10.0), END], True, "running"),
        ([validation(200, 10.0), END, update(250)], False, "stopped"),  # it went on to more updates
    ],
)
def test_the_state_in_a_word(events: list[Any], is_running: bool, word: str) -> None:
    assert summary.state(events, is_running) == word


def test_the_numbers_of_now() -> None:
    events = [update(50), validation(50, 20.0), update(100, seconds_left=200.0), validation(100, 19.0, False)]
    assert summary.now(events, 200) == {
        "step": 100,
        "steps": 200,
        "epoch": 1,
        "loss": 0.08,
        "tokens_per_second": 450.0,
        "seconds_left": 200.0,
        "validation_loss": 2.0,
        "best_bleu": 20.0,
        "best_step": 50,
    }


def test_the_journal_knows_better_how_many_updates_there_will_be() -> None:
    events = [update(50), {"event": "plan", "step": 64, "steps": 84}, update(84, seconds_left=3.0)]
    assert summary.now(events, 100) | {"steps": 84, "seconds_left": 0.0} == summary.now(events, 100)
    assert summary.now([{"event": "plan", "step": 1, "steps": None}, *events[:1]], 100)["steps"] == 100


def test_nothing_is_known_before_the_first_update() -> None:
    assert set(summary.now([], None).values()) == {0, None}
    assert summary.now([update(50)], None)["seconds_left"] is None
    assert summary.now([update(50)], 200)["seconds_left"] is None
    assert summary.now([update(250)], 200)["seconds_left"] == 0.0


def test_what_is_no_event_or_no_number_is_left_out() -> None:
    odd = [7, None, "x", {}, {"event": "update"}, {"event": "update", "step": "1"}, {"event": "update", "step": True}]
    events = summary.sound([*odd, update(50, loss=float("nan")), update(60, loss=None), update(70)])
    assert [event["step"] for event in events] == [50, 60, 70]
    assert summary.curves(events)["training"] == [(70, round(8 / 70, 4))]


def test_curves_are_thinned_and_keep_their_ends() -> None:
    events = [update(step) for step in range(50, 100_001, 50)]
    curve = summary.curves(events)["training"]
    assert len(curve) == summary.POINTS
    assert [curve[0][0], curve[-1][0]] == [50, 100_000]
    steps = [step for step, _ in curve]
    assert steps == sorted(set(steps))


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5, 11, 100])
def test_thinning(count: int) -> None:
    found = summary.thinned(range(count), 3)
    assert len(found) == min(count, 3)
    assert found[:1] == [*range(count)][:1]
    assert found[-1:] == [*range(count)][-1:]


PAIRS = [("a", "A"), ("b", "B")]


def test_translations_grow() -> None:
    texts = ["x", "x", "xy", "x"]
    events = [validation(step, 1.0, examples=[text]) for step, text in enumerate(texts, 1)]
    [first, second] = summary.samples(events, PAIRS)
    assert first["stages"] == [{"step": 1, "text": "x"}, {"step": 3, "text": "xy"}, {"step": 4, "text": "x"}]
    assert second == {"source": "b", "reference": "B", "stages": []}


def test_a_long_growth_is_thinned() -> None:
    events = [validation(step, 1.0, examples=[str(step)]) for step in range(1, 101)]
    stages = summary.samples(events, PAIRS)[0]["stages"]
    assert len(stages) == summary.STAGES
    assert [stages[0]["text"], stages[-1]["text"]] == ["1", "100"]


def test_translations_without_pairs_and_pairs_without_translations() -> None:
    events = [validation(1, 1.0, examples=["x", "y", "z", "more than are shown"])]
    assert [sample["source"] for sample in summary.samples(events, [])] == ["", "", ""]
    assert [sample["stages"] for sample in summary.samples([], PAIRS)] == [[], []]


def test_a_journal_of_an_earlier_version_has_no_translations() -> None:
    assert summary.samples([validation(1, 1.0)], PAIRS) == []


def test_warnings_are_counted_and_the_newest_shown() -> None:
    skipped = [{"event": "skipped", "step": step, "loss": None, "norm": None} for step in range(1, 101)]
    lost = {"event": "not saved", "step": 200, "what": "checkpoint", "reason": "the disk is full"}
    told = summary.warnings([*skipped, update(150), lost])
    assert told["count"] == 101
    assert len(told["newest"]) == summary.WARNINGS
    assert told["newest"][0] == {"step": 200, "text": "checkpoint not saved: the disk is full"}
    assert told["newest"][1] == {"step": 100, "text": "update skipped: its loss or gradient was not finite"}
    short = {"event": "out of memory", "step": 1, "batches": 4, "lost": 0}
    missed = {"event": "out of memory", "step": 1, "what": "validation"}
    back = {"event": "step back", "step": 2, "to": 0, "reason": "the mean loss rose", "rate_factor": 0.5}
    assert [told["text"] for told in summary.warnings([missed, short, {**short, "lost": 2}, back])["newest"]] == [
        "back to the weights of update 0 with 0.5 times the learning rate: the mean loss rose",
        "out of memory: cut into 4 smaller batches, 2 pairs left out",
        "out of memory: cut into 4 smaller batches",
        "out of memory: validation skipped",
    ]
    assert summary.warnings([]) == {"count": 0, "newest": []}
