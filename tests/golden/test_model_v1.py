"""A model folder of format 1 that must load and translate to the letter for ever (it reverses lists of digits)."""

import json
from pathlib import Path

import pytest

import dragoman
from dragoman.config import SearchConfig
from dragoman.engine.translator import Translator

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def translator() -> Translator:
    return dragoman.load(HERE / "model_v1")


def test_translations(translator: Translator) -> None:
    for line in (HERE / "translations.jsonl").read_text(encoding="utf-8").splitlines():
        wanted = json.loads(line)
        found = next(translator.stream([wanted["source"]], SearchConfig(beam_size=4, n_best=3)))
        assert [one.text for one in found] == [one["text"] for one in wanted["translations"]]
        assert [one.score for one in found] == pytest.approx([one["score"] for one in wanted["translations"]], abs=1e-4)


def test_scores(translator: Translator) -> None:
    right, wrong = translator.score([("1 2 3", "3 2 1"), ("1 2 3", "1 2 3")])
    assert right.score > -0.1 > -1.0 > wrong.score
