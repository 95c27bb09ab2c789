"""What the size of a corpus decides."""

import itertools

import pytest

from dragoman.config import PRESETS, merge, parameter_estimate
from dragoman.train.presets import CorpusSize, for_corpus, preset_name

SIZES = (1, 2, 19, 100, 1000, 11_999, 12_000, 12_001, 29_000, 100_000, 100_001, 1_000_000, 1_000_001, 10**8)


@pytest.mark.parametrize("pairs", SIZES)
@pytest.mark.parametrize("characters", [1.0, 60.0, 1000.0])
def test_every_size_has_sensible_defaults(pairs: int, characters: float) -> None:
    size = CorpusSize(pairs, characters)
    config = merge([for_corpus(size)])
    assert preset_name(size) in PRESETS
    assert 0 < config.train.warmup_steps < config.train.steps
    assert config.train.validate_every == config.train.save_every
    assert config.data.batch_tokens > config.data.max_length
    assert 300 <= config.train.steps <= config.train.warmup_steps * 100_000


def test_more_data_take_a_larger_model() -> None:
    configs = [merge([for_corpus(CorpusSize(pairs, 60.0))]) for pairs in SIZES]
    for smaller, larger in itertools.pairwise(configs):
        assert larger.text.vocab_size >= smaller.text.vocab_size
        assert parameter_estimate(larger) >= parameter_estimate(smaller)
        assert larger.train.learning_rate <= smaller.train.learning_rate


def test_within_a_class_more_pairs_take_more_updates() -> None:
    few, many = (merge([for_corpus(CorpusSize(pairs, 60.0))]) for pairs in (20_000, 90_000))
    assert many.train.steps == pytest.approx(4.5 * few.train.steps, rel=0.05)
    short, long = (merge([for_corpus(CorpusSize(29_000, characters))]) for characters in (40.0, 80.0))
    assert short.train.steps < long.train.steps < 2 * short.train.steps
