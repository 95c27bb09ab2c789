"""Strict JSON: one form for writing, and a reader that refuses what only looks like JSON."""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from dragoman.errors import FolderError
from dragoman.store import files

LIMIT = 64 << 20
"""Bytes of the largest record that is read."""

Json = Mapping[str, "Json"] | Sequence["Json"] | str | int | float | bool | None


def encode(value: Json) -> bytes:
    """``value`` as UTF-8 JSON with sorted keys: equal values give equal bytes.

    Raises:
        FolderError: a number is not finite, or a value has no JSON form.
    """
    return _dumps(value, indent=1) + b"\n"


def digest(value: Json) -> str:
    """The SHA-256 of ``value`` in hexadecimal; equal values have equal ones.

    Raises:
        FolderError: as `encode`.
    """
    return hashlib.sha256(_dumps(value, indent=None)).hexdigest()


def _dumps(value: Json, indent: int | None) -> bytes:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, sort_keys=True, indent=indent).encode("utf-8")
    except (ValueError, TypeError, RecursionError) as error:
        raise FolderError(f"a record cannot be written as JSON: {error}") from error


def decode(data: bytes, where: str) -> Any:
    """The value written in ``data``; duplicate keys, NaN, Infinity and endless nesting are refused.

    Args:
        data: UTF-8 JSON.
        where: what is read, for the message.

    Raises:
        FolderError: it is not such JSON.
    """
    try:
        return json.loads(data.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_refuse, parse_float=_finite)
    except RecursionError:
        raise FolderError(f"{where} is nested too deeply") from None
    except ValueError as error:
        raise FolderError(f"{where} is damaged: not valid JSON ({error})") from None


def write(path: Path, value: Json) -> None:
    """Write a record atomically; see `files.write_atomic`."""
    files.write_atomic(path, encode(value))


def read(path: Path) -> Any:
    """Read a record.

    Raises:
        FolderError: it is missing, too large or damaged.
    """
    return decode(files.read_bytes(path, LIMIT), files.shown(path))


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        raise ValueError("a key appears twice")
    return values


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _refuse(text)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant[:20]} is not a finite number")
