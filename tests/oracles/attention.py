"""Attention as a person would do it with a pencil: three loops, float64, equation 1 of the paper and nothing else."""

import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Looks = NDArray[np.bool_]


def weights(queries: Array, keys: Array, looks: Looks) -> Array:
    """Attention weights [q_len, k_len] of queries [q_len, d_k] over keys [k_len, d_k].

    ``looks[i, j]`` says whether query i may look at key j; a query that may look at nothing gets zeros.
    """
    result = np.zeros((len(queries), len(keys)))
    for i, query in enumerate(queries):
        scores: dict[int, float] = {}
        for j, key in enumerate(keys):
            if looks[i, j]:
                product = 0.0
                for a, b in zip(query, key, strict=True):
                    product += a * b
                scores[j] = product / math.sqrt(len(query))
        highest = max(scores.values(), default=0.0)
        total = sum(math.exp(score - highest) for score in scores.values())
        for j, score in scores.items():
            result[i, j] = math.exp(score - highest) / total
    return result


def attend(queries: Array, keys: Array, values: Array, looks: Looks) -> Array:
    """The weighted sums [q_len, d_v] of values [k_len, d_v]."""
    shares = weights(queries, keys, looks)
    result = np.zeros((len(queries), values.shape[1]))
    for i in range(len(queries)):
        for j in range(len(keys)):
            for d in range(values.shape[1]):
                result[i, d] += shares[i, j] * values[j, d]
    return result
