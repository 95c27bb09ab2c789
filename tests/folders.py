"""Model folders with random weights: as `dragoman train` would leave them, and made in no time."""

from pathlib import Path
from typing import Any

import torch

from dragoman.config import Config, merge
from dragoman.model.build import build, initialize, named_weights
from dragoman.model.families import EncoderDecoder
from dragoman.store.folder import ModelFolder
from dragoman.text.tokenizer import EOS
from toys import enliven, toy_tokenizer

PIECES = 320
"""Of the tokenizer; 259 of them are bytes and special ones."""


def toy_settings(**changes: dict[str, Any]) -> Config:
    """Sizes that differ wherever they may; ``changes`` are sections."""
    model = {
        "d_model": 16,
        "num_heads": 2,
        "num_encoder_layers": 1,
        "num_decoder_layers": 2,
        "d_ff": 24,
        "dropout": 0.0,
    }
    own = {"text": {"vocab_size": PIECES}, "model": {**model, "tied": "none"}, "data": {"max_length": 80}}
    return merge([own, changes])


def random_model(config: Config, seed: int = 1) -> EncoderDecoder:
    """Weights that make it sure of what it says, and that end some sentences early and others never."""
    vocab = toy_tokenizer(PIECES).vocab_size
    model = build(config.model, vocab, vocab)
    initialize(model, seed)
    enliven(model)
    with torch.no_grad():
        model.output.weight *= 3.0
        model.output.weight[EOS] *= 2.0
    return model.eval()


def write_model(root: Path, seed: int = 1, scale: float = 1.0, **changes: dict[str, Any]) -> Path:
    """A model folder in ``root``; ``scale`` multiplies what the feed-forward networks of its decoder give."""
    config = toy_settings(**changes)
    folder = ModelFolder.create(root)
    for path in folder.tokenizers(config.text.shared):
        path.write_text(toy_tokenizer(PIECES).to_json(), encoding="utf-8")
    folder.config.write_text(config.to_toml(), encoding="utf-8")
    weights = named_weights(random_model(config, seed))
    for name in [name for name in weights if name.startswith("decoder") and "feed_forward" in name]:
        weights[name] = weights[name] * scale
    folder.write_weights(weights)
    return root
