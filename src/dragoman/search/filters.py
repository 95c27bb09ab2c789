"""What a request forbids: all but the prefix inside it, an early end, repeated n-grams, suppressed ids.

A forbidden token gets log-probability -inf; the others keep the model's own, so that the score of a hypothesis is the
model's score of its tokens whatever was forbidden on the way. Inside the prefix nothing else counts: a prefix may
contain suppressed ids and repetitions, and those repetitions count for what follows.
"""

from collections.abc import Sequence

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from dragoman.config import SearchConfig
from dragoman.search.request import Sentence
from dragoman.search.rows import Rows
from dragoman.search.stepper import FloatArray, IntArray


def are_needed(sentences: Sequence[Sentence], rows: Rows, settings: SearchConfig) -> bool:
    """Whether anything is forbidden in the coming step of any row, so that it needs full log-probabilities."""
    if settings.suppress or settings.no_repeat_ngram:
        return True
    guarded = [sentence.guarded for sentence in sentences]
    return any(guarded) and bool((rows.lengths < np.array(guarded)[rows.owner]).any())


def forbid(
    log_probs: FloatArray, sentences: Sequence[Sentence], rows: Rows, settings: SearchConfig, eos_id: int
) -> None:
    """Set what is forbidden in ``log_probs`` [rows, vocab] to -inf, in place."""
    prefix_ends = np.array([len(sentence.prefix) for sentence in sentences])[rows.owner]
    forced = np.flatnonzero(rows.lengths < prefix_ends)
    prefix_ids = np.array([sentences[rows.owner[row]].prefix[rows.lengths[row]] for row in forced], dtype=np.int64)
    prefix_log_probs = log_probs[forced, prefix_ids]

    log_probs[:, list(settings.suppress)] = -np.inf
    minimum = np.array([sentence.min_length for sentence in sentences])[rows.owner]
    log_probs[rows.lengths < minimum, eos_id] = -np.inf
    if settings.no_repeat_ngram:
        log_probs[repeats(rows.tokens, rows.lengths, settings.no_repeat_ngram)] = -np.inf

    log_probs[forced] = -np.inf
    log_probs[forced, prefix_ids] = prefix_log_probs


def repeats(tokens: IntArray, lengths: IntArray, n: int) -> tuple[IntArray, IntArray]:
    """Rows and ids (as an index) that would complete an n-gram the row already has.

    Args:
        tokens: [rows, longest]; of each row the first ``lengths`` [rows] count.
        n: 1 forbids every token a second time.
    """
    if tokens.shape[1] < n:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    windows = sliding_window_view(tokens, n, axis=1)
    tail_at = lengths[:, None] - (n - 1) + np.arange(n - 1)
    tail = np.take_along_axis(tokens, np.maximum(tail_at, 0), axis=1)
    complete = np.arange(windows.shape[1]) + n <= lengths[:, None]
    rows, starts = np.nonzero(complete & (windows[:, :, :-1] == tail[:, None, :]).all(axis=2))
    return rows, windows[rows, starts, -1]
