"""The loss: by hand, with padding everywhere and nowhere, and in pieces that add up."""

import math

import pytest
import torch
from torch import Tensor

from dragoman.loss import token_loss

LOGITS = torch.tensor([[[2.0, 0.0, -1.0, 0.5], [0.0, 3.0, 0.0, 0.0]]], dtype=torch.float64)
TARGETS = torch.tensor([[1, 2]])


def real(*marks: int) -> Tensor:
    return torch.tensor([marks]).bool()


def drawn(tokens: int, vocab: int = 7, seed: int = 1) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(1, tokens, vocab, generator=generator, dtype=torch.float64)
    return logits, torch.randint(vocab, (1, tokens), generator=generator)


def test_two_tokens_by_hand() -> None:
    """No padding; smoothing 0.1 over all four words."""
    assert float(token_loss(LOGITS, TARGETS, real(1, 1), 0.1)) / 2 == pytest.approx(2.6845279483, abs=1e-10)


def test_without_smoothing_it_is_minus_log_p() -> None:
    expected = -sum(math.log(float(LOGITS[0, i].softmax(-1)[target])) for i, target in enumerate((1, 2)))
    assert float(token_loss(LOGITS, TARGETS, real(1, 1))) == pytest.approx(expected, abs=1e-12)


def test_padding_counts_for_nothing() -> None:
    """Neither its logits nor its targets, which need not even be in the vocabulary."""
    padded = torch.cat([LOGITS, torch.full((1, 2, 4), 50.0)], dim=1)
    targets = torch.tensor([[1, 2, 0, 99]])
    expected = token_loss(LOGITS, TARGETS, real(1, 1), 0.1)
    assert torch.equal(token_loss(padded, targets, real(1, 1, 0, 0), 0.1), expected)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_only_padding(smoothing: float) -> None:
    logits = LOGITS.clone().requires_grad_()
    loss = token_loss(logits, TARGETS, real(0, 0), smoothing)
    loss.backward()
    assert loss.item() == 0
    assert (logits.grad == 0).all()
    assert token_loss(torch.empty(2, 0, 4), torch.empty(2, 0).long(), torch.empty(2, 0).bool(), smoothing).item() == 0


def test_a_target_may_be_the_padding_id() -> None:
    """Only the mask says what is padding."""
    assert float(token_loss(LOGITS[:, :1], torch.tensor([[0]]), real(1))) > 0


def test_a_probability_that_rounds_to_zero() -> None:
    """-log p = 10,000 for the target; with smoothing each of four words weighs 0.025 besides."""
    logits = torch.tensor([[[1e4, 0.0, 0.0, 0.0]]], requires_grad=True)
    assert token_loss(logits, torch.tensor([[1]]), real(1)).item() == pytest.approx(1e4)
    loss = token_loss(logits, torch.tensor([[1]]), real(1), 0.1)
    assert loss.item() == pytest.approx(0.9 * 1e4 + 3 * 0.025 * 1e4)
    loss.backward()
    assert logits.grad is not None
    assert logits.grad.isfinite().all()


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
def test_the_wanted_distribution(smoothing: float) -> None:
    """Read off the gradient, which is p - q: 1 - eps and a share of eps on the target, a share on all others."""
    logits, targets = drawn(3)
    logits.requires_grad_()
    token_loss(logits, targets, real(1, 1, 1), smoothing).backward()
    wanted = torch.full((3, 7), smoothing / 7, dtype=torch.float64)
    wanted[range(3), targets[0]] += 1 - smoothing
    assert (logits.detach().softmax(-1)[0] - logits.grad[0] - wanted).abs().max() < 1e-12


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_sums_add_up(smoothing: float) -> None:
    logits, targets = drawn(9)
    mask = real(1, 0, 1, 1, 1, 0, 0, 1, 1)
    whole = token_loss(logits, targets, mask, smoothing)
    for cut in range(10):
        parts = [token_loss(logits[:, s], targets[:, s], mask[:, s], smoothing) for s in (slice(cut), slice(cut, 9))]
        assert float(sum(parts)) == pytest.approx(float(whole), rel=1e-12)
    rows = token_loss(logits.view(3, 3, 7), targets.view(3, 3), mask.view(3, 3), smoothing)
    assert float(rows) == pytest.approx(float(whole), rel=1e-12)
