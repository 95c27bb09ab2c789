"""The command `dragoman train`, killed or told to stop at any instant, ends in the same bits (A1, A2, A12, A17)."""

import random
import re
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cases import Case
from command import PATIENCE, Nursery
from goals import Trials

SAVE_EVERY = 2
CODES = {signal.SIGTERM: 143, signal.SIGINT: 130, signal.SIGHUP: 129}
STOPPED_WITHIN = 30.0
"""Seconds."""

Make = Callable[..., Case]


@pytest.fixture(scope="module")
def make(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> Make:
    """Makes trainings."""
    return lambda pairs, **values: Case(nursery, tmp_path_factory.mktemp("case"), pairs, values)


@pytest.fixture(scope="module")
def long(make: Make) -> Case:
    """Thirty checkpoints."""
    return make(120, train__steps=60, train__validate_every=20)


@pytest.fixture(scope="module")
def short(make: Make) -> Case:
    """Three checkpoints, and few file operations besides."""
    return make(30, train__steps=6, train__validate_every=3)


def reached(log: str) -> int:
    """The last update of which a command told."""
    return max([int(number) for number in re.findall(r"^update (\d+) of", log, re.MULTILINE)], default=0)


def resumed(log: str) -> list[int]:
    """The updates after which it went on, start by start."""
    return [int(number) for number in re.findall(r"^resuming after update (\d+)$", log, re.MULTILINE)]


def wait_for_updates(log: Path, start: int, count: int) -> None:
    """Wait until the log has told of ``count`` updates after its first ``start`` characters, or of the end."""
    deadline = time.monotonic() + PATIENCE
    while (told := log.read_text()[start:]).count("\nupdate ") < count and "\ndone: " not in told:
        assert time.monotonic() < deadline, told
        time.sleep(0.002)


def go_on(case: Case, root: Path, draws: random.Random) -> bool:
    """Begin, or go on, and be killed; whether the kill came in time. At most one interval is lost by it.

    One kill in four comes at any instant of the preparation or soon after it, the others some updates later.
    """
    log = root.with_suffix(".log")
    before = log.read_text() if log.exists() else ""
    child = case.start(root, talkative=True)
    if draws.random() < 0.25:
        time.sleep(draws.uniform(0.0, 0.3 * case.seconds))
    else:
        wait_for_updates(log, len(before), draws.randint(1, 8))
        time.sleep(draws.uniform(0.0, 0.05))
    child.kill(signal.SIGKILL)
    code, told = child.wait(), log.read_text()
    assert code in (0, -signal.SIGKILL), told
    if len(resumed(told)) > len(resumed(before)):
        assert resumed(told)[-1] >= reached(before) - SAVE_EVERY, told
    assert resumed(told) == sorted(resumed(told)), "what was saved is not lost"
    return code != 0


@pytest.mark.goal("A1")
@pytest.mark.parametrize(
    ("backend", "optimizer"),
    [
        ("native", "muon"),
        pytest.param("native", "adam", marks=pytest.mark.slow),
        pytest.param("torch", "muon", marks=pytest.mark.slow),
        pytest.param("torch", "adam", marks=pytest.mark.slow),
    ],
)
def test_killed_at_random_instants(backend: str, optimizer: str, make: Make, trials: Trials, tmp_path: Path) -> None:
    """An attempt is a kill; each training is killed until it is through all the same, and then compared."""
    chosen = {"train__backend": backend, "train__optimizer": optimizer}
    long = make(120, train__steps=60, train__validate_every=20, **chosen)
    root, trainings = tmp_path / "1", 1
    for trial in trials:
        with trial:
            while not go_on(long, root, trial.draws):
                long.check(root)
                trainings += 1
                root = tmp_path / str(trainings)
    long.end(root)


@pytest.mark.goal("A2")
def test_killed_at_a_file_operation(short: Case, trials: Trials, tmp_path: Path) -> None:
    """Half of a write may be left. Everything counts: vocabulary, ids, journal, checkpoints, model, card."""
    for trial, at in trials.places(short.operations):
        with trial:
            root = tmp_path / str(trial.number)
            child = short.start(root, root=root, at=at)
            assert child.wait() == -signal.SIGKILL, child.log.read_text()
            short.end(root)
            shutil.rmtree(root)


@pytest.mark.goal("A17")
def test_told_to_stop(long: Case, trials: Trials, tmp_path: Path) -> None:
    """Once or twice, at any instant; while Python still starts, or draws its last picture, a signal may simply kill."""
    for trial in trials:
        with trial:
            root, draws = tmp_path / str(trial.number), trial.draws
            first, second = draws.choices(list(CODES), k=2)
            child = long.start(root)
            time.sleep(draws.uniform(0.0, 0.8 * long.seconds))
            child.kill(first)
            told = time.monotonic()
            if draws.random() < 0.5:
                time.sleep(draws.choice([0.0, 0.01, draws.uniform(0.0, 5.0)]))
                child.kill(second)
            code = child.wait()
            assert time.monotonic() - told < STOPPED_WITHIN + 5.0
            assert code in (0, CODES[first], CODES[second], -first, -second), (first, second, child.log.read_text())
            assert "Traceback" not in child.log.read_text()
            long.end(root)
            shutil.rmtree(root)


@pytest.mark.goal("A12")
def test_two_starts_at_once(short: Case, trials: Trials, tmp_path: Path) -> None:
    """Exactly one runs, the other names it; after a kill the folder is free."""
    for trial in trials:
        with trial:
            root = tmp_path / str(trial.number)
            children = [short.start(root) for _ in range(2)]
            pids = [child.pid for child in children]
            late = short.start(root)
            codes = [child.wait() for child in (*children, late)]
            assert sorted(codes) == [0, 2, 2]
            said = re.findall(r"is being trained by process (\d+);", root.with_suffix(".log").read_text())
            assert len(said) == 2
            assert set(map(int, said)) <= {*pids, late.pid}
            short.check(root)
            again = tmp_path / f"{trial.number}-again"
            first = short.start(again)
            time.sleep(trial.draws.uniform(0.0, short.seconds))
            first.kill(signal.SIGKILL)
            assert first.wait() in (0, -signal.SIGKILL)
            short.end(again)
