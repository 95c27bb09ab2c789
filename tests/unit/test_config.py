"""Configurations: layers, presets, TOML there and back, and everything that is refused."""

import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from dragoman import config as configuration
from dragoman.config import PRESETS, Config, ModelConfig, SearchConfig, merge, read_setting
from dragoman.errors import ConfigError


def set_to(*settings: str) -> Config:
    return merge([read_setting(setting) for setting in settings])


def test_later_layers_win() -> None:
    config = merge([{"train": {"steps": 5, "seed": 9}}, {"model": {"d_model": 64}}, {"train": {"steps": 7}}])
    assert (config.train.steps, config.train.seed, config.model.d_model) == (7, 9, 64)
    assert merge([]) == Config()


def test_a_preset_is_a_layer_of_its_own() -> None:
    """It overrides what came before, and single keys beside it or after it override the preset."""
    config = merge(
        [{"model": {"dropout": 0.4}}, {"model": {"preset": "tiny", "d_ff": 512}}, {"model": {"num_heads": 8}}]
    )
    assert config.model == ModelConfig(**{**PRESETS["tiny"], "d_ff": 512, "num_heads": 8})


def test_the_papers_presets() -> None:
    """Table 3: base is also what one gets without a word; big differs in four numbers."""
    base, big = merge([{"model": {"preset": "base"}}]).model, merge([{"model": {"preset": "big"}}]).model
    assert base == ModelConfig()
    assert (base.d_model, base.d_ff, base.num_heads, base.dropout) == (512, 2048, 8, 0.1)
    assert (big.d_model, big.d_ff, big.num_heads, big.dropout) == (1024, 4096, 16, 0.3)
    assert base.num_encoder_layers == base.num_decoder_layers == big.num_encoder_layers == big.num_decoder_layers == 6
    assert not base.norm_first
    assert not big.norm_first


@pytest.mark.parametrize("name", PRESETS)
def test_toml_there_and_back(name: str, tmp_path: Path) -> None:
    layer = {"model": {"preset": name}, "search": {"suppress": [3, 4]}, "text": {"src_lang": 'a"\\\n\u00e4'}}
    config = merge([layer, {"train": {"adam_betas": [0.8, 0.9], "learning_rate": 1 / 3, "adam_epsilon": 1e-30}}])
    (tmp_path / "config.toml").write_text(config.to_toml(), encoding="utf-8")
    assert configuration.load(tmp_path / "config.toml") == config


def test_the_resolved_whole_names_every_key() -> None:
    written = tomllib.loads(Config().to_toml())
    assert written.keys() == set(Config.__struct_fields__)
    for section, values in written.items():
        assert values.keys() == set(getattr(Config(), section).__struct_fields__)


NUMBERS = {
    "learning_rate": st.floats(1e-12, 10.0),
    "steps": st.integers(1, 10**8),
    "ema_decay": st.floats(0.0, 1.0, exclude_max=True),
    "tensorboard": st.booleans(),
    "schedule": st.sampled_from(["noam", "cosine", "linear", "plateau"]),
}


@given(st.fixed_dictionaries({}, optional=NUMBERS), st.text(max_size=20))
def test_any_values_there_and_back(train: dict[str, Any], language: str) -> None:
    config = merge([{"train": train, "text": {"tgt_lang": language}}])
    assert merge([tomllib.loads(config.to_toml())]) == config


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("train.stepz=3", "unknown key train.stepz; did you mean steps?"),
        ("model.n_heads=3", "unknown key model.n_heads; did you mean num_heads?"),
        ("search.zzz=3", "unknown key search.zzz; known are beam_size, n_best,"),
        ("trian.steps=3", "unknown section [trian]; did you mean train?"),
        ("qqq.steps=3", "unknown section [qqq]; known are text, model, data, train, search"),
        ("train.preset='tiny'", "unknown key train.preset"),
        ("model.preset=tinny", "unknown model.preset='tinny'; did you mean tiny?"),
        ("model.preset=[1]", "unknown model.preset=[1]; known are tiny, small, base, big"),
        ("train.steps=1e3", "train.steps=1000.0: expected a whole number"),
        ("train.steps='10'", "train.steps='10': expected a whole number"),
        ("train.steps=true", "train.steps=True: expected a whole number"),
        ("train.steps=0", "train.steps=0: expected a whole number >= 1"),
        ("train.seed=-1", "train.seed=-1: expected a whole number >= 0"),
        ("model.dropout=1", "model.dropout=1: expected a number < 1.0"),
        ("model.dropout=true", "model.dropout=True: expected a number"),
        ("model.dropout=nan", "model.dropout=nan: expected a number >= 0.0"),
        ("train.learning_rate=inf", "train.learning_rate=inf: expected a number <= 10.0"),
        ("train.adam_betas=[0.9]", "train.adam_betas=[0.9]: expected a list of length 2"),
        ("train.adam_betas=[0.9, 1.0]", "train.adam_betas=[0.9, 1.0]: expected a number < 1.0"),
        ("search.suppress=[-1]", "search.suppress=[-1]: expected a whole number >= 0"),
        ("search.temperature=nan", "search.temperature=nan"),
        ("search.top_p=0", "search.top_p=0: expected a number > 0.0"),
        ("search.beam_size=0", "search.beam_size=0"),
        ("model.tied=both", "model.tied='both': expected 'three-way', 'output' or 'none'"),
        ("text.src_lang=1", "text.src_lang=1: expected text"),
        ("model.d_model=100", "model.d_model=100 is not a multiple of model.num_heads=8"),
        ("search.n_best=6", "search.n_best=6 is more than search.beam_size=5; raise the beam"),
        ("text.shared=false", 'model.tied="three-way" needs text.shared=true'),
        ("model.num_heads=8\nx=1", "model.num_heads='8\\nx=1': expected a whole number"),
    ],
)
def test_refused_with_one_line(setting: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        set_to(setting)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    "settings",
    [
        ["model.d_model=8000000"],
        ["model.d_model=100000"],
        ["model.num_encoder_layers=100000"],
        ["model.num_encoder_layers=256", "model.d_model=8192"],
        ["model.d_ff=1000000", "model.d_model=1024"],
        ["text.vocab_size=1000000", "model.d_model=8192"],
        ["model.max_positions=10000000"],
        ["model.num_heads=100000000000000000000000000"],
        ["train.learning_rate=1" + 400 * "0"],
        ["train.steps=" + 5000 * "1"],
        ["train.steps=" + 100_000 * "["],
    ],
    ids=lambda settings: settings[0][:30],
)
def test_absurd_sizes_are_refused_before_anything_is_allocated(settings: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        set_to(*settings)
    assert len(str(caught.value)) < 300


def test_the_ceiling_names_itself() -> None:
    with pytest.raises(ConfigError, match=r"would have [\d,]+ parameters, more than the 4,000,000,000 allowed"):
        set_to("model.d_model=100000")


@pytest.mark.parametrize("setting", ["", "=", "train.steps", "steps=3", ".steps=3", "train.=3", "train=3"])
def test_settings_without_a_name(setting: str) -> None:
    with pytest.raises(ConfigError, match=r"expected section\.key=value, for example train\.steps=1000"):
        read_setting(setting)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("train.steps=1_000", 1000),
        (" train.steps = 7 ", 7),
        ("train.schedule=cosine", "cosine"),
        ('train.schedule="cosine"', "cosine"),
        ("train.adam_betas=[0.5, 0.6]", [0.5, 0.6]),
        ("text.src_lang=zh=x", "zh=x"),
        ("text.src_lang=", ""),
        ("model.dropout=0", 0),
    ],
)
def test_settings_are_read_as_toml_or_as_they_stand(setting: str, value: object) -> None:
    [values] = read_setting(setting).values()
    assert list(values.values()) == [value]


def test_whole_numbers_stand_for_floats() -> None:
    config = set_to("model.dropout=0", "search.length_penalty=1", "train.adam_betas=[0, 0.5]")
    assert [
        type(value) for value in (config.model.dropout, config.search.length_penalty, *config.train.adam_betas)
    ] == 4 * [float]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xef\xbb\xbf[train\n", "line 1, column 7"),
        (b"[train\n", "is not valid TOML"),
        (b"\xff", "is not valid TOML"),
        (b"a = " + 100_000 * b"[", "is not valid TOML"),
        (b"[train]\nsteps = " + 5000 * b"1", "is not valid TOML"),
        (b"[train]\nsteps = 1\nsteps = 2\n", "is not valid TOML"),
        (b"steps = 3\n", "unknown section [steps]"),
        (b"train = 3\n", "[train] must hold keys, not the value 3"),
        (b"[[train]]\nsteps = 3\n", "[train] must hold keys"),
        (b"[model.d_model]\na = 1\n", "model.d_model={'a': 1}: expected a whole number"),
    ],
    ids=lambda value: repr(value[:24]),
)
def test_files_that_are_refused(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "recipe.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        configuration.load(path)
    assert message in str(caught.value)


def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read the configuration .*: No such file"):
        configuration.load(tmp_path / "none.toml")
    with pytest.raises(ConfigError, match=r"cannot read the configuration .*: Is a directory"):
        configuration.load(tmp_path)


def test_values_never_change() -> None:
    config = Config()
    with pytest.raises(AttributeError, match="immutable"):
        config.train.steps = 3  # type: ignore[misc]
    with pytest.raises(TypeError, match="beam_sise"):
        SearchConfig(beam_sise=3)  # type: ignore[call-arg]
    assert replace(config.search, beam_size=3) == SearchConfig(beam_size=3) != config.search == SearchConfig()
