"""Dropout (Srivastava et al. 2014) that draws its mask four numbers at a time."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

LEVELS = 2**16
"""The probability is rounded to a multiple of 1 / LEVELS, and the scale follows the rounded one."""


class Dropout(nn.Module):
    """While training, each number is 0 with probability ``rate``, else divided by (1 - rate).

    PyTorch's own draws one random number for each element, which on a CPU is a tenth of a small model's step; here one
    64-bit number decides four elements. The generator is PyTorch's default one: ``torch.manual_seed`` decides the mask.
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.dropped = min(round(rate * LEVELS), LEVELS - 1)

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """``x`` in evaluation mode."""
        if not self.training or self.dropped == 0:
            return x
        words = torch.empty((x.numel() + 3) // 4, dtype=torch.int64, device=x.device).random_(-(2**63), None)
        kept = words.view(torch.int16)[: x.numel()].view(x.shape) >= self.dropped - LEVELS // 2
        return x * (kept.to(x.dtype) * (LEVELS / (LEVELS - self.dropped)))
