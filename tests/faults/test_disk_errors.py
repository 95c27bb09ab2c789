"""The command `dragoman train` on a disk that fails or is tiny (A4, A5); `test_save_faults.py` has the store alone."""

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cases import Case
from command import Nursery
from dragoman.store import files
from goals import Trials
from trainings import corpus, prepared_in

ERRORS = (errno.ENOSPC, errno.EIO, errno.EACCES, errno.EDQUOT, errno.EROFS, errno.EMFILE)


@pytest.fixture(scope="module")
def short(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> Case:
    """Three checkpoints."""
    return Case(nursery, tmp_path_factory.mktemp("case"), 30, {"train__steps": 6, "train__validate_every": 3})


@pytest.mark.goal("A4")
def test_a_file_operation_fails(short: Case, trials: Trials, tmp_path: Path) -> None:
    """Once, or all from then on: it trains to the end, or says in one line why not; on a sound disk it goes on.

    Weights and optimizer end in the same bits. The best model may be a later one: one that was not written is not it.
    """
    for trial, at in trials.places(short.operations):
        with trial:
            root, draws = tmp_path / str(trial.number), trial.draws
            error, forever = draws.choice(ERRORS), draws.random() < 0.5
            child = short.start(root, root=root, at=at, error=error, forever=forever)
            code, log = child.wait(), child.log.read_text()
            told = [line for line in log.splitlines() if not line.startswith("file operations: ")]
            assert "Traceback" not in log, log
            assert code in (0, 2), log
            assert code == 0 or told[-1].startswith("dragoman: "), log
            short.end(root, but=("best", "state"))
            shutil.rmtree(root)


@pytest.mark.goal("A3")
def test_what_is_prepared_is_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing in the folder, names included, was changed after it was synced last: the configuration counts on it."""
    synced, fsync = dict[int, int](), os.fsync

    def note(descriptor: int) -> None:
        fsync(descriptor)
        status = os.fstat(descriptor)
        synced[status.st_ino] = status.st_mtime_ns

    monkeypatch.setattr(files, "os", os)
    monkeypatch.setattr(os, "fsync", note)
    root = prepared_in(tmp_path / "m", corpus(tmp_path, 17)).folder.root
    found = {path: path.stat() for path in root.rglob("*") if path.is_file() or any(path.iterdir())}
    assert len(found) > 8
    loose = [path.name for path, status in found.items() if synced.get(status.st_ino) != status.st_mtime_ns]
    assert not loose


TINY_DISK = """
import sys
from pathlib import Path
from dragoman.store import checkpoint

def save(folder, step):
    files = {name: [bytes([step % 256]) * size] for name, size in (("model", 300_000), ("optimizer", 600_000))}
    checkpoint.save(folder, step, files, {}, 2)

folder = Path(sys.argv[1]) / "checkpoints"
for step in range(1, 51):
    save(folder, step)
    found, damaged = checkpoint.newest(folder)
    assert found.step == step and not damaged
assert sorted(path.name for path in folder.iterdir()) == ["step-00000049", "step-00000050"]
print("all saved")
"""
MOUNTED = 'mount -t tmpfs -o size={size} none "$0" && exec "$@"'
THREE = "2784k"
"""Three checkpoints of 900,000 bytes in pages, with their manifests and folders."""


@pytest.mark.goal("A5")
def test_a_disk_of_three_checkpoints(tmp_path: Path) -> None:
    """A real one, in a mount namespace of its own; fifty saves that keep two."""
    script = [sys.executable, "-c", TINY_DISK, str(tmp_path)]
    mount = ["unshare", "--mount", "sh", "-c", MOUNTED.format(size=THREE), str(tmp_path)]
    if not shutil.which("unshare") or subprocess.run([*mount, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no permission to mount a tmpfs; test_save_faults.py counts bytes instead")
    ran = subprocess.run([*mount, *script], capture_output=True, text=True, check=False)
    assert ran.stdout == "all saved\n", ran.stderr
    assert list(tmp_path.iterdir()) == []
