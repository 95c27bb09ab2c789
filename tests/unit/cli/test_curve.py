"""Curves of block characters."""

import math

import pytest

from dragoman.cli.curve import BLOCKS, LEAST, MOST, Curve, blocks


def line(values: list[float], width: int) -> str:
    """Of values at updates 1, 2, 3, ..."""
    return blocks(list(enumerate(values, 1)), len(values), width)


def test_every_height_in_its_place() -> None:
    assert line([0, 1, 2, 3, 4, 5, 6, 7], 8) == BLOCKS
    assert line([7, 6, 5, 4, 3, 2, 1, 0], 8) == BLOCKS[::-1]
    assert line([-3, 4], 2) == "▁█"


def test_many_are_averaged_and_few_are_stretched() -> None:
    assert line([0, 2, 4, 6, 8, 10, 12, 14], 4) == "▁▃▆█"
    assert line([1, 2], 6) == "▁▁▁███"
    assert len(line([float(i % 17) for i in range(1000)], 33)) == 33


def test_it_begins_where_the_first_value_is_and_lasts_until_the_end() -> None:
    assert blocks([(51, 1.0), (101, 2.0)], 200, 8) == "  ▁▁████"
    assert blocks([(200, 1.0)], 100, 4) == "   ▅"


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ([], "    "),
        ([5, 5, 5, 5], "▅▅▅▅"),
        ([0, 0, 0, 0], "▅▅▅▅"),
        ([1, math.nan, math.inf, 2], "▁  █"),
        ([math.nan] * 4, "    "),
        ([-math.inf, 3, 3, math.inf], " ▅▅ "),
        ([-1.7e308, 0, 0, 1.7e308], "▁▅▅█"),
        ([0, 5e-324, 0, 5e-324], "▅▅▅▅"),
    ],
    ids=["nothing", "constant", "zeros", "gaps", "no number", "infinities", "huge", "tiny"],
)
def test_numbers_that_are_hard_to_draw(values: list[float], wanted: str) -> None:
    assert line(values, 4) == wanted


def test_a_line_has_the_first_and_the_newest_value_and_fits() -> None:
    curve = Curve("loss", 2)
    assert curve.line(10, 80) == ""
    for step in range(1, 101):
        curve.add(step, 10.0 - step / 20)
    shown = curve.line(100, 40)
    assert shown.startswith("loss   9.95 █")
    assert shown.endswith("▁ 5.00")
    assert 34 < len(shown) <= 40
    assert curve.line(100, 19 + LEAST)
    for width in range(19 + LEAST):
        assert curve.line(100, width) == ""


def test_values_that_are_no_numbers_are_written_out() -> None:
    curve = Curve("BLEU", 1)
    curve.add(1, math.nan)
    curve.add(2, math.inf)
    assert curve.line(2, 30).split() == ["BLEU", "nan", "inf"]


def test_a_long_training_takes_no_more_room() -> None:
    curve, resumed = Curve("loss", 2), Curve("loss", 2)
    for step in range(1, 20_001):
        curve.add(step, float(step))
        resumed.add(step, float(step))
    resumed.add(3, 0.0)  # resumed: this was shown already
    assert len(curve._points) <= MOST
    assert curve.line(20_000, 8 + 21) == f"loss   1.00 {BLOCKS} 20000.00"
    assert resumed._points == curve._points
