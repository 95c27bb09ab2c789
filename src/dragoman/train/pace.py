"""How fast a training is of late."""


class Pace:
    """Speed of the last updates, as running means."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.tokens = 0.0
        self._count = 0
        self._seconds = 0.0

    def add(self, tokens: int, seconds: float) -> None:
        """Note one update."""
        self._count += 1
        self._seconds += seconds
        weight = max(1.0 / self._count, 0.02)
        self.seconds += weight * (seconds - self.seconds)
        self.tokens += weight * (tokens - self.tokens)

    @property
    def mean_seconds(self) -> float:
        """Of an update, of all that were made here; 0 if none was."""
        return self._seconds / max(self._count, 1)

    @property
    def tokens_per_second(self) -> float:
        """Real source and target tokens."""
        return self.tokens / self.seconds if self.seconds else 0.0
