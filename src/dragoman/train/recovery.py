"""The checkpoint that a training goes on from: the newest; if it diverges the last good one, with half the rate."""

from collections.abc import Callable
from dataclasses import replace

from dragoman.config import TrainConfig
from dragoman.errors import FolderError
from dragoman.store import checkpoint
from dragoman.store.checkpoint import Checkpoint
from dragoman.train.prepare import Prepared
from dragoman.train.state import Counters, Training, begin, begin_with, restore

MOST_STEPS_BACK = 3
"""More do not help: there is something wrong with the data or the settings."""

SLOWER = 0.5
"""What the learning rate is multiplied by at each step back."""


def newest(prepared: Prepared, tell: Callable[[str], None]) -> Training:
    """The training at its newest sound checkpoint; at its beginning if there is none yet.

    Args:
        tell: is told of damaged ones, and where the training goes on.

    Raises:
        FolderError: there are checkpoints and all are damaged.
    """
    found, damaged = checkpoint.newest(prepared.folder.checkpoints)
    for bad in damaged:
        tell(f"checkpoint {bad.path.name} is damaged and not used: {bad.reason}")
    if found is None:
        if damaged:
            raise FolderError(
                f"every checkpoint in {prepared.folder.checkpoints} is damaged"
                f" ({', '.join(bad.path.name for bad in damaged)}); restore one, or train into a new folder"
            )
        return beginning(prepared)
    tell(f"resuming after update {found.step:,}")
    fresh = begin(prepared.config, prepared.src.vocab_size, prepared.tgt.vocab_size)
    return restore(fresh, found, prepared.identity)


def complaint(counters: Counters, config: TrainConfig) -> str:
    """What is wrong with the training, in a clause; nothing if it is healthy."""
    if counters.bad_steps >= config.max_bad_steps:
        return f"{counters.bad_steps} updates in a row had a loss or gradient that is not finite"
    trend = counters.trend
    if counters.step > config.warmup_steps and trend.has_exploded:
        return f"the mean loss rose from {trend.lowest:.2f} to {trend.mean:.2f}"
    return ""


def step_back(prepared: Prepared, training: Training) -> Training:
    """:func:`last_good`, to go on from there more slowly."""
    restored = last_good(prepared, training)
    counters = restored.counters
    return restored.at(
        replace(
            counters,
            bad_steps=0,
            steps_back=counters.steps_back + 1,
            rate_factor=counters.rate_factor * SLOWER,
        )
    )


def last_good(prepared: Prepared, training: Training) -> Training:
    """Weights, average and optimizer of the last good checkpoint, or of the beginning if there was none yet; whole.

    The counters are not taken back, so that the batches go on behind the bad place and no update has a number twice.

    Raises:
        FolderError: that checkpoint and all before it are gone or damaged.
    """
    counters = training.counters
    if counters.anchor:
        if prepared.config.train.sharded:
            training = beginning(prepared)
        restored = restore(training, _at_most(prepared, counters.anchor), prepared.identity)
    else:
        restored = beginning(prepared)
    return restored.at(replace(counters, trend=counters.trend.anew()))


def beginning(prepared: Prepared) -> Training:
    """The training before its first update: random weights, or those of the model that it begins with."""
    fresh, start = begin(prepared.config, prepared.src.vocab_size, prepared.tgt.vocab_size), prepared.folder.start
    return begin_with(fresh, start) if start.exists() else fresh


def _at_most(prepared: Prepared, step: int) -> Checkpoint:
    for found in checkpoint.scan(prepared.folder.checkpoints):
        if isinstance(found, Checkpoint) and found.step <= step:
            return found
    raise FolderError(f"no checkpoint up to update {step:,} in {prepared.folder.checkpoints} is sound; restore one")
