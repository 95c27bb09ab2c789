"""A curve in one line of text."""

import math
from collections.abc import Sequence

BLOCKS = "▁▂▃▄▅▆▇█"

MOST = 512
"""Points that are kept; no terminal shows as many."""

LEAST = 8
"""Characters below which it is no curve."""

Point = tuple[int, float]
"""An update, counted from 1, and what was seen then."""


def blocks(points: Sequence[Point], end: int, width: int) -> str:
    """``points`` from the first update to ``end`` in ``width`` characters, the lowest of them as ▁, the highest as █.

    A character is the mean of the points that fall on it; where none does, the one before goes on. Numbers that are not
    finite are gaps, as is what lies before the first point.
    """
    found: list[list[float]] = [[] for _ in range(width)]
    for step, value in points:
        found[min((step - 1) * width // end, width - 1)].append(value)
    means: list[float] = []
    for values in found:
        before = means[-1] if means else math.nan
        means.append(sum(value / len(values) for value in values) if values else before)
    known = [mean for mean in means if math.isfinite(mean)]
    low, high = min(known, default=0.0), max(known, default=0.0)
    return "".join(_block(mean, low, high) if math.isfinite(mean) else " " for mean in means)


def _block(value: float, low: float, high: float) -> str:
    span = high / 2 - low / 2  # of halves, because the difference of two numbers may be too large to be one
    share = (value / 2 - low / 2) / span if span else 0.5
    return BLOCKS[round(share * (len(BLOCKS) - 1))]


class Curve:
    """Grows by a point at a time, and forgets every other one when there are too many."""

    def __init__(self, name: str, digits: int) -> None:
        """``digits``: behind the point, of the values that are written out."""
        self._name = name
        self._digits = digits
        self._points: list[Point] = []
        self._gap = 1
        self._newest = math.nan

    def add(self, step: int, value: float) -> None:
        """What was seen at an update; one that was shown already, before a resumption, is not shown again."""
        self._newest = value
        if not self._points or step >= self._points[-1][0] + self._gap:
            self._points.append((step, value))
        if len(self._points) > MOST:
            self._points, self._gap = self._points[::2], 2 * self._gap

    def line(self, end: int, width: int) -> str:
        """Name, first value, curve up to update ``end`` and newest value, in ``width`` characters; else nothing."""
        if not self._points:
            return ""
        first, newest = (f"{value:6.{self._digits}f}" for value in (self._points[0][1], self._newest))
        room = width - len(f"{self._name} {first}  {newest}")
        return f"{self._name} {first} {blocks(self._points, end, room)} {newest.strip()}" if room >= LEAST else ""
