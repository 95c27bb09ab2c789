"""The time that a training has taken: all its commands together, each from its start."""

import time


class Clock:
    """Runs from when it is made; interruptions between two commands are not counted."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._before = 0.0

    def resume(self, seconds: float) -> None:
        """Count the seconds that earlier commands have taken, too."""
        self._before = seconds

    @property
    def seconds(self) -> float:
        """Seconds so far."""
        return self._before + time.monotonic() - self._started
