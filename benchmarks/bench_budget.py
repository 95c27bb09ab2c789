"""How good is a translator after 2, 5, 10, ... minutes of training? The curve of BLEU of dragoman and of a peer.

    python benchmarks/bench_budget.py DATA de --out budgets --peers-python peers/bin/python
    python benchmarks/bench_budget.py DATA de --out budgets --budgets 2,5 --sides dragoman

DATA holds {train,val,test_2016_flickr}.{en,de,fr}.gz of Multi30k. For each budget a training from the raw files:
`dragoman train --budget 5m`, which chooses everything else itself, and peer_marian_budget.py, MarianMT of transformers
with the sizes and the vocabulary that papers use for this corpus. Each training is one of its own, since its schedule
ends with its budget. Then test_2016_flickr is translated with beam 5, which does not count, and measured in the
published manner (see published_bleu.py) and by sacreBLEU.

The sides take turns within a budget; give them the machine for themselves. What is finished lies in OUT and is not done
again: the same command goes on after an interruption. Prints a JSON line for each training and a table in the end.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
TEST = "test_2016_flickr"
SIDES = ("dragoman", "marian")


def files(data: Path, language: str) -> dict[str, list[str]]:
    """Source and target of each part of the corpus."""
    return {name: [str(data / f"{name}.{side}.gz") for side in ("en", language)] for name in ("train", "val", TEST)}


def folder_of(options: argparse.Namespace, side: str, minutes: str) -> Path:
    """Where everything of one training lies."""
    out: Path = options.out / f"{side}-en-{options.language}-{minutes}m"
    return out


def run(command: Sequence[object], log: Path) -> str:
    """Standard output of a command; standard error goes behind ``log``."""
    with log.open("a", encoding="utf-8") as sink:
        done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=sink, text=True)
    if done.returncode:
        last = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
        raise SystemExit(f"{command[0]} ended with {done.returncode}: {last[-1] if last else ''} (see {log})")
    return done.stdout


def train_dragoman(options: argparse.Namespace, minutes: str, out: Path) -> dict[str, Any]:
    """Train for the budget and translate the test set.

    Returns:
        Minutes from the start of the process to its end, and updates.
    """
    corpus, model, log = files(options.data, options.language), out / "model", out / "log"
    ours = [sys.executable, "-m", "dragoman"]
    asked = ["--out", model, "--budget", f"{minutes}m", "--set", f"train.threads={options.threads}"]
    started = time.monotonic()
    run([*ours, "train", *corpus["train"], "--valid", *corpus["val"], *asked], log)
    spent = (time.monotonic() - started) / 60
    run([*ours, "evaluate", "--model", model, *corpus[TEST], "--output", out / "hypotheses", "--json"], log)
    return {"minutes": round(spent, 3), **last_update(model / "journal.jsonl")}


def last_update(journal: Path) -> dict[str, Any]:
    """Number of updates and pieces of a training, from its journal."""
    lines = [json.loads(line) for line in journal.read_text(encoding="utf-8").splitlines()]
    last = next((line for line in reversed(lines) if "tokens" in line), {})
    return {name: last[key] for name, key in (("updates", "step"), ("tokens", "tokens")) if key in last}


def train_marian(options: argparse.Namespace, minutes: str, out: Path) -> dict[str, Any]:
    """The same for the peer, which counts its minutes itself: translating is in the same process."""
    corpus = files(options.data, options.language)
    asked = ["--minutes", minutes, "--threads", options.threads, *options.peer_options.split()]
    test = ["--test", corpus[TEST][0], "--output", out / "hypotheses"]
    script = [options.peers_python, HERE / "peer_marian_budget.py"]
    told = run([*script, *corpus["train"], *asked, *test], out / "log")
    facts: dict[str, Any] = json.loads(told.strip().splitlines()[-1])
    return facts


def one_training(options: argparse.Namespace, side: str, minutes: str) -> dict[str, Any]:
    """Everything of one training and its BLEU; read from its folder if it was done before."""
    out = folder_of(options, side, minutes)
    done = out / "figures.json"
    if done.exists():
        figures: dict[str, Any] = json.loads(done.read_text(encoding="utf-8"))
        return figures
    shutil.rmtree(out, ignore_errors=True)  # one that was interrupted begins anew, or its clock would not be true
    out.mkdir(parents=True)
    facts = (train_dragoman if side == "dragoman" else train_marian)(options, minutes, out)
    reference = files(options.data, options.language)[TEST][1]
    script = [sys.executable, HERE / "published_bleu.py", out / "hypotheses", reference]
    scores = json.loads(run([*script, "--language", options.language], out / "log"))
    figures = {"side": side, "budget_minutes": float(minutes), "threads": options.threads, **facts, **scores}
    done.write_text(json.dumps(figures) + "\n", encoding="utf-8")
    return figures


def table(figures: Sequence[Mapping[str, Any]]) -> list[str]:
    """Lines of Markdown, a budget a line."""
    sides = [side for side in SIDES if any(one["side"] == side for one in figures)]
    found = {(one["side"], one["budget_minutes"]): one for one in figures}
    heads = "".join(f" {side}: minutes | updates | published BLEU | sacreBLEU |" for side in sides)
    lines = [f"| budget |{heads}", "|---|" + "---|" * (4 * len(sides))]
    for minutes in sorted({one["budget_minutes"] for one in figures}):
        cells = []
        for side in sides:
            one = found.get((side, minutes))
            cells += (
                [f"{one['minutes']:.1f}", f"{one.get('updates', 0):,}"]
                + [f"{one[score]:.2f}" for score in ("published_bleu", "sacrebleu_cased")]
                if one
                else [""] * 4
            )
        lines.append(f"| {minutes:g} | {' | '.join(cells)} |")
    return lines


def listed(text: str) -> list[str]:
    """What stands between commas."""
    return [part.strip() for part in text.split(",") if part.strip()]


def parse() -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("language", choices=["de", "fr"])
    parser.add_argument("--out", type=Path, required=True, help="folder for everything that is made")
    parser.add_argument("--budgets", type=listed, default="2,5,10,20,40,80", help="minutes, separated by commas")
    parser.add_argument("--sides", type=listed, default=",".join(SIDES))
    parser.add_argument("--threads", type=int, default=min(2, len(os.sched_getaffinity(0))))
    parser.add_argument("--peers-python", default=sys.executable, help="interpreter that has transformers")
    parser.add_argument("--peer-options", default="", help="for peer_marian_budget.py, such as '--learning-rate 1e-3'")
    options = parser.parse_args()
    if unknown := set(options.sides) - set(SIDES):
        parser.error(f"unknown sides {', '.join(sorted(unknown))}; known are {', '.join(SIDES)}")
    return options


def say(text: str) -> None:
    """A line on standard output."""
    print(text, flush=True)  # noqa: T201


def main() -> None:
    """Run it."""
    options = parse()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.threads])
    figures = []
    for minutes in options.budgets:
        for side in options.sides:
            figures.append(one_training(options, side, minutes))
            say(json.dumps(figures[-1]))
    for line in ["", *table(figures)]:
        say(line)


if __name__ == "__main__":
    main()
