"""Defaults that follow the size of the corpus: the user gives no hyper-parameter and gets a good model."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from dragoman.config import PRESETS, Layer
from dragoman.data.facts import CorpusReport, SideReport

TINY_CORPUS, SMALL_CORPUS, MIDDLE_CORPUS = 12_000, 100_000, 1_000_000
"""Pairs up to which a preset is chosen."""

CHARACTERS_A_PIECE = 4.0
DENSE, WORTH = ("Han", "Kana", "Hangul"), 3
"""Scripts whose letters make as many pieces as three letters of others do; measured on Chinese, docs/log.md."""

MUON: Layer = {"optimizer": "muon", "schedule": "plateau"}
"""How models up to the middle size are trained: a BLEU better than Adam on Multi30k, more on tatoeba (docs/log.md)."""

LEAST_STEPS = 300
LARGE_READING = 12_000_000
"""Pairs, repetitions counted, that a large corpus is read for; it is read 8 times at most and 3 times at least."""


@dataclass(frozen=True)
class CorpusSize:
    """What the defaults depend on."""

    pairs: int
    "Sentence pairs."
    src: float
    "Pieces that a source text will have, about, on average."
    tgt: float
    "The same of a target text."

    @classmethod
    def of(cls, corpus: CorpusReport) -> Self:
        """The size of a corpus that was looked at."""
        return cls(corpus.pairs, _pieces(corpus.src), _pieces(corpus.tgt))

    @property
    def longer(self) -> float:
        """Pieces and EOS of the longer side, which is what batches count."""
        return max(self.src, self.tgt) + 1


def _pieces(side: SideReport) -> float:
    dense = sum(side.scripts.get(script, 0.0) for script in DENSE)
    return side.mean_length * (1 + (WORTH - 1) * dense) / CHARACTERS_A_PIECE


def for_corpus(size: CorpusSize, layers: Sequence[Layer] = ()) -> Layer:
    """Model, schedule and length of the training for a corpus of this size.

    If the ``layers``, which will override them, say how wide the model is or ask for Adam, it is Adam with the rate and
    the schedule that suit it: Muon was compared with it for the widths chosen here alone. What there is up to
    :data:`MIDDLE_CORPUS` pairs was found by experiment on corpora of 29,000 and 159,000 (docs/log.md), what there is up
    to :data:`TINY_CORPUS` on the demo's; beyond, it is the usual choice of the field.
    """
    is_muon = not (_say_the_width(layers) or _ask_for_adam(layers))
    if size.pairs <= TINY_CORPUS:
        return _tiny(size)
    if size.pairs <= SMALL_CORPUS:
        return _narrow(size, 0.2, 38, is_muon)
    return _middle(size, is_muon) if size.pairs <= MIDDLE_CORPUS else _large(size)


def narrower(size: CorpusSize, layers: Sequence[Layer]) -> list[Layer]:
    """Defaults with narrower models than :func:`for_corpus` takes, the widest first, for less time than that needs.

    None if the ``layers``, which will override them, say how wide the model is.
    """
    if size.pairs <= SMALL_CORPUS or _say_the_width(layers):
        return []
    is_muon = not _ask_for_adam(layers)
    narrowest = _narrow(size, 0.1, 8, is_muon)
    return [narrowest] if size.pairs <= MIDDLE_CORPUS else [_middle(size, is_muon), narrowest]


def preset_name(size: CorpusSize) -> str:
    """The name of the model sizes that :func:`for_corpus` takes."""
    width = for_corpus(size)["model"]["d_model"]
    return next(name for name, preset in PRESETS.items() if preset["d_model"] == width)


def _say_the_width(layers: Sequence[Layer]) -> bool:
    return any({"preset", "d_model"} & layer.get("model", {}).keys() for layer in layers)


def _ask_for_adam(layers: Sequence[Layer]) -> bool:
    said = [layer["train"]["optimizer"] for layer in layers if "optimizer" in layer.get("train", {})]
    return said[-1:] == ["adam"]


def _tiny(size: CorpusSize) -> Layer:
    return {
        "text": {"vocab_size": 1000},
        "model": {
            **PRESETS["tiny"],
            "num_encoder_layers": 2,
            "num_decoder_layers": 2,
            "norm_first": True,
            "dropout": 0.05,
        },
        "data": {"batch_tokens": 512},
        "train": {
            "learning_rate": 5e-3,
            "schedule": "cosine",
            "ema_decay": 0.99,
            **_length(size, epochs=25, batch_tokens=512, warmup=200, every=400),
        },
    }


def _narrow(size: CorpusSize, dropout: float, epochs: float, is_muon: bool) -> Layer:
    optimizer: Layer = MUON if is_muon else {"schedule": "cosine"}
    return {
        "text": {"vocab_size": 10_000},
        "model": {**PRESETS["tiny"], "norm_first": True, "dropout": dropout},
        "data": {"batch_tokens": 512},
        "train": {
            "learning_rate": 3e-3,
            **optimizer,
            **_length(size, epochs=epochs, batch_tokens=512, warmup=800, every=3000),
        },
    }


def _middle(size: CorpusSize, is_muon: bool) -> Layer:
    optimizer: Layer = {**MUON, "learning_rate": 2e-3} if is_muon else {"learning_rate": 1e-3}
    return {
        "text": {"vocab_size": 16_000},
        "model": {**PRESETS["small"], "norm_first": True, "dropout": 0.1},
        "data": {"batch_tokens": 1024},
        "train": {
            **optimizer,
            **_length(size, epochs=8, batch_tokens=1024, warmup=4000, every=2000),
        },
    }


def _large(size: CorpusSize) -> Layer:
    epochs = min(max(LARGE_READING / size.pairs, 3.0), 8.0)
    return {
        "text": {"vocab_size": 32_000},
        "model": {**PRESETS["base"], "norm_first": True},
        "data": {"batch_tokens": 4096},
        "train": {
            "learning_rate": 7e-4,
            **_length(size, epochs=epochs, batch_tokens=4096, warmup=4000, every=2000),
        },
    }


def _length(size: CorpusSize, epochs: float, batch_tokens: int, warmup: int, every: int) -> dict[str, int]:
    updates = round(epochs * size.pairs * size.longer / batch_tokens / 100) * 100
    steps = max(LEAST_STEPS, updates)
    return {
        "steps": steps,
        "warmup_steps": min(warmup, steps // 5),
        "save_every": min(every, steps, 1000),
        "validate_every": min(every, steps),
    }
