"""Positions: hand values, three layouts, any length, tables that end."""

import math

import numpy as np
import pytest
import torch

from dragoman.errors import RequestError
from dragoman.model.positions import TABLE_ROWS, LearnedPositions, SinusoidalPositions, sinusoids
from oracles.transformer import position_vector

LAYOUTS = ("sinusoidal", "sinusoidal_half", "sinusoidal_half_inclusive")

HAND = {
    "sinusoidal": [0.84147, 0.54030, 0.09983, 0.99500, 0.01000, 0.99995, 0.00100, 1.0],
    "sinusoidal_half": [0.84147, 0.09983, 0.01000, 0.00100, 0.54030, 0.99500, 0.99995, 1.0],
    "sinusoidal_half_inclusive": [0.84147, 0.04640, 0.00215, 0.00010, 0.54030, 0.99892, 1.0, 1.0],
}
"""Position 1 of width 8, to five digits, as published code of the three conventions gives it."""


@pytest.mark.parametrize("layout", LAYOUTS)
def test_position_one_by_hand(layout: str) -> None:
    assert sinusoids(torch.tensor([1]), 8, layout)[0].tolist() == pytest.approx(HAND[layout], abs=6e-6)


@pytest.mark.parametrize("position", [0, 1, 17, 5000])
def test_odd_width_by_hand(position: int) -> None:
    """Width 5 ends with a sine."""
    slow, slower = position / 10000 ** (2 / 5), position / 10000 ** (4 / 5)
    expected = [math.sin(position), math.cos(position), math.sin(slow), math.cos(slow), math.sin(slower)]
    assert sinusoids(torch.tensor(position), 5).tolist() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("d_model", [1, 2, 3, 4, 5, 8, 29, 64])
def test_every_width_in_every_layout(layout: str, d_model: int) -> None:
    found = sinusoids(torch.tensor([[0, 1, 17], [1023, 1024, 70_000]]), d_model, layout)
    assert found.shape == (2, 3, d_model)
    assert found.dtype == torch.float64
    for at, position in (((0, 0), 0), ((0, 1), 1), ((0, 2), 17), ((1, 0), 1023), ((1, 1), 1024), ((1, 2), 70_000)):
        assert np.abs(found[at].numpy() - position_vector(position, d_model, layout)).max() < 1e-10


def test_a_shift_is_a_rotation() -> None:
    """Section 3.5: PE(pos + k) is a linear function of PE(pos), the same for every pos."""
    d_model, k = 8, 5
    here, there = (sinusoids(torch.arange(start, start + 20), d_model).numpy() for start in (0, k))
    for pair in range(0, d_model, 2):
        angle = k / 10000 ** (pair / d_model)
        turn = np.array([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])
        assert np.abs(here[:, pair : pair + 2] @ turn.T - there[:, pair : pair + 2]).max() < 1e-12


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_the_table_has_no_end(layout: str, dtype: torch.dtype) -> None:
    """What is looked up and what is computed on demand are the same numbers, whoever else is in the batch."""
    module = SinusoidalPositions(6, layout).to(dtype)
    inside, beyond = torch.tensor([[0, 5, TABLE_ROWS - 1]]), torch.tensor([[0, 5, TABLE_ROWS - 1, TABLE_ROWS, 10**6]])
    exact = sinusoids(beyond, 6, layout).to(dtype)
    assert module(inside).dtype == dtype
    assert torch.equal(module(inside), exact[:, :3])
    assert torch.equal(module(beyond), exact)
    assert module(torch.empty(2, 0, dtype=torch.int64)).shape == (2, 0, 6)


def test_changing_the_precision_computes_anew() -> None:
    module = SinusoidalPositions(8, "sinusoidal").to(torch.bfloat16).double()
    assert torch.equal(module(torch.arange(50)), sinusoids(torch.arange(50), 8))


def test_neighbours_stay_apart_where_float32_would_confuse_them() -> None:
    far = torch.tensor([2**24, 2**24 + 1])
    assert not torch.equal(*SinusoidalPositions(4, "sinusoidal")(far))


def test_nothing_is_stored() -> None:
    module = SinusoidalPositions(8, "sinusoidal")
    assert not module.state_dict()
    assert not list(module.parameters())


def test_learned_rows() -> None:
    module = LearnedPositions(4, 16)
    torch.nn.init.normal_(module.weight, generator=torch.Generator().manual_seed(1))
    assert torch.equal(module(torch.tensor([[15, 0, 3]])), module.weight[[15, 0, 3]][None])
    assert module(torch.empty(1, 0, dtype=torch.int64)).shape == (1, 0, 4)


def test_learned_positions_end() -> None:
    module = LearnedPositions(4, 16)
    with pytest.raises(RequestError, match="position 16 is beyond the 16 learned positions"):
        module(torch.tensor([[3, 16]]))
