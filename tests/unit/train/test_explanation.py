"""What a training would be, against a model that is really built."""

from pathlib import Path

import pytest

from command import call
from dragoman.config import merge
from dragoman.model.build import build
from dragoman.train.explanation import (
    count_orthogonal,
    count_parameters,
    explain,
    packed_bytes,
    sent_bytes,
    state_bytes,
)
from trainings import corpus, prepared_in

SMALL = {
    "text": {"vocab_size": 267},
    "model": {"d_model": 16, "num_heads": 2, "num_encoder_layers": 1, "num_decoder_layers": 2, "d_ff": 32},
    "data": {"batch_tokens": 100},
    "train": {"steps": 1000, "accumulate": 3},
}


def test_parameters_are_counted_exactly() -> None:
    config = merge([SMALL])
    assert count_parameters(config) == sum(each.numel() for each in build(config.model, 272, 272).parameters())


def test_the_arithmetic() -> None:
    config = merge([SMALL])
    count = count_parameters(config)
    assert state_bytes(config, 4) == 20 * count
    assert sent_bytes(config, 4) == pytest.approx(2 * 3 / 4 * 4 * count)
    sharded = merge([SMALL, {"train": {"sharded": True}}])
    assert state_bytes(sharded, 4) == 5 * count
    assert sent_bytes(sharded, 4) == pytest.approx(3 * 3 * 3 / 4 * 4 * count)


def test_what_the_kernels_pack() -> None:
    """Five attentions of four matrices of 16 x 16, three networks of two of 16 x 32, the output's of 272 x 16."""
    assert packed_bytes(merge([SMALL])) == 2 * 4 * (5 * 4 * 16 * 16 + 3 * 2 * 16 * 32 + 272 * 16)


def test_muon_keeps_one_number_less_and_gathers_it() -> None:
    """Five attentions of four matrices of 16 x 16, three networks of two of 16 x 32."""
    muon = merge([SMALL, {"train": {"optimizer": "muon"}}])
    matrices = 5 * 4 * 16 * 16 + 3 * 2 * 16 * 32
    assert count_orthogonal(muon) == matrices
    assert state_bytes(muon, 4) == 20 * count_parameters(muon) - 4 * matrices
    assert sent_bytes(muon, 4) == pytest.approx(2 * 3 / 4 * 4 * count_parameters(muon))
    sharded = merge([SMALL, {"train": {"sharded": True, "optimizer": "muon"}}])
    assert sent_bytes(sharded, 4) == pytest.approx(3 / 4 * 4 * (9 * count_parameters(muon) + matrices))


def test_the_lines() -> None:
    lines = explain(merge([SMALL]), 2)
    assert lines[1] == "training: 1,000 updates of at most 600 tokens of the longer sides (2 x 3 batches of 100)"
    kernels = "; the kernels 0 MB more (half where factors are bfloat16), and 0 MB for each thread but the first"
    assert lines[2].endswith(kernels)
    assert "kernels" not in explain(merge([SMALL, {"train": {"backend": "torch"}}]), 1)[2]
    assert lines[3].startswith("workers: 2; ")
    assert len(explain(merge([SMALL]), 1)) == 3


def test_of_a_training_that_has_begun_only_what_it_can_be(tmp_path: Path) -> None:
    files = corpus(tmp_path, 30)
    prepared_in(tmp_path / "m", files)
    arguments = ("train", *files, "--out", tmp_path / "m", "--explain")
    assert call(*arguments).code == 0
    ran = call(*arguments, "--set", "model.d_model=64")
    assert ran.code == 2
    assert "was begun with model.d_model=16, not 64" in ran.err


def test_the_command_only_says_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = corpus(tmp_path, 30)
    arguments = ("train", *files, "--out", tmp_path / "m", "--explain", "--set", "train.steps=7")
    ran = call(*arguments)
    assert (ran.code, ran.out) == (0, "")
    assert "dragoman: training: 7 updates of at most" in ran.err
    assert not (tmp_path / "m").exists()
    monkeypatch.setenv("WORLD_SIZE", "4")
    assert "dragoman: workers: 4; " in call(*arguments).err
    monkeypatch.setenv("RANK", "1")
    assert not call(*arguments).err


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        (("--steps", 1234), "1,234 updates of at most"),
        (("--epochs", 2.5), "2.5 epochs in updates of at most"),
        (("--budget", "1h30m"), "as many updates as fit into 1 h 30 min, of at most"),
    ],
)
def test_the_length_that_was_wished_for(tmp_path: Path, wish: tuple[object, ...], said: str) -> None:
    ran = call("train", *corpus(tmp_path, 30), "--out", tmp_path / "m", "--explain", *wish)
    assert f"dragoman: training: {said}" in ran.err


def test_the_optimizer_that_is_explained_is_the_default_or_the_user_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    monkeypatch.setattr(
        "dragoman.train.explanation.explain", lambda config, *_: seen.append(config.train.optimizer) or []
    )
    monkeypatch.setattr("dragoman.train.presets.TINY_CORPUS", 20)
    files = corpus(tmp_path, 30)
    for wish in ((), ("--budget", "1m"), ("--set", "train.optimizer=adam")):
        assert call("train", *files, "--out", tmp_path / "m", "--explain", *wish).code == 0
    assert seen == ["muon", "muon", "adam"]
