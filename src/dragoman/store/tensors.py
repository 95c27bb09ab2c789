"""Tensors <-> a safetensors file, written by our own writer and checked before a byte is allocated.

The layout (https://github.com/huggingface/safetensors): eight bytes with the length of the header, a JSON header with
dtype, shape and byte range of each tensor, then the bytes of the tensors without gaps. In ``__metadata__`` we add

    format_version   of what dragoman writes; a newer one is refused
    sha256           of the bytes of all tensors
    header_sha256    of the rest of the header, so that names and metadata cannot be damaged unseen either

The header is padded so that the tensors begin at a multiple of 64 bytes: whoever maps the file has aligned arrays. Only
`Mapped` does that, for the engine, which must start at once; all else is read, never mapped, since a mapped file
that somebody truncates kills the process. torch is imported only by the functions that have it in their signature; the
others serve whoever runs without it.
"""

import hashlib
import json
import math
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dragoman.errors import FolderError
from dragoman.store import files, records
from dragoman.store.files import Buffer, Source, shown

if TYPE_CHECKING:
    import torch

Array = npt.NDArray[Any]
Spec = tuple[tuple[int, ...], str]
"""Shape and dtype (by its safetensors name, such as F32) of a tensor."""

FORMAT_VERSION = 1
MAX_HEADER = 16 << 20
MAX_TENSORS = 100_000
MAX_RANK = 8
ALIGNMENT = 64
"""Where the tensors begin in a file that we write; a line of the cache, and the widest register."""

_NAME = re.compile(r"[A-Za-z0-9_.\-/]{1,256}")
_SCAN = 1 << 20
_SIGNS = {
    **{b"{": MAX_TENSORS + 1000, b"[": 2 * MAX_TENSORS + 1000},
    **{b":": 4 * MAX_TENSORS + 1000, b",": 12 * MAX_TENSORS},
}
"""Most of each sign in a header that is parsed: parsing can cost fifty times its size, counting costs nothing."""
_NUMPY = {
    **{"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"},  # numpy has no bfloat16: its bits, until widened
    **{"I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "|i1"},
    **{"U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "|u1", "BOOL": "|b1"},
}
_FROM_NUMPY = {numpy_name: name for name, numpy_name in _NUMPY.items() if name != "BF16"}
_TORCH = {
    **{"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"},
    **{"I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8"},
    **{"U64": "uint64", "U32": "uint32", "U16": "uint16", "U8": "uint8", "BOOL": "bool"},
}


@dataclass(frozen=True)
class Entry:
    """One tensor in the header; ``begin`` and ``end`` are bytes counted from the end of the header."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


@dataclass(frozen=True)
class Header:
    """A checked header: the tensors in the order of their bytes, and our metadata without the three entries above."""

    entries: tuple[Entry, ...]
    metadata: Mapping[str, str]
    sha256: str

    @property
    def specs(self) -> dict[str, Spec]:
        """Shape and dtype of every tensor, without its values."""
        return {entry.name: (entry.shape, entry.dtype) for entry in self.entries}


# Writing -------------------------------------------------------------------------------------------------------------


def encode_arrays(arrays: Mapping[str, Array], metadata: Mapping[str, str]) -> list[Buffer]:
    """The content of a safetensors file, in pieces that share the memory of ``arrays``: write it before they change.

    Equal arrays and metadata give equal bytes.

    Raises:
        FolderError: a name or dtype cannot be stored, or a value is NaN or infinite.
    """
    return _encode({name: (_dtype_of(array, name), array.shape, array) for name, array in arrays.items()}, metadata)


def encode_tensors(tensors: "Mapping[str, torch.Tensor]", metadata: Mapping[str, str]) -> list[Buffer]:
    """As `encode_arrays`, for tensors on any device; those on the CPU are not copied."""
    import torch

    parts = {}
    for name, (shape, dtype) in specs(tensors).items():
        flat = tensors[name].detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        parts[name] = (dtype, shape, flat.numpy().view(_NUMPY[dtype]))
    return _encode(parts, metadata)


def specs(tensors: "Mapping[str, torch.Tensor]") -> dict[str, Spec]:
    """Shape and dtype of tensors, which may be on the meta device: what `read_tensors` takes as ``expected``."""
    names = {f"torch.{torch_name}": name for name, torch_name in _TORCH.items()}
    for key, tensor in tensors.items():
        if str(tensor.dtype) not in names:
            raise FolderError(f"tensor {key} has dtype {tensor.dtype}, which is not stored; convert it first")
    return {key: (tuple(tensor.shape), names[str(tensor.dtype)]) for key, tensor in tensors.items()}


def _dtype_of(array: Array, name: str) -> str:
    if array.dtype.str not in _FROM_NUMPY:
        raise FolderError(f"tensor {name} has dtype {array.dtype}, which is not stored; convert it first")
    return _FROM_NUMPY[array.dtype.str]


def _encode(parts: Mapping[str, tuple[str, tuple[int, ...], Array]], metadata: Mapping[str, str]) -> list[Buffer]:
    digest, header, data, begin = hashlib.sha256(), dict[str, Any](), list[Buffer](), 0
    for name in sorted(parts, key=lambda name: (-np.dtype(_NUMPY[parts[name][0]]).itemsize, name)):
        dtype, shape, array = parts[name]
        _check_name(name, "a file to be written")
        _check_values(array, dtype, f"tensor {name} is not saved: it")
        view = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
        digest.update(view)
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, begin + len(view)]}
        data.append(view)
        begin += len(view)
    own = {"format_version": str(FORMAT_VERSION), "sha256": digest.hexdigest()}
    header["__metadata__"] = {**metadata, **own}
    header["__metadata__"]["header_sha256"] = _header_digest(header)
    text = json.dumps(header, sort_keys=True, separators=(",", ":")).encode("ascii")
    text += b" " * (-(8 + len(text)) % ALIGNMENT)
    if len(text) > MAX_HEADER or len(parts) > MAX_TENSORS:
        raise FolderError(f"{len(parts):,} tensors are too many for one file; at most {MAX_TENSORS:,} are stored")
    return [len(text).to_bytes(8, "little") + text, *data]


def _header_digest(header: Mapping[str, Any]) -> str:
    metadata = {key: value for key, value in header["__metadata__"].items() if key != "header_sha256"}
    return records.digest({**header, "__metadata__": metadata})


def write_tensors(path: Path, tensors: "Mapping[str, torch.Tensor]", metadata: Mapping[str, str]) -> None:
    """Write tensors atomically; see `encode_arrays` and `files.write_atomic` for what can go wrong."""
    files.write_atomic_chunks(path, encode_tensors(tensors, metadata))


# Reading -------------------------------------------------------------------------------------------------------------


def read_tensors(path: Path, expected: Mapping[str, Spec] | None = None) -> "dict[str, torch.Tensor]":
    """Read all tensors of a file, every byte checked against its SHA-256.

    Args:
        path: a file written by `write_tensors` or by a checkpoint.
        expected: what the configuration implies; compared before anything is allocated. None reads whatever is there.

    Raises:
        FolderError: the file is missing, damaged, from a newer version, does not hold exactly ``expected``, or holds
            NaN or infinity.
    """
    import torch

    return {
        entry.name: torch.from_numpy(array.reshape(-1).view(np.uint8))
        .view(getattr(torch, _TORCH[entry.dtype]))
        .reshape(entry.shape)
        for entry, array in _read(path, expected)
    }


def read_arrays(path: Path, expected: Mapping[str, Spec] | None = None) -> dict[str, Array]:
    """As `read_tensors`, as numpy arrays and without torch; bfloat16 becomes float32, which is exact."""
    return dict(iterate_arrays(path, expected))


def iterate_arrays(path: Path, expected: Mapping[str, Spec] | None = None) -> Iterator[tuple[str, Array]]:
    """As `read_arrays`, one tensor in memory at a time; the SHA-256 is checked after the last: trust none before it."""
    for entry, array in _read(path, expected):
        yield entry.name, (_widened(array) if entry.dtype == "BF16" else array)


class Mapped:
    """A file mapped into memory: its arrays are read-only, their memory is the system's cache of the file.

    The SHA-256, which reads every byte once, is computed on a thread of its own from the beginning; whoever has
    something else to do meanwhile asks for the arrays later.
    """

    def __init__(self, path: Path) -> None:
        """Map the file and check its header.

        Raises:
            FolderError: as `read_header`; or the file cannot be mapped.
        """
        with files.reading(path) as source:
            self.header = _read_header(source)
            self._view = source.mapped()
        self._path, self._sha256 = path, ""
        self._start = len(self._view) - max((entry.end for entry in self.header.entries), default=0)
        self._hashing = threading.Thread(target=self._hash, daemon=True)
        self._hashing.start()

    def _hash(self) -> None:
        self._sha256 = hashlib.sha256(self._view[self._start :]).hexdigest()

    def check(self, expected: Mapping[str, Spec]) -> None:
        """Names, shapes and dtypes, for which no byte of a tensor is read.

        Args:
            expected: as in `read_tensors`; each tensor must have a multiple of 64 bytes, so that all are aligned.

        Raises:
            FolderError: the file does not hold exactly ``expected``, or a tensor does not begin at a multiple of 64
                bytes.
        """
        _check_expected(self.header.specs, expected, self._path)
        if any((self._start + entry.begin) % ALIGNMENT for entry in self.header.entries):
            raise FolderError(
                f"{shown(self._path)} cannot be mapped: its tensors do not begin at multiples of {ALIGNMENT} bytes"
            )

    def arrays(self, expected: Mapping[str, Spec]) -> dict[str, Array]:
        """All arrays, after `check`; SHA-256 and values are checked too.

        Raises:
            FolderError: as `check` and `read_tensors`.
        """
        self.check(expected)
        path, start = self._path, self._start
        self._hashing.join()
        if self._sha256 != self.header.sha256:
            raise _wrong_digest(path)
        arrays = {}
        for entry in self.header.entries:
            array = np.ndarray(entry.shape, _NUMPY[entry.dtype], buffer=self._view, offset=start + entry.begin)
            _check_values(array, entry.dtype, f"{shown(path)} is damaged: tensor {entry.name}")
            arrays[entry.name] = array
        return arrays


def read_header(path: Path) -> Header:
    """Names, shapes and metadata of a file; costs no more than the header's bytes.

    Raises:
        FolderError: the file is missing, from a newer version, or its header is damaged or does not fit the file.
    """
    with files.reading(path) as source:
        return _read_header(source)


def _read(path: Path, expected: Mapping[str, Spec] | None) -> Iterator[tuple[Entry, Array]]:
    digest = hashlib.sha256()
    with files.reading(path) as source:
        header = _read_header(source)
        if expected is not None:
            _check_expected(header.specs, expected, path)
        for entry in header.entries:
            array = np.empty(entry.shape, _NUMPY[entry.dtype])
            view = array.reshape(-1).view(np.uint8).data
            source.read_into(view)
            digest.update(view)
            _check_values(array, entry.dtype, f"{shown(path)} is damaged: tensor {entry.name}")
            yield entry, array
    if digest.hexdigest() != header.sha256:
        raise _wrong_digest(path)


def _wrong_digest(path: Path) -> FolderError:
    return FolderError(f"{shown(path)} is damaged: the SHA-256 of its tensors is not the one written in its header")


def _widened(bits: Array) -> Array:
    return (bits.astype("<u4") << 16).view("<f4")


def _check_values(array: Array, dtype: str, what: str) -> None:
    """Refuse NaN and infinity, and bytes that are no truth value."""
    flat = array.reshape(-1)
    for start in range(0, flat.size if dtype[0] in "FB" else 0, _SCAN):
        part = flat[start : start + _SCAN]
        if dtype == "BOOL":
            if bool((part.view(np.uint8) > 1).any()):
                raise FolderError(f"{what} holds a byte that is neither true nor false")
        elif not bool(np.isfinite(_widened(part) if dtype == "BF16" else part).all()):
            raise FolderError(f"{what} holds NaN or infinity")


def _check_expected(found: Mapping[str, Spec], expected: Mapping[str, Spec], path: Path) -> None:
    what = f"{shown(path)} does not fit the configuration:"
    for name in [*expected, *found]:
        if name not in found:
            raise FolderError(f"{what} it has no tensor {name}")
        if name not in expected:
            raise FolderError(f"{what} its tensor {name} has no place in the model")
        if found[name] != (tuple(expected[name][0]), expected[name][1]):
            raise FolderError(f"{what} tensor {name} is {spelled(found[name])}, not {spelled(expected[name])}")


def spelled(spec: Spec) -> str:
    """``spec`` as a person writes it: ``F32 [8000, 512]``."""
    return f"{spec[1]} {list(spec[0])}"


# The header ----------------------------------------------------------------------------------------------------------


def _read_header(source: Source) -> Header:
    where = shown(source.path)
    if source.size < 8:
        raise FolderError(f"{where} is damaged: {source.size} bytes are no safetensors file")
    length = int.from_bytes(source.read_exactly(8), "little")
    if length > min(MAX_HEADER, source.size - 8):
        raise FolderError(f"{where} is damaged: a header of {length:,} bytes in a file of {source.size:,}")
    text = source.read_exactly(length)
    if not text.startswith(b"{") or any(text.count(sign) > limit for sign, limit in _SIGNS.items()):
        raise FolderError(f"{where} is damaged: its header lists no tensors, or more than {MAX_TENSORS:,}")
    header = records.decode(text, f"the header of {where}")
    if len(header) > MAX_TENSORS + 1:
        raise FolderError(f"{where} has {len(header) - 1:,} tensors; at most {MAX_TENSORS:,} are read")
    metadata = _check_metadata(header, where)
    entries = [_entry(name, value, where) for name, value in header.items() if name != "__metadata__"]
    entries.sort(key=lambda entry: (entry.begin, entry.end))
    _check_ranges(entries, source.size - 8 - length, where)
    return Header(tuple(entries), metadata, header["__metadata__"]["sha256"])


def _check_metadata(header: Mapping[str, Any], where: str) -> dict[str, str]:
    metadata = header.get("__metadata__")
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise FolderError(f"{where} is damaged or was not written by dragoman: it has no metadata")
    version = metadata.get("format_version", "")
    if version.isascii() and version.isdecimal() and len(version) < 9 and int(version) > FORMAT_VERSION:
        raise FolderError(f"{where} has format version {version}, newer than {FORMAT_VERSION}: upgrade dragoman")
    if version != str(FORMAT_VERSION) or "sha256" not in metadata or "header_sha256" not in metadata:
        raise FolderError(f"{where} is damaged or was not written by dragoman: its metadata lack version or SHA-256")
    try:
        intact = metadata["header_sha256"] == _header_digest(header)
    except FolderError:
        intact = False
    if not intact:
        raise FolderError(f"{where} is damaged: the SHA-256 of its header is not the one written in it")
    return {key: value for key, value in metadata.items() if key not in ("format_version", "sha256", "header_sha256")}


def _entry(name: str, value: Any, where: str) -> Entry:
    _check_name(name, where)
    if not isinstance(value, dict) or value.keys() != {"dtype", "shape", "data_offsets"}:
        raise FolderError(f"{where} is damaged: tensor {name} is not described by dtype, shape and data_offsets")
    dtype, shape, offsets = value["dtype"], value["shape"], value["data_offsets"]
    if not isinstance(dtype, str) or dtype not in _NUMPY:
        raise FolderError(f"{where}: tensor {name} has a dtype that is not read: {str(dtype)[:40]!r}")
    if not _are_sizes(shape, MAX_RANK) or not _are_sizes(offsets, 2) or len(offsets) != 2:
        raise FolderError(f"{where} is damaged: tensor {name} has an impossible shape or byte range")
    size = np.dtype(_NUMPY[dtype]).itemsize
    if math.prod(max(length, 1) for length in shape) * size >= 1 << 48:
        raise FolderError(f"{where} is damaged: tensor {name} has an impossible shape")
    if math.prod(shape) * size != offsets[1] - offsets[0]:
        raise FolderError(f"{where} is damaged: the shape of tensor {name} does not fill its byte range")
    return Entry(name, dtype, tuple(shape), offsets[0], offsets[1])


def _are_sizes(values: Any, limit: int) -> bool:
    if not isinstance(values, list) or len(values) > limit:
        return False
    return all(type(value) is int and value >= 0 for value in values)  # a bool is an int, but no size


def _check_ranges(entries: Sequence[Entry], size: int, where: str) -> None:
    end = 0
    for entry in entries:
        if entry.begin != end:
            raise FolderError(f"{where} is damaged: there is a gap or an overlap before tensor {entry.name}")
        end = entry.end
    if end != size:
        raise FolderError(f"{where} is damaged: its tensors take {end:,} bytes, the file holds {size:,}")


def _check_name(name: str, where: str) -> None:
    if not _NAME.fullmatch(name) or ".." in name:
        raise FolderError(f"{where}: {name[:80]!r} is not a name for a tensor (letters, digits, and _ . - / only)")
