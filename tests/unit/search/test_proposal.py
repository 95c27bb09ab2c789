"""The likeliest continuations of each row."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from dragoman.search import proposal
from dragoman.search.proposal import top


def assert_top(log_probs: np.ndarray, k: int) -> None:
    found = top(log_probs, k)
    assert found.ids.shape == found.log_probs.shape == (len(log_probs), k)
    assert found.log_probs.dtype == np.float64
    for row, ids, values in zip(log_probs.tolist(), found.ids.tolist(), found.log_probs.tolist(), strict=True):
        best = sorted((-value, id_) for id_, value in enumerate(row) if value > -np.inf)[:k]
        possible = [(-value, id_) for value, id_ in zip(values, ids, strict=True) if value > -np.inf]
        assert possible == best
        assert values[len(best) :] == [-np.inf] * (k - len(best))


@hypothesis_settings(derandomize=True, deadline=None, max_examples=100)
@given(st.data())
def test_top_against_sorting(data: st.DataObject) -> None:
    """With many ties and impossible tokens, however the vocabulary falls into blocks."""
    vocab, rows = data.draw(st.integers(1, 20)), data.draw(st.integers(1, 4))
    k = data.draw(st.integers(1, vocab))
    values = st.sampled_from([-np.inf, -3.0, -2.0, -1.5, -1.0, 0.0])
    log_probs = np.array(
        data.draw(st.lists(st.lists(values, min_size=vocab, max_size=vocab), min_size=rows, max_size=rows))
    )
    blocks = data.draw(st.integers(1, vocab))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(proposal, "BLOCKS", blocks)
        assert_top(log_probs, k)


@pytest.mark.parametrize("k", [1, 5, 300, 1000])
def test_top_of_a_vocabulary(k: int) -> None:
    log_probs = np.random.default_rng(k).normal(size=(3, 1000)).astype(np.float32)
    log_probs[1] = -7.0
    log_probs[2, 5:] = -np.inf
    assert_top(log_probs, k)
