"""How long to train: three options of which one may be given, and a setting that must not contradict it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dragoman.errors import ConfigError
from dragoman.train import duration
from dragoman.train.clock import Clock

if TYPE_CHECKING:
    from dragoman.config import Layer
    from dragoman.train.prepare import Plan

DECIDED = {"--budget": ("steps", "budget"), "--epochs": ("steps",), "--steps": ("steps",)}
"""The keys of [train] that each option decides."""


@dataclass(frozen=True)
class Wish:
    """What the user has given of `--budget`, `--epochs` and `--steps`."""

    budget: str | None = None
    epochs: float | None = None
    steps: int | None = None

    def settle(self, layers: "Sequence[Layer]", has_recipe: bool) -> "list[Layer]":
        """The user's ``layers``, without what a recipe says of the length if an option does, too.

        Args:
            has_recipe: the first layer is one; the others are single settings.

        Raises:
            ConfigError: two options are given, or an option and a `--set`, or a value makes no sense.
        """
        from dragoman import config

        given = [name for name in DECIDED if getattr(self, name.removeprefix("--")) is not None]
        if len(given) > 1:
            raise ConfigError(f"{' and '.join(given)} contradict each other; give one of {', '.join(DECIDED)}")
        if self.epochs is not None and not 0 < self.epochs <= 1e6:
            expected = "a number above 0, such as 3 or 0.5, and at most 1,000,000"
            raise ConfigError(f"--epochs {self.epochs:g}: expected {expected}")
        if self.steps is not None:
            config.merge([{"train": {"steps": self.steps}}])
        if self.budget is not None:
            config.merge([{"train": {"budget": duration.read(self.budget)}}])
        decided = DECIDED[given[0]] if given else ()
        recipe, settings = layers[: int(has_recipe)], layers[int(has_recipe) :]
        for key in decided:
            if any(key in layer.get("train", {}) for layer in settings):
                raise ConfigError(f"{given[0]} and --set train.{key} contradict each other; leave one of them out")
        return [*(_without(layer, decided) for layer in recipe), *settings]


def spelled(wish: Wish) -> str:
    """The length in words, before anybody has measured what it means in updates; empty without a wish."""
    if wish.budget is not None:
        return f"as many updates as fit into {duration.exact(duration.read(wish.budget))},"
    if wish.epochs is not None:
        return f"{wish.epochs:g} epochs in updates"
    return "" if wish.steps is None else f"{wish.steps:,} updates"


def plan(wish: Wish, layers: "Sequence[Layer]", clock: Clock) -> "Plan | None":
    """What `prepare` makes of a wish that was settled; None where there is none."""
    from dragoman.train.budget import Budget
    from dragoman.train.length import Epochs, Steps

    if wish.budget is not None:
        fixed = frozenset(key for layer in layers for key in layer.get("train", {}))
        return Budget(duration.read(wish.budget), clock, fixed)
    if wish.epochs is not None:
        return Epochs(wish.epochs)
    return None if wish.steps is None else Steps(wish.steps)


def _without(layer: "Layer", keys: Sequence[str]) -> "Layer":
    if "train" not in layer:
        return layer
    return {**layer, "train": {key: value for key, value in layer["train"].items() if key not in keys}}
