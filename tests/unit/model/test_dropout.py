"""Dropout: the rate, the scale, the seed, and nothing at all outside training."""

import pytest
import torch

from dragoman.model.dropout import LEVELS, Dropout


def dropped(rate: float, x: torch.Tensor, seed: int = 1) -> torch.Tensor:
    torch.manual_seed(seed)
    return Dropout(rate).train()(x)


@pytest.mark.parametrize("rate", [0.05, 0.1, 0.3, 0.5, 0.9])
def test_rate_and_scale(rate: float) -> None:
    """A share ``rate`` is zero, within five standard deviations; the rest is scaled so that the mean stays."""
    count = 200_000
    found = dropped(rate, torch.ones(count, dtype=torch.float64))
    exact = round(rate * LEVELS) / LEVELS
    assert abs(exact - rate) <= 0.5 / LEVELS
    zeros = int((found == 0).sum())
    assert abs(zeros - exact * count) < 5 * (count * exact * (1 - exact)) ** 0.5
    assert (found[found != 0] - 1 / (1 - exact)).abs().max() < 1e-12


def test_each_of_four_lanes_is_dropped_on_its_own() -> None:
    kept = (dropped(0.5, torch.ones(40_000)) != 0).float().view(-1, 4)
    assert (kept.mean(0) - 0.5).abs().max() < 0.025
    together = torch.corrcoef(kept.T) - torch.eye(4)
    assert together.abs().max() < 0.05


def test_the_seed_decides() -> None:
    x = torch.randn(7, 5, 3, generator=torch.Generator().manual_seed(2))
    assert torch.equal(dropped(0.3, x), dropped(0.3, x))
    assert not torch.equal(dropped(0.3, x), dropped(0.3, x, seed=2))


def test_two_draws_differ() -> None:
    torch.manual_seed(1)
    module, x = Dropout(0.5).train(), torch.ones(64)
    assert not torch.equal(module(x), module(x))


@pytest.mark.parametrize("shape", [(0,), (1,), (3,), (5, 7), (2, 0, 3), (), (2, 3, 4)])
def test_any_shape(shape: tuple[int, ...]) -> None:
    x = torch.ones(shape)
    found = dropped(0.4, x)
    assert found.shape == x.shape
    assert found.dtype == x.dtype


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_any_precision(dtype: torch.dtype) -> None:
    assert dropped(0.5, torch.ones(100, dtype=dtype)).unique().tolist() == [0.0, 2.0]


def test_evaluation_and_rate_zero_do_nothing() -> None:
    x = torch.randn(9, generator=torch.Generator().manual_seed(2))
    before = torch.get_rng_state()
    assert Dropout(0.5).eval()(x) is x
    assert Dropout(0.0).train()(x) is x
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("rate", [0.9999, 0.999999])
def test_the_highest_rates_leave_something(rate: float) -> None:
    """Not everything is dropped, and nothing is divided by zero."""
    found = dropped(rate, torch.ones(400_000))
    assert found.isfinite().all()
    assert (found != 0).sum() < 120


def test_the_gradient_is_the_mask() -> None:
    x = torch.ones(50, requires_grad=True)
    found = dropped(0.5, x)
    found.sum().backward()
    assert torch.equal(x.grad, found.detach())
