"""Durations as people write them and say them."""

import re

from dragoman.errors import ConfigError

_WRITTEN = re.compile(r"(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,6})s)?")
_UNITS = (("h", 3600), ("min", 60), ("s", 1))


def read(text: str) -> float:
    """The seconds of ``90s``, ``30m``, ``2h`` or ``1h30m``.

    Raises:
        ConfigError: it is none of these, or nothing at all.
    """
    match = _WRITTEN.fullmatch(text.strip().lower())
    seconds = (
        sum(int(count or 0) * unit for count, (_, unit) in zip(match.groups(), _UNITS, strict=True)) if match else 0
    )
    if not seconds:
        raise ConfigError(f"{text!r} is no duration; write it like 90s, 30m, 2h or 1h30m")
    return float(seconds)


def exact(seconds: float) -> str:
    """A duration with nothing rounded but parts of a second: 30 min, 1 h 30 min, 1 min 30 s."""
    parts, rest = [], round(seconds)
    for name, unit in _UNITS:
        count, rest = divmod(rest, unit)
        if count:
            parts.append(f"{count} {name}")
    return " ".join(parts) or "0 s"


def spell(seconds: float) -> str:
    """A duration as people say it: 45 s, 12 min, 3 h 05 min, 12 days."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes >= 72 * 60:
        return f"{minutes / 1440:,.0f} days"
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02d} min"
