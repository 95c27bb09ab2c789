"""The CPU engine's shared library: where it lies, what it offers, whether it is of this version.

``native/include/dragoman.h`` says what each function and each field means; this is that file once more for ctypes, in
the same order. ctypes lets go of the interpreter's lock during each call.
"""

import ctypes
from ctypes import POINTER, Structure, c_char_p, c_double, c_float, c_int32, c_int64, c_uint32, c_void_p
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from dragoman.errors import EngineError

VERSION = 7
REINSTALL = "reinstall dragoman (pip install --force-reinstall --no-deps --no-cache-dir)"
"""A build that failed before would be taken from pip's cache."""

ACTIVATIONS = ("relu", "gelu", "swiglu", "geglu")
"""In the order of the enumeration."""


class CMatrix(Structure):
    """``dragoman_matrix``"""

    _fields_ = (
        *((name, c_int32) for name in ("is_int8", "outputs", "inputs")),
        *((name, c_void_p) for name in ("weights", "scales", "sums", "bias")),
    )


class CNorm(Structure):
    """``dragoman_norm``"""

    _fields_ = (("gamma", c_void_p), ("beta", c_void_p))


class CPlan(Structure):
    """``dragoman_plan``"""

    _fields_ = (
        *((name, c_int32) for name in ("d_model", "num_heads", "d_ff", "num_encoder_layers", "num_decoder_layers")),
        *((name, c_int32) for name in ("src_vocab", "tgt_vocab", "pieces", "pad", "bos", "eos")),
        *((name, c_int32) for name in ("norm_first", "activation", "positions", "is_cache_float")),
        *((name, c_void_p) for name in ("src_embedding", "tgt_embedding", "src_positions", "tgt_positions")),
        ("matrices", POINTER(CMatrix)),
        ("norms", POINTER(CNorm)),
    )


class CSearch(Structure):
    """``dragoman_search``"""

    _fields_ = (
        ("beam_size", c_int32),
        ("n_best", c_int32),
        ("length_penalty", c_double),
        ("is_gnmt", c_int32),
        ("no_repeat_ngram", c_int32),
        ("suppress", c_void_p),
        ("num_suppress", c_int32),
    )


class CNetwork(Structure):
    """``dragoman_network``"""

    _fields_ = (
        *((name, c_int32) for name in ("d_model", "num_heads", "d_ff", "num_encoder_layers", "num_decoder_layers")),
        *((name, c_int32) for name in ("src_vocab", "tgt_vocab", "norm_first", "activation", "is_half", "dropped")),
        *((name, c_int32) for name in ("positions", "threads", "parameters")),
        ("first", c_int32 * 6),
        *((name, c_void_p) for name in ("src_positions", "tgt_positions", "weights", "gradients", "counts")),
    )


class CPairs(Structure):
    """``dragoman_pairs``"""

    _fields_ = (
        ("count", c_int32),
        *((name, c_void_p) for name in ("src", "src_offsets", "tgt_in", "tgt_out", "tgt_offsets")),
    )


class CAdam(Structure):
    """``dragoman_adam``"""

    _fields_ = (
        *((name, c_float) for name in ("rate", "beta1", "beta2", "epsilon", "correction1", "correction2")),
        *((name, c_float) for name in ("scale", "keep")),
        ("decays", c_void_p),
    )


class COrthogonal(Structure):
    """``dragoman_orthogonal``"""

    _fields_ = (
        *((name, c_float) for name in ("momentum", "size", "margin", "tiny")),
        ("rounds", c_int32),
        ("polynomials", c_void_p),
        ("blocks", c_void_p),
    )


_SIGNATURES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "error": (c_char_p, ()),
    "version": (c_int32, ()),
    "isa": (c_char_p, ()),
    "isas": (c_char_p, ()),
    "refused": (c_char_p, ()),
    "processors": (c_int32, ()),
    "model_new": (c_void_p, (POINTER(CPlan),)),
    "model_free": (None, (c_void_p,)),
    "job_new": (c_void_p, (c_void_p, POINTER(CSearch), c_int32, *(c_void_p,) * 6, c_int32)),
    "job_next": (c_int32, (c_void_p, c_int32)),
    "job_hypotheses": (c_int32, (c_void_p, c_int32)),
    "job_tokens": (c_int64, (c_void_p, c_int32)),
    "job_result": (None, (c_void_p, c_int32, *(c_void_p,) * 6)),
    "job_free": (None, (c_void_p,)),
    "score": (c_int32, (c_void_p, c_int32, *(c_void_p,) * 5)),
    "state_start": (c_void_p, (c_void_p, c_int32, c_void_p, c_void_p)),
    "state_select": (c_void_p, (c_void_p, c_void_p, c_int32)),
    "state_join": (c_void_p, (c_void_p, c_void_p)),
    "state_rows": (c_int32, (c_void_p,)),
    "state_free": (None, (c_void_p,)),
    "state_step": (c_void_p, (c_void_p, c_void_p, c_int32, *(c_void_p,) * 4, c_int32)),
    "has_bfloat16": (c_int32, ()),
    "trainer_new": (c_void_p, (POINTER(CNetwork),)),
    "trainer_free": (None, (c_void_p,)),
    "trainer_gradient": (
        c_int32,
        (c_void_p, POINTER(CPairs), c_uint32, c_float, c_float, c_int32, POINTER(c_double)),
    ),
    "trainer_norm": (c_double, (c_void_p,)),
    "trainer_update": (c_int32, (c_void_p, POINTER(CAdam), POINTER(COrthogonal), *(c_void_p,) * 3)),
    "dropout": (None, (c_uint32, c_uint32, c_uint32, c_int64, c_int32, c_int32, c_void_p)),
}
"""Of each function its result and its arguments."""


def library_path() -> Path:
    """Where the package's build puts the library."""
    return Path(__file__).parent.parent / "native" / "libdragoman.so"  # of this name on every system


@cache
def open_library() -> ctypes.CDLL:
    """The library with the signatures of all its functions; loaded at the first call.

    Raises:
        EngineError: it was not built, is of another version, or has nothing for this processor; the message says what
            translates in its place, if anything, and what to do.
    """
    path = library_path()
    if not path.is_file():
        raise EngineError(_lost(f"it was not built ({path} is missing)", f"install a C++ compiler and {REINSTALL}"))
    try:
        library = ctypes.CDLL(str(path))
        for name, (result, arguments) in _SIGNATURES.items():
            function = library[f"dragoman_{name}"]
            function.restype, function.argtypes = result, arguments
            setattr(library, f"dragoman_{name}", function)
        version = library.dragoman_version()
    except (OSError, AttributeError) as error:
        raise EngineError(_lost(f"it cannot be loaded ({error})", REINSTALL)) from None
    if version != VERSION:
        raise EngineError(_lost(f"it has version {version}, not {VERSION}", REINSTALL))
    if library.dragoman_isa() is None:
        known, refused = library.dragoman_isas().decode(), library.dragoman_refused().decode()
        what = "DRAGOMAN_ISA names no instruction set of this processor"
        what += f" that the system allows (it refused {refused})" if refused else ""
        raise EngineError(_lost(what, f"unset it or choose of: {known}"))
    return library


def instruction_set() -> str:
    """The name of the instruction set in use.

    Raises:
        EngineError: as :func:`open_library`.
    """
    name: bytes = open_library().dragoman_isa()
    return name.decode()


def last_error(library: ctypes.CDLL) -> str:
    """Why the last call of this thread failed."""
    message: bytes | None = library.dragoman_error()
    return (message or b"no reason given").decode("utf-8", "replace")


def has_torch() -> bool:
    """Whether PyTorch is installed; it is not imported."""
    return find_spec("torch") is not None


def _lost(what: str, remedy: str) -> str:
    if has_torch():
        return f"no CPU engine: {what}; without it PyTorch translates, several times slower; {remedy}"
    return (
        f"no CPU engine: {what}; PyTorch, which would translate without it, is not installed either; {remedy},"
        " or pip install 'dragoman[train]'"
    )
