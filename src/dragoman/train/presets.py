"""Defaults that follow the size of the corpus: the user gives no hyper-parameter and gets a good model."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dragoman.config import PRESETS, Layer

TINY_CORPUS, SMALL_CORPUS, MIDDLE_CORPUS = 12_000, 100_000, 1_000_000
"""Pairs up to which a preset is chosen."""

CHARACTERS_A_PIECE = 4.0
LEAST_STEPS = 300


Section = Mapping[str, Any]


@dataclass(frozen=True)
class CorpusSize:
    """What the defaults depend on."""

    pairs: int
    "Sentence pairs."
    characters: float
    "Mean length of a target text."

    @property
    def pieces(self) -> float:
        """About how many pieces a target text will have."""
        return self.characters / CHARACTERS_A_PIECE


def for_corpus(size: CorpusSize) -> Layer:
    """Model, schedule and length of the training for a corpus of this size (docs/log.md tells how they were found)."""
    if size.pairs <= TINY_CORPUS:
        text, model = {"vocab_size": 1000}, {"num_encoder_layers": 2, "num_decoder_layers": 2, "dropout": 0.05}
        train = {"learning_rate": 5e-3, "warmup_steps": 200, "schedule": "cosine", "ema_decay": 0.99}
        return _layer("tiny", size, text, model, train, batch_tokens=512, epochs=25, every=400)
    if size.pairs <= SMALL_CORPUS:
        text, model = {"vocab_size": 4000, "bpe_dropout": 0.05}, {"dropout": 0.2}
        train = {"learning_rate": 2.5e-3, "warmup_steps": 1000}
        return _layer("tiny", size, text, model, train, batch_tokens=512, epochs=25, every=1000)
    if size.pairs <= MIDDLE_CORPUS:
        text, model = {"vocab_size": 16_000}, {"dropout": 0.1}
        train = {"learning_rate": 1e-3, "warmup_steps": 4000}
        return _layer("small", size, text, model, train, batch_tokens=1024, epochs=8, every=2000)
    train = {"learning_rate": 7e-4, "warmup_steps": 4000}
    return _layer("base", size, {"vocab_size": 32_000}, {}, train, batch_tokens=4096, epochs=3, every=2000)


def preset_name(size: CorpusSize) -> str:
    """The name of the model sizes that :func:`for_corpus` takes."""
    width = for_corpus(size)["model"]["d_model"]
    return next(name for name, preset in PRESETS.items() if preset["d_model"] == width)


def _layer(
    preset: str,
    size: CorpusSize,
    text: Section,
    model: Section,
    train: Section,
    batch_tokens: int,
    epochs: int,
    every: int,
) -> Layer:
    steps = max(LEAST_STEPS, round(epochs * size.pairs * (size.pieces + 1) / batch_tokens / 100) * 100)
    return {
        "text": text,
        "model": {**PRESETS[preset], "norm_first": True, **model},
        "data": {"batch_tokens": batch_tokens},
        "train": {"steps": steps, "save_every": every, "validate_every": every, **train},
    }
