"""The families of models over the shared stacks. So far one: the paper's own, encoder and decoder (figure 1)."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from dragoman.model.cache import DecoderCache
from dragoman.model.embedding import InputEmbedding
from dragoman.model.stacks import Decoder, Encoder


class EncoderDecoder(nn.Module):
    """A sentence in, the logits of its translation out.

    The softmax of section 3.4 is left to the loss and to the search, so that the numbers stay exact.
    """

    def __init__(
        self,
        src_embedding: InputEmbedding,
        tgt_embedding: InputEmbedding,
        encoder: Encoder,
        decoder: Decoder,
        output: nn.Linear,
    ) -> None:
        super().__init__()
        self.src_embedding = src_embedding
        self.tgt_embedding = tgt_embedding
        self.encoder = encoder
        self.decoder = decoder
        self.output = output

    def forward(
        self,
        src: Int[Tensor, "batch src_len"],
        src_mask: Bool[Tensor, "batch src_len"] | None,
        tgt: Int[Tensor, "batch tgt_len"],
    ) -> Float[Tensor, "batch tgt_len vocab"]:
        """Logits of the token after each position of ``tgt``.

        Args:
            src: source ids, padded at the end with any id.
            src_mask: True at real tokens; None where all are real.
            tgt: target ids, beginning with BOS, padded at the end with any id.
        """
        positions = torch.arange(tgt.shape[1], device=tgt.device)[None]
        hidden = self.decoder(self.tgt_embedding(tgt, positions), self.encode(src, src_mask), src_mask)
        return self.output(hidden)  # type: ignore[no-any-return]

    def encode(
        self, src: Int[Tensor, "batch src_len"], src_mask: Bool[Tensor, "batch src_len"] | None
    ) -> Float[Tensor, "batch src_len d_model"]:
        """The encoder's output, ``memory``."""
        positions = torch.arange(src.shape[1], device=src.device)[None]
        return self.encoder(self.src_embedding(src, positions), src_mask)  # type: ignore[no-any-return]

    def start(
        self, memory: Float[Tensor, "sentences src_len d_model"], src_mask: Bool[Tensor, "sentences src_len"]
    ) -> DecoderCache:
        """A cache in which nothing has been written yet, one row a sentence."""
        return self.decoder.start(memory, src_mask)

    def step(
        self, ids: Int[Tensor, "rows q_len"], cache: DecoderCache
    ) -> tuple[Float[Tensor, "rows q_len vocab"], DecoderCache]:
        """Logits after each of the next ``q_len`` tokens of every row (mostly one), and the cache that knows them."""
        hidden, cache = self.decoder.step(self.tgt_embedding(ids, cache.positions(ids.shape[1])), cache)
        return self.output(hidden), cache
