"""The picture of a training."""

from typing import Any

import pytest

from dragoman.train.curve import draw

UPDATES = [{"event": "update", "step": step, "loss": 5.0 / step} for step in (50, 100)]
LOOKS: list[dict[str, Any]] = [
    {"event": "validation", "step": 50, "loss": 4.0, "bleu": 1.0, "chrf": 20.0, "best": True},
    {"event": "validation", "step": 100, "loss": None, "bleu": 0.5, "chrf": 10.0, "best": False},
]


@pytest.mark.parametrize("events", [[*UPDATES, *LOOKS], LOOKS, LOOKS[1:], [{"event": "skipped", "step": 1}, *LOOKS]])
def test_a_picture(events: list[dict[str, Any]]) -> None:
    picture = draw(events, "my-en-de")
    assert picture.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = (int.from_bytes(picture[start : start + 4]) for start in (16, 20))
    assert (width, height) == (1080, 432)


@pytest.mark.parametrize("title", ["$\\frac{", "模型 \U0001f600", "", "a\nb"])
def test_any_name_is_a_title(title: str) -> None:
    assert draw(LOOKS, title)
