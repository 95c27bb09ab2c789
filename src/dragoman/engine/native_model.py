"""A model in the CPU engine: the packed arrays, the plan that points at them, and a handle."""

import ctypes
import weakref
from collections.abc import Mapping, Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from dragoman.config import ModelConfig
from dragoman.engine.library import ACTIVATIONS, CMatrix, CNorm, CPlan, last_error, open_library
from dragoman.engine.matrices import Matrix, matrices, norms
from dragoman.errors import EngineError, RequestError
from dragoman.store.tensors import Array
from dragoman.text.tokenizer import BOS, EOS, PAD

Ids = NDArray[np.int32]
Offsets = NDArray[np.int64]


WIDE = 512
"""From this d_model on keys and values are kept as bfloat16 beside int8 weights: a wide model has so many of them that
halving them pays, a narrow one is as fast without and translates a little better (docs/log.md)."""


class NativeModel:
    """A handle of the engine, freed when nobody holds this object any more.

    Args:
        arrays: see :func:`dragoman.engine.packing.pack` and ``position_tables``; kept, and never to be changed.
        src_vocab, tgt_vocab: sizes of the vocabularies as the model has them.
        pieces: target ids that a tokenizer knows.
        positions: what ``position_tables`` told.

    Raises:
        EngineError: there is no engine, or it refuses the sizes.
    """

    def __init__(
        self,
        arrays: Mapping[str, Array],
        config: ModelConfig,
        src_vocab: int,
        tgt_vocab: int,
        pieces: int,
        positions: int,
    ) -> None:
        self.library = open_library()
        self.src_vocab, self.tgt_vocab, self.positions = src_vocab, tgt_vocab, positions
        self.is_int8 = any(name.endswith(".scales") for name in arrays)
        self._arrays = dict(arrays)
        plan = self._plan(config)
        plan.src_vocab, plan.tgt_vocab, plan.pieces, plan.positions = src_vocab, tgt_vocab, pieces, positions
        handle = self.library.dragoman_model_new(ctypes.byref(plan))
        if not handle:
            raise EngineError(f"the CPU engine refuses this model: {last_error(self.library)}; use --backend torch")
        self.handle: int = handle
        weakref.finalize(self, self.library.dragoman_model_free, handle)

    def flat(self, sources: Sequence[Sequence[int]], first: int = 0) -> tuple[Ids, Offsets]:
        """Sources one after the other, and where each begins and the last ends.

        Args:
            first: number of the first, for the message.

        Raises:
            RequestError: an id is outside the vocabulary, or a source is longer than the positions reach.
        """
        ids, offsets = joined(sources)
        wrong = np.flatnonzero((ids < 0) | (ids >= self.src_vocab))
        if len(wrong):
            number = first + int(np.searchsorted(offsets, wrong[0], side="right")) - 1
            raise RequestError(
                f"sentence {number}: source id {ids[wrong[0]]} is outside the vocabulary, 0 to {self.src_vocab - 1}"
            )
        lengths = np.diff(offsets)
        if len(lengths) and lengths.max() > self.positions:
            number, length = first + int(lengths.argmax()), lengths.max()
            raise RequestError(
                f"sentence {number} has {length} source ids, more than the {self.positions} positions; shorten the text"
            )
        return ids.astype(np.int32), offsets

    def _plan(self, config: ModelConfig) -> CPlan:
        table = matrices(config, self.tgt_vocab)
        made = [self._matrix(matrix) for matrix in table]
        scales = [CNorm(self._at(f"{name}.gamma"), self._at(f"{name}.beta")) for name in norms(config)]
        exact = not self.is_int8 or config.d_model < WIDE
        plan = CPlan(pad=PAD, bos=BOS, eos=EOS, norm_first=config.norm_first, is_cache_float=exact)
        for name in ("d_model", "num_heads", "d_ff", "num_encoder_layers", "num_decoder_layers"):
            setattr(plan, name, getattr(config, name))
        plan.activation = ACTIVATIONS.index(config.activation)
        plan.src_embedding = self._at("src_embedding")
        plan.tgt_embedding = self._at("tgt_embedding") or plan.src_embedding
        plan.src_positions, plan.tgt_positions = self._at("src_positions"), self._at("tgt_positions")
        plan.matrices = (CMatrix * len(made))(*made)
        plan.norms = (CNorm * len(scales))(*scales)
        return plan

    def _matrix(self, matrix: Matrix) -> CMatrix:
        parts = (self._at(f"{matrix.name}.{part}") for part in ("weights", "scales", "sums", "bias"))
        is_int8 = f"{matrix.name}.scales" in self._arrays
        return CMatrix(is_int8, matrix.padded_outputs, matrix.padded_inputs, *parts)

    def _at(self, name: str) -> int | None:
        return self._arrays[name].ctypes.data if name in self._arrays else None


def joined(rows: Sequence[Sequence[int]]) -> tuple[NDArray[np.int64], Offsets]:
    """``rows`` one after the other, and where each begins and the last ends.

    Raises:
        RequestError: a number is no id at all.
    """
    offsets = np.zeros(len(rows) + 1, np.int64)
    np.cumsum([len(row) for row in rows], out=offsets[1:])
    try:
        return np.fromiter(chain.from_iterable(rows), np.int64, int(offsets[-1])), offsets
    except OverflowError:
        raise RequestError("an id does not fit 64 bits; ids are numbers from 0 on") from None
