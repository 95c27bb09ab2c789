import errno
import os
from pathlib import Path

import pytest

from dragoman.errors import FolderError
from dragoman.store import lock


def test_held_once_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "training" / "lock"
    path.parent.mkdir()
    with lock.hold(path) as warning:
        assert warning == ""
        assert path.read_text() == f"{os.getpid()}\n"
        with pytest.raises(FolderError, match=f"is being trained by process {os.getpid()}; wait"), lock.hold(path):
            pass
    with lock.hold(path):
        pass


def test_an_owner_that_did_not_sign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock.time, "sleep", lambda _: None)
    path = tmp_path / "lock"
    with lock.hold(path):
        path.write_text("999999999\n")
        with pytest.raises(FolderError, match="by process unknown"), lock.hold(path):
            pass


def test_file_systems_without_locks_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(lock.fcntl, "flock", refuse)
    number = errno.ENOLCK
    with lock.hold(tmp_path / "lock") as warning:
        assert "file system without locks" in warning
    number = errno.EIO
    with pytest.raises(FolderError, match=r"cannot lock .*: Input/output error"), lock.hold(tmp_path / "lock"):
        pass


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FolderError, match=r"cannot lock .*: it does not exist"), lock.hold(tmp_path / "no" / "lock"):
        pass


def test_asking_whether_it_is_held(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    assert not lock.is_held(path)
    with lock.hold(path):
        assert lock.is_held(path)
        assert lock.is_held(path)
    assert not lock.is_held(path)
    with lock.hold(path):
        path.write_text("999999999\n")
        assert not lock.is_held(path), "nobody of that number: not even asked"


def test_a_living_owner_must_do_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    path = tmp_path / "lock"
    path.write_text(f"{os.getpid()}\n")
    assert not lock.is_held(path)
    monkeypatch.setattr(lock.fcntl, "flock", refuse)
    assert lock.is_held(path)
