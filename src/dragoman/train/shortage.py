"""Too little memory: batches are cut in halves until they fit."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dragoman.data.batch import Batch
from dragoman.errors import is_shortage
from dragoman.train.step import Gradient

PATIENCE = 200
"""Gradients that fit, after which batches twice as large are tried again: what took the memory may be gone."""


class HalfMade(MemoryError):
    """There was not enough memory to move all weights; some of them have moved."""


@dataclass(frozen=True)
class Fitted:
    """A gradient, and what it took to fit it into memory."""

    gradient: Gradient
    batches: int
    "In so many batches the pairs were looked at."
    lost: int
    "Pairs that did not fit even alone and are not in the gradient."
    failed: int
    "Attempts for which there was not enough memory."


class Room:
    """The memory for batches: it cuts those that do not fit, and remembers their size, so as not to fail again."""

    def __init__(self) -> None:
        self._limit = math.inf
        self._fitted = 0

    def fit(self, compute: Callable[[Sequence[Batch]], Gradient], batches: Sequence[Batch]) -> Fitted:
        """What ``compute`` makes of ``batches``, however often they must be cut for it.

        The gradient is that of the whole batches: accumulated batches add up to the same, except for the order of the
        sums and the masks of dropout. A pair alone is always tried.
        """
        left, lost, failed = list(batches), 0, 0
        while True:
            left = [part for batch in left for part in self._parts(batch)]
            try:
                fitted = Fitted(compute(left), len(left), lost, failed)
                self._remember_success()
                return fitted
            except Exception as error:
                if not is_shortage(error) or not left:
                    raise
            # Only here is the memory free that the error's frames held.
            largest = max(range(len(left)), key=lambda place: _size(left[place]))
            self._limit, self._fitted, failed = min(self._limit, _size(left[largest])), 0, failed + 1
            if len(left[largest].src) == 1:
                del left[largest]
                lost += 1

    def _parts(self, batch: Batch) -> list[Batch]:
        if _size(batch) < self._limit or len(batch.src) == 1:
            return [batch]
        return [part for half in _halves(batch) for part in self._parts(half)]

    def _remember_success(self) -> None:
        self._fitted += 1
        if self._fitted % PATIENCE == 0:
            self._limit *= 2


def _size(batch: Batch) -> int:
    return batch.src.numel() + batch.tgt_in.numel()


def _halves(batch: Batch) -> list[Batch]:
    middle = len(batch.src) // 2
    return [_part(batch, slice(0, middle)), _part(batch, slice(middle, len(batch.src)))]


def _part(batch: Batch, pairs: slice) -> Batch:
    """Some pairs of ``batch``, with no more padding than they need."""
    src_len, tgt_len = (int(mask[pairs].sum(1).max()) for mask in (batch.src_mask, batch.tgt_mask))
    return Batch(
        batch.src[pairs, :src_len],
        batch.src_mask[pairs, :src_len],
        batch.tgt_in[pairs, :tgt_len],
        batch.tgt_out[pairs, :tgt_len],
        batch.tgt_mask[pairs, :tgt_len],
    )
