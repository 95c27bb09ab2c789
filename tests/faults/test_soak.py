"""Hours of training, thousands of checkpoints: memory, open files and disk stay as they were (A20)."""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import pytest

from cases import LIGHT
from command import Child, Nursery, settings
from trainings import check_order, corpus

SECONDS = float(os.environ.get("DRAGOMAN_SOAK", 600))
SAMPLES = 40


@dataclass(frozen=True)
class Sample:
    """A process at one instant."""

    memory: int
    "Pages that it has."
    files: int
    "That it has open."
    checkpoints: int
    "That lie on the disk, unfinished and discarded ones included."


def look(child: Child, checkpoints: Path) -> Sample:
    """How it is now."""
    process = Path(f"/proc/{child.pid}")
    memory = int((process / "statm").read_text().split()[1])
    return Sample(memory, len(list((process / "fd").iterdir())), len(list(checkpoints.iterdir())))


@pytest.mark.goal("A20")
@pytest.mark.reliability
def test_nothing_grows(nursery: Nursery, tmp_path: Path) -> None:
    """``DRAGOMAN_SOAK`` says how many seconds; the first quarter is for warming up."""
    files, out = corpus(tmp_path, 200), tmp_path / "model"
    wanted = {**LIGHT, "train__steps": 10**8, "train__validate_every": 100}
    child = nursery.start(
        tmp_path / "log", "train", *files, "--valid", *files, "--out", out, *settings(**wanted), picture=False
    )
    child.wait_for("update 100: validation")
    samples = []
    for _ in range(SAMPLES):
        time.sleep(SECONDS / SAMPLES)
        samples.append(look(child, out / "training" / "checkpoints"))
    child.kill(signal.SIGTERM)
    assert child.wait() == 143, child.log.read_text()
    quarter = SAMPLES // 4
    early, late = samples[quarter : 2 * quarter], samples[-quarter:]
    assert median(sample.memory for sample in late) < 1.02 * median(sample.memory for sample in early)
    assert min(sample.files for sample in late) <= min(sample.files for sample in early)
    assert max(sample.checkpoints for sample in samples) <= 5
    check_order(out)
