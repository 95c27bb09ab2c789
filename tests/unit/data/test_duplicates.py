"""Pairs that were there before."""

import random
import tracemalloc

from dragoman.data.duplicates import Seen


def test_the_first_of_equals_stays() -> None:
    seen = Seen()
    assert seen.fresh([("a", "b"), ("a", "c"), ("a", "b"), ("b", "b")]) == [("a", "b"), ("a", "c"), ("b", "b")]
    assert seen.fresh([("b", "b"), ("a b", ""), ("a", "b")]) == [("a b", "")]
    assert seen.fresh([]) == []
    assert seen.fresh([("a b", "")]) == []


def test_like_a_set() -> None:
    draws, seen, known = random.Random(1), Seen(), set[tuple[str, str]]()
    for _ in range(200):
        pairs = [(str(draws.randrange(60)), str(draws.randrange(60))) for _ in range(draws.randrange(40))]
        wanted = [pair for pair in dict.fromkeys(pairs) if pair not in known]
        known |= set(pairs)
        assert seen.fresh(pairs) == wanted


def test_a_few_bytes_a_pair() -> None:
    seen = Seen()
    tracemalloc.start()
    for start in range(0, 200_000, 5000):
        seen.fresh([(str(number), "") for number in range(start, start + 5000)])
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size < 12 * 200_000
