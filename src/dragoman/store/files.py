"""Every touch of the disk: the one atomic write, synced new files, bounded reads, and what an errno means to a person.

All operations of this room go through the name ``os`` of this module, so that the tests can put a disk that fails,
fills up or loses power in its place.

The order that makes a write safe: write under a temporary name in the same folder, fsync the file, rename, fsync the
folder. A failed fsync is never repeated on the same descriptor (the kernel may have dropped the dirty pages already and
report success the second time); the attempt is abandoned and the file is written anew the next time.
"""

import contextlib
import errno
import hashlib
import mmap
import os
import re
import secrets
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from dragoman.errors import FolderError

Buffer = bytes | bytearray | memoryview
"""Flat bytes; a memoryview must be one-dimensional with items of one byte."""

Chunks = Sequence[Buffer]
"""The content of one file in pieces, so that tensors are written from where they lie, without a copy."""

PIECE = 4 << 20
"""Bytes of one write or read call; large enough to be fast, small enough to be interrupted."""

_BLOCK = 4096
_TEMPORARY = re.compile(r"\.tmp-(\d{1,10})-[0-9a-f]+")

_REMEDIES = {
    errno.ENOSPC: "the disk is full; free some space or choose another disk",
    errno.EDQUOT: "your disk quota is used up; free some space or ask for more",
    errno.EFBIG: "the file is larger than the file system or `ulimit -f` allows",
    errno.EACCES: "no permission; check the owner and the mode of the folder",
    errno.EPERM: "the system does not permit it; check the owner and the attributes of the folder",
    errno.EROFS: "the file system is read-only; choose another place",
    errno.EIO: "the disk reports an error; check the disk and the system log before going on",
    errno.ENOENT: "it does not exist",
    errno.ENOTDIR: "a part of the path is a file, not a folder",
    errno.EISDIR: "it is a folder, not a file",
    errno.EEXIST: "it exists already",
    errno.ENAMETOOLONG: "the name is too long for the file system",
    errno.EMFILE: "too many open files; raise `ulimit -n`",
}


@dataclass(frozen=True)
class Written:
    """What was written to a file: its size in bytes and the SHA-256 of its content in hexadecimal."""

    size: int
    sha256: str


def shown(path: Path) -> str:
    """``path`` as printable text, also where its name is not UTF-8."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


@contextlib.contextmanager
def explained(action: str, path: Path, needed: int = 0) -> Iterator[None]:
    """Turn an OSError inside the block into a FolderError that says what was tried, where, why it failed, what to do.

    Args:
        action: a verb, such as ``write``.
        path: the file or folder the user knows (not a temporary name).
        needed: bytes that were to be written; named when the disk or the quota is full.
    """
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT) and needed
        size = f" ({needed:,} bytes are needed)" if full else ""
        reason = _REMEDIES.get(error.errno or 0, error.strerror or type(error).__name__)
        raise FolderError(f"cannot {action} {shown(path)}{size}: {reason}") from error


def write_atomic(path: Path, data: Buffer) -> None:
    """Put ``data`` into the file ``path``: afterwards it is there durably, or the old content is untouched.

    Raises:
        FolderError: the disk is full, read-only or broken, or the folder is missing; the old content is intact.
    """
    write_atomic_chunks(path, [data])


def write_atomic_chunks(path: Path, chunks: Chunks) -> None:
    """As `write_atomic`, for a content in pieces."""
    size = sum(len(chunk) for chunk in chunks)
    with explained("write", path, size):
        need_space(path.parent, [size])
        temporary = path.parent / temporary_name()
        try:
            write_new(temporary, chunks)
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        sync_folder(path.parent)


def write_new(path: Path, chunks: Chunks) -> Written:
    """Create ``path``, which must not exist, write ``chunks`` and fsync it; its name is durable after `sync_folder`."""
    digest, size = hashlib.sha256(), 0
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        for chunk in chunks:
            digest.update(chunk)
            size += len(chunk)
            _write_all(descriptor, memoryview(chunk))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return Written(size, digest.hexdigest())


def _write_all(descriptor: int, view: memoryview) -> None:
    while view:
        count = os.write(descriptor, view[:PIECE])
        if count == 0:
            raise OSError(errno.EIO, "nothing was written")
        view = view[count:]


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable.

    File systems that cannot fsync a folder (some network ones answer EINVAL) are left to their own order of writes.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):
            raise
    finally:
        os.close(descriptor)


def make_folder(path: Path) -> None:
    """Create a folder and its missing parents, durably; nothing happens where it exists.

    Raises:
        FolderError: a part of the path is a file, or the system does not permit it.
    """
    with explained("create the folder", path):
        _make_folder(path)


def _make_folder(path: Path) -> None:
    if path.is_dir():
        return
    if path.parent != path:
        _make_folder(path.parent)
    try:
        os.mkdir(path)
    except FileExistsError:
        if not path.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, "a file is in the way", str(path)) from None
        return
    sync_folder(path.parent)


def make_temporary_folder(parent: Path) -> Path:
    """A new folder with a name that `is_temporary` knows; to be renamed when it is complete."""
    path = parent / temporary_name()
    os.mkdir(path)
    return path


def rename(old: Path, new: Path) -> None:
    """One rename within a folder; durable after `sync_folder`."""
    os.rename(old, new)


def remove_tree(path: Path) -> None:
    """Delete a file, a link (not what it points to) or a folder with all that is in it."""
    if not path.is_symlink() and path.is_dir():
        for name in sorted(os.listdir(path)):
            remove_tree(path / name)
        os.rmdir(path)
    else:
        os.unlink(path)


def list_folder(path: Path) -> list[str]:
    """The names in a folder, sorted; none if it does not exist.

    Raises:
        FolderError: it is not a folder, or may not be read.
    """
    with explained("list", path):
        try:
            return sorted(os.listdir(path))
        except FileNotFoundError:
            return []


def need_space(folder: Path, sizes: Sequence[int]) -> None:
    """Refuse at once a write that cannot fit.

    Only what will be written is asked for, in whole blocks: asking for more would refuse saves that fit.

    Raises:
        OSError: ENOSPC, fewer bytes are free for this user; turned into a message by `explained`.
    """
    disk = os.statvfs(folder)
    free = disk.f_bavail * disk.f_frsize
    needed = sum(-(-size // _BLOCK) * _BLOCK for size in sizes)
    if disk.f_blocks and free < needed:  # file systems that do not know their size report 0 blocks
        raise OSError(errno.ENOSPC, f"only {free:,} bytes are free", str(folder))


def temporary_name() -> str:
    """A name for something not yet complete: `.tmp-<pid>-<random>`."""
    return f".tmp-{os.getpid()}-{secrets.token_hex(4)}"


def is_temporary(name: str) -> bool:
    """Whether `temporary_name` makes such names."""
    return _TEMPORARY.fullmatch(name) is not None


def clean_leftovers(folder: Path) -> None:
    """Delete what processes that died while writing left in ``folder``; what cannot be deleted stays.

    To be called before this process writes there itself: its own process id counts as dead, since in a container every
    start may have the same one.
    """
    for name in list_folder(folder):
        match = _TEMPORARY.fullmatch(name)
        if match and (int(match[1]) == os.getpid() or not is_alive(int(match[1]))):
            with contextlib.suppress(OSError):
                remove_tree(folder / name)


def is_alive(pid: int) -> bool:
    """Whether a process of this number runs on this machine."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


@dataclass(frozen=True)
class Source:
    """A regular file open for reading, and its size when it was opened."""

    path: Path
    size: int
    _descriptor: int

    def read_exactly(self, size: int) -> bytes:
        """The next ``size`` bytes.

        Raises:
            FolderError: the file ends before.
        """
        data = bytearray(size)
        self.read_into(memoryview(data))
        return bytes(data)

    def read_into(self, view: memoryview) -> None:
        """Fill ``view`` (flat bytes) with the next bytes.

        Raises:
            FolderError: the file ends before.
        """
        with explained("read", self.path):
            while view:
                count = os.readv(self._descriptor, [view[:PIECE]])
                if count == 0:
                    raise FolderError(f"{shown(self.path)} ends early: it was cut short, or changed while it was read")
                view = view[count:]

    def mapped(self) -> memoryview:
        """The whole file, mapped for reading; it stays mapped as long as anything of the view lives.

        Replacing the file, as `write_atomic` does, leaves the mapping as it was. Shortening it in place does not: then
        the next look at what is gone kills the process.

        Raises:
            FolderError: the file is empty, was cut short, or the system cannot map it.
        """
        with explained("map", self.path):
            try:
                return memoryview(mmap.mmap(self._descriptor, self.size, access=mmap.ACCESS_READ))
            except ValueError:
                raise FolderError(f"{shown(self.path)} is empty, or was cut short while it was read") from None


@contextlib.contextmanager
def reading(path: Path) -> Iterator[Source]:
    """Open a regular file; folders, pipes and devices are refused instead of waited for.

    Raises:
        FolderError: it is missing, unreadable, or not a regular file.
    """
    with explained("read", path):
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        with explained("read", path):
            status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise FolderError(f"cannot read {shown(path)}: it is not a regular file")
        yield Source(path, status.st_size, descriptor)
    finally:
        os.close(descriptor)


def read_bytes(path: Path, limit: int) -> bytes:
    """The whole content of a file of at most ``limit`` bytes.

    Raises:
        FolderError: it is missing, unreadable, not a regular file or larger.
    """
    with reading(path) as source:
        if source.size > limit:
            raise FolderError(f"{shown(path)} has {source.size:,} bytes; at most {limit:,} are read")
        return source.read_exactly(source.size)


def measure(path: Path) -> Written:
    """Size and SHA-256 of a file, read in pieces.

    Raises:
        FolderError: it is missing, unreadable or not a regular file.
    """
    digest = hashlib.sha256()
    with reading(path) as source:
        buffer = memoryview(bytearray(min(source.size, PIECE)))
        for start in range(0, source.size, PIECE):
            piece = buffer[: source.size - start]
            source.read_into(piece)
            digest.update(piece)
    return Written(source.size, digest.hexdigest())


def check_writable(folder: Path) -> None:
    """Try a durable write in ``folder``, so that a problem is found before hours of work and not after.

    Raises:
        FolderError: it cannot be written.
    """
    with explained("write into", folder):
        probe = folder / temporary_name()
        try:
            write_new(probe, [b"probe"])
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(probe)
