"""One step of the model: which tokens may follow each row, and how likely the model finds them."""

from collections.abc import Sequence

import numpy as np

from dragoman.config import SearchConfig
from dragoman.search import filters
from dragoman.search.request import Sentence
from dragoman.search.rows import Rows
from dragoman.search.stepper import BoolArray, Candidates, FloatArray, S, Stepper

BLOCKS = 256
"""Blocks the vocabulary is dealt out to when its likeliest ids are looked for."""


def propose(
    stepper: Stepper[S], sentences: Sequence[Sentence], rows: Rows, state: S, settings: SearchConfig, k: int
) -> tuple[Candidates, BoolArray, S]:
    """The ``k`` likeliest allowed continuations of each row (all, if the vocabulary is smaller).

    Full log-probabilities are asked for only when something is forbidden.

    Returns:
        The candidates, in float64; which rows [rows] are broken: among the numbers the model gave for them is one
        that is neither finite nor -inf; and the state after the step.
    """
    k = min(k, stepper.vocab_size)
    if not filters.are_needed(sentences, rows, settings):
        candidates, state = stepper.step_top(rows.newest(stepper.bos_id), state, k)
        return Candidates(candidates.ids, _float64(candidates.log_probs)), _broken(candidates.log_probs), state
    log_probs, broken, state = propose_all(stepper, sentences, rows, state, settings)
    return top(log_probs, k), broken, state


def propose_all(
    stepper: Stepper[S], sentences: Sequence[Sentence], rows: Rows, state: S, settings: SearchConfig
) -> tuple[FloatArray, BoolArray, S]:
    """As :func:`propose`, with the log-probabilities of all ids [rows, vocab] in the model's precision."""
    log_probs, state = stepper.step_full(rows.newest(stepper.bos_id), state)
    broken = _broken(log_probs)
    if filters.are_needed(sentences, rows, settings):
        filters.forbid(log_probs, sentences, rows, settings, stepper.eos_id)
    return log_probs, broken, state


def top(log_probs: FloatArray, k: int) -> Candidates:
    """The ``k`` likeliest ids of each row of ``log_probs`` [rows, vocab], best first, equal ones by ascending id.

    What is impossible (-inf) is left out; rows with fewer than ``k`` possible ids are filled up with -inf.
    """
    rows, ids = np.divmod(np.flatnonzero(log_probs >= _lower_bound(log_probs, k)[:, None]), log_probs.shape[1])
    counts = np.bincount(rows, minlength=len(log_probs))
    columns = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    shape = len(log_probs), max(k, int(counts.max(initial=0)))
    few_ids, few = np.zeros(shape, dtype=np.int64), np.full(shape, -np.inf)
    few_ids[rows, columns], few[rows, columns] = ids, log_probs[rows, ids]
    best = np.argsort(-few, axis=1, kind="stable")[:, :k]
    return Candidates(np.take_along_axis(few_ids, best, axis=1), np.take_along_axis(few, best, axis=1))


def _lower_bound(log_probs: FloatArray, k: int) -> FloatArray:
    """[rows] finite bounds that the ``k`` likeliest ids of each row reach, or all possible ones if they are fewer.

    The vocabulary is dealt out to blocks; the k-th highest of the blocks' maxima is such a bound and a tight one.
    Finding it costs one pass over the row, a fraction of what partitioning the whole row would.
    """
    blocks = min(log_probs.shape[1], max(k, BLOCKS))
    deals = log_probs.shape[1] // blocks
    maxima = log_probs[:, : deals * blocks].reshape(-1, deals, blocks).max(axis=1)
    return np.maximum(np.partition(maxima, -k, axis=1)[:, -k], np.finfo(log_probs.dtype).min)


def _broken(log_probs: FloatArray) -> BoolArray:
    """[rows] where there is NaN or +inf."""
    with np.errstate(invalid="ignore"):
        worst: BoolArray = ~(log_probs.max(axis=1) < np.inf)
    return worst


def _float64(values: FloatArray) -> FloatArray:
    return values.astype(np.float64)
