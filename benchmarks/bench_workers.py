"""What sharing an update out costs: two processes with a thread each against one process with two threads.

    python benchmarks/bench_workers.py DATA --out workers

DATA holds train.{en,de}.gz of Multi30k. Both make updates of the same two batches, which one process accumulates, and
take turns; the tokens/s are those of the journal, which counts updates alone: no preparation, no
validation. Give it the machine for itself. Prints a line of JSON for each round and, in the end, the median ratio: the
goal is 0.85. Sides are `one` and `two`. Model, optimizer and size of the batches are those that such a corpus
gets by default; `--preset` takes another model (with Adam), `--backend torch` has PyTorch's operations compute in both.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

GOAL = 0.85
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")


def command(side: str, options: argparse.Namespace, out: Path, steps: int) -> list[str]:
    """What trains ``steps`` updates into ``out``."""
    starter = TORCHRUN if side == "two" else ()
    files = [str(options.data / f"train.{language}.gz") for language in ("en", "de")]
    chosen = {"model.preset": options.preset, "data.batch_tokens": options.batch_tokens}
    settings = {
        **{key: value for key, value in chosen.items() if value},
        "train.backend": options.backend,
        "train.schedule": "noam",  # of which the length may change
        "train.steps": steps,
        "train.validate_every": 10**6,
        "train.save_every": 10**6,
        "train.validate_limit": 1,
        "train.accumulate": 2 if side == "one" else 1,
    }
    wanted = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    return [sys.executable, *starter, "-m", "dragoman", "train", *files, "--out", str(out), *wanted]


def train(side: str, options: argparse.Namespace, out: Path, steps: int) -> None:
    """Run it; its messages go to ``out``.log."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1" if side == "two" else "2"}
    with open(f"{out}.log", "w", encoding="utf-8") as log:
        subprocess.run(command(side, options, out, steps), env=environment, stderr=log, stdout=log, check=True)


def prepared(side: str, options: argparse.Namespace) -> Path:
    """A folder whose first update is made."""
    out: Path = options.out / side
    if not out.exists():
        train(side, options, out, 1)
    return out


def tokens_per_second(journal: Path) -> float:
    """The running mean at the last update that was noted."""
    events = [json.loads(line) for line in journal.read_text(encoding="utf-8").splitlines()]
    return float([event["tokens_per_second"] for event in events if event["event"] == "update"][-1])


def measure(side: str, options: argparse.Namespace, number: int) -> float:
    """Tokens/s of one training."""
    out = options.out / f"{side}-{number}"
    shutil.rmtree(out, ignore_errors=True)
    shutil.copytree(prepared(side, options), out)
    train(side, options, out, options.steps)
    return tokens_per_second(out / "journal.jsonl")


def main(arguments: Sequence[str] | None = None) -> None:
    """See above."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--preset")
    parser.add_argument("--batch-tokens", type=int)
    parser.add_argument("--backend", default="auto")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    ratios = []
    for number in range(options.rounds):
        order = ("one", "two") if number % 2 == 0 else ("two", "one")
        speeds = {side: measure(side, options, number) for side in order}
        ratios.append(speeds["two"] / speeds["one"])
        print(json.dumps({"round": number, **speeds, "ratio": round(ratios[-1], 3)}), flush=True)  # noqa: T201
    median = statistics.median(ratios)
    print(json.dumps({"median ratio": round(median, 3), "goal": GOAL, "reached": median >= GOAL}))  # noqa: T201


if __name__ == "__main__":
    main()
