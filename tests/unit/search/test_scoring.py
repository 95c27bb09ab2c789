"""Length normalisation, order and the bound."""

import math

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from dragoman.config import SearchConfig
from dragoman.search.scoring import Hypothesis, best_reachable, is_settled, length_penalty, normalise, ranked
from oracles.enumeration import Norm


def hypothesis_of(score: float, *ids: int) -> Hypothesis:
    return Hypothesis(ids, log_prob=score, score=score, token_log_probs=(score,), finish_reason="eos")


@pytest.mark.parametrize(
    ("norm", "alpha", "length", "expected"),
    [
        ("power", 0.0, 7, 1.0),
        ("power", 1.0, 7, 7.0),
        ("power", 2.0, 3, 9.0),
        ("power", -1.0, 4, 0.25),
        ("gnmt", 0.0, 7, 1.0),
        ("gnmt", 1.0, 7, 2.0),
        ("gnmt", 0.6, 1, 1.0),
        ("gnmt", 0.6, 20, (25 / 6) ** 0.6),
        ("gnmt", -1.0, 7, 0.5),
    ],
)
def test_length_penalty(norm: Norm, alpha: float, length: int, expected: float) -> None:
    settings = SearchConfig(length_norm=norm, length_penalty=alpha)
    assert length_penalty(length, settings) == pytest.approx(expected, rel=1e-15)
    assert normalise(-3.0, length, settings) == pytest.approx(-3.0 / expected, rel=1e-15)


def test_ranked_breaks_ties_by_ids() -> None:
    hypotheses = [hypothesis_of(-1.0, 3), hypothesis_of(-2.0, 0), hypothesis_of(-1.0, 1, 9), hypothesis_of(-1.0, 1)]
    assert [h.ids for h in ranked(hypotheses)] == [(1,), (1, 9), (3,), (0,)]


@hypothesis_settings(derandomize=True, deadline=None, max_examples=100)
@given(
    st.lists(st.floats(-20, 0), min_size=2, max_size=12),
    st.integers(0, 10),
    st.floats(-10, 10),
    st.sampled_from(["power", "gnmt"]),
)
def test_the_bound_is_admissible(steps: list[float], cut: int, alpha: float, norm: Norm) -> None:
    """No continuation that stays within the limit beats it, wherever it ends."""
    settings = SearchConfig(length_penalty=alpha, length_norm=norm)
    length = min(cut, len(steps) - 1)
    bound = best_reachable(math.fsum(steps[:length]), length, len(steps), settings)
    for end in range(length + 1, len(steps) + 1):
        score = normalise(math.fsum(steps[:end]), end, settings)
        assert score <= bound + 1e-9 * abs(bound)


def test_settled_needs_all_n_best() -> None:
    settings = SearchConfig(n_best=2, length_penalty=0.0)
    one, two = hypothesis_of(-1.0, 3), hypothesis_of(-2.0, 4)
    assert not is_settled([one], best_live=-9.0, length=1, max_length=5, settings=settings)
    assert is_settled([two, one], best_live=-2.5, length=1, max_length=5, settings=settings)
    assert not is_settled([two, one], best_live=-1.5, length=1, max_length=5, settings=settings)
    assert not is_settled([two, one], best_live=-2.0, length=1, max_length=5, settings=settings), "a tie is not settled"


def test_settled_looks_at_the_longest_output() -> None:
    """-4 over 2 tokens is worse than -1, but over the 8 allowed ones it would be -0.5."""
    one = hypothesis_of(-1.0, 3)
    assert not is_settled([one], best_live=-4.0, length=2, max_length=8, settings=SearchConfig())
    assert is_settled([one], best_live=-9.0, length=2, max_length=8, settings=SearchConfig())
