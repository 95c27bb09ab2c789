"""Law 10 and its companions, over texts from all planes of Unicode."""

import random
import unicodedata

from hypothesis import example, given, settings
from hypothesis import strategies as st

from dragoman.text.dropout import BpeDropout
from dragoman.text.normalize import normalize
from dragoman.text.segment import split
from dragoman.text.words import Words
from toys import LINES, NASTY, toy_tokenizer

LETTERS = st.characters(exclude_categories=["Cs"])
PLANES = st.one_of(
    LETTERS, st.characters(min_codepoint=0x10000), st.sampled_from("".join(LINES) + " \n\t\u2581\u0301.")
)
TEXTS = st.one_of(st.text(LETTERS), st.text(PLANES, max_size=60), st.lists(st.sampled_from(NASTY)).map("".join))


@settings(max_examples=400)
@given(TEXTS)
@example("".join(NASTY))
def test_decode_of_encode_is_the_normal_form(text: str) -> None:
    tokenizer = toy_tokenizer()
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == normalize(text) == unicodedata.normalize("NFC", text)
    assert all(3 <= index < len(tokenizer.vocab) for index in ids)
    assert tokenizer.encode(tokenizer.decode(ids)) == ids


@settings(max_examples=200)
@given(st.lists(TEXTS, max_size=4))
def test_word_by_word_gives_the_same_ids(texts: list[str]) -> None:
    assert Words(toy_tokenizer()).encode_batch(texts) == toy_tokenizer().encode_batch(texts)


@settings(max_examples=200)
@given(TEXTS)
def test_pieces_are_the_text_in_order(text: str) -> None:
    tokenizer = toy_tokenizer()
    raw = b"".join(tokenizer.bytes_of[index] for index in tokenizer.encode(text))
    assert raw == (f" {normalize(text)}".encode() if text else b"")


@settings(max_examples=200)
@given(TEXTS)
def test_offsets_cover_the_text(text: str) -> None:
    """In order, without gaps, each span holding its piece's bytes."""
    tokenizer, normal = toy_tokenizer(), normalize(text)
    ids, spans = tokenizer.encode(text), tokenizer.offsets(text)
    assert len(ids) == len(spans)
    assert all(start <= end for start, end in spans)
    assert sorted(spans) == spans
    reached = 0
    for place, (index, (start, end)) in enumerate(zip(ids, spans, strict=True)):
        assert start <= reached
        reached = max(reached, end)
        raw = tokenizer.bytes_of[index]
        assert (raw.removeprefix(b" ") if place == 0 else raw) in normal[start:end].encode()
    assert reached == len(normal)


@given(st.lists(st.integers(-3, 600)))
def test_any_ids_have_a_text(ids: list[int]) -> None:
    """A model may say anything; what it says is valid Unicode, and each id has a readable piece."""
    tokenizer = toy_tokenizer()
    tokenizer.decode(ids).encode()
    assert len(tokenizer.pieces(ids)) == len(ids)


@settings(max_examples=200)
@given(TEXTS, st.floats(0.0, 0.99), st.integers(0, 1000))
def test_dropout_keeps_the_text(text: str, rate: float, seed: int) -> None:
    tokenizer = toy_tokenizer()
    ids = tokenizer.encode(text)
    found = BpeDropout(tokenizer, rate, seed).segment(ids, random.Random(seed))
    assert b"".join(tokenizer.bytes_of[i] for i in found) == b"".join(tokenizer.bytes_of[i] for i in ids)


@settings(max_examples=200)
@given(TEXTS, st.integers(1, 30), st.booleans())
def test_parts_are_the_line(line: str, limit: int, real: bool) -> None:
    def length(text: str) -> int:
        return len(toy_tokenizer().encode(text)) if real else len(text)

    parts = split(line, limit, length)
    assert "".join(parts) == line
    assert all(parts)
    assert all(length(part) <= limit or len(part) == 1 for part in parts)
    assert len(parts) <= 1 or length(line) > limit
