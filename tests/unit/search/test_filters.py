"""What a request forbids."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from dragoman.config import SearchConfig
from dragoman.search.filters import are_needed, forbid, repeats
from dragoman.search.request import Sentence
from dragoman.search.rows import Rows

EOS, VOCAB = 2, 8


def sentence(prefix: tuple[int, ...] = (), min_length: int = 0) -> Sentence:
    return Sentence(0, (4,), prefix, max_length=20, min_length=min_length, key=0)


def rows_of(*token_lists: list[int]) -> Rows:
    """One row a sentence."""
    longest = max(len(tokens) for tokens in token_lists)
    tokens = np.array([tokens + [7] * (longest - len(tokens)) for tokens in token_lists], dtype=np.int64)
    lengths = np.array([len(tokens) for tokens in token_lists])
    zeros = np.zeros(len(token_lists))
    return Rows(np.arange(len(token_lists)), tokens.reshape(len(token_lists), longest), zeros, lengths, zeros)


def allowed(sentences: list[Sentence], rows: Rows, settings: SearchConfig) -> list[list[int]]:
    log_probs = np.log(np.arange(1.0, VOCAB + 1)) * np.ones((len(sentences), 1)) - 5
    before = log_probs.copy()
    forbid(log_probs, sentences, rows, settings, EOS)
    open_ = log_probs > -np.inf
    assert (log_probs[open_] == before[open_]).all()
    return [np.flatnonzero(row).tolist() for row in open_]


@hypothesis_settings(derandomize=True, deadline=None, max_examples=100)
@given(st.lists(st.lists(st.integers(0, 3), max_size=9), min_size=1, max_size=4), st.integers(1, 5))
def test_repeats_against_the_definition(token_lists: list[list[int]], n: int) -> None:
    rows = rows_of(*token_lists)
    banned = set(zip(*(index.tolist() for index in repeats(rows.tokens, rows.lengths, n)), strict=True))
    expected = {
        (row, token)
        for row, tokens in enumerate(token_lists)
        for token in range(VOCAB)
        if [*tokens, token][-n:] in [tokens[at : at + n] for at in range(len(tokens) - n + 1)]
    }
    assert banned == expected


def test_each_sentence_has_its_own_limits() -> None:
    sentences = [sentence(min_length=2), sentence(min_length=1), sentence(prefix=(5, 6)), sentence(prefix=(5,))]
    rows = rows_of([3], [3], [5], [5])
    everything = list(range(VOCAB))
    assert allowed(sentences, rows, SearchConfig()) == [[0, 1, 3, 4, 5, 6, 7], everything, [6], everything]


def test_the_prefix_comes_first() -> None:
    """It may hold suppressed and repeated ids; afterwards they are forbidden again."""
    settings = SearchConfig(suppress=(5, 0), no_repeat_ngram=1)
    sentences = [sentence(prefix=(5, 5), min_length=9), sentence(prefix=(5, 5))]
    assert allowed(sentences, rows_of([5], [5, 5]), settings) == [[5], [1, 2, 3, 4, 6, 7]]


def test_an_impossible_prefix_stays_impossible() -> None:
    log_probs = np.zeros((1, VOCAB))
    log_probs[0, 5] = -np.inf
    forbid(log_probs, [sentence(prefix=(5,))], rows_of([]), SearchConfig(), EOS)
    assert (log_probs == -np.inf).all()


@pytest.mark.parametrize(
    ("settings", "constrained", "needed"),
    [
        (SearchConfig(), sentence(), False),
        (SearchConfig(suppress=(3,)), sentence(), True),
        (SearchConfig(no_repeat_ngram=2), sentence(), True),
        (SearchConfig(), sentence(min_length=2), True),
        (SearchConfig(), sentence(min_length=1), False),
        (SearchConfig(), sentence(prefix=(3, 4)), True),
        (SearchConfig(), sentence(prefix=(3,)), False),
    ],
)
def test_full_log_probs_only_when_needed(settings: SearchConfig, constrained: Sentence, needed: bool) -> None:
    assert are_needed([sentence(), constrained], rows_of([3], [3]), settings) is needed
