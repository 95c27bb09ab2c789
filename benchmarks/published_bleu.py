"""BLEU of Multi30k the way the papers count it, beside sacreBLEU's.

    python benchmarks/published_bleu.py hypotheses.txt references.txt --language de

Papers on Multi30k (Wu et al. 2021 among them) lower-case the text, normalize its punctuation and tokenize it with the
Moses scripts before anything else, train on that, and count BLEU over those tokens without detokenizing. That gives
other numbers than sacreBLEU on plain text, usually higher ones, so a fair comparison repeats it: both files go through
the same three steps here, then plain corpus BLEU, no smoothing, no further tokenization. The hypotheses may be cased
and untokenized, as ``dragoman translate`` writes them.

Prints one JSON line. Either file may be gzipped.
"""

import argparse
import gzip
import json
from collections.abc import Callable, Sequence
from pathlib import Path

from sacrebleu.metrics.bleu import BLEU
from sacremoses import MosesPunctNormalizer, MosesTokenizer  # type: ignore[import-untyped]

from dragoman.errors import DataError
from dragoman.evaluate.metrics import evaluate


def read_lines(path: Path) -> list[str]:
    """The lines of a text file; only LF ends a line."""
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return [line.removesuffix("\r") for line in data.decode("utf-8").removesuffix("\n").split("\n")]


def moses(language: str) -> Callable[[str], str]:
    """Lower-case, normalize punctuation, tokenize: the order of Multi30k's own script."""
    normalizer, tokenizer = MosesPunctNormalizer(language), MosesTokenizer(language)
    return lambda line: " ".join(
        tokenizer.tokenize(normalizer.normalize(line.lower()), aggressive_dash_splits=False, escape=False)
    )


def published_bleu(hypotheses: Sequence[str], references: Sequence[str], language: str) -> tuple[float, str]:
    """BLEU over lower-cased Moses tokens, and sacreBLEU's signature of the counting.

    Raises:
        DataError: the counts differ.
    """
    if len(hypotheses) != len(references):
        raise DataError(f"{len(hypotheses)} hypotheses but {len(references)} references")
    prepare = moses(language)
    bleu = BLEU(tokenize="none", smooth_method="none", force=True)
    score = bleu.corpus_score([prepare(line) for line in hypotheses], [[prepare(line) for line in references]])
    return score.score, str(bleu.get_signature())


def figures(hypotheses: Sequence[str], references: Sequence[str], language: str) -> dict[str, object]:
    """All figures of one pair of files."""
    published, signature = published_bleu(hypotheses, references, language)
    cased = evaluate(hypotheses, references, language).bleu
    lowercased = evaluate(hypotheses, references, language, lowercase=True).bleu
    return {
        "lines": len(hypotheses),
        "language": language,
        "published_bleu": round(published, 2),
        "published_signature": f"moses-normalized, moses-tokenized, lower-cased|{signature}",
        "sacrebleu_cased": round(cased.value, 2),
        "sacrebleu_cased_signature": cased.signature,
        "sacrebleu_lowercased": round(lowercased.value, 2),
        "sacrebleu_lowercased_signature": lowercased.signature,
    }


def main() -> None:
    """Read the command line, print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("hypotheses", type=Path, help="translations, one a line")
    parser.add_argument("references", type=Path, help="reference translations, one a line")
    parser.add_argument("--language", default="de", help="of both files, such as de or fr")
    arguments = parser.parse_args()
    result = figures(read_lines(arguments.hypotheses), read_lines(arguments.references), arguments.language)
    print(json.dumps(result, ensure_ascii=False))  # noqa: T201


if __name__ == "__main__":
    main()
