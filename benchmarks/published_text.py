"""Multi30k's text as the papers prepare it: lower-cased, its punctuation normalized, tokenized by the Moses scripts.

    python benchmarks/published_text.py DATA OUT
    python benchmarks/published_text.py FILE.de OUT

DATA holds {train,val,test_2016_flickr,test_2017_flickr,test_2017_mscoco}.{en,de,fr}.gz; OUT gets the same files as
plain text. Of a single file the ending tells the language, and OUT is a file too. Wu et al. 2021, among others, train
on such text and count BLEU on its tokens.
"""

import argparse
import gzip
from collections.abc import Callable
from functools import cache
from pathlib import Path

from sacremoses import MosesPunctNormalizer, MosesTokenizer  # type: ignore[import-untyped]

LANGUAGES = ("en", "de", "fr")
TESTS = ("test_2016_flickr", "test_2017_flickr", "test_2017_mscoco")


def read_lines(path: Path) -> list[str]:
    """The lines of a text file; only LF ends a line."""
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return [line.removesuffix("\r") for line in data.decode("utf-8").removesuffix("\n").split("\n")]


@cache
def moses(language: str) -> Callable[[str], str]:
    """Lower-case, normalize punctuation, tokenize: the order of Multi30k's own script."""
    normalizer, tokenizer = MosesPunctNormalizer(language), MosesTokenizer(language)
    return lambda line: " ".join(
        tokenizer.tokenize(normalizer.normalize(line.lower()), aggressive_dash_splits=False, escape=False)
    )


def prepare(data: Path, out: Path, language: str) -> None:
    """Prepare one file."""
    spell = moses(language)
    out.write_text("".join(f"{spell(line)}\n" for line in read_lines(data)), encoding="utf-8")


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    data, out = options.data, options.out
    if not data.exists():
        parser.error(f"{data} does not exist")
    if data.is_file():
        language = Path(data.name.removesuffix(".gz")).suffix[1:]
        if language not in LANGUAGES:
            parser.error(f"{data} does not end with one of {', '.join(LANGUAGES)}")
        prepare(data, out, language)
        return
    out.mkdir(parents=True, exist_ok=True)
    for language in LANGUAGES:
        for name in ("train", "val", *TESTS):
            prepare(data / f"{name}.{language}.gz", out / f"{name}.{language}", language)


if __name__ == "__main__":
    main()
