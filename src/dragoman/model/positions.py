"""Where a token stands: sinusoids of any length, or a learned table (section 3.5)."""

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from dragoman.errors import RequestError

TABLE_ROWS = 1024
"""Rows of sinusoids computed once; later positions are computed when they are met."""


def sinusoids(positions: Int[Tensor, "*at"], d_model: int, layout: str = "sinusoidal") -> Float[Tensor, "*at d_model"]:
    """PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), PE(pos, 2i+1) = cos(pos / 10000^(2i/d_model)) (section 3.5).

    The literature has three layouts of the same idea, and weights trained with one are wrong under another:

    - ``sinusoidal``: the paper's; sine and cosine alternate.
    - ``sinusoidal_half``: the same numbers, all sines before all cosines (Marian, Hugging Face).
    - ``sinusoidal_half_inclusive``: halves whose exponents run to exactly 1, that is i / (d_model/2 - 1)
      (tensor2tensor, fairseq).

    An odd ``d_model`` ends with a sine (in halves: has one sine more; the inclusive layout ends with a zero).

    Args:
        positions: whole numbers >= 0, any shape.

    Returns:
        float64; computed exactly also where float32 could not tell neighbouring positions apart.
    """
    half = d_model // 2 if layout == "sinusoidal_half_inclusive" else (d_model + 1) // 2
    index = torch.arange(half, dtype=torch.float64, device=positions.device)
    exponents = index / max(half - 1, 1) if layout == "sinusoidal_half_inclusive" else 2 * index / d_model
    angles = positions.double()[..., None] / 10000**exponents
    if layout == "sinusoidal":
        return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)[..., :d_model]
    return nn.functional.pad(torch.cat([angles.sin(), angles.cos()], dim=-1), (0, 1))[..., :d_model]


class SinusoidalPositions(nn.Module):
    """Fixed positions of any length; nothing to learn, nothing to store in a file."""

    table: Tensor

    def __init__(self, d_model: int, layout: str) -> None:
        super().__init__()
        self.d_model = d_model
        self.layout = layout
        table = sinusoids(torch.arange(TABLE_ROWS), d_model, layout).to(torch.get_default_dtype())
        self.register_buffer("table", table, persistent=False)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "SinusoidalPositions":
        """Compute the table anew for another precision; a converted float32 would stay float32 in its errors."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        rows = torch.arange(TABLE_ROWS, device=self.table.device)
        self.table = sinusoids(rows, self.d_model, self.layout).to(self.table.dtype)
        return self

    def forward(self, positions: Int[Tensor, "*at"]) -> Float[Tensor, "*at d_model"]:
        """The vectors of ``positions``, in the table's precision."""
        table = self.table
        if positions.numel() == 0 or int(positions.max()) < TABLE_ROWS:
            return table[positions]
        return sinusoids(positions, self.d_model, self.layout).to(table.dtype)


class LearnedPositions(nn.Module):
    """A table with a row a position, trained with the rest; the paper's row (E) of table 3."""

    def __init__(self, d_model: int, max_positions: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(max_positions, d_model))

    def forward(self, positions: Int[Tensor, "*at"]) -> Float[Tensor, "*at d_model"]:
        """The rows of ``positions``.

        Raises:
            RequestError: a position is beyond the table; shorten the text or train with more ``model.max_positions``.
        """
        rows = self.weight.shape[0]
        if positions.numel() and int(positions.max()) >= rows:
            raise RequestError(
                f"position {int(positions.max())} is beyond the {rows} learned positions of this model;"
                " shorten the text"
            )
        return nn.functional.embedding(positions, self.weight)
