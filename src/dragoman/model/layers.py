"""Encoder and decoder layers: sub-layers with residual connections around them (section 3.1)."""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from dragoman.model.attention import MultiHeadAttention
from dragoman.model.cache import LayerCache
from dragoman.model.dropout import Dropout
from dragoman.model.feedforward import FeedForward

Hidden = Float[Tensor, "batch q_len d_model"]


class Residual(nn.Module):
    """LayerNorm(x + Dropout(Sublayer(x))) (sections 3.1 and 5.4), called post-norm.

    With ``norm_first`` x + Dropout(Sublayer(LayerNorm(x))), pre-norm: easier to train when deep, and what the paper's
    own later code does; the stack then ends with one more norm.
    """

    def __init__(self, d_model: int, dropout: float, norm_first: bool) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(d_model)
        self.dropout = Dropout(dropout)
        self.norm_first = norm_first

    def forward(self, x: Hidden, sublayer: Callable[[Tensor], Tensor]) -> Hidden:
        """``sublayer`` with its residual connection, dropout and norm."""
        if self.norm_first:
            return x + self.dropout(sublayer(self.norm(x)))  # type: ignore[no-any-return]
        return self.norm(x + self.dropout(sublayer(x)))  # type: ignore[no-any-return]


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward (figure 1, left)."""

    def __init__(
        self, d_model: int, num_heads: int, d_ff: int, dropout: float, norm_first: bool, activation: str
    ) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(d_model, num_heads)
        self.self_attention_residual = Residual(d_model, dropout, norm_first)
        self.feed_forward = FeedForward(d_model, d_ff, activation)
        self.feed_forward_residual = Residual(d_model, dropout, norm_first)

    def forward(self, x: Hidden, mask: Bool[Tensor, "#batch 1 #q_len q_len"] | None) -> Hidden:
        """``mask``: where each position may look."""
        x = self.self_attention_residual(x, lambda x: self.self_attention(x, x, mask))
        return self.feed_forward_residual(x, self.feed_forward)  # type: ignore[no-any-return]


class DecoderLayer(nn.Module):
    """Causal self-attention, attention to the encoder's output, feed-forward (figure 1, right)."""

    def __init__(
        self, d_model: int, num_heads: int, d_ff: int, dropout: float, norm_first: bool, activation: str
    ) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(d_model, num_heads)
        self.self_attention_residual = Residual(d_model, dropout, norm_first)
        self.cross_attention = MultiHeadAttention(d_model, num_heads)
        self.cross_attention_residual = Residual(d_model, dropout, norm_first)
        self.feed_forward = FeedForward(d_model, d_ff, activation)
        self.feed_forward_residual = Residual(d_model, dropout, norm_first)

    def forward(
        self,
        x: Hidden,
        memory: Float[Tensor, "batch src_len d_model"],
        memory_mask: Bool[Tensor, "#batch 1 1 src_len"] | None,
    ) -> Hidden:
        """All positions at once, as in training."""
        x = self.self_attention_residual(x, lambda x: self.self_attention(x, x, None, is_causal=True))
        x = self.cross_attention_residual(x, lambda x: self.cross_attention(x, memory, memory_mask))
        return self.feed_forward_residual(x, self.feed_forward)  # type: ignore[no-any-return]

    def start(self, memory: Float[Tensor, "sentences src_len d_model"]) -> LayerCache:
        """What this layer will need of ``memory`` at every step, and room for no token yet."""
        keys, values = self.cross_attention.project(memory)
        nothing = keys[:, :, :0]
        return LayerCache(nothing, nothing, keys, values)

    def step(
        self,
        x: Hidden,
        cache: LayerCache,
        mask: Bool[Tensor, "batch 1 q_len k_len"],
        places: Int[Tensor, " batch"],
        memory_mask: Bool[Tensor, "sentences 1 1 src_len"],
    ) -> tuple[Hidden, LayerCache]:
        """Only the newest positions; the same numbers as :meth:`forward` over the whole prefix.

        Args:
            places: where each row stands among all rows, see :attr:`DecoderCache.places`.
        """
        grown = cache

        def look_back(x: Tensor) -> Tensor:
            nonlocal grown
            keys, values = self.self_attention.project(x)
            keys, values = torch.cat([cache.keys, keys], dim=2), torch.cat([cache.values, values], dim=2)
            grown = LayerCache(keys, values, cache.memory_keys, cache.memory_values)
            return self.self_attention.attend(x, keys, values, mask)

        x = self.self_attention_residual(x, look_back)
        x = self.cross_attention_residual(x, lambda x: self._look_across(x, cache, places, memory_mask))
        return self.feed_forward_residual(x, self.feed_forward), grown

    def _look_across(self, x: Tensor, cache: LayerCache, places: Tensor, memory_mask: Tensor) -> Tensor:
        """Rows of one sentence attend together, so that its keys and values are read once, not once a row."""
        count, (_, q_len, d_model) = memory_mask.shape[0], x.shape
        beams = int(places.max()) // count + 1 if len(places) else 0
        table = x.new_zeros(beams * count, q_len, d_model).index_copy(0, places, x)
        asked = table.view(beams, count, q_len, d_model).transpose(0, 1).flatten(1, 2)
        mixed = self.cross_attention.attend(asked, cache.memory_keys, cache.memory_values, memory_mask)
        return mixed.view(count, beams, q_len, d_model).transpose(0, 1).flatten(0, 1)[places]
