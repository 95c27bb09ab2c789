"""Whoever looks at a training while it runs: a terminal, a log file, a page."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Progress:
    """One update of the weights."""

    step: int
    steps: int
    epoch: int
    loss: float
    "Running mean of the smoothed training loss, in nats a target token."
    learning_rate: float
    tokens_per_second: float
    "Real source and target tokens, over the last updates."
    seconds_left: float


@dataclass(frozen=True)
class Validation:
    """One look at the validation pairs with the averaged weights."""

    step: int
    loss: float
    "Cross-entropy without smoothing, in nats a target token; exp of it is the perplexity."
    bleu: float
    chrf: float
    is_best: bool
    example: str
    "The translation of the first validation pair, to see how it grows."


class Watcher(Protocol):
    """Is told what happens; must not disturb."""

    def progress(self, progress: Progress) -> None:
        """An update was made (or skipped)."""
        ...

    def validation(self, validation: Validation) -> None:
        """The model was validated."""
        ...

    def message(self, text: str) -> None:
        """Something worth a line: where a training resumes, what was skipped, what could not be written."""
        ...


class Unwatched:
    """A :class:`Watcher` that nobody looks through: of the workers, only the first one talks."""

    def progress(self, progress: Progress) -> None:
        """Not shown."""

    def validation(self, validation: Validation) -> None:
        """Not shown."""

    def message(self, text: str) -> None:
        """Not shown."""
