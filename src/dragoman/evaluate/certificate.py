"""The parity certificate: how far a quantized model's translations are from those of the float32 model."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from difflib import SequenceMatcher
from typing import Any

import numpy as np
from msgspec.structs import replace

from dragoman.engine.native_backend import NativeBackend
from dragoman.engine.translator import Part, Translation, Translator
from dragoman.evaluate.metrics import corpus_scores

MAX_BLEU_LOSS = 0.2
"""BLEU that quantizing may cost. Trainings that differ in nothing but their seed differ by more."""

MIN_AGREEMENT = 0.97
"""Share of places at which the likeliest next token must be the same. Where it is not, two were nearly equally likely;
int8 moves a log-probability by some hundredths, which for trained models changes one place in a hundred or fewer."""

TOGETHER = 32
"""Translations that are compared at once; each costs memory for two vocabularies of log-probabilities."""


@dataclass(frozen=True)
class Forced:
    """Two models after the same tokens: those of the float32 model's translations."""

    places: int
    "Tokens, ends of sentences included."
    agreement: float
    "Share of the places at which both find the same token likeliest."
    largest_difference: float
    "Of the log-probabilities of any token at any place, in nats."
    divergence: float
    "Mean Kullback-Leibler divergence of the two distributions, in nats."


@dataclass(frozen=True)
class Certificate:
    """What quantizing changed, on sentences that were not trained on."""

    dragoman: str
    "Version that measured."
    instruction_set: str
    "That the engine measured with. On AVX2 without VNNI factors are rounded to 7 bits, elsewhere to 8."
    weights_sha256: str
    "Of the float32 weights, as their header has it."
    engine_sha256: str
    "Of the quantized weights that were measured, as their header has it; empty until they are written."
    precise: tuple[str, ...]
    "Matrices that stay float32."
    matrices: int
    "All matrices."
    data: str
    "Where the sentences come from."
    sentences: int
    places: int
    agreement: float
    "See `Forced`."
    largest_difference: float
    "See `Forced`."
    translated_agreement: float
    "Share of the tokens that both models' own translations have in common, in order."
    bleu_float32: float
    bleu: float
    chrf_float32: float
    chrf: float
    max_bleu_loss: float = MAX_BLEU_LOSS
    min_agreement: float = MIN_AGREEMENT

    @property
    def is_passed(self) -> bool:
        """Whether both stated limits are kept."""
        return self.bleu_float32 - self.bleu <= self.max_bleu_loss and self.agreement >= self.min_agreement

    def to_json(self) -> dict[str, Any]:
        """As it is written."""
        return {**asdict(self), "precise": list(self.precise), "is_passed": self.is_passed}

    def summary(self) -> str:
        """One line."""
        return (
            f"{self.agreement:.2%} of {self.places:,} tokens agree, BLEU {self.bleu_float32:.2f} -> {self.bleu:.2f},"
            f" chrF {self.chrf_float32:.2f} -> {self.chrf:.2f}, {len(self.precise)} of {self.matrices} matrices float32"
        )


def best_translations(translator: Translator, sources: Sequence[str]) -> list[Translation]:
    """The best translation of each text, by search."""
    settings = replace(translator.search, n_best=1, sample=False)
    return [found[0] for found in translator.stream(sources, settings)]


def parts_of(translations: Sequence[Translation]) -> list[Part]:
    """What was translated in one go; nothing of blank lines."""
    return [part for translation in translations for part in translation.parts]


def compare_forced(exact: NativeBackend, quick: NativeBackend, parts: Sequence[Part]) -> Forced:
    """Feed both the tokens of ``parts`` and compare what they expect at each place."""
    places, agreeing, largest, divergence = 0, 0, 0.0, 0.0
    for theirs, mine in _expectations(exact, quick, parts):
        places += len(theirs)
        agreeing += int((theirs.argmax(axis=1) == mine.argmax(axis=1)).sum())
        possible = np.isfinite(theirs) & np.isfinite(mine)
        differences = np.where(possible, theirs, 0.0) - np.where(possible, mine, 0.0)
        largest = max(largest, float(np.abs(differences).max()))
        divergence += float((np.exp(theirs) * differences).sum())
    return Forced(places, agreeing / max(places, 1), largest, divergence / max(places, 1))


def common_share(theirs: Sequence[Translation], mine: Sequence[Translation]) -> float:
    """Of the tokens of both, the share that stand in both in the same order."""
    matching, total = 0, 0
    for one, other in zip(theirs, mine, strict=True):
        a, b = ([token for part in each.parts for token in part.target_ids] for each in (one, other))
        blocks = SequenceMatcher(None, a, b, autojunk=False).get_matching_blocks()
        matching += 2 * sum(block.size for block in blocks)
        total += len(a) + len(b)
    return matching / total if total else 1.0


def scores_of(translations: Sequence[Translation], references: Sequence[str], language: str) -> tuple[float, float]:
    """BLEU and chrF."""
    return corpus_scores([translation.text for translation in translations], references, language)


def _expectations(
    exact: NativeBackend, quick: NativeBackend, parts: Sequence[Part]
) -> Iterator[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
    """Log-probabilities of both models [rows, vocab], place by place."""
    by_length = sorted(parts, key=lambda part: len(part.target_ids))
    for start in range(0, len(by_length), TOGETHER):
        chunk = by_length[start : start + TOGETHER]
        sources, targets = [part.source_ids for part in chunk], [part.target_ids for part in chunk]
        for one, other in zip(exact.forced(sources, targets), quick.forced(sources, targets), strict=True):
            yield one[2], other[2]
