"""The CPU engine under many callers, and for a long time."""

import random
import shutil
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from dragoman.engine.loading import load
from dragoman.engine.translator import Translation, Translator
from engines import needs_engine, quantized

pytestmark = needs_engine

GOLDEN = Path(__file__).parents[1] / "golden" / "model_v1"
ENDLESS = Path(__file__).parents[1] / "endless.py"

CALLERS = 8

MOST_GROWTH = 5.0
"""MiB from the end of the first stretch of sentences to that of the last."""


@pytest.fixture(scope="module", params=["float32", "int8"])
def root(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model that reverses lists of digits."""
    root = shutil.copytree(GOLDEN, tmp_path_factory.mktemp("endurance") / "model")
    if request.param == "int8":
        quantized(root)
    return root


def digits(count: int) -> list[str]:
    draws = random.Random(count)
    return [" ".join(draws.choices("0123456789", k=draws.randint(1, 12))) for _ in range(count)]


def in_batches(translator: Translator, lines: Sequence[str], seed: int) -> list[list[Translation]]:
    """Sometimes one line, sometimes many."""
    draws, found = random.Random(seed), list[list[Translation]]()
    while len(found) < len(lines):
        size = draws.choice([1, 1, 2, 7, 64, 200])
        found += translator.stream(lines[len(found) : len(found) + size])
    return found


@pytest.mark.parametrize("threads", [1, 0])
@pytest.mark.parametrize("count", [2_000, pytest.param(10_000, marks=pytest.mark.slow)])
def test_eight_callers_get_the_answers_of_one(root: Path, count: int, threads: int) -> None:
    """To the last digit of every score, in whatever company a sentence was translated, by a thread, several or a team.

    Args:
        threads: of each search; 0: as many as there are processors, where few sentences are searched by a team.
    """
    lines = digits(count)
    alone, translator = list(load(root, "native", 1).stream(lines)), load(root, "native", threads)
    gate = Barrier(CALLERS)

    def work(caller: int) -> list[list[Translation]]:
        gate.wait()
        return in_batches(translator, lines[caller::CALLERS], caller)

    with ThreadPoolExecutor(CALLERS) as pool:
        for caller, found in enumerate(pool.map(work, range(CALLERS))):
            assert found == alone[caller::CALLERS]


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not tell how much memory is used")
@pytest.mark.parametrize(("stretch", "times"), [(5_000, 2), pytest.param(10_000, 10, marks=pytest.mark.slow)])
def test_memory_does_not_grow(root: Path, stretch: int, times: int) -> None:
    command = [sys.executable, str(ENDLESS), str(root), *[str(stretch)] * times]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    found = [float(line) for line in ran.stdout.split()]
    assert found[-1] - found[0] < MOST_GROWTH, f"MiB after each {stretch:,} sentences: {found}"
