"""What a decoder remembers between steps, as a value: stepping and selecting return new caches, none is changed."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import pad


@dataclass(frozen=True)
class LayerCache:
    """One decoder layer's keys and values: of the tokens so far, and of the encoder's output.

    The latter stand once for each sentence, shared by all rows (beams) that translate it.
    """

    keys: Float[Tensor, "rows heads time head_dim"]
    values: Float[Tensor, "rows heads time head_dim"]
    memory_keys: Float[Tensor, "sentences heads src_len head_dim"]
    memory_values: Float[Tensor, "sentences heads src_len head_dim"]


@dataclass(frozen=True)
class DecoderCache:
    """All layers' keys and values.

    Rows may have joined at different times: the tokens of each end at the right edge, and ``filled`` is False at the
    columns before its first one.
    """

    layers: tuple[LayerCache, ...]
    filled: Bool[Tensor, "rows time"]
    memory_mask: Bool[Tensor, "sentences src_len"]
    sentences: Int[Tensor, " rows"]
    "Which sentence each row translates."

    def positions(self, q_len: int) -> Int[Tensor, "rows q_len"]:
        """Positions of the next ``q_len`` tokens of each row."""
        return self.filled.sum(1, keepdim=True) + torch.arange(q_len, device=self.filled.device)

    @property
    def places(self) -> Int[Tensor, " rows"]:
        """For each row a place of its own in a table [beams, sentences] laid flat, in its sentence's column."""
        order = torch.argsort(self.sentences, stable=True)
        counts = torch.bincount(self.sentences, minlength=self.memory_mask.shape[0])
        firsts = (counts.cumsum(0) - counts)[self.sentences[order]]
        ranks = torch.empty_like(order).index_copy(0, order, torch.arange(len(order), device=order.device) - firsts)
        return ranks * self.memory_mask.shape[0] + self.sentences

    def select(self, rows: Int[Tensor, " new_rows"]) -> "DecoderCache":
        """The cache of ``rows``, in that order; a row may be taken several times (beams) or dropped (finished).

        Sentences that no row translates any more and columns that no row uses are dropped too.
        """
        kept, sentences = torch.unique(self.sentences[rows], return_inverse=True)
        filled = self.filled[rows]
        first = int(filled.any(0).int().argmax()) if filled.numel() and bool(filled.any()) else filled.shape[1]
        everyone = len(kept) == self.memory_mask.shape[0]
        layers = tuple(
            LayerCache(
                layer.keys[rows, :, first:],
                layer.values[rows, :, first:],
                layer.memory_keys if everyone else layer.memory_keys[kept],
                layer.memory_values if everyone else layer.memory_values[kept],
            )
            for layer in self.layers
        )
        memory_mask = self.memory_mask if everyone else self.memory_mask[kept]
        return DecoderCache(layers, filled[:, first:], memory_mask, sentences)

    def join(self, other: "DecoderCache") -> "DecoderCache":
        """The rows of this cache, then those of ``other``; the two may be at different steps."""
        time = max(self.filled.shape[1], other.filled.shape[1])
        src_len = max(self.memory_mask.shape[1], other.memory_mask.shape[1])
        layers = tuple(
            LayerCache(
                _stack(mine.keys, theirs.keys, time, at_end=True),
                _stack(mine.values, theirs.values, time, at_end=True),
                _stack(mine.memory_keys, theirs.memory_keys, src_len, at_end=False),
                _stack(mine.memory_values, theirs.memory_values, src_len, at_end=False),
            )
            for mine, theirs in zip(self.layers, other.layers, strict=True)
        )
        filled = torch.cat([pad(mask, (time - mask.shape[1], 0)) for mask in (self.filled, other.filled)])
        memory_masks = (self.memory_mask, other.memory_mask)
        memory_mask = torch.cat([pad(mask, (0, src_len - mask.shape[1])) for mask in memory_masks])
        return DecoderCache(
            layers, filled, memory_mask, torch.cat([self.sentences, other.sentences + self.memory_mask.shape[0]])
        )


def _stack(mine: Tensor, theirs: Tensor, length: int, at_end: bool) -> Tensor:
    """Both blocks of [rows heads length head_dim] under each other, the shorter one padded before or behind."""

    def grown(block: Tensor) -> Tensor:
        missing = length - block.shape[2]
        return pad(block, (0, 0, missing, 0) if at_end else (0, 0, 0, missing))

    return torch.cat([grown(mine), grown(theirs)])
