"""BLEU of Multi30k the way the papers count it, beside sacreBLEU's.

    python benchmarks/published_bleu.py hypotheses.txt references.txt --language de

Papers on Multi30k (Wu et al. 2021 among them) lower-case the text, normalize its punctuation and tokenize it with the
Moses scripts before anything else, train on that, and count BLEU over those tokens without detokenizing. That gives
other numbers than sacreBLEU on plain text, usually higher ones, so a fair comparison repeats it: both files go through
the same three steps here (published_text.py), then plain corpus BLEU, no smoothing, no further tokenization. The
hypotheses may be cased and untokenized, as ``dragoman translate`` writes them. Those of a model that was trained on
prepared text are prepared already (tokenizing French tokens again would split them and raise BLEU): ``--tokenized``
takes them as they are, and sacreBLEU sees them put together again, lower-cased only. The references are always plain.

Prints one JSON line. Either file may be gzipped.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from published_text import moses, read_lines
from sacrebleu.metrics.bleu import BLEU
from sacremoses import MosesDetokenizer  # type: ignore[import-untyped]

from dragoman.errors import DataError
from dragoman.evaluate.metrics import evaluate


def published_bleu(hypotheses: Sequence[str], references: Sequence[str]) -> tuple[float, str]:
    """BLEU over the tokens that are there, and sacreBLEU's signature of the counting.

    Raises:
        DataError: the counts differ.
    """
    if len(hypotheses) != len(references):
        raise DataError(f"{len(hypotheses)} hypotheses but {len(references)} references")
    bleu = BLEU(tokenize="none", smooth_method="none", force=True)
    score = bleu.corpus_score(list(hypotheses), [list(references)])
    return score.score, str(bleu.get_signature())


def figures(
    hypotheses: Sequence[str], references: Sequence[str], language: str, is_tokenized: bool
) -> dict[str, object]:
    """All figures of one pair of files; ``is_tokenized``: the hypotheses are lower-cased tokens already."""
    prepare, join = moses(language), MosesDetokenizer(language)
    tokens = hypotheses if is_tokenized else [prepare(line) for line in hypotheses]
    plain = [join.detokenize(line.split()) for line in hypotheses] if is_tokenized else hypotheses
    published, signature = published_bleu(tokens, [prepare(line) for line in references])
    cased = evaluate(plain, references, language).bleu
    lowercased = evaluate(plain, references, language, lowercase=True).bleu
    return {
        "lines": len(hypotheses),
        "language": language,
        "published_bleu": round(published, 2),
        "published_signature": f"moses-normalized, moses-tokenized, lower-cased|{signature}",
        "sacrebleu_cased": None if is_tokenized else round(cased.value, 2),
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
    parser.add_argument("--tokenized", action="store_true", help="the hypotheses are lower-cased Moses tokens")
    arguments = parser.parse_args()
    hypotheses, references = read_lines(arguments.hypotheses), read_lines(arguments.references)
    result = figures(hypotheses, references, arguments.language, arguments.tokenized)
    print(json.dumps(result, ensure_ascii=False))  # noqa: T201


if __name__ == "__main__":
    main()
