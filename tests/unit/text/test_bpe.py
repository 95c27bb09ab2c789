"""Cutting text by merges: against the library that learned them, by hand, and with a short memory."""

import sys
import unicodedata

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.text import bpe
from dragoman.text.bpe import SPACES, runs
from dragoman.text.normalize import normalize
from dragoman.text.tokenizer import Tokenizer
from toys import LINES, NASTY, toy_tokenizer

THEIRS = tokenizers.Tokenizer.from_str(toy_tokenizer().to_json())

OLD = st.characters(exclude_categories=("Cs", "Cn"))
"""Characters that both have heard of: Python and the library follow different versions of Unicode."""

PARTS = st.sampled_from([*" \n\t\u3000\x1c1²的", " ", "'s", "'re", " the", "e\u0301"])

TEXTS = st.lists(OLD | PARTS, max_size=30).map("".join)


def assert_as_the_library(text: str) -> None:
    spaced = " " + normalize(text)
    assert toy_tokenizer().encode(text) == (THEIRS.encode(spaced, add_special_tokens=False).ids if text else [])


@pytest.mark.parametrize("text", [*NASTY, *LINES, " ".join(LINES)], ids=ascii)
def test_the_ids_are_those_of_the_library(text: str) -> None:
    assert_as_the_library(text)


@settings(max_examples=300, deadline=None)
@given(TEXTS)
def test_so_are_those_of_any_text(text: str) -> None:
    assert_as_the_library(text)


def test_every_character_is_of_the_kind_that_the_library_takes_it_for() -> None:
    """Between two words, so that a merge could show it; thousands at a time, a line each."""
    known = [
        chr(code) for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code)) not in ("Cs", "Cn", "Co")
    ]
    for first in range(0, len(known), 5000):
        text = "".join(f" the{letter}chat\n" for letter in known[first : first + 5000])
        assert_as_the_library(text)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", []),
        ("ab", ["ab"]),
        (" ab cd", [" ab", " cd"]),
        ("ab  cd", ["ab", " ", " cd"]),
        ("ab\n\ncd", ["ab", "\n", "\n", "cd"]),
        ("ab \n", ["ab", " \n"]),
        ("a1²!?", ["a", "1²", "!?"]),
        ("it's 'tis 's", ["it", "'s", " '", "tis", " '", "s"]),
        ("don't've", ["don", "'t", "'ve"]),
        ("we'Re", ["we", "'", "Re"]),
        ("a\x1cb", ["a", "\x1c", "b"]),
    ],
)
def test_runs_by_hand(text: str, parts: list[str]) -> None:
    assert list(runs(text)) == parts


def test_spaces_are_those_of_unicode() -> None:
    assert {letter for letter in map(chr, range(sys.maxunicode + 1)) if letter.isspace()} - set(
        "\x1c\x1d\x1e\x1f"
    ) == SPACES


def test_a_short_memory_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = [toy_tokenizer().encode(text) for text in LINES]
    monkeypatch.setattr(bpe, "REMEMBERED", 3)
    monkeypatch.setattr(bpe, "LONGEST", 5)
    fresh = Tokenizer.from_json(toy_tokenizer().to_json())
    assert [fresh.encode(text) for text in LINES + LINES] == wanted + wanted
    assert 0 < len(fresh._bpe._known) <= 3
    assert max(map(len, fresh._bpe._known)) <= 5
