"""Law 11: an epoch's batches are the corpus, within the budget, in an order that only the seed decides."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.data import buckets
from dragoman.data.tokenfile import TokenFile

LENGTHS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), min_size=1, max_size=80)


def corpus(lengths: list[tuple[int, int]]) -> TokenFile:
    offsets = np.concatenate([[0], np.cumsum(np.array(lengths).ravel())]).astype(np.int64)
    return TokenFile(np.zeros(offsets[-1], np.uint32), offsets)


def batches(lengths: list[tuple[int, int]], budget: int, seed: int = 1, number: int = 0) -> list[list[int]]:
    return [batch.tolist() for batch in buckets.epoch(corpus(lengths), budget, seed, number)]


def random_lengths(count: int, seed: int = 1) -> list[tuple[int, int]]:
    return [(int(a), int(b)) for a, b in np.random.default_rng(seed).integers(1, 60, (count, 2))]


@given(LENGTHS, st.integers(16, 200), st.integers(0, 2**31 - 1), st.integers(0, 1000))
def test_batches_partition_the_corpus_and_keep_the_budget(
    lengths: list[tuple[int, int]], budget: int, seed: int, number: int
) -> None:
    found = batches(lengths, budget, seed, number)
    assert sorted(index for batch in found for index in batch) == list(range(len(lengths)))
    for batch in found:
        assert batch
        assert len(batch) == 1 or sum(max(lengths[index]) + 1 for index in batch) <= budget


@pytest.mark.parametrize("pool", [1, 7, 50, 1000])
def test_pools(pool: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only so many pairs are sorted together; the partition holds whatever the pool."""
    monkeypatch.setattr(buckets, "POOL", pool)
    found = batches(random_lengths(120), 300)
    assert sorted(index for batch in found for index in batch) == list(range(120))
    assert all(len(batch) <= pool for batch in found)


def test_the_order_is_a_pure_function_of_seed_and_epoch() -> None:
    lengths = random_lengths(200)
    state = np.random.get_state()[1].tolist()  # type: ignore[index, union-attr]
    first = batches(lengths, 500, 3, 4)
    assert first == batches(lengths, 500, 3, 4)
    assert np.random.get_state()[1].tolist() == state  # type: ignore[index, union-attr]
    others = [batches(lengths, 500, 3, 5), batches(lengths, 500, 4, 4), batches(lengths, 500, 4, 3)]
    assert all(first != other for other in others)


def test_a_golden_order() -> None:
    """A resumed training must draw the order it had, also under a later version of anything."""
    lengths = [(3, 4), (1, 2), (8, 3), (2, 2), (5, 6), (1, 1), (4, 4), (2, 7)]
    assert batches(lengths, 16, 1, 0) == [[6, 4], [7], [2, 0], [5, 1, 3]]


def test_epochs_mix_other_pairs() -> None:
    """Neighbours of one epoch are not those of the next, although both are sorted by length."""
    lengths = [(5, 5)] * 64
    first, second = ({frozenset(batch) for batch in batches(lengths, 48, 1, number)} for number in (0, 1))
    assert not first & second


def test_little_padding() -> None:
    """At most a tenth of what the model reads is padding."""
    lengths = random_lengths(5000)
    padded = real = 0
    for batch in batches(lengths, 2000):
        padded += len(batch) * (max(lengths[index][1] for index in batch) + 1)
        real += sum(lengths[index][1] + 1 for index in batch)
    assert padded < 1.1 * real


def test_the_longest_pairs_alone() -> None:
    assert sorted(batches([(100, 1), (1, 100), (1, 1)], 16)) == [[0], [1], [2]]


def test_budget_to_the_token() -> None:
    """Four pairs of 3 + 1 tokens are 16; one more token, and only three of them fit."""
    assert sorted(map(len, batches([(3, 3)] * 8, 16))) == [4, 4]
    assert sorted(map(len, batches([(3, 3)] * 8, 15))) == [2, 3, 3]


def test_batches_are_full() -> None:
    """The next pair would not have fitted: no budget is given away."""
    lengths = random_lengths(300)
    sizes = [sum(max(lengths[index]) + 1 for index in batch) for batch in batches(lengths, 500)]
    assert sorted(sizes)[1] > 500 - 61
