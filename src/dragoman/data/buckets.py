"""Which pairs go together: batches of similar length under a token budget, in an order that only the seed decides."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from dragoman.data.tokenfile import TokenFile

POOL = 100_000
"""Pairs that are shuffled and sorted together; bounds memory, and hardly any padding is saved by more."""


def epoch(tokens: TokenFile, batch_tokens: int, seed: int, number: int) -> Iterator[NDArray[np.int64]]:
    """The batches of one epoch, each an array of pair indices; every pair exactly once.

    The order is a pure function of (``seed``, ``number``) and the corpus: a resumed run draws it again and skips what
    it has seen. Pairs are shuffled, sorted by length within pools of :data:`POOL` and cut so that pairs times longest
    side (EOS or BOS included) is at most ``batch_tokens``; a pair that alone is longer is a batch of its own. The
    batches of a pool come in random order.
    """
    draws = np.random.Generator(np.random.Philox(key=np.array([seed, number], dtype=np.uint64)))
    order = draws.permutation(len(tokens))
    for start in range(0, len(order), POOL):
        pool = order[start : start + POOL]
        lengths = tokens.lengths(pool) + 1
        by_length = np.lexsort((lengths[:, 0], lengths[:, 1]))
        edges = _cut(lengths[by_length].max(1), batch_tokens)
        for batch in draws.permutation(len(edges) - 1):
            yield pool[by_length[edges[batch] : edges[batch + 1]]]


def _cut(sizes: NDArray[np.int64], budget: int) -> list[int]:
    """Edges between batches of neighbours whose count times largest size stays within ``budget``."""
    edges, longest, start = [0], 0, 0
    for place, size in enumerate(sizes.tolist()):
        longest = max(longest, size)
        if place > start and longest * (place - start + 1) > budget:
            edges.append(place)
            longest, start = size, place
    return [*edges, len(sizes)]
