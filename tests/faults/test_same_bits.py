"""Stopped at each update in turn, and under any settings, a training ends in the same bits (A7, A8, A18)."""

import itertools
import shutil
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from dragoman.store.folder import ModelFolder
from dragoman.train.loop import Loop
from dragoman.train.path import FusedPath, PlainPath
from dragoman.train.prepare import Prepared
from goals import ROWS, Trials
from trainings import Silent, fingerprint, fresh

PATHS = {"native": FusedPath, "torch": PlainPath}
MATRIX: dict[str, tuple[Any, ...]] = {
    "train__schedule": ("noam", "cosine", "linear", "plateau"),
    "train__optimizer": ("adam", "muon"),
    "model__tied": ("three-way", "output", "none"),
    "train__precision": ("float32", "bfloat16"),
    "train__ema_decay": (0.9, 0.0),
    "train__backend": ("native", "torch"),
}
ALL = [dict(zip(MATRIX, values, strict=True)) for values in itertools.product(*MATRIX.values())]


def copied(prepared: Prepared, root: Path) -> Prepared:
    """The same in another folder."""
    return replace(prepared, folder=ModelFolder(Path(shutil.copytree(prepared.folder.root, root))))


def run(prepared: Prepared) -> dict[str, str]:
    """Train to the end."""
    Loop(prepared, Silent()).run(lambda: 0)
    return fingerprint(prepared.folder.root)


def stop(prepared: Prepared, updates: int) -> None:
    """Train, and be told to stop after some updates."""
    left = iter(range(updates - 1, -1, -1))
    Loop(prepared, Silent()).run(lambda: 0 if next(left) else signal.SIGTERM)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The path, the seed of dropout and the ids of every update from now on."""
    found: list[Any] = []

    def watch(path: Any) -> None:
        real = path.gradient

        def gradient(self: Any, batches: Any, seed: int) -> Any:
            ids = [[batch.src.tolist(), batch.tgt_out.tolist()] for batch in batches]
            found.append([path.__name__, seed, ids])
            return real(self, batches, seed)

        monkeypatch.setattr(path, "gradient", gradient)

    for path in PATHS.values():
        watch(path)
    return found


@pytest.mark.goal("A7")
@pytest.mark.parametrize("backend", ["native", pytest.param("torch", marks=pytest.mark.slow)])
def test_resumed_at_every_update(backend: str, trials: Trials, tmp_path: Path, seen: list[Any]) -> None:
    """As many updates as attempts; each attempt stops after another one."""
    prepared = fresh(tmp_path / "fresh", 17, train__steps=trials.count, train__backend=backend)
    wanted = run(copied(prepared, tmp_path / "straight"))
    straight = seen.copy()
    assert [row[0] for row in straight] == [PATHS[backend].__name__] * trials.count
    for trial in trials:
        with trial:
            seen.clear()
            stopped = copied(prepared, tmp_path / str(trial.number))
            stop(stopped, trial.number)
            assert run(stopped) == wanted
            assert seen == straight
            shutil.rmtree(stopped.folder.root)


def pairwise() -> list[dict[str, Any]]:
    """Few settings with every pair of values in one of them: each time those that show the most new pairs."""
    missing = set().union(*map(pairs_of, ALL))
    chosen = []
    while missing:
        best = max(ALL, key=lambda values: len(pairs_of(values) & missing))
        chosen.append(best)
        missing -= pairs_of(best)
    return chosen


def pairs_of(values: dict[str, Any]) -> set[Any]:
    """Every two of the values."""
    return set(itertools.combinations(values.items(), 2))


@pytest.mark.goal("A8")
@pytest.mark.slow
def test_resumed_under_any_settings(trials: Trials, tmp_path: Path) -> None:
    """Every pair of values of two settings, or every combination."""
    matrix = pairwise() if trials.count == ROWS["A8"].few else ALL
    trials.count = len(matrix)
    for trial in trials:
        with trial:
            root = tmp_path / str(trial.number)
            prepared = fresh(root, 17, train__steps=8, **matrix[trial.number - 1])
            straight, stopped = copied(prepared, root / "straight"), copied(prepared, root / "stopped")
            at = trial.draws.randint(1, 7)
            stop(stopped, at)
            assert run(stopped) == run(straight), matrix[trial.number - 1]


@pytest.fixture(params=[pytest.param(1, id="one"), pytest.param(2, id="two", marks=pytest.mark.slow)])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    """So many for this test."""
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


@pytest.mark.goal("A18")
@pytest.mark.parametrize("backend", PATHS)
def test_the_same_again(threads: int, backend: str, trials: Trials, tmp_path: Path, seen: list[Any]) -> None:
    """Sizes that several threads share: the same batches, the same bits, however the threads are scheduled."""
    sizes = {"model__d_model": 64, "model__d_ff": 128, "data__batch_tokens": 1024}
    prepared = fresh(tmp_path / "fresh", 200, train__steps=2, train__backend=backend, **sizes)
    wanted = run(copied(prepared, tmp_path / "first"))
    first = seen.copy()
    for trial in trials:
        with trial:
            seen.clear()
            assert run(copied(prepared, tmp_path / str(trial.number))) == wanted, threads
            assert seen == first
