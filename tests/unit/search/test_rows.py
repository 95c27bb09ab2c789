"""The flat arrays of unfinished hypotheses."""

import numpy as np
import pytest

from dragoman.config import SearchConfig
from dragoman.search.rows import Rows, renumber

BOS, EOS = 1, 2


def test_life_of_rows() -> None:
    rows = Rows.empty().arrive(sentences=2, rows_each=1)
    assert rows.newest(BOS).tolist() == [BOS, BOS]
    rows = rows.grow(np.array([0, 0, 1]), np.array([5, 6, 7]), np.array([-1.0, -2.0, -3.0]))
    assert rows.owner.tolist() == [0, 0, 1]
    rows = rows.arrive(sentences=1, rows_each=2)
    assert rows.owner.tolist() == [0, 0, 1, 2, 2]
    assert rows.newest(BOS).tolist() == [5, 6, 7, BOS, BOS]
    rows = rows.grow(np.array([1, 2, 4]), np.array([8, 9, 3]), np.array([-0.5, -0.25, -4.0]))
    assert rows.lengths.tolist() == [2, 2, 1]
    assert rows.newest(BOS).tolist() == [8, 9, 3]
    assert rows.log_probs.tolist() == [-2.5, -3.25, -4.0]
    kept = rows.keep(np.array([True, False, True]), renumber([True, False, True]))
    assert kept.owner.tolist() == [0, 1]
    assert kept.tokens[0].tolist() == [6, 8]
    assert kept.token_log_probs[0].tolist() == [-2.0, -0.5]
    assert kept.grow(np.array([1]), np.array([4]), np.array([-1.0])).tokens.tolist() == [[3, 4]], "columns are trimmed"


@pytest.mark.parametrize(("last", "reason", "ids"), [(EOS, "eos", (5,)), (6, "length", (5, 6))])
def test_hypothesis(last: int, reason: str, ids: tuple[int, ...]) -> None:
    rows = Rows.empty().arrive(1, 1).grow(np.array([0]), np.array([5]), np.array([-1.0]))
    rows = rows.grow(np.array([0]), np.array([last]), np.array([-2.0]))
    hypothesis = rows.hypothesis(0, EOS, SearchConfig())
    assert (hypothesis.ids, hypothesis.finish_reason) == (ids, reason)
    assert (hypothesis.log_prob, hypothesis.score, hypothesis.token_log_probs) == (-3.0, -1.5, (-1.0, -2.0))
