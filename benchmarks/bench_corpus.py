"""Preparing and reading a corpus of any size: time and peak memory of each stage. Prints one JSON line.

    python benchmarks/bench_corpus.py [--pairs 10000000] [--folder DIR] [--batches 100000] [--corpus DIR] [--updates N]

Pairs are generated (a million made-up words a side, as frequent as in nature), written as two plain files, then go
through what `dragoman train` does before its first update - hashing, the report of `dragoman check`, learning a
vocabulary, ids on disk - and batches of one epoch are drawn and read. With ``--updates`` a small model is then trained
on it and on a corpus of 100,000 such pairs in turn, so many updates at a time, reading included: the median ratio of
the tokens/s should be 0.97 at least. Without it no model is built: its memory does not depend on the corpus.

Memory is sampled five times a second: ``anonymous`` is what the process needs, ``mapped`` are pages of files (programs
and the token file) that the system takes back when it wants to. Progress goes to standard error.
"""

import argparse
import json
import multiprocessing
import resource
import shutil
import statistics
import sys
import tempfile
import threading
import time
from itertools import islice, pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dragoman.config import Layer
from dragoman.data.corpus import open_corpus
from dragoman.store.folder import ModelFolder
from dragoman.train.path import choose
from dragoman.train.prepare import Prepared, Sources, prepare
from dragoman.train.state import begin
from dragoman.train.step import Place, Reader

SYLLABLES = {
    "en": [first + vowel for first in "b d f g k l m n p r s t th sh w".split() for vowel in "a e i o u ea oo".split()],
    "de": [first + vowel for first in "b d f g k l m n pf r s t z sch w".split() for vowel in "a e i o u ä ie".split()],
}
WORDS, CHUNK, LONGEST = 1_000_000, 10_000, 24
EVERY, TOLD = 0.2, 30.0
FEW, ROUNDS = 100_000, 7
SMALL: Layer = {"model": {"preset": "tiny"}, "data": {"batch_tokens": 512}, "text": {"vocab_size": 10_000}}
"""Whatever the corpus, so that reading weighs as much as it ever does."""


class Meter:
    """Samples the memory of this process, says now and then how far it is, and keeps the peaks of each stage."""

    def __init__(self) -> None:
        self.stage, self.facts = "", dict[str, float]()
        self._began = self._told = self._staged = time.monotonic()
        threading.Thread(target=self._watch, daemon=True).start()

    def enter(self, stage: str) -> None:
        """A stage begins; the one before it ends."""
        now = time.monotonic()
        if self.stage:
            self.facts[f"{self.stage}_seconds"] = round(now - self._staged, 1)
        self._sample()
        self.stage, self._staged = stage, now
        self._sample()
        self._tell()

    def _watch(self) -> None:
        while True:
            self._sample()
            if time.monotonic() - self._told > TOLD:
                self._tell()
            time.sleep(EVERY)

    def _sample(self) -> None:
        for kind, size in resident().items():
            key = f"{self.stage or 'start'}_{kind}_mib"
            self.facts[key] = max(self.facts.get(key, 0), size)

    def _tell(self) -> None:
        self._told = time.monotonic()
        sys.stderr.write(f"{self._told - self._began:8.1f} s  {self.stage}: {resident()}\n")

    # A watcher of the preparation: its messages are where its stages begin.
    def progress(self, progress: object) -> None: ...
    def validation(self, validation: object) -> None: ...
    def message(self, text: str) -> None:
        """Take the beginning of the report and of the vocabulary as stages."""
        sys.stderr.write(f"{text}\n")
        if text.startswith("reading the corpus"):
            self.enter("report")
        if text.startswith("learning a vocabulary"):
            self.enter("vocabulary")
        if text.startswith("writing the ids"):
            self.enter("ids")


def resident() -> dict[str, int]:
    """Resident memory of this process in MiB: anonymous and mapped."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    names = {"anonymous": "RssAnon", "mapped": "RssFile"}
    return {name: int(status[key].split()[0]) // 1024 for name, key in names.items()}


def write(folder: Path, pairs: int) -> None:
    """Two plain files of ``pairs`` lines: the target is the source word by word, backwards."""
    draws = np.random.default_rng(1)
    tables = [[word(rank, syllables) for rank in range(WORDS)] for syllables in SYLLABLES.values()]
    with (
        (folder / f"{pairs}.en").open("w", encoding="utf-8") as src,
        (folder / f"{pairs}.de").open("w", encoding="utf-8") as tgt,
    ):
        for start in range(0, pairs, CHUNK):
            lengths = draws.integers(3, LONGEST, min(CHUNK, pairs - start))
            ranks = zipf(draws.random(lengths.sum())).tolist()
            edges = [0, *np.cumsum(lengths).tolist()]
            sentences = [ranks[left:right] for left, right in pairwise(edges)]
            src.writelines(f"{' '.join(map(tables[0].__getitem__, each))}.\n" for each in sentences)
            tgt.writelines(f"{' '.join(map(tables[1].__getitem__, each[::-1]))}.\n" for each in sentences)


def zipf(draws: NDArray[np.float64]) -> NDArray[np.int64]:
    """Ranks below ``WORDS`` whose frequency falls with the power 1.1 of the rank, from uniform draws."""
    return ((1.0 - draws * (1.0 - WORDS**-0.1)) ** -10.0).astype(np.int64) - 1


def word(rank: int, syllables: list[str]) -> str:
    """The word of a rank: frequent ones are short."""
    letters = ""
    while rank or not letters:
        rank, place = divmod(rank, len(syllables))
        letters += syllables[place]
    return letters


def generate(folder: Path, pairs: int) -> tuple[Path, Path]:
    """Write the files, if they are not there, in a process of its own, whose memory is not ours."""
    paths = folder / f"{pairs}.en", folder / f"{pairs}.de"
    if all(path.exists() for path in paths):
        return paths
    writer = multiprocessing.get_context("spawn").Process(target=write, args=(folder, pairs))
    writer.start()
    writer.join()
    return paths


class Learner:
    """Makes updates of a small model from a corpus."""

    def __init__(self, prepared: Prepared) -> None:
        training = begin(prepared.config, prepared.src.vocab_size, prepared.tgt.vocab_size)
        self._path = choose(training, prepared.config, print)
        self._batches = prepared.reader().read(Place())
        self._step = 0

    def tokens_per_second(self, updates: int) -> float:
        """Of so many updates, reading included."""
        started, tokens = time.monotonic(), 0
        for batch, _ in islice(self._batches, updates):
            self._step += 1
            gradient = self._path.gradient([batch], self._step)
            self._path.update(gradient, 1e-4, self._step)
            tokens += gradient.tokens
        return tokens / (time.monotonic() - started)


def compare(folder: Path, many: Prepared, updates: int, meter: Meter) -> dict[str, float]:
    """Train on ``many`` pairs and on few in turn."""
    sources = Sources(open_corpus(list(generate(folder, FEW))), None)
    few = prepare(ModelFolder.create(folder / "few"), sources, [SMALL], Meter())
    meter.enter("train")
    learners = [Learner(prepared) for prepared in (few, many)]
    speeds = [[learner.tokens_per_second(updates) for learner in learners] for _ in range(ROUNDS + 1)][1:]
    return {
        "tokens_per_second": round(statistics.median(on_many for _, on_many in speeds)),
        "tokens_per_second_few": round(statistics.median(on_few for on_few, _ in speeds)),
        "ratio": round(statistics.median(on_many / on_few for on_few, on_many in speeds), 3),
    }


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=10_000_000)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--batches", type=int, default=100_000, help="batches of the epoch that are read")
    parser.add_argument("--corpus", type=Path, help="where the files lie, or are to be left for the next time")
    parser.add_argument("--updates", type=int, default=0, help="that a model makes at a time")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(dir=options.folder))
    meter = Meter()
    meter.enter("write")
    paths = generate(options.corpus or folder, options.pairs)
    meter.enter("hash")
    layers = [SMALL] if options.updates else []
    prepared = prepare(ModelFolder.create(folder / "model"), Sources(open_corpus(list(paths)), None), layers, meter)
    meter.enter("epoch")
    reader = Reader(prepared.tokens, prepared.config.data.batch_tokens, 1, None, None)
    batches = sum(1 for _ in islice(reader.read(Place()), options.batches))
    prepared_in = sum(meter.facts[f"{stage}_seconds"] for stage in ("hash", "report", "vocabulary", "ids"))
    sizes = {path.name: round(path.stat().st_size / 2**20) for path in [*paths, *(folder / "model").rglob("*.bin")]}
    compared = compare(folder, prepared, options.updates, meter) if options.updates else {}
    meter.enter("end")
    summary = {
        "pairs": options.pairs,
        "prepare_seconds": round(prepared_in, 1),
        "cpu_seconds": round(time.process_time(), 1),
        "pairs_per_minute": round(options.pairs / prepared_in * 60),
        "batches": batches,
        "pieces_a_pair": round(len(prepared.tokens.ids) / len(prepared.tokens), 1),
        "files_mib": sizes,
        **compared,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }
    shutil.rmtree(folder)
    print(json.dumps({**summary, **meter.facts}))  # noqa: T201


if __name__ == "__main__":
    main()
