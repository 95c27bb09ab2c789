"""What the size of a corpus decides."""

import itertools
from pathlib import Path

import pytest

from dragoman.config import PRESETS, Layer, merge, parameter_estimate
from dragoman.data.corpus import open_corpus
from dragoman.data.report import examine
from dragoman.train.presets import CorpusSize, for_corpus, narrower, preset_name
from dragoman.train.schedule import paper_peak

SIZES = (1, 2, 19, 100, 1000, 11_999, 12_000, 12_001, 29_000, 100_000, 100_001, 1_000_000, 1_000_001, 10**8)


@pytest.mark.parametrize("pairs", SIZES)
@pytest.mark.parametrize("pieces", [0.25, 15.0, 250.0])
def test_every_size_has_sensible_defaults(pairs: int, pieces: float) -> None:
    size = CorpusSize(pairs, pieces, pieces)
    config = merge([for_corpus(size)])
    assert preset_name(size) in PRESETS
    assert 0 < config.train.warmup_steps < config.train.steps
    assert config.train.save_every == min(config.train.validate_every, 1000)
    assert config.data.batch_tokens > config.data.max_length
    assert 300 <= config.train.steps <= config.train.warmup_steps * 100_000


@pytest.mark.parametrize(
    ("tgt", "pieces"),
    [("猫坐在垫子上面睡觉", 6.75), ("ねこがマットのうえ", 6.75), ("고양이가 매트에", 6.5), ("кот спит на ковре", 4.25)],
)
def test_pieces_are_expected_by_script(tmp_path: Path, tgt: str, pieces: float) -> None:
    (tmp_path / "a.en").write_text("The cat is on the mat.\n" * 9, encoding="utf-8")
    (tmp_path / "a.xx").write_text(f"{tgt}\n" * 9, encoding="utf-8")
    report = examine(open_corpus([tmp_path / "a.en", tmp_path / "a.xx"]))
    assert CorpusSize.of(report.train) == CorpusSize(9, 5.5, pytest.approx(pieces, abs=0.5))


def test_batches_count_the_longer_side() -> None:
    long_src, long_tgt, short = (
        merge([for_corpus(CorpusSize(29_000, *pieces))]) for pieces in ((20.0, 8.0), (8.0, 20.0), (8.0, 8.0))
    )
    assert long_src == long_tgt
    assert short.train.steps < long_src.train.steps / 2


def test_more_data_take_a_larger_model() -> None:
    configs = [merge([for_corpus(CorpusSize(pairs, 15.0, 15.0))]) for pairs in SIZES]
    for smaller, larger in itertools.pairwise(configs):
        assert larger.text.vocab_size >= smaller.text.vocab_size
        assert parameter_estimate(larger) >= parameter_estimate(smaller)
        assert larger.train.learning_rate <= smaller.train.learning_rate


def test_within_a_class_more_pairs_take_more_updates() -> None:
    few, many = (merge([for_corpus(CorpusSize(pairs, 15.0, 15.0))]) for pairs in (20_000, 90_000))
    assert many.train.steps == pytest.approx(4.5 * few.train.steps, rel=0.05)
    short, long = (merge([for_corpus(CorpusSize(29_000, 8.0, pieces))]) for pieces in (10.0, 20.0))
    assert short.train.steps < long.train.steps < 2 * short.train.steps


@pytest.mark.parametrize(
    ("pairs", "vocabulary", "name"),
    [(30_000, 10_000, "tiny"), (500_000, 16_000, "small"), (2_000_000, 32_000, "base"), (50_000_000, 32_000, "base")],
)
def test_vocabulary_and_model_of_the_usual_sizes(pairs: int, vocabulary: int, name: str) -> None:
    size = CorpusSize(pairs, 15.0, 15.0)
    config = merge([for_corpus(size)])
    assert config.text.vocab_size == vocabulary
    assert vocabulary % 8 == 0
    assert preset_name(size) == name
    assert {key: getattr(config.model, key) for key in PRESETS[name] if key != "dropout"} == {
        key: value for key, value in PRESETS[name].items() if key != "dropout"
    }


def reading(pairs: int) -> float:
    """Target pieces, their padding left out of account, that a training reads."""
    config = merge([for_corpus(CorpusSize(pairs, 15.0, 15.0))])
    return config.train.steps * config.data.batch_tokens


def test_no_class_reads_less_than_the_one_below() -> None:
    sizes = (150_000, 500_000, 1_000_000, 1_000_001, 1_500_000, 2_000_000, 4_000_000, 10_000_000)
    for fewer, more in itertools.pairwise(map(reading, sizes)):
        assert more >= 0.99 * fewer


@pytest.mark.parametrize(
    ("pairs", "epochs"), [(500_000, 8), (1_200_000, 8), (2_000_000, 6), (4_000_000, 3), (10**8, 3)]
)
def test_how_often_a_corpus_is_read(pairs: int, epochs: int) -> None:
    assert reading(pairs) / (pairs * 16) == pytest.approx(epochs, rel=0.01)


@pytest.mark.parametrize("pairs", [500_000, 1_000_000, 4_000_000])
def test_the_peak_of_adam_s_rate_is_about_the_paper_s(pairs: int) -> None:
    """Equation 3: (d_model * warmup)^-0.5; not for the small corpora, whose rates were found by experiment."""
    usual = merge([for_corpus(CorpusSize(pairs, 15.0, 15.0))]).model.d_model
    width: Layer = {"model": {"d_model": usual}}
    config = merge([for_corpus(CorpusSize(pairs, 15.0, 15.0), [width]), width])
    assert config.train.optimizer == "adam"
    assert config.train.schedule == "noam"
    assert config.train.learning_rate == pytest.approx(
        paper_peak(config.model.d_model, config.train.warmup_steps), rel=0.1
    )


@pytest.mark.parametrize(
    ("pairs", "optimizer"),
    [(12_000, "adam"), (12_001, "muon"), (1_000_000, "muon"), (1_000_001, "adam")],
)
def test_muon_is_the_default_where_it_was_compared(pairs: int, optimizer: str) -> None:
    train = merge([for_corpus(CorpusSize(pairs, 15.0, 15.0))]).train
    assert train.optimizer == optimizer
    assert (train.schedule == "plateau") == (optimizer == "muon")


@pytest.mark.parametrize("pairs", [29_000, 500_000])
def test_who_asks_for_adam_gets_its_rate_and_schedule(pairs: int) -> None:
    size, adam, muon = CorpusSize(pairs, 15.0, 15.0), {"optimizer": "adam"}, {"optimizer": "muon"}
    width: Layer = {"model": {"d_model": 128}}
    assert for_corpus(size, [{"train": muon}, {"train": adam}]) == for_corpus(size, [width]) != for_corpus(size)
    assert for_corpus(size, [{"train": adam}, {"train": muon}]) == for_corpus(size)
    assert all("optimizer" not in layer["train"] for layer in narrower(size, [{"train": adam}]))


@pytest.mark.parametrize(("pairs", "widths"), [(29_000, []), (150_000, [128]), (2_000_000, [256, 128])])
def test_narrower_models(pairs: int, widths: list[int]) -> None:
    size = CorpusSize(pairs, 15.0, 15.0)
    configs = [merge([layer]) for layer in narrower(size, [{"model": {"dropout": 0.2}}])]
    assert [config.model.d_model for config in configs] == widths
    assert all(parameter_estimate(config) < parameter_estimate(merge([for_corpus(size)])) for config in configs)
    assert narrower(size, [{"model": {"preset": "base"}}]) == narrower(size, [{}, {"model": {"d_model": 64}}]) == []
