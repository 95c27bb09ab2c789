"""How good the model is so far: the loss over validation pairs."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import torch
from msgspec.structs import replace

from dragoman.config import Config
from dragoman.data.batch import Batch, collate
from dragoman.engine.loading import sizes_of, source_limit
from dragoman.engine.native_backend import NativeBackend
from dragoman.engine.native_loading import to_backend
from dragoman.engine.packing import pack
from dragoman.engine.torch_backend import TorchBackend
from dragoman.engine.translator import Translator
from dragoman.errors import EngineError
from dragoman.loss import token_loss
from dragoman.model.build import named_weights
from dragoman.model.families import EncoderDecoder
from dragoman.text.tokenizer import Tokenizer

BATCH, BATCH_TOKENS = 64, 4096
"""Most pairs, and most padded target pieces, that are looked at together."""

EXAMPLES = 3
"""Translations of the first pairs that the journal keeps of every look, so that one can see them grow."""


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


def translator(model: EncoderDecoder, src: Tokenizer, tgt: Tokenizer, config: Config) -> Translator:
    """Greedy, for speed; else the same path as `dragoman translate`."""
    greedy = replace(config.search, beam_size=1, n_best=1, sample=False)
    return Translator(src, tgt, _backend(model, src, tgt, config), greedy, source_limit(config))


def _backend(model: EncoderDecoder, src: Tokenizer, tgt: Tokenizer, config: Config) -> NativeBackend | TorchBackend:
    """The CPU engine in float32, several times as fast as PyTorch, where it is wanted and to be had."""
    if config.train.backend != "torch":
        weights = {name: tensor.numpy() for name, tensor in named_weights(model).items()}
        with suppress(EngineError):
            arrays = pack(weights, config.model, tgt.vocab_size)
            return to_backend(arrays, sizes_of(config, src, tgt), torch.get_num_threads())
    return TorchBackend(model, len(tgt.vocab))


def _batches(pairs: ValidationSet, src: Tokenizer, tgt: Tokenizer, max_length: int) -> Iterator[Batch]:
    encoded = zip(src.encode_batch(list(pairs.sources)), tgt.encode_batch(list(pairs.references)), strict=True)
    fitting = sorted((pair for pair in encoded if max(map(len, pair)) <= max_length), key=lambda pair: len(pair[1]))
    while fitting:
        size = min(BATCH, len(fitting))
        while size > 1 and size * (len(fitting[size - 1][1]) + 1) > BATCH_TOKENS:
            size -= 1
        yield collate(fitting[:size])
        fitting = fitting[size:]
