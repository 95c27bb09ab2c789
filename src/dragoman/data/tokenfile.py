"""A corpus as ids on disk: built once, read by any number of trainings, of any size."""

import os
import secrets
import shutil
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from dragoman.data.duplicates import Seen
from dragoman.errors import DataError

CHUNK = 8192
"""Pairs that are encoded at a time; bounds the memory of building."""

IDS, OFFSETS = "ids.bin", "offsets.bin"
WIDTH = 4
"""Bytes of an id."""


class Encoder(Protocol):
    """What is needed of a tokenizer."""

    def encode_batch(self, texts: list[str]) -> list[list[int]]:
        """The ids of each text."""
        ...


class IdFile:
    """All ids of a corpus, read where they are wanted.

    Not mapped into memory: pairs are read in random order, so that soon the whole file would count as the process's
    memory; and a file that is cut short under a reader is an error here and not the end of the process.
    """

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDONLY)
        weakref.finalize(self, os.close, self._descriptor)
        self._path = path
        self._size, rest = divmod(os.fstat(self._descriptor).st_size, WIDTH)
        if rest:
            raise ValueError(f"{path.name} ends in the middle of an id")

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, part: slice) -> NDArray[np.uint32]:
        """The ids from ``part.start`` to ``part.stop``, which must be there."""
        wanted = WIDTH * (part.stop - part.start)
        found = os.pread(self._descriptor, wanted, WIDTH * part.start)
        if len(found) != wanted:
            raise DataError(f"{self._path} was cut short while it was read; delete its folder, it is built again")
        return np.frombuffer(found, np.uint32)


@dataclass(frozen=True)
class TokenFile:
    """Pairs of id sequences: ``ids`` holds source and target of each pair in turn, ``offsets`` where each begins.

    Neither BOS nor EOS is stored. Opening reads nothing; the offsets are mapped into memory, 16 bytes a pair.
    """

    ids: IdFile
    offsets: NDArray[np.int64]

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Open the token file that :func:`build` left in ``folder``.

        Raises:
            DataError: it is missing or its two files do not fit together; delete the folder, it is built again.
        """
        try:
            offsets = np.memmap(folder / OFFSETS, dtype=np.int64, mode="r")
            ids = IdFile(folder / IDS)
        except (OSError, ValueError) as error:
            raise DataError(
                f"the token file in {folder} cannot be read ({error}); delete that folder, it is built again"
            ) from None
        if len(offsets) % 2 == 0 or offsets[0] != 0 or offsets[-1] != len(ids):
            raise DataError(f"the token file in {folder} is damaged; delete that folder, it is built again")
        return cls(ids, offsets)

    def __len__(self) -> int:
        return (len(self.offsets) - 1) // 2

    def pair(self, index: int) -> tuple[list[int], list[int]]:
        """Source and target ids of one pair."""
        start, middle, end = self.offsets[2 * index : 2 * index + 3].tolist()
        ids = self.ids[start:end].tolist()
        return ids[: middle - start], ids[middle - start :]

    def lengths(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """Source and target lengths [len(indices), 2] of some pairs."""
        at = 2 * indices[:, None] + np.arange(2)
        lengths: NDArray[np.int64] = self.offsets[at + 1] - self.offsets[at]
        return lengths


def build(
    folder: Path,
    pairs: Iterable[tuple[str, str]],
    src: Encoder,
    tgt: Encoder,
    max_length: int,
    drop_duplicates: bool,
    limit: str = "data.max_length",
) -> Counter[str]:
    """Encode ``pairs`` into ``folder`` (which must not exist yet), whole or not at all.

    Args:
        max_length: pairs with a longer side, in pieces, are dropped.
        drop_duplicates: keep only the first of equal pairs; costs 8 bytes of memory a pair.
        limit: what ``max_length`` is called where it drops everything.

    Returns:
        How many pairs were ``kept``, and dropped as ``too long``, ``duplicate``.

    Raises:
        DataError: no pair is left, or the disk does not take it.
    """
    # The store's sweeping up after killed processes knows names of this form.
    unfinished = folder.with_name(f".tmp-{os.getpid()}-{secrets.token_hex(4)}")
    try:
        unfinished.mkdir(parents=True)
        counts = _write(unfinished, pairs, src, tgt, max_length, drop_duplicates, limit)
        os.rename(unfinished, folder)
    except OSError as error:
        raise DataError(f"cannot write the token file {folder}: {error.strerror or error}") from None
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return counts


def _write(
    folder: Path,
    pairs: Iterable[tuple[str, str]],
    src: Encoder,
    tgt: Encoder,
    max_length: int,
    drop_duplicates: bool,
    limit: str = "data.max_length",
) -> Counter[str]:
    counts: Counter[str] = Counter()
    seen = Seen()
    end = 0
    with open(folder / IDS, "wb") as ids_file, open(folder / OFFSETS, "wb") as offsets_file:
        offsets_file.write(np.zeros(1, np.int64).tobytes())
        for chunk in _chunks(iter(pairs)):
            wanted = seen.fresh(chunk) if drop_duplicates else chunk
            if len(wanted) < len(chunk):
                counts["duplicate"] += len(chunk) - len(wanted)
            ids, lengths = _encode(wanted, src, tgt, max_length, counts)
            offsets = end + np.cumsum(lengths, dtype=np.int64)
            end = int(offsets[-1]) if len(offsets) else end
            ids_file.write(np.asarray(ids, np.uint32).tobytes())
            offsets_file.write(offsets.tobytes())
        for file in (ids_file, offsets_file):
            file.flush()
            os.fsync(file.fileno())
    if not counts["kept"]:
        raise DataError(
            f"no pair is left to train on: {counts['too long']} are longer than {limit}={max_length} pieces"
        )
    return counts


def _chunks(pairs: Iterator[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    while chunk := list(islice(pairs, CHUNK)):
        yield chunk


def _encode(
    chunk: list[tuple[str, str]], src: Encoder, tgt: Encoder, max_length: int, counts: Counter[str]
) -> tuple[list[int], list[int]]:
    ids: list[int] = []
    lengths: list[int] = []
    sources = src.encode_batch([pair[0] for pair in chunk])
    targets = tgt.encode_batch([pair[1] for pair in chunk])
    for src_ids, tgt_ids in zip(sources, targets, strict=True):
        if max(len(src_ids), len(tgt_ids)) > max_length:
            counts["too long"] += 1
            continue
        counts["kept"] += 1
        ids += src_ids
        ids += tgt_ids
        lengths += (len(src_ids), len(tgt_ids))
    return ids, lengths
