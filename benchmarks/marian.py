"""MarianMT of transformers in the sizes of a model of ours: the same ids for padding, beginning and end."""

from typing import Any

import transformers

PAD, BOS, EOS = 0, 1, 2


def build(
    vocab_size: int, d_model: int, d_ff: int, num_layers: tuple[int, int], num_heads: int, **others: object
) -> Any:
    """A fresh model with three-way tied embeddings.

    Args:
        num_layers: of the encoder and of the decoder.
        others: further settings of ``MarianConfig``, such as ``dropout``.
    """
    config = transformers.MarianConfig(
        vocab_size=vocab_size,
        d_model=d_model,
        encoder_layers=num_layers[0],
        decoder_layers=num_layers[1],
        encoder_ffn_dim=d_ff,
        decoder_ffn_dim=d_ff,
        encoder_attention_heads=num_heads,
        decoder_attention_heads=num_heads,
        scale_embedding=True,
        pad_token_id=PAD,
        bos_token_id=BOS,
        eos_token_id=EOS,
        decoder_start_token_id=BOS,
        forced_eos_token_id=None,
        **{"activation_function": "relu", **others},
    )
    return transformers.MarianMTModel(config)
