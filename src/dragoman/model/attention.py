"""Attention: every query gets a weighted mean of the values (sections 3.2.1 and 3.2.2)."""

import math
from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from dragoman.model import masks

Queries = Float[Tensor, "batch heads q_len head_dim"]
Keys = Float[Tensor, "batch heads k_len head_dim"]
Weights = Float[Tensor, "batch heads q_len k_len"]
Mask = Bool[Tensor, "#batch #heads #q_len k_len"]
Hidden = Float[Tensor, "batch q_len d_model"]

Observer = Callable[[Tensor], Tensor]
"""Sees the weights of an attention and returns those to go on with: the same ones, or others (ablation)."""


def attention_weights(queries: Queries, keys: Keys, mask: Mask | None = None) -> Weights:
    """softmax(Q K^T / sqrt(d_k)), the first factor of equation 1.

    Args:
        mask: True where a query may look. A query that may look at nothing gets zeros, and so do all gradients
            through it.

    Returns:
        Weights that sum to 1 over the keys a query may look at, exactly 0 elsewhere.
    """
    scores = queries @ keys.transpose(-2, -1) / math.sqrt(queries.shape[-1])
    if mask is None:
        return scores.softmax(-1)
    blind = ~mask
    return scores.masked_fill(blind, torch.finfo(scores.dtype).min).softmax(-1).masked_fill(blind, 0.0)


def attend(queries: Queries, keys: Keys, values: Keys, mask: Mask | None = None) -> Queries:
    """Attention(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V (equation 1), step by step."""
    return attention_weights(queries, keys, mask) @ values


def attend_fused(
    queries: Queries, keys: Keys, values: Keys, mask: Mask | None = None, is_causal: bool = False
) -> Queries:
    """The same as :func:`attend` in one kernel of PyTorch that never holds the weights.

    Args:
        is_causal: instead of a mask: each of as many queries as keys looks at its own position and at earlier ones.
            PyTorch's fastest kernels (Dao et al. 2022, "FlashAttention") know this case, and the one without a mask.
    """
    if mask is None:
        return scaled_dot_product_attention(queries, keys, values, is_causal=is_causal)
    sees_nothing = ~mask.any(-1, keepdim=True)
    mixed = scaled_dot_product_attention(queries, keys, values, attn_mask=mask | sees_nothing)
    return mixed.masked_fill(sees_nothing, 0.0)


class MultiHeadAttention(nn.Module):
    """MultiHead(Q, K, V) = Concat(head_1, ..., head_h) W^O (section 3.2.2).

    Here head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V). One class for the three uses of section 3.2.3: *self* (memory
    is x), *causal* (the same under a causal mask) and *cross* (memory is the encoder's output); only the caller knows
    which. The h matrices W_i^Q stand side by side in ``query``, those of keys and values in ``key_value``. As in
    PyTorch's ``nn.MultiheadAttention``, and unlike the paper, the projections have biases.
    """

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.query = nn.Linear(d_model, d_model)
        self.key_value = nn.Linear(d_model, 2 * d_model)
        self.output = nn.Linear(d_model, d_model)
        self.observer: Observer | None = None

    def project(self, memory: Float[Tensor, "batch k_len d_model"]) -> tuple[Keys, Keys]:
        """Keys and values of ``memory``: what may be computed once and kept."""
        keys, values = self._heads(self.key_value(memory), 2 * self.num_heads).chunk(2, dim=1)
        return keys, values

    def attend(self, x: Hidden, keys: Keys, values: Keys, mask: Mask | None, is_causal: bool = False) -> Hidden:
        """What the positions of ``x`` gather from projected keys and values."""
        queries = self._heads(self.query(x), self.num_heads)
        if self.observer is None:
            mixed = attend_fused(queries, keys, values, mask, is_causal)
        else:
            if is_causal:
                mask = masks.causal(queries.shape[2], keys.shape[2], x.device)[None, None]
            mixed = self.observer(attention_weights(queries, keys, mask)) @ values
        return self.output(mixed.transpose(1, 2).flatten(2))  # type: ignore[no-any-return]

    def forward(
        self, x: Hidden, memory: Float[Tensor, "batch k_len d_model"], mask: Mask | None, is_causal: bool = False
    ) -> Hidden:
        """Project and attend; ``is_causal`` as in :func:`attend_fused`."""
        return self.attend(x, *self.project(memory), mask, is_causal)

    def _heads(self, projected: Tensor, heads: int) -> Tensor:
        return torch.unflatten(projected, -1, (heads, -1)).transpose(1, 2)
