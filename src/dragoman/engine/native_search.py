"""Beam search within the CPU engine: requests in, hypotheses out as each sentence finishes."""

import ctypes
import weakref
from collections.abc import Iterable, Iterator, Sequence
from itertools import count, islice

import numpy as np

from dragoman.config import SearchConfig
from dragoman.engine.library import CSearch, last_error
from dragoman.engine.native_model import NativeModel, joined
from dragoman.errors import EngineError, RequestError
from dragoman.search.beam import Found
from dragoman.search.request import Sentence, SourceRequest, check_settings, prepare
from dragoman.search.scoring import Hypothesis
from dragoman.text.tokenizer import EOS

WINDOW = 4096
"""Requests that are read ahead; the engine needs many to keep its threads busy, and memory for as many answers."""

PATIENCE = 100
"""Milliseconds of one call that waits; Python notices an interrupt only between two calls."""

DONE, FAILED = -2, -3


def search(
    model: NativeModel, threads: int, requests: Iterable[SourceRequest], settings: SearchConfig, slots: int
) -> Iterator[Found]:
    """The same answers as :func:`dragoman.search.beam.beam_search`, in whatever order they are found.

    Args:
        slots: only checked; the engine decides itself how many sentences run at once.

    Raises:
        RequestError: at the call, settings that do not fit; later, when a window of requests is read, one that
            ``prepare`` refuses, or that is longer than the model's positions reach.
    """
    if slots < 1:
        raise RequestError(f"slots={slots} leaves no room for a sentence; give at least 1")
    check_settings(settings, model.tgt_vocab)
    return _windows(model, threads, iter(requests), settings)


def _free(model: NativeModel, handle: int) -> None:
    """The model is an argument so that it outlives the job."""
    model.library.dragoman_job_free(handle)


class Job:
    """Sentences being searched in threads of the engine.

    Raises:
        EngineError: the engine refuses.
    """

    def __init__(self, model: NativeModel, threads: int, sentences: Sequence[Sentence], settings: SearchConfig) -> None:
        self.model, self.sentences = model, sentences
        ids, offsets = model.flat([sentence.ids for sentence in sentences], sentences[0].index)
        prefix, prefix_offsets = joined([sentence.prefix for sentence in sentences])
        prefix = prefix.astype(np.int32)
        max_length = np.array([sentence.max_length for sentence in sentences], np.int32)
        min_length = np.array([sentence.min_length for sentence in sentences], np.int32)
        suppress = np.array(settings.suppress, np.int32)
        options = CSearch(
            beam_size=settings.beam_size,
            n_best=settings.n_best,
            length_penalty=settings.length_penalty,
            is_gnmt=settings.length_norm == "gnmt",
            no_repeat_ngram=settings.no_repeat_ngram,
            suppress=suppress.ctypes.data,
            num_suppress=len(suppress),
        )
        arrays = [array.ctypes.data for array in (ids, offsets, prefix, prefix_offsets, max_length, min_length)]
        handle = model.library.dragoman_job_new(model.handle, ctypes.byref(options), len(sentences), *arrays, threads)
        if not handle:
            raise EngineError(f"the CPU engine refuses this search: {last_error(model.library)}")
        self.handle: int = handle
        self.close = weakref.finalize(self, _free, model, handle)
        "Stop what still runs; nothing happens the second time."

    def results(self) -> Iterator[Found]:
        """The answers, as the sentences finish.

        Raises:
            EngineError: the engine cannot go on.
        """
        library = self.model.library
        while (place := library.dragoman_job_next(self.handle, PATIENCE)) != DONE:
            if place == FAILED:
                raise EngineError(f"the CPU engine cannot go on: {last_error(library)}")
            if place >= 0:
                yield self.sentences[place].index, self._hypotheses(place)

    def _hypotheses(self, place: int) -> list[Hypothesis]:
        library = self.model.library
        found = library.dragoman_job_hypotheses(self.handle, place)
        if not found:
            return []
        tokens = library.dragoman_job_tokens(self.handle, place)
        log_probs, scores = np.empty(found), np.empty(found)
        lengths, ended, ids = np.empty(found, np.int32), np.empty(found, np.int32), np.empty(tokens, np.int32)
        token_log_probs = np.empty(tokens)
        arrays = (log_probs, scores, lengths, ended, ids, token_log_probs)
        library.dragoman_job_result(self.handle, place, *(array.ctypes.data for array in arrays))
        ends = np.cumsum(lengths).tolist()
        each = zip(log_probs.tolist(), scores.tolist(), [0, *ends], ends, ended.tolist(), strict=False)
        return [
            Hypothesis(
                ids=tuple(ids[start : end - 1 if is_ended else end].tolist()),
                log_prob=log_prob,
                score=score,
                token_log_probs=tuple(token_log_probs[start:end].tolist()),
                finish_reason="eos" if is_ended else "length",
            )
            for log_prob, score, start, end, is_ended in each
        ]


def _windows(
    model: NativeModel, threads: int, requests: Iterator[SourceRequest], settings: SearchConfig
) -> Iterator[Found]:
    numbers = count()
    while window := list(islice(requests, WINDOW)):
        sentences = [prepare(request, settings, model.tgt_vocab, EOS, next(numbers)) for request in window]
        _check_lengths(sentences, model.positions)
        job = Job(model, threads, sentences, settings)
        try:
            yield from job.results()
        finally:
            job.close()


def _check_lengths(sentences: Sequence[Sentence], positions: int) -> None:
    for sentence in sentences:
        if sentence.max_length > positions:
            raise RequestError(
                f"sentence {sentence.index}: max_length={sentence.max_length} is more than the {positions} positions"
                " of this model; lower it"
            )
