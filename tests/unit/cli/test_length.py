"""`--budget`, `--epochs`, `--steps`: one of them, and nothing that contradicts it."""

from pathlib import Path

import pytest
import torch

from command import call, settings
from dragoman.cli.length import Wish
from dragoman.config import load, read_setting
from dragoman.errors import ConfigError
from dragoman.store.folder import ModelFolder
from trainings import TINY, corpus

RECIPE = {"train": {"steps": 7, "budget": 5.0, "seed": 3}}


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        (Wish("30m", 3.0), "--budget and --epochs contradict each other; give one of --budget, --epochs, --steps"),
        (Wish(None, 3.0, 5), "--epochs and --steps contradict each other"),
        (Wish("1h", 3.0, 5), "--budget and --epochs and --steps contradict each other"),
        (Wish("half an hour"), "'half an hour' is no duration; write it like 90s, 30m, 2h or 1h30m"),
        (Wish(epochs=0.0), "--epochs 0: expected a number above 0"),
        (Wish(steps=0), "train.steps=0: expected a whole number >= 1"),
        (Wish(steps=200_000_000), "train.steps=200000000: expected a whole number <= 100000000"),
        (Wish("300000h"), "train.budget=1080000000.0: expected a number <= 1000000000"),
        (Wish(epochs=1e7), "--epochs 1e\\+07: expected a number above 0, such as 3 or 0.5, and at most 1,000,000"),
        (Wish(epochs=float("nan")), "--epochs nan: expected a number above 0"),
    ],
)
def test_what_makes_no_sense(wish: Wish, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        wish.settle([], False)


@pytest.mark.parametrize(
    ("wish", "setting"),
    [
        (Wish("30m"), "train.steps=5"),
        (Wish("30m"), "train.budget=5"),
        (Wish(epochs=2), "train.steps=5"),
        (Wish(steps=6), "train.steps=5"),
    ],
)
def test_an_option_and_a_setting(wish: Wish, setting: str) -> None:
    with pytest.raises(ConfigError, match=rf"and --set {setting.split('=')[0]} contradict each other; leave one"):
        wish.settle([RECIPE, read_setting(setting)], True)


def test_a_recipe_gives_way() -> None:
    other = read_setting("train.keep=1")
    assert Wish().settle([RECIPE, other], True) == [RECIPE, other]
    assert Wish("30m").settle([RECIPE, other], True) == [{"train": {"seed": 3}}, other]
    assert Wish(steps=5).settle([RECIPE], True) == [{"train": {"budget": 5.0, "seed": 3}}]
    assert Wish(steps=5).settle([{"model": {"d_ff": 8}}], True) == [{"model": {"d_ff": 8}}]
    assert Wish(steps=5).settle([read_setting("train.budget=5")], False) == [{"train": {"budget": 5}}]


@pytest.fixture
def arguments(tmp_path: Path) -> list[object]:
    """A small training without a length."""
    own = {key: value for key, value in TINY.items() if key not in ("train__steps", "train__warmup_steps")}
    return ["train", *corpus(tmp_path, 60), "--out", tmp_path / "m", *settings(**own)]


def test_steps_from_the_command_line(tmp_path: Path, arguments: list[object]) -> None:
    for _ in range(2):
        ran = call(*arguments, "--steps", 5)
        assert ran.code == 0, ran.err
    config = load(ModelFolder(tmp_path / "m").config).train
    assert (config.steps, config.warmup_steps, config.validate_every) == (5, 1, 5)


def test_epochs_from_the_command_line(tmp_path: Path, arguments: list[object]) -> None:
    ran = call(*arguments, "--epochs", 0.5)
    assert ran.code == 0, ran.err
    steps = load(ModelFolder(tmp_path / "m").config).train.steps
    assert f"0.5 epochs: {steps} updates of about" in ran.err
    assert f"update {steps}: validation" in ran.err


def test_one_line_and_exit_code_2(tmp_path: Path, arguments: list[object]) -> None:
    for wrong in (["--steps", 5, "--epochs", 1], ["--budget", "soon"], ["--steps", 5, "--set", "train.steps=6"]):
        ran = call(*arguments, *wrong)
        assert ran.code == 2
        assert len(ran.err.splitlines()) == 1
        assert not (tmp_path / "m").exists()
    ran = call(*arguments, "--steps", 0)
    assert ran.code == 2
    assert "train.steps=0" in ran.err


@pytest.mark.parametrize(
    ("setting", "said", "is_read"),
    [
        pytest.param(
            "train.device=cuda",
            "PyTorch finds no GPU here",
            False,
            marks=pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU"),
        ),
        ("train.sharded=true", "train.sharded needs several workers", False),
        ("model.d_model=24", "model.d_model / num_heads is 12, not a multiple of 16", True),
    ],
)
def test_what_is_not_to_be_had_is_told_before_the_work(tmp_path: Path, setting: str, said: str, is_read: bool) -> None:
    native = ("--set", "train.backend=native", "--set", "model.num_heads=2") if is_read else ()
    ran = call("train", *corpus(tmp_path, 60), "--out", tmp_path / "m", "--steps", 2, "--set", setting, *native)
    assert ran.code == 2
    assert said in ran.err
    assert ("reading the corpus" in ran.err) == is_read
    assert "learning a vocabulary" not in ran.err
