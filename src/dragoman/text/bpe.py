"""Byte-pair encoding at work: the ids of a text, by merges that were learned before (Sennrich et al. 2016)."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from heapq import heapify, heappop, heappush
from itertools import pairwise
from unicodedata import category

SPACES = frozenset("\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B))))
"""Unicode's White_Space; `str.isspace` takes four control characters more."""

CONTRACTIONS = ("'s", "'t", "'re", "'ve", "'m", "'ll", "'d")

REMEMBERED, LONGEST = 100_000, 40
"""Words that are remembered, and characters of the longest; in scripts without spaces a sentence is one word."""

_BEFORE_A_WORD = re.compile(r"(?= \S)")

Merges = Mapping[tuple[int, int], tuple[int, int]]
"""Two neighbours -> the rank of their merge (lower is earlier), and the id of both together."""


class Bpe:
    """Cuts text into ids. Words are cut once and remembered; what is remembered changes no result."""

    def __init__(self, byte_ids: Sequence[int], merges: Merges) -> None:
        """``byte_ids``: the id of each of the 256 bytes."""
        self._byte_ids = byte_ids
        self._merges = merges
        self._known: dict[str, list[int]] = {}

    def encode(self, text: str) -> list[int]:
        """Ids of a text, as it is."""
        known = self._known
        ids: list[int] = []
        for word in _BEFORE_A_WORD.split(text):
            found = known.get(word)
            ids += self._cut(word) if found is None else found
        return ids

    def _cut(self, word: str) -> list[int]:
        ids = [index for run in runs(word) for index in self._merged(run.encode())]
        if len(word) <= LONGEST:
            if len(self._known) >= REMEMBERED:
                self._known = {}
            self._known[word] = ids
        return ids

    def _merged(self, raw: bytes) -> list[int]:
        """Merge neighbours, the earliest learned merge first, the leftmost of equal ones first.

        The ids are a chain of places. A heap holds the merges that were possible when they were put there; those whose
        neighbours have changed since are passed over. O(n log n), for a text may be one word.
        """
        ids = [self._byte_ids[byte] for byte in raw]
        end = len(ids)
        after, before = list(range(1, end + 1)), list(range(-1, end - 1))
        merges = self._merges
        heap = [(*merges[pair], place) for place, pair in enumerate(pairwise(ids)) if pair in merges]
        heapify(heap)
        while heap:
            rank, joined, place = heappop(heap)
            right = after[place]
            if right >= end or merges.get((ids[place], ids[right])) != (rank, joined):
                continue
            ids[place], ids[right] = joined, -1
            after[place] = right = after[right]
            if right < end:
                before[right] = place
            for left in (before[place], place):
                if left >= 0 and after[left] < end and (pair := (ids[left], ids[after[left]])) in merges:
                    heappush(heap, (*merges[pair], left))
        return [index for index in ids if index >= 0]


def runs(text: str) -> Iterator[str]:
    r"""Stretches that no merge crosses: letters, digits or other signs, each with the space before it; white space.

    The pattern of GPT-2 (Radford et al. 2019):
    ``'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+``.
    """
    start, end = 0, len(text)
    while start < end:
        stop = _run(text, start, end)
        yield text[start:stop]
        start = stop


def _run(text: str, start: int, end: int) -> int:
    """Where the stretch that begins at ``start`` ends."""
    if text[start] == "'":
        for contraction in CONTRACTIONS:
            if text.startswith(contraction, start):
                return start + len(contraction)
    first = start + 1 if text[start] == " " and start + 1 < end and _kind(text[start + 1]) != "Z" else start
    wanted = _kind(text[first])
    stop = first + 1
    while stop < end and _kind(text[stop]) == wanted:
        stop += 1
    # The last white space before something else stands alone, or is the space before it.
    return stop - 1 if wanted == "Z" and stop < end and stop - start > 1 else stop


@lru_cache(4096)
def _kind(letter: str) -> str:
    """L: a letter, N: a number, Z: white space, O: anything else."""
    if letter in SPACES:
        return "Z"
    first = category(letter)[0]
    return first if first in "LN" else "O"
