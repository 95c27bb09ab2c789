"""From a configuration to a model: the only place that knows both, and the initialisation on one screen."""

import torch
from torch import Tensor, nn

from dragoman.config import ModelConfig
from dragoman.errors import ShapeError
from dragoman.model.attention import MultiHeadAttention
from dragoman.model.embedding import InputEmbedding, TokenEmbedding
from dragoman.model.families import EncoderDecoder
from dragoman.model.feedforward import FeedForward
from dragoman.model.layers import DecoderLayer, EncoderLayer
from dragoman.model.positions import LearnedPositions, SinusoidalPositions
from dragoman.model.stacks import Decoder, Encoder


def build(config: ModelConfig, src_vocab: int, tgt_vocab: int) -> EncoderDecoder:
    """A model of the sizes in ``config``, its weights not yet set (see :func:`initialize`).

    Args:
        src_vocab, tgt_vocab: sizes of the vocabularies; equal where ``config.tied`` is ``three-way``.

    Raises:
        ShapeError: they are not.
    """
    if config.tied == "three-way" and src_vocab != tgt_vocab:
        raise ShapeError(
            f'model.tied="three-way" needs one vocabulary, not {src_vocab} and {tgt_vocab} pieces;'
            ' use model.tied="output"'
        )
    sizes = (config.d_model, config.num_heads, config.d_ff, config.dropout, config.norm_first, config.activation)
    src_token = TokenEmbedding(src_vocab, config.d_model)
    tgt_token = src_token if config.tied == "three-way" else TokenEmbedding(tgt_vocab, config.d_model)
    output = nn.Linear(config.d_model, tgt_vocab, bias=False)
    if config.tied != "none":
        output.weight = tgt_token.weight
    return EncoderDecoder(
        InputEmbedding(src_token, _positions(config), config.dropout),
        InputEmbedding(tgt_token, _positions(config), config.dropout),
        Encoder([EncoderLayer(*sizes) for _ in range(config.num_encoder_layers)], _last_norm(config)),
        Decoder([DecoderLayer(*sizes) for _ in range(config.num_decoder_layers)], _last_norm(config)),
        output,
    )


def initialize(model: EncoderDecoder, seed: int) -> None:
    """Set every weight, from ``seed`` alone.

    Matrices: Xavier/Glorot uniform, as in the paper's own code (keys and values are two matrices in one, and are drawn
    as two). Token embeddings: normal with variance 1/d_model, so that they leave the scaling by sqrt(d_model) with
    variance 1; learned positions, which are not scaled, with the same. Biases 0, norms 1.

    In a post-norm stack of N layers the matrices of values, of attention's output and of the feed-forward network are
    multiplied by (12 N)^(-1/4): it begins near the identity, as a pre-norm stack does, and its first updates bring
    far more (docs/log.md). The factor is DeepNet's (Wang et al. 2022, for decoders), whose scaled
    residual connections we leave out.
    """
    generator = torch.Generator().manual_seed(seed)
    for module in model.modules():
        if isinstance(module, TokenEmbedding | LearnedPositions):
            nn.init.normal_(module.weight, std=module.weight.shape[1] ** -0.5, generator=generator)
        elif isinstance(module, nn.LayerNorm):
            nn.init.ones_(module.weight)
            nn.init.zeros_(module.bias)
        elif isinstance(module, MultiHeadAttention):
            for half in module.key_value.weight.chunk(2):
                nn.init.xavier_uniform_(half, generator=generator)
    drawn = {id(weight) for weight in _drawn_weights(model)}
    for module in model.modules():
        if isinstance(module, nn.Linear):
            if module.bias is not None:
                nn.init.zeros_(module.bias)
            if id(module.weight) not in drawn:
                nn.init.xavier_uniform_(module.weight, generator=generator)
    for stack in (model.encoder, model.decoder):
        if isinstance(stack.norm, nn.Identity):
            _shrink(stack, (12 * len(stack.layers)) ** -0.25)


def named_weights(model: EncoderDecoder) -> dict[str, Tensor]:
    """Every parameter once under one name; a matrix with several uses stands under the first of them.

    These are the names in ``model.safetensors``.
    """
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


def _drawn_weights(model: EncoderDecoder) -> list[Tensor]:
    drawn: list[Tensor] = []
    for module in model.modules():
        if isinstance(module, TokenEmbedding):
            drawn.append(module.weight)
        elif isinstance(module, MultiHeadAttention):
            drawn.append(module.key_value.weight)
    return drawn


def _shrink(stack: nn.Module, factor: float) -> None:
    with torch.no_grad():
        for module in stack.modules():
            if isinstance(module, MultiHeadAttention):
                _, values = module.key_value.weight.chunk(2)
                scaled = [values, module.output.weight]
            elif isinstance(module, FeedForward):
                scaled = [module.inner.weight, module.outer.weight]
            else:
                continue
            for weight in scaled:
                weight.mul_(factor)


def _positions(config: ModelConfig) -> nn.Module:
    if config.positions == "learned":
        return LearnedPositions(config.d_model, config.max_positions)
    return SinusoidalPositions(config.d_model, config.positions)


def _last_norm(config: ModelConfig) -> nn.Module:
    return nn.LayerNorm(config.d_model) if config.norm_first else nn.Identity()
