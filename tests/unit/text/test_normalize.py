"""NFC, and nothing but NFC."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import RequestError
from dragoman.text.normalize import normalize

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("e\u0301", "\u00e9"),
        ("\u212b", "\u00e5".upper()),
        ("\u1100\u1161\u11a8", "\uac01"),
        ("a\u0315\u0300", "\u00e0\u0315"),
        ("\u0958", "\u0915\u093c"),
    ],
)
def test_composed(text: str, expected: str) -> None:
    assert normalize(text) == expected


@pytest.mark.parametrize(
    "text", ["，！？：；（）２０％ﷺ①ﬁ…︰", "a\u00a0b\u3000c", "x²", "\u2581", "\ufeffa", "a\r\nb\t", " a  b "]
)
def test_left_alone(text: str) -> None:
    """All of this NFKC, or a tidy mind, would change."""
    assert normalize(text) == text


@given(TEXTS)
def test_it_is_nfc_and_settles_at_once(text: str) -> None:
    assert normalize(text) == unicodedata.normalize("NFC", text) == normalize(normalize(text))


@pytest.mark.parametrize(
    ("text", "message"), [("ab\ud800c", r"U\+D800 at character 2"), ("\udfff", r"U\+DFFF at character 0")]
)
def test_half_a_surrogate_pair(text: str, message: str) -> None:
    with pytest.raises(RequestError, match=message):
        normalize(text)
