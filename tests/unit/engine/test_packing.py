"""The engine's arrays: a matrix product over the packed layout, done by hand, is the model's own."""

import tracemalloc
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dragoman.config import ModelConfig
from dragoman.engine.matrices import Matrix, matrices, norms, up, weight_specs, widened
from dragoman.engine.packing import pack, pack_matrix, position_tables, quantize, sinusoids, specs
from dragoman.model import positions
from dragoman.model.build import build, named_weights
from dragoman.model.families import EncoderDecoder
from dragoman.store import tensors
from toys import ALL_VARIANTS, POSITIONS, VARIANTS, VOCAB, name_of, toy_config, toy_model

LAYOUTS = [name for name in POSITIONS if name != "learned"]


def weights_of(model: EncoderDecoder) -> dict[str, Any]:
    return {name: tensor.numpy() for name, tensor in named_weights(model).items()}


def unpacked(arrays: dict[str, Any], name: str) -> NDArray[np.float64]:
    """The matrix [outputs16, inputs64] that stands in the panels, read one weight after the other."""
    panels = arrays[f"{name}.weights"]
    if panels.dtype == np.float32:
        count, inputs, width = panels.shape
        whole = np.zeros((count * width, inputs))
        for (panel, column, lane), weight in np.ndenumerate(panels):
            whole[panel * 16 + lane, column] = weight
        return whole
    count, groups, width, group = panels.shape
    whole = np.zeros((count * width, groups * group))
    for (panel, column, lane, place), weight in np.ndenumerate(panels):
        whole[panel * 16 + lane, column * 4 + place] = weight
    np.testing.assert_array_equal(arrays[f"{name}.sums"], whole.sum(axis=1))
    return whole * arrays[f"{name}.scales"][:, None].astype(np.float64)


def product(arrays: dict[str, Any], name: str, x: NDArray[Any]) -> NDArray[Any]:
    whole = unpacked(arrays, name)
    grown = np.zeros((*x.shape[:-1], whole.shape[1]))
    grown[..., : x.shape[-1]] = x
    return grown @ whole.T + arrays.get(f"{name}.bias", 0.0)


def heads_of(projected: NDArray[Any], heads: int, head_dim: int) -> NDArray[Any]:
    """What stands in the heads, once what was added behind each is seen to be zero."""
    wide = projected[..., : heads * widened(head_dim, 1)].reshape(*projected.shape[:-1], heads, widened(head_dim, 1))
    assert not wide[..., head_dim:].any()
    return wide[..., :head_dim].reshape(*projected.shape[:-1], heads * head_dim)


@pytest.mark.parametrize("variant", ALL_VARIANTS, ids=name_of)
def test_the_weights_file_is_known_without_torch(variant: dict[str, Any]) -> None:
    config = toy_config(**variant)
    with torch.device("meta"):
        assert weight_specs(config, VOCAB, VOCAB) == tensors.specs(named_weights(build(config, VOCAB, VOCAB)))


def test_two_vocabularies_are_not_mistaken_for_each_other() -> None:
    config = toy_config(tied="output")
    with torch.device("meta"):
        assert weight_specs(config, 24, 40) == tensors.specs(named_weights(build(config, 24, 40)))
    shapes = specs(config, 24, 40)
    assert shapes["src_embedding"] == ((32, 8), "F32")
    assert shapes["tgt_embedding"] == ((48, 8), "F32")


@pytest.mark.parametrize("precise", [None, (), ("output", "decoder.0.qkv")], ids=["float", "int8", "mixed"])
@pytest.mark.parametrize("variant", VARIANTS, ids=name_of)
def test_shapes_are_told_before_they_are_made(variant: dict[str, Any], precise: tuple[str, ...] | None) -> None:
    config = toy_config(d_model=20, num_heads=5, d_ff=36, **variant)
    arrays = pack(
        weights_of(toy_model(torch.float32, d_model=20, num_heads=5, d_ff=36, **variant)), config, VOCAB, precise
    )
    assert {name: (array.shape, tensors._FROM_NUMPY[array.dtype.str]) for name, array in arrays.items()} == specs(
        config, VOCAB, VOCAB, precise
    )
    assert not [name for name, array in arrays.items() if array.nbytes % 64]
    assert all(array.flags.c_contiguous for array in arrays.values())


def test_every_weight_has_its_place() -> None:
    """Each appears as often as it is used: the three-way matrix twice, all others once."""
    config = toy_config(d_model=20, num_heads=5, d_ff=36, positions="learned", norm_first=True, activation="swiglu")
    model = toy_model(
        torch.float32, d_model=20, num_heads=5, d_ff=36, positions="learned", norm_first=True, activation="swiglu"
    )
    weights = weights_of(model)
    arrays = pack(weights, config, VOCAB)
    kept = np.concatenate([array.ravel() for array in arrays.values()])
    wanted = np.concatenate(
        [*(weight.ravel() for weight in weights.values()), weights["src_embedding.token.weight"].ravel()]
    )
    np.testing.assert_array_equal(np.sort(kept[kept != 0]), np.sort(wanted))


@pytest.mark.parametrize(("d_model", "num_heads"), [(8, 2), (20, 5), (48, 3), (96, 4), (15, 3)])
def test_products_over_the_packed_layout_are_the_model_s(d_model: int, num_heads: int) -> None:
    sizes = {"d_model": d_model, "num_heads": num_heads, "d_ff": 36}
    config, model = toy_config(**sizes), toy_model(torch.float32, **sizes)
    arrays = pack(weights_of(model), config, VOCAB)
    x = torch.randn(3, d_model, generator=torch.Generator().manual_seed(2))
    head_dim, layer = d_model // num_heads, model.decoder.layers[0]
    with torch.inference_mode():
        attention = layer.self_attention
        wanted = torch.cat([attention.query(x), attention.key_value(x)], dim=-1).numpy()
        found = product(arrays, "decoder.0.qkv", x.numpy())
        np.testing.assert_allclose(heads_of(found, 3 * num_heads, head_dim), wanted, atol=1e-5)
        spread = np.zeros((3, num_heads, widened(head_dim, 1)), np.float32)
        spread[..., :head_dim] = x.numpy().reshape(3, num_heads, head_dim)
        found = product(arrays, "decoder.0.out", spread.reshape(3, -1))[:, :d_model]
        np.testing.assert_allclose(found, attention.output(x).numpy(), atol=1e-5)
        cross = layer.cross_attention
        found = product(arrays, "decoder.0.cross_kv", x.numpy())
        np.testing.assert_allclose(heads_of(found, 2 * num_heads, head_dim), cross.key_value(x).numpy(), atol=1e-5)
        inner = layer.feed_forward.inner(x)
        found = product(arrays, "decoder.0.inner", x.numpy())
        np.testing.assert_allclose(found[:, :36], inner.numpy(), atol=1e-5)
        np.testing.assert_allclose(product(arrays, "output", x.numpy())[:, :VOCAB], model.output(x).numpy(), atol=1e-5)


def test_the_order_of_matrices_and_norms() -> None:
    names = [matrix.name for matrix in matrices(toy_config(), VOCAB)]
    decoder = ["qkv", "out", "cross_query", "cross_kv", "cross_out", "inner", "outer"]
    assert names == [
        *(f"encoder.{number}.{part}" for number in range(2) for part in ("qkv", "out", "inner", "outer")),
        *(f"decoder.0.{part}" for part in decoder),
        "output",
    ]
    assert list(norms(toy_config(norm_first=True))) == [
        *(f"encoder.{number}.{part}" for number in range(2) for part in ("self_norm", "ff_norm")),
        *("decoder.0.self_norm", "decoder.0.cross_norm", "decoder.0.ff_norm", "encoder.norm", "decoder.norm"),
    ]


@settings(max_examples=50)
@given(st.integers(1, 70), st.integers(1, 140), st.booleans(), st.integers(0, 2**31))
def test_any_size(outputs: int, inputs: int, is_int8: bool, seed: int) -> None:
    draws = np.random.default_rng(seed)
    weights = {
        "w.weight": draws.normal(size=(outputs, inputs)).astype(np.float32),
        "w.bias": draws.normal(size=outputs).astype(np.float32),
    }
    arrays = pack_matrix(weights, Matrix("m", (("w", outputs),), inputs), is_int8)
    whole = unpacked(arrays, "m")
    assert whole.shape == (up(outputs, 16), up(inputs, 64))
    assert not whole[outputs:].any()
    assert not whole[:, inputs:].any()
    off = np.abs(whole[:outputs, :inputs] - weights["w.weight"])
    limits = arrays["m.scales"][:outputs, None] * 0.5001 if is_int8 else np.zeros((outputs, 1))
    assert (off <= limits).all()


def test_rounding_is_to_nearest_and_ties_to_even() -> None:
    rows = np.array([[127.0, 0.5, 1.5, 2.5, -0.5, -1.5, 3.4, -3.6], [0.0] * 8, [-1e-38] + [0.0] * 7], np.float32)
    whole, scales = quantize(rows)
    assert whole[0].tolist() == [127, 0, 2, 2, 0, -2, 3, -4]
    assert not whole[1].any()
    assert scales.tolist()[:2] == [1.0, 0.0]
    assert np.isfinite(scales).all()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("d_model", [1, 2, 3, 7, 20, 512, 1023])
def test_sinusoids_are_the_model_s_to_the_bit(layout: str, d_model: int) -> None:
    theirs = positions.sinusoids(torch.arange(1024), d_model, layout).float().numpy()
    np.testing.assert_array_equal(sinusoids(1024, d_model, layout).astype(np.float32), theirs)


def test_positions_are_computed_or_learned() -> None:
    config = toy_config(positions="learned")
    arrays = pack(weights_of(toy_model(torch.float32, positions="learned")), config, VOCAB)
    assert position_tables(config, 1000) == ({}, config.max_positions)
    assert arrays["src_positions"].shape[0] == up(config.max_positions, 16)
    tables, rows = position_tables(toy_config(), 77)
    assert tables["src_positions"] is tables["tgt_positions"]
    assert tables["src_positions"].shape == (rows, 8) == (77, 8)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_many_positions_take_the_memory_of_their_table(layout: str) -> None:
    config, count = toy_config(positions=layout, d_model=64), 20_001
    wanted = sinusoids(count, 64, layout).astype(np.float32)
    tracemalloc.start()
    try:
        found = position_tables(config, count)[0]["src_positions"]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    np.testing.assert_array_equal(found, wanted)
    assert peak < 2 * found.nbytes


def test_what_is_shared_stands_once() -> None:
    tied: dict[str, ModelConfig] = {name: toy_config(tied=name) for name in ("three-way", "output", "none")}
    assert [name for name, config in tied.items() if "tgt_embedding" in specs(config, VOCAB, VOCAB)] == [
        "output",
        "none",
    ]
