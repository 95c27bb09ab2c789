"""So many updates, so many epochs."""

from pathlib import Path
from typing import Any

import pytest

from dragoman.config import Config, ModelConfig, TrainConfig
from dragoman.data import buckets
from dragoman.errors import ConfigError
from dragoman.train.length import Epochs, Steps, lay_out, measure_epoch, spell_tokens
from dragoman.train.prepare import Plan, Prepared
from trainings import Silent, corpus, prepared_in


def planned(
    root: Path, files: tuple[Path, Path], plan: Plan | None, watcher: Silent | None = None, **values: Any
) -> Prepared:
    """As `prepared_in`, without a length of its own."""
    return prepared_in(
        root, files, files, watcher, plan, **{"train__steps": None, "train__warmup_steps": None, **values}
    )


@pytest.mark.parametrize(
    ("steps", "warmup", "validate", "save"),
    [(1, 1, 1, 1), (50, 10, 50, 50), (3000, 600, 2000, 1000), (100_000, 4000, 2000, 1000)],
)
def test_the_proportions_of_the_presets(steps: int, warmup: int, validate: int, save: int) -> None:
    preset = Config(train=TrainConfig(warmup_steps=4000, validate_every=2000, save_every=1000))
    wanted = {"steps": steps, "warmup_steps": warmup, "validate_every": validate, "save_every": save}
    assert lay_out(steps, preset) == {"model": {}, "train": wanted}


@pytest.mark.parametrize(
    ("steps", "decay", "dropout"),
    [(1, 0.1, None), (250, 0.1, None), (251, None, None), (1999, None, None), (2000, 0.1, 0.3)],
)
def test_muon_s_matrices_decay_in_short_and_in_long_trainings(
    steps: int, decay: float | None, dropout: float | None
) -> None:
    """Where long ones have more dropout, too."""
    muon, adam = (
        Config(model=ModelConfig(dropout=0.2), train=TrainConfig(optimizer=name, steps=1000))  # type: ignore[arg-type]
        for name in ("muon", "adam")
    )
    found = lay_out(steps, muon)
    assert found["train"].get("weight_decay") == decay
    assert found["model"].get("dropout") == dropout
    assert "weight_decay" not in lay_out(steps, adam)["train"]
    assert lay_out(steps, adam)["model"] == {}


@pytest.mark.parametrize(("tokens", "said"), [(3.2, "3"), (87.0, "87"), (934.0, "930"), (12_345.0, "12,000")])
def test_tokens_in_two_digits(tokens: float, said: str) -> None:
    assert spell_tokens(tokens) == said


def test_an_epoch_is_counted(tmp_path: Path) -> None:
    train = corpus(tmp_path, 60)
    prepared = prepared_in(tmp_path / "m", train, train, train__accumulate=2)
    batches = list(buckets.epoch(prepared.tokens, 64, 1, 0))
    epoch = measure_epoch(prepared.tokens, prepared.config)
    assert epoch.updates == len(batches) / 2
    real = sum(len(src) + len(tgt) + 2 for src, tgt in map(prepared.tokens.pair, range(60)))
    assert epoch.tokens == pytest.approx(real / len(batches) * 2)


def test_steps_as_asked(tmp_path: Path) -> None:
    train = corpus(tmp_path, 60)
    begun = planned(tmp_path / "m", train, Steps(50))
    assert (begun.config.train.steps, begun.config.train.warmup_steps) == (50, 10)
    assert (begun.config.train.validate_every, begun.config.train.save_every) == (50, 50)
    again = planned(tmp_path / "m", train, Steps(50))
    assert (again.config, again.identity) == (begun.config, begun.identity)
    assert planned(tmp_path / "m", train, None).config == begun.config
    assert planned(tmp_path / "m", train, Steps(70)).config.train.steps == 70, "noam has no end"


def test_the_end_of_a_cosine_does_not_move(tmp_path: Path) -> None:
    train = corpus(tmp_path, 60)
    planned(tmp_path / "m", train, Steps(50), train__schedule="cosine")
    with pytest.raises(ConfigError, match=r"train\.steps=50, not 70"):
        planned(tmp_path / "m", train, Steps(70))


def test_what_the_user_sets_stays(tmp_path: Path) -> None:
    train = corpus(tmp_path, 60)
    config = planned(tmp_path / "m", train, Steps(50), train__warmup_steps=3, train__validate_every=7).config
    assert (config.train.steps, config.train.warmup_steps, config.train.validate_every) == (50, 3, 7)


def test_epochs(tmp_path: Path) -> None:
    train, watcher = corpus(tmp_path, 60), Silent()
    begun = planned(tmp_path / "m", train, Epochs(2.5), watcher)
    epoch = measure_epoch(begun.tokens, begun.config)
    assert begun.config.train.steps == round(2.5 * epoch.updates)
    tokens = spell_tokens(epoch.tokens)
    assert f"2.5 epochs: {begun.config.train.steps} updates of about {tokens} tokens" in watcher.messages
    assert planned(tmp_path / "m", train, Epochs(2.5)).config == begun.config
    assert planned(tmp_path / "n", train, Epochs(1e-6)).config.train.steps == 1
    with pytest.raises(ConfigError, match=r"--epochs 1e\+09 are [\d,]+ updates; 100,000,000 are possible"):
        planned(tmp_path / "o", train, Epochs(1e9))
