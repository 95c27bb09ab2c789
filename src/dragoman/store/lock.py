"""One training for one folder: a lock that dies with the process that holds it."""

import contextlib
import errno
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from dragoman.errors import FolderError
from dragoman.store.files import explained, is_alive, shown, sync_folder

_UNSUPPORTED = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)


def make(path: Path) -> None:
    """See that the lock file is there, durably: the folder of one that has it is known to be ours.

    Raises:
        FolderError: it cannot be made.
    """
    with explained("lock", path):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        sync_folder(path.parent)


@contextlib.contextmanager
def hold(path: Path) -> Iterator[str]:
    """Hold the lock file ``path`` while the block runs; yields a warning to show, empty if the lock is held.

    It is a flock: the kernel frees it when the last process that has it open dies, also by kill -9, so that nothing has
    to be cleaned up; the process id in the file is only for the message. A child that is forked and not executed keeps
    it as long as it lives. The file stays, since deleting it would let two processes hold two files of one name.

    Where it does not work: file systems without flock (some FUSE and cluster file systems, NFS mounted ``nolock``).
    Most of them say so, which gives the warning; others lock on the one machine only.

    Raises:
        FolderError: another process holds it (its id is named), or the file cannot be made.
    """
    with explained("lock", path):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        yield _acquire(descriptor, path)
    finally:
        os.close(descriptor)


def is_held(path: Path) -> bool:
    """Whether a training on this machine holds the lock file ``path`` now.

    Asks only where the process that the file names is alive: asking takes the lock for an instant, in which a training
    that begins would be turned away.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        owner = _written(descriptor)
        return owner.isdecimal() and is_alive(int(owner)) and _is_locked(descriptor)
    finally:
        os.close(descriptor)


def _is_locked(descriptor: int) -> bool:
    """By somebody else; where the file system has no locks, its owner being alive must do."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    return False


def _acquire(descriptor: int, path: Path) -> str:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise FolderError(
            f"{shown(path.parent.parent)} is being trained by process {_owner(descriptor)};"
            " wait for it to end, stop it, or choose another folder"
        ) from None
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise FolderError(f"cannot lock {shown(path)}: {error.strerror}") from error
        return f"{shown(path)} is on a file system without locks: take care that no second training uses this folder"
    with explained("lock", path):
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode("ascii"), 0)
    return ""


def _owner(descriptor: int) -> str:
    """The process id in the lock file; a holder of a moment ago may still have to write it over that of a dead one."""
    for _ in range(50):
        owner = _written(descriptor)
        if owner.isdecimal() and is_alive(int(owner)):
            return owner
        time.sleep(0.01)
    return "unknown"


def _written(descriptor: int) -> str:
    return os.pread(descriptor, 20, 0).decode("ascii", "replace").strip()
