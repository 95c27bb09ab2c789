"""Long lines in parts: nothing lost, nothing too long, cut where people pause, and in linear time."""

import time
from collections.abc import Callable
from itertools import pairwise

import pytest

from dragoman.text.segment import split
from toys import toy_tokenizer


def pieces(text: str) -> int:
    return len(toy_tokenizer().encode(text))


def test_a_line_that_fits_stays_whole() -> None:
    assert split("One. Two. Three.", 16, len) == ["One. Two. Three."]
    assert split("", 5, len) == []
    assert split(" ", 1, len) == [" "]


@pytest.mark.parametrize(
    ("line", "limit", "expected"),
    [
        ("One. Two. Three.", 10, ["One. Two. ", "Three."]),
        ("One. Two! Three? Four…", 7, ["One. ", "Two! ", "Three? ", "Four…"]),
        ("He said “No.” She left.", 15, ["He said “No.” ", "She left."]),
        ("我来了。你呢？他走了！", 4, ["我来了。", "你呢？", "他走了！"]),
        ("他说“好。”然后走了。", 6, ["他说“好。”", "然后走了。"]),
        ("First\nSecond\n\nThird", 8, ["First\n", "Second\n\n", "Third"]),
        ("Long, longer, longest and on", 14, ["Long, longer, ", "longest and on"]),
        ("甲乙丙，丁戊己，庚辛", 5, ["甲乙丙，", "丁戊己，", "庚辛"]),
        ("one two three four", 9, ["one two ", "three ", "four"]),
        ("abcdefgh", 3, ["ab", "cd", "ef", "gh"]),
        ("3.14 is pi, e.g. 2.71 is e", 15, ["3.14 is pi, ", "e.g. 2.71 is e"]),
    ],
)
def test_where_it_cuts(line: str, limit: int, expected: list[str]) -> None:
    assert split(line, limit, len) == expected


def test_parts_keep_as_much_context_as_fits() -> None:
    """No two neighbours could have been one."""
    line = "A b c. D e f g h. I. J. K l m n, o p q r s t u v w x y z. Z. " * 5
    parts = split(line, 20, len)
    assert "".join(parts) == line
    assert all(len(left + right) > 20 for left, right in pairwise(parts))


def test_the_limit_holds_although_pieces_do_not_add_up() -> None:
    """Without a space between them two texts may have more pieces together than apart."""

    def odd(text: str) -> int:
        return len(text) + 3 * text.count("\nb")

    parts = split("aaaa\nbbbb\nbbbb\nbb\nb", 10, odd)
    assert "".join(parts) == "aaaa\nbbbb\nbbbb\nbb\nb"
    assert all(odd(part) <= 10 for part in parts)


@pytest.mark.parametrize("limit", [1, 2, 5, 30])
def test_real_pieces_within_the_limit(limit: int) -> None:
    """Only a single character may be more, which nobody can cut."""
    line = (
        "The cat, the dog: and 我喜欢学习编程，你呢？\nThe table.  Is it?\nThe\nThe cat's 👩‍👩‍👧 12 345,67 €; naïve" * 3
    )
    parts = split(line, limit, pieces)
    assert "".join(parts) == line
    assert all(pieces(part) <= limit or len(part) == 1 for part in parts)


ALPHABETS = [
    "a",
    " ",
    ".",
    "。",
    ",",
    "\n",
    "的",
    "a ",
    "a.",
    ". ",
    "-",
    " -",
    "”",
    "。”",
    "…\t",
    "👩",
    "\u0301",
    "\u2028",
    "，",
    "x\u00a0",
]


def seconds(run: Callable[[], object]) -> float:
    begun = time.process_time()
    run()
    return time.process_time() - begun


@pytest.mark.parametrize("text", ALPHABETS, ids=ascii)
def test_linear_in_the_length(text: str) -> None:
    """Twice the text is measured about twice as much, and 100,000 characters take no time that one would notice."""

    def measured(line: str) -> int:
        total = 0

        def length(part: str) -> int:
            nonlocal total
            total += len(part)
            return len(part)

        assert "".join(split(line, 200, length)) == line
        return total

    long = text * (100_000 // len(text))
    assert measured(2 * long) < 2.5 * measured(long)
    assert seconds(lambda: split(long, 200, len)) < 2


def test_a_long_word_in_real_pieces() -> None:
    assert seconds(lambda: split("ab" * 50_000, 200, pieces)) < 10
