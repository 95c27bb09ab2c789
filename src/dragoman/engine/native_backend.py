"""The CPU engine as the search and the translator want it; no torch."""

import weakref
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import numpy as np

from dragoman.config import SearchConfig
from dragoman.engine.library import last_error
from dragoman.engine.native_model import NativeModel, joined
from dragoman.engine.native_search import search
from dragoman.errors import EngineError
from dragoman.search.beam import Found
from dragoman.search.request import SourceRequest
from dragoman.search.stepper import Candidates, FloatArray, IntArray
from dragoman.text.tokenizer import BOS, EOS


def _free(model: NativeModel, handle: int) -> None:
    """The model is an argument so that it outlives the state."""
    model.library.dragoman_state_free(handle)


class NativeState:
    """A state of the engine behind the interface of :class:`dragoman.search.stepper.State`; freed with this object."""

    def __init__(self, model: NativeModel, handle: int | None) -> None:
        """Take over ``handle``, the result of a call.

        Raises:
            EngineError: it is NULL.
        """
        if not handle:
            raise EngineError(f"the CPU engine cannot go on: {last_error(model.library)}")
        self.model, self.handle = model, handle
        weakref.finalize(self, _free, model, handle)

    def select(self, rows: IntArray) -> "NativeState":
        """See :meth:`dragoman.search.stepper.State.select`."""
        rows = np.ascontiguousarray(rows, np.int64)
        selected = self.model.library.dragoman_state_select(self.handle, rows.ctypes.data, len(rows))
        return NativeState(self.model, selected)

    def join(self, other: "NativeState") -> "NativeState":
        """See :meth:`dragoman.search.stepper.State.join`."""
        return NativeState(self.model, self.model.library.dragoman_state_join(self.handle, other.handle))


class NativeBackend:
    """Searches, steps, scores and aligns with a model in the CPU engine; for any number of threads at once.

    Args:
        threads: of a search; 0: as many as this process may use processors.
    """

    def __init__(self, model: NativeModel, threads: int = 0) -> None:
        self.model = model
        self.vocab_size = model.tgt_vocab
        self.bos_id = BOS
        self.eos_id = EOS
        self.threads = threads or int(model.library.dragoman_processors())

    def start(self, sources: Sequence[Sequence[int]]) -> NativeState:
        """Encode; ``sources`` end with EOS.

        Raises:
            RequestError: as :meth:`NativeModel.flat`.
        """
        ids, offsets = self.model.flat(sources)
        handle = self.model.library.dragoman_state_start(
            self.model.handle, len(sources), ids.ctypes.data, offsets.ctypes.data
        )
        return NativeState(self.model, handle)

    def step_top(self, ids: IntArray, state: NativeState, k: int) -> tuple[Candidates, NativeState]:
        """See :meth:`dragoman.search.stepper.Stepper.step_top`."""
        top_ids, top = np.empty((len(ids), k), np.int32), np.empty((len(ids), k), np.float32)
        state = self._step(ids, state, k, top_ids.ctypes.data, top.ctypes.data)
        return Candidates(top_ids.astype(np.int64), top), state

    def step_full(self, ids: IntArray, state: NativeState) -> tuple[FloatArray, NativeState]:
        """See :meth:`dragoman.search.stepper.Stepper.step_full`."""
        log_probs = np.empty((len(ids), self.vocab_size), np.float32)
        return log_probs, self._step(ids, state, full=log_probs.ctypes.data)

    def beam_search(self, requests: Iterable[SourceRequest], settings: SearchConfig, slots: int) -> Iterator[Found]:
        """See :func:`dragoman.search.beam.beam_search`; within the engine."""
        return search(self.model, self.threads, requests, settings, slots)

    def log_probs(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[list[float]]:
        """Log-probability of every token of given targets (with EOS) after given sources (with EOS).

        Raises:
            RequestError: as :meth:`NativeModel.flat`.
            EngineError: a target has an id outside the vocabulary, or more ids than the model's positions reach.
        """
        ids, offsets = self.model.flat(sources)
        tokens, ends = joined(targets)
        tokens = np.clip(tokens, -1, self.vocab_size).astype(np.int32)  # what is outside stays outside
        found = np.empty(len(tokens), np.float32)
        arrays = (ids, offsets, tokens, ends, found)
        failed = self.model.library.dragoman_score(
            self.model.handle, len(targets), *(array.ctypes.data for array in arrays)
        )
        if failed:
            raise EngineError(f"the CPU engine cannot score: {last_error(self.model.library)}")
        return [found[start:end].tolist() for start, end in pairwise(ends.tolist())]

    def forced(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
    ) -> Iterator[tuple[IntArray, IntArray, FloatArray]]:
        """What the model expects at each position of given targets (with EOS), one position after the other.

        Returns:
            Of each position the rows that have a token there, these tokens, and the log-probabilities of all ids
            [rows, vocab] that the model gave before it saw them.
        """
        lengths = np.array([len(target) for target in targets], dtype=np.int64)
        rows = np.flatnonzero(lengths)
        if not len(rows):
            return
        state = self.start([sources[row] for row in rows.tolist()])
        newest = np.full(len(rows), self.bos_id)
        for position in range(int(lengths.max())):
            running = np.flatnonzero(lengths[rows] > position)
            if len(running) < len(rows):
                rows, newest, state = rows[running], newest[running], state.select(running)
            full, state = self.step_full(newest, state)
            newest = np.array([targets[row][position] for row in rows.tolist()], dtype=np.int64)
            yield rows, newest, full

    def align(self, source: Sequence[int], target: Sequence[int]) -> FloatArray:
        """See :meth:`dragoman.engine.translator.Backend.align`: the last layer's cross-attention, mean over heads."""
        weights, state = np.zeros((len(target), len(source)), np.float32), self.start([source])
        for place, token in enumerate([self.bos_id, *target[:-1]] if target else []):
            row = weights[place]
            state = self._step(np.array([token]), state, attention=row.ctypes.data, width=len(source))
        return weights

    def _step(
        self,
        ids: IntArray,
        state: NativeState,
        k: int = 0,
        top_ids: int | None = None,
        top: int | None = None,
        full: int | None = None,
        attention: int | None = None,
        width: int = 0,
    ) -> NativeState:
        fed = np.ascontiguousarray(ids, np.int32)
        handle = self.model.library.dragoman_state_step(
            state.handle, fed.ctypes.data, k, top_ids, top, full, attention, width
        )
        return NativeState(self.model, handle)
