"""The model's weights as the CPU engine reads them: padded, cut into panels, and where wanted quantized to int8.

A matrix W [outputs, inputs] of the model is padded with zeros to multiples of 16 outputs and 64 inputs. Sixteen outputs
make a panel. Inside it float32 weights stand input by input, [inputs, 16]; int8 weights in groups of four inputs,
[inputs / 4, 16, 4], since one instruction multiplies four of them with four activations and adds up. Every kernel thus
reads the weights from the first byte to the last, and no kernel has a tail.

The heads of attention are padded to a multiple of 16 columns each, so that a head begins where a register does. The
zeros change nothing: queries and keys get products with zero, and the output matrix has zeros for padded values.
"""

from collections.abc import Collection, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from dragoman.config import ModelConfig
from dragoman.engine.matrices import (
    SRC_POSITIONS,
    SRC_TOKENS,
    TGT_POSITIONS,
    TGT_TOKENS,
    Matrix,
    matrices,
    norms,
    up,
    widened,
)
from dragoman.store.tensors import Array, Spec

PANEL, GROUP, ROW = 16, 4, 64
"""Outputs of a panel; inputs of a group; multiple of the inputs. ``ROWS`` of tables make a multiple of 64 bytes."""
ROWS = 16
LARGEST = 127
"""Magnitude of int8 weights: ``DRAGOMAN_LARGEST_WEIGHT``."""
BLOCK = 1024
"""Positions that are computed at once."""

Floats = NDArray[np.float32]


def pack(
    weights: Mapping[str, Array], config: ModelConfig, tgt_vocab: int, precise: Collection[str] | None = None
) -> dict[str, Array]:
    """The engine's arrays by name, each of a multiple of 64 bytes.

    Of each matrix ``<name>.weights``, ``.bias`` (but for the output), and ``.scales`` and ``.sums`` where it is int8;
    of each norm ``<name>.gamma`` and ``.beta``; ``src_embedding`` and ``tgt_embedding`` (only where it is another), and
    ``src_positions`` and ``tgt_positions`` where they are learned; see :func:`position_tables` for the others.

    Args:
        weights: of ``model.safetensors``, all in float32.
        precise: names of the matrices that stay float32; None: all do.
    """
    arrays = {"src_embedding": _table(weights[SRC_TOKENS])}
    if TGT_TOKENS in weights:
        arrays["tgt_embedding"] = _table(weights[TGT_TOKENS])
    if config.positions == "learned":
        arrays["src_positions"] = _table(weights[SRC_POSITIONS])
        arrays["tgt_positions"] = _table(weights[TGT_POSITIONS])
    for matrix in matrices(config, tgt_vocab):
        arrays |= pack_matrix(weights, matrix, is_int8=precise is not None and matrix.name not in precise)
    for name, norm in norms(config).items():
        arrays[f"{name}.gamma"] = padded(weights[f"{norm}.weight"], ROW)
        arrays[f"{name}.beta"] = padded(weights[f"{norm}.bias"], ROW)
    return arrays


def pack_matrix(weights: Mapping[str, Array], matrix: Matrix, is_int8: bool) -> dict[str, Array]:
    """The arrays of one matrix; see :func:`pack`."""
    stacked = np.concatenate([weights[f"{layer}.weight"] for layer, _ in matrix.layers])
    stacked = _spread(stacked, matrix.output_heads)
    stacked = _spread(stacked.T, matrix.input_heads).T
    if is_int8:
        whole, scales = quantize(padded(stacked, PANEL, ROW))
        sums = whole.sum(axis=1, dtype=np.int32)
        packed = {"weights": _panels_int8(whole), "scales": scales, "sums": sums}
    else:
        packed = {"weights": _panels_float(padded(stacked, PANEL, ROW))}
    if matrix.has_bias:
        bias = np.concatenate([weights[f"{layer}.bias"] for layer, _ in matrix.layers])
        packed["bias"] = padded(_spread(bias, matrix.output_heads), PANEL)
    return {f"{matrix.name}.{part}": array for part, array in packed.items()}


def quantize(weights: Floats) -> tuple[NDArray[np.int8], Floats]:
    """int8 weights [outputs, inputs] and scales [outputs], such that weight = int8 * scale to within scale / 2.

    A row's scale is its largest magnitude / LARGEST, and 0 where the row is zero; rounding is to nearest, ties to even.
    """
    scales = (np.abs(weights).max(axis=1, initial=0.0) / np.float32(LARGEST)).astype(np.float32)
    divisors = np.where(scales > 0, scales, np.float32(1))[:, None]
    return np.clip(np.rint(weights / divisors), -LARGEST, LARGEST).astype(np.int8), scales


def specs(
    config: ModelConfig, src_vocab: int, tgt_vocab: int, precise: Collection[str] | None = None
) -> dict[str, Spec]:
    """Shape and dtype of everything that :func:`pack` gives."""
    width = config.d_model
    found: dict[str, Spec] = {"src_embedding": ((up(src_vocab, ROWS), width), "F32")}
    if config.tied != "three-way":
        found["tgt_embedding"] = ((up(tgt_vocab, ROWS), width), "F32")
    if config.positions == "learned":
        found |= dict.fromkeys(("src_positions", "tgt_positions"), ((up(config.max_positions, ROWS), width), "F32"))
    for matrix in matrices(config, tgt_vocab):
        found |= dict(_matrix_specs(matrix, is_int8=precise is not None and matrix.name not in precise))
    for name in norms(config):
        found[f"{name}.gamma"] = found[f"{name}.beta"] = ((up(width, ROW),), "F32")
    return found


def position_tables(config: ModelConfig, rows: int) -> tuple[dict[str, Array], int]:
    """What :func:`pack` does not give of the positions of either side, and how many positions the model knows.

    Sinusoids are computed rather than stored, for ``rows`` positions; a learned table has the rows it has.
    """
    if config.positions == "learned":
        return {}, config.max_positions
    table = np.empty((rows, config.d_model), np.float32)
    for first in range(0, rows, BLOCK):  # sinusoids take several times the memory of what they give
        part = table[first : first + BLOCK]
        part[:] = sinusoids(len(part), config.d_model, config.positions, first)
    return {"src_positions": table, "tgt_positions": table}, rows


def sinusoids(rows: int, d_model: int, layout: str, first: int = 0) -> NDArray[np.float64]:
    """As :func:`dragoman.model.positions.sinusoids`: ``rows`` positions from ``first`` on, [rows, d_model]."""
    half = d_model // 2 if layout == "sinusoidal_half_inclusive" else (d_model + 1) // 2
    index = np.arange(half, dtype=np.float64)
    exponents = index / max(half - 1, 1) if layout == "sinusoidal_half_inclusive" else 2 * index / d_model
    angles = np.arange(first, first + rows, dtype=np.float64)[:, None] / 10000.0**exponents
    table = np.zeros((rows, d_model + 1))
    if layout == "sinusoidal":
        table[:, 0 : 2 * half : 2], table[:, 1 : 2 * half : 2] = np.sin(angles), np.cos(angles)
    else:
        table[:, :half], table[:, half : 2 * half] = np.sin(angles), np.cos(angles)
    return table[:, :d_model]


def padded(array: Array, *multiples: int) -> Floats:
    """``array`` in float32 with zeros behind each axis, up to a multiple of each of ``multiples``."""
    grown = np.zeros([up(size, multiple) for size, multiple in zip(array.shape, multiples, strict=True)], np.float32)
    grown[tuple(slice(size) for size in array.shape)] = array
    return grown


def _table(array: Array) -> Floats:
    return padded(array, ROWS, 1)


def _spread(array: Array, heads: int) -> Array:
    """``array`` with zeros behind each of the ``heads`` that its first axis is cut into."""
    if not heads:
        return array
    width = array.shape[0] // heads
    spread = np.zeros((heads, widened(width, 1), *array.shape[1:]), array.dtype)
    spread[:, :width] = array.reshape(heads, width, *array.shape[1:])
    return spread.reshape(-1, *array.shape[1:])


def _panels_float(weights: Floats) -> Floats:
    outputs, inputs = weights.shape
    return np.ascontiguousarray(weights.reshape(outputs // PANEL, PANEL, inputs).transpose(0, 2, 1))


def _panels_int8(weights: NDArray[np.int8]) -> NDArray[np.int8]:
    outputs, inputs = weights.shape
    grouped = weights.reshape(outputs // PANEL, PANEL, inputs // GROUP, GROUP)
    return np.ascontiguousarray(grouped.transpose(0, 2, 1, 3))


def _matrix_specs(matrix: Matrix, is_int8: bool) -> Iterator[tuple[str, Spec]]:
    outputs, inputs = up(matrix.padded_outputs, PANEL), up(matrix.padded_inputs, ROW)
    if is_int8:
        yield f"{matrix.name}.weights", ((outputs // PANEL, inputs // GROUP, PANEL, GROUP), "I8")
        yield f"{matrix.name}.scales", ((outputs,), "F32")
        yield f"{matrix.name}.sums", ((outputs,), "I32")
    else:
        yield f"{matrix.name}.weights", ((outputs // PANEL, inputs, PANEL), "F32")
    if matrix.has_bias:
        yield f"{matrix.name}.bias", ((outputs,), "F32")
