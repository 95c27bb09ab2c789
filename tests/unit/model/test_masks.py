"""Masks by hand."""

import torch

from dragoman.model import masks


def test_causal() -> None:
    assert masks.causal(3, 3).tolist() == [[True, False, False], [True, True, False], [True, True, True]]


def test_causal_with_a_past() -> None:
    """The last query stands at the last key; what is more is the past."""
    assert masks.causal(2, 4).tolist() == [[True, True, True, False], [True, True, True, True]]
    assert masks.causal(1, 4).all()


def test_causal_with_more_queries_than_keys() -> None:
    assert masks.causal(3, 2).tolist() == [[False, False], [True, False], [True, True]]
    assert masks.causal(2, 0).shape == (2, 0)


def test_padding() -> None:
    expected = [[True, True, False], [False, False, False], [True, True, True]]
    assert masks.padding(torch.tensor([2, 0, 3]), 3).tolist() == expected
    assert masks.padding(torch.tensor([], dtype=torch.int64), 3).shape == (0, 3)
