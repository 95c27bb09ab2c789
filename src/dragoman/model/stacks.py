"""The encoder and the decoder: N layers each (section 3.1)."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from dragoman.model import masks
from dragoman.model.cache import DecoderCache
from dragoman.model.layers import DecoderLayer, EncoderLayer

Hidden = Float[Tensor, "batch q_len d_model"]


class Encoder(nn.Module):
    """N encoder layers; ``norm`` closes a pre-norm stack and is the identity in a post-norm one."""

    def __init__(self, layers: list[EncoderLayer], norm: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.norm = norm

    def forward(self, x: Hidden, mask: Bool[Tensor, "batch q_len"] | None) -> Hidden:
        """``mask``: True at real tokens; None where all are real."""
        keys = None if mask is None else mask[:, None, None, :]
        for layer in self.layers:
            x = layer(x, keys)
        return self.norm(x)  # type: ignore[no-any-return]


class Decoder(nn.Module):
    """N decoder layers; ``norm`` as in :class:`Encoder`."""

    def __init__(self, layers: list[DecoderLayer], norm: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.norm = norm

    def forward(
        self,
        x: Hidden,
        memory: Float[Tensor, "batch src_len d_model"],
        memory_mask: Bool[Tensor, "batch src_len"] | None,
    ) -> Hidden:
        """All positions at once under a causal mask.

        Padding at the end of a row needs no mask of its own: no real position looks at what comes after it.
        """
        keys = None if memory_mask is None else memory_mask[:, None, None, :]
        for layer in self.layers:
            x = layer(x, memory, keys)
        return self.norm(x)  # type: ignore[no-any-return]

    def start(
        self, memory: Float[Tensor, "sentences src_len d_model"], memory_mask: Bool[Tensor, "sentences src_len"]
    ) -> DecoderCache:
        """An empty cache with one row a sentence."""
        count = memory.shape[0]
        layers = tuple(layer.start(memory) for layer in self._layers())
        filled = torch.zeros(count, 0, dtype=torch.bool, device=memory.device)
        return DecoderCache(layers, filled, memory_mask, torch.arange(count, device=memory.device))

    def step(self, x: Hidden, cache: DecoderCache) -> tuple[Hidden, DecoderCache]:
        """The hidden states of the newest positions, and the cache with them in it."""
        rows, q_len = x.shape[:2]
        filled = torch.cat([cache.filled, cache.filled.new_ones(rows, q_len)], dim=1)
        mask = (masks.causal(q_len, filled.shape[1], x.device) & filled[:, None, :])[:, None]
        places = cache.places
        grown = []
        for layer, remembered in zip(self._layers(), cache.layers, strict=True):
            x, remembered = layer.step(x, remembered, mask, places, cache.memory_mask[:, None, None, :])
            grown.append(remembered)
        return self.norm(x), DecoderCache(tuple(grown), filled, cache.memory_mask, cache.sentences)

    def _layers(self) -> list[DecoderLayer]:
        return list(self.layers)  # type: ignore[arg-type]
