"""Batches that do not fit into memory."""

from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch

from dragoman.data.batch import Batch, collate
from dragoman.train.loop import Loop
from dragoman.train.shortage import within_memory
from dragoman.train.step import Gradient, Place, backpropagate
from folders import random_model, toy_settings
from trainings import Silent, fresh

PAIRS = [([5, 6, 7], [8, 9]), ([5], [6, 7, 8, 9]), ([7, 8], [5]), ([9], [9]), ([6, 5, 9, 8, 7], [5, 6])]


def tight(most: int, error: Exception) -> Callable[[Sequence[Batch]], Gradient]:
    """A gradient for which a batch may have ``most`` numbers."""

    def compute(batches: Sequence[Batch]) -> Gradient:
        if any(batch.src.numel() + batch.tgt_in.numel() > most for batch in batches):
            raise error
        return Gradient(float(len(batches)), 1, sum(batch.tokens for batch in batches), 0.0)

    return compute


ERRORS = [MemoryError(), RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried")]


@pytest.mark.parametrize("error", ERRORS, ids=["python", "torch"])
def test_cut_until_it_fits(error: Exception) -> None:
    batches = [collate(PAIRS), collate(PAIRS[:2])]
    whole = within_memory(tight(1000, error), batches)
    assert (whole.batches, whole.lost) == (2, 0)
    cut = within_memory(tight(20, error), batches)
    assert cut.lost == 0
    assert cut.batches > 2
    assert cut.gradient.tokens == whole.gradient.tokens


def test_what_does_not_fit_alone_is_left_out() -> None:
    fitted = within_memory(tight(7, ERRORS[0]), [collate(PAIRS)])
    kept = [pair for pair in PAIRS if len(pair[0]) + len(pair[1]) + 2 <= 7]
    assert fitted.lost == len(PAIRS) - len(kept) == 1
    assert fitted.gradient.tokens == collate(kept).tokens


def test_nothing_fits() -> None:
    fitted = within_memory(tight(0, ERRORS[1]), [collate(PAIRS)])
    assert (fitted.batches, fitted.lost, fitted.gradient.tokens) == (0, len(PAIRS), 0)


def test_no_memory_for_nothing_is_an_error() -> None:
    def never(_: Sequence[Batch]) -> Gradient:
        raise MemoryError

    with pytest.raises(MemoryError):
        within_memory(never, [collate(PAIRS)])


def test_other_errors_are_not_caught() -> None:
    with pytest.raises(RuntimeError, match="shapes"):
        within_memory(tight(1, RuntimeError("shapes do not fit")), [collate(PAIRS)])


def test_the_gradient_is_that_of_the_whole() -> None:
    model = random_model(toy_settings(), 1).eval()

    def compute(batches: Sequence[Batch]) -> Gradient:
        tight(20, ERRORS[0])(batches)
        return backpropagate(model, batches, 0.1, 0.0, "float32")

    whole = backpropagate(model, [collate(PAIRS)], 0.1, 0.0, "float32")
    wanted = [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]
    cut = within_memory(compute, [collate(PAIRS)])
    assert cut.gradient.loss == pytest.approx(whole.loss, rel=1e-5)
    assert cut.gradient.tgt_tokens == whole.tgt_tokens
    got = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    for ours, theirs in zip(got, wanted, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("backend", ["native", "torch"])
def test_an_update_of_which_nothing_fits_moves_nothing(
    backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared = fresh(tmp_path / "data", 12, train__steps=4, train__backend=backend)
    running = Loop(prepared, Silent())
    batches = [batch for batch, _ in islice(prepared.reader().read(Place()), 3)]
    running._update(batches[:1], Place(0, 1))
    before = [parameter.clone() for parameter in running.training.model.parameters()]
    compute = type(running.path).gradient

    def fails(path: Any, group: Sequence[Batch], seed: int) -> Gradient:
        if group:
            raise MemoryError
        return compute(path, group, seed)

    monkeypatch.setattr(type(running.path), "gradient", fails)
    running._update(batches[1:2], Place(0, 2))
    assert running.training.counters.lost == len(batches[1].src)
    assert running.training.counters.step == 2
    for parameter, was in zip(running.training.model.parameters(), before, strict=True):
        assert torch.equal(parameter, was)
