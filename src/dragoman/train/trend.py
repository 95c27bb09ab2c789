"""Whether the loss still goes the right way: its running mean, and the lowest that this was."""

from dataclasses import dataclass, replace

SPAN = 50
"""Updates that the mean is about; one that was made of fewer decides nothing."""

EXPLODED = 1.5, 1.0
CALM = 1.1, 0.2
"""Times the lowest mean, plus nats. Means of healthy trainings go up and down by some percent; one that has diverged
forgets the source, and then the language: 3 nats and more."""


@dataclass(frozen=True)
class Trend:
    """The training loss, smoothed labels and all, in nats a target token."""

    mean: float = 0.0
    "Of about the last :data:`SPAN` updates."
    updates: int = 0
    "Since the training began, or stepped back."
    lowest: float | None = None
    "The lowest mean of at least :data:`SPAN` updates so far; a step back does not forget it."

    def after(self, loss: float) -> "Trend":
        """The trend with one more update."""
        updates = self.updates + 1
        mean = self.mean + (loss - self.mean) / min(updates, SPAN)
        known = [] if self.lowest is None else [self.lowest]
        return Trend(mean, updates, min([mean, *known]) if updates >= SPAN else self.lowest)

    def anew(self) -> "Trend":
        """The trend of a training that has stepped back."""
        return replace(self, mean=0.0, updates=0)

    @property
    def has_exploded(self) -> bool:
        """Whether the training has lost what it had learned."""
        return self.updates >= SPAN and self._is_above(EXPLODED)

    @property
    def is_calm(self) -> bool:
        """Whether the weights are worth coming back to."""
        return not self._is_above(CALM)

    def _is_above(self, limit: tuple[float, float]) -> bool:
        return self.lowest is not None and self.mean > limit[0] * self.lowest + limit[1]
