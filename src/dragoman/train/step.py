"""The journey of an update: text -> tokens -> batches -> model -> loss -> gradient."""

import hashlib
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.distributed.tensor import DTensor

from dragoman.data import buckets
from dragoman.data.batch import Batch, collate
from dragoman.data.tokenfile import TokenFile
from dragoman.loss import token_loss
from dragoman.model.families import EncoderDecoder
from dragoman.text.dropout import BpeDropout


@dataclass(frozen=True)
class Place:
    """A place in the stream of batches: the next one to be read."""

    epoch: int = 0
    batch: int = 0


@dataclass(frozen=True)
class Reader:
    """The endless stream of training batches, a pure function of seed and corpus; any place of it can be returned to.

    ``src_dropout`` and ``tgt_dropout`` cut the sentences anew each time they are met; None leaves them as they are.
    """

    tokens: TokenFile
    batch_tokens: int
    seed: int
    src_dropout: BpeDropout | None
    tgt_dropout: BpeDropout | None

    def read(self, place: Place, rank: int = 0, count: int = 1) -> Iterator[tuple[Batch, Place]]:
        """Batches from ``place`` on, each with the place after it.

        Of ``count`` workers each takes one batch in turn, by its ``rank``; the place is then that after all of theirs.
        """
        stream = self._stream(place)
        while True:
            turn = list(islice(stream, count))
            mine, last = turn[rank], turn[-1]
            yield self._load(*mine), Place(last[1], last[2] + 1)

    def _stream(self, place: Place) -> Iterator[tuple[NDArray[np.int64], int, int]]:
        """What is in each batch, its epoch and its number there."""
        while True:
            for number, indices in enumerate(buckets.epoch(self.tokens, self.batch_tokens, self.seed, place.epoch)):
                if number >= place.batch:
                    yield indices, place.epoch, number
            place = Place(place.epoch + 1)

    def _load(self, indices: NDArray[np.int64], epoch: int, number: int) -> Batch:
        pairs = [self.tokens.pair(int(index)) for index in indices]
        if self.src_dropout and self.tgt_dropout:
            draws = random.Random(f"{self.seed} {epoch} {number}")
            pairs = [(self.src_dropout.segment(src, draws), self.tgt_dropout.segment(tgt, draws)) for src, tgt in pairs]
        return collate(pairs)


@dataclass(frozen=True)
class Gradient:
    """What a gradient was computed from; the gradient itself lies in the parameters' ``grad``."""

    loss: float
    "Smoothed cross-entropy, in nats a target token."
    tgt_tokens: int
    tokens: int
    norm: float
    "Of the whole gradient, before clipping; nan or inf where loss or gradient is not finite."

    @property
    def is_finite(self) -> bool:
        """Whether the optimizer may use it."""
        return bool(np.isfinite(self.loss) and np.isfinite(self.norm))


def drawn(seed: int, number: int) -> int:
    """32 bits for dropout in batch ``number`` of an update with this ``seed``, of which every bit counts."""
    return int.from_bytes(hashlib.blake2b(f"{seed} {number}".encode(), digest_size=4).digest(), "little")


def backpropagate(
    model: EncoderDecoder,
    batches: Sequence[Batch],
    label_smoothing: float,
    clip_norm: float,
    precision: Literal["float32", "bfloat16"],
    total: int | None = None,
) -> Gradient:
    """Set every parameter's ``grad`` to that of the mean loss over all real target tokens of ``batches``.

    Every token weighs the same however the batches are cut, so that k small batches give the gradient of one big one.

    Args:
        clip_norm: the gradient is scaled down to this norm if it is longer; 0 leaves it. One that is not finite is
            left.
        total: target tokens that the loss is divided by; None counts those of ``batches``.
    """
    count = sum(batch.tgt_tokens for batch in batches)
    total = max(count if total is None else total, 1)
    loss = 0.0
    for parameter in model.parameters():
        parameter.grad = None
    device = next(model.parameters()).device
    for batch in batches:
        is_full = bool(batch.src_mask.all())  # then the fastest kernels may serve
        batch = batch.to(device)
        with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bfloat16"):
            logits = model(batch.src, None if is_full else batch.src_mask, batch.tgt_in)
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        share = token_loss(logits, batch.tgt_out, batch.tgt_mask, label_smoothing) / total
        share.backward()  # type: ignore[no-untyped-call]
        loss += share.item()
    norm = clip(model, clip_norm)
    return Gradient(loss, count, sum(batch.tokens for batch in batches), norm)


def clip(model: nn.Module, clip_norm: float) -> float:
    """Scale the gradient down to ``clip_norm`` if it is longer and finite (0 leaves it); its length before."""
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    length = torch.nn.utils.get_total_norm(gradients)
    norm = float(length.full_tensor() if isinstance(length, DTensor) else length)
    if clip_norm and clip_norm < norm < float("inf"):
        torch._foreach_mul_(gradients, clip_norm / norm)
    return norm
