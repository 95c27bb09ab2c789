"""Do products of bfloat16 learn as well as float32? Trains both from several seeds and compares BLEU and loss on val.

    python benchmarks/bench_precision.py DATA de --out DIR [--steps 6000] [--seeds 1,2,3] [--plain torch]

`packed` is the kernels with factors rounded to bfloat16 (on a processor without instructions for it, rounded as these
would round); `plain` is float32, by PyTorch's operations or, with `--plain native`, by the kernels. Prints a JSON line
for each training and one with the means. A finished training in DIR is not repeated.
"""

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any


def trained(options: argparse.Namespace, kind: str, seed: int) -> dict[str, Any]:
    """The last validation of a training, which is made if it is not there."""
    out = options.out / f"{kind}-{options.steps}-{seed}"
    sides = ("en", options.language)
    train, valid = ([options.data / f"{name}.{side}.gz" for side in sides] for name in ("train", "val"))
    precision, backend = ("bfloat16", "native") if kind == "packed" else ("float32", options.plain)
    settings = (f"train.seed={seed}", f"train.precision={precision}", f"train.backend={backend}", *options.set)
    command = [sys.executable, "-m", "dragoman", "train", *train, "--valid", *valid, "--out", out]
    command += ["--steps", options.steps, *(word for setting in settings for word in ("--set", setting))]
    subprocess.run([str(word) for word in command], check=True, stdout=sys.stderr)
    events = [json.loads(line) for line in (out / "journal.jsonl").read_text().splitlines()]
    last = [event for event in events if event["event"] == "validation"][-1]
    return {"kind": kind, "seed": seed, **{key: last[key] for key in ("step", "loss", "bleu", "chrf")}}


def tell(facts: dict[str, Any]) -> None:
    """One line of JSON."""
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("language", choices=["de", "fr"])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=6000)
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--plain", choices=["torch", "native"], default="torch")
    parser.add_argument("--set", action="append", default=[], help="Settings for all trainings.")
    options = parser.parse_args()
    found: dict[str, list[dict[str, Any]]] = {"packed": [], "plain": []}
    for seed in map(int, options.seeds.split(",")):
        for kind, results in found.items():
            results.append(trained(options, kind, seed))
            tell(results[-1])
    means = {
        key: {kind: statistics.mean(one[key] for one in results) for kind, results in found.items()}
        for key in ("bleu", "chrf", "loss")
    }
    difference = means["bleu"]["packed"] - means["bleu"]["plain"]
    tell({"steps": options.steps, **means, "packed_minus_plain": difference})


if __name__ == "__main__":
    main()
