"""Batches by hand."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dragoman.data.batch import collate, pad

IDS = st.lists(st.integers(3, 50), max_size=6)


def test_by_hand() -> None:
    batch = collate([([5, 6, 7], [8]), ([9], [10, 11])])
    assert batch.src.tolist() == [[5, 6, 7, 2], [9, 2, 0, 0]]
    assert batch.src_mask.tolist() == [[True] * 4, [True, True, False, False]]
    assert batch.tgt_out.tolist() == [[8, 2, 0], [10, 11, 2]]
    assert batch.tgt_mask.tolist() == [[True, True, False], [True] * 3]
    assert batch.tgt_in[0, :2].tolist() == [1, 8]
    assert batch.tgt_in[1].tolist() == [1, 10, 11]
    assert (batch.tgt_tokens, batch.tokens) == (5, 11)


@given(st.lists(st.tuples(IDS, IDS), min_size=1, max_size=5))
def test_every_row_can_be_read_back(pairs: list[tuple[list[int], list[int]]]) -> None:
    batch = collate(pairs)
    for row, (src, tgt) in enumerate(pairs):
        assert batch.src[row][batch.src_mask[row]].tolist() == [*src, 2]
        assert batch.tgt_out[row][batch.tgt_mask[row]].tolist() == [*tgt, 2]
        assert batch.tgt_in[row][batch.tgt_mask[row]].tolist() == [1, *tgt]
    assert (batch.src[~batch.src_mask] == 0).all()
    assert (batch.tgt_out[~batch.tgt_mask] == 0).all()
    assert batch.src_mask.any(1).all()
    assert batch.tokens == sum(len(src) + len(tgt) + 2 for src, tgt in pairs)
    assert batch.src.dtype == batch.tgt_in.dtype == torch.int64


@pytest.mark.parametrize(("rows", "shape"), [([], (0, 0)), ([[]], (1, 0)), ([[], [3]], (2, 1)), ([[1, 2]] * 3, (3, 2))])
def test_shapes_of_padding(rows: list[list[int]], shape: tuple[int, int]) -> None:
    ids, real = pad(rows)
    assert tuple(ids.shape) == tuple(real.shape) == shape
    assert ids.dtype == torch.int64
    assert int(real.sum()) == sum(map(len, rows))
