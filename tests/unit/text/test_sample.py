"""How much text a vocabulary is learned from."""

from dragoman.text.sample import LONGEST, bounded


def test_it_ends_when_there_are_enough_different_words() -> None:
    assert list(bounded(["aa bb", "aa bb", "é", "x", "y"], distinct_bytes=6)) == ["aa bb", "aa bb", "é", "x"]


def test_repetitions_cost_nothing() -> None:
    assert len(list(bounded(["aa bb"] * 1000, distinct_bytes=4))) == 1000


def test_endless_words_are_not_learned_from() -> None:
    endless = "w" * (LONGEST + 1)
    lines = [f"a {endless} b", endless, "c" * LONGEST, "é" * (LONGEST // 2 + 1)]
    assert list(bounded(lines)) == ["a b", "", "c" * LONGEST, ""]


def test_nothing_more_is_read() -> None:
    lines = iter(["a", "b", "c"])
    assert list(bounded(lines, distinct_bytes=0)) == ["a"]
    assert next(lines) == "b"
