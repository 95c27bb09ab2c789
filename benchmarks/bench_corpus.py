"""Preparing and reading a corpus of any size: time and peak memory. Prints one JSON line.

    python benchmarks/bench_corpus.py [--pairs 10000000] [--folder DIR]

Pairs are generated (numbers in words, ten words a side), written as two plain files, then go through what
`dragoman train` does before its first update - counting, learning a vocabulary, ids on disk - and batches of one epoch
are drawn and read.
"""

import argparse
import json
import resource
import shutil
import tempfile
import time
from itertools import islice
from pathlib import Path

from dragoman.data.corpus import open_corpus
from dragoman.store.folder import ModelFolder
from dragoman.train.prepare import Sources, prepare
from dragoman.train.step import Place, Reader

WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
SIGNS = ["null", "eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun"]


class Silent:
    """Watches and says nothing."""

    def progress(self, progress: object) -> None: ...
    def validation(self, validation: object) -> None: ...
    def message(self, text: str) -> None: ...


def write(folder: Path, pairs: int) -> tuple[Path, Path]:
    """Two plain files of ``pairs`` lines."""
    paths = folder / "train.en", folder / "train.de"
    with paths[0].open("w", encoding="utf-8") as src, paths[1].open("w", encoding="utf-8") as tgt:
        for number in range(pairs):
            digits = [int(digit) for digit in str(number * 2654435761 % 10**10).zfill(10)]
            src.write(" ".join(WORDS[digit] for digit in digits) + "\n")
            tgt.write(" ".join(SIGNS[digit] for digit in reversed(digits)) + "\n")
    return paths


def peak() -> float:
    """Peak resident memory so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=10_000_000)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--batches", type=int, default=100_000, help="batches of the epoch that are read")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(dir=options.folder))
    facts: dict[str, float] = {"pairs": options.pairs}
    started = time.monotonic()
    paths = write(folder, options.pairs)
    facts["write_seconds"] = round(time.monotonic() - started, 1)
    facts["rss_before_mib"] = round(peak())
    started = time.monotonic()
    model = ModelFolder.create(folder / "model")
    prepared = prepare(model, Sources(open_corpus(list(paths)), None), [], Silent())
    facts["prepare_seconds"] = round(time.monotonic() - started, 1)
    facts["pairs_per_minute"] = round(options.pairs / facts["prepare_seconds"] * 60)
    facts["rss_prepare_mib"] = round(peak())
    started = time.monotonic()
    reader = Reader(prepared.tokens, prepared.config.data.batch_tokens, 1, None, None)
    facts["batches"] = sum(1 for _ in islice(reader.read(Place()), options.batches))
    facts["read_seconds"] = round(time.monotonic() - started, 1)
    facts["rss_mib"] = round(peak())
    shutil.rmtree(folder)
    print(json.dumps(facts))  # noqa: T201


if __name__ == "__main__":
    main()
