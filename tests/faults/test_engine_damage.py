"""Damaged weights and absurd configurations: refused in one line before memory is taken, never a crash (D3, D4)."""

import contextlib
import json
import random
import re
import shutil
import tracemalloc
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dragoman import config as configuration
from dragoman.engine.loading import load, read_tokenizers, sizes_of
from dragoman.engine.native_loading import Sizes, map_engine, read_weights, write_engine
from dragoman.engine.packing import pack
from dragoman.errors import DragomanError, FolderError
from dragoman.store import tensors
from dragoman.store.folder import ModelFolder
from dragoman.store.tensors import Array, Mapped
from engines import needs_engine
from folders import write_model

pytestmark = needs_engine

BIG = 8 << 20
"""Bytes; the model has a hundredth of that."""

LINES = ["one two", "the cat is on the mat"]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = write_model(tmp_path_factory.mktemp("damage") / "model")
    write_engine(ModelFolder(root), packed(root), ("decoder.1.outer",), digest(root))
    return root


@pytest.fixture(scope="module")
def whole(root: Path) -> bytes:
    return (root / "engine.safetensors").read_bytes()


@pytest.fixture
def copy(root: Path, tmp_path: Path) -> Path:
    return shutil.copytree(root, tmp_path / "model")


def sizes(root: Path) -> Sizes:
    config = configuration.load(root / "config.toml")
    return sizes_of(config, *read_tokenizers(ModelFolder(root), config))


def packed(root: Path) -> dict[str, Array]:
    known = sizes(root)
    weights = read_weights(ModelFolder(root), known)
    return pack(weights, known.config.model, known.tgt_vocab, ("decoder.1.outer",))


def digest(root: Path) -> str:
    return tensors.read_header(root / "model.safetensors").sha256


@contextlib.contextmanager
def modest() -> Iterator[None]:
    """Nothing inside takes much memory."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < BIG
    finally:
        tracemalloc.stop()


def refused(root: Path) -> str:
    """What is said when the model in ``root`` is loaded."""
    with modest(), pytest.raises(DragomanError) as caught:
        load(root, "native", 1)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# The quantized weights -----------------------------------------------------------------------------------------------


def boundaries(whole: bytes) -> list[int]:
    """Sizes at which length, header or a tensor ends (of the tensors one in eight), and those beside and between."""
    start = 8 + int.from_bytes(whole[:8], "little")
    header = json.loads(whole[8:start])
    ends = sorted(start + entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__")
    places = [0, 8, start, *ends[::8], len(whole)]
    beside = {place + step for place in places for step in (-1, 0, 1)}
    between = {(left + right) // 2 for left, right in pairwise(places)}
    return sorted(size for size in beside | between if 0 <= size < len(whole))


def test_cut_at_every_boundary(copy: Path, whole: bytes) -> None:
    known, folder = sizes(copy), ModelFolder(copy)
    cuts = boundaries(whole)
    assert len(cuts) > 30
    for size in cuts:
        folder.engine.write_bytes(whole[:size])
        with modest(), pytest.raises(FolderError, match=r"^\S+engine\.safetensors [^\n]*$"):
            map_engine(folder, known, Mapped(folder.engine))
    assert "engine.safetensors" in refused(copy)
    folder.engine.write_bytes(whole + b"\0")
    assert "engine.safetensors" in refused(copy)


@pytest.mark.parametrize("part", ["header", "data"])
def test_two_hundred_flipped_bytes(copy: Path, whole: bytes, part: str) -> None:
    start = 8 + int.from_bytes(whole[:8], "little")
    places = range(start) if part == "header" else range(start, len(whole))
    known, folder, draws = sizes(copy), ModelFolder(copy), random.Random(19)
    sound = map_engine(folder, known, Mapped(folder.engine))
    for _ in range(100):
        data = bytearray(whole)
        data[draws.choice(places)] ^= draws.randint(1, 255)
        folder.engine.unlink()  # what is mapped must not change
        folder.engine.write_bytes(data)
        found, said = mapped(folder, known)
        assert re.fullmatch(r".*engine\.safetensors.*", said) or found
        assert said or data.split() == whole.split(), "but for white space"
        assert all(np.array_equal(array, sound[name]) for name, array in found.items())


def mapped(folder: ModelFolder, known: Sizes) -> tuple[dict[str, Array], str]:
    """The arrays, or what is said instead."""
    try:
        with modest():
            return map_engine(folder, known, Mapped(folder.engine)), ""
    except FolderError as error:
        return {}, str(error)


@settings(max_examples=40)
@given(st.floats(0, 1, exclude_max=True), st.integers(1, 255))
@example(0.0, 255)
def test_a_flipped_byte_is_noticed_by_whoever_loads(flipped: Path, whole: bytes, place: float, change: int) -> None:
    data = bytearray(whole)
    data[int(place * len(data))] ^= change
    (flipped / "engine.safetensors").unlink()
    (flipped / "engine.safetensors").write_bytes(data)
    with contextlib.suppress(DragomanError), modest():
        assert len(load(flipped, "native", 1).translate(LINES)) == len(LINES)
        assert bytes(data).split() == whole.split(), "but for white space"


@pytest.fixture(scope="module")
def flipped(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shutil.copytree(root, tmp_path_factory.mktemp("flipped") / "model")


def other_shape(array: Array) -> Array:
    return np.zeros((*array.shape[:-1], array.shape[-1] + 64), array.dtype)


def other_rank(array: Array) -> Array:
    return np.ascontiguousarray(array.reshape(-1))


def other_dtype(array: Array) -> Array:
    return array.astype(np.float64)


def huge(array: Array) -> Array:
    """Of no size, but as long as it can be."""
    return np.zeros((2**40, 0), array.dtype)


@pytest.mark.parametrize("change", [other_shape, other_rank, other_dtype, huge])
@pytest.mark.parametrize("name", ["src_embedding", "encoder.0.qkv.weights", "decoder.1.outer.weights"])
def test_arrays_that_do_not_fit(copy: Path, name: str, change: Callable[[Array], Array]) -> None:
    arrays = packed(copy)
    write_engine(ModelFolder(copy), {**arrays, name: change(arrays[name])}, ("decoder.1.outer",), digest(copy))
    assert re.search(rf"does not fit the configuration: tensor {re.escape(name)} is .* not ", refused(copy))


@pytest.mark.parametrize("name", ["output.scales", "decoder.0.self_norm.gamma", "decoder.1.outer.bias"])
def test_arrays_that_are_missing_or_too_many(copy: Path, name: str) -> None:
    arrays = packed(copy)
    more = {**arrays, "more": np.zeros(16, np.float32)}
    write_engine(ModelFolder(copy), more, ("decoder.1.outer",), digest(copy))
    assert "its tensor more has no place" in refused(copy)
    del arrays[name]
    write_engine(ModelFolder(copy), arrays, ("decoder.1.outer",), digest(copy))
    assert f"it has no tensor {name}" in refused(copy)


@pytest.mark.parametrize("precise", [(), ("output",), ("decoder.1.outer", "output")])
def test_a_wrong_list_of_matrices(copy: Path, precise: tuple[str, ...]) -> None:
    write_engine(ModelFolder(copy), packed(copy), precise, digest(copy))
    assert "does not fit the configuration" in refused(copy)


@pytest.mark.parametrize("value", [3e38, -3e38, 1e30, 0.0])
@pytest.mark.parametrize(
    "name", ["src_embedding", "output.scales", "encoder.0.inner.scales", "decoder.1.self_norm.gamma"]
)
def test_sound_files_with_wild_numbers(copy: Path, name: str, value: float) -> None:
    """No check can refuse them; they give some answer, or an error of ours."""
    arrays = packed(copy)
    write_engine(
        ModelFolder(copy), {**arrays, name: np.full_like(arrays[name], value)}, ("decoder.1.outer",), digest(copy)
    )
    translator = load(copy, "native", 1)
    with contextlib.suppress(DragomanError):
        assert len(translator.translate(LINES)) == len(LINES)
    with contextlib.suppress(DragomanError):
        translator.score([("the cat", "the mat")])


# The configuration ---------------------------------------------------------------------------------------------------

ABSURD: list[dict[str, Any]] = [
    {"d_model": 10**9},
    {"d_model": 2**31},
    {"d_model": 2**63},
    {"d_model": 10**30},
    {"d_model": 0},
    {"d_model": -16},
    {"d_model": 1_000_000},
    {"d_model": 16.5},
    {"d_ff": 10**9},
    {"d_ff": 1_000_000},
    {"num_heads": 10**6},
    {"num_heads": 5},
    {"num_heads": True},
    {"num_encoder_layers": 10**6},
    {"num_encoder_layers": 256},
    {"num_decoder_layers": 2**32},
    {"positions": "learned", "max_positions": 10**12},
    {"positions": "learned", "max_positions": 65_536},
    {"d_model": 4096, "d_ff": 65_536, "num_encoder_layers": 3, "num_decoder_layers": 2},
]


def configured(root: Path, **changes: Any) -> None:
    """Write ``changes`` into the configuration's section [model], and into the weights' own record of it."""
    path = root / "config.toml"
    text = path.read_text(encoding="utf-8")
    for key, value in changes.items():
        text = re.sub(rf"(?m)^{key} = .*$", f"{key} = {json.dumps(value)}", text)
    path.write_text(text, encoding="utf-8")
    folder = ModelFolder(root)
    folder.write_weights(tensors.read_tensors(folder.weights))


@pytest.mark.parametrize("changes", ABSURD, ids=lambda changes: "-".join(f"{k}={v}" for k, v in changes.items()))
@pytest.mark.parametrize("is_quantized", [False, True], ids=["float32", "int8"])
def test_absurd_sizes(copy: Path, changes: dict[str, Any], is_quantized: bool) -> None:
    """Whether the weights claim them too or not."""
    if not is_quantized:
        (copy / "engine.safetensors").unlink()
    before = (copy / "model.safetensors").read_bytes()
    configured(copy, **changes)
    own = (copy / "model.safetensors").read_bytes()
    (copy / "model.safetensors").write_bytes(before)
    assert "but the weights were trained with" in refused(copy)
    (copy / "model.safetensors").write_bytes(own)
    said = refused(copy)
    assert re.search(r"model\.|does not fit|would have [\d,]+ parameters", said), said
