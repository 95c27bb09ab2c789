"""What befalls a command that runs in a child of the nursery: a file operation is its last, or fails; memory is short;
the clock jumps. `impose` is called in the child, before the command."""

import os
import random
import resource
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

AUDITED = ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.listdir")
"""Operations on names, of which Python itself tells whoever asks; `os.replace` is a rename to it."""


class Disk:
    """Counts the file operations below ``root``; ends the process at the ``at``-th, or answers it with ``error``."""

    def __init__(self, root: str, at: int, error: int, forever: bool) -> None:
        self.root, self.at, self.error, self.forever, self.count = root, at, error, forever, 0

    def watch(self) -> None:
        """From now on; there is no way back."""
        sys.addaudithook(self.hear)
        os.write = self.seen(os.write, torn_write)
        os.fsync = self.seen(os.fsync, lambda *_: None)

    def hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Called by Python before an operation on a name."""
        if event in AUDITED and isinstance(arguments[0], str | os.PathLike):
            self.meet(os.fspath(arguments[0]), lambda: None)

    def seen(self, real: Callable[..., Any], last: Callable[..., Any]) -> Callable[..., Any]:
        """``real``, an operation on a descriptor; ``last`` is what is left of it when the process dies in it."""

        def operation(descriptor: int, *arguments: Any) -> Any:
            self.meet(os.readlink(f"/proc/self/fd/{descriptor}"), lambda: last(real, descriptor, *arguments))
            return real(descriptor, *arguments)

        return operation

    def meet(self, path: str, last: Callable[[], Any]) -> None:
        """Count an operation on ``path``, and let happen what is to happen."""
        if not path.startswith(self.root):
            return
        self.count += 1
        if self.count != self.at and not (self.forever and self.count > self.at > 0):
            return
        if self.error:
            raise OSError(self.error, os.strerror(self.error), path)
        last()
        os.kill(os.getpid(), signal.SIGKILL)


def torn_write(real: Callable[..., int], descriptor: int, data: memoryview) -> None:
    """Half of it."""
    real(descriptor, data[: len(data) // 2])


def jump_about(seed: int) -> None:
    """Let the time of day be anything between 1970 and 2100, each time it is asked for."""
    draws = random.Random(seed)
    time.time = lambda: draws.uniform(0.0, 4.1e9)
    time.time_ns = lambda: int(1e9 * time.time())


def limit_memory(more: int) -> None:
    """Allow ``more`` bytes of address space than there are now."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * os.sysconf("SC_PAGE_SIZE") + more
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def talk() -> None:
    """Let every update write a line, not one in some seconds."""
    from dragoman.cli import progress

    progress.PLAIN_EVERY = 0.0


def draw_nothing() -> None:
    """Spare the picture of the training, which takes longer than a toy training."""
    from dragoman.train import finish

    finish.can_draw = lambda: False


def lose_no_time() -> None:
    """A last save that fails is tried again at once."""
    from dragoman.train import saving

    saving.PAUSE = 0.0


def impose(
    root: str = "",
    at: int = 0,
    error: int = 0,
    forever: bool = False,
    clock: int | None = None,
    memory: int = 0,
    talkative: bool = False,
    picture: bool = False,
    environment: dict[str, str] | None = None,
) -> Disk:
    """Change this process; returns the disk, which has counted when all is over."""
    os.environ.update(environment or {})
    disk = Disk(root, at, error, forever)
    if not picture:
        draw_nothing()
    if talkative:
        talk()
    if clock is not None:
        jump_about(clock)
    if root:
        lose_no_time()
        disk.watch()
    if memory:
        limit_memory(memory)
    return disk
