"""The whole works: what is trained translates what it has never seen."""

import dragoman
from trainings import Digits


def test_reverses_digits(digits: Digits) -> None:
    sources, wanted = digits.lines("test.src"), digits.lines("test.tgt")
    got = dragoman.load(digits.model).translate(sources)
    assert sum(map(str.__eq__, got, wanted)) >= 0.95 * len(wanted)
