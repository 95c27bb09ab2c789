"""How long a training would take."""

import math

from dragoman.config import merge
from dragoman.train.estimate import training_minutes
from folders import PIECES

SIZES = {"d_model": 16, "num_heads": 2, "num_encoder_layers": 1, "num_decoder_layers": 1, "d_ff": 16}


def minutes(**train: int) -> float:
    return training_minutes(
        merge([{"text": {"vocab_size": PIECES}, "model": SIZES, "data": {"batch_tokens": 64}, "train": train}])
    )


def test_it_is_a_time() -> None:
    found = minutes(steps=10)
    assert math.isfinite(found)
    assert 0 < found < 10


def test_a_thousand_times_the_updates_take_longer() -> None:
    assert minutes(steps=100_000) > minutes(steps=100)
    assert minutes(steps=100, accumulate=1000) > minutes(steps=100)
