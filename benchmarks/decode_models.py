"""One set of weights in three programs: a dragoman folder, CTranslate2's form of it, Hugging Face's MarianMT with it.

The folder is the original; the other two are filled from the tensors in it by name, none changed and none left out.
Ids are the same everywhere: dragoman's tokenizer numbers the pieces, 1 begins a target and 2 ends a sentence.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ctranslate2
import numpy as np
import torch
from ctranslate2.specs import common_spec, transformer_spec
from safetensors.numpy import load_file

from dragoman import config as configuration
from dragoman.config import Config, merge
from dragoman.model.build import build, named_weights
from dragoman.model.positions import sinusoids
from dragoman.store.folder import ModelFolder
from dragoman.text.tokenizer import BOS, EOS, PAD, SPECIALS, Tokenizer

ARCHITECTURES: dict[str, dict[str, int]] = {
    "base": {"num_encoder_layers": 6, "num_decoder_layers": 6, "d_model": 512, "d_ff": 2048, "num_heads": 8},
    "small": {"num_encoder_layers": 6, "num_decoder_layers": 2, "d_model": 256, "d_ff": 1024, "num_heads": 4},
    "toy": {"num_encoder_layers": 2, "num_decoder_layers": 1, "d_model": 64, "d_ff": 96, "num_heads": 2},
}
"""Sizes by name; toy is for trying the benchmark itself."""

VOCABULARY = 8000
POSITIONS = 1024
Weights = dict[str, np.ndarray[Any, Any]]


def pair_tokenizer(pieces: int = VOCABULARY) -> Tokenizer:
    """A tokenizer of exactly ``pieces`` pieces: special ones, bytes, and pairs of letters; nothing was learned."""
    letters = [chr(code) for code in range(ord("!"), ord("~") + 1)]
    pairs = [(left, right) for left in letters for right in letters][: pieces - len(SPECIALS) - 256]
    smallest = Tokenizer.learn([], len(SPECIALS) + 256).vocab
    return Tokenizer(smallest | {left + right: len(smallest) + i for i, (left, right) in enumerate(pairs)}, pairs)


def write_random(root: Path, architecture: str) -> Path:
    """A folder with random weights in Marian's form: post-norm, relu, sines before cosines, one tied matrix."""
    sizes = {**ARCHITECTURES[architecture], "positions": "sinusoidal_half", "norm_first": False}
    config = merge([{"text": {"vocab_size": VOCABULARY}, "model": sizes}])
    folder = ModelFolder.create(root)
    shutil.rmtree(folder.training)
    folder.tokenizers(shared=True)[0].write_text(pair_tokenizer().to_json(), encoding="utf-8")
    folder.config.write_text(config.to_toml(), encoding="utf-8")
    model = build(config.model, VOCABULARY, VOCABULARY)
    weights = named_weights(model)
    randomize(weights, torch.Generator().manual_seed(0))
    folder.write_weights(weights)
    return root


def randomize(weights: dict[str, torch.Tensor], generator: torch.Generator) -> None:
    """Fill ``weights`` so that what comes out depends on the whole history: strong queries, strong sub-layers.

    The rows of the special pieces are zero, so that no search ever wants them: what the peers do about pieces that may
    not be produced (they renormalise, we do not) then makes no difference.
    """
    for name, weight in weights.items():
        if name.endswith("token.weight"):
            weight.normal_(0, weight.shape[1] ** -0.5, generator=generator)[[PAD, BOS, EOS]] = 0.0
        elif weight.dim() == 2:
            strong = any(part in name for part in ("attention.query", "attention.output", "outer"))
            rows = weight.shape[0] // (2 if "key_value" in name else 1)
            deviation = (3.0 if strong else 1.0) * (2 / (rows + weight.shape[1])) ** 0.5
            weight.normal_(0, deviation, generator=generator)
        else:
            weight.fill_(1.0 if name.endswith("norm.weight") else 0.0)


class Folder:
    """What a conversion needs of a model folder."""

    def __init__(self, root: Path) -> None:
        self.paths = ModelFolder.open(root)
        self.config: Config = configuration.load(self.paths.config)
        self.weights: Weights = load_file(self.paths.weights)
        read = [
            Tokenizer.from_json(path.read_text(encoding="utf-8"))
            for path in self.paths.tokenizers(self.config.text.shared)
        ]
        self.src, self.tgt = read[0], read[-1]

    def matrix(self, side: str) -> np.ndarray[Any, Any]:
        """The matrix of ``src``, ``tgt`` or ``output``; a tied one stands under the first of its names."""
        names = {"src": "src_embedding.token.weight", "tgt": "tgt_embedding.token.weight", "output": "output.weight"}
        earlier = {"src": ("src",), "tgt": ("tgt", "src"), "output": ("output", "tgt", "src")}[side]
        return next(self.weights[names[name]] for name in earlier if names[name] in self.weights)

    def positions(self, side: str) -> np.ndarray[Any, Any]:
        """What is added to the embeddings, a row a position."""
        model = self.config.model
        if model.positions == "learned":
            return self.weights[f"{side}_embedding.position.weight"]
        return sinusoids(torch.arange(POSITIONS), model.d_model, model.positions).float().numpy()


def write_int8(root: Path) -> Path:
    """Add int8 weights to a folder, of all matrices; unlike `dragoman quantize` without asking what that changes."""
    from dragoman.engine.loading import sizes_of
    from dragoman.engine.native_loading import read_weights, write_engine
    from dragoman.engine.packing import pack
    from dragoman.store.tensors import read_header

    folder = Folder(root)
    sizes = sizes_of(folder.config, folder.src, folder.tgt)
    arrays = pack(read_weights(folder.paths, sizes), folder.config.model, sizes.tgt_vocab, precise=())
    write_engine(folder.paths, arrays, (), read_header(folder.paths.weights).sha256)
    return root


def vocabulary(tokenizer: Tokenizer) -> list[str]:
    """A name for every id, those that only fill the vocabulary up included."""
    names = {place: piece for piece, place in tokenizer.vocab.items()}
    return [names.get(place, f"<unused{place}>") for place in range(tokenizer.vocab_size)]


def write_ctranslate2(folder: Folder, out: Path) -> Path:
    """The same model as CTranslate2 wants it; weights stay float32, it quantizes them when it loads them."""
    model = folder.config.model
    activations = {"gelu": common_spec.Activation.GELU, "geglu": common_spec.Activation.GELU}
    activations["swiglu"] = common_spec.Activation.SWISH
    spec = transformer_spec.TransformerSpec.from_config(
        (model.num_encoder_layers, model.num_decoder_layers),
        model.num_heads,
        pre_norm=model.norm_first,
        activation=activations.get(model.activation, common_spec.Activation.RELU),
        ffn_glu=model.activation in ("swiglu", "geglu"),
    )
    _fill_stack(folder, spec.encoder, "encoder")
    _fill_stack(folder, spec.decoder, "decoder")
    spec.encoder.embeddings[0].weight = folder.matrix("src")
    spec.decoder.embeddings.weight = folder.matrix("tgt")
    spec.decoder.projection.weight = folder.matrix("output")
    spec.encoder.position_encodings.encodings = folder.positions("src")
    spec.decoder.position_encodings.encodings = folder.positions("tgt")
    spec.register_source_vocabulary(vocabulary(folder.src))
    spec.register_target_vocabulary(vocabulary(folder.tgt))
    spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = SPECIALS
    spec.config.decoder_start_token = SPECIALS[BOS]
    spec.config.layer_norm_epsilon = 1e-5
    spec.validate()
    spec.optimize(quantization=None)
    out.mkdir(parents=True, exist_ok=True)
    spec.save(str(out))
    return out


def _fill_stack(folder: Folder, spec: Any, side: str) -> None:
    weights = folder.weights
    for place, layer in enumerate(spec.layer):
        name = f"{side}.layers.{place}"
        own = f"{name}.self_attention"
        fused = [
            np.concatenate([weights[f"{own}.{m}.{w}"] for m in ("query", "key_value")]) for w in ("weight", "bias")
        ]
        layer.self_attention.linear[0].weight, layer.self_attention.linear[0].bias = fused
        _fill(layer.self_attention.linear[1], weights, f"{own}.output")
        _fill_norm(layer.self_attention.layer_norm, weights, f"{own}_residual.norm")
        if side == "decoder":
            for linear, part in zip(layer.attention.linear, ("query", "key_value", "output"), strict=True):
                _fill(linear, weights, f"{name}.cross_attention.{part}")
            _fill_norm(layer.attention.layer_norm, weights, f"{name}.cross_attention_residual.norm")
        _fill_feed_forward(layer.ffn, weights, f"{name}.feed_forward")
        _fill_norm(layer.ffn.layer_norm, weights, f"{name}.feed_forward_residual.norm")
    if folder.config.model.norm_first:
        _fill_norm(spec.layer_norm, weights, f"{side}.norm")


def _fill_feed_forward(spec: Any, weights: Weights, name: str) -> None:
    _fill(spec.linear_1, weights, f"{name}.outer")
    if hasattr(spec, "linear_0_noact"):
        for part in ("weight", "bias"):
            gate, linear = np.split(weights[f"{name}.inner.{part}"], 2)
            setattr(spec.linear_0, part, np.ascontiguousarray(gate))
            setattr(spec.linear_0_noact, part, np.ascontiguousarray(linear))
    else:
        _fill(spec.linear_0, weights, f"{name}.inner")


def _fill(linear: Any, weights: Weights, name: str) -> None:
    linear.weight, linear.bias = weights[f"{name}.weight"], weights[f"{name}.bias"]


def _fill_norm(norm: Any, weights: Weights, name: str) -> None:
    norm.gamma, norm.beta = weights[f"{name}.weight"], weights[f"{name}.bias"]


def is_marian(config: Config) -> bool:
    """Whether MarianMT can be this model."""
    model = config.model
    return not model.norm_first and model.activation in ("relu", "gelu") and model.tied == "three-way"


def marian(folder: Folder) -> Any:
    """The same model as MarianMT, in evaluation mode."""
    from marian import build as build_marian

    sizes = folder.config.model
    model = build_marian(
        folder.tgt.vocab_size,
        sizes.d_model,
        sizes.d_ff,
        (sizes.num_encoder_layers, sizes.num_decoder_layers),
        sizes.num_heads,
        activation_function=sizes.activation,
        max_position_embeddings=len(folder.positions("src")),
    ).eval()
    state = {name: torch.from_numpy(np.ascontiguousarray(value)) for name, value in _marian_weights(folder)}
    state["final_logits_bias"] = torch.zeros(1, folder.tgt.vocab_size)
    model.load_state_dict(state)
    model.generation_config.bad_words_ids = model.generation_config.forced_eos_token_id = None
    return model


def _marian_weights(folder: Folder) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    for name in ("model.shared", "model.encoder.embed_tokens", "model.decoder.embed_tokens", "lm_head"):
        yield f"{name}.weight", folder.matrix("src")
    for side, ours in (("encoder", "src"), ("decoder", "tgt")):
        yield f"model.{side}.embed_positions.weight", folder.positions(ours)
    for name, value in folder.weights.items():
        if ".layers." in name:
            yield from _marian_layer(f"model.{name}", value)


def _marian_layer(name: str, value: np.ndarray[Any, Any]) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    renamed = (
        ("self_attention_residual.norm", "self_attn_layer_norm"),
        ("cross_attention_residual.norm", "encoder_attn_layer_norm"),
        ("feed_forward_residual.norm", "final_layer_norm"),
        ("feed_forward.inner", "fc1"),
        ("feed_forward.outer", "fc2"),
        ("self_attention.", "self_attn."),
        ("cross_attention.", "encoder_attn."),
        (".query.", ".q_proj."),
        (".output.", ".out_proj."),
    )
    for ours, theirs in renamed:
        name = name.replace(ours, theirs)
    if ".key_value." in name:
        keys, values = np.split(value, 2)
        yield name.replace("key_value", "k_proj"), keys
        yield name.replace("key_value", "v_proj"), values
    else:
        yield name, value


def versions() -> dict[str, str]:
    """Of the programs compared."""
    import transformers

    import dragoman

    compared = {"dragoman": dragoman, "ctranslate2": ctranslate2, "transformers": transformers, "torch": torch}
    return {name: module.__version__ for name, module in compared.items()}
