"""Many lines at once as one array of code points, so that counting characters costs no Python loop.

The scripts are told by Unicode block: coarse (a letter's script property is finer), free of data files, and enough to
see that a side is Cyrillic.
"""

import sys
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]

# First and last code point of the letters of each script; what is in no range counts as no letter.
_RANGES: dict[str, tuple[tuple[int, int], ...]] = {
    "Latin": (
        (0x41, 0x5A), (0x61, 0x7A), (0xAA, 0xAA), (0xBA, 0xBA), (0xC0, 0xD6), (0xD8, 0xF6), (0xF8, 0x2AF),
        (0x1D00, 0x1DBF), (0x1E00, 0x1EFF), (0x2C60, 0x2C7F), (0xA722, 0xA7FF), (0xAB30, 0xAB6F),
        (0xFB00, 0xFB06), (0xFF21, 0xFF3A), (0xFF41, 0xFF5A),
    ),
    "Greek": ((0x370, 0x373), (0x376, 0x37D), (0x37F, 0x37F), (0x386, 0x386), (0x388, 0x3FF), (0x1F00, 0x1FFF)),
    "Cyrillic": ((0x400, 0x52F), (0x1C80, 0x1C8F), (0x2DE0, 0x2DFF), (0xA640, 0xA69F)),
    "Armenian": ((0x531, 0x588), (0xFB13, 0xFB17)),
    "Hebrew": ((0x591, 0x5F2), (0xFB1D, 0xFB4F)),
    "Arabic": ((0x610, 0x61A), (0x620, 0x65F), (0x66E, 0x6D3), (0x6D5, 0x6EF), (0x6FA, 0x6FF), (0x750, 0x77F),
               (0x870, 0x8FF), (0xFB50, 0xFDCF), (0xFDF0, 0xFDFF), (0xFE70, 0xFEFC)),
    "Devanagari": ((0x900, 0x963), (0x971, 0x97F), (0xA8E0, 0xA8FF)),
    "Bengali": ((0x980, 0x9E3), (0x9F0, 0x9FF)),
    "Gurmukhi": ((0xA00, 0xA65), (0xA70, 0xA7F)),
    "Gujarati": ((0xA80, 0xAE5), (0xAF0, 0xAFF)),
    "Odia": ((0xB00, 0xB65), (0xB70, 0xB7F)),
    "Tamil": ((0xB80, 0xBE5), (0xBF0, 0xBFF)),
    "Telugu": ((0xC00, 0xC65), (0xC70, 0xC7F)),
    "Kannada": ((0xC80, 0xCE5), (0xCF0, 0xCFF)),
    "Malayalam": ((0xD00, 0xD65), (0xD70, 0xD7F)),
    "Sinhala": ((0xD80, 0xDE5), (0xDF2, 0xDF3)),
    "Thai": ((0xE01, 0xE3A), (0xE40, 0xE4E)),
    "Lao": ((0xE81, 0xECF), (0xEDC, 0xEDF)),
    "Tibetan": ((0xF00, 0xF00), (0xF18, 0xF19), (0xF3E, 0xFFF)),
    "Myanmar": ((0x1000, 0x103F), (0x1050, 0x109F), (0xA9E0, 0xA9FF), (0xAA60, 0xAA7F)),
    "Georgian": ((0x10A0, 0x10FA), (0x10FC, 0x10FF), (0x1C90, 0x1CBF), (0x2D00, 0x2D2F)),
    "Hangul": ((0x1100, 0x11FF), (0x3131, 0x318E), (0xA960, 0xA97F), (0xAC00, 0xD7FB)),
    "Ethiopic": ((0x1200, 0x135F), (0x1380, 0x139F), (0x2D80, 0x2DDF), (0xAB00, 0xAB2F)),
    "Khmer": ((0x1780, 0x17D3), (0x17D7, 0x17D7)),
    "Mongolian": ((0x1820, 0x18AF),),
    "Kana": ((0x3041, 0x309F), (0x30A1, 0x30FA), (0x30FC, 0x30FF), (0x31F0, 0x31FF), (0xFF66, 0xFF9F)),
    "Han": ((0x2E80, 0x2FDF), (0x3005, 0x3007), (0x3100, 0x312F), (0x3400, 0x4DBF), (0x4E00, 0x9FFF),
            (0xF900, 0xFAFF), (0x20000, 0x3FFFF)),
}  # fmt: skip

SCRIPTS: tuple[str, ...] = ("", *_RANGES)
"""Names of the scripts by number; 0 is what is no letter."""

# Zeros of the decimal digits that corpora hold: ASCII, Arabic, Persian, Devanagari, Bengali, Thai, full-width.
_ZEROS = (0x30, 0x660, 0x6F0, 0x966, 0x9E6, 0xE50, 0xFF10)
_FIRST_DIGIT = 100
_SEPARATOR = 200

_ENDINGS = {1: "?？؟;", 2: "!！", 3: ":：", 4: ".。．…।"}

LINE_SEPARATORS = "\v\f\x1c\x1d\x1e\x85\u2028\u2029"
"""Characters that other programs take for the end of a line."""

Codes = npt.NDArray[np.uint8] | npt.NDArray[np.uint32]


class Characters(NamedTuple):
    """The code points of some lines, none of them empty, one after another."""

    codes: Codes
    classes: npt.NDArray[np.uint8]
    "Of each code point: number of its script, or a digit, or a line separator, or 0."
    starts: IntArray
    "Of each line: where it begins."
    lengths: IntArray
    "Of each line, in code points."

    def head(self, count: int) -> "Characters":
        """The first ``count`` lines."""
        size = int(self.lengths[:count].sum())
        return Characters(self.codes[:size], self.classes[:size], self.starts[:count], self.lengths[:count])

    def rows(self, positions: IntArray) -> IntArray:
        """The line of each of the ``positions``."""
        return np.searchsorted(self.starts, positions, side="right") - 1


def characters(lines: Sequence[str]) -> Characters:
    """All code points of ``lines``, which are not empty, in one array. Memory: 2 to 13 bytes a character."""
    lengths = np.fromiter(map(len, lines), np.int64, len(lines))
    codes, classes = _classified("".join(lines))
    return Characters(codes, classes, np.cumsum(lengths) - lengths, lengths)


def _classified(text: str) -> tuple[Codes, npt.NDArray[np.uint8]]:
    table = _class_table()
    try:
        narrow = text.encode("latin-1")
    except UnicodeEncodeError:
        codes = np.frombuffer(text.encode("utf-32-le"), dtype="<u4")
        return codes, table[codes]
    classes = narrow.translate(table[:256].tobytes())
    return np.frombuffer(narrow, np.uint8), np.frombuffer(classes, np.uint8)


def script_counts(chars: Characters) -> IntArray:
    """Letters of each script: an array [scripts]; entry 0 counts what is no letter."""
    counts = np.bincount(chars.classes, minlength=len(SCRIPTS))
    letters = counts[: len(SCRIPTS)].copy()
    letters[0] += counts[len(SCRIPTS) :].sum()
    return letters


def leading_scripts(chars: Characters) -> IntArray:
    """Of each line: the script that most of its letters belong to; 0 for a line without letters."""
    scripts = np.where(chars.classes < len(SCRIPTS), chars.classes, 0)
    present = np.flatnonzero(np.bincount(scripts, minlength=len(SCRIPTS))[1:]) + 1
    if len(present) <= 1:
        return np.maximum.reduceat(scripts, chars.starts).astype(np.int64)
    counts = np.stack([np.add.reduceat(scripts == script, chars.starts, dtype=np.int64) for script in present])
    return np.where(counts.any(axis=0), present[counts.argmax(axis=0)], 0)


def digit_marks(chars: Characters) -> IntArray:
    """A number for each line that tells which digits it has and how often, not their order; 0 without digits."""
    found = np.flatnonzero((chars.classes >= _FIRST_DIGIT) & (chars.classes < _FIRST_DIGIT + 10))
    marks = _digit_marks()[chars.classes[found] - _FIRST_DIGIT]
    return np.bincount(chars.rows(found), weights=marks, minlength=len(chars.lengths)).astype(np.int64)


def endings(chars: Characters) -> npt.NDArray[np.uint8]:
    """Which kind of punctuation ends each line: 0 none, then question, exclamation, colon, full stop."""
    last = chars.codes[chars.starts + chars.lengths - 1]
    kinds: npt.NDArray[np.uint8] = _ending_table()[np.minimum(last.astype(np.uint32), np.uint32(0xFFFF))]
    return kinds


def bigram_profile(chars: Characters, bins: int) -> IntArray:
    """How often each pair of neighbouring letters occurs, hashed into ``bins``: a fingerprint of the language."""
    codes = chars.codes.astype(np.uint32) | np.uint32(0x20)
    letters = (chars.classes > 0) & (chars.classes < len(SCRIPTS))
    both = letters[1:] & letters[:-1]
    both[chars.starts[1:] - 1] = False
    mixed = (codes[:-1] * np.uint32(40_503) + codes[1:] * np.uint32(2_654_435_761)) >> np.uint32(7)
    return np.bincount(mixed[both] % np.uint32(bins), minlength=bins)


def lines_with_separators(chars: Characters) -> IntArray:
    """Indices of the lines that hold any of :data:`LINE_SEPARATORS`."""
    return np.unique(chars.rows(np.flatnonzero(chars.classes == _SEPARATOR)))


@cache
def _class_table() -> npt.NDArray[np.uint8]:
    table = np.zeros(sys.maxunicode + 1, np.uint8)
    for number, ranges in enumerate(_RANGES.values(), 1):
        for first, last in ranges:
            table[first : last + 1] = number
    for zero in _ZEROS:
        table[zero : zero + 10] = np.arange(10) + _FIRST_DIGIT
    table[[ord(char) for char in LINE_SEPARATORS]] = _SEPARATOR
    return table


@cache
def _digit_marks() -> npt.NDArray[np.float64]:
    return np.random.default_rng(1).integers(1, 1 << 30, 10).astype(np.float64)


@cache
def _ending_table() -> npt.NDArray[np.uint8]:
    table = np.zeros(0x10000, np.uint8)
    for kind, chars in _ENDINGS.items():
        for char in chars:
            table[ord(char)] = kind
    return table
