"""How good the model is so far: the loss over validation pairs, and their translations."""

import math
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
from dragoman.errors import EngineError, is_shortage
from dragoman.evaluate.metrics import corpus_scores
from dragoman.loss import token_loss
from dragoman.model.build import named_weights
from dragoman.model.families import EncoderDecoder
from dragoman.text.tokenizer import Tokenizer

BATCH, LOGITS = 64, 2**21
"""Most pairs, and about the most logits, that there are at once: a training keeps the memory that it ever had."""

SHARES = 1, 8, BATCH
"""What both are divided by, one after the other, while there is not enough memory."""

EXAMPLES = 3
"""Translations of the first pairs that the journal keeps of every look, so that one can see them grow."""


@dataclass(frozen=True)
class ValidationSet:
    """Pairs that are never trained on."""

    sources: Sequence[str]
    references: Sequence[str]
    target_language: str


@dataclass(frozen=True)
class Look:
    """One look at the validation pairs."""

    loss: float
    "See :func:`mean_loss`."
    translations: list[str]
    "Greedy; empty ones where the loss is not finite."
    bleu: float
    chrf: float


def look(
    model: EncoderDecoder, pairs: ValidationSet, src: Tokenizer, tgt: Tokenizer, config: Config, max_length: int
) -> Look:
    """Loss, a translation of each pair, and their scores; with fewer pairs at once while there is not enough memory.

    Raises:
        MemoryError: there is not enough for a single pair.
    """
    for share in SHARES:
        try:
            loss = mean_loss(model, pairs, src, tgt, max_length, share)
            translations = [""] * len(pairs.sources)
            if math.isfinite(loss):
                translations = _translations(translator(model, src, tgt, config), pairs.sources, share)
            return Look(loss, translations, *corpus_scores(translations, pairs.references, pairs.target_language))
        except Exception as error:
            if not is_shortage(error):
                raise
    raise MemoryError("out of memory")


def mean_loss(
    model: EncoderDecoder, pairs: ValidationSet, src: Tokenizer, tgt: Tokenizer, max_length: int, share: int = 1
) -> float:
    """Cross-entropy without smoothing, in nats a target token; pairs with a longer side are left out.

    Args:
        share: the usual number of pairs divided by this is looked at together.
    """
    loss, tokens = 0.0, 0
    with torch.inference_mode():
        for batch in _batches(pairs, src, tgt, max_length, share):
            loss += float(token_loss(model(batch.src, batch.src_mask, batch.tgt_in), batch.tgt_out, batch.tgt_mask))
            tokens += batch.tgt_tokens
    return loss / tokens if tokens else float("nan")


def translator(model: EncoderDecoder, src: Tokenizer, tgt: Tokenizer, config: Config) -> Translator:
    """Greedy, for speed; else the same path as `dragoman translate`."""
    greedy = replace(config.search, beam_size=1, n_best=1, sample=False)
    return Translator(src, tgt, _backend(model, src, tgt, config), greedy, source_limit(config))


def _translations(translator: Translator, sources: Sequence[str], share: int) -> list[str]:
    """All at once, so that those of one length are translated together, or few after few."""
    size = max(BATCH // share if share > 1 else len(sources), 1)
    few = [list(sources[start : start + size]) for start in range(0, len(sources), size)]
    return [text for some in few for text in translator.translate(some)]


def _backend(model: EncoderDecoder, src: Tokenizer, tgt: Tokenizer, config: Config) -> NativeBackend | TorchBackend:
    """The CPU engine in float32, several times as fast as PyTorch, where it is wanted and to be had."""
    if config.train.backend != "torch":
        weights = {name: tensor.numpy() for name, tensor in named_weights(model).items()}
        with suppress(EngineError):
            arrays = pack(weights, config.model, tgt.vocab_size)
            return to_backend(arrays, sizes_of(config, src, tgt), torch.get_num_threads())
    return TorchBackend(model, len(tgt.vocab))


def _batches(pairs: ValidationSet, src: Tokenizer, tgt: Tokenizer, max_length: int, share: int) -> Iterator[Batch]:
    encoded = zip(src.encode_batch(list(pairs.sources)), tgt.encode_batch(list(pairs.references)), strict=True)
    fitting = sorted((pair for pair in encoded if max(map(len, pair)) <= max_length), key=lambda pair: len(pair[1]))
    while fitting:
        size = min(max(BATCH // share, 1), len(fitting))
        while size > 1 and size * (len(fitting[size - 1][1]) + 1) * tgt.vocab_size > LOGITS // share:
            size -= 1
        yield collate(fitting[:size])
        fitting = fitting[size:]
