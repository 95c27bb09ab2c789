"""Saves that fail for a while: a full disk, a lost network folder or lack of memory must not end a training of days."""

import time
from collections.abc import Callable
from typing import Any

from dragoman.errors import FolderError, is_shortage

MOST_FAILURES = 20
"""Failures in a row after which a training stops: with so much at stake nobody seems to look."""

PAUSE = 1.0
"""Seconds after which a last save is tried again."""


class Attempts:
    """Tries to save; what fails is told once, noted every time, and left to the next interval."""

    def __init__(self, tell: Callable[[str], None], note: Callable[[str, dict[str, Any]], None]) -> None:
        self._tell = tell
        self._note = note
        self._failing: dict[str, int] = {}

    def attempt(self, what: str, save: Callable[[], None], step: int, last: bool) -> bool:
        """Save ``what``, and answer whether it worked.

        Args:
            last: there is no next interval; what fails is tried again after :data:`PAUSE`.

        Raises:
            FolderError: it failed :data:`MOST_FAILURES` times in a row.
        """
        while not self._try(what, save, step, last):
            if not last:
                return False
            time.sleep(PAUSE)
        if self._failing.pop(what, 0):
            self._tell(f"update {step:,}: {what} saved again")
        return True

    def _try(self, what: str, save: Callable[[], None], step: int, last: bool) -> bool:
        try:
            save()
        except Exception as error:
            is_short = is_shortage(error)
            if not is_short and not isinstance(error, FolderError | OSError):
                raise
            self._failed(what, "out of memory" if is_short else str(error), error, step, last)
            return False
        return True

    def _failed(self, what: str, reason: str, error: Exception, step: int, last: bool) -> None:
        count = self._failing.get(what, 0) + 1
        if count >= MOST_FAILURES:
            raise FolderError(
                f"update {step:,}: {what} could not be saved ({count} times in a row): {reason}"
            ) from error
        self._note("not saved", {"step": step, "what": what, "reason": reason})
        if count == 1:
            then = "trying again" if last else "training goes on and tries again"
            self._tell(f"warning: {what} of update {step:,} not saved; {then}: {reason}")
        self._failing[what] = count
