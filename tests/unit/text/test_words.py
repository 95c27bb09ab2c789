"""Word by word: the tokenizer's ids, whatever the text."""

import pytest

from dragoman.text import words
from dragoman.text.words import Words
from toys import LINES, NASTY, toy_tokenizer

ODD = [
    "",
    " ",
    "  ",
    "a  b",
    " a",
    "a ",
    "a\tb c",
    "a\u00a0b c",
    "a\x1cb c",
    "a \u00a0 b",
    "don't you 'll 's",
    "x" * 41,
]


def test_the_ids_are_the_tokenizer_s() -> None:
    texts = [*LINES, *NASTY, *ODD, " ".join(NASTY), " ".join(LINES)]
    assert Words(toy_tokenizer()).encode_batch(texts) == toy_tokenizer().encode_batch(texts)


def test_no_texts_have_no_ids() -> None:
    assert Words(toy_tokenizer()).encode_batch([]) == []


def test_what_was_forgotten_is_cut_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words, "REMEMBERED", 3)
    encoder = Words(toy_tokenizer())
    for text in [*LINES, *LINES, "a b c d", "b x", "y", "a b"] * 3:
        assert encoder.encode_batch([text]) == [toy_tokenizer().encode(text)]


def test_a_word_is_cut_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = toy_tokenizer()
    encoder, cut = Words(tokenizer), list[str]()
    real = tokenizer.encode_batch
    monkeypatch.setattr(tokenizer, "encode_batch", lambda texts: [cut.extend(texts), real(texts)][1])
    encoder.encode_batch(["b a", "a c"])
    encoder.encode_batch(["c b a"])
    assert cut == ["a b c"]
