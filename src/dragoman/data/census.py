"""Everything the doctor counts about a corpus in one pass, in 16 bytes a pair."""

import heapq
import math
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dragoman.data.alignment import AlignmentWatch
from dragoman.data.characters import IntArray, characters
from dragoman.data.pair import Pair
from dragoman.data.profile import SHOWN, SideProfile, Tally

BATCH = 4096

OUTLIER = 3.0
"""A pair whose length ratio is so many times the median ratio, or less than its inverse, is an outlier."""

_BINS_PER_OCTAVE = 16
_OCTAVES = 12
_DAMPING = 5
"""Added to both lengths, so that one character for two is no outlier."""

_PARTS = 16


class Extreme(NamedTuple):
    """A pair with an unusual length ratio."""

    octaves: float
    "log2 of the damped ratio target / source."
    pair: Pair


@dataclass
class LengthRatios:
    """How long targets are for their sources."""

    bins: IntArray = field(default_factory=lambda: np.zeros(2 * _OCTAVES * _BINS_PER_OCTAVE + 1, np.int64))
    highest: list[Extreme] = field(default_factory=list)
    lowest: list[Extreme] = field(default_factory=list)
    moments: npt.NDArray[np.float64] = field(default_factory=lambda: np.zeros(6))

    def add(self, src: IntArray, tgt: IntArray, batch: Sequence[Pair]) -> None:
        """The next pairs and their lengths in characters."""
        octaves = np.log2((tgt + _DAMPING) / (src + _DAMPING))
        found = np.clip(np.rint((octaves + _OCTAVES) * _BINS_PER_OCTAVE), 0, len(self.bins) - 1).astype(np.int64)
        self.bins += np.bincount(found, minlength=len(self.bins))
        order = np.argsort(octaves, kind="stable")
        self.lowest = _nearest(self.lowest, order[:SHOWN], octaves, batch, 1)
        self.highest = _nearest(self.highest, order[::-1][:SHOWN], octaves, batch, -1)
        x, y = np.log1p(src), np.log1p(tgt)
        self.moments += [len(x), x.sum(), y.sum(), (x * x).sum(), (y * y).sum(), (x * y).sum()]

    def median(self) -> float:
        """Middle of target length / source length."""
        return float(2.0 ** self._median_octaves())

    def outliers(self) -> tuple[int, list[Extreme]]:
        """How many pairs are outliers, and the most extreme of them."""
        middle, reach = self._median_octaves(), math.log2(OUTLIER)
        octaves = np.arange(len(self.bins)) / _BINS_PER_OCTAVE - _OCTAVES
        count = int(self.bins[np.abs(octaves - middle) > reach].sum())
        extremes = [item for item in (*self.highest, *self.lowest) if abs(item.octaves - middle) > reach]
        return count, sorted(extremes, key=lambda item: (-abs(item.octaves - middle), item.pair.line))[:SHOWN]

    def correlation(self) -> float | None:
        """Of the log lengths; nothing if one side has only one length."""
        n, x, y, xx, yy, xy = self.moments.tolist()
        spread = max(0.0, n * xx - x * x) * max(0.0, n * yy - y * y)
        return (n * xy - x * y) / math.sqrt(spread) if spread > 1e-9 * n * n else None

    def _median_octaves(self) -> float:
        total = np.cumsum(self.bins)
        return int(np.searchsorted(total, (total[-1] + 1) // 2)) / _BINS_PER_OCTAVE - _OCTAVES


def _nearest(
    kept: list[Extreme], indices: IntArray, octaves: npt.NDArray[np.float64], batch: Sequence[Pair], sign: int
) -> list[Extreme]:
    new = [Extreme(float(octaves[index]), batch[index]) for index in indices.tolist()]
    return heapq.nsmallest(SHOWN, [*kept, *new], key=lambda item: (sign * item.octaves, item.pair.line))


@dataclass
class Census:
    """Sums over the pairs of a corpus."""

    pairs: int = 0
    src: SideProfile = field(default_factory=SideProfile)
    tgt: SideProfile = field(default_factory=SideProfile)
    copies: Tally = field(default_factory=Tally)
    ratios: LengthRatios = field(default_factory=LengthRatios)
    watch: AlignmentWatch = field(default_factory=AlignmentWatch)
    pair_hashes: "array[int]" = field(default_factory=lambda: array("q"))
    src_hashes: "array[int]" = field(default_factory=lambda: array("q"))
    lines: "array[int] | None" = None
    "Line numbers of all pairs, if they are wanted (they are for the small sets)."

    def add_all(self, pairs: Iterable[Pair]) -> None:
        """Count pairs to the end, or to the first error, which is passed on after the pairs before it are counted."""
        batch: list[Pair] = []
        try:
            for pair in pairs:
                batch.append(pair)
                if len(batch) == BATCH:
                    self._add(batch)
                    batch = []
        finally:
            if batch:
                self._add(batch)
            self.watch.look()

    def _add(self, batch: Sequence[Pair]) -> None:
        src, tgt, lines = zip(*batch, strict=True)
        numbers = np.array(lines, np.int64)
        src_chars, tgt_chars = characters(src), characters(tgt)
        self.pairs += len(batch)
        self.src.add(src, src_chars, numbers)
        self.tgt.add(tgt, tgt_chars, numbers)
        self.copies.add([pair.line for pair in batch if pair.src == pair.tgt])
        self.ratios.add(src_chars.lengths, tgt_chars.lengths, batch)
        self.watch.add(src_chars, tgt_chars, numbers)
        self.src_hashes.extend(map(hash, src))
        self.pair_hashes.extend(map(hash, zip(src, tgt, strict=True)))
        if self.lines is not None:
            self.lines.extend(lines)


class Repeats(NamedTuple):
    """What occurs more than once in a corpus."""

    duplicates: int
    "Pairs that repeat an earlier pair."
    several_targets: int
    "Sources with more than one translation."


class Shared(NamedTuple):
    """What a small corpus shares with another."""

    pairs: Tally
    sources: Tally


def repeats(census: Census) -> Repeats:
    """Count the repeats by 64-bit hashes; a wrong count needs a collision (one in 400,000 for ten million pairs).

    Memory: a sixteenth of the hashes, a few times.
    """
    duplicates = several = 0
    for pairs, sources in _parts(census):
        order = np.lexsort((pairs, sources))
        pairs, sources = pairs[order], sources[order]
        fresh = np.ones(len(pairs), bool)
        fresh[1:] = (pairs[1:] != pairs[:-1]) | (sources[1:] != sources[:-1])
        distinct = sources[fresh]
        duplicates += len(pairs) - len(distinct)
        again = distinct[1:] == distinct[:-1]
        several += int(np.count_nonzero(again)) - int(np.count_nonzero(again[1:] & again[:-1]))
    return Repeats(duplicates, several)


def shared(small: Census, large: Census) -> Shared:
    """Which pairs, and which sources, of ``small`` (counted with its line numbers) are in ``large`` too."""
    lines = np.array(small.lines, np.int64)
    own_pairs, own_sources = np.array(small.pair_hashes, np.int64), np.array(small.src_hashes, np.int64)
    pair_found, source_found = np.zeros(len(lines), bool), np.zeros(len(lines), bool)
    for pairs, sources in _parts(large):
        pair_found |= _isin(own_pairs, np.sort(pairs))
        source_found |= _isin(own_sources, np.sort(sources))
    found = Shared(Tally(), Tally())
    found.pairs.add(lines[pair_found])
    found.sources.add(lines[source_found])
    return found


def _parts(census: Census) -> Iterator[tuple[IntArray, IntArray]]:
    """The pairs' and sources' hashes in parts that share no source."""
    pairs, sources = np.frombuffer(census.pair_hashes, np.int64), np.frombuffer(census.src_hashes, np.int64)
    for part in range(_PARTS):
        chosen = (sources & (_PARTS - 1)) == part
        if chosen.any():
            yield pairs[chosen], sources[chosen]


def _isin(values: IntArray, ordered: IntArray) -> npt.NDArray[np.bool_]:
    places = np.minimum(np.searchsorted(ordered, values), len(ordered) - 1)
    found: npt.NDArray[np.bool_] = ordered[places] == values
    return found
