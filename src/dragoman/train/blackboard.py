"""Numbers that the workers of one machine add up in memory which all of them see, instead of sending them around."""

import mmap
import os
import secrets
from collections.abc import Sequence
from contextlib import suppress

import torch
from torch import Tensor

from dragoman.train.workers import Workers

PAGE = 4096
"""Bytes that a worker's row is rounded up to."""

CHUNK = 1 << 16
"""Numbers added up at a time: with those of a few workers they stay in a core's cache."""


class Blackboard:
    """A row of float32 for each worker; the memory is given back when all have let go of it, however they ended."""

    def __init__(self, workers: Workers, size: int, memory: mmap.mmap) -> None:
        """See :func:`hang`."""
        self.workers = workers
        stride = _stride(size)
        self.rows = [
            torch.frombuffer(memory, dtype=torch.float32, count=size, offset=rank * stride)
            for rank in range(workers.count)
        ]

    @property
    def own(self) -> Tensor:
        """[size], what this worker adds."""
        return self.rows[self.workers.rank]

    def add_up(self, shares: Sequence[float]) -> None:
        """Make every row the sum of all rows, each multiplied by its worker's share; the same bits in each.

        All rows must be complete; the workers know that if they have told each other their shares. A row whose share
        is 0 is not looked at. Each worker adds up a part of the columns.

        Raises:
            TrainingError: a worker is gone or hangs.
        """
        size, count, rank = len(self.own), self.workers.count, self.workers.rank
        for begin in range(size * rank // count, size * (rank + 1) // count, CHUNK):
            end = min(begin + CHUNK, size * (rank + 1) // count)
            total = torch.zeros(end - begin)
            for row, share in zip(self.rows, shares, strict=True):
                if share:
                    total.add_(row[begin:end], alpha=share)
            for row in self.rows:
                row[begin:end] = total
        self.workers.gather([])


def hang(workers: Workers, size: int) -> Blackboard | None:
    """One with ``size`` columns; nothing if the workers are not on one machine or their system cannot do it.

    All of them must ask for it.

    Raises:
        TrainingError: a worker is gone or hangs.
    """
    if not workers.are_together:
        return None
    length, name = _stride(size) * workers.count, f"dragoman-{secrets.token_hex(8)}"
    descriptor = _create(name, length) if workers.is_first else -1
    memory = None
    with suppress(OSError, ValueError):
        memory = _see(workers.share((os.getpid(), descriptor, name)), length)
    all_see = all(sees for [sees] in workers.gather([memory is not None]))
    if descriptor >= 0:
        os.close(descriptor)  # the memory stays as long as anybody sees it
    return Blackboard(workers, size, memory) if memory and all_see else None


def _stride(size: int) -> int:
    return -(-size * 4 // PAGE) * PAGE


def _create(name: str, length: int) -> int:
    """A file in no file system, as long as that; -1 if there is no room or no such file here."""
    with suppress(OSError, AttributeError):
        descriptor = os.memfd_create(name)
        try:
            os.posix_fallocate(descriptor, 0, length)
        except OSError:
            os.close(descriptor)
        else:
            return descriptor
    return -1


def _see(place: tuple[int, int, str], length: int) -> mmap.mmap | None:
    """The file that a process has open, if it is that file: whoever started the workers may have been wrong.

    Raises:
        OSError, ValueError: it may not be looked at.
    """
    process, number, name = place
    path = f"/proc/{process}/fd/{number}"
    if number < 0 or name not in os.readlink(path):
        return None
    descriptor = os.open(path, os.O_RDWR)
    try:
        return mmap.mmap(descriptor, length)
    finally:
        os.close(descriptor)
