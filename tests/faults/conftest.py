"""Disks that misbehave, in the place of ``os`` in ``dragoman.store.files``, through which the store touches the disk.

`FaultyOs` counts every operation and kills the process (in effigy) or fails at the n-th. `PowerLossOs` also remembers
what an fsync has made durable, and can lay out what might be left after the power failed.
"""

import errno
import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from dragoman.store import files

CHANGING = ("open", "write", "fsync", "close", "replace", "rename", "unlink", "mkdir", "rmdir")
COUNTED = frozenset([*CHANGING, "listdir", "statvfs", "fstat", "readv"])


class Killed(BaseException):
    """The process is dead; no handler of errors may bring it back."""


class FaultyOs:
    """The module ``os``, whose ``at``-th counted operation and, if ``forever``, all later ones end in ``fault``."""

    def __init__(self, at: int, fault: BaseException, forever: bool) -> None:
        self.at, self.fault, self.forever, self.count = at, fault, forever, 0

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        if name not in COUNTED:
            return real

        def operation(*args: Any, **kwargs: Any) -> Any:
            self.count += 1
            if self.count == self.at or (self.forever and self.count > self.at):
                self.fail(name, args)
            return self.perform(name, real, args, kwargs)

        return operation

    def fail(self, name: str, args: tuple[Any, ...]) -> None:
        if name == "close":
            os.close(args[0])
        if name == "write" and isinstance(self.fault, Killed) and self.count == self.at:
            self.perform(name, os.write, (args[0], args[1][: len(args[1]) // 2]), {})
        raise self.fault

    def perform(self, name: str, real: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return None if name == "fsync" else real(*args, **kwargs)


@dataclass
class Node:
    """A file (``live`` and ``durable`` bytes) or a folder (``live`` and ``durable`` names, ``pending`` changes)."""

    is_folder: bool
    live: Any
    durable: Any
    pending: list[tuple[str, ...] | tuple[str, str, Any]] = field(default_factory=list)


class PowerLossOs(FaultyOs):
    """As `FaultyOs`, with a model of what the disk holds durably below ``root``, an empty folder at first."""

    def __init__(self, root: Path, at: int) -> None:
        super().__init__(at, Killed(), forever=True)
        self.path, self.root, self.descriptors = root, Node(True, {}, {}), dict[int, Node]()

    def perform(self, name: str, real: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        result = super().perform(name, real, args, kwargs)
        note = getattr(self, f"note_{name}", None)
        if note:
            note(result, *args)
        return result

    def note_open(self, descriptor: int, path: Path, flags: int, mode: int = 0) -> None:
        parent, name = self.locate(path)
        if flags & os.O_CREAT and name not in parent.live:
            self.change(parent, ("add", name, Node(False, b"", b"")))
        self.descriptors[descriptor] = parent.live[name] if name else self.root

    def note_write(self, count: int, descriptor: int, data: memoryview) -> None:
        self.descriptors[descriptor].live += bytes(data[:count])

    def note_fsync(self, _: None, descriptor: int) -> None:
        node = self.descriptors[descriptor]
        node.durable, node.pending = (dict(node.live), []) if node.is_folder else (node.live, [])

    def note_close(self, _: None, descriptor: int) -> None:
        del self.descriptors[descriptor]

    def note_mkdir(self, _: None, path: Path) -> None:
        parent, name = self.locate(path)
        self.change(parent, ("add", name, Node(True, {}, {})))

    def note_rename(self, _: None, old: Path, new: Path) -> None:
        parent, name = self.locate(old)
        assert old.parent == new.parent, "the protocol renames within one folder"
        self.change(parent, ("rename", name, new.name))

    note_replace = note_rename

    def note_unlink(self, _: None, path: Path) -> None:
        parent, name = self.locate(path)
        self.change(parent, ("remove", name))

    note_rmdir = note_unlink

    def locate(self, path: Path) -> tuple[Node, str]:
        parts = Path(path).relative_to(self.path).parts
        node = self.root
        for part in parts[:-1]:
            node = node.live[part]
        return node, parts[-1] if parts else ""

    def change(self, folder: Node, change: tuple[Any, ...]) -> None:
        apply(folder.live, change)
        folder.pending.append(change)

    def after_power_loss(self, target: Path, rng: random.Random) -> None:
        """Lay out below ``target`` a state the disk may be in: each unsynced change happened, or did not."""
        lay_out(self.root, target, rng, likelihood=rng.choice([0.0, 0.5, 0.9, 1.0]))


def apply(names: dict[str, Node], change: tuple[Any, ...]) -> None:
    if change[0] == "add":
        names[change[1]] = change[2]
    elif change[0] == "remove":
        names.pop(change[1], None)
    elif change[1] in names:
        names[change[2]] = names.pop(change[1])


def lay_out(node: Node, path: Path, rng: random.Random, likelihood: float) -> None:
    if not node.is_folder:
        path.write_bytes(surviving(node, rng, likelihood))
        return
    path.mkdir(exist_ok=True)
    names = dict(node.durable)
    for change in node.pending:
        if rng.random() < likelihood:
            apply(names, change)
    for name, child in names.items():
        lay_out(child, path / name, rng, likelihood)


def surviving(node: Node, rng: random.Random, likelihood: float) -> bytes:
    """All of the bytes, or the durable ones, or cut somewhere, or with garbage where nothing was made durable."""
    if node.live == node.durable or rng.random() < likelihood:
        return bytes(node.live)
    cut = rng.randint(len(node.durable), len(node.live))
    garbage = rng.randbytes(len(node.live) - cut)
    return bytes(rng.choice([node.durable, node.live[:cut], node.live[:cut] + garbage]))


@pytest.fixture(autouse=True)
def quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk without faults, whose fsync costs nothing."""
    monkeypatch.setattr(files, "os", FaultyOs(0, Killed(), forever=False))


@pytest.fixture
def on_disk(monkeypatch: pytest.MonkeyPatch) -> Callable[[FaultyOs], FaultyOs]:
    """Put a disk in place of the real one."""

    def put(disk: FaultyOs) -> FaultyOs:
        monkeypatch.setattr(files, "os", disk)
        return disk

    return put


@pytest.fixture
def repair(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Put a disk without faults back."""
    return lambda: monkeypatch.setattr(files, "os", FaultyOs(0, Killed(), forever=False))


@pytest.fixture
def killer() -> Callable[[int], FaultyOs]:
    """Disks on which the process dies at the n-th operation."""
    return lambda at: FaultyOs(at, Killed(), forever=True)


@pytest.fixture
def failing() -> Callable[[int, int, bool], FaultyOs]:
    """Disks that answer an errno at the n-th operation, once or from then on."""
    return lambda at, number, forever: FaultyOs(at, OSError(number, os.strerror(number)), forever)


@pytest.fixture
def powerless() -> Callable[[Path, int], PowerLossOs]:
    """Disks that lose power at the n-th operation."""
    return PowerLossOs


@pytest.fixture
def killed() -> type[BaseException]:
    """What a process that dies raises here."""
    return Killed


class SmallDisk(FaultyOs):
    """A disk of ``capacity`` bytes; ``announced`` tells whether statvfs knows, as it does not with a quota."""

    def __init__(self, root: Path, capacity: int, announced: bool) -> None:
        super().__init__(0, Killed(), forever=False)
        self.root, self.capacity, self.announced, self.peak = root, capacity, announced, 0

    def used(self) -> int:
        return sum(path.lstat().st_size for path in self.root.rglob("*") if path.is_file())

    def perform(self, name: str, real: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if name == "statvfs":
            free = self.capacity - self.used() if self.announced else 1 << 60
            return os.statvfs_result((1, 1, 1 << 40, free, free, 0, 0, 0, 0, 255))
        if name == "write":
            room = self.capacity - self.used()
            if room <= 0:
                number = errno.ENOSPC if self.announced else errno.EDQUOT
                raise OSError(number, os.strerror(number))
            args = (args[0], args[1][:room])
        result = super().perform(name, real, args, kwargs)
        self.peak = max(self.peak, self.used()) if name == "write" else self.peak
        return result


@pytest.fixture
def small_disk() -> Callable[[Path, int, bool], SmallDisk]:
    """Disks that fill up."""
    return SmallDisk
