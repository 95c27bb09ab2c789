"""How good the model is so far: the loss over validation pairs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from dragoman.data.batch import Batch, collate
from dragoman.loss import token_loss
from dragoman.model.families import EncoderDecoder
from dragoman.text.tokenizer import Tokenizer

BATCH, BATCH_TOKENS = 64, 4096
"""Most pairs, and most padded target pieces, that are looked at together."""


@dataclass(frozen=True)
class ValidationSet:
    """Pairs that are never trained on."""

    sources: Sequence[str]
    references: Sequence[str]
    target_language: str


def mean_loss(model: EncoderDecoder, pairs: ValidationSet, src: Tokenizer, tgt: Tokenizer, max_length: int) -> float:
    """Cross-entropy without smoothing, in nats a target token; pairs with a longer side are left out."""
    loss, tokens = 0.0, 0
    with torch.inference_mode():
        for batch in _batches(pairs, src, tgt, max_length):
            loss += float(token_loss(model(batch.src, batch.src_mask, batch.tgt_in), batch.tgt_out, batch.tgt_mask))
            tokens += batch.tgt_tokens
    return loss / tokens if tokens else float("nan")


def _batches(pairs: ValidationSet, src: Tokenizer, tgt: Tokenizer, max_length: int) -> Iterator[Batch]:
    encoded = zip(src.encode_batch(list(pairs.sources)), tgt.encode_batch(list(pairs.references)), strict=True)
    fitting = sorted((pair for pair in encoded if max(map(len, pair)) <= max_length), key=lambda pair: len(pair[1]))
    while fitting:
        size = min(BATCH, len(fitting))
        while size > 1 and size * (len(fitting[size - 1][1]) + 1) > BATCH_TOKENS:
            size -= 1
        yield collate(fitting[:size])
        fitting = fitting[size:]
