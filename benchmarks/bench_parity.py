"""Do PyTorch, the engine in float32 and the engine in int8 say the same? With a model and a test set of yours.

    python benchmarks/bench_parity.py MODEL test.en test.de [--limit 1000]

MODEL holds int8 weights (`dragoman quantize MODEL`). Prints two JSON lines. The first compares the engine's float32
with PyTorch: the share of tokens that stand in both translations in the same order (goal: 0.999), of equal lines, and
the largest differences of a score: of what both searches wrote alike, and of PyTorch's translations given to both
(goal: 1e-4). The second compares int8 with float32: sacreBLEU of each against the references, and the difference.
"""

import argparse
import json
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from dragoman import config as configuration
from dragoman.data.lines import read_lines
from dragoman.engine.library import instruction_set
from dragoman.engine.translator import Translation, Translator
from dragoman.evaluate.certificate import best_translations, common_share, parts_of, scores_of
from dragoman.evaluate.speed_process import open_translator
from dragoman.store.folder import ModelFolder

MOST_DIFFERENT, LEAST_EQUAL = 1e-4, 0.999

Translations = Sequence[Translation]


def searched(theirs: Translations, mine: Translations) -> float:
    """The largest difference of a score, of the translations that are alike."""
    alike = [(one, other) for one, other in zip(theirs, mine, strict=True) if one.text == other.text]
    return max((abs(one.score - other.score) for one, other in alike), default=0.0)


def forced(theirs: Translator, mine: Translator, translations: Translations) -> tuple[float, float]:
    """The largest difference of the score of a given translation, and of the log-probability of a token of it."""
    parts = [part for part in parts_of(translations) if part.hypothesis.finish_reason == "eos"]
    sources, targets = [part.source_ids for part in parts], [part.target_ids for part in parts]
    pairs = list(zip(theirs.score_ids(sources, targets), mine.score_ids(sources, targets), strict=True))
    scores = [abs(one.score - other.score) for one, other in pairs]
    tokens = [
        abs(a - b) for one, other in pairs for a, b in zip(one.token_log_probs, other.token_log_probs, strict=True)
    ]
    return max(scores, default=0.0), max(tokens, default=0.0)


def equal_lines(theirs: Translations, mine: Translations) -> float:
    """The share of equal texts."""
    return sum(one.text == other.text for one, other in zip(theirs, mine, strict=True)) / len(theirs)


def float32_beside_torch(
    torch: Translator, exact: Translator, theirs: Translations, mine: Translations
) -> dict[str, object]:
    """The first comparison."""
    share, difference = common_share(theirs, mine), searched(theirs, mine)
    score, token = forced(torch, exact, theirs)
    return {
        "compared": "engine float32 with PyTorch float32",
        "lines": len(theirs),
        "equal_tokens": round(share, 6),
        "equal_lines": round(equal_lines(theirs, mine), 4),
        "largest_difference_of_a_search_score": difference,
        "largest_difference_of_a_given_score": score,
        "largest_difference_of_a_given_log_prob": token,
        "goals": {"equal_tokens": LEAST_EQUAL, "scores": MOST_DIFFERENT},
        "is_reached": share >= LEAST_EQUAL and max(difference, score) <= MOST_DIFFERENT,
    }


def int8_beside_float32(
    theirs: Translations, mine: Translations, references: Sequence[str], language: str
) -> dict[str, object]:
    """The second comparison."""
    before, after = (scores_of(one, references, language)[0] for one in (theirs, mine))
    return {
        "compared": "engine int8 with engine float32",
        "lines": len(theirs),
        "equal_tokens": round(common_share(theirs, mine), 6),
        "equal_lines": round(equal_lines(theirs, mine), 4),
        "bleu_float32": round(before, 3),
        "bleu_int8": round(after, 3),
        "difference": round(after - before, 3),
    }


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("source", type=Path)
    parser.add_argument("references", type=Path)
    parser.add_argument("--limit", type=int, help="lines, the first ones")
    parser.add_argument("--threads", type=int, default=0)
    options = parser.parse_args()
    lines, references = (list(islice(read_lines(path), options.limit)) for path in (options.source, options.references))
    models = {name: open_translator(options.model, name, options.threads) for name in ("torch", "float32", "int8")}
    found = {name: best_translations(model, lines) for name, model in models.items()}
    language = configuration.load(ModelFolder(options.model).config).text.tgt_lang
    for facts in (
        float32_beside_torch(models["torch"], models["float32"], found["torch"], found["float32"]),
        int8_beside_float32(found["float32"], found["int8"], references, language),
    ):
        print(json.dumps({**facts, "instruction_set": instruction_set()}), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
