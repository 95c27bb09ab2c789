"""A batch: id sequences of different lengths as rectangular tensors and masks."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from dragoman.text.tokenizer import BOS, EOS, PAD


@dataclass(frozen=True)
class Batch:
    """What one training step looks at. The decoder reads ``tgt_in`` and must say ``tgt_out``: the same, one step on."""

    src: Int[Tensor, "batch src_len"]
    "source ids, EOS, padding"
    src_mask: Bool[Tensor, "batch src_len"]
    "True at source ids and EOS"
    tgt_in: Int[Tensor, "batch tgt_len"]
    "BOS, target ids; EOS and padding behind them, where nothing real looks"
    tgt_out: Int[Tensor, "batch tgt_len"]
    "target ids, EOS, padding"
    tgt_mask: Bool[Tensor, "batch tgt_len"]
    "True at target ids and EOS in ``tgt_out``"

    @property
    def tgt_tokens(self) -> int:
        """Real target tokens, EOS included: what the loss is a sum over."""
        return int(self.tgt_mask.sum())

    @property
    def tokens(self) -> int:
        """Real source and target tokens."""
        return int(self.src_mask.sum()) + self.tgt_tokens

    def to(self, device: torch.device) -> "Batch":
        """The same on another device, for the model that lies there."""
        return Batch(*(ids.to(device) for ids in (self.src, self.src_mask, self.tgt_in, self.tgt_out, self.tgt_mask)))


def collate(pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> Batch:
    """Put pairs of source and target ids (without BOS and EOS) side by side."""
    src, src_mask = pad([[*src, EOS] for src, _ in pairs])
    tgt, tgt_mask = pad([[BOS, *tgt, EOS] for _, tgt in pairs])
    return Batch(src, src_mask, tgt[:, :-1], tgt[:, 1:], tgt_mask[:, 1:])


def pad(rows: Sequence[Sequence[int]]) -> tuple[Int[Tensor, "batch len"], Bool[Tensor, "batch len"]]:
    """Rows of ids as one tensor, short ones filled with PAD at the end, and where the real ids are."""
    longest = max(map(len, rows), default=0)
    ids = torch.tensor([[*row, *[PAD] * (longest - len(row))] for row in rows], dtype=torch.int64)
    lengths = torch.tensor([len(row) for row in rows])
    return ids.view(len(rows), longest), torch.arange(longest) < lengths[:, None]
