"""Embeddings: scaled, placed, dropped."""

import torch

from dragoman.model.embedding import InputEmbedding, TokenEmbedding
from dragoman.model.positions import SinusoidalPositions, sinusoids


def embedding(dropout: float = 0.0) -> InputEmbedding:
    token = TokenEmbedding(5, 16)
    torch.nn.init.normal_(token.weight, generator=torch.Generator().manual_seed(1))
    return InputEmbedding(token, SinusoidalPositions(16, "sinusoidal"), dropout)


def test_tokens_are_scaled_by_the_root_of_the_width() -> None:
    token = embedding().token
    assert torch.equal(token(torch.tensor([[3, 0]])), 4.0 * token.weight[[3, 0]][None])


def test_positions_are_those_given_whatever_the_ids() -> None:
    """An id is an id, also the one that pads: positions are never counted from ids."""
    block, positions = embedding(), torch.tensor([[7, 2, 9]])
    for ids in ([0, 0, 0], [4, 0, 2]):
        found = block(torch.tensor([ids]), positions)
        assert torch.equal(found, 4.0 * block.token.weight[ids][None] + sinusoids(positions, 16).float())


def test_one_row_of_positions_serves_all() -> None:
    block, ids = embedding(), torch.tensor([[1, 2], [3, 4]])
    assert torch.equal(block(ids, torch.tensor([[0, 1]])), block(ids, torch.tensor([[0, 1], [0, 1]])))


def test_dropout_is_on_the_sum() -> None:
    """Section 5.4: a number that is dropped is zero, its position's part too."""
    block = embedding(0.5).train()
    torch.manual_seed(1)
    found = block(torch.tensor([[1, 2, 3]]), torch.tensor([[0, 1, 2]]))
    assert 8 < int((found == 0).sum()) < 40
