"""Defaults that follow the size of the corpus: the user gives no hyper-parameter and gets a good model."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol, Self

from dragoman.config import PRESETS, Layer

TINY_CORPUS, SMALL_CORPUS, MIDDLE_CORPUS = 12_000, 100_000, 1_000_000
"""Pairs up to which a preset is chosen."""

CHARACTERS_A_PIECE = 4.0


class SentencePair(Protocol):
    """What is looked at of a pair."""

    @property
    def tgt(self) -> str:
        """The target text."""
        ...


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

    @classmethod
    def of(cls, corpus: Iterable[SentencePair]) -> Self:
        """Read ``corpus`` once."""
        pairs, characters = 0, 0
        for pair in corpus:
            pairs += 1
            characters += len(pair.tgt)
        return cls(pairs, characters / max(pairs, 1))



def for_corpus(size: CorpusSize) -> Layer:
    """Model, schedule and length of the training for a corpus of this size (docs/log.md tells how they were found)."""
    if size.pairs <= TINY_CORPUS:
        return _layer("tiny", size, vocab=1000, batch=512, rate=3e-3, warmup=400, epochs=30, every=500, dropout=0.1)
    if size.pairs <= SMALL_CORPUS:
        return _layer(
            "tiny", size, vocab=4000, batch=512, rate=2.5e-3, warmup=1000, epochs=26, every=1000, dropout=0.2, bpe_dropout=0.05
        )
    if size.pairs <= MIDDLE_CORPUS:
        return _layer("small", size, vocab=16_000, batch=4096, rate=1e-3, warmup=4000, epochs=20, every=2000, dropout=0.1)
    return _layer("base", size, vocab=32_000, batch=8192, rate=7e-4, warmup=4000, epochs=6, every=2000, dropout=0.1)


def preset_name(size: CorpusSize) -> str:
    """The name of the model sizes that :func:`for_corpus` takes."""
    width = for_corpus(size)["model"]["d_model"]
    return next(name for name, preset in PRESETS.items() if preset["d_model"] == width)


def _layer(
    preset: str,
    size: CorpusSize,
    vocab: int,
    batch: int,
    rate: float,
    warmup: int,
    epochs: int,
    every: int,
    dropout: float,
    bpe_dropout: float = 0.0,
) -> Layer:
    steps = max(500, round(epochs * size.pairs * (size.pieces + 1) / batch / 100) * 100)
    return {
        "text": {"vocab_size": vocab, "bpe_dropout": bpe_dropout},
        "model": {**PRESETS[preset], "dropout": dropout, "norm_first": True},
        "data": {"batch_tokens": batch},
        "train": {
            "learning_rate": rate,
            "warmup_steps": min(warmup, steps // 5),
            "steps": steps,
            "save_every": every,
            "validate_every": every,
        },
    }
