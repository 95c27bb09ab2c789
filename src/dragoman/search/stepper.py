"""What a search needs from a model: a state that is a value, and one step at a time."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.floating[Any]]
BoolArray = NDArray[np.bool_]


class State(Protocol):
    """Where each row of a running search stands; a value, so there is nothing to reset.

    A row is one unfinished hypothesis. Both methods return a new state and leave their operands usable.
    """

    def select(self, rows: IntArray) -> Self:
        """The state of ``rows`` [new_rows], in that order; a row may be repeated (beams) or left out (finished)."""
        ...

    def join(self, other: Self) -> Self:
        """The rows of this state, then those of ``other``; they may be at different steps."""
        ...


S = TypeVar("S", bound=State)


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """Possible next tokens of each row."""

    ids: IntArray
    "[rows, k]"
    log_probs: FloatArray
    "[rows, k]; natural logarithms, -inf for what is impossible."


class Stepper(Protocol[S]):
    """A model as the search sees it.

    The log-probabilities are the model's own; they are at most 0 up to rounding, and those of one row depend on its
    source and its tokens alone. Tokens that must never be produced (padding, the beginning of a sentence) have -inf:
    that is the stepper's task, since only it knows its vocabulary. :meth:`step_top` gives the same numbers as
    :meth:`step_full`.
    """

    @property
    def vocab_size(self) -> int:
        """Number of target ids; they are 0 .. vocab_size - 1."""
        ...

    @property
    def bos_id(self) -> int:
        """The id each row is fed in its first step."""
        ...

    @property
    def eos_id(self) -> int:
        """The id that ends a hypothesis."""
        ...

    def start(self, sources: Sequence[Sequence[int]]) -> S:
        """The state before the first step, one row for each source (a sequence of source ids)."""
        ...

    def step_top(self, ids: IntArray, state: S, k: int) -> tuple[Candidates, S]:
        """Feed ``ids`` [rows], the newest token of each row, and return the ``k`` likeliest next ones.

        Args:
            k: 1 .. vocab_size.

        Returns:
            The candidates, best first, equally likely ones by ascending id, and NaN before all others, so that it does
            not go unnoticed; and the state after the step.
        """
        ...

    def step_full(self, ids: IntArray, state: S) -> tuple[FloatArray, S]:
        """As :meth:`step_top`, for every id: [rows, vocab], in an array that the caller may overwrite."""
        ...
