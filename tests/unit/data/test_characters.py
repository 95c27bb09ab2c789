"""Counting characters of many lines at once gives what counting them one by one does."""

import unicodedata

import numpy as np
import pytest

from dragoman.data.characters import (
    LINE_SEPARATORS,
    SCRIPTS,
    bigram_profile,
    characters,
    digit_marks,
    endings,
    leading_scripts,
    lines_with_separators,
    script_counts,
)

LINES = [
    "Hello, world 42!",
    "Привет мир 24",
    "测试 test 测试",
    "42 24",
    "Γειά σου;",
    "naïve café",
    "𠀀𠀁 a",
    "x\u2028y",
    "...",
]


def test_code_points_lengths_and_rows() -> None:
    chars = characters(LINES)
    assert "".join(map(chr, chars.codes.tolist())) == "".join(LINES)
    assert chars.lengths.tolist() == [len(line) for line in LINES]
    assert chars.rows(np.arange(len(chars.codes))).tolist() == [row for row, line in enumerate(LINES) for _ in line]
    assert "".join(map(chr, chars.head(2).codes.tolist())) == LINES[0] + LINES[1]


def test_latin_one_takes_the_short_way_and_gives_the_same() -> None:
    narrow, wide = characters(LINES[:1]), characters([LINES[0], "Ω"])
    assert narrow.codes.dtype == np.uint8
    assert wide.codes.dtype == np.uint32
    assert narrow.classes.tolist() == wide.classes.tolist()[:-1]


def test_the_script_that_leads_each_line() -> None:
    leaders = [SCRIPTS[script] for script in leading_scripts(characters(LINES))]
    assert leaders == ["Latin", "Cyrillic", "Latin", "", "Greek", "Latin", "Han", "Latin", ""]
    assert [SCRIPTS[script] for script in leading_scripts(characters(["abc", "12"]))] == ["Latin", ""]


def test_letters_are_counted_by_script() -> None:
    counts = dict(zip(SCRIPTS, script_counts(characters(LINES)).tolist(), strict=True))
    assert {name: count for name, count in counts.items() if name and count} == {
        "Latin": 10 + 4 + 9 + 1 + 2,
        "Cyrillic": 9,
        "Han": 6,
        "Greek": 7,
    }
    assert sum(counts.values()) == sum(map(len, LINES))


@pytest.mark.parametrize("char", "éÅßÿΩжشिกꙋ가カあ中ﬁＡაህ")
def test_letters_of_many_scripts_are_letters(char: str) -> None:
    name = unicodedata.name(char).split()[0].title()
    found = SCRIPTS[leading_scripts(characters([char]))[0]]
    same = {"Cjk": "Han", "Hiragana": "Kana", "Katakana": "Kana", "Fullwidth": "Latin"}
    assert found == same.get(name, name)


def test_digits_are_compared_without_their_order_and_alphabet() -> None:
    marks = digit_marks(characters(["on 12.03.", "am 3. 12. 0", "１２０３", "12.04.", "none", "١٢٠٣"])).tolist()
    assert marks[0] == marks[1] == marks[2] == marks[5] != marks[3]
    assert marks[4] == 0
    assert marks[3] > 0


def test_endings() -> None:
    assert endings(characters(["a?", "a？", "a!", "a：", "a.", "a。", "a", "🙂"])).tolist() == [1, 1, 2, 3, 4, 4, 0, 0]


def test_lines_with_separators() -> None:
    lines = ["plain", *(f"a{char}b" for char in LINE_SEPARATORS), "plain"]
    assert lines_with_separators(characters(lines)).tolist() == list(range(1, 9))


def test_letter_pairs_do_not_reach_across_lines() -> None:
    apart = bigram_profile(characters(["ab", "cd"]), 1 << 16)
    assert apart.sum() == 2
    assert (bigram_profile(characters(["ab", "cd", "中"]), 1 << 16) == apart).all()
    assert (bigram_profile(characters(["AB c"]), 1 << 16) <= apart).all()
