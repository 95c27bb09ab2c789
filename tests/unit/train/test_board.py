"""The same events for TensorBoard."""

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from dragoman.errors import ConfigError
from dragoman.train.board import SHOWN, Board
from dragoman.train.loop import Loop
from trainings import Silent, corpus, prepared_in

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def curves(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """What TensorBoard would draw."""
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    events = accumulator.EventAccumulator(str(folder))
    events.Reload()
    return {tag: [(each.step, each.value) for each in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def update(step: int) -> dict[str, Any]:
    return {"step": step, "epoch": 0, "loss": 1.0 / step, "norm": 1.0, "learning_rate": 0.5, "tokens_per_second": 9.0}


def test_the_curves(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    board = Board(tmp_path, 0, print)
    board.write("update", update(1))
    board.write("update", update(2))
    board.write("skipped", {"step": 3})
    board.write("validation", {"step": 2, "loss": 3.0, "bleu": 4.0, "chrf": 5.0, "best": True, "seconds": 1.0})
    board.sync()
    found = curves(tmp_path)
    assert found["update/loss"] == [(1, 1.0), (2, 0.5)]
    assert found["validation/bleu"] == [(2, 4.0)]
    assert len(found) == 7


def test_a_resumed_run_overrides_what_was_lost(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    first = Board(tmp_path, 0, print)
    for step in (1, 2, 3):
        first.write("update", update(step))
    first.sync()
    second = Board(tmp_path, 1, print)
    second.write("update", update(2))
    second.sync()
    assert [step for step, _ in curves(tmp_path)["update/loss"]] == [1, 2]


def test_a_training_draws_what_its_journal_says(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    train = corpus(tmp_path, 30)
    prepared = prepared_in(tmp_path / "m", train, train, train__tensorboard="true")
    Loop(prepared, Silent()).run(lambda: 0)
    written = [json.loads(line) for line in prepared.folder.journal.read_text().splitlines()]
    events = [event for event in written if event["event"] in SHOWN]
    assert {event["event"] for event in events} == SHOWN.keys()
    found = curves(tmp_path / "m" / "tensorboard")
    for event in events:
        [(step, loss)] = found[f"{event['event']}/loss"]
        assert step == event["step"]
        assert loss == pytest.approx(event["loss"], rel=1e-6)


def test_a_full_disk_costs_points_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The writer keeps its failure for ever; it is told once, and curves go on in another file."""
    writers = pytest.importorskip("tensorboard.summary.writer.event_file_writer")
    told = list[str]()
    board = Board(tmp_path, 0, told.append)
    board.write("update", update(1))
    board.sync()
    with monkeypatch.context() as patch:

        def full(*_: Any) -> None:
            raise OSError(28, "No space left on device")

        patch.setattr(writers._AsyncWriter, "flush", full)
        for step in (2, 3):
            board.write("update", update(step))
            board.sync()
    for step in (4, 5):
        board.write("update", update(step))
        board.sync()
    assert told == ["warning: TensorBoard's curves will have gaps: [Errno 28] No space left on device"]
    steps = [step for step, _ in curves(tmp_path)["update/loss"]]
    assert (steps[0], steps[-1]) == (1, 5)
    unwritable = tmp_path / "file"
    unwritable.write_text("")
    Board(unwritable, 0, told.append).write("update", update(1))
    assert len(told) == 2


def test_a_missing_package_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=r"pip install dragoman\[tensorboard\]"):
        Board(tmp_path, 0, print)
