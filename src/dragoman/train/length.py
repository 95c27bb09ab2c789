"""How long a training is to be, in updates or in epochs, and the schedule that is laid out over it."""

from collections.abc import Sequence
from dataclasses import dataclass

from dragoman.config import MOST_STEPS, Config, Layer
from dragoman.data import buckets
from dragoman.data.tokenfile import TokenFile
from dragoman.errors import ConfigError
from dragoman.store import records
from dragoman.train.prepare import Prepared
from dragoman.train.presets import CorpusSize, for_corpus
from dragoman.train.watcher import Watcher

SHORT, LONG = 0.25, 2.0
"""Trainings are short and long that make at most, and at least, those shares of the usual updates."""

DECAY, MORE_DROPOUT = 0.1, 0.1
"""With Muon all matrices decay by the first in both: they stay small, so that updates turn them further. That is about
one BLEU after six epochs of Multi30k (none on its tests after 13 or 43), 0.8 after two epochs of tatoeba, where eight
are usual. Long trainings have so much dropout more, too: 212 epochs of Multi30k gain one BLEU by both over 106, which
have the same with decay and without (one run each, docs/log.md). Other corpora were not trained so long."""


@dataclass(frozen=True)
class Epoch:
    """What it takes to read the corpus once."""

    updates: float
    tokens: float
    "Real source and target tokens of an update, on average."


@dataclass(frozen=True)
class Steps:
    """A number of updates; a :class:`dragoman.train.prepare.Plan`."""

    steps: int

    def defaults(self, size: CorpusSize, layers: Sequence[Layer], watcher: Watcher) -> Layer:
        """Those of the corpus."""
        return for_corpus(size, layers)

    def begin(self, prepared: Prepared, watcher: Watcher) -> Layer:
        """So many updates."""
        return lay_out(self.steps, prepared.config)

    def resume(self, prepared: Prepared, watcher: Watcher) -> Layer:
        """The same."""
        return {"train": {"steps": self.steps}}


@dataclass(frozen=True)
class Epochs:
    """How often the corpus is read; a :class:`dragoman.train.prepare.Plan`."""

    epochs: float

    def defaults(self, size: CorpusSize, layers: Sequence[Layer], watcher: Watcher) -> Layer:
        """Those of the corpus."""
        return for_corpus(size, layers)

    def begin(self, prepared: Prepared, watcher: Watcher) -> Layer:
        """As many updates as that takes."""
        epoch = measure_epoch(prepared.tokens, prepared.config, begun_with(prepared))
        steps = self._steps(epoch)
        watcher.message(f"{self.epochs:g} epochs: {steps:,} updates of about {spell_tokens(epoch.tokens)} tokens")
        return lay_out(steps, prepared.config)

    def resume(self, prepared: Prepared, watcher: Watcher) -> Layer:
        """The same, counted again, for as many workers as the training was begun with."""
        return {"train": {"steps": self._steps(measure_epoch(prepared.tokens, prepared.config, begun_with(prepared)))}}

    def _steps(self, epoch: Epoch) -> int:
        steps = max(1, round(self.epochs * epoch.updates))
        if steps > MOST_STEPS:
            raise ConfigError(f"--epochs {self.epochs:g} are {steps:,} updates; {MOST_STEPS:,} are possible")
        return steps


def lay_out(steps: int, config: Config) -> Layer:
    """The settings of a training of ``steps`` updates, in the proportions of the preset that ``config`` has."""
    train, share = config.train, steps / config.train.steps
    is_muon, is_long = train.optimizer == "muon", share >= LONG
    return {
        "model": {"dropout": round(config.model.dropout + MORE_DROPOUT, 6)} if is_muon and is_long else {},
        "train": {
            "steps": steps,
            **({"weight_decay": DECAY} if is_muon and (is_long or share <= SHORT) else {}),
            "warmup_steps": max(1, min(train.warmup_steps, steps // 5)),
            "validate_every": min(train.validate_every, steps),
            "save_every": min(train.save_every, steps),
        },
    }


def begun_with(prepared: Prepared) -> int:
    """Workers that the training was begun with; a schedule does not change when there are more or fewer later."""
    return int(records.read(prepared.folder.provenance).get("workers", 1))


def measure_epoch(tokens: TokenFile, config: Config, workers: int = 1) -> Epoch:
    """Count the batches of the first epoch; some seconds for ten million pairs."""
    batches = sum(1 for _ in buckets.epoch(tokens, config.data.batch_tokens, config.train.seed, 0))
    real = len(tokens.ids) + 2 * len(tokens)
    together = config.train.accumulate * workers
    return Epoch(batches / together, real / batches * together)


def spell_tokens(tokens: float) -> str:
    """A number of tokens to two digits, which is about as much as batches have in common."""
    digits = 10 ** max(len(str(round(tokens))) - 2, 0)
    return f"{round(tokens / digits) * digits:,}"
