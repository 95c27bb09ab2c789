"""Languages from file names."""

from pathlib import Path

import pytest

from dragoman.data.language import languages


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["train.en", "train.de"], ("en", "de")),
        (["a/train.en.gz", "b/train.zh.gz"], ("en", "zh")),
        (["train.pt_BR", "train.zh-CN.txt"], ("pt", "zh")),
        (["train.src", "train.tgt"], ("", "")),
        (["train.en", "train.txt"], ("en", "")),
        (["train.en-fr.tsv.gz"], ("en", "fr")),
        (["corpus_de_en.tmx"], ("de", "en")),
        (["pairs.tsv"], ("", "")),
        (["xx-yy.tsv"], ("", "")),
        (["open-end.tsv"], ("", "")),
    ],
)
def test_languages(names: list[str], found: tuple[str, str]) -> None:
    assert languages([Path(name) for name in names]) == found
