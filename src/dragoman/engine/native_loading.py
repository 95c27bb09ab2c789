"""From a model folder to a model in the CPU engine; no torch.

The engine takes the quantized weights if `dragoman quantize` has left some, mapped as they are, else it takes the
float32 weights and packs them in memory. Which weights a file was quantized from stands in its metadata.
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from dragoman.config import Config
from dragoman.engine.matrices import matrices, weight_specs
from dragoman.engine.native_backend import NativeBackend
from dragoman.engine.native_model import NativeModel
from dragoman.engine.packing import LARGEST, pack, position_tables, specs
from dragoman.errors import FolderError, ShapeError
from dragoman.store import files, records, tensors
from dragoman.store.files import shown
from dragoman.store.folder import ModelFolder
from dragoman.store.tensors import Array, Header, Mapped, Spec


@dataclass(frozen=True)
class Sizes:
    """What is known of a model before its weights are read."""

    config: Config
    src_vocab: int
    tgt_vocab: int
    pieces: int
    "Target ids that a tokenizer knows."
    positions: int
    "The most that either side needs; what sinusoids are computed for."

    @property
    def matrices(self) -> tuple[str, ...]:
        """Names of all matrices."""
        return tuple(matrix.name for matrix in matrices(self.config.model, self.tgt_vocab))


def open_engine(folder: ModelFolder, is_exact: bool) -> Mapped | None:
    """The quantized weights, if the folder has some; they are checked on another thread from now on.

    Args:
        is_exact: leave them alone.

    Raises:
        FolderError: the file is damaged.
    """
    return Mapped(folder.engine) if folder.engine.exists() and not is_exact else None


def load_native(folder: ModelFolder, sizes: Sizes, threads: int, engine: Mapped | None) -> NativeBackend:
    """The model behind the translator's interface.

    Args:
        engine: of :func:`open_engine`; without it the float32 weights are taken.

    Raises:
        EngineError: there is no engine, or it refuses the model.
        FolderError: a file is damaged, or the quantized weights were made from others than the folder's.
    """
    if not engine:
        return to_backend(pack(read_weights(folder, sizes), sizes.config.model, sizes.tgt_vocab), sizes, threads)
    expected = _engine_specs(folder, sizes, engine)
    engine.check(expected)
    tables, positions = position_tables(sizes.config.model, sizes.positions)  # while the digest is being computed
    return _backend({**engine.arrays(expected), **tables}, sizes, positions, threads)


def to_backend(arrays: Mapping[str, Array], sizes: Sizes, threads: int) -> NativeBackend:
    """A model of packed arrays; see :func:`dragoman.engine.packing.pack`."""
    tables, positions = position_tables(sizes.config.model, sizes.positions)
    return _backend({**arrays, **tables}, sizes, positions, threads)


def read_weights(folder: ModelFolder, sizes: Sizes) -> dict[str, Array]:
    """The float32 weights; their shapes are compared with the configuration before memory is taken."""
    _check_vocabularies(sizes)
    return tensors.read_arrays(folder.weights, weight_specs(sizes.config.model, sizes.src_vocab, sizes.tgt_vocab))


def map_engine(folder: ModelFolder, sizes: Sizes, engine: Mapped) -> dict[str, Array]:
    """The quantized weights, mapped into memory.

    Raises:
        FolderError: the file is damaged, does not fit the configuration, or was made from other weights.
    """
    return engine.arrays(_engine_specs(folder, sizes, engine))


def _engine_specs(folder: ModelFolder, sizes: Sizes, engine: Mapped) -> dict[str, Spec]:
    _check_vocabularies(sizes)
    precise = read_precise(folder, engine.header)
    if not set(precise) <= set(sizes.matrices):
        raise FolderError(f"{shown(folder.engine)} does not fit the configuration: it keeps a matrix that there is not")
    return specs(sizes.config.model, sizes.src_vocab, sizes.tgt_vocab, precise)


def read_precise(folder: ModelFolder, engine: Header) -> tuple[str, ...]:
    """Names of the matrices that the quantized weights, whose header ``engine`` is, keep in float32.

    Raises:
        FolderError: the file is damaged, or was made from other weights than the folder has now, or otherwise.
    """
    metadata = engine.metadata
    again = f"run `dragoman quantize {shown(folder.root)}` again, or delete it"
    if metadata.get("weights_sha256") != tensors.read_header(folder.weights).sha256:
        raise FolderError(
            f"{shown(folder.engine)} was made from other weights than {folder.weights.name} has now: {again}"
        )
    if metadata.get("largest") != str(LARGEST):
        raise FolderError(f"{shown(folder.engine)} was made by another version of dragoman: {again}")
    where = f"the list of matrices in {shown(folder.engine)}"
    precise = records.decode(metadata.get("precise", "").encode(), where)
    if type(precise) is not list or any(type(name) is not str for name in precise):
        raise FolderError(f"{where} is damaged: it is no list of names")
    return tuple(precise)


def write_engine(
    folder: ModelFolder, arrays: Mapping[str, Array], precise: Collection[str], weights_sha256: str
) -> None:
    """Put quantized weights into the folder, atomically; what `dragoman bench` found best without them is forgotten.

    Args:
        precise: what ``arrays`` were packed with.
        weights_sha256: of the weights they were made from, as their header has it.
    """
    metadata = {"weights_sha256": weights_sha256, "precise": json.dumps(sorted(precise)), "largest": str(LARGEST)}
    with files.explained("delete", folder.bench):
        folder.bench.unlink(missing_ok=True)
    files.write_atomic_chunks(folder.engine, tensors.encode_arrays(arrays, metadata))


def _backend(arrays: Mapping[str, Array], sizes: Sizes, positions: int, threads: int) -> NativeBackend:
    model = NativeModel(arrays, sizes.config.model, sizes.src_vocab, sizes.tgt_vocab, sizes.pieces, positions)
    return NativeBackend(model, threads)


def _check_vocabularies(sizes: Sizes) -> None:
    if sizes.config.model.tied == "three-way" and sizes.src_vocab != sizes.tgt_vocab:
        raise ShapeError(
            f'model.tied="three-way" needs one vocabulary, not {sizes.src_vocab} and {sizes.tgt_vocab} pieces;'
            ' use model.tied="output"'
        )
