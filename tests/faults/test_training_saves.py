"""A disk that refuses for a while, or for good, under a training that saves every other update."""

import errno
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from dragoman.errors import FolderError
from dragoman.store import checkpoint
from dragoman.train import journal, saving
from dragoman.train.journal import Journal, read
from dragoman.train.loop import Loop
from dragoman.train.prepare import Prepared
from dragoman.train.watcher import Progress
from trainings import Silent, corpus, prepared_in

STEPS = {"train__steps": 12, "train__save_every": 2, "train__validate_every": 4}


@dataclass
class Story(Silent):
    """A watcher under whom the disk changes: update -> what is done to it then."""

    events: dict[int, Callable[[], Any]] = field(default_factory=dict)

    def progress(self, progress: Progress) -> None:
        """What is to happen after this update, before it is saved."""
        super().progress(progress)
        self.events.get(progress.step, lambda: None)()


def fresh(root: Path) -> Prepared:
    root.mkdir()
    return prepared_in(root / "m", corpus(root, 40), **STEPS)


def newest(prepared: Prepared) -> checkpoint.Checkpoint:
    found, _ = checkpoint.newest(prepared.folder.checkpoints)
    assert found is not None
    return found


def end(prepared: Prepared) -> dict[str, bytes]:
    names = ("model.safetensors", "average.safetensors", "optimizer.safetensors")
    return {name: newest(prepared).file(name).read_bytes() for name in names}


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A last save is tried again at once."""
    monkeypatch.setattr(saving, "PAUSE", 0.0)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    prepared = fresh(tmp_path_factory.mktemp("undisturbed") / "all")
    Loop(prepared, Silent()).run(lambda: 0)
    return end(prepared)


@pytest.mark.goal("A4")
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EIO])
def test_an_outage_is_lived_through(
    number: int, tmp_path: Path, failing: Any, on_disk: Any, repair: Any, undisturbed: dict[str, bytes]
) -> None:
    """Warned once in one line, tried at every interval, noted each time; the training ends as if nothing had been."""
    prepared = fresh(tmp_path / "x")
    story = Story(events={3: lambda: on_disk(failing(1, number, True)), 9: repair})
    assert Loop(prepared, story).run(lambda: 0).counters.step == 12
    assert end(prepared) == undisturbed
    warnings = [text for text in story.messages if "checkpoint of update" in text]
    assert len(warnings) == 1
    assert warnings[0].startswith("warning: checkpoint of update 4 not saved; training goes on and tries again: ")
    assert "cannot " in warnings[0]
    assert "\n" not in warnings[0]
    assert "update 10: checkpoint saved again" in story.messages
    events = [event for event in read(prepared.folder.journal) if event["event"] == "not saved"]
    assert [event["step"] for event in events if event["what"] == "checkpoint"] == [4, 6, 8]
    assert all(event["reason"] for event in events)


def test_a_best_model_that_cannot_be_kept_is_not_called_the_best(
    tmp_path: Path, failing: Any, on_disk: Any, repair: Any
) -> None:
    prepared = fresh(tmp_path / "x")
    story = Story(events={4: lambda: on_disk(failing(1, errno.ENOSPC, True)), 5: repair})
    counters = Loop(prepared, story).run(lambda: 0).counters
    assert [look.is_best for look in story.looks][:2] == [False, True]
    assert counters.best_step > 4
    assert prepared.folder.weights.exists()
    assert any("best model of update 4 not saved" in text for text in story.messages)


@pytest.mark.goal("A4")
def test_a_last_save_is_tried_again(
    tmp_path: Path,
    failing: Any,
    on_disk: Any,
    repair: Any,
    monkeypatch: pytest.MonkeyPatch,
    undisturbed: dict[str, bytes],
) -> None:
    """There is no next interval; what another process has written may be gone a second later."""
    waits: list[float] = []
    monkeypatch.setattr(saving, "PAUSE", 1.5)

    def wait(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            repair()

    monkeypatch.setattr(saving.time, "sleep", wait)
    prepared = fresh(tmp_path / "x")
    story = Story(events={11: lambda: on_disk(failing(1, errno.ENOSPC, True))})
    assert Loop(prepared, story).run(lambda: 0).counters.step == 12
    assert waits == [1.5] * 3
    assert end(prepared) == undisturbed
    told = [text for text in story.messages if "saved" in text]
    assert len(told) == 2
    assert told[0].startswith("warning: checkpoint of update 12 not saved; trying again: ")
    assert told[1] == "update 12: checkpoint saved again"


@pytest.mark.goal("A4")
def test_a_last_save_that_fails_is_an_error(
    tmp_path: Path, failing: Any, on_disk: Any, repair: Any, undisturbed: dict[str, bytes]
) -> None:
    """What was saved before is intact, and the same command ends the training."""
    prepared = fresh(tmp_path / "x")
    story = Story(events={5: lambda: on_disk(failing(1, errno.ENOSPC, True))})
    with pytest.raises(FolderError, match=r"update 12: .* could not be saved \(20 times in a row\): .*disk is full"):
        Loop(prepared, story).run(lambda: 0)
    repair()
    assert newest(prepared).step == 4
    Loop(prepared, Silent()).run(lambda: 0)
    assert end(prepared) == undisturbed


def test_a_save_at_a_signal_is_a_last_one(tmp_path: Path, failing: Any, on_disk: Any, repair: Any) -> None:
    prepared = fresh(tmp_path / "x")
    story = Story(events={3: lambda: on_disk(failing(1, errno.EROFS, True))})
    with pytest.raises(FolderError, match=r"update 3: checkpoint could not be saved \(20 times in a row\): "):
        Loop(prepared, story).run(lambda: signal.SIGTERM if len(story.steps) == 3 else 0)
    repair()
    assert newest(prepared).step == 2


@pytest.mark.goal("A4")
def test_too_many_failures_in_a_row_stop_it(
    tmp_path: Path, failing: Any, on_disk: Any, repair: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saving, "MOST_FAILURES", 3)
    prepared = fresh(tmp_path / "x")
    story = Story(events={3: lambda: on_disk(failing(1, errno.EIO, True))})
    with pytest.raises(FolderError, match=r"update 8: checkpoint could not be saved \(3 times in a row\)"):
        Loop(prepared, story).run(lambda: 0)
    repair()
    assert newest(prepared).step == 2


def test_a_journal_on_a_full_disk_loses_no_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    diary = Journal(tmp_path / "j", 0)
    diary.write("update", {"step": 1})
    with monkeypatch.context() as patch:
        patch.setattr(journal, "os", FullDisk(room=10))
        diary.write("update", {"step": 2})
        diary.write("update", {"step": 3})
        assert [event["step"] for event in read(tmp_path / "j")] == [1]
        with pytest.raises(FolderError, match="cannot write .*: the disk is full"):
            diary.sync()
    diary.write("update", {"step": 4})
    diary.sync()
    assert [event["step"] for event in read(tmp_path / "j")] == [1, 2, 3, 4]


@dataclass
class FullDisk:
    """The module ``os``, whose disk takes ``room`` more bytes of each write that is begun."""

    room: int

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def write(self, descriptor: int, data: bytes) -> int:
        if len(data) <= self.room or data[:1] != b"{":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return os.write(descriptor, data[: self.room])
