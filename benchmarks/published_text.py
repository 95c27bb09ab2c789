"""Multi30k's text as the papers prepare it: lower-cased, its punctuation normalized, tokenized by the Moses scripts.

    python benchmarks/published_text.py DATA OUT

DATA holds {train,val,test_2016_flickr,test_2017_flickr,test_2017_mscoco}.{en,de,fr}.gz; OUT gets the same files as
plain text. Wu et al. 2021, among others, train on that and count BLEU on its tokens.
"""

import argparse
import gzip
from collections.abc import Callable
from pathlib import Path

from sacremoses import MosesPunctNormalizer, MosesTokenizer  # type: ignore[import-untyped]

TESTS = ("test_2016_flickr", "test_2017_flickr", "test_2017_mscoco")


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


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for language in ("en", "de", "fr"):
        prepare = moses(language)
        for name in ("train", "val", *TESTS):
            lines = read_lines(options.data / f"{name}.{language}.gz")
            text = "".join(f"{prepare(line)}\n" for line in lines)
            (options.out / f"{name}.{language}").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
