"""The two ways to make an update: the fused kernels where they can, PyTorch's operations everywhere else."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal, Protocol

import torch
from torch import Tensor, nn

from dragoman.config import Config
from dragoman.data.batch import Batch
from dragoman.engine.library import instruction_set
from dragoman.errors import EngineError, TrainingError, is_shortage
from dragoman.train import optimizer
from dragoman.train.blackboard import Blackboard, hang
from dragoman.train.packed import Packed
from dragoman.train.placement import device_of
from dragoman.train.prepare import longest_side
from dragoman.train.shortage import Fitted, HalfMade
from dragoman.train.state import Training
from dragoman.train.step import Gradient, backpropagate, clip, drawn
from dragoman.train.workers import Workers

ALONE = Workers()

NO_MEMORY = "out of memory; lower data.batch_tokens in a new folder, or add workers"


class Path(Protocol):
    """From batches to a gradient, and from the gradient to other weights."""

    @property
    def manner(self) -> str:
        """What must be alike in all workers, for their weights to stay the same bits."""
        ...

    def gradient(self, batches: Sequence[Batch], seed: int) -> Gradient:
        """Set every parameter's ``grad`` to that of the mean loss over all real target tokens of ``batches``.

        Args:
            seed: of dropout; any whole number.
        """
        ...

    def combine(self, own: Fitted) -> Fitted:
        """Make it the gradient of the mean loss over the tokens of all workers, the same bits in each.

        Args:
            own: of the gradient that lies in the parameters; it may be one of no pairs at all.
        """
        ...

    def update(self, gradient: Gradient, rate: float, step: int) -> None:
        """Move the weights by the optimizer, then their running average; ``step`` counts updates from 1.

        Raises:
            MemoryError, RuntimeError: there is not enough memory (see :func:`dragoman.errors.is_shortage`); nothing has
                moved, except where it is a :class:`HalfMade`.
        """
        ...


class PlainPath:
    """The readable model, PyTorch's automatic gradient and :mod:`dragoman.train.optimizer`."""

    def __init__(self, training: Training, config: Config, workers: Workers = ALONE) -> None:
        self.training = training
        self.config = config.train
        self.workers = workers
        if self.config.compile:
            for layer in (*training.model.encoder.layers, *training.model.decoder.layers):
                layer.compile(dynamic=True)  # the layers are alike, so that one of each kind is compiled

    @property
    def manner(self) -> str:
        """See :class:`Path`."""
        return f"{type(self).__name__} {self.precision}"

    def gradient(self, batches: Sequence[Batch], seed: int) -> Gradient:
        """See :class:`Path`; alone, it is clipped here."""
        torch.manual_seed(drawn(seed, 0))
        train = self.config
        clip_norm = train.clip_norm if self.workers.count == 1 else 0.0
        return backpropagate(self.training.model, batches, train.label_smoothing, clip_norm, self.precision)

    @property
    def precision(self) -> Literal["float32", "bfloat16"]:
        """What ``train.precision`` means here."""
        if self.config.precision != "auto":
            return self.config.precision
        return "bfloat16" if next(self.training.model.parameters()).is_cuda else "float32"

    def combine(self, own: Fitted) -> Fitted:
        """See :class:`Path`; the sum is clipped."""
        if self.workers.count == 1:
            return own
        combined, shares = _add_up(self.workers, own)
        _sum_gradients(self.training.model, shares[self.workers.rank], self.workers)
        return _with_norm(combined, clip(self.training.model, self.config.clip_norm))

    def update(self, gradient: Gradient, rate: float, step: int) -> None:
        """See :class:`Path`; the gradient was clipped when it was made."""
        try:
            optimizer.update(self.training.optimizer, rate)
            optimizer.update_average(self.training.average, self.training.model, self.config.ema_decay, step)
        except (MemoryError, RuntimeError) as error:
            if not is_shortage(error):
                raise
            raise HalfMade("out of memory") from error


class ShardedPath(PlainPath):
    """The same where each worker has but a part of the weights: gradients are added up while they are computed."""

    def gradient(self, batches: Sequence[Batch], seed: int) -> Gradient:
        """See :class:`Path`; that of all workers already.

        Raises:
            TrainingError: there is not enough memory. To look at smaller batches, all would have to.
        """
        torch.manual_seed(drawn(seed, 0))
        train, model = self.config, self.training.model
        counts = self.workers.gather([sum(batch.tgt_tokens for batch in batches)])
        total = max(int(sum(count for [count] in counts)), 1)
        try:
            with self.workers.explained():
                own = backpropagate(model, batches, train.label_smoothing, train.clip_norm, self.precision, total)
        except (MemoryError, RuntimeError) as error:
            if not is_shortage(error):
                raise
            raise TrainingError(NO_MEMORY) from error
        return replace(own, loss=own.loss * total / max(own.tgt_tokens, 1))

    def combine(self, own: Fitted) -> Fitted:
        """See :class:`Path`; only the counts are left to be added up."""
        return _with_norm(_add_up(self.workers, own)[0], own.gradient.norm)

    def update(self, gradient: Gradient, rate: float, step: int) -> None:
        """See :class:`Path`; Muon gathers its momentum.

        Raises:
            TrainingError: there is not enough memory; the others may be waiting for this one's part.
        """
        try:
            with self.workers.explained():
                super().update(gradient, rate, step)
        except HalfMade as error:
            raise TrainingError(NO_MEMORY) from error


class FusedPath:
    """The same on the packed batch, by :class:`dragoman.train.packed.Packed`."""

    def __init__(self, training: Training, config: Config, workers: Workers = ALONE) -> None:
        self.config = config.train
        self.workers = workers
        self.board: Blackboard | None = None
        self.packed = Packed(
            *(training.model, training.average, training.optimizer, config.model, config.train),
            *(longest_side(config) + 1, self._memory),
        )

    def _memory(self, size: int) -> Tensor:
        """Of the gradient: seen by all workers, where that can be."""
        self.board = hang(self.workers, size)
        return torch.zeros(size) if self.board is None else self.board.own

    @property
    def manner(self) -> str:
        """See :class:`Path`; the number of threads may differ."""
        return f"{type(self).__name__} {instruction_set()} {self.packed.precision}"

    def gradient(self, batches: Sequence[Batch], seed: int) -> Gradient:
        """See :class:`Path`."""
        count = sum(batch.tgt_tokens for batch in batches)
        loss = self.packed.accumulate(batches, max(count, 1), seed)
        norm = self.packed.norm() if self.workers.count == 1 else 0.0
        return Gradient(loss, count, sum(batch.tokens for batch in batches), norm)

    def combine(self, own: Fitted) -> Fitted:
        """See :class:`Path`; the kernels' gradients lie in one piece of memory."""
        if self.workers.count == 1:
            return own
        combined, shares = _add_up(self.workers, own)
        if self.board is None:
            share = shares[self.workers.rank]
            self.packed.gradient.mul_(share) if share else self.packed.gradient.zero_()
            self.workers.sum(self.packed.gradient)
        else:
            self.board.add_up(shares)
        return _with_norm(combined, self.packed.norm())

    def update(self, gradient: Gradient, rate: float, step: int) -> None:
        """See :class:`Path`; the gradient is clipped on its way."""
        clip = self.config.clip_norm
        scale = clip / gradient.norm if 0 < clip < gradient.norm else 1.0
        self.packed.update(rate, scale, optimizer.kept_share(self.config.ema_decay, step))


def choose(training: Training, config: Config, tell: Callable[[str], None], workers: Workers = ALONE) -> Path:
    """The fused path, or the plain one where ``train.backend`` or the machine wants it.

    Args:
        training: where :func:`dragoman.train.placement.place` has put it.
        tell: is told when the kernels were wanted and are not to be had.

    Raises:
        EngineError: ``train.backend`` is ``native`` and the kernels are not to be had.
    """
    if config.train.sharded:
        return ShardedPath(training, config, workers)
    if config.train.backend == "torch" or config.train.compile or device_of(config.train, workers).type != "cpu":
        return PlainPath(training, config, workers)
    try:
        return FusedPath(training, config, workers)
    except EngineError as error:
        if config.train.backend == "native":
            raise
        tell(f"PyTorch's operations train, more slowly: {error}")
        return PlainPath(training, config, workers)


def _add_up(workers: Workers, own: Fitted) -> tuple[Fitted, list[float]]:
    """What all workers have looked at, with the mean loss of it, and the share of the target tokens that each has."""
    mine = own.gradient
    weighted = mine.loss * mine.tgt_tokens if mine.tgt_tokens else 0.0
    rows = workers.gather([weighted, mine.tgt_tokens, mine.tokens, own.batches, own.lost, own.failed])
    loss, tgt_tokens, tokens, batches, lost, failed = (sum(column) for column in zip(*rows, strict=True))
    total = max(tgt_tokens, 1.0)
    gradient = Gradient(loss / total, int(tgt_tokens), int(tokens), mine.norm)
    return Fitted(gradient, int(batches), int(lost), int(failed)), [row[1] / total for row in rows]


def _with_norm(fitted: Fitted, norm: float) -> Fitted:
    return replace(fitted, gradient=replace(fitted.gradient, norm=norm))


def _sum_gradients(model: nn.Module, share: float, workers: Workers) -> None:
    """Add up the gradients of all workers, each multiplied by its ``share``, in one piece."""
    parameters = list(model.parameters())
    flat = torch.cat([_gradient(parameter).flatten() for parameter in parameters]).mul_(share)
    workers.sum(flat)
    parts = torch.split(flat, [parameter.numel() for parameter in parameters])
    for parameter, part in zip(parameters, parts, strict=True):
        parameter.grad = part.view_as(parameter)


def _gradient(parameter: Tensor) -> Tensor:
    """Zeros where nothing was computed, because there were no pairs."""
    return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
