"""From ids to vectors: token embedding, scaled, plus position (sections 3.4 and 3.5)."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from dragoman.model.dropout import Dropout


class TokenEmbedding(nn.Module):
    """A learned vector for each id, multiplied by sqrt(d_model) (section 3.4).

    The matrix may be the same object as another embedding's and as the output layer's.
    """

    def __init__(self, vocab_size: int, d_model: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocab_size, d_model))

    def forward(self, ids: Int[Tensor, "*at"]) -> Float[Tensor, "*at d_model"]:
        """The scaled vectors of ``ids``."""
        return nn.functional.embedding(ids, self.weight) * math.sqrt(self.weight.shape[1])


class InputEmbedding(nn.Module):
    """Token plus position, then dropout (section 5.4)."""

    def __init__(self, token: TokenEmbedding, position: nn.Module, dropout: float) -> None:
        super().__init__()
        self.token = token
        self.position = position
        self.dropout = Dropout(dropout)

    def forward(
        self, ids: Int[Tensor, "batch len"], positions: Int[Tensor, "#batch len"]
    ) -> Float[Tensor, "batch len d_model"]:
        """What enters the first layer. Positions are given by the caller: they never depend on which ids there are."""
        return self.dropout(self.token(ids) + self.position(positions))  # type: ignore[no-any-return]
