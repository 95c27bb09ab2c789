"""From a path to bytes: regular files only, decompressed by what they hold and not by what they are called.

A pipe or a device is refused at once (it could be read only once, or never end), and a compressed file that stops early
or goes on with something else is an error, never a silent end of file.
"""

import bz2
import lzma
import os
import stat
import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from io import BufferedReader
from pathlib import Path
from typing import Protocol

from dragoman.errors import DataError

CHUNK = 1 << 18
"""Bytes asked for at a time; also the most that one step of decompression gives back."""

XZ_MEMORY = 1 << 28
"""Most memory an xz file may ask for; `xz -9` needs a quarter of it."""

_REFUSED = (
    (b"\x28\xb5\x2f\xfd", "zstd-compressed", "decompress it with `zstd -d`"),
    (b"PK\x03\x04", "a zip archive", "unpack it"),
)


class Decompressor(Protocol):
    """One member of a compressed file, as bz2 and lzma offer it."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int = -1, /) -> bytes: ...


class _GzipMember:
    """zlib in the shape of :class:`Decompressor`; checks length and CRC at the member's end."""

    def __init__(self) -> None:
        self._inflate = zlib.decompressobj(wbits=31)
        self._pending = b""

    @property
    def eof(self) -> bool:
        return self._inflate.eof

    @property
    def needs_input(self) -> bool:
        return not self._pending

    @property
    def unused_data(self) -> bytes:
        return self._inflate.unused_data

    def decompress(self, data: bytes, max_length: int = -1, /) -> bytes:
        out = self._inflate.decompress(self._pending + data, max(max_length, 0))
        self._pending = self._inflate.unconsumed_tail
        return out


def open_regular(path: Path) -> BufferedReader:
    """Open ``path`` for reading bytes, without ever waiting for a writer.

    Raises:
        DataError: it is missing, unreadable, or not a regular file (directory, pipe, device); the message says which.
    """
    try:
        file = open(path, "rb", opener=_without_waiting)  # noqa: SIM115 (the caller closes it)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise DataError(f"{path}: cannot be opened ({reason}); give the path of a readable regular file") from None
    mode = os.fstat(file.fileno()).st_mode
    if stat.S_ISREG(mode):
        return file
    file.close()
    raise DataError(
        f"{path} is {_kind(mode)}, not a regular file; a corpus is read more than once: save it to a file first"
    )


def compression_of(head: bytes, name: object) -> str:
    """Which compression the first bytes of a file show: ``""``, ``"gzip"``, ``"bzip2"`` or ``"xz"``.

    Raises:
        DataError: zstd or zip, with how to unpack it.
    """
    for magic, what, remedy in _REFUSED:
        if head.startswith(magic):
            raise DataError(f"{name} is {what}, which is not read here; {remedy} first")
    if head.startswith(b"\x1f\x8b"):
        return "gzip"
    if head.startswith(b"BZh") and head[4:10] in (b"\x31\x41\x59\x26\x53\x59", b"\x17\x72\x45\x38\x50\x90"):
        return "bzip2"
    return "xz" if head.startswith(b"\xfd7zXZ\x00") else ""


def read_chunks(path: Path) -> Generator[bytes, None, None]:
    """The bytes of ``path``, decompressed, in pieces of at most :data:`CHUNK`.

    The first piece holds at least the first 4 KiB, if the file has them.

    Raises:
        DataError: see :func:`open_regular`; or the file cannot be read to its end, is damaged, cut short, or followed
            by bytes that are not another member; or it is compressed in a way not read here.
    """
    with open_regular(path) as file:
        try:
            pieces = iter(lambda: file.read(CHUNK), b"")
            head = next(pieces, b"")
            kind = compression_of(head, path)
            if kind:
                yield from _with_long_head(_decompress(_chain(head, pieces), _MEMBERS[kind]))
            elif head:
                yield from _chain(head, pieces)
        except (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError) as error:
            detail = str(error) or type(error).__name__
            raise DataError(f"{path}: damaged or cut short ({detail}); copy or make the file again") from None


def head_of(path: Path, size: int = 4096) -> bytes:
    """At most the first ``size`` bytes of ``path``, decompressed."""
    with closing(read_chunks(path)) as chunks:
        return next(chunks, b"")[:size]


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _kind(mode: int) -> str:
    kinds = {stat.S_IFDIR: "a directory", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    return kinds.get(stat.S_IFMT(mode), "a device")


def _xz_member() -> Decompressor:
    return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=XZ_MEMORY)


_MEMBERS: dict[str, Callable[[], Decompressor]] = {"gzip": _GzipMember, "bzip2": bz2.BZ2Decompressor, "xz": _xz_member}


def _chain(head: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield head
    yield from rest


def _decompress(pieces: Iterator[bytes], new_member: Callable[[], Decompressor]) -> Iterator[bytes]:
    """Members one after another are one text (RFC 1952, 2.2); zero bytes between and after them are padding."""
    member = new_member()
    for piece in pieces:
        while piece:
            if member.eof:
                piece = piece.lstrip(b"\0")
                if not piece:
                    break
                member = new_member()
            yield from _inflate(member, piece)
            piece = member.unused_data if member.eof else b""
    if not member.eof:
        raise EOFError("the compressed data ends in the middle")


def _inflate(member: Decompressor, piece: bytes) -> Iterator[bytes]:
    out = member.decompress(piece, CHUNK)
    while out:
        yield out
        if member.eof:
            return
        out = member.decompress(b"", CHUNK)


def _with_long_head(pieces: Iterator[bytes], size: int = 4096) -> Iterator[bytes]:
    head = b""
    for piece in pieces:
        head += piece
        if len(head) >= size:
            yield head
            break
    else:
        if head:
            yield head
        return
    yield from pieces
