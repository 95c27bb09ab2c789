"""Two trainings in one folder: exactly one runs, and the lock dies with its holder (A12)."""

import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.errors import FolderError
from dragoman.store import lock

HOLDING = """
import sys
from pathlib import Path
from dragoman.errors import FolderError
from dragoman.store import lock
try:
    with lock.hold(Path(sys.argv[1])) as warning:
        print("held" + warning, flush=True)
        sys.stdin.read()
except FolderError as error:
    print(error, flush=True)
"""


def start(path: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", HOLDING, str(path)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.mark.goal("A12")
def test_simultaneous_starts(tmp_path: Path) -> None:
    (tmp_path / "training").mkdir()
    path = tmp_path / "training" / "lock"
    for _ in range(20):
        with start(path) as first, start(path) as second:
            lines = {first.pid: line(first), second.pid: line(second)}
            held = [pid for pid, text in lines.items() if text == "held"]
            assert len(held) == 1, lines
            refused = next(text for text in lines.values() if text != "held")
            assert str(tmp_path) in refused
            assert f"process {held[0]};" in refused
            first.kill()
            second.kill()


@pytest.mark.goal("A12")
def test_second_start_names_the_owner_and_kill_9_frees(tmp_path: Path) -> None:
    (tmp_path / "training").mkdir()
    path = tmp_path / "training" / "lock"
    with start(path) as owner:
        assert line(owner) == "held"
        for _ in range(3):
            with pytest.raises(FolderError, match=f"trained by process {owner.pid};"), lock.hold(path):
                pass
        owner.kill()
    with lock.hold(path) as warning:
        assert warning == ""
    with lock.hold(path):
        pass
