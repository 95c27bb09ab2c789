"""What a hypothesis is worth: length normalisation, order, and how good an unfinished one can still become."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from dragoman.config import SearchConfig

FinishReason = Literal["eos", "length"]

ROUNDING = 1e-9
"""Relative margin under which two scores are not told apart when a search is cut short."""


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A finished target sentence."""

    ids: tuple[int, ...]
    "Target tokens, the forced prefix included, without the end of sentence."
    log_prob: float
    "The model's log-probability of all tokens, the end of sentence included if it was reached."
    score: float
    "log_prob normalised by length; what hypotheses are ordered by."
    token_log_probs: tuple[float, ...]
    "The summands of log_prob: one for each id, and one for the end of sentence if it was reached."
    finish_reason: FinishReason
    "`eos`: the end of sentence was reached; `length`: the most tokens allowed were reached first."


def length_penalty(length: int, settings: SearchConfig) -> float:
    """The divisor of a log-probability of ``length`` tokens, with a = ``settings.length_penalty``.

    ``power``: length^a, so a = 1 is the mean log-probability. ``gnmt``: ((5 + length) / 6)^a (Wu et al. 2016, equation
    14; Vaswani et al. 2017 use it with a = 0.6, section 6.1).

    Args:
        length: tokens, the end of sentence counted if it was reached; at least 1.
    """
    base = (5 + length) / 6 if settings.length_norm == "gnmt" else float(length)
    return float(base**settings.length_penalty)


def normalise(log_prob: float, length: int, settings: SearchConfig) -> float:
    """The score: ``log_prob`` over the length penalty."""
    return log_prob / length_penalty(length, settings)


def best_reachable(log_prob: float, length: int, max_length: int, settings: SearchConfig) -> float:
    """A score that no continuation of an unfinished hypothesis exceeds.

    Further tokens only lower ``log_prob``, which is at most 0, and the penalty is monotone in the length: it helps
    most at the longest continuation (a > 0) or at the shortest one (a < 0).

    Args:
        log_prob, length: of the unfinished hypothesis.
        max_length: most tokens it may get; above ``length``.
    """
    return max(normalise(log_prob, length + 1, settings), normalise(log_prob, max_length, settings))


def ranked(hypotheses: Iterable[Hypothesis]) -> list[Hypothesis]:
    """Best first; equal scores in lexicographic order of their ids."""
    return sorted(hypotheses, key=lambda hypothesis: (-hypothesis.score, hypothesis.ids))


def is_settled(
    finished: Sequence[Hypothesis], best_live: float, length: int, max_length: int, settings: SearchConfig
) -> bool:
    """Whether no unfinished hypothesis can still enter the n best.

    The finished ones that are settled are exactly the head of the list that a search to the end would give, since a
    beam never drops what has finished. So stopping here changes no answer, whatever ``n_best`` is.

    Args:
        finished: all finished hypotheses of the sentence.
        best_live: highest log-probability of its unfinished ones, which all have ``length`` tokens.
    """
    if len(finished) < settings.n_best:
        return False
    scores = sorted((hypothesis.score for hypothesis in finished), reverse=True)
    bound = best_reachable(best_live, length, max_length, settings)
    return scores[settings.n_best - 1] > bound + ROUNDING * max(1.0, abs(bound))
