"""`dragoman train --budget`: from the start of the command to its end, in the time that was given."""

import json
import signal
import time
from pathlib import Path

import pytest

from command import Nursery, settings
from dragoman.config import load
from dragoman.store.folder import ModelFolder
from trainings import TINY, corpus

MISSED_BY = 0.03
"""Share of a budget by which a training may be too long or too short."""

OTHERS = 0.5
"""Seconds for what no clock of the training sees: a process begins and ends."""

BUDGET, SHORT = 50, 20
"""Seconds: of the test that measures, and of one that is interrupted."""


def command(folder: Path, root: Path, budget: int) -> list[object]:
    """With a model and a corpus that are small, and no length of their own."""
    decided = ("train__steps", "train__warmup_steps", "train__schedule")
    own = {key: value for key, value in TINY.items() if key not in decided}
    files = folder / "train.src", folder / "train.tgt"
    return ["train", *files, "--out", root, "--budget", f"{budget}s", *settings(**own)]


@pytest.mark.slow
def test_a_budget_is_kept(nursery: Nursery, tmp_path: Path) -> None:
    corpus(tmp_path, 2000)
    root, log = tmp_path / "m", tmp_path / "log"
    started = time.monotonic()
    assert nursery.start(log, *command(tmp_path, root, BUDGET)).wait() == 0, log.read_text()
    taken = time.monotonic() - started
    assert abs(taken - BUDGET) <= MISSED_BY * BUDGET + OTHERS, log.read_text()
    train = load(ModelFolder(root).config).train
    [planned] = [line for line in log.read_text().splitlines() if line.startswith(f"{BUDGET} s: ")]
    assert planned.startswith(f"{BUDGET} s: {train.steps:,} updates of about ")
    assert (train.budget, train.schedule) == (BUDGET, "plateau")
    looks = [event for event in journal(root) if event["event"] == "validation"]
    assert 1 <= len(looks) <= 11
    assert looks[-1]["step"] > train.steps / 2, "planned for a machine twice as fast"
    started = time.monotonic()
    assert nursery.start(log, *command(tmp_path, root, BUDGET)).wait() == 0
    assert time.monotonic() - started < 0.3 * BUDGET, "it is done"


@pytest.mark.slow
def test_a_budget_goes_on_after_an_interruption(nursery: Nursery, tmp_path: Path) -> None:
    """It is the same training: what was planned is not planned again, and the seconds before count."""
    corpus(tmp_path, 2000)
    root, log = tmp_path / "m", tmp_path / "log"
    started = time.monotonic()
    child = nursery.start(log, *command(tmp_path, root, SHORT))
    child.wait_for("update 1 of")
    time.sleep(0.2 * SHORT)
    child.kill(signal.SIGTERM)
    assert child.wait() == 143
    planned = ModelFolder(root).config.read_bytes()
    time.sleep(0.1 * SHORT)
    assert nursery.start(log, *command(tmp_path, root, SHORT)).wait() == 0
    taken = time.monotonic() - started - 0.1 * SHORT
    assert abs(taken - SHORT) <= MISSED_BY * SHORT + 2 * OTHERS, log.read_text()
    assert ModelFolder(root).config.read_bytes() == planned
    assert log.read_text().count(f"{SHORT} s: ") == 1
    steps = [event["step"] for event in journal(root) if event["event"] == "update"]
    assert steps == sorted(set(steps))


def journal(root: Path) -> list[dict[str, int]]:
    return [json.loads(line) for line in (root / "journal.jsonl").read_text().splitlines()]
