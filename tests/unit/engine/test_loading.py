"""From a folder to a translator."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

import dragoman
from dragoman.engine.loading import load, read_tokenizers, source_limit
from dragoman.engine.torch_backend import TorchBackend
from dragoman.engine.torch_loading import read_model
from dragoman.engine.translator import GROWTH
from dragoman.errors import FolderError
from dragoman.model.build import named_weights
from dragoman.store import tensors
from dragoman.store.folder import ModelFolder
from folders import PIECES, random_model, toy_settings, write_model

LINES = ["one", "two three", "", "Straße 12, 我喜欢"]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("loading") / "model")


def test_the_weights_are_those_of_the_file(root: Path) -> None:
    translator = load(root, "torch")
    stored = tensors.read_arrays(root / "model.safetensors")
    assert isinstance(translator.backend, TorchBackend)
    loaded = named_weights(translator.backend.model)
    assert stored.keys() == loaded.keys()
    assert all(np.array_equal(stored[name], loaded[name].numpy()) for name in stored)
    assert not translator.backend.model.training


def test_loaded_twice_it_says_the_same(root: Path) -> None:
    assert load(root).translate(LINES) == load(str(root)).translate(LINES) == dragoman.load(root).translate(LINES)


def test_one_tokenizer_or_two(tmp_path: Path) -> None:
    root = write_model(tmp_path / "model", text={"shared": False})
    config = toy_settings(text={"shared": False})
    src, tgt = read_tokenizers(ModelFolder(root), config)
    assert src is not tgt
    shared = write_model(tmp_path / "shared")
    src, tgt = read_tokenizers(ModelFolder(shared), toy_settings())
    assert src is tgt


def test_a_file_of_other_sizes_is_refused_before_memory_is_taken(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = toy_settings(model={"d_ff": 25})
    folder = ModelFolder(root)
    tokenizers = read_tokenizers(folder, config)
    monkeypatch.setattr(np, "empty", lambda *_: pytest.fail("memory was taken"))
    with pytest.raises(FolderError, match=r"feed_forward.* is F32 \[.*24.*\], not F32 \[.*25.*\]"):
        read_model(folder, config, *tokenizers)


def test_weights_of_another_vocabulary_are_refused(root: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(root, tmp_path / "copy")
    wide = tensors.read_tensors(copy / "model.safetensors")
    wide["output.weight"] = torch.cat([wide["output.weight"], torch.zeros(8, 16)])
    ModelFolder(copy).write_weights(wide)
    with pytest.raises(FolderError, match=rf"output.weight is F32 \[{PIECES + 8}, 16\], not F32 \[{PIECES}, 16\]"):
        load(copy)


def test_a_missing_and_a_superfluous_tensor_are_refused(root: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(root, tmp_path / "copy")
    weights = named_weights(random_model(toy_settings()))
    ModelFolder(copy).write_weights({**weights, "extra": torch.zeros(1)})
    with pytest.raises(FolderError, match="extra has no place"):
        load(copy)
    del weights["output.weight"]
    ModelFolder(copy).write_weights(weights)
    with pytest.raises(FolderError, match="no tensor output.weight"):
        load(copy)


@pytest.mark.parametrize(
    ("positions", "max_positions", "limit"),
    [("sinusoidal", 16, 80), ("learned", 40, 10), ("learned", 4096, 80), ("learned", 1, 1)],
)
def test_the_longest_source(positions: str, max_positions: int, limit: int) -> None:
    config = toy_settings(model={"positions": positions, "max_positions": max_positions})
    assert source_limit(config) == limit
    assert positions == "sinusoidal" or max_positions == 1 or limit * GROWTH <= max_positions
