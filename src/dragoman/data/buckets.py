"""Which pairs go together: batches of similar length under a token budget, in an order that only the seed decides."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from dragoman.data.tokenfile import TokenFile

POOL = 100_000
"""Pairs that are sorted together; bounds memory, and hardly any padding is saved by more."""


def epoch(tokens: TokenFile, batch_tokens: int, seed: int, number: int) -> Iterator[NDArray[np.int64]]:
    """The batches of one epoch, each an array of pair indices; every pair exactly once.

    The order is a pure function of (``seed``, ``number``) and the corpus: a resumed run draws it again and skips what
    it has seen. Pairs are shuffled, sorted by length within pools of :data:`POOL` and cut so that the real tokens of
    their longer sides (EOS or BOS included) add up to at most ``batch_tokens``; a pair that alone is longer is a batch
    of its own. The batches of a pool come in random order.
    """
    draws = np.random.Generator(np.random.Philox(key=np.array([seed, number], dtype=np.uint64)))
    order = draws.permutation(np.arange(len(tokens), dtype=np.min_scalar_type(len(tokens))))
    for start in range(0, len(order), POOL):
        pool = order[start : start + POOL].astype(np.int64)
        lengths = tokens.lengths(pool) + 1
        by_length = np.lexsort((lengths[:, 0], lengths[:, 1]))
        edges = _cut(lengths[by_length].max(1), batch_tokens)
        for batch in draws.permutation(len(edges) - 1):
            yield pool[by_length[edges[batch] : edges[batch + 1]]]


def _cut(sizes: NDArray[np.int64], budget: int) -> list[int]:
    """Edges between batches of neighbours whose sizes add up to at most ``budget``."""
    ends = np.cumsum(sizes)
    edges = [0]
    while edges[-1] < len(sizes):
        begin = edges[-1]
        before = int(ends[begin - 1]) if begin else 0
        edges.append(max(int(np.searchsorted(ends, before + budget, side="right")), begin + 1))
    return edges
