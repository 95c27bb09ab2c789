"""Batches for which there is not enough memory: they are cut in halves until they fit."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dragoman.data.batch import Batch
from dragoman.train.step import Gradient


@dataclass(frozen=True)
class Fitted:
    """A gradient, and what it took to fit it into memory."""

    gradient: Gradient
    batches: int
    "In so many batches the pairs were looked at."
    lost: int
    "Pairs that did not fit even alone and are not in the gradient."


def within_memory(compute: Callable[[Sequence[Batch]], Gradient], batches: Sequence[Batch]) -> Fitted:
    """What ``compute`` makes of ``batches``, however often the largest of them must be cut for it.

    The gradient is that of the whole batches: accumulated batches add up to the same, except for the order of the sums.
    """
    left, lost = list(batches), 0
    while True:
        try:
            return Fitted(compute(left), len(left), lost)
        except (MemoryError, RuntimeError) as error:
            if not is_shortage(error) or not left:
                raise
        # Only here is the memory free that the error's frames held.
        largest = left.pop(max(range(len(left)), key=lambda place: _size(left[place])))
        if len(largest.src) > 1:
            left += _halves(largest)
        else:
            lost += 1


def is_shortage(error: MemoryError | RuntimeError) -> bool:
    """Whether memory is what is lacking; PyTorch says so in words only."""
    said = str(error)
    return isinstance(error, MemoryError) or "allocate memory" in said or "out of memory" in said


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
