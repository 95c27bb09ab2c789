"""The mean of several models' weights, which often translates better than any of them."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from dragoman.errors import FolderError
from dragoman.store import tensors
from dragoman.store.files import shown
from dragoman.store.tensors import Array, Header


def average(paths: Sequence[Path]) -> dict[str, Array]:
    """The mean of the tensors in ``paths``, in the dtype they have; sums are in float64.

    The files are only read, and one of them is open at a time. The mean of copies of one float32 file is that file to
    the bit; the order of the files matters at most in the last digit of float64. Integers and truth values (counters,
    tables) are not averaged: they must agree. bfloat16 becomes float32.

    Cost:
        memory of twice the size of one file in float32.

    Raises:
        FolderError: no file is given; a file is missing or damaged; names, shapes, dtypes or integers differ (the first
            difference is named).
    """
    if not paths:
        raise FolderError("nothing to average: give at least one model or checkpoint")
    first = tensors.read_header(paths[0])
    for path in paths[1:]:
        _check_same(first, tensors.read_header(path), paths[0], path)
    sums: dict[str, Array] = {}
    dtypes = {}
    for path in paths:
        differing = ""
        for name, array in tensors.iterate_arrays(path, first.specs):
            dtypes[name] = array.dtype
            if not _add(sums, name, array):
                differing = name
        if differing:  # said only now, when the file is known to be undamaged
            raise FolderError(f"cannot average: the integers of {differing} in {shown(path)} are not those before")
    return {name: np.asarray(_mean(total, len(paths)), dtypes[name]) for name, total in sums.items()}


def _add(sums: dict[str, Array], name: str, array: Array) -> bool:
    """Add to the sum of ``name``; False if these are integers and differ from those before."""
    if not np.issubdtype(array.dtype, np.floating):
        return np.array_equal(sums.setdefault(name, array), array)
    if name in sums:
        sums[name] += array
    else:
        sums[name] = array.astype(np.float64)
    return True


def _mean(total: Array, count: int) -> Array:
    return total / count if np.issubdtype(total.dtype, np.floating) else total


def _check_same(first: Header, other: Header, first_path: Path, path: Path) -> None:
    ours, theirs = first.specs, other.specs
    for name in sorted({*ours, *theirs}):
        if ours.get(name) != theirs.get(name):
            raise FolderError(
                f"cannot average: {name} is {_told(ours, name)} in {shown(first_path)}"
                f" and {_told(theirs, name)} in {shown(path)}"
            )


def _told(specs: Mapping[str, tensors.Spec], name: str) -> str:
    return tensors.spelled(specs[name]) if name in specs else "missing"
