"""Durations, read and said."""

import pytest

from dragoman.errors import ConfigError
from dragoman.train.duration import exact, read, spell


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("30m", 1800), ("2h", 7200), ("1h30m", 5400), ("1h0m5s", 3605), (" 5M ", 300)]
)
def test_what_is_read(text: str, seconds: float) -> None:
    assert read(text) == seconds


@pytest.mark.parametrize("text", ["", "0s", "30", "m", "1.5h", "30m1h", "-5m", "1 h", "30min", "9999999s", "x"])
def test_what_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is no duration; write it like 90s, 30m, 2h or 1h30m"):
        read(text)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0, "0 s"), (90, "1 min 30 s"), (1800, "30 min"), (5400, "1 h 30 min"), (7200.2, "2 h"), (3605, "1 h 5 s")],
)
def test_nothing_rounded(seconds: float, said: str) -> None:
    assert exact(seconds) == said


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.2, "0 s"),
        (89.4, "89 s"),
        (90, "2 min"),
        (3600, "60 min"),
        (5400, "1 h 30 min"),
        (11_100, "3 h 05 min"),
        (86_400 * 38, "38 days"),
    ],
)
def test_as_people_say_it(seconds: float, said: str) -> None:
    assert spell(seconds) == said
