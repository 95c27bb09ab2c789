"""The gradient of an update does not depend on how its batches were cut."""

import copy
import itertools
import math
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor, nn

from dragoman.data.batch import Batch, collate
from dragoman.loss import token_loss
from dragoman.train.step import Gradient, backpropagate
from toys import toy_model

PAIRS = [([5, 6], [7]), ([4], [8, 9, 10, 3, 4]), ([3, 3, 3], []), ([], [5, 6]), ([9, 8, 7, 6], [5, 5, 5]), ([11], [12])]


def gradient_of(batches: Sequence[Batch], smoothing: float = 0.1, clip: float = 0.0) -> tuple[Gradient, list[Tensor]]:
    model = toy_model().train()
    gradient = backpropagate(model, batches, smoothing, clip, "float32")
    return gradient, [parameter.grad for parameter in model.parameters() if parameter.grad is not None]


def relative(found: list[Tensor], wanted: list[Tensor]) -> float:
    difference = math.sqrt(sum(float((a - b).square().sum()) for a, b in zip(found, wanted, strict=True)))
    return difference / math.sqrt(sum(float(b.square().sum()) for b in wanted))


@pytest.mark.goal("A9")
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("cuts", [[], [1], [4], [2, 3], [1, 2, 3, 4]], ids=lambda cuts: f"k={len(cuts) + 1}")
def test_k_batches_are_one(cuts: list[int], smoothing: float) -> None:
    """Uneven numbers of tokens in each; loss, norm and every gradient, in float64."""
    whole, wanted = gradient_of([collate(PAIRS)], smoothing)
    edges = [0, *cuts, len(PAIRS)]
    parts, found = gradient_of([collate(PAIRS[a:b]) for a, b in itertools.pairwise(edges)], smoothing)
    assert relative(found, wanted) < 1e-10
    assert parts.loss == pytest.approx(whole.loss, rel=1e-10)
    assert parts.norm == pytest.approx(whole.norm, rel=1e-10)
    assert (parts.tgt_tokens, parts.tokens) == (whole.tgt_tokens, whole.tokens) == (18, 35)


def test_it_is_the_gradient_of_the_mean_over_real_tokens() -> None:
    batch, model = collate(PAIRS), toy_model()
    loss = token_loss(model(batch.src, batch.src_mask, batch.tgt_in), batch.tgt_out, batch.tgt_mask, 0.1) / 18
    wanted = list(torch.autograd.grad(loss, list(model.parameters())))
    found, gradients = gradient_of([batch])
    assert relative(gradients, wanted) < 1e-12
    assert found.loss == pytest.approx(float(loss.detach()), rel=1e-12)
    assert found.norm == pytest.approx(math.sqrt(sum(float(g.square().sum()) for g in wanted)), rel=1e-12)


class TwoWords(nn.Module):
    """Gives the token after BOS (1) a loss of 4 and any other a loss of 1, for the target 0."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones((), dtype=torch.float64))

    def forward(self, src: Tensor, src_mask: Tensor, tgt: Tensor) -> Tensor:
        first, later = torch.tensor([math.exp(4) - 1, math.e - 1], dtype=torch.float64).log()
        other = torch.where(tgt == 1, first, later)
        return self.scale * torch.stack([torch.zeros_like(other), other], dim=-1)


def test_every_token_weighs_the_same() -> None:
    """Token losses 4 | 1, 1, 1 in two batches: their mean is 7/4, not the mean of means 5/2, nor their sum."""

    def batch(tgt_in: list[int]) -> Batch:
        ids = torch.tensor([tgt_in])
        return Batch(ids, ids > 0, ids, torch.zeros_like(ids), torch.ones_like(ids).bool())

    found = backpropagate(TwoWords(), [batch([1]), batch([5, 5, 5])], 0.0, 0.0, "float32")  # type: ignore[arg-type]
    assert found.loss == pytest.approx(7 / 4, rel=1e-12)


def test_clipping_acts_on_the_whole() -> None:
    plain, wanted = gradient_of([collate(PAIRS)])
    batches = [collate(PAIRS[:2]), collate(PAIRS[2:])]
    clipped, found = gradient_of(batches, clip=plain.norm / 4)
    assert relative([4 * gradient for gradient in found], wanted) < 1e-10
    assert clipped.norm == pytest.approx(plain.norm)
    _, loose = gradient_of(batches, clip=plain.norm * 4)
    assert relative(loose, wanted) < 1e-10


def test_earlier_gradients_are_forgotten() -> None:
    model, batch = toy_model().train(), collate(PAIRS)
    backpropagate(model, [batch], 0.1, 0.0, "float32")
    once = [copy.copy(parameter.grad) for parameter in model.parameters()]
    backpropagate(model, [batch], 0.1, 0.0, "float32")
    assert all(torch.equal(a, p.grad) for a, p in zip(once, model.parameters(), strict=True))  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_is_not_finite_is_seen(value: float) -> None:
    model = toy_model().train()
    with torch.no_grad():
        model.decoder.layers[0].feed_forward.outer.bias[0] = value  # type: ignore[union-attr, index]
    gradient = backpropagate(model, [collate(PAIRS)], 0.1, 1.0, "float32")
    assert not gradient.is_finite


def test_one_gradient_that_is_not_finite_spoils_no_other() -> None:
    """Clipping with a norm of nan would make every gradient nan."""
    model = toy_model().train()
    model.src_embedding.token.weight.register_hook(lambda grad: grad * math.nan)
    gradient = backpropagate(model, [collate(PAIRS)], 0.1, 1.0, "float32")
    assert not gradient.is_finite
    assert model.encoder.layers[0].feed_forward.inner.weight.grad.isfinite().all()  # type: ignore[union-attr]


def test_bfloat16_stays_near() -> None:
    model = toy_model(torch.float32).train()
    exact = backpropagate(model, [collate(PAIRS)], 0.1, 0.0, "float32")
    rough = backpropagate(model, [collate(PAIRS)], 0.1, 0.0, "bfloat16")
    assert rough.loss == pytest.approx(exact.loss, rel=0.05)
    assert all(p.grad.dtype == torch.float32 for p in model.parameters() if p.grad is not None)
