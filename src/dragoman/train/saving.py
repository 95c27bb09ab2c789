"""Saves that fail for a while: a full disk, a lost network folder or lack of memory must not end a training of days."""

from collections.abc import Callable
from typing import Any

from dragoman.errors import FolderError, is_shortage

MOST_FAILURES = 20
"""Failures in a row after which a training stops: with so much at stake nobody seems to look."""


class Attempts:
    """Tries to save; what fails is told once, noted every time, and left to the next interval."""

    def __init__(self, tell: Callable[[str], None], note: Callable[[str, dict[str, Any]], None]) -> None:
        self._tell = tell
        self._note = note
        self._failing: dict[str, int] = {}

    def attempt(self, what: str, save: Callable[[], None], step: int, last: bool) -> bool:
        """Save ``what``, and answer whether it worked.

        Args:
            last: there is no next interval.

        Raises:
            FolderError: it failed and is the last save, or the last of :data:`MOST_FAILURES` in a row.
        """
        try:
            save()
        except Exception as error:
            is_short = is_shortage(error)
            if not is_short and not isinstance(error, FolderError | OSError):
                raise
            self._failed(what, "out of memory" if is_short else str(error), error, step, last)
            return False
        if self._failing.pop(what, 0):
            self._tell(f"update {step:,}: {what} saved again")
        return True

    def _failed(self, what: str, reason: str, error: Exception, step: int, last: bool) -> None:
        count = self._failing.get(what, 0) + 1
        if last or count >= MOST_FAILURES:
            times = f" ({count} times in a row)" if count > 1 else ""
            raise FolderError(f"update {step:,}: {what} could not be saved{times}: {reason}") from error
        self._note("not saved", {"step": step, "what": what, "reason": reason})
        if count == 1:
            self._tell(f"warning: {what} of update {step:,} not saved; training goes on and tries again: {reason}")
        self._failing[what] = count
