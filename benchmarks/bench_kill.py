"""Kill a training at random instants and resume it: does it end in the same bits? Prints one JSON line.

    python benchmarks/bench_kill.py [--kills 20] [--seed 1]

A training of 120 updates (2+2 layers, d_model 64, BPE-dropout, a checkpoint every 5 updates) on generated digits runs
once undisturbed. Then it is begun anew, killed with SIGKILL after a random time, resumed, killed again, until the kills
are used up, and let run to its end. Compared are the SHA-256 of the model and of the tensors of the last checkpoint.
"""

import argparse
import hashlib
import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SETTINGS = (
    "model.d_model=64",
    "model.num_heads=4",
    "model.num_encoder_layers=2",
    "model.num_decoder_layers=2",
    "model.d_ff=128",
    "text.vocab_size=320",
    "text.bpe_dropout=0.1",
    "data.batch_tokens=512",
    "train.steps=120",
    "train.warmup_steps=20",
    "train.save_every=5",
    "train.validate_every=40",
    "train.validate_limit=20",
    "train.threads=1",
)


def corpus(folder: Path) -> list[str]:
    """2,000 strings of digits and their reversals."""
    draws = random.Random(7)
    lines = [" ".join(str(draws.randrange(10)) for _ in range(draws.randrange(3, 9))) for _ in range(2000)]
    (folder / "train.src").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "train.tgt").write_text("\n".join(line[::-1] for line in lines) + "\n", encoding="utf-8")
    return [str(folder / "train.src"), str(folder / "train.tgt")]


def start(files: list[str], out: Path, log: Path) -> "subprocess.Popen[bytes]":
    """Begin or resume the training."""
    settings = [part for setting in SETTINGS for part in ("--set", setting)]
    with log.open("ab") as sink:
        return subprocess.Popen(
            [sys.executable, "-m", "dragoman", "train", *files, "--out", str(out), *settings], stdout=sink, stderr=sink
        )


def digests(out: Path) -> dict[str, str]:
    """What must be equal at the end; counters hold seconds, which may differ."""
    last = max((out / "training" / "checkpoints").glob("step-*"))
    files = [out / "model.safetensors", *sorted(last.glob("*.safetensors"))]
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    draws = random.Random(options.seed)
    folder = Path(tempfile.mkdtemp())
    files = corpus(folder)
    began = time.monotonic()
    if start(files, folder / "whole", folder / "whole.log").wait() != 0:
        sys.exit((folder / "whole.log").read_text(encoding="utf-8"))
    length = time.monotonic() - began
    kills, finished, runs = 0, 0, []
    while kills < options.kills:
        out = folder / f"killed-{len(runs)}"
        while kills < options.kills:
            running = start(files, out, folder / "killed.log")
            try:
                running.wait(timeout=draws.uniform(0.05, 1.0) * length)
                break
            except subprocess.TimeoutExpired:
                running.send_signal(signal.SIGKILL)
                running.wait()
                kills += 1
        if start(files, out, folder / "killed.log").wait() != 0:
            sys.exit((folder / "killed.log").read_text(encoding="utf-8"))
        runs.append(digests(out) == digests(folder / "whole"))
        finished += 1
    facts = {
        "seed": options.seed,
        "kills": kills,
        "trainings": finished,
        "identical": sum(runs),
        "undisturbed_seconds": round(length, 1),
    }
    shutil.rmtree(folder)
    print(json.dumps(facts))  # noqa: T201
    sys.exit(0 if all(runs) else 1)


if __name__ == "__main__":
    main()
