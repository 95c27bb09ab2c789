"""The CPU engine for tests: a PyTorch model in it, a folder quantized, and what to do where it was not built."""

from collections.abc import Collection
from pathlib import Path

import pytest

from dragoman import config as configuration
from dragoman.config import ModelConfig
from dragoman.engine.library import open_library
from dragoman.engine.loading import read_tokenizers, sizes_of
from dragoman.engine.native_backend import NativeBackend
from dragoman.engine.native_loading import Sizes, read_weights, write_engine
from dragoman.engine.native_model import NativeModel
from dragoman.engine.packing import pack, position_tables
from dragoman.errors import EngineError
from dragoman.model.build import named_weights
from dragoman.model.families import EncoderDecoder
from dragoman.store import tensors
from dragoman.store.folder import ModelFolder


def _missing() -> str:
    try:
        open_library()
    except EngineError as error:
        return str(error)
    return ""


needs_engine = pytest.mark.skipif(bool(_missing()), reason=_missing())


def native_of(
    model: EncoderDecoder,
    config: ModelConfig,
    pieces: int,
    precise: Collection[str] | None = None,
    threads: int = 1,
    rows: int = 64,
) -> NativeBackend:
    """The same model in the engine; ``precise`` and ``rows`` as in :mod:`dragoman.engine.packing`."""
    weights = {name: tensor.numpy() for name, tensor in named_weights(model).items()}
    src_vocab = model.src_embedding.token.weight.shape[0]
    tgt_vocab = model.output.out_features
    tables, positions = position_tables(config, rows)
    arrays = {**pack(weights, config, tgt_vocab, precise), **tables}
    return NativeBackend(NativeModel(arrays, config, src_vocab, tgt_vocab, pieces, positions), threads)


def quantized(root: Path, precise: Collection[str] = ()) -> Sizes:
    """Write int8 weights into a folder without measuring what they change."""
    folder = ModelFolder(root)
    config = configuration.load(folder.config)
    sizes = sizes_of(config, *read_tokenizers(folder, config))
    arrays = pack(read_weights(folder, sizes), config.model, sizes.tgt_vocab, precise)
    write_engine(folder, arrays, precise, tensors.read_header(folder.weights).sha256)
    return sizes
