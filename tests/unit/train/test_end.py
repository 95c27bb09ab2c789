"""Why a training ends, and that the journal says so only when nothing is left to do."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from dragoman.store import checkpoint, tensors
from dragoman.train import costs, journal, validation
from dragoman.train.costs import Costs
from dragoman.train.loop import Loop
from dragoman.train.pace import Pace
from dragoman.train.prepare import Prepared
from trainings import SMALL, Silent, Stopped, fingerprint, fresh, noted_rates, prepared_in


def ends(prepared: Prepared) -> list[dict[str, Any]]:
    return [event for event in journal.read(prepared.folder.journal) if event["event"] == "end"]


def told(number: int, at: int) -> Callable[[], int]:
    """A signal after update ``at``."""
    updates = iter(range(1, 1000))
    return lambda: number if next(updates) == at else 0


def test_nothing_became_better(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scores = iter([1.0, 2.0, 2.0, 1.5, 3.0])
    monkeypatch.setattr(validation, "corpus_scores", lambda *_: (next(scores), 0.0))
    prepared = fresh(tmp_path / "data", 12, train__steps=9, train__validate_every=1, train__patience=2)
    counters = Loop(prepared, Silent()).run(lambda: 0).counters
    assert (counters.step, counters.best_step, counters.best) == (4, 2, 2.0)
    assert ends(prepared) == [{"event": "end", "step": 4, "reason": "nothing became better in 2 validations"}]
    assert Loop(prepared, Silent()).run(lambda: 0).counters == counters


def test_what_is_kept_is_the_running_average(tmp_path: Path) -> None:
    prepared = fresh(tmp_path / "data", 12, train__steps=3, train__validate_every=3)
    Loop(prepared, Silent()).run(lambda: 0)
    found, _ = checkpoint.newest(prepared.folder.checkpoints)
    assert found is not None
    kept = tensors.read_tensors(prepared.folder.weights)
    average, last = (tensors.read_tensors(found.file(f"{name}.safetensors")) for name in ("average", "model"))
    assert kept.keys() == average.keys()
    assert all(torch.equal(kept[name], tensor) for name, tensor in average.items())
    assert not all(torch.equal(kept[name], tensor) for name, tensor in last.items())


def test_a_signal_ends_the_command_and_not_the_training(tmp_path: Path) -> None:
    prepared = fresh(tmp_path / "data", 12, train__steps=3)
    assert Loop(prepared, Silent()).run(told(15, at=2)).stopped_by == 15
    assert ends(prepared) == []
    Loop(prepared, Silent()).run(lambda: 0)
    assert [event["step"] for event in ends(prepared)] == [3]


@pytest.mark.parametrize(
    ("spent", "planned", "fall", "end"),
    [
        (799.0, 1.0, 64, 84),  # slower than planned
        (499.0, 9.0, 64, 100),  # faster: never more than planned
        (999.0, 0.0, 64, 65),  # nobody has measured
        (599.0, 5.0, 64, 100),
        (699.0, 9.1, 10, 40),  # so slow that the time for the fall comes first: 36 updates of 9.1 / 1.08 seconds
    ],
)
def test_a_plateau_falls_over_the_time_that_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spent: float, planned: float, fall: int, end: int
) -> None:
    """100 updates were planned, the rate to fall after 64; ten seconds are what an update takes by then."""
    monkeypatch.setattr(Pace, "mean_seconds", 10.0)
    rates = noted_rates(monkeypatch)
    settings = {
        **{"train__steps": 100, "train__warmup_steps": 10, "train__schedule": "plateau", "train__accumulate": 1},
        **{"train__budget": 1000.0, "train__backend": "torch", "train__save_every": 50, "train__validate_every": 500},
    }
    whole, stopped = (fresh(tmp_path / name, 12, **settings) for name in ("whole", "stopped"))
    for each in (whole, stopped):
        costs.write(each.folder, Costs(update=planned))
    watcher = Silent()
    counters = Loop(whole, watcher, Stopped(spent)).run(lambda: 0).counters
    assert (counters.fall, counters.step, counters.end, counters.looked) == (fall, end, end, end)
    assert (f"update {fall}: {end} updates fit into the time, not 100" in watcher.messages) == (abs(end - 100) > 10)
    assert {"event": "plan", "step": fall, "steps": end} in journal.read(whole.folder.journal)
    peak = whole.config.train.learning_rate
    assert [rates[step] for step in range(10, fall + 1)] == [peak] * (fall - 9)
    assert rates[end] == pytest.approx(0.0, abs=1e-12)
    assert all(rates[step + 1] < rates[step] for step in range(fall, end))
    for clock, updates in ((Stopped(spent), 30), (Stopped(), 34)):  # what is over counts once
        Loop(stopped, Silent(), clock).run(told(15, at=updates))
    Loop(stopped, Silent(), Stopped()).run(lambda: 0)
    assert fingerprint(stopped.folder.root) == fingerprint(whole.folder.root)


def test_a_budget_that_comes_later_is_only_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fall that has begun goes on as it was planned."""
    monkeypatch.setattr(Pace, "mean_seconds", 10.0)
    rates = noted_rates(monkeypatch)
    settings = {"train__steps": 100, "train__schedule": "plateau", "train__backend": "torch"}
    Loop(fresh(tmp_path / "data", 12, **settings), Silent()).run(told(15, at=80))
    files = tmp_path / "data" / "train.src", tmp_path / "data" / "train.tgt"
    more = prepared_in(tmp_path / "data" / "m", files, files, **{**SMALL, **settings, "train__budget": 500.0})
    counters = Loop(more, Silent(), Stopped()).run(lambda: 0).counters
    assert (counters.fall, counters.end, counters.step) == (0, 0, 100)
    assert all(rates[step + 1] < rates[step] for step in range(64, 100))


def test_a_signal_after_the_last_update(tmp_path: Path) -> None:
    prepared = fresh(tmp_path / "data", 12, train__steps=3)
    assert Loop(prepared, Silent()).run(told(15, at=3)).counters.step == 3
    assert ends(prepared) == [{"event": "end", "step": 3, "reason": "all updates are made"}]


def test_a_signal_when_the_budget_is_over_leaves_the_last_validation_to_do(tmp_path: Path) -> None:
    prepared = fresh(tmp_path / "data", 12, train__steps=9, train__budget=100.0)
    clock = Stopped()

    def stop() -> int:
        clock.shown = 1000.0
        return 15

    assert Loop(prepared, Silent(), clock).run(stop).counters.looked == 0
    assert ends(prepared) == []
    counters = Loop(prepared, Silent(), clock).run(lambda: 0).counters
    assert counters.looked == counters.step == 1
    assert ends(prepared) == [{"event": "end", "step": 1, "reason": "the budget is over"}]
