"""How long a training would take."""

import math

import pytest
import torch

from dragoman.config import merge
from dragoman.train.estimate import training_minutes
from dragoman.train.presets import CorpusSize
from folders import PIECES

SIZES = {"d_model": 16, "num_heads": 2, "num_encoder_layers": 1, "num_decoder_layers": 1, "d_ff": 16}


def minutes(src: float = 9.0, tgt: float = 9.0, **train: int) -> float:
    config = merge([{"text": {"vocab_size": PIECES}, "model": SIZES, "data": {"batch_tokens": 64}, "train": train}])
    return training_minutes(config, CorpusSize(1000, src, tgt))


def test_it_is_a_time() -> None:
    found = minutes(steps=10)
    assert math.isfinite(found)
    assert 0 < found < 10


def test_it_is_measured_where_it_will_be_trained(monkeypatch: pytest.MonkeyPatch) -> None:
    """As far as that can be seen without a GPU: nothing is measured on the CPU in its place."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises((AssertionError, RuntimeError), match=r"(?i)cuda|nvidia"):
        minutes(steps=10)


def test_a_thousand_times_the_updates_take_longer() -> None:
    assert minutes(steps=100_000) > minutes(steps=100)
    assert minutes(steps=100, accumulate=1000) > minutes(steps=100)


@pytest.mark.parametrize(("src", "tgt"), [(0.2, 0.1), (5.0, 900.0), (900.0, 5.0)])
def test_sentences_of_any_length(src: float, tgt: float) -> None:
    assert 0 < minutes(src, tgt, steps=10) < 10
