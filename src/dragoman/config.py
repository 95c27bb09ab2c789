"""Every knob, its meaning and its default: frozen models, TOML in and out, unknown keys refused.

A configuration is built in three layers, each a nested dictionary: a preset (chosen from the size of the corpus, see
``train/presets.py``), a recipe (``--config recipe.toml``), single settings (``--set train.steps=1000``). The resolved
whole is written into the model folder as ``config.toml`` and read back from there by everything that uses the model.
"""

import difflib
import re
import reprlib
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import msgspec
import tomli_w
from msgspec import Meta

from dragoman.errors import ConfigError

MAX_PARAMETERS = 4_000_000_000
"""Ceiling on the size of a model that a configuration may describe; checked before anything is allocated."""

MOST_STEPS = 100_000_000
"""Updates of the longest training."""

Size = Annotated[int, Meta(ge=1, le=1_000_000)]
Layers = Annotated[int, Meta(ge=1, le=256)]
Share = Annotated[float, Meta(ge=0.0, lt=1.0)]


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the sections have in common: values never change, keys are known, types are not guessed.

    The limits that stand beside the types are checked by :func:`merge`, not by the constructor.
    """

    def to_dict(self) -> dict[str, Any]:
        """Plain dictionaries and lists, as in a TOML file."""
        return msgspec.to_builtins(self)  # type: ignore[no-any-return]


class TextConfig(Section, frozen=True):
    """How text becomes ids."""

    vocab_size: Annotated[int, Meta(ge=264, le=1_000_000)] = 8000
    "Pieces to learn, the special ones included; rounded up to a multiple of 8."
    shared: bool = True
    "One vocabulary for both sides (needed for three-way tied embeddings), or one each."
    bpe_dropout: Share = 0.0
    "Chance that a merge is skipped while training (Provilkov et al. 2020); for long trainings, it slows short ones."
    src_lang: str = ""
    "Language of the source, such as `en`; only for reports and metrics."
    tgt_lang: str = ""
    "Language of the target; chooses the tokenizer of the metrics (zh, ja, ko)."


class ModelConfig(Section, frozen=True):
    """The Transformer's sizes; names as in the paper's table 3."""

    d_model: Size = 512
    "Width of every hidden vector."
    num_heads: Annotated[int, Meta(ge=1, le=1024)] = 8
    "Attention heads; must divide d_model."
    num_encoder_layers: Layers = 6
    "Depth of the encoder."
    num_decoder_layers: Layers = 6
    "Depth of the decoder; a shallow one translates faster."
    d_ff: Size = 2048
    "Inner width of the feed-forward network."
    dropout: Share = 0.1
    "Dropout on the sum of embedding and position and on each sub-layer's output (section 5.4)."
    norm_first: bool = False
    "False: norm after the residual sum, as in the paper. True: before the sub-layer, and once at each stack's end."
    activation: Literal["relu", "gelu", "swiglu", "geglu"] = "relu"
    "Of the feed-forward network; relu is the paper's, swiglu and geglu are gated (Shazeer 2020)."
    positions: Literal["sinusoidal", "sinusoidal_half", "sinusoidal_half_inclusive", "learned"] = "sinusoidal"
    "sinusoidal: interleaved, as in the paper; the half layouts are Marian's and tensor2tensor's; learned: a table."
    max_positions: Annotated[int, Meta(ge=1, le=65_536)] = 1024
    "Rows of a learned position table; sinusoids reach any length."
    tied: Literal["three-way", "output", "none"] = "three-way"
    "Which matrices are one: source embedding, target embedding and output (section 3.4); the last two; none."


class DataConfig(Section, frozen=True):
    """Which pairs are trained on, and how many at a time."""

    batch_tokens: Annotated[int, Meta(ge=16, le=10_000_000)] = 4096
    "Real tokens of one batch: the longer sides of its pairs, added up."
    max_length: Annotated[int, Meta(ge=1, le=65_536)] = 256
    "Longest side in pieces; a pair beyond it is dropped and counted."
    skip_invalid: bool = False
    "Skip (and count) pairs with invalid UTF-8 and malformed records instead of refusing the file."
    drop_duplicates: bool = False
    "Train on each distinct pair once."


class TrainConfig(Section, frozen=True):
    """The training: optimizer, schedule, when to look, when to stop."""

    steps: Annotated[int, Meta(ge=1, le=MOST_STEPS)] = 100_000
    "Updates of the weights."
    budget: Annotated[float, Meta(ge=0.0, le=1e9)] = 0.0
    "Seconds after which the training ends, everything included; 0 never. `--budget` also fits the steps into it."
    accumulate: Annotated[int, Meta(ge=1, le=4096)] = 1
    "Batches whose gradients make one update; every token weighs as in one big batch."
    learning_rate: Annotated[float, Meta(gt=0.0, le=10.0)] = 7e-4
    "The highest rate of the schedule, reached at the end of the warm-up."
    schedule: Literal["noam", "cosine", "linear", "plateau"] = "noam"
    "After the warm-up: noam falls with 1/sqrt(step) (equation 3), the others end at zero; plateau begins to fall late."
    warmup_steps: Annotated[int, Meta(ge=1, le=10_000_000)] = 4000
    "Updates in which the rate rises linearly."
    label_smoothing: Share = 0.1
    "Probability mass spread over the whole vocabulary (section 5.4)."
    optimizer: Literal["adam", "muon"] = "adam"
    "adam: the paper's; muon: the layers' matrices move in all directions alike (Jordan et al. 2024), the rest by Adam."
    adam_betas: tuple[Share, Share] = (0.9, 0.98)
    "Adam's two decay rates (section 5.3)."
    adam_epsilon: Annotated[float, Meta(gt=0.0, lt=1.0)] = 1e-9
    "Adam's epsilon (section 5.3)."
    weight_decay: Annotated[float, Meta(ge=0.0, lt=1.0)] = 0.0
    "Decoupled decay of the matrices; 0 is plain Adam."
    clip_norm: Annotated[float, Meta(ge=0.0, le=1e6)] = 1.0
    "Largest norm of the whole gradient; 0 does not clip."
    ema_decay: Annotated[float, Meta(ge=0.0, lt=1.0)] = 0.999
    "Decay of the running average of the weights, which is what is validated and kept; 0 keeps the raw weights."
    save_every: Annotated[int, Meta(ge=1, le=100_000_000)] = 500
    "Updates between checkpoints."
    keep: Annotated[int, Meta(ge=1, le=1000)] = 2
    "Newest checkpoints kept for resuming; the best is kept as the model itself."
    validate_every: Annotated[int, Meta(ge=1, le=100_000_000)] = 500
    "Updates between validations (loss, and BLEU/chrF of real translations)."
    validate_limit: Annotated[int, Meta(ge=1, le=1_000_000)] = 1000
    "Validation pairs used: the first of the file, or of those put aside; on resuming it can be lowered, not raised."
    patience: Annotated[int, Meta(ge=0, le=10_000)] = 0
    "Validations without a better score before stopping early; 0 never stops early."
    threads: Annotated[int, Meta(ge=0, le=4096)] = 0
    "CPU threads; 0 takes what PyTorch finds. Bit-exact resuming needs the same number."
    device: Literal["auto", "cpu", "cuda"] = "auto"
    "Where: auto takes a GPU if PyTorch finds one, and PyTorch's operations there."
    sharded: bool = False
    "Several workers keep a part of the weights each, for a model that fits no single one; slower than a copy in each."
    backend: Literal["auto", "native", "torch"] = "auto"
    "Who computes the updates: the CPU kernels, or PyTorch's operations; auto takes the kernels where it can."
    compile: bool = False
    "Compile the layers of PyTorch's way (torch.compile), for GPUs: slow to start; no kernels then on CPUs."
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    "What factors of matrix products are rounded to, the rest stays float32; auto: bfloat16 where that is fast."
    max_bad_steps: Annotated[int, Meta(ge=1, le=1000)] = 10
    "Consecutive updates with a loss or gradient that is not finite before stepping back; each is skipped and counted."
    tensorboard: bool = False
    "Also write TensorBoard event files into the folder (needs the tensorboard package)."
    seed: Annotated[int, Meta(ge=0, lt=2**31)] = 1
    "Of the initial weights, the order of the data, dropout and BPE-dropout."


class SearchConfig(Section, frozen=True):
    """How a translation is looked for."""

    beam_size: Annotated[int, Meta(ge=1, le=1024)] = 5
    "Hypotheses followed at once; 1 is greedy."
    n_best: Annotated[int, Meta(ge=1, le=1024)] = 1
    "Translations returned for each sentence, best first; at most beam_size."
    length_penalty: Annotated[float, Meta(ge=-10.0, le=10.0)] = 1.0
    "Exponent of the length normalisation: 0 none, 1 mean log-probability; larger prefers longer output."
    length_norm: Literal["power", "gnmt"] = "power"
    "power divides by length^a; gnmt by ((5 + length) / 6)^a (Wu et al. 2016)."
    max_length_ratio: Annotated[float, Meta(ge=0.0, le=100.0)] = 2.0
    "A translation has at most ratio * source pieces + max_length_extra pieces."
    max_length_extra: Annotated[int, Meta(ge=1, le=65_536)] = 20
    "See max_length_ratio."
    min_length: Annotated[int, Meta(ge=0, le=65_536)] = 0
    "Pieces before the end of the sentence is allowed."
    no_repeat_ngram: Annotated[int, Meta(ge=0, le=64)] = 0
    "No n-gram of this many pieces twice in a translation; 0 allows all."
    suppress: tuple[Annotated[int, Meta(ge=0)], ...] = ()
    "Piece ids that are never produced."
    sample: bool = False
    "Draw from the distribution instead of searching for its peak."
    temperature: Annotated[float, Meta(ge=0.0, le=1e6)] = 1.0
    "Sampling: above 1 flatter, below 1 sharper, 0 is greedy."
    top_k: Annotated[int, Meta(ge=0, le=1_000_000)] = 0
    "Sampling: only the k likeliest pieces; 0 is all."
    top_p: Annotated[float, Meta(gt=0.0, le=1.0)] = 1.0
    "Sampling: only the likeliest pieces that together have this probability."
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 1
    "Sampling: the same seed gives the same text."


class Config(Section, frozen=True):
    """The whole configuration: one section a concern."""

    text: TextConfig = TextConfig()
    model: ModelConfig = ModelConfig()
    data: DataConfig = DataConfig()
    train: TrainConfig = TrainConfig()
    search: SearchConfig = SearchConfig()

    def to_toml(self) -> str:
        """The configuration as TOML, every key present."""
        return tomli_w.dumps(self.to_dict())


DEFAULTS = Config()
"""What one gets without a word."""

KINDS = {
    "`int`": "a whole number",
    "`float`": "a number",
    "`str`": "text",
    "`bool`": "true or false",
    "`array`": "a list",
}
"""What msgspec's types are called in an error."""

Layer = Mapping[str, Any]
"""A part of a configuration: section -> key -> value."""

PRESETS: Mapping[str, Mapping[str, int | float | bool]] = {
    name: {
        "d_model": d_model,
        "num_heads": num_heads,
        "num_encoder_layers": num_layers,
        "num_decoder_layers": num_layers,
        "d_ff": d_ff,
        "dropout": dropout,
    }
    for name, d_model, num_heads, num_layers, d_ff, dropout in (
        ("tiny", 128, 4, 4, 256, 0.3),
        ("small", 256, 4, 4, 1024, 0.2),
        ("base", 512, 8, 6, 2048, 0.1),
        ("big", 1024, 16, 6, 4096, 0.3),
    )
}
"""Sizes with a name, chosen by ``model.preset``; base and big are the paper's table 3."""


def parameter_estimate(config: Config) -> int:
    """Weights of the model that ``config`` describes (biases and norms left out), by arithmetic alone."""
    model, vocab = config.model, config.text.vocab_size
    feed_forward = (3 if model.activation in ("swiglu", "geglu") else 2) * model.d_model * model.d_ff
    attention = 4 * model.d_model**2
    encoder = model.num_encoder_layers * (attention + feed_forward)
    decoder = model.num_decoder_layers * (2 * attention + feed_forward)
    tables = {"three-way": 1, "output": 2, "none": 3}[model.tied] * vocab * model.d_model
    return encoder + decoder + tables + (2 * model.max_positions * model.d_model if model.positions == "learned" else 0)


def merge(layers: Iterable[Layer]) -> Config:
    """Stack ``layers``, later ones winning, expand ``model.preset`` and check the result.

    Raises:
        ConfigError: an unknown section, key or preset (the nearest known one is named), a value of the wrong type or
            out of range, or values that do not fit each other.
    """
    merged: dict[str, dict[str, Any]] = {}
    for layer in layers:
        for section, values in layer.items():
            _check_known(section, values)
            merged.setdefault(section, {}).update(_expand_preset(values) if section == "model" else values)
    try:
        config = msgspec.convert(merged, Config)
    except msgspec.ValidationError as error:
        raise ConfigError(_explain(str(error), merged)) from None
    _check_fit(config)
    return config


def read_toml(path: Path) -> Layer:
    """The layer written in a TOML file.

    Raises:
        ConfigError: the file is missing or is not TOML.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ConfigError(f"cannot read the configuration {path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from None


def read_setting(setting: str) -> Layer:
    """The layer of one ``section.key=value``; the value is read as TOML, and as a plain string where it is not TOML.

    Raises:
        ConfigError: there is no ``=`` or no section in it.
    """
    name, equals, text = setting.partition("=")
    section, dot, key = name.strip().partition(".")
    if not (equals and dot and section and key):
        raise ConfigError(f"--set {setting}: expected section.key=value, for example train.steps=1000")
    try:
        read = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        read = {}
    return {section: {key: read["value"] if len(read) == 1 else text.strip()}}


def load(path: Path) -> Config:
    """Read a whole configuration from a TOML file, as it lies in a model folder."""
    return merge([read_toml(path)])


def _check_known(section: str, values: Any) -> None:
    sections = Config.__struct_fields__
    if section not in sections:
        raise ConfigError(f"unknown section [{section}]{_nearest(section, sections)}")
    if not isinstance(values, Mapping):
        raise ConfigError(f"[{section}] must hold keys, not the value {values!r}")
    known = [*getattr(DEFAULTS, section).__struct_fields__, *(["preset"] if section == "model" else [])]
    for key in values:
        if key not in known:
            raise ConfigError(f"unknown key {section}.{key}{_nearest(key, known)}")


def _nearest(name: str, known: Iterable[str]) -> str:
    names = list(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    return f"; did you mean {close[0]}?" if close else f"; known are {', '.join(names)}"


def _expand_preset(values: Mapping[str, Any]) -> dict[str, Any]:
    rest = dict(values)
    name = rest.pop("preset", None)
    if name is None:
        return rest
    if name not in list(PRESETS):
        raise ConfigError(f"unknown model.preset={name!r}{_nearest(str(name), PRESETS)}")
    return {**PRESETS[name], **rest}


def _check_fit(config: Config) -> None:
    """What no single value can break."""
    model, train, search = config.model, config.train, config.search
    if model.d_model % model.num_heads:
        raise ConfigError(f"model.d_model={model.d_model} is not a multiple of model.num_heads={model.num_heads}")
    others = {
        'train.device="cuda"': train.device == "cuda",
        "train.sharded=true": train.sharded,
        "train.compile=true": train.compile,
    }
    for key in (key for key, is_wanted in others.items() if is_wanted and train.backend == "native"):
        raise ConfigError(f'train.backend="native" computes on CPUs with whole weights, not with {key}; use "torch"')
    if train.compile and train.sharded:
        raise ConfigError("train.compile was not tried together with train.sharded; set one of them to false")
    if search.n_best > search.beam_size:
        raise ConfigError(
            f"search.n_best={search.n_best} is more than search.beam_size={search.beam_size}; raise the beam"
        )
    if model.tied == "three-way" and not config.text.shared:
        raise ConfigError(
            'model.tied="three-way" needs text.shared=true; use model.tied="output" with two vocabularies'
        )
    size = parameter_estimate(config)
    if size > MAX_PARAMETERS:
        raise ConfigError(
            f"this model would have {size:,} parameters, more than the {MAX_PARAMETERS:,} allowed; make it smaller"
        )


def _explain(fault: str, layers: Mapping[str, Mapping[str, Any]]) -> str:
    """A fault as msgspec words it, `Expected `int` >= 1 - at `$.train.steps``, with the value that was given."""
    what, section, key = re.match(r"(.*) - at `\$\.(\w+)\.(\w+)", fault, re.S).groups()  # type: ignore[union-attr]
    if what.startswith("Invalid enum"):
        choices = get_args(type(getattr(DEFAULTS, section)).__annotations__[key])
        what = f"expected {', '.join(map(repr, choices[:-1]))} or {choices[-1]!r}"
    what = what.partition(", got `")[0]
    for kind, words in KINDS.items():
        what = what.replace(kind, words)
    return f"{section}.{key}={reprlib.repr(layers[section][key])}: {what[0].lower()}{what[1:]}"
