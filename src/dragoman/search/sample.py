"""Sampling: hypotheses drawn from the model's distribution, each row with dice of its own."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Generic

import numpy as np

from dragoman.config import SearchConfig
from dragoman.search.beam import Found, select
from dragoman.search.proposal import propose, propose_all
from dragoman.search.request import Queue, Sentence, SourceRequest
from dragoman.search.rows import Rows, renumber
from dragoman.search.scoring import Hypothesis
from dragoman.search.stepper import BoolArray, Candidates, FloatArray, IntArray, S, Stepper

BLOCK = 128
"""Columns that are summed up before a draw looks into them."""

EPSILON = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, slots=True, eq=False)
class Draws(Generic[S]):
    """The sentences being sampled; a value, grown by :func:`admit` and :func:`advance`."""

    sentences: tuple[Sentence, ...] = ()
    finished: tuple[tuple[tuple[int, Hypothesis], ...], ...] = ()
    "Of each sentence the finished samples, each with its number."
    rows: Rows = field(default_factory=Rows.empty)
    numbers: tuple[int, ...] = ()
    "Of each row, the number of the sample within its sentence."
    dice: "tuple[np.random.Generator, ...]" = ()  # in quotes, since numpy imports its dice only when asked for them
    "Of each row; its t-th number decides the row's t-th token."
    state: S | None = None


def sample(
    stepper: Stepper[S], sources: Iterable[SourceRequest], settings: SearchConfig, slots: int
) -> Iterator[Found]:
    """Draw ``n_best`` samples for each of ``sources``, at most ``slots`` sentences at once.

    Each token is drawn from the model's distribution after, in this order: what is forbidden taken out, the logarithms
    divided by ``temperature`` (0 takes the likeliest token, as greedy search does), only the ``top_k`` likeliest kept,
    of these only the likeliest that together reach ``top_p``. The log-probabilities told are the model's own.

    The t-th token of sample i is decided by the t-th number of the Philox stream of (seed, the request's key, i) and
    the model's distribution for it alone: neighbours, slots and the number of samples change nothing.

    Returns:
        For each request, as it finishes, its place in ``sources`` and its samples in the order of their numbers, equal
        ones not removed. Samples that run into a dead end (everything forbidden) are left out; when the model gives a
        number that is not finite the sentence has none.

    Raises:
        RequestError: as :func:`beam.beam_search` does.

    Cost:
        n_best rows a sentence. ``step_top`` if ``top_k`` or temperature 0 allow it and nothing is forbidden, else
        ``step_full``; a sort of the vocabulary for each row with ``top_p`` but no ``top_k``.
    """
    queue = Queue(iter(sources), count(), slots, settings, stepper.vocab_size, stepper.eos_id)
    return _run(stepper, queue, settings)


def admit(stepper: Stepper[S], draws: Draws[S], sentences: Sequence[Sentence], settings: SearchConfig) -> Draws[S]:
    """``draws`` with new ``sentences`` behind the running ones, ``n_best`` rows each."""
    if not sentences:
        return draws
    numbers = tuple(range(settings.n_best))
    state = stepper.start([sentence.ids for sentence in sentences])
    if settings.n_best > 1:
        state = state.select(np.repeat(np.arange(len(sentences)), settings.n_best))
    return Draws(
        sentences=(*draws.sentences, *sentences),
        finished=(*draws.finished, *(() for _ in sentences)),
        rows=draws.rows.arrive(len(sentences), rows_each=settings.n_best),
        numbers=(*draws.numbers, *numbers * len(sentences)),
        dice=(*draws.dice, *(_dice(settings.seed, sentence.key, i) for sentence in sentences for i in numbers)),
        state=state if draws.state is None else draws.state.join(state),
    )


def advance(stepper: Stepper[S], draws: Draws[S], settings: SearchConfig) -> tuple[Draws[S], list[Found]]:
    """Grow every sample by one token.

    Returns:
        The draws without the sentences that are done now, and their answers.
    """
    if draws.state is None:
        return draws, []
    candidates, broken, state = _candidates(stepper, draws, draws.state, settings)
    owner = draws.rows.owner
    failed = np.bincount(owner[broken], minlength=len(draws.sentences)) > 0
    parents = np.flatnonzero(~failed[owner] & (candidates.log_probs.max(axis=1) > -np.inf))
    uniforms = np.array([dice.random() for dice in draws.dice])
    all_go_on = len(parents) == len(owner)
    log_probs = candidates.log_probs if all_go_on else candidates.log_probs[parents]
    columns = draw(log_probs, uniforms[parents], settings)
    ids = candidates.ids[parents, columns]
    rows = draws.rows.grow(parents, ids, candidates.log_probs[parents, columns])
    limits = np.array([sentence.max_length for sentence in draws.sentences])
    ends = (ids == stepper.eos_id) | (rows.lengths == limits[rows.owner])
    if all_go_on and not ends.any():
        return Draws(draws.sentences, draws.finished, rows, draws.numbers, draws.dice, state), []

    finished = [() if fails else samples for samples, fails in zip(draws.finished, failed, strict=True)]
    for row in np.flatnonzero(ends).tolist():
        hypothesis = rows.hypothesis(row, stepper.eos_id, settings)
        finished[rows.owner[row]] += ((draws.numbers[parents[row]], hypothesis),)
    alive = (np.bincount(rows.owner[~ends], minlength=len(draws.sentences)) > 0).tolist()
    done = [
        (sentence.index, _by_number(samples))
        for sentence, samples, runs in zip(draws.sentences, finished, alive, strict=True)
        if not runs
    ]
    kept = parents[~ends]
    if not len(kept):
        return Draws(), done
    return Draws(
        sentences=tuple(sentence for sentence, runs in zip(draws.sentences, alive, strict=True) if runs),
        finished=tuple(samples for samples, runs in zip(finished, alive, strict=True) if runs),
        rows=rows.keep(~ends, renumber(alive)),
        numbers=tuple(draws.numbers[row] for row in kept),
        dice=tuple(draws.dice[row] for row in kept),
        state=select(state, kept, len(draws.rows.owner)),
    ), done


def draw(log_probs: FloatArray, uniforms: FloatArray, settings: SearchConfig) -> IntArray:
    """The columns [rows] in which the ``uniforms`` [rows] fall under temperature and top_p.

    Args:
        log_probs: [rows, k] in ascending order of the ids they belong to, at least one of each row above -inf. The
            order makes the draw robust: rounding that swaps two nearly equal tokens moves a boundary, not an
            interval.
        uniforms: 0 <= u < 1.
    """
    if settings.temperature == 0.0:
        greedy: IntArray = np.argmax(log_probs, axis=1)
        return greedy
    weights = _weights(log_probs, settings.temperature)
    if settings.top_p == 1.0 or not len(weights):
        return _fall(weights, uniforms)
    kept = _nucleus(weights, settings.top_p)
    columns = np.flatnonzero(kept.any(axis=0))
    return columns[_fall(np.where(kept[:, columns], weights[:, columns], 0.0), uniforms)]


def _weights(log_probs: FloatArray, temperature: float) -> FloatArray:
    """[rows, k] the probabilities under ``temperature``, the largest of each row as 1."""
    weights: FloatArray = np.subtract(log_probs, log_probs.max(axis=1, keepdims=True), dtype=np.float64)
    if temperature != 1.0:
        with np.errstate(over="ignore"):
            weights /= temperature
    return np.exp(weights, out=weights)


def _fall(weights: FloatArray, uniforms: FloatArray) -> IntArray:
    """The columns [rows] at which running sums of ``weights`` [rows, k] exceed the shares ``uniforms`` of the whole.

    In a running sum each number waits for the one before, which makes it slower than all else here. Of many columns
    the sums of blocks are taken first; the running sum is left with what is too near to a boundary.
    """
    if weights.shape[1] < 8 * BLOCK:
        return _fall_slowly(weights, uniforms)
    columns = np.array([_fall_surely(*each) for each in zip(weights, uniforms.tolist(), strict=True)], dtype=np.int64)
    if len(unsure := np.flatnonzero(columns < 0)):
        columns[unsure] = _fall_slowly(weights[unsure], uniforms[unsure])
    return columns


def _fall_slowly(weights: FloatArray, uniforms: FloatArray) -> IntArray:
    ends = np.cumsum(weights, axis=1)
    targets = np.minimum(uniforms * ends[:, -1], np.nextafter(ends[:, -1], 0.0))
    columns: IntArray = np.argmax(ends > targets[:, None], axis=1)
    return columns


def _fall_surely(weights: FloatArray, uniform: float) -> int:
    """The column of one row, or -1 where another order of the sum might give another."""
    ends = np.add.reduceat(weights, np.arange(0, len(weights), BLOCK)).cumsum()
    target = uniform * ends[-1]
    block = int(ends.searchsorted(target, side="right"))
    inside = weights[block * BLOCK : (block + 1) * BLOCK].cumsum() + (ends[block - 1] if block else 0.0)
    place = int(inside.searchsorted(target, side="right"))
    rounding = 8 * EPSILON * len(weights) * ends[-1]
    if 0 < place < len(inside) and inside[place - 1] + rounding < target < inside[place] - rounding:
        return block * BLOCK + place
    return -1


def _nucleus(weights: FloatArray, top_p: float) -> BoolArray:
    """Which of ``weights`` [rows, k] are the fewest heaviest that reach the share ``top_p``: Holtzman et al. 2020."""
    heaviest_first = np.sort(weights, axis=1)[:, ::-1]
    reached = np.cumsum(heaviest_first, axis=1)
    sizes = np.count_nonzero(reached - heaviest_first < top_p * reached[:, -1:], axis=1)
    lightest = heaviest_first[np.arange(len(weights)), sizes - 1][:, None]
    heavier, equal = weights > lightest, weights == lightest
    room = sizes - np.count_nonzero(heavier, axis=1)
    kept: BoolArray = heavier | equal
    for row in np.flatnonzero(np.count_nonzero(equal, axis=1) > room).tolist():
        kept[row, np.flatnonzero(equal[row])[room[row] :]] = False
    return kept


def _candidates(
    stepper: Stepper[S], draws: Draws[S], state: S, settings: SearchConfig
) -> tuple[Candidates, BoolArray, S]:
    """What each row draws from, by ascending id."""
    k = 1 if settings.temperature == 0.0 else settings.top_k
    if k:
        candidates, broken, state = propose(stepper, draws.sentences, draws.rows, state, settings, k)
        by_id = np.arange(len(candidates.ids))[:, None], np.argsort(candidates.ids, axis=1)
        return Candidates(candidates.ids[by_id], candidates.log_probs[by_id]), broken, state
    log_probs, broken, state = propose_all(stepper, draws.sentences, draws.rows, state, settings)
    ids = np.broadcast_to(np.arange(log_probs.shape[1]), log_probs.shape)
    return Candidates(ids, log_probs), broken, state


def _by_number(samples: Iterable[tuple[int, Hypothesis]]) -> list[Hypothesis]:
    return [hypothesis for _, hypothesis in sorted(samples, key=lambda numbered: numbered[0])]


def _dice(seed: int, key: int, number: int) -> "np.random.Generator":
    stream = np.array([0, 0, 0, number], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(counter=stream, key=np.array([seed, key], dtype=np.uint64)))


def _run(stepper: Stepper[S], queue: Queue, settings: SearchConfig) -> Iterator[Found]:
    draws: Draws[S] = Draws()
    while True:
        draws = admit(stepper, draws, queue.next_batch(busy=len(draws.sentences)), settings)
        if not draws.sentences:
            return
        draws, done = advance(stepper, draws, settings)
        yield from done
