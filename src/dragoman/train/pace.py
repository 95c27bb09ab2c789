"""How fast a training is of late, and with what loss."""


class Pace:
    """Loss and speed of the last updates, as running means."""

    def __init__(self) -> None:
        self.loss = 0.0
        self.seconds = 0.0
        self.tokens = 0.0
        self._count = 0

    def add(self, loss: float, tokens: int, seconds: float) -> None:
        """Note one update."""
        self._count += 1
        weight = max(1.0 / self._count, 0.02)
        self.loss += weight * (loss - self.loss)
        self.seconds += weight * (seconds - self.seconds)
        self.tokens += weight * (tokens - self.tokens)

    @property
    def tokens_per_second(self) -> float:
        """Real source and target tokens."""
        return self.tokens / self.seconds if self.seconds else 0.0
