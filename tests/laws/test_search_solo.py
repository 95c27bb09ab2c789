"""Laws 3, 6, 8, 15: company changes nothing, beam 1 is greedy, scores are the model's; and n-best lists are nested."""

import random
from collections.abc import Callable

import numpy as np
import pytest
from msgspec.structs import replace

from dragoman.config import SearchConfig
from dragoman.search.beam import beam_search, stream_greedy
from dragoman.search.request import SourceRequest
from dragoman.search.sample import sample
from dragoman.search.scoring import Hypothesis
from oracles.enumeration import Ids, Rules, TableModel, ToyStepper, greedy_tokens

Answers = dict[int, list[Hypothesis]]


class EndlessForSome(ToyStepper):
    """Never ends the sentences that begin with 0."""

    def log_probs(self, source: Ids, prefix: Ids) -> np.ndarray:
        log_probs = self.model.log_probs(source, prefix)
        if source[0] == 0:
            log_probs[self.eos_id] = -np.inf
        return log_probs


MODEL = TableModel(12, seed=5, sharpness=1.5, eos_bonus=1.0)
SOURCES = [(0, 1, 2)] + [tuple(random.Random(i).choices(range(1, 9), k=1 + i * 7 % 60)) for i in range(39)]
SETTINGS = SearchConfig(beam_size=4, n_best=4, max_length_ratio=0.5, max_length_extra=6)


def by_index(found: object) -> Answers:
    answers: Answers = {}
    for index, hypotheses in found:  # type: ignore[attr-defined]
        assert index not in answers
        answers[index] = hypotheses
    return answers


def mixed_requests() -> list[SourceRequest]:
    """Every third one plain, the others each with a prefix or limits of their own; keys for sampling."""
    requests = []
    for i, source in enumerate(SOURCES):
        prefix = (3, 4, 5)[: i % 3] if i % 2 else ()
        requests.append(SourceRequest(source, prefix, min_length=i % 5 if i % 3 else None, key=i))
    return requests


def assert_solo(run: Callable[[list[SourceRequest], int], Answers], requests: list[SourceRequest]) -> None:
    """Answers are equal to the last bit: alone, in any number of slots, in any order."""
    alone = [run([request], 1)[0] for request in requests]
    assert all(alone)
    for slots in (2, 7, 64):
        order = list(range(len(requests)))
        random.Random(slots).shuffle(order)
        answers = run([requests[i] for i in order], slots)
        assert [answers[place] for place in range(len(order))] == [alone[i] for i in order]


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0, -1.0])
@pytest.mark.parametrize("beam", [1, 4, 8])
def test_alone_is_in_any_company(beam: int, alpha: float) -> None:
    settings = replace(SETTINGS, beam_size=beam, n_best=min(beam, 3), length_penalty=alpha)
    requests = [SourceRequest(source) for source in SOURCES]
    assert_solo(lambda batch, slots: by_index(beam_search(EndlessForSome(MODEL), batch, settings, slots)), requests)


@pytest.mark.parametrize("changes", [{}, {"no_repeat_ngram": 2, "suppress": (7,)}])
def test_alone_is_in_any_company_with_filters(changes: dict[str, object]) -> None:
    settings = replace(SETTINGS, **changes)
    stepper = EndlessForSome(MODEL)
    assert_solo(lambda batch, slots: by_index(beam_search(stepper, batch, settings, slots)), mixed_requests())


@pytest.mark.parametrize("changes", [{}, {"top_k": 3}, {"top_p": 0.6, "no_repeat_ngram": 2}, {"temperature": 0.0}])
def test_a_sample_is_its_own(changes: dict[str, object]) -> None:
    settings = replace(SETTINGS, **{"n_best": 2, **changes})
    stepper = EndlessForSome(MODEL)
    assert_solo(lambda batch, slots: by_index(sample(stepper, batch, settings, slots)), mixed_requests())


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0, -1.0, 3.0])
@pytest.mark.parametrize("norm", ["power", "gnmt"])
def test_n_best_is_nested(alpha: float, norm: str) -> None:
    requests = [SourceRequest(source, max_length=14) for source in SOURCES[1:13]]
    longest = None
    for n_best in range(6, 0, -1):
        settings = replace(SETTINGS, beam_size=6, n_best=n_best, length_penalty=alpha, length_norm=norm)
        answers = by_index(beam_search(ToyStepper(MODEL), requests, settings, slots=5))
        longest = longest or answers
        assert answers == {index: found[:n_best] for index, found in longest.items()}


def test_beam_one_is_greedy() -> None:
    requests = mixed_requests()[1:]
    settings = replace(SETTINGS, beam_size=1, n_best=1, no_repeat_ngram=3, suppress=(6,))
    answers = by_index(beam_search(ToyStepper(MODEL), requests, settings, slots=8))
    drawn = by_index(sample(ToyStepper(MODEL), requests, replace(settings, temperature=0.0), slots=8))
    for index, request in enumerate(requests):
        limit = max(int(0.5 * len(request.ids)), len(request.prefix), request.min_length or 0) + 6
        rules = Rules(limit, request.min_length or 0, tuple(request.prefix), 3, (6,))
        expected = greedy_tokens(MODEL, tuple(request.ids), rules)
        expected = expected[:-1] if expected[-1] == MODEL.eos_id else expected
        [hypothesis] = answers[index]
        assert hypothesis.ids == expected
        assert drawn[index] == [hypothesis]
        assert tuple(stream_greedy(ToyStepper(MODEL), request, settings)) == expected


@pytest.mark.parametrize("search", [beam_search, sample])
def test_scores_are_the_models_own(search: Callable[..., object]) -> None:
    settings = replace(SETTINGS, no_repeat_ngram=3, suppress=(6,), length_penalty=0.6, top_p=0.8)
    requests = mixed_requests()[1:]
    for index, hypotheses in by_index(search(ToyStepper(MODEL), requests, settings, 7)).items():
        for hypothesis in hypotheses:
            tokens = hypothesis.ids + (MODEL.eos_id,) * (hypothesis.finish_reason == "eos")
            expected = MODEL.score_tokens(tuple(requests[index].ids), tokens)
            assert hypothesis.token_log_probs == pytest.approx(expected, abs=1e-12)
            assert hypothesis.log_prob == pytest.approx(sum(expected), abs=1e-10)
            assert hypothesis.score == pytest.approx(sum(expected) / len(tokens) ** 0.6, abs=1e-10)


def test_the_outputs_are_well_formed() -> None:
    settings = replace(SETTINGS, beam_size=8, n_best=8)
    requests = mixed_requests()
    for index, hypotheses in by_index(beam_search(EndlessForSome(MODEL), requests, settings, 7)).items():
        source, prefix = requests[index].ids, tuple(requests[index].prefix)
        least, most = requests[index].min_length or 0, max(len(source) // 2, len(prefix), index % 5) + 6
        assert len({hypothesis.ids for hypothesis in hypotheses}) == len(hypotheses)
        assert [h.score for h in hypotheses] == sorted((h.score for h in hypotheses), reverse=True)
        for hypothesis in hypotheses:
            assert MODEL.eos_id not in hypothesis.ids
            assert hypothesis.ids[: len(prefix)] == prefix
            assert hypothesis.finish_reason in (("length",) if source[0] == 0 else ("eos", "length"))
            length = len(hypothesis.ids) + (hypothesis.finish_reason == "eos")
            assert len(hypothesis.token_log_probs) == length <= most
            assert len(hypothesis.ids) >= least
            assert hypothesis.finish_reason == "eos" or len(hypothesis.ids) >= 6
