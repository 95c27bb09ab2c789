"""The feed-forward network by hand."""

import math

import pytest
import torch

from dragoman.model.feedforward import FeedForward


def phi(x: float) -> float:
    """The normal distribution function."""
    return 0.5 * (1 + math.erf(x / math.sqrt(2)))


@pytest.mark.parametrize(
    ("activation", "expected"),
    [
        ("relu", [3.0 * 2.0, 0.0]),
        ("gelu", [3.0 * 2.0 * phi(2.0), 3.0 * -1.0 * phi(-1.0)]),
    ],
)
def test_plain(activation: str, expected: list[float]) -> None:
    """Inner layer x, outer layer 3 x."""
    block = FeedForward(2, 2, activation).double()
    with torch.no_grad():
        for linear, scale in ((block.inner, 1.0), (block.outer, 3.0)):
            linear.weight.copy_(scale * torch.eye(2))
            linear.bias.zero_()
        assert block(torch.tensor([[2.0, -1.0]]).double())[0].tolist() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("activation", "open_"), [("swiglu", lambda x: x / (1 + math.exp(-x))), ("geglu", None)])
def test_gated(activation: str, open_: object) -> None:
    """The gate reads 2 x and is the upper half of the inner layer, the other half reads x + 1."""
    block = FeedForward(1, 1, activation).double()
    with torch.no_grad():
        block.inner.weight.copy_(torch.tensor([[2.0], [1.0]]))
        block.inner.bias.copy_(torch.tensor([0.0, 1.0]))
        block.outer.weight.fill_(1.0)
        block.outer.bias.fill_(0.5)
        gate = open_(6.0) if callable(open_) else 6.0 * phi(6.0)
        assert block(torch.tensor([3.0]).double()).item() == pytest.approx(gate * 4.0 + 0.5, abs=1e-12)


@pytest.mark.parametrize("activation", ["relu", "gelu", "swiglu", "geglu"])
def test_each_position_alone(activation: str) -> None:
    block = FeedForward(4, 6, activation)
    x = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(1))
    changed = x.clone()
    changed[0, 1] += 1
    same = torch.ones(2, 3, dtype=torch.bool)
    same[0, 1] = False
    assert torch.equal(block(x)[same], block(changed)[same])
    assert not torch.equal(block(x)[0, 1], block(changed)[0, 1])
