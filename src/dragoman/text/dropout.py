"""BPE-dropout: other ways to cut the same words, so that training sees many segmentations (Provilkov et al. 2020)."""

import random
import sys
from collections.abc import Sequence
from itertools import pairwise

from dragoman.text.tokenizer import SPECIALS, Tokenizer

ALTERNATIVES = 64
"""Segmentations drawn for each distinct word and then chosen from: drawing a new one every time would cost more than
a step of a small model."""

REMEMBERED = 50_000
"""Distinct words that are remembered; when they are so many, all are forgotten, which changes no result."""


class BpeDropout:
    """Cuts sentences anew, each merge being skipped with probability ``rate``; a pure function of its seeds.

    At rate 0 the pieces are the tokenizer's own, but for one thing: it never merges a letter with a sign, here only
    spaces part. In scripts of several bytes a character a piece may therefore, rarely, hold an end and a beginning.
    """

    def __init__(self, tokenizer: Tokenizer, rate: float, seed: int, longest: int = sys.maxsize) -> None:
        """``longest``: pieces of a sentence; one that would have more is left as it was cut."""
        self.rate = rate
        self.seed = seed
        self.longest = longest
        vocab = tokenizer.vocab
        self._rank = {
            (vocab[left], vocab[right]): (rank, vocab[left + right])
            for rank, (left, right) in enumerate(tokenizer.merges)
        }
        self._bytes = tokenizer.bytes_of
        self._byte_ids = {raw[0]: index for index, raw in enumerate(self._bytes) if len(raw) == 1}
        self._starts = [raw[:1] == b" " for raw in self._bytes]
        self._memory: dict[tuple[int, ...], dict[int, tuple[int, ...]]] = {}

    def segment(self, ids: Sequence[int], draws: random.Random) -> list[int]:
        """The text of ``ids`` cut by other pieces; special ids stay where they are."""
        segmented: list[int] = []
        for word in self._words(ids):
            segmented += self._alternative(word, int(draws.random() * ALTERNATIVES))
        return segmented if len(segmented) <= self.longest else list(ids)

    def _words(self, ids: Sequence[int]) -> list[tuple[int, ...]]:
        """Runs of ids from one leading space to the next; merges never cross a space."""
        starts = [place for place, index in enumerate(ids) if self._starts[index] or index < len(SPECIALS)]
        edges = [*([] if starts[:1] == [0] else [0]), *starts, len(ids)]
        return [tuple(ids[left:right]) for left, right in pairwise(edges) if left < right]

    def _alternative(self, word: tuple[int, ...], which: int) -> tuple[int, ...]:
        if len(self._memory) > REMEMBERED:
            self._memory = {}
        known = self._memory.setdefault(word, {})
        if which not in known:
            known[which] = self._draw(word, random.Random(f"{self.seed} {word} {which}"))
        return known[which]

    def _draw(self, word: tuple[int, ...], draws: random.Random) -> tuple[int, ...]:
        symbols = [self._byte_ids[byte] for index in word for byte in self._bytes[index]] or list(word)
        if word[0] < len(SPECIALS):
            symbols = [word[0], *(symbols if len(word) > 1 else [])]
        while True:
            allowed = [
                (*self._rank[pair], place)
                for place, pair in enumerate(pairwise(symbols))
                if pair in self._rank and draws.random() >= self.rate
            ]
            if not allowed:
                return tuple(symbols)
            _, merged, place = min(allowed)
            symbols[place : place + 2] = [merged]
