"""The training's diary: one JSON object a line, never torn, never twice after a resume."""

import contextlib
import json
import os
from pathlib import Path
from typing import Any

from dragoman.errors import DragomanError
from dragoman.store import files


class Journal:
    """Appends events to a file. A resumed run cuts it back to where its checkpoint was: nothing stands twice."""

    def __init__(self, path: Path, size: int) -> None:
        """Open ``path`` and cut it back to ``size`` bytes; one that was deleted meanwhile begins anew."""
        self.path = path
        self._waiting = b""
        with open(path, "ab") as file:
            file.truncate(min(size, file.tell()))

    @property
    def size(self) -> int:
        """Bytes so far, to be noted in a checkpoint."""
        return self.path.stat().st_size

    def write(self, event: str, facts: dict[str, Any]) -> None:
        """Append one line; numbers that are not finite become null. What the disk refuses waits for the next time."""
        line = json.dumps({"event": event, **{key: _finite(value) for key, value in facts.items()}}, ensure_ascii=False)
        self._waiting += line.encode() + b"\n"
        with contextlib.suppress(OSError):
            self._append()

    def sync(self) -> None:
        """Make what was written durable, before a checkpoint counts on it.

        Raises:
            FolderError: the disk refuses; what waits still waits.
        """
        with files.explained("write", self.path):
            self._append()
            descriptor = os.open(self.path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def _append(self) -> None:
        """Append whole lines or nothing."""
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            end, rest = os.fstat(descriptor).st_size, self._waiting
            try:
                while rest:
                    rest = rest[os.write(descriptor, rest) :]
            except OSError:
                os.ftruncate(descriptor, end)
                raise
            self._waiting = b""
        finally:
            os.close(descriptor)


def read(path: Path) -> list[dict[str, Any]]:
    """All events of a journal; a torn last line is left out."""
    events = []
    for line in path.read_bytes().split(b"\n")[:-1]:
        try:
            events.append(json.loads(line))
        except ValueError:
            raise DragomanError(f"{path} is damaged: {line[:60]!r} is not JSON") from None
    return events


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not (abs(value) < float("inf")) else value
