"""What moves on a terminal while one waits for a translation; without rich, whose import one would wait for too."""

import sys
import time
from types import TracebackType
from typing import Self

PATIENCE, COUNT_EVERY = 2.0, 0.5
"""Seconds before a count is shown at all, and between two of them."""


class SentenceCount:
    """How many sentences are translated, on standard error, if that is a terminal and the results do not show there."""

    def __init__(self) -> None:
        self._count = 0
        shows_results = sys.stdout is not None and sys.stdout.isatty()
        self._visible = sys.stderr is not None and sys.stderr.isatty() and not shows_results
        self._next = time.monotonic() + PATIENCE
        self._shown = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._shown:
            self._write("\r\x1b[K")

    def add(self) -> None:
        """One more."""
        self._count += 1
        now = time.monotonic()
        if self._visible and now >= self._next:
            self._next, self._shown = now + COUNT_EVERY, True
            self._write(f"\r{self._count:,} sentences translated")

    def _write(self, text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()
