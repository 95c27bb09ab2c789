"""Beam search over slots: each sentence follows its likeliest beginnings and leaves once its answer is settled."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Generic

import numpy as np
from msgspec.structs import replace

from dragoman.config import SearchConfig
from dragoman.search.proposal import propose
from dragoman.search.request import Queue, Sentence, SourceRequest, check_settings, nothing_found, prepare
from dragoman.search.rows import Rows, renumber
from dragoman.search.scoring import Hypothesis, is_settled, ranked
from dragoman.search.stepper import BoolArray, FloatArray, IntArray, S, Stepper

Found = tuple[int, list[Hypothesis]]
"""A sentence's place in the queue and its hypotheses, best first."""


@dataclass(frozen=True, slots=True, eq=False)
class Beam(Generic[S]):
    """The sentences being searched; a value, grown by :func:`admit` and :func:`advance`."""

    sentences: tuple[Sentence, ...] = ()
    finished: tuple[tuple[Hypothesis, ...], ...] = ()
    "What each sentence has finished so far."
    rows: Rows = field(default_factory=Rows.empty)
    "The unfinished hypotheses of all sentences; a running sentence has at least one."
    state: S | None = None
    "The model's state of these rows; None when no sentence is running."


@dataclass(frozen=True, slots=True, eq=False)
class Continuations:
    """The tokens chosen in one step, sorted by parent row and id."""

    parents: IntArray
    "[chosen]"
    ids: IntArray
    "[chosen]"
    log_probs: FloatArray
    "[chosen]"


def beam_search(
    stepper: Stepper[S], sources: Iterable[SourceRequest], settings: SearchConfig, slots: int
) -> Iterator[Found]:
    """Search the best hypotheses of each of ``sources``, at most ``slots`` sentences at once.

    Each sentence has a ``width``, at first ``beam_size``. A step takes the ``width`` likeliest continuations of its
    unfinished hypotheses (ties: lexicographic order of the ids). Those that end the sentence are finished and narrow
    ``width`` by one, so that a beam of 1 is greedy search; the others go on, up to the sentence's ``max_length``
    tokens, where they are finished with reason ``length``. What is finished is never dropped. A sentence is done when
    nothing of it is left to grow, or when its n best are settled (:func:`scoring.is_settled`); the answer for n is
    the head of the answer for n + 1. A beam as wide as the tree of all outputs finds them all, in order.

    A sentence's answer depends on nothing but its request, the settings and the model. Finished sentences make room
    for the next of ``sources``, which is read lazily.

    Returns:
        For each request, as it finishes, its place in ``sources`` and up to ``n_best`` hypotheses, best first: fewer
        when fewer exist, and none when nothing has a probability (the prefix is impossible for the model, everything
        is suppressed) or when the model gave a number for it that is not finite. Neighbours are not affected;
        :func:`request.nothing_found` makes the error of it.

    Raises:
        RequestError: at the call, settings that do not fit the stepper; later, a request that :func:`request.prepare`
            refuses, when its turn comes.

    Cost:
        beam_size rows a sentence; ``step_top`` as long as nothing is forbidden, else ``step_full`` for all rows.
    """
    queue = Queue(iter(sources), count(), slots, settings, stepper.vocab_size, stepper.eos_id)
    return _run(stepper, queue, settings)


def stream_greedy(stepper: Stepper[S], request: SourceRequest, settings: SearchConfig) -> Iterator[int]:
    """The ids of the greedy hypothesis, each as soon as it is known; those of the prefix too, the end of sentence not.

    Raises:
        RequestError: the settings or the request cannot be honoured (at the call), or no token is possible (when it is
            met).
    """
    greedy = replace(settings, beam_size=1, n_best=1)
    check_settings(greedy, stepper.vocab_size)
    sentence = prepare(request, greedy, stepper.vocab_size, stepper.eos_id, index=0)
    return _stream(stepper, request, sentence, greedy)


def admit(stepper: Stepper[S], beam: Beam[S], sentences: Sequence[Sentence]) -> Beam[S]:
    """``beam`` with new ``sentences`` behind the running ones."""
    if not sentences:
        return beam
    state = stepper.start([sentence.ids for sentence in sentences])
    return Beam(
        sentences=(*beam.sentences, *sentences),
        finished=(*beam.finished, *(() for _ in sentences)),
        rows=beam.rows.arrive(len(sentences), rows_each=1),
        state=state if beam.state is None else beam.state.join(state),
    )


def advance(stepper: Stepper[S], beam: Beam[S], settings: SearchConfig) -> tuple[Beam[S], list[Found]]:
    """Grow every hypothesis by one token.

    Returns:
        The beam without the sentences that are done now, and their answers.
    """
    if beam.state is None:
        return beam, []
    widths = np.array([settings.beam_size - len(finished) for finished in beam.finished])
    candidates, broken, state = propose(
        stepper, beam.sentences, beam.rows, beam.state, settings, k=int(widths.max(initial=0))
    )
    failed = np.bincount(beam.rows.owner[broken], minlength=len(widths)) > 0
    chosen = choose(beam.rows, candidates.ids, candidates.log_probs, np.where(failed, 0, widths))
    rows = beam.rows.grow(chosen.parents, chosen.ids, chosen.log_probs)
    limits = np.array([sentence.max_length for sentence in beam.sentences])
    ends = (chosen.ids == stepper.eos_id) | (rows.lengths == limits[rows.owner])

    finished = _collect(beam.finished, failed, rows, ends, stepper.eos_id, settings)
    alive = _alive(beam.sentences, finished, rows, ends, settings)
    done = [
        (sentence.index, ranked(hypotheses)[: settings.n_best])
        for sentence, hypotheses, runs in zip(beam.sentences, finished, alive, strict=True)
        if not runs
    ]
    if not any(alive):
        return Beam(), done
    keep = ~ends & np.array(alive)[rows.owner]
    return Beam(
        sentences=tuple(sentence for sentence, runs in zip(beam.sentences, alive, strict=True) if runs),
        finished=tuple(hypotheses for hypotheses, runs in zip(finished, alive, strict=True) if runs),
        rows=rows if keep.all() and all(alive) else rows.keep(keep, renumber(alive)),
        state=select(state, chosen.parents[keep], len(beam.rows.owner)),
    ), done


def choose(rows: Rows, ids: IntArray, log_probs: FloatArray, widths: IntArray) -> Continuations:
    """The ``widths[sentence]`` likeliest continuations of each sentence; fewer where fewer have a probability.

    Args:
        ids, log_probs: candidates of each row, [rows, k]; equal ones of a row by ascending id.
        widths: [sentences].
    """
    k = ids.shape[1]
    counts = np.bincount(rows.owner, minlength=len(widths))
    firsts = np.cumsum(counts) - counts
    padded = np.full((len(widths), int(counts.max(initial=0)), k), -np.inf)
    padded[rows.owner, np.arange(len(rows.owner)) - firsts[rows.owner]] = rows.log_probs[:, None] + log_probs
    totals = padded.reshape(len(widths), -1)
    best = np.argsort(-totals, axis=1, kind="stable")[:, : int(widths.max(initial=0))]
    wanted = np.take_along_axis(totals, best, axis=1) > -np.inf
    wanted &= np.arange(best.shape[1]) < widths[:, None]
    sentences, ranks = np.nonzero(wanted)
    places = best[sentences, ranks]
    parents, columns = firsts[sentences] + places // k, places % k
    order = np.lexsort((ids[parents, columns], parents))
    parents, columns = parents[order], columns[order]
    return Continuations(parents, ids[parents, columns], log_probs[parents, columns])


def select(state: S, parents: IntArray, count: int) -> S:
    """The state of ``parents``, spared the copy when they are all ``count`` rows as they stand."""
    if len(parents) == count and bool((parents == np.arange(count)).all()):
        return state
    return state.select(parents)


def _run(stepper: Stepper[S], queue: Queue, settings: SearchConfig) -> Iterator[Found]:
    beam: Beam[S] = Beam()
    while True:
        beam = admit(stepper, beam, queue.next_batch(busy=len(beam.sentences)))
        if not beam.sentences:
            return
        beam, done = advance(stepper, beam, settings)
        yield from done


def _stream(stepper: Stepper[S], request: SourceRequest, sentence: Sentence, settings: SearchConfig) -> Iterator[int]:
    beam: Beam[S] = admit(stepper, Beam(), [sentence])
    told = 0
    while beam.sentences:
        beam, done = advance(stepper, beam, settings)
        if done and not done[0][1]:
            raise nothing_found(0, request)
        ids = done[0][1][0].ids if done else beam.rows.tokens[0].tolist()
        yield from ids[told:]
        told = len(ids)


def _collect(
    finished: Sequence[tuple[Hypothesis, ...]],
    failed: BoolArray,
    rows: Rows,
    ends: BoolArray,
    eos_id: int,
    settings: SearchConfig,
) -> list[tuple[Hypothesis, ...]]:
    """What each sentence has finished, the rows that end now included; nothing where numbers were not finite."""
    collected = [() if fails else hypotheses for hypotheses, fails in zip(finished, failed, strict=True)]
    for row in np.flatnonzero(ends).tolist():
        collected[rows.owner[row]] += (rows.hypothesis(row, eos_id, settings),)
    return collected


def _alive(
    sentences: Sequence[Sentence],
    finished: Sequence[tuple[Hypothesis, ...]],
    rows: Rows,
    ends: BoolArray,
    settings: SearchConfig,
) -> list[bool]:
    """Which sentences go on: something of theirs can grow, and it can still change their answer."""
    best_live, length = np.full(len(sentences), -np.inf), np.zeros(len(sentences), dtype=np.int64)
    live = ~ends
    np.maximum.at(best_live, rows.owner[live], rows.log_probs[live])
    length[rows.owner[live]] = rows.lengths[live]
    return [
        bool(best > -np.inf) and not is_settled(hypotheses, float(best), int(tokens), sentence.max_length, settings)
        for sentence, hypotheses, best, tokens in zip(sentences, finished, best_live, length, strict=True)
    ]
