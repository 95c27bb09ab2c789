"""The learning rate of each update (section 5.3)."""

import math

from dragoman.config import TrainConfig

PLATEAU = 0.6
"""Share of the updates after the warm-up in which a plateau stays at its highest."""


def fall(config: TrainConfig) -> float:
    """After which update (not a whole one) a plateau begins to fall."""
    return config.warmup_steps + PLATEAU * max(config.steps - config.warmup_steps, 1)


def learning_rate(update: int, config: TrainConfig, factor: float = 1.0, begin: int = 0, end: int = 0) -> float:
    """The rate that update number ``update`` (from 1) uses.

    All schedules rise linearly to ``config.learning_rate`` at ``warmup_steps``. Then ``noam`` falls with the inverse
    square root of the update, which is equation 3 of the paper:

        lrate = d_model^-0.5 * min(update^-0.5, update * warmup^-1.5)

    with its peak written as a number of its own: :func:`paper_peak` gives the paper's. ``cosine`` and ``linear`` fall
    to zero at ``config.steps``; ``plateau`` does so too, by a cosine, but not before :data:`PLATEAU` of the updates.

    Args:
        factor: of every rate; below 1 after a step back.
        begin, end: where a plateau falls, if not as ``config.steps`` has it: with a budget the time tells.
    """
    warmup, highest = config.warmup_steps, factor * config.learning_rate
    if update <= warmup:
        return highest * update / warmup
    if config.schedule == "noam":
        return highest * math.sqrt(warmup / update)
    above, zero = float(warmup), config.steps
    if config.schedule == "plateau":
        above, zero = begin or fall(config), end or config.steps
    progress = min(max((update - above) / max(zero - above, 0.4), 0.0), 1.0)
    if config.schedule == "linear":
        return highest * (1.0 - progress)
    return highest * 0.5 * (1.0 + math.cos(math.pi * progress))


def paper_peak(d_model: int, warmup_steps: int) -> float:
    """The highest rate of equation 3: (d_model * warmup_steps)^-0.5."""
    return 1.0 / math.sqrt(d_model * warmup_steps)
