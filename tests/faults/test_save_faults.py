"""A save that is killed, fails or loses power at every operation in turn (A2, A3, A4, A5 of the goal table)."""

import contextlib
import errno
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dragoman.errors import FolderError
from dragoman.store import checkpoint, files, records, tensors
from dragoman.store.files import Chunks
from goals import Trials

LIMIT = 500
"""More operations than any save here has."""


def contents(step: int) -> dict[str, Chunks]:
    rng = np.random.default_rng(step)
    weights = {"w": rng.standard_normal((5, 3)), "b": rng.standard_normal(3).astype(np.float32)}
    return {
        "model.safetensors": tensors.encode_arrays(weights, {"step": str(step)}),
        "optimizer.safetensors": tensors.encode_arrays({"m": rng.standard_normal(7)}, {}),
        "state.json": [records.encode({"step": step, "position": [step, 2 * step]})],
    }


def save(folder: Path, step: int, keep: int = 2) -> checkpoint.Saved:
    return checkpoint.save(folder, step, contents(step), {"config": "c" * 64}, keep)


def load(folder: Path) -> int:
    """The step of the newest complete checkpoint (0: none), whose every byte is right."""
    found, _ = checkpoint.newest(folder)
    if found is None:
        return 0
    for name, chunks in contents(found.step).items():
        assert found.file(name).read_bytes() == b"".join(bytes(chunk) for chunk in chunks)
    return found.step


def assert_clean(folder: Path, steps: list[int]) -> None:
    assert sorted(path.name for path in folder.iterdir()) == [f"step-{step:08d}" for step in steps]
    for step in steps:
        assert {path.name for path in (folder / f"step-{step:08d}").iterdir()} == {*contents(step), "manifest.json"}


def prepare(folder: Path, before: list[int]) -> None:
    for step in before:
        save(folder, step)


SCENES = {
    "first save": ([], 1, [1]),
    "next save": ([1, 2], 3, [2, 3]),
    "same step again": ([1, 2], 2, [1, 2]),
    "same step, the only one": ([2], 2, [2]),
}


@pytest.mark.goal("A2")
@pytest.mark.parametrize("scene", SCENES)
def test_killed_at_every_operation(
    scene: str, tmp_path: Path, killer: Any, on_disk: Any, repair: Any, killed: Any
) -> None:
    before, step, after = SCENES[scene]
    for at in range(1, LIMIT):
        folder = tmp_path / str(at)
        prepare(folder, before)
        on_disk(killer(at))
        try:
            save(folder, step)
        except killed:
            repair()
        else:
            break
        found = load(folder)
        assert found in {step, *before[-1:]} or (not before and found == 0)
        save(folder, 9)
        assert load(folder) == 9
        names = [path.name.removesuffix("~") for path in folder.iterdir()]
        assert len(names) == len(set(names)) <= 2
        assert all(name.startswith("step-") for name in names)
    assert 25 < at < LIMIT - 1
    repair()
    assert load(folder) == step
    assert_clean(folder, after)


@pytest.mark.goal("A2")
def test_killed_twice(tmp_path: Path, killer: Any, on_disk: Any, repair: Any, killed: Any) -> None:
    """Whatever the first death leaves behind, a second one during the next save of the same step does no harm."""
    rng = random.Random(1)
    for trial in range(100):
        folder = tmp_path / str(trial)
        prepare(folder, [1, 2])
        for _ in range(2):
            on_disk(killer(rng.randint(1, 70)))
            with contextlib.suppress(killed):
                save(folder, rng.choice([2, 3]), keep=1)
            repair()
            assert load(folder) in (2, 3)
        save(folder, 4)
        assert load(folder) == 4


@pytest.mark.goal("A4")
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EACCES, errno.EDQUOT, errno.EROFS])
@pytest.mark.parametrize("forever", [False, True], ids=["once", "from then on"])
def test_error_at_every_operation(
    number: int, forever: bool, tmp_path: Path, failing: Any, on_disk: Any, repair: Any
) -> None:
    """Either the save succeeds, or one line says what is wrong and where; the earlier checkpoint is intact."""
    warned = 0
    for at in range(1, LIMIT):
        folder = tmp_path / str(at)
        prepare(folder, [1, 2])
        disk = on_disk(failing(at, number, forever))
        saved, message = attempt(folder)
        repair()
        warned += bool(saved and saved.warnings)
        assert load(folder) == 3 if saved else load(folder) in (2, 3)
        if not saved:
            assert str(folder) in message
            assert "\n" not in message
            assert "step-00000003" in message or "list" in message
            assert "bytes are needed" in message or "list" in message or number not in (errno.ENOSPC, errno.EDQUOT)
        assert save(folder, 4).warnings == ()
        assert load(folder) == 4
        assert_clean(folder, [3, 4] if (folder / "step-00000003").exists() else [2, 4])
        if disk.count < at:
            break
    assert 25 < at < LIMIT - 1
    assert warned


def attempt(folder: Path) -> tuple[checkpoint.Saved | None, str]:
    try:
        return save(folder, 3), ""
    except FolderError as error:
        return None, str(error)


@pytest.mark.goal("A3")
def test_power_loss(trials: Trials, tmp_path: Path, powerless: Any, on_disk: Any, repair: Any, killed: Any) -> None:
    """What was reported as saved is there after the power failed at any operation, whatever was not written yet."""
    for trial in trials:
        with trial:
            rng, reported = trial.draws, 0
            folder, rest = tmp_path / f"{trial.number}", tmp_path / f"{trial.number}-after"
            folder.mkdir()
            disk = on_disk(powerless(folder, rng.randint(1, 210)))
            try:
                for step in (1, 2, 3, 3):
                    save(folder, step, keep=rng.choice([1, 2]))
                    reported = step
            except killed:
                pass
            repair()
            disk.after_power_loss(rest, rng)
            assert load(rest) in (reported, reported + 1)
            save(rest, 9, keep=1)
            assert_clean(rest, [9])


def test_power_loss_notices_a_missing_fsync(
    tmp_path: Path, powerless: Any, on_disk: Any, repair: Any, killed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model of the disk is strict enough: a protocol without the fsync of folders loses checkpoints in it."""
    rng, lost = random.Random(3), 0
    monkeypatch.setattr(files, "sync_folder", lambda path: None)
    for trial in range(40):
        folder, rest = tmp_path / f"{trial}", tmp_path / f"{trial}-after"
        folder.mkdir()
        disk = on_disk(powerless(folder, LIMIT))
        save(folder, 1)
        repair()
        disk.after_power_loss(rest, rng)
        lost += load(rest) != 1
    assert lost > 5


@pytest.mark.goal("A3")
def test_atomic_write_under_power_loss(
    trials: Trials, tmp_path: Path, powerless: Any, on_disk: Any, repair: Any, killed: Any
) -> None:
    for trial in trials:
        with trial:
            folder, rest, reported = tmp_path / f"{trial.number}", tmp_path / f"{trial.number}-after", b""
            folder.mkdir()
            disk = on_disk(powerless(folder, trial.draws.randint(1, 30)))
            try:
                for content in (b"old" * 50, b"new" * 70, b"last" * 20):
                    attempt = content
                    files.write_atomic(folder / "config.toml", content)
                    reported = content
            except killed:
                pass
            repair()
            disk.after_power_loss(rest, trial.draws)
            there = (rest / "config.toml").read_bytes() if (rest / "config.toml").exists() else b""
            assert there in (reported, attempt)


@pytest.mark.goal("A5")
@pytest.mark.parametrize("announced", [True, False], ids=["disk", "quota"])
def test_tiny_disk(announced: bool, tmp_path: Path, small_disk: Any, on_disk: Any, repair: Any) -> None:
    """Where three checkpoints fit, fifty saves that keep two succeed, and there is always a complete one."""
    save(tmp_path / "measure", 1)
    size = sum(path.stat().st_size for path in (tmp_path / "measure").rglob("*") if path.is_file())
    block = 4 * 4096 if announced else 64  # the check of free space counts in blocks
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    disk = on_disk(small_disk(folder, 3 * size + block, announced))
    for step in range(1, 51):
        save(folder, step)
        assert load(folder) == step
    assert disk.peak <= 3 * size + 64
    repair()
    assert_clean(folder, [49, 50])


@pytest.mark.goal("A5")
@pytest.mark.parametrize("announced", [True, False], ids=["disk", "quota"])
def test_disk_too_small(announced: bool, tmp_path: Path, small_disk: Any, on_disk: Any, repair: Any) -> None:
    prepare(tmp_path, [1, 2])
    used = sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file())
    on_disk(small_disk(tmp_path, used + 700, announced))
    for _ in range(5):
        with pytest.raises(FolderError, match="step-00000003.*bytes are needed.*" + ("disk" if announced else "quota")):
            save(tmp_path, 3)
        assert load(tmp_path) == 2
    repair()
    assert_clean(tmp_path, [1, 2])


LIMITED = """
import resource
import sys
from pathlib import Path
from dragoman.errors import FolderError
from dragoman.store import checkpoint
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
try:
    checkpoint.save(Path(sys.argv[1]), 2, {"model": [b"x" * 20_000]}, {}, 2)
except FolderError as error:
    print(error)
"""


@pytest.mark.goal("A4")
def test_file_size_limit_of_the_system(tmp_path: Path) -> None:
    """``ulimit -f``: the real system refuses a write half way."""
    save(tmp_path, 1)
    done = subprocess.run([sys.executable, "-c", LIMITED, str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "`ulimit -f`" in done.stdout
    assert load(tmp_path) == 1
    assert_clean(tmp_path, [1])


def test_short_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system may take fewer bytes than it was given."""
    real = os.write
    monkeypatch.setattr(files.os, "write", lambda descriptor, data: real(descriptor, data[:7]))
    save(tmp_path, 1)
    monkeypatch.undo()
    assert load(tmp_path) == 1


SAVING = """
import sys
from pathlib import Path
from dragoman.store import checkpoint
for step in range(int(sys.argv[2]), 1_000_000):
    checkpoint.save(Path(sys.argv[1]), step, {"state.json": [str(step).encode() * 3000]}, {}, 2)
    print(step, flush=True)
"""


@pytest.mark.goal("A1")
def test_kill_9_at_random_times(tmp_path: Path) -> None:
    """A real process under a real SIGKILL: what it reported is there, and the next one goes on from it."""
    rng, reported = random.Random(7), 0
    for _ in range(10):
        command = [sys.executable, "-c", SAVING, str(tmp_path), str(reported + 1)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            first = process.stdout.readline()
            time.sleep(rng.random() * 0.05)
            process.kill()
            lines = (first + process.stdout.read()).split("\n")
        reported = max(int(line) for line in lines[:-1])
        found, damaged = checkpoint.newest(tmp_path)
        assert found is not None
        assert found.step in (reported, reported + 1)
        assert damaged == []
        assert found.file("state.json").read_bytes() == str(found.step).encode() * 3000
        reported = found.step
    checkpoint.save(tmp_path, reported + 1, {"state.json": [b"{}"]}, {}, 1)
    assert [path.name for path in tmp_path.iterdir()] == [f"step-{reported + 1:08d}"]
