"""Defaults that follow the size of the corpus: the user gives no hyper-parameter and gets a good model."""

from dragoman.config import PRESETS, Layer

TINY_CORPUS, SMALL_CORPUS, MIDDLE_CORPUS = 12_000, 100_000, 1_000_000
"""Pairs up to which a preset is chosen."""


def for_corpus(pairs: int) -> Layer:
    """Sizes, schedule and length of the training for a corpus of ``pairs`` sentence pairs (see docs/log.md for how they were found)."""
    if pairs <= TINY_CORPUS:
        return _layer("tiny", vocab=1000, batch=1024, rate=3e-3, warmup=300, steps=_epochs(pairs, 30, 1024), every=200, dropout=0.1)
    if pairs <= SMALL_CORPUS:
        return _layer("tiny", vocab=4000, batch=1536, rate=3e-3, warmup=1000, steps=_epochs(pairs, 30, 1536), every=500, bpe_dropout=0.05, dropout=0.2)
    if pairs <= MIDDLE_CORPUS:
        return _layer("small", vocab=16_000, batch=4096, rate=1e-3, warmup=4000, steps=_epochs(pairs, 20, 4096), every=2000, dropout=0.1)
    return _layer("base", vocab=32_000, batch=8192, rate=7e-4, warmup=4000, steps=_epochs(pairs, 6, 8192), every=2000)


def preset_name(pairs: int) -> str:
    """The name of the model sizes that :func:`for_corpus` takes."""
    sizes = for_corpus(pairs)["model"]
    return next(name for name, preset in PRESETS.items() if preset["d_model"] == sizes["d_model"])


def _epochs(pairs: int, epochs: int, batch_tokens: int) -> int:
    """Updates in ``epochs`` passes, at about 18 padded pieces a side; at least 500."""
    return max(500, round(epochs * pairs * 18 / batch_tokens, -2))


def _layer(
    preset: str,
    vocab: int,
    batch: int,
    rate: float,
    warmup: int,
    steps: int,
    every: int,
    bpe_dropout: float = 0.0,
    dropout: float | None = None,
) -> Layer:
    model = {**PRESETS[preset], **({} if dropout is None else {"dropout": dropout})}
    return {
        "text": {"vocab_size": vocab, "bpe_dropout": bpe_dropout},
        "model": model,
        "data": {"batch_tokens": batch},
        "train": {
            "learning_rate": rate,
            "warmup_steps": min(warmup, max(steps // 5, 1)),
            "steps": steps,
            "save_every": every,
            "validate_every": every,
        },
    }
