"""The cache as a value: what it drops, and what it shares."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from dragoman.data.batch import pad
from dragoman.model.cache import DecoderCache
from toys import toy_model

MODEL = toy_model(num_decoder_layers=2)


def cache_of(sources: list[list[int]], steps: int = 0) -> DecoderCache:
    src, src_mask = pad(sources)
    cache = MODEL.start(MODEL.encode(src, src_mask), src_mask)
    for _ in range(steps):
        _, cache = MODEL.step(torch.full((len(sources), 1), 1), cache)
    return cache


def test_memory_stands_once_for_all_beams_of_a_sentence() -> None:
    cache = cache_of([[3, 2], [4, 5, 2]], 1).select(torch.tensor([1, 1, 0, 1]))
    assert cache.sentences.tolist() == [1, 1, 0, 1]
    assert cache.layers[0].keys.shape[0] == 4
    assert cache.layers[1].memory_keys.shape[0] == 2


def test_sentences_that_nobody_translates_are_dropped() -> None:
    cache = cache_of([[3, 2], [4, 5, 2], [6, 2]], 1).select(torch.tensor([2, 1, 2]))
    assert cache.sentences.tolist() == [1, 0, 1]
    assert cache.memory_mask.tolist() == [[True, True, True], [True, True, False]]
    assert cache.layers[0].memory_values.shape[0] == 2


def test_columns_that_nobody_uses_are_dropped() -> None:
    joined = cache_of([[3, 2]], 5).join(cache_of([[4, 2]], 2))
    assert joined.filled.tolist() == [[True] * 5, [False, False, False, True, True]]
    left = joined.select(torch.tensor([1]))
    assert left.filled.tolist() == [[True, True]]
    assert left.layers[0].keys.shape[2] == 2


def test_positions_count_a_rows_own_tokens() -> None:
    joined = cache_of([[3, 2]], 5).join(cache_of([[4, 2]], 2)).join(cache_of([[4, 2]]))
    assert joined.positions(2).tolist() == [[5, 6], [2, 3], [0, 1]]


def test_joining_pads_the_shorter_memory() -> None:
    joined = cache_of([[3, 2]]).join(cache_of([[4, 5, 6, 2]]))
    assert joined.memory_mask.tolist() == [[True, True, False, False], [True] * 4]
    assert joined.sentences.tolist() == [0, 1]
    assert joined.filled.shape == (2, 0)


@given(st.lists(st.integers(0, 3), max_size=12))
def test_every_row_has_a_place_in_its_sentences_column(sentences: list[int]) -> None:
    """Places fill each column from the top and no place is taken twice."""
    cache = DecoderCache(
        (), torch.zeros(len(sentences), 0).bool(), torch.ones(4, 2).bool(), torch.tensor(sentences).long()
    )
    places = cache.places.tolist()
    assert [place % 4 for place in places] == sentences
    for sentence in range(4):
        ranks = [place // 4 for place in places if place % 4 == sentence]
        assert ranks == list(range(len(ranks)))


def test_selecting_from_a_fresh_cache() -> None:
    cache = cache_of([[3, 2], [4, 2]]).select(torch.tensor([1]))
    assert cache.filled.shape == (1, 0)
    assert cache.sentences.tolist() == [0]
