"""BLEU, chrF, TER and exact matches of a whole test set, as sacreBLEU defines them.

sacreBLEU does the counting, so the numbers compare with everybody else's; here its traps are closed. It stops at the
shorter of two files without a word, it takes one list of references per *reference*, not per sentence, and its default
tokenizer gives a perfect Chinese translation 0.0.
"""

import dataclasses
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from dragoman.errors import DataError, RequestError

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric

References = Sequence[str | Sequence[str]]
"""One entry a hypothesis: its only reference, or all its references."""

TOKENIZERS = {
    **dict.fromkeys(("zh", "zho", "cmn", "yue"), "zh"),
    **dict.fromkeys(("ja", "jpn"), "ja-mecab"),
    **dict.fromkeys(("ko", "kor"), "ko-mecab"),
}
"""BLEU's tokenizer for each language code that needs its own; all others are separated by spaces and use 13a."""


@dataclasses.dataclass(frozen=True)
class Score:
    """One metric of a whole test set."""

    value: float
    "Between 0 and 100; TER may exceed 100."
    signature: str
    "Everything another person needs to compute the same number: sacreBLEU's version, tokenizer, case, references."


@dataclasses.dataclass(frozen=True)
class Scores:
    """All metrics of one system on one test set."""

    lines: int
    "Sentences evaluated."
    bleu: Score
    "Papineni et al. 2002; higher is better."
    chrf: Score
    "chrF2, Popović 2015; higher is better."
    ter: Score
    "Translation edit rate, Snover et al. 2006; lower is better."
    exact: float
    "Per cent of the hypotheses that equal a reference to the letter, outer spaces aside."

    def to_json(self) -> str:
        """The scores as one line of JSON."""
        return json.dumps(dataclasses.asdict(self), ensure_ascii=False)


def evaluate(
    hypotheses: Sequence[str], references: References, target_language: str = "", lowercase: bool = False
) -> Scores:
    """Measure translations against their references.

    Args:
        hypotheses: One translation a sentence; an empty one is legal and costs its length.
        references: One entry a hypothesis, in the same order: a string, or all references of that sentence. Sentences
            may differ in how many they have.
        target_language: ISO 639 code such as ``de``, ``zh`` or ``pt-BR``; chooses the tokenizer, see ``TOKENIZERS``.
        lowercase: Compare without regard to case. TER always does, as its authors' program did.

    Raises:
        DataError: the counts differ, there is nothing to evaluate, or a sentence has no reference.
        RequestError: the tokenizer of Japanese or Korean is not installed.
    """
    sets = reference_sets(hypotheses, references)
    streams = reference_streams(sets)
    bleu, chrf, ter = (
        Score(metric.corpus_score(hypotheses, streams).score, str(metric.get_signature()))
        for metric in build_metrics(target_language, lowercase)
    )
    return Scores(len(hypotheses), bleu, chrf, ter, exact_match(hypotheses, sets, lowercase))


def exact_match(hypotheses: Sequence[str], references: References, lowercase: bool = False) -> float:
    """Per cent of the hypotheses that equal one of their references, outer spaces aside.

    Raises:
        DataError: as for ``evaluate``.
    """
    sets = reference_sets(hypotheses, references)
    folded = str.lower if lowercase else str
    hits = sum(
        folded(hypothesis.strip()) in {folded(reference.strip()) for reference in accepted}
        for hypothesis, accepted in zip(hypotheses, sets, strict=True)
    )
    return 100.0 * hits / len(sets)


def reference_sets(hypotheses: Sequence[str], references: References) -> list[tuple[str, ...]]:
    """All references of each hypothesis, once the two sides are known to fit.

    Raises:
        DataError: as for ``evaluate``.
    """
    if len(hypotheses) != len(references):
        raise DataError(
            f"{len(hypotheses)} hypotheses but {len(references)} references: line n of one must translate "
            "line n of the other; compare the two files' line counts"
        )
    if not references:
        raise DataError("nothing to evaluate: there are no hypotheses and no references")
    sets = [(entry,) if isinstance(entry, str) else tuple(entry) for entry in references]
    if () in sets:
        raise DataError(f"line {sets.index(()) + 1} has no reference; give each hypothesis at least one")
    return sets


def reference_streams(sets: Sequence[tuple[str, ...]]) -> list[list[str]]:
    """Turn references by sentence into sacreBLEU's form: the first of each sentence, the second of each, and so on.

    Where a sentence has fewer than others there is a None, which sacreBLEU skips though its types do not say so.
    """
    streams = [[entry[n] if n < len(entry) else None for entry in sets] for n in range(max(map(len, sets)))]
    return cast("list[list[str]]", streams)


def build_metrics(target_language: str, lowercase: bool) -> "tuple[Metric, Metric, Metric]":
    """sacreBLEU's BLEU, chrF and TER for one target language, each new (they remember what they have scored).

    Chinese and Japanese have no spaces: TER counts their characters instead of taking a sentence for one word.

    Raises:
        RequestError: the tokenizer of Japanese or Korean is not installed.
    """
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.metrics.ter import TER

    tokenizer = TOKENIZERS.get(_primary(target_language), "13a")
    by_character = tokenizer in ("zh", "ja-mecab")
    try:
        bleu = BLEU(lowercase=lowercase, tokenize=tokenizer)
    except RuntimeError:
        raise RequestError(
            f"BLEU for target language {target_language!r} needs the tokenizer {tokenizer}; "
            "install it with: pip install dragoman[eastasian]"
        ) from None
    return bleu, CHRF(lowercase=lowercase), TER(normalized=by_character, asian_support=by_character)


def _primary(language: str) -> str:
    return language.strip().lower().replace("_", "-").partition("-")[0]


def corpus_scores(hypotheses: Sequence[str], references: References, target_language: str = "") -> tuple[float, float]:
    """BLEU and chrF alone, without the slower metrics; as :func:`evaluate` computes them.

    Raises:
        DataError, RequestError: as for ``evaluate``.
    """
    streams = reference_streams(reference_sets(hypotheses, references))
    bleu, chrf, _ = build_metrics(target_language, lowercase=False)
    return bleu.corpus_score(hypotheses, streams).score, chrf.corpus_score(hypotheses, streams).score
