"""A small language of everyday sentences, English and French, to train a first translator on.

The sentences come from ``speaker`` (what is said), ``grammar`` (how it is put together) and ``lexicon`` (the words).
An English sentence has one French translation and the other way round, so exact match is a fair measure.
"""

import functools
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations
from random import Random
from typing import NamedTuple

from dragoman.data.speaker import Speaker

Pair = tuple[str, str]
"""An English sentence and its French translation."""

SIZE = 10_000
"""Pairs of the language that are written out."""

SHOWPIECE = ("The cat is on the mat.", "Le chat est sur le tapis.")
"""The pair a demonstration shows, and so never trains on."""

SHOWN = frozenset({"cat", "mat"})
TEST_SHARE, VALID_SHARE = 0.03, 0.02
"""Of all pairs of content words."""


@dataclass(frozen=True)
class Split:
    """The language in three parts: a sentence of ``valid`` or ``test`` has two words that never meet in ``train``."""

    train: list[Pair]
    valid: list[Pair]
    test: list[Pair]


def all_pairs() -> list[Pair]:
    """The language written out: ``SIZE`` distinct pairs, always the same ones in the same order."""
    return [sentence.pair for sentence in _sentences()]


def split(seed: int) -> Split:
    """Hold out combinations of words: a test of composition, not of memory.

    Some pairs of content words are drawn by ``seed``, as one might draw cat and mat. Every sentence in which such a
    pair meets, in any form, is held out. Each word of a held-out sentence occurs in training, with other partners; the
    few held-out sentences for which that is not so are left out altogether. ``SHOWPIECE`` is in the test part always.

    Args:
        seed: Chooses the pairs of words.
    """
    parts: tuple[list[Pair], list[Pair], list[Pair]] = ([], [], [])
    for sentence in _sentences():
        parts[_part(sentence.words, seed)].append(sentence.pair)
    train, valid, test = parts
    known = _tokens(train)
    return Split(train, *([pair for pair in part if known.issuperset(_tokens([pair]))] for part in (valid, test)))


class _Sentence(NamedTuple):
    pair: Pair
    words: frozenset[str]


@functools.cache
def _sentences() -> tuple[_Sentence, ...]:
    sentences = [_Sentence(SHOWPIECE, SHOWN)]
    seen = set(SHOWPIECE)
    speaker = Speaker(Random(2017).random)
    while len(sentences) < SIZE:
        english, french, words = speaker.sentence()
        if seen.isdisjoint((english, french)):
            seen.update((english, french))
            sentences.append(_Sentence((english, french), words))
    return tuple(sentences)


def _part(words: Iterable[str], seed: int) -> int:
    """0 train, 1 valid, 2 test: the highest among the pairs of ``words``."""
    return max((_part_of_pair(a, b, seed) for a, b in combinations(sorted(words), 2)), default=0)


def _part_of_pair(a: str, b: str, seed: int) -> int:
    if {a, b} == SHOWN:
        return 2
    digest = hashlib.sha256(f"{seed} {a} {b}".encode()).digest()
    chance = int.from_bytes(digest[:8]) / 2**64
    return 2 if chance < TEST_SHARE else int(chance < TEST_SHARE + VALID_SHARE)


def _tokens(pairs: Iterable[Pair]) -> set[str]:
    """The words of both sides, each marked with its side."""
    return {f"{side} {word}" for pair in pairs for side, text in enumerate(pair) for word in text.split()}
