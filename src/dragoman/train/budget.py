"""A training that fits into a given time.

How many updates fit is measured before the first one and written down, so that the training stays the same however
often it is interrupted. A few more are planned than fit. Where a plateau begins to fall, the loop lays the fall out
over the time that is left: a machine may have become slower by then. Other schedules are stopped by the clock
at their tail.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from dragoman.config import MOST_STEPS, Layer, TrainConfig, merge
from dragoman.errors import ConfigError
from dragoman.train import duration
from dragoman.train.clock import Clock
from dragoman.train.costs import Costs, measure, write
from dragoman.train.estimate import training_minutes
from dragoman.train.length import begun_with, lay_out, measure_epoch, spell_tokens
from dragoman.train.prepare import Prepared
from dragoman.train.presets import CorpusSize, for_corpus, narrower
from dragoman.train.schedule import fall
from dragoman.train.watcher import Watcher

REHEARSAL = 0.02
"""Share of the budget in which updates are measured; a part of a validation and a save come on top."""

SURPLUS = 1.08
"""Updates that are planned, over those that fit: a machine was seen to become 7 % faster than in the rehearsal."""

HURRY = 2.0
"""A model is too wide for a budget if its usual training takes more than so many times as long."""

FEW, LITTLE = 5.0, 0.1
"""Of fewer epochs than the first, dropout is the second at most: what is read a few times is not yet learned by heart.
Measured with one and three epochs (docs/log.md)."""

OFTEN, LOOKING, SAVING = 10, 0.15, 0.03
"""Validations of a training, and checkpoints at least; they are fewer if that would take these shares of its time."""

LEAST_PAIRS = 200
"""Of fewer pairs than these, BLEU says too little about which weights are the best; rather fewer looks."""

AVERAGED = 0.05
"""Share of the updates that the running average reaches back, if the preset's reaches further."""


@dataclass(frozen=True)
class Fit:
    """What is laid out over the time."""

    steps: int
    validate_every: int
    save_every: int


@dataclass(frozen=True)
class Budget:
    """Seconds that a training may take, everything included; a :class:`dragoman.train.prepare.Plan`."""

    seconds: float
    clock: Clock
    "Since when they count."
    fixed: frozenset[str] = frozenset()
    "Keys of [train] that the user has set."

    def defaults(self, size: CorpusSize, layers: Sequence[Layer], watcher: Watcher) -> Layer:
        """The usual ones, or those of a narrower model if time is short."""
        choice = for_corpus(size, layers)
        for less in narrower(size, layers):
            config = merge([choice, *layers])
            seconds = 60 * training_minutes(config, size)
            if seconds <= HURRY * (self.seconds - self.clock.seconds):
                break
            watcher.message(
                f"for such a corpus a model of width {config.model.d_model} usually trains {duration.spell(seconds)}:"
                f" a narrower one is taken for {duration.exact(self.seconds)}"
            )
            choice = less
        return choice

    def begin(self, prepared: Prepared, watcher: Watcher) -> Layer:
        """As many updates as fit into what is left of the budget.

        Raises:
            ConfigError: none do.
        """
        costs, train = measure(prepared, REHEARSAL * self.seconds), prepared.config.train
        left, limit = self.seconds - self.clock.seconds, len(prepared.validation.sources)
        if "validate_limit" not in self.fixed:
            limit = affordable(limit, left, costs)
            costs = replace(costs, validation=costs.validation * limit / len(prepared.validation.sources))
        write(prepared.folder, costs)
        fitted = fit(left, costs, train, self.fixed)
        if not fitted.steps:
            raise ConfigError(
                f"--budget {duration.exact(self.seconds)} leaves no time to train; {self.clock.seconds:.0f} s went into"
                f" preparing, and beginning and ending would take {costs.begin + costs.end:.0f} s; give more"
            )
        epoch = measure_epoch(prepared.tokens, prepared.config, begun_with(prepared))
        epochs, dropout = fitted.steps / epoch.updates, prepared.config.model.dropout
        laid_out = lay_out(fitted.steps, prepared.config)
        watcher.message(
            f"{duration.exact(self.seconds)}: {fitted.steps:,} updates of about {spell_tokens(epoch.tokens)} tokens"
            f" ({epochs:.1f} epochs), validation every {fitted.validate_every:,}"
        )
        return {
            "model": {"dropout": min(dropout, LITTLE)} if epochs < FEW else laid_out["model"],
            "train": {
                **laid_out["train"],
                **self._settings(fitted, train),
                "validate_limit": limit,
            },
        }

    def resume(self, prepared: Prepared, watcher: Watcher) -> Layer:
        """The same. Another budget leaves the updates as they are; only the clock ends them at another time."""
        train = prepared.config.train
        if self.seconds != train.budget:
            watcher.message(f"the schedule stays as it was begun: {train.steps:,} updates")
        return {"train": {"budget": self.seconds}}

    def _settings(self, fitted: Fit, train: TrainConfig) -> dict[str, int | float | str]:
        average = 1.0 - 1.0 / max(AVERAGED * fitted.steps, 1.0)
        return {
            **asdict(fitted),
            "budget": self.seconds,
            "schedule": "plateau",
            "ema_decay": min(train.ema_decay, round(average, 6)),
        }


def affordable(pairs: int, left: float, costs: Costs) -> int:
    """Of ``pairs`` validation pairs, as many as may be looked at :data:`OFTEN` times; a few at least."""
    share = LOOKING / OFTEN * left / max(costs.validation, 1e-9)
    return min(pairs, max(LEAST_PAIRS, int(share * pairs)))


def fit(left: float, costs: Costs, train: TrainConfig, fixed: frozenset[str] = frozenset()) -> Fit:
    """What ``left`` seconds allow; no updates if it is too late.

    Args:
        fixed: the keys of ``train`` that the user has set. Otherwise validations and checkpoints are spread over the
            training, the last at its end, and ``train`` says how far apart checkpoints may be.
    """
    looks, saves = _times(left, costs.validation, LOOKING), _times(left, costs.save, SAVING)
    free, each = left - costs.begin - costs.end, costs.update + costs.save / train.save_every
    if "validate_every" in fixed:
        each += costs.validation / train.validate_every
    else:
        free -= (looks - 1) * costs.validation
    if "save_every" not in fixed:
        free -= (saves - 1) * costs.save
    steps = max(0, min(int(SURPLUS * free / each), MOST_STEPS))
    validate_every, save_every = max(1, steps // looks), max(1, min(train.save_every, steps // saves))
    return Fit(
        steps if "validate_every" in fixed else min(steps, validate_every * looks),
        train.validate_every if "validate_every" in fixed else validate_every,
        train.save_every if "save_every" in fixed else save_every,
    )


def last_update(step: int, config: TrainConfig, costs: Costs, left: float, update: float) -> int:
    """The last update if a plateau begins to fall after ``step``, over what time is left; 0 where it does not begin.

    It begins where the plan has it, or when only so much time is left as the plan has for the fall: machines become
    slower than they were when it was made. No rate up to there depends on the end. There are never more updates than
    planned, and a fall that has begun without a budget stays as it is.

    Args:
        left: seconds.
        update: seconds that one takes of late.
    """
    begin = fall(config)
    if not config.warmup_steps <= step <= math.ceil(begin):
        return 0
    now_and_then = costs.validation / config.validate_every + costs.save / config.save_every
    planned = (config.steps - begin) * (costs.update + now_and_then) / SURPLUS if costs.update else 0.0
    if step < begin and left > planned:
        return 0
    return min(step + max(int(left / max(update + now_and_then, 1e-6)), 1), config.steps)


def _times(left: float, cost: float, share: float) -> int:
    return max(1, min(OFTEN, int(share * left / max(cost, 1e-9))))
