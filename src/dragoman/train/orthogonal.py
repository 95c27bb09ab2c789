"""Updates in which a matrix moves in all of its directions alike (Muon; Jordan et al. 2024).

Adam weighs each number of a matrix alone. Here the averaged gradient of a matrix, U S V^T, is replaced by about U V^T,
so that its weak directions count as much as the strong ones. What a head reads and writes is a matrix of its own.
Embeddings and vectors stay with Adam.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, distribute_tensor

from dragoman.model.attention import MultiHeadAttention
from dragoman.model.feedforward import FeedForward

Block = tuple[int, int]
"""Rows and columns."""

MOMENTUM = 0.95
"""What the average of the gradients keeps of itself at each update."""

SIZE = 0.12
"""Root mean square of an update at rate 1, so that one rate serves both optimizers; by the loss on validation pairs 0.2
learns a little less, 0.4 far less (docs/log.md)."""

POLYNOMIALS = (
    (8.28721201814563, -23.595886519098837, 17.300387312530933),
    (4.107059111542203, -2.9478499167379106, 0.5448431082926601),
    (3.9486908534822946, -2.908902115962949, 0.5518191394370137),
)
"""a x + b x^3 + c x^5 of each round: the first three of a sequence made for singular values from 0.001 on (Amsel et al.
2025, "The Polar Express"). After three rounds they lie between 0.13 and 1.87; after five between 0.87 and 1.13."""

MARGIN, TINY = 1.01, 1e-12
"""The first rounds may meet no singular value above 1; a gradient of zeros stays one."""


def block_shapes(model: nn.Module) -> Mapping[Tensor, Block]:
    """The matrices that are updated so, and the shape of the blocks they are cut into, rows first, then columns."""
    shapes: dict[Tensor, Block] = {}
    for module in model.modules():
        if isinstance(module, MultiHeadAttention):
            d_model = module.output.weight.shape[0]
            width = d_model // module.num_heads
            shapes |= {module.query.weight: (width, d_model), module.key_value.weight: (width, d_model)}
            shapes[module.output.weight] = (d_model, width)
        elif isinstance(module, FeedForward):
            d_model, d_ff = module.outer.weight.shape
            shapes |= {module.inner.weight: (d_ff, d_model), module.outer.weight: (d_model, d_ff)}
    return shapes


@torch.no_grad()
def move(parameter: Tensor, momentum: Tensor, block: Block, rate: float, decay: float) -> None:
    """Update ``parameter`` and ``momentum`` by ``parameter.grad``; this worker's shares of them, where there are any.

    Args:
        decay: what the matrix loses of itself at rate 1, apart from the gradient.
    """
    gradient: Tensor = parameter.grad  # type: ignore[assignment]
    momentum.lerp_(gradient, 1 - MOMENTUM)
    ahead = momentum.lerp(gradient, 1 - MOMENTUM)  # Nesterov: the average as it will be
    whole = ahead.full_tensor() if isinstance(ahead, DTensor) else ahead
    step = _join(orthogonalize(_cut(whole, block)), block, whole.shape)
    if isinstance(parameter, DTensor):
        step = distribute_tensor(step, parameter.device_mesh, parameter.placements, src_data_rank=None)
    parameter.mul_(1 - rate * decay).sub_(step, alpha=rate * SIZE * max(block) ** 0.5)


def orthogonalize(blocks: Tensor) -> Tensor:
    """About U V^T of each matrix U S V^T in ``blocks`` [number, rows, columns], by products alone."""
    is_tall = blocks.shape[1] > blocks.shape[2]
    x: Tensor = blocks.transpose(1, 2) if is_tall else blocks
    x = x / (MARGIN * torch.linalg.matrix_norm(x, keepdim=True) + TINY)
    for a, b, c in POLYNOMIALS:
        square = x @ x.transpose(1, 2)
        x = a * x + (b * square + c * square @ square) @ x
    return x.transpose(1, 2) if is_tall else x


def _cut(matrix: Tensor, block: Block) -> Tensor:
    rows, columns = (size // each for size, each in zip(matrix.shape, block, strict=True))
    return matrix.reshape(rows, block[0], columns, block[1]).transpose(1, 2).flatten(0, 1)


def _join(blocks: Tensor, block: Block, shape: torch.Size) -> Tensor:
    rows, columns = (size // each for size, each in zip(shape, block, strict=True))
    return blocks.reshape(rows, columns, *block).transpose(1, 2).reshape(shape)
