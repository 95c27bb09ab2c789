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

pytestmark = [needs_engine, pytest.mark.slow]

GOLDEN = Path(__file__).parents[1] / "golden" / "model_v1"

CALLERS = 8

MOST_GROWTH = 5.0
"""MiB between the 10,000th sentence and the 100,000th."""


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


def test_eight_callers_get_the_answers_of_one(root: Path) -> None:
    """To the last digit of every score, in whatever company a sentence was translated."""
    lines, translator = digits(10_000), load(root, "native", 1)
    alone = list(translator.stream(lines))
    gate = Barrier(CALLERS)

    def work(caller: int) -> list[list[Translation]]:
        gate.wait()
        return in_batches(translator, lines[caller::CALLERS], caller)

    with ThreadPoolExecutor(CALLERS) as pool:
        for caller, found in enumerate(pool.map(work, range(CALLERS))):
            assert found == alone[caller::CALLERS]


ENDLESS = """
import random, sys
from pathlib import Path
from dragoman.engine.loading import load

translator, draws = load(sys.argv[1], "native", 1), random.Random(1)
for size in (10_000, 90_000):
    lines = (" ".join(draws.choices("0123456789", k=draws.randint(1, 8))) for _ in range(size))
    assert sum(1 for _ in translator.stream(lines)) == size
    status = Path("/proc/self/status").read_text().splitlines()
    print(next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmRSS")))
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not tell how much memory is used")
def test_memory_does_not_grow(root: Path) -> None:
    ran = subprocess.run([sys.executable, "-c", ENDLESS, str(root)], capture_output=True, text=True, check=True)
    early, late = map(float, ran.stdout.split())
    assert late - early < MOST_GROWTH, f"{early:.1f} MiB after 10,000 sentences, {late:.1f} MiB after 100,000"
