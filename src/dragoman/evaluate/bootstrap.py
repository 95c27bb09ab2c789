"""Paired bootstrap resampling: is one system better than another, or was it luck with this test set?

Koehn 2004, "Statistical Significance Tests for Machine Translation Evaluation": draw as many sentences from the test
set as it has, with replacement; score both systems on the draw; repeat. Each sentence is counted once, before: a score
of a draw needs only the sum of its sentences' counts.
"""

import dataclasses
import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dragoman.errors import DataError, RequestError
from dragoman.evaluate.metrics import References, build_metrics, reference_sets, reference_streams

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric

Floats = NDArray[np.float64]


@dataclasses.dataclass(frozen=True)
class Difference:
    """One metric of two systems."""

    a: float
    "The first system's score on the whole test set."
    b: float
    "The second system's."
    difference: float
    "a - b. For TER, where lower is better, a negative difference speaks for the first system."
    low: float
    "Lower end of the 95 % interval of the difference over the draws."
    high: float
    "Upper end."
    p_value: float
    "Chance of a difference at least this large, either way, if the systems were equally good; small is significant."
    signature: str
    "sacreBLEU's signature of the metric."


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Two systems on one test set."""

    lines: int
    "Sentences compared."
    samples: int
    "Draws of the test set."
    seed: int
    "Of the draws."
    bleu: Difference
    chrf: Difference
    ter: Difference

    def to_json(self) -> str:
        """The comparison as one line of JSON."""
        return json.dumps(dataclasses.asdict(self), ensure_ascii=False)


def compare(
    hyps_a: Sequence[str],
    hyps_b: Sequence[str],
    references: References,
    target_language: str = "",
    lowercase: bool = False,
    samples: int = 1000,
    seed: int = 12345,
) -> Comparison:
    """Compare two systems' translations of the same sentences.

    The p-value is two-sided: the share of draws whose difference strays from the draws' mean by at least the observed
    difference, the observation counted among them (Riezler & Maxwell 2005), so that it is never 0.

    Args:
        hyps_a: The first system's translations.
        hyps_b: The second system's, of the same sentences in the same order.
        references: One entry a sentence, as for ``evaluate``.
        target_language: As for ``evaluate``.
        lowercase: As for ``evaluate``.
        samples: Draws; 1000 settle the second decimal of a p-value near 0.05.
        seed: The same seed gives the same answer; the default is sacreBLEU's.

    Raises:
        DataError: the counts differ, there is nothing to compare, or a sentence has no reference.
        RequestError: fewer than one draw, or the tokenizer of Japanese or Korean is not installed.

    Cost: memory for one draw and the counts of each sentence; time for ``samples`` passes over those counts.
    """
    if samples < 1:
        raise RequestError(f"samples={samples}: at least one draw is needed; 1000 is usual")
    if len(hyps_a) != len(hyps_b):
        raise DataError(f"the systems have {len(hyps_a)} and {len(hyps_b)} hypotheses: both must translate every line")
    sets = reference_sets(hyps_a, references)
    draws = np.random.default_rng(seed)
    metrics = build_metrics(target_language, lowercase)
    counts = [_counts(metric, (hyps_a, hyps_b), reference_streams(sets)) for metric in metrics]
    scores = _scores_of_draws(metrics, counts, _draw_weights(draws, len(sets), samples))
    bleu, chrf, ter = (
        _difference(metric, count, drawn) for metric, count, drawn in zip(metrics, counts, scores, strict=True)
    )
    return Comparison(len(sets), samples, seed, bleu, chrf, ter)


def _counts(metric: "Metric", systems: Sequence[Sequence[str]], streams: list[list[str]]) -> Floats:
    """What a metric counts in each sentence, of shape (systems, sentences, counts).

    sacreBLEU shows these in no public way for chrF, and its public ``PairedTest`` gives no interval of the difference;
    a test holds this and ``_score`` to its public scores.
    """
    return np.array([metric._extract_corpus_statistics(hyps, streams) for hyps in systems], dtype=np.float64)


def _score(metric: "Metric", sums: Floats) -> float:
    return float(metric._compute_score_from_stats(sums.tolist()).score)


def _draw_weights(draws: np.random.Generator, lines: int, samples: int) -> Iterator[Floats]:
    """How often each sentence is in each draw; one draw at a time, so that memory does not grow with ``samples``."""
    for _ in range(samples):
        yield np.bincount(draws.integers(lines, size=lines), minlength=lines).astype(np.float64)


def _scores_of_draws(metrics: Sequence["Metric"], counts: Sequence[Floats], weights: Iterator[Floats]) -> Floats:
    """Scores of shape (metrics, systems, draws); all metrics and both systems see the same draws."""
    drawn = [
        [[_score(metric, sums) for sums in weight @ count] for metric, count in zip(metrics, counts, strict=True)]
        for weight in weights
    ]
    return np.moveaxis(np.array(drawn, dtype=np.float64), 0, -1)


def _difference(metric: "Metric", counts: Floats, drawn: Floats) -> Difference:
    a, b = (_score(metric, sums) for sums in counts.sum(axis=1))
    differences = drawn[0] - drawn[1]
    low, high = np.quantile(differences, (0.025, 0.975))
    return Difference(a, b, a - b, float(low), float(high), _p_value(differences, a - b), str(metric.get_signature()))


def _p_value(differences: Floats, observed: float) -> float:
    strayed = np.abs(differences - differences.mean()) >= abs(observed)
    return (int(strayed.sum()) + 1) / (len(differences) + 1)
