"""The worked examples of the study notes with which this project began, computed right.

The notes explain the Transformer in Chinese with numbers and code. Where they slip, the docstring says how; whoever
learns from them finds the right values here.
"""

import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from dragoman.model import masks
from dragoman.model.attention import attend, attend_fused, attention_weights
from dragoman.model.embedding import TokenEmbedding
from dragoman.model.positions import sinusoids
from oracles import attention as pencil

WORDS = torch.tensor([[0.5, 0.1, 0.3], [0.7, 0.2, 0.9], [0.6, 0.4, 0.8], [0.8, 0.3, 0.5]], dtype=torch.float64)
"""Four words of width 3; also their queries and values, whose projections are the identity."""

KEY_PROJECTION = torch.tensor([[0.5, 0.1, 0.3], [0.2, 0.7, 0.1], [0.3, 0.1, 0.6]], dtype=torch.float64)

KEYS = [[0.36, 0.15, 0.34], [0.66, 0.30, 0.77], [0.62, 0.42, 0.70], [0.61, 0.34, 0.57]]
SCORES = [
    [0.1715, 0.3412, 0.3245, 0.2944],
    [0.3395, 0.7015, 0.6628, 0.5820],
    [0.3164, 0.6536, 0.6351, 0.5531],
    [0.2904, 0.5791, 0.5612, 0.5052],
]
WEIGHTS = [[1, 0, 0, 0], [0.4105, 0.5895, 0, 0], [0.2648, 0.3710, 0.3642, 0], [0.2047, 0.2732, 0.2684, 0.2537]]
OUTPUT = [[0.5, 0.1, 0.3], [0.6179, 0.1590, 0.6537], [0.6106, 0.2464, 0.7047], [0.6576, 0.2586, 0.6488]]


def heads(x: Tensor) -> Tensor:
    """A sentence as a batch of one with one head."""
    return x[None, None]


def test_masked_attention_over_four_words() -> None:
    """The example of masked self-attention.

    In the notes the product with the key projection is wrong in every row (the first key begins with 0.32 instead of
    0.36), and all that follows from it. Their weights are, beyond that, not the softmax of their own scores: rows 3 and
    4 fall towards the right although the scores hardly differ. And their output is not the product of their weights
    with the values. The right values are worked out in numpy with three loops, and pinned here to four digits.
    """
    keys = WORDS @ KEY_PROJECTION
    assert keys.tolist() == [pytest.approx(row, abs=1e-12) for row in KEYS]
    assert (WORDS @ keys.T / math.sqrt(3)).tolist() == [pytest.approx(row, abs=6e-5) for row in SCORES]
    mask = masks.causal(4, 4)
    weights = attention_weights(heads(WORDS), heads(keys), heads(mask))[0, 0]
    assert weights.tolist() == [pytest.approx(row, abs=6e-5) for row in WEIGHTS]
    for way in (attend, attend_fused):
        mixed = way(heads(WORDS), heads(keys), heads(WORDS), heads(mask))[0, 0]
        assert mixed.tolist() == [pytest.approx(row, abs=6e-5) for row in OUTPUT]
    by_pencil = pencil.attend(WORDS.numpy(), keys.numpy(), WORDS.numpy(), mask.numpy())
    assert np.abs(by_pencil - np.array(OUTPUT)).max() < 6e-5


def test_who_may_look_at_whom() -> None:
    """The mask of the notes, zeros on and below the diagonal and minus infinity above, is ours with True for zero.

    A remark there, that the code masks the lower triangle, has it the wrong way round: hidden is what lies above.
    """
    scores = torch.zeros(4, 4).masked_fill(~masks.causal(4, 4), -torch.inf)
    assert torch.equal(scores, torch.full((4, 4), -torch.inf).triu(1))


def test_position_two_of_width_four() -> None:
    """The example of a position vector.

    In the notes sine and cosine of one pair get different frequencies (exponents 0, 1/4, 2/4, 3/4). Equation and paper
    give both of a pair the same, 2i/d: here 0, 0, 2/4, 2/4. So the second number is cos(2), not cos(2/100).
    """
    found = sinusoids(torch.tensor(2), 4).tolist()
    assert found == pytest.approx([math.sin(2), math.cos(2), math.sin(2 / 100), math.cos(2 / 100)], abs=1e-12)
    assert found == pytest.approx([0.9093, -0.4161, 0.0200, 0.9998], abs=5e-5)


def test_the_second_word_stands_at_position_one() -> None:
    """The word of that example is the second of its sentence: counted from 0, as elsewhere in the notes, it is at 1."""
    assert sinusoids(torch.arange(3), 4)[1].tolist() == pytest.approx([0.8415, 0.5403, 0.0100, 0.99995], abs=5e-5)


def test_position_zero_of_width_512() -> None:
    """Zeros and ones in turn. In the notes the pairs run up to i = 256, which would be 514 numbers; the last is 255."""
    assert sinusoids(torch.tensor(0), 512).tolist() == [0.0, 1.0] * 256


def test_a_power_is_not_a_caret() -> None:
    """The position code of the notes divides by ``10000 ^ x``: which is *exclusive or*, an error for floats."""
    with pytest.raises(TypeError, match="unsupported operand"):
        eval("10000 ^ (2 / 4)")
    assert 10000 ** (2 / 4) == 100.0


def test_one_who_may_look_at_nothing() -> None:
    """The attention code of the notes writes -1e9 where nothing may be seen: a row of only those becomes uniform.

    (Its function also lacks ``self`` and cannot be called as written.) Here such a row is zero.
    """
    blind = torch.zeros(1, 1, 1, 3, dtype=torch.bool)
    scores = torch.tensor([0.1, 0.2, 0.3]).masked_fill(~blind[0, 0, 0], -1e9)
    assert scores.softmax(-1).tolist() == pytest.approx([1 / 3] * 3)
    queries, keys = torch.ones(1, 1, 1, 2), torch.ones(1, 1, 3, 2)
    assert attention_weights(queries, keys, blind).tolist() == [[[[0.0, 0.0, 0.0]]]]


def test_layer_norm_divides_by_the_deviation_of_the_row() -> None:
    """The norm code of the notes takes the deviation of a sample, dividing by d - 1; their formula, and we, by d."""
    row = torch.tensor([1.0, 2.0, 3.0])
    assert nn.LayerNorm(3)(row).tolist() == pytest.approx([-math.sqrt(1.5), 0.0, math.sqrt(1.5)], abs=1e-4)
    assert ((row - row.mean()) / row.std()).tolist() == pytest.approx([-1.0, 0.0, 1.0])


def test_the_embedding_has_a_row_for_each_word_of_the_vocabulary() -> None:
    """The notes call the number of rows the sequence's length; it is the vocabulary's. The sentence has 6 of them."""
    token = TokenEmbedding(1000, 512)
    nn.init.normal_(token.weight)
    assert token.weight.shape == (1000, 512)
    assert token(torch.tensor([[5, 17, 3, 8, 5, 99]])).shape == (1, 6, 512)
