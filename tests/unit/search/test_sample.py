"""Sampling: the right distribution, cut the right way, and repeatable."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from msgspec.structs import replace

from dragoman.config import SearchConfig
from dragoman.errors import RequestError
from dragoman.search.request import SourceRequest
from dragoman.search.sample import Draws, advance, draw, sample
from dragoman.search.scoring import Hypothesis
from oracles.enumeration import Ids, TableModel, ToyStepper

ONE_TOKEN = SourceRequest((4, 5), max_length=1)


def samples(stepper: ToyStepper, settings: SearchConfig, *requests: SourceRequest) -> list[list[Hypothesis]]:
    found = dict(sample(stepper, requests, settings, slots=3))
    return [found[index] for index in range(len(requests))]


def many(**changes: object) -> SearchConfig:
    return replace(SearchConfig(), **{"n_best": 2000, "beam_size": 2000, **changes})


class NotFinite(ToyStepper):
    """NaN for the sentences that begin with 9, after two tokens."""

    def log_probs(self, source: Ids, prefix: Ids) -> np.ndarray:
        log_probs = self.model.log_probs(source, prefix)
        return log_probs * np.nan if source[0] == 9 and len(prefix) > 1 else log_probs


def cut(probabilities: np.ndarray, top_k: int, top_p: float) -> np.ndarray:
    """The definition, token by token."""
    order = sorted(range(len(probabilities)), key=lambda id_: (-probabilities[id_], id_))
    kept = order[:top_k] if top_k else order
    total, reached, nucleus = probabilities[kept].sum(), 0.0, []
    for id_ in kept:
        if reached < top_p * total:
            nucleus.append(id_)
        reached += probabilities[id_]
    result = np.zeros(len(probabilities))
    result[nucleus] = probabilities[nucleus] / probabilities[nucleus].sum()
    return result


@pytest.mark.parametrize(
    ("temperature", "top_k", "top_p"),
    [(1.0, 0, 1.0), (0.5, 0, 1.0), (3.0, 0, 1.0), (1.0, 3, 1.0), (1.0, 0, 0.7), (2.0, 4, 0.6), (1.0, 99, 1.0)],
)
def test_frequencies(temperature: float, top_k: int, top_p: float) -> None:
    model = TableModel(8, seed=3)
    [drawn] = samples(ToyStepper(model), many(temperature=temperature, top_k=top_k, top_p=top_p), ONE_TOKEN)
    counts = Counter(h.ids[0] if h.ids else model.eos_id for h in drawn)
    warmed = np.exp(model.log_probs((4, 5), ()) / temperature)
    expected = cut(warmed / warmed.sum(), top_k, top_p)
    for id_ in range(8):
        deviation = np.sqrt(2000 * expected[id_] * (1 - expected[id_]))
        assert abs(counts[id_] - 2000 * expected[id_]) <= 4 * deviation
    for hypothesis in drawn[:50]:
        token = hypothesis.ids[0] if hypothesis.ids else model.eos_id
        assert hypothesis.log_prob == pytest.approx(model.log_probs((4, 5), ())[token], abs=1e-12)


def test_ties_at_the_edge_of_the_nucleus_go_to_the_smaller_ids() -> None:
    log_probs = np.log(np.full((1, 5), 0.2))
    settings = SearchConfig(top_p=0.5)
    columns = [int(draw(log_probs, np.array([u]), settings)[0]) for u in np.linspace(0, 0.999, 50)]
    assert set(columns) == {0, 1, 2}


def test_the_ends_of_the_unit_interval() -> None:
    log_probs = np.array([[-np.inf, -1.0, -2.0, -np.inf]] * 2)
    extremes = np.array([0.0, np.nextafter(1.0, 0.0)])
    for temperature in (1e-300, 1e-6, 1.0, 1e6):
        columns = draw(log_probs, extremes, SearchConfig(temperature=temperature)).tolist()
        assert columns == ([1, 1] if temperature < 1e-3 else [1, 2])


@pytest.mark.parametrize("temperature", [0.3, 1.0, 7.0])
@pytest.mark.parametrize("width", [1, 40, 1024, 1025, 3001])
def test_the_running_sum_decides(width: int, temperature: float) -> None:
    """Where numbers fall on a boundary, or one bit beside it, and wherever else."""
    rng = np.random.default_rng(width)
    log_probs = rng.choice([-np.inf, 1.0], width, p=[0.3, 0.7]) * rng.exponential(5.0, width)
    log_probs = np.where(np.arange(width) == width // 2, 0.0, -np.abs(log_probs)).astype(np.float32)
    ends = np.cumsum(np.exp(log_probs.astype(np.float64) / temperature))
    edges = np.concatenate([[0.0, 1.0], rng.choice(ends, 200) / ends[-1]])
    uniforms = np.concatenate([edges, np.nextafter(edges, 0.0), np.nextafter(edges, 1.0), rng.random(300)])
    uniforms = uniforms[uniforms < 1.0]
    wanted = [int(np.flatnonzero(ends > min(u * ends[-1], np.nextafter(ends[-1], 0.0)))[0]) for u in uniforms]
    drawn = draw(np.tile(log_probs, (len(uniforms), 1)), uniforms, SearchConfig(temperature=temperature))
    assert drawn.tolist() == wanted


@pytest.mark.parametrize("top_p", [0.2, 0.5, 0.95])
def test_the_nucleus_of_many(top_p: float) -> None:
    """With ties everywhere, row by row against the definition."""
    rng = np.random.default_rng(3)
    log_probs = -rng.integers(0, 5, size=(6, 2000)).astype(np.float64)
    uniforms = rng.random(6)
    expected = []
    for row, uniform in zip(log_probs, uniforms, strict=True):
        ends = np.cumsum(cut(np.exp(row), 0, top_p))
        expected.append(int(np.flatnonzero(ends > uniform * ends[-1])[0]))
    assert draw(log_probs, uniforms, SearchConfig(top_p=top_p)).tolist() == expected


def test_seed_key_and_number_decide() -> None:
    stepper = ToyStepper(TableModel(30, sharpness=0.5, eos_bonus=-3.0))
    request, twin = SourceRequest((4,), key=7), SourceRequest((4,), key=8)
    settings = SearchConfig(n_best=3, seed=5)
    [first, second, other] = samples(stepper, settings, request, request, twin)
    assert first == second
    assert len({h.ids for h in first + other}) == 6
    assert samples(stepper, replace(settings, seed=6), request)[0] != first
    assert samples(stepper, replace(settings, n_best=2), request)[0] == first[:2]
    [by_place, by_place_too] = samples(stepper, settings, SourceRequest((4,)), SourceRequest((4,)))
    assert by_place != by_place_too, "without a key the place in the queue counts"


def test_limits_and_filters_hold() -> None:
    stepper = ToyStepper(TableModel(6, eos_bonus=2.0))
    request = SourceRequest((4,), prefix=(3,), max_length=5, min_length=3)
    [drawn] = samples(stepper, many(n_best=200, suppress=(5,), no_repeat_ngram=2), request)
    assert len({h.ids for h in drawn}) > 10
    for hypothesis in drawn:
        ids = hypothesis.ids
        assert ids[0] == 3
        assert 3 <= len(ids) <= 5
        assert 5 not in ids
        assert len(set(pairwise(ids))) == len(ids) - 1
        assert hypothesis.finish_reason == ("length" if len(ids) == 5 else "eos")


def test_top_tokens_are_enough_for_top_k() -> None:
    stepper = ToyStepper(TableModel(9))
    samples(stepper, SearchConfig(top_k=3), SourceRequest((4,)))
    samples(stepper, SearchConfig(temperature=0.0), SourceRequest((4,)))
    assert stepper.full_steps == 0
    samples(stepper, SearchConfig(), SourceRequest((4,)))
    assert stepper.full_steps > 0


@pytest.mark.parametrize("changes", [{}, {"top_k": 2}])
def test_a_broken_sentence_is_empty_and_alone(changes: dict[str, object]) -> None:
    stepper = NotFinite(TableModel(9, eos_bonus=-5.0))
    settings = replace(SearchConfig(n_best=3), **changes)
    good = SourceRequest((3,), key=1)
    answers = samples(stepper, settings, good, SourceRequest((9,)), good)
    assert answers[1] == []
    assert answers[0] == answers[2] == samples(stepper, settings, good)[0]
    assert len(answers[0]) == 3


@pytest.mark.parametrize("top_p", [1.0, 0.5])
def test_dead_ends_are_left_out(top_p: float) -> None:
    settings = SearchConfig(no_repeat_ngram=1, suppress=(2,), top_p=top_p)
    assert samples(ToyStepper(TableModel(4)), settings, SourceRequest((4,), max_length=9)) == [[]]
    assert samples(ToyStepper(TableModel(4, impossible=(3,))), SearchConfig(), SourceRequest((4,), prefix=(3,))) == [[]]


def test_no_requests() -> None:
    stepper = ToyStepper(TableModel(6))
    assert list(sample(stepper, [], SearchConfig(), slots=4)) == []
    assert advance(stepper, Draws(), SearchConfig())[1] == []


def test_settings_are_refused_at_the_call() -> None:
    with pytest.raises(RequestError, match="temperature=nan"):
        sample(ToyStepper(TableModel(6)), [], replace(SearchConfig(), temperature=np.nan), slots=4)
