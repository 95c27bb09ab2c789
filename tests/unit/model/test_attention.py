"""Attention by hand, and the heads of multi-head attention."""

import math

import pytest
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from dragoman.data.batch import collate
from dragoman.model.attention import MultiHeadAttention, attend, attend_fused, attention_weights
from dragoman.model.masks import causal
from dragoman.train.step import backpropagate
from toys import toy_model


def test_weights_by_hand() -> None:
    """Scores ln 1, ln 2, ln 5 after scaling by sqrt(4) give 1/8, 2/8, 5/8; without the last 1/3, 2/3."""
    queries = torch.tensor([[[[2.0, 0, 0, 0]]]])
    keys = torch.tensor([[[[math.log(1), 1, 1, 1], [math.log(2), 7, 7, 7], [math.log(5), 0, 0, 0]]]])
    assert attention_weights(queries, keys)[0, 0, 0].tolist() == pytest.approx([1 / 8, 2 / 8, 5 / 8])
    mask = torch.tensor([[[[True, True, False]]]])
    assert attention_weights(queries, keys, mask)[0, 0, 0].tolist() == pytest.approx([1 / 3, 2 / 3, 0])


@pytest.mark.parametrize("way", [attend, attend_fused])
def test_huge_scores(way: object) -> None:
    queries = torch.tensor([[[[1e4, 0.0], [-1e4, 0.0]]]])
    mixed = way(queries, queries, torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]]), None)  # type: ignore[operator]
    assert mixed[0, 0].tolist() == [[1.0, 2.0], [3.0, 4.0]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("way", [attend, attend_fused])
def test_lower_precision(way: object, dtype: torch.dtype) -> None:
    """Half precision, too, gives zeros to the blind, weights nothing that is hidden, and stays near."""
    generator = torch.Generator().manual_seed(1)
    inputs = [torch.randn(2, 3, 5, 4, generator=generator) for _ in range(3)]
    mask = causal(5, 5) & torch.tensor([False, True, True, True, True])
    found = way(*(tensor.to(dtype) for tensor in inputs), mask[None, None])  # type: ignore[operator]
    assert found.dtype == dtype
    assert (found[:, :, 0] == 0).all()
    assert (found.float() - attend(*inputs, mask[None, None])).abs().max() < 0.05


def test_causal_without_a_mask() -> None:
    generator = torch.Generator().manual_seed(1)
    inputs = [torch.randn(2, 3, 5, 4, generator=generator, dtype=torch.float64) for _ in range(3)]
    found = attend_fused(*inputs, is_causal=True)
    assert torch.allclose(found, attend(*inputs, causal(5, 5)[None, None]), atol=1e-12)


def test_whole_sentences_need_no_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    """Masks would keep PyTorch from its fastest kernels."""
    asked: list[tuple[bool, bool]] = []

    def watched(*tensors: Tensor, attn_mask: Tensor | None = None, is_causal: bool = False) -> Tensor:
        asked.append((attn_mask is not None, is_causal))
        return scaled_dot_product_attention(*tensors, attn_mask=attn_mask, is_causal=is_causal)

    monkeypatch.setattr("dragoman.model.attention.scaled_dot_product_attention", watched)
    model = toy_model()
    below, above = len(model.encoder.layers), len(model.decoder.layers)
    for padded in (False, True):
        asked.clear()
        pairs = [([3, 4], [5]), ([6] if padded else [6, 7], [8, 9, 10])]
        backpropagate(model, [collate(pairs)], 0.1, 0.0, "float32")
        to_source = (padded, False)
        assert asked == [to_source] * below + [(False, True), to_source] * above


def test_heads_are_slices_of_the_projections() -> None:
    """With projections that copy, head h attends within its own slice of the vectors, for itself."""
    attention = MultiHeadAttention(4, 2).double()
    with torch.no_grad():
        attention.query.weight.copy_(torch.eye(4))
        attention.key_value.weight.copy_(torch.cat([torch.eye(4), torch.eye(4)]))
        attention.output.weight.copy_(torch.eye(4))
        for linear in (attention.query, attention.key_value, attention.output):
            linear.bias.zero_()
    x = torch.randn(1, 3, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    halves = [attend(half, half, half)[0, 0] for half in (x[:, None, :, :2], x[:, None, :, 2:])]
    assert (attention(x, x, None)[0] - torch.cat(halves, dim=-1)).abs().max() < 1e-12


def test_project_then_attend_is_forward() -> None:
    attention = MultiHeadAttention(6, 3)
    generator = torch.Generator().manual_seed(1)
    x, memory = torch.randn(2, 4, 6, generator=generator), torch.randn(2, 5, 6, generator=generator)
    keys, values = attention.project(memory)
    assert keys.shape == values.shape == (2, 3, 5, 2)
    assert torch.equal(attention.attend(x, keys, values, None), attention(x, memory, None))
