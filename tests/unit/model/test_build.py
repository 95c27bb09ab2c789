"""From a configuration to a model: sizes, names, what is one matrix, and the numbers it starts with."""

import math

import pytest
import torch
from torch import nn

from dragoman.config import PRESETS, ModelConfig, merge, parameter_estimate
from dragoman.errors import ShapeError
from dragoman.model.attention import MultiHeadAttention
from dragoman.model.build import build, initialize, named_weights
from dragoman.model.families import EncoderDecoder
from toys import toy_config

PAPER_VOCAB = 37_000
"""Section 5.1: English-German, one vocabulary of about 37,000 pieces."""


def count(config: ModelConfig, vocab: int) -> int:
    """Parameters, without allocating them."""
    with torch.device("meta"):
        model = build(config, vocab, vocab)
    return sum(parameter.numel() for parameter in model.parameters())


def preset(name: str) -> ModelConfig:
    return merge([{"model": {"preset": name}}]).model


def test_the_papers_sizes() -> None:
    """Table 3 gives 65 and 213 million.

    The first is rounded generously: 37,000 * 512 for the vocabulary, 44.1 million in the layers.
    """
    assert count(preset("base"), PAPER_VOCAB) == pytest.approx(63e6, rel=0.01)
    assert count(preset("big"), PAPER_VOCAB) == pytest.approx(213e6, rel=0.01)


def test_base_by_hand() -> None:
    d, ff = 512, 2048
    attention, feed_forward, norm = 4 * (d * d + d), 2 * d * ff + ff + d, 2 * d
    encoder = 6 * (attention + feed_forward + 2 * norm)
    decoder = 6 * (2 * attention + feed_forward + 3 * norm)
    assert count(preset("base"), PAPER_VOCAB) == PAPER_VOCAB * d + encoder + decoder


def test_tiny_has_the_published_size() -> None:
    """Wu et al. 2021, "Transformer-Tiny" on Multi30k: 2.6 million with 9,700 pieces."""
    assert count(preset("tiny"), 9712) == pytest.approx(2.6e6, rel=0.02)


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("tied", ["three-way", "output", "none"])
def test_the_estimate_is_near(name: str, tied: str) -> None:
    config = merge([{"model": {"preset": name, "tied": tied, "positions": "learned"}, "text": {"vocab_size": 8000}}])
    assert parameter_estimate(config) == pytest.approx(count(config.model, 8000), rel=0.01)


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_builds(name: str) -> None:
    assert count(preset(name), 8000) > 0


@pytest.mark.parametrize(
    ("tied", "same"), [("three-way", (True, True)), ("output", (False, True)), ("none", (False,) * 2)]
)
def test_what_is_one_matrix(tied: str, same: tuple[bool, bool]) -> None:
    """By address; also after moving to another precision, and after an update."""
    model = build(toy_config(tied=tied), 16, 16)
    initialize(model, 1)
    model = model.double()
    model(torch.tensor([[3]]), None, torch.tensor([[1]])).sum().backward()
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    src, tgt, output = (m.weight for m in (model.src_embedding.token, model.tgt_embedding.token, model.output))
    assert (src.data_ptr() == tgt.data_ptr(), tgt.data_ptr() == output.data_ptr()) == same


def test_three_way_tying_needs_one_vocabulary() -> None:
    with pytest.raises(ShapeError, match="not 16 and 24 pieces"):
        build(toy_config(tied="three-way"), 16, 24)


@pytest.mark.parametrize("tied", ["output", "none"])
def test_two_vocabularies(tied: str) -> None:
    model = build(toy_config(tied=tied), 16, 24)
    initialize(model, 1)
    assert model(torch.tensor([[15]]), None, torch.tensor([[23]])).shape == (1, 1, 24)


@pytest.mark.parametrize(
    ("tied", "tables"),
    [
        ("three-way", ["src_embedding.token.weight"]),
        ("output", ["src_embedding.token.weight", "tgt_embedding.token.weight"]),
        ("none", ["src_embedding.token.weight", "tgt_embedding.token.weight", "output.weight"]),
    ],
)
def test_names(tied: str, tables: list[str]) -> None:
    """The names in the files of all models that were ever saved; each matrix once, and it is the model's own."""
    model = build(toy_config(tied=tied, num_encoder_layers=1, norm_first=True), 16, 16)
    weights = named_weights(model)
    blocks = {
        "encoder": ["self_attention.query", "self_attention.key_value", "self_attention.output"],
        "decoder": ["cross_attention.query", "cross_attention.key_value", "cross_attention.output"],
    }
    both = ["feed_forward.inner", "feed_forward.outer", "feed_forward_residual.norm", "self_attention_residual.norm"]
    modules = [f"encoder.layers.0.{name}" for name in [*blocks["encoder"], *both]]
    decoder = [*blocks["encoder"], *blocks["decoder"], *both, "cross_attention_residual.norm"]
    modules += [f"decoder.layers.0.{name}" for name in decoder] + ["encoder.norm", "decoder.norm"]
    assert sorted(weights) == sorted([*tables, *(f"{name}.{kind}" for name in modules for kind in ("weight", "bias"))])
    assert len({weight.data_ptr() for weight in weights.values()}) == len(weights)
    weights["decoder.norm.bias"].fill_(3.0)
    assert (model.decoder.norm.bias == 3.0).all()
    assert not any(weight.requires_grad for weight in weights.values())


def test_learned_positions_have_names_and_no_others_have() -> None:
    learned, post = (
        named_weights(build(toy_config(positions="learned"), 16, 16)),
        named_weights(build(toy_config(), 16, 16)),
    )
    assert learned.keys() - post.keys() == {"src_embedding.position.weight", "tgt_embedding.position.weight"}
    assert "encoder.norm.weight" not in post


def middle_sized(seed: int, **changes: object) -> EncoderDecoder:
    sizes = {"d_model": 64, "num_heads": 4, "d_ff": 256, "num_encoder_layers": 1, "max_positions": 400}
    model = build(toy_config(**{**sizes, **changes}), 600, 600)
    initialize(model, seed)
    return model


@pytest.mark.parametrize("tied", ["three-way", "output", "none"])
@pytest.mark.parametrize("activation", ["relu", "swiglu"])
def test_initial_spread(tied: str, activation: str) -> None:
    """Every variance is what the docstring says, within 5 %; no number is left as it was allocated."""
    model = middle_sized(3, tied=tied, activation=activation, positions="learned", norm_first=True)
    for name, weight in named_weights(model).items():
        module = model.get_submodule(name.rpartition(".")[0])
        if name.endswith("bias"):
            assert (weight == 0).all()
        elif isinstance(module, nn.LayerNorm):
            assert (weight == 1).all()
        elif name == "output.weight" or isinstance(module, nn.Linear):
            for part in weight.chunk(2) if name.endswith("key_value.weight") else [weight]:
                spread = 2 / sum(part.shape)
                assert float(part.var()) == pytest.approx(spread, rel=0.05), name
                assert float(part.abs().max()) <= math.sqrt(3 * spread), name
        else:
            assert float(weight.var()) == pytest.approx(1 / 64, rel=0.05), name
            assert float(weight.abs().max()) > 3 / 8, name


def test_post_norm_starts_near_the_identity() -> None:
    """Values, attention's output and the feed-forward network are smaller by the fourth root of 12 N."""
    sizes = {"num_encoder_layers": 2, "num_decoder_layers": 4}
    pre, post = (named_weights(middle_sized(3, norm_first=first, **sizes)) for first in (True, False))
    for name, weight in post.items():
        factor = (12 * (2 if name.startswith("encoder") else 4)) ** -0.25
        if name.endswith("key_value.weight"):
            wanted = torch.cat([pre[name].chunk(2)[0], pre[name].chunk(2)[1] * factor])
        elif name.endswith(("attention.output.weight", "inner.weight", "outer.weight")):
            wanted = pre[name] * factor
        else:
            wanted = pre[name]
        torch.testing.assert_close(weight, wanted, rtol=1e-6, atol=0)


def test_the_seed_alone_decides() -> None:
    """Also not what the memory held before, nor the state of PyTorch's own generator."""
    torch.manual_seed(1)
    first = named_weights(middle_sized(5))
    torch.manual_seed(2)
    model = middle_sized(6)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(torch.nan)
    initialize(model, 5)
    second = named_weights(model)
    assert all(torch.equal(first[name], second[name]) for name in first)
    other = named_weights(middle_sized(6))
    assert not any(torch.equal(first[name], other[name]) for name in first if first[name].var() > 0)


def test_no_two_matrices_start_equal() -> None:
    weights = [weight for weight in named_weights(middle_sized(1, num_encoder_layers=3)).values() if weight.dim() == 2]
    assert len({tuple(weight.flatten()[:5].tolist()) for weight in weights}) == len(weights)


def test_logits_start_calm() -> None:
    """With the output tied to embeddings of variance 1/d_model, first logits have a spread near 1."""
    model = middle_sized(1).eval()
    logits = model(torch.tensor([[5, 6, 7]]), None, torch.tensor([[1, 8, 9]]))
    assert 0.3 < float(logits.detach().std()) < 3.0


def test_every_attention_has_the_heads_of_the_configuration() -> None:
    heads = {m.num_heads for m in build(toy_config(num_heads=4), 16, 16).modules() if isinstance(m, MultiHeadAttention)}
    assert heads == {4}
