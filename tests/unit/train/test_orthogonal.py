"""Muon against singular value decompositions: which matrices, which blocks, how far they move."""

import pytest
import torch
from torch import nn

from dragoman.config import TrainConfig
from dragoman.model.build import named_weights
from dragoman.model.families import EncoderDecoder
from dragoman.train.optimizer import build_optimizer, update
from dragoman.train.orthogonal import MARGIN, MOMENTUM, POLYNOMIALS, SIZE, block_shapes, move, orthogonalize
from toys import toy_model

RATE = 0.1


def by_svd(matrix: torch.Tensor) -> torch.Tensor:
    """The polynomials on the singular values themselves."""
    u, s, v = torch.linalg.svd(matrix, full_matrices=False)
    s = s / (MARGIN * torch.linalg.vector_norm(s))
    for a, b, c in POLYNOMIALS:
        s = a * s + b * s**3 + c * s**5
    return u @ torch.diag(s) @ v


@pytest.mark.parametrize("shape", [(8, 8), (4, 12), (12, 4), (1, 5)])
def test_singular_vectors_stay_and_values_come_near_one(shape: tuple[int, int]) -> None:
    draws = torch.Generator().manual_seed(1)
    blocks = torch.randn(3, *shape, generator=draws, dtype=torch.float64)
    found = orthogonalize(blocks)
    for one, its in zip(blocks, found, strict=True):
        assert torch.allclose(its, by_svd(one), atol=1e-10)
        assert all(0.1 < float(value) < 1.9 for value in torch.linalg.svdvals(its))


def test_the_size_of_a_gradient_does_not_matter_and_nothing_stays_nothing() -> None:
    block = torch.randn(1, 6, 4, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    assert torch.allclose(orthogonalize(block), orthogonalize(1e-4 * block), atol=1e-6)
    assert not orthogonalize(torch.zeros(2, 3, 4)).any()


def test_each_head_is_a_matrix_of_its_own() -> None:
    """Rows of what it reads by, columns of what it writes with."""
    model: EncoderDecoder = toy_model()
    attention = model.decoder.layers[0].cross_attention
    d_model, width = attention.output.weight.shape[0], attention.output.weight.shape[0] // attention.num_heads
    blocks = block_shapes(model)
    assert [blocks[each.weight] for each in (attention.query, attention.key_value, attention.output)] == [
        (width, d_model),
        (width, d_model),
        (d_model, width),
    ]
    draws = torch.Generator().manual_seed(3)
    for linear, dim in ((attention.key_value, 0), (attention.output, 1)):
        weight = linear.weight
        before, weight.grad = weight.detach().clone(), torch.randn(weight.shape, generator=draws, dtype=weight.dtype)
        move(weight, torch.zeros_like(weight), blocks[weight], RATE, 0.0)
        moved = (before - weight.detach()) / (RATE * SIZE * d_model**0.5)
        for part, gradient in zip(moved.split(width, dim), weight.grad.split(width, dim), strict=True):
            assert torch.allclose(part, by_svd(gradient), atol=1e-10)


def test_two_updates_by_hand() -> None:
    """Nesterov momentum, then the directions; decay is apart from the gradient."""
    weight = nn.Parameter(torch.randn(4, 6, generator=torch.Generator().manual_seed(4), dtype=torch.float64))
    expected, momentum, kept = weight.detach().clone(), torch.zeros(4, 6).double(), torch.zeros(4, 6).double()
    for seed in (5, 6):
        gradient = torch.randn(4, 6, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        weight.grad = gradient.clone()
        move(weight, kept, (4, 6), RATE, 0.5)
        momentum = MOMENTUM * momentum + (1 - MOMENTUM) * gradient
        ahead = MOMENTUM * momentum + (1 - MOMENTUM) * gradient
        expected = (1 - RATE * 0.5) * expected - RATE * SIZE * 6**0.5 * by_svd(ahead)
        assert torch.allclose(weight.detach(), expected, atol=1e-10)


@pytest.mark.parametrize("activation", ["relu", "swiglu"])
def test_all_matrices_between_embeddings_and_nothing_else(activation: str) -> None:
    model = toy_model(activation=activation)
    names = {name for name, weight in model.named_parameters() if weight in block_shapes(model)}
    linear = {f"{name}.weight" for name, module in model.named_modules() if isinstance(module, nn.Linear)}
    assert names == {name for name in linear if name.startswith(("encoder.", "decoder."))}
    optimizer = build_optimizer(model, TrainConfig(optimizer="muon", weight_decay=0.1))
    assert sum(len(group["params"]) for group in optimizer.param_groups) == len(named_weights(model))
    before = {name: tensor.clone() for name, tensor in named_weights(model).items()}
    update(optimizer, RATE)
    assert all(torch.equal(tensor, before[name]) for name, tensor in named_weights(model).items()), "without gradients"
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    update(optimizer, RATE)
    assert all(not torch.equal(tensor, before[name]) for name, tensor in named_weights(model).items())
