"""The diary: one object a line, never torn, never twice."""

from pathlib import Path

import pytest

from dragoman.errors import DragomanError
from dragoman.train.journal import Journal, read


def test_events_come_back(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j", 0)
    journal.write("update", {"step": 1, "loss": 2.5, "text": "Straße\u2028\n"})
    journal.sync()
    journal.write("validation", {"step": 1, "loss": float("nan"), "bleu": float("-inf"), "best": True})
    assert read(tmp_path / "j") == [
        {"event": "update", "step": 1, "loss": 2.5, "text": "Straße\u2028\n"},
        {"event": "validation", "step": 1, "loss": None, "bleu": None, "best": True},
    ]
    assert journal.size == (tmp_path / "j").stat().st_size


def test_a_resumed_run_cuts_it_back(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j", 0)
    journal.write("update", {"step": 1})
    size = journal.size
    journal.write("update", {"step": 2})
    with (tmp_path / "j").open("ab") as file:
        file.write(b'{"event": "upd')
    assert read(tmp_path / "j") == [{"event": "update", "step": 1}, {"event": "update", "step": 2}]
    Journal(tmp_path / "j", size).write("update", {"step": 3})
    assert read(tmp_path / "j") == [{"event": "update", "step": 1}, {"event": "update", "step": 3}]


def test_one_that_was_deleted_begins_anew(tmp_path: Path) -> None:
    Journal(tmp_path / "j", 1000).write("update", {"step": 1})
    assert read(tmp_path / "j") == [{"event": "update", "step": 1}]


def test_a_damaged_line_is_told(tmp_path: Path) -> None:
    (tmp_path / "j").write_bytes(b'{"event": "update"}\n{"ev\n')
    with pytest.raises(DragomanError, match="j is damaged: .* is not JSON"):
        read(tmp_path / "j")
