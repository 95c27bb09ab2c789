"""The unfinished hypotheses of many sentences as flat arrays, one row each."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dragoman.config import SearchConfig
from dragoman.search.scoring import Hypothesis, normalise
from dragoman.search.stepper import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Rows of one sentence stand together and have the same length; sentences may differ in length.

    Beam search keeps the rows of a sentence in lexicographic order of their tokens, so that a stable sort by score
    breaks ties by that order.
    """

    owner: IntArray
    "[rows] ascending: the sentence each row belongs to, by its place among the running ones."
    tokens: IntArray
    "[rows, longest]; what stands behind a row's length means nothing."
    token_log_probs: FloatArray
    "[rows, longest] float64"
    lengths: IntArray
    "[rows] tokens so far."
    log_probs: FloatArray
    "[rows] float64, sums of the tokens' log-probabilities."

    @staticmethod
    def empty() -> "Rows":
        """No rows."""
        return Rows(_ints(0), _ints((0, 0)), np.zeros((0, 0)), _ints(0), np.zeros(0))

    def arrive(self, sentences: int, rows_each: int) -> "Rows":
        """With ``rows_each`` rows without tokens for each of ``sentences`` new sentences, behind the present ones."""
        first = int(self.owner[-1]) + 1 if len(self.owner) else 0
        count, longest = sentences * rows_each, self.tokens.shape[1]
        return Rows(
            np.concatenate([self.owner, np.repeat(np.arange(first, first + sentences), rows_each)]),
            np.concatenate([self.tokens, _ints((count, longest))]),
            np.concatenate([self.token_log_probs, np.zeros((count, longest))]),
            np.concatenate([self.lengths, _ints(count)]),
            np.concatenate([self.log_probs, np.zeros(count)]),
        )

    def grow(self, parents: IntArray, ids: IntArray, log_probs: FloatArray) -> "Rows":
        """The rows ``parents`` [new_rows], each longer by the token in ``ids`` with its log-probability."""
        lengths = self.lengths[parents]
        kept = int(lengths.max(initial=0))
        here = np.arange(len(parents)), lengths
        tokens, token_log_probs = _ints((len(parents), kept + 1)), np.zeros((len(parents), kept + 1))
        tokens[:, :kept] = self.tokens[parents, :kept]
        token_log_probs[:, :kept] = self.token_log_probs[parents, :kept]
        tokens[here], token_log_probs[here] = ids, log_probs
        return Rows(self.owner[parents], tokens, token_log_probs, lengths + 1, self.log_probs[parents] + log_probs)

    def keep(self, mask: BoolArray, places: IntArray) -> "Rows":
        """The rows where ``mask`` [rows]; their owners become ``places[owner]``."""
        return Rows(
            places[self.owner[mask]],
            self.tokens[mask],
            self.token_log_probs[mask],
            self.lengths[mask],
            self.log_probs[mask],
        )

    def newest(self, bos_id: int) -> IntArray:
        """[rows] the last token of each row, ``bos_id`` where there is none yet."""
        if not self.tokens.shape[1]:
            return np.full(len(self.owner), bos_id)
        last = self.tokens[np.arange(len(self.owner)), self.lengths - 1]
        return np.where(self.lengths > 0, last, bos_id)

    def hypothesis(self, row: int, eos_id: int, settings: SearchConfig) -> Hypothesis:
        """The finished hypothesis in ``row``: it has ended with ``eos_id``, or else is as long as it may be."""
        length, log_prob = int(self.lengths[row]), float(self.log_probs[row])
        ids = tuple(self.tokens[row, :length].tolist())
        ended = ids[-1] == eos_id
        return Hypothesis(
            ids=ids[:-1] if ended else ids,
            log_prob=log_prob,
            score=normalise(log_prob, length, settings),
            token_log_probs=tuple(self.token_log_probs[row, :length].tolist()),
            finish_reason="eos" if ended else "length",
        )


def renumber(alive: Sequence[bool]) -> IntArray:
    """[sentences] the places of those ``alive`` when the others leave; those of the others mean nothing."""
    return np.cumsum(alive, dtype=np.int64) - 1


def _ints(shape: int | tuple[int, int]) -> IntArray:
    return np.zeros(shape, dtype=np.int64)
