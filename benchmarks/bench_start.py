"""What a single sentence waits for: from the start of a process to its first translation.

    python benchmarks/bench_start.py                       # base size, random weights, int8; needs ctranslate2 too
    python benchmarks/bench_start.py MODEL --text "A dog runs."

`translate` is the command line, `load` is `dragoman.load` from Python, `help` is `dragoman --help`, which needs no
model. Whole processes, visited in turn in rounds after one that is not counted, until their first line is there. Prints
a JSON line for each: median and fastest seconds, and the largest peak of resident memory. Give it the machine for
itself; the goals are 0.4 s and 250 MiB.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

TEXT = "A man rides a bicycle."
LOAD = "import sys, dragoman; print(dragoman.load(sys.argv[1]).translate(sys.argv[2]), flush=True)"
GOALS = {"seconds": 0.4, "mib": 250}

Sample = tuple[float, float]
"""Seconds and MiB of one process."""


def commands(model: Path, text: str) -> dict[str, list[str]]:
    """What is started."""
    own = ["-m", "dragoman"]
    starts = {"translate": [*own, "translate", "--model", str(model), text], "load": ["-c", LOAD, str(model), text]}
    return {name: [sys.executable, *rest] for name, rest in {**starts, "help": [*own, "--help"]}.items()}


def sample(command: Sequence[str]) -> Sample:
    """Run a process: seconds to its first line, and the peak of its memory.

    Linux counts what this script had when it started the process; that is less than any of them takes.

    Raises:
        CalledProcessError: it failed.
    """
    started = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        seconds = time.perf_counter() - started
        process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return seconds, usage.ru_maxrss / (1 << 20 if sys.platform == "darwin" else 1 << 10)


def summary(samples: Sequence[Sample]) -> dict[str, float]:
    """The figures of one contender."""
    seconds, memory = zip(*samples, strict=True)
    return {
        "median_seconds": round(statistics.median(seconds), 3),
        "fastest_seconds": round(min(seconds), 3),
        "peak_mib": round(max(memory), 1),
        "processes": len(samples),
    }


def random_model(root: Path) -> Path:
    """Base size, int8; made in another process, so that what it needs is not counted."""
    script = "import sys; from pathlib import Path; from decode_models import *; root = Path(sys.argv[1]);"
    script += " write_random(root, 'base'); write_int8(root)"
    subprocess.run([sys.executable, "-c", script, str(root)], check=True, cwd=Path(__file__).parent)
    return root


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, nargs="?")
    parser.add_argument("--text", default=TEXT)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        model = options.model or random_model(Path(temporary) / "base")
        starts = commands(model, options.text)
        rounds = [{name: sample(command) for name, command in starts.items()} for _ in range(options.rounds + 1)]
    for name in starts:
        print(json.dumps({"start": name, **summary([one[name] for one in rounds[1:]])}))  # noqa: T201
    print(json.dumps({"goals": GOALS}))  # noqa: T201


if __name__ == "__main__":
    main()
