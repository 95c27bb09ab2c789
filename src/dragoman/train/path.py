"""The two ways to make an update: the fused kernels where they can, PyTorch's operations everywhere else."""

from collections.abc import Callable, Sequence
from typing import Protocol

import torch

from dragoman.config import Config
from dragoman.data.batch import Batch
from dragoman.errors import EngineError
from dragoman.train.optimizer import kept_share, update_average
from dragoman.train.packed import Packed
from dragoman.train.prepare import longest_side
from dragoman.train.state import Training
from dragoman.train.step import Gradient, backpropagate


class Path(Protocol):
    """From batches to a gradient, and from the gradient to other weights."""

    def gradient(self, batches: Sequence[Batch], seed: int) -> Gradient:
        """Set every parameter's ``grad`` to that of the mean loss over all real target tokens of ``batches``.

        Args:
            seed: of dropout; any whole number.
        """
        ...

    def update(self, gradient: Gradient, rate: float, step: int) -> None:
        """Move the weights by Adam, then their running average; ``step`` counts updates from 1."""
        ...


class PlainPath:
    """The readable model, PyTorch's automatic gradient and its AdamW."""

    def __init__(self, training: Training, config: Config) -> None:
        self.training = training
        self.config = config.train

    def gradient(self, batches: Sequence[Batch], seed: int) -> Gradient:
        """See :class:`Path`."""
        torch.manual_seed(seed)
        train = self.config
        precision = "float32" if train.precision == "auto" else train.precision
        return backpropagate(self.training.model, batches, train.label_smoothing, train.clip_norm, precision)

    def update(self, gradient: Gradient, rate: float, step: int) -> None:
        """See :class:`Path`; the gradient was clipped when it was made."""
        for group in self.training.optimizer.param_groups:
            group["lr"] = rate
        self.training.optimizer.step()
        update_average(self.training.average, self.training.model, self.config.ema_decay, step)


class FusedPath:
    """The same on the packed batch, by :class:`dragoman.train.packed.Packed`."""

    def __init__(self, training: Training, config: Config) -> None:
        self.config = config.train
        self.packed = Packed(
            training.model, training.average, training.optimizer, config.model, config.train, longest_side(config) + 1
        )

    def gradient(self, batches: Sequence[Batch], seed: int) -> Gradient:
        """See :class:`Path`."""
        total = max(sum(batch.tgt_tokens for batch in batches), 1)
        loss = self.packed.accumulate(batches, total, seed)
        return Gradient(loss, total, sum(batch.tokens for batch in batches), self.packed.norm())

    def update(self, gradient: Gradient, rate: float, step: int) -> None:
        """See :class:`Path`; the gradient is clipped on its way."""
        clip = self.config.clip_norm
        scale = clip / gradient.norm if 0 < clip < gradient.norm else 1.0
        self.packed.update(rate, scale, kept_share(self.config.ema_decay, step))


def choose(training: Training, config: Config, tell: Callable[[str], None]) -> Path:
    """The fused path, or the plain one where ``train.backend`` or the machine wants it.

    Args:
        tell: is told when the kernels were wanted and are not to be had.

    Raises:
        EngineError: ``train.backend`` is ``native`` and the kernels are not to be had.
    """
    if config.train.backend == "torch":
        return PlainPath(training, config)
    try:
        return FusedPath(training, config)
    except EngineError as error:
        if config.train.backend == "native":
            raise
        tell(f"PyTorch's operations train, more slowly: {error}")
        return PlainPath(training, config)
