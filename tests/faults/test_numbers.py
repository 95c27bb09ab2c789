"""Numbers that are not finite anywhere in an update, and gradients of any cut, on either path (A9, A13)."""

import itertools
import math
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from dragoman.data.batch import collate
from dragoman.store import tensors
from dragoman.train import journal, step
from dragoman.train.loop import Loop
from dragoman.train.packed import Packed
from dragoman.train.path import FusedPath, PlainPath
from dragoman.train.prepare import Prepared
from dragoman.train.step import Gradient, backpropagate
from goals import Trials
from toys import ALL_VARIANTS, VOCAB, toy_model
from trainings import Silent, check_order, fresh

CUTS = (1, 2, 3, 5, 8)


def random_pairs(draws: random.Random, count: int) -> list[tuple[list[int], list[int]]]:
    """Sides of 0 to 9 tokens."""
    return [
        tuple([draws.randrange(3, VOCAB) for _ in range(draws.randint(0, 9))] for _ in range(2))  # type: ignore[misc]
        for _ in range(count)
    ]


def gradient_of(variant: dict[str, Any], seed: int, groups: Sequence[Any], smoothing: float) -> tuple[Gradient, Any]:
    model = toy_model(seed=seed, **variant).train()
    found = backpropagate(model, [collate(group) for group in groups], smoothing, 0.0, "float32")
    return found, torch.cat([parameter.grad.flatten() for parameter in model.parameters()])  # type: ignore[union-attr]


@pytest.mark.goal("A9")
def test_any_cut_has_the_same_gradient(trials: Trials) -> None:
    """Random models, pairs and cuts in float64; a batch of one empty pair among them, now and then."""
    for trial in trials:
        with trial:
            draws = trial.draws
            variant, smoothing, cuts = draws.choice(ALL_VARIANTS), draws.choice([0.0, 0.1]), draws.choice(CUTS)
            pairs = random_pairs(draws, draws.randint(8, 14))
            edges = [0, *sorted(draws.sample(range(1, len(pairs)), cuts - 1)), len(pairs)]
            groups = [pairs[start:end] for start, end in itertools.pairwise(edges)]
            whole, wanted = gradient_of(variant, trial.number, [pairs], smoothing)
            parts, found = gradient_of(variant, trial.number, groups, smoothing)
            assert float((found - wanted).norm()) < 1e-10 * float(wanted.norm()), variant
            assert parts.loss == pytest.approx(whole.loss, rel=1e-10)
            assert parts.norm == pytest.approx(whole.norm, rel=1e-10)


Poison = Callable[[pytest.MonkeyPatch, set[int], float, random.Random], None]


def in_the_loss(patch: pytest.MonkeyPatch, steps: set[int], number: float, draws: random.Random) -> None:
    """The loss of an update."""
    accumulate, token_loss, now = Packed.accumulate, step.token_loss, Now(patch)
    patch.setattr(Packed, "accumulate", lambda *given: accumulate(*given) + (number if now.step in steps else 0.0))
    patch.setattr(step, "token_loss", lambda *given: token_loss(*given) * (number if now.step in steps else 1.0))


def in_a_gradient(patch: pytest.MonkeyPatch, steps: set[int], number: float, draws: random.Random) -> None:
    """One number of the gradient, before its norm is taken."""
    accumulate, norm, now = Packed.accumulate, torch.nn.utils.get_total_norm, Now(patch)

    def poisoned(packed: Packed, *given: Any) -> float:
        loss = accumulate(packed, *given)
        if now.step in steps:
            packed.gradient[draws.randrange(len(packed.gradient))] = number
        return loss

    def total(gradients: Any) -> Any:
        if now.step in steps:
            flat = draws.choice(gradients).view(-1)
            flat[draws.randrange(len(flat))] = number
        return norm(gradients)

    patch.setattr(Packed, "accumulate", poisoned)
    patch.setattr(torch.nn.utils, "get_total_norm", total)


def in_an_embedding(patch: pytest.MonkeyPatch, steps: set[int], number: float, draws: random.Random) -> None:
    """One number of the vector of a token that is read, while the update is computed."""

    def watch(path: Any) -> None:
        real = path.gradient

        def gradient(self: Any, batches: Any, seed: int) -> Gradient:
            model = self.training.model if isinstance(self, PlainPath) else self.packed.model
            row = model.src_embedding.token.weight.data[int(batches[-1].src[0, 0])]
            before = row.clone()
            if seed % 2**32 in steps:
                row[draws.randrange(len(row))] = number
            found: Gradient = real(self, batches, seed)
            row.copy_(before)
            return found

        patch.setattr(path, "gradient", gradient)

    watch(PlainPath)
    watch(FusedPath)


class Now:
    """The number of the update that is being computed."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.step = 0
        for path in (PlainPath, FusedPath):
            self.watch(patch, path, path.gradient)

    def watch(self, patch: pytest.MonkeyPatch, path: Any, real: Any) -> None:
        """Hear of each update on this path."""

        def gradient(this: Any, batches: Any, seed: int) -> Gradient:
            self.step = seed % 2**32
            found: Gradient = real(this, batches, seed)
            return found

        patch.setattr(path, "gradient", gradient)


PLACES: tuple[Poison, ...] = (in_the_loss, in_a_gradient, in_an_embedding)
NUMBERS = (math.nan, math.inf, -math.inf)
UPDATES, MOST_BAD = 14, 3


def all_finite(prepared: Prepared) -> bool:
    """Whether every number in every file of tensors in the folder is finite."""
    found = [tensors.read_tensors(path) for path in prepared.folder.root.rglob("*.safetensors")]
    return len(found) >= 4 and all(bool(tensor.isfinite().all()) for each in found for tensor in each.values())


@pytest.mark.goal("A13")
def test_what_is_not_finite_is_never_stepped_on(trials: Trials, tmp_path: Path) -> None:
    """One update, two in a row, or so many that the training steps back: it ends, and all that it wrote is finite."""
    for trial in trials:
        with trial, pytest.MonkeyPatch.context() as patch:
            draws = trial.draws
            backend, first, length = draws.choice(["native", "torch"]), draws.randint(1, 11), draws.randint(1, MOST_BAD)
            settings = {"train__max_bad_steps": MOST_BAD, "train__validate_every": 5, "train__backend": backend}
            prepared = fresh(tmp_path / str(trial.number), 17, train__steps=UPDATES, **settings)
            steps, number = set(range(first, first + length)), draws.choice(NUMBERS)
            draws.choice(PLACES)(patch, steps, number, draws)
            counters = Loop(prepared, Silent()).run(lambda: 0).counters
            assert (counters.step, counters.skipped, counters.bad_steps) == (UPDATES, length, 0)
            assert counters.steps_back == (length == MOST_BAD)
            assert all_finite(prepared)
            skipped = [event["step"] for event in journal.read(prepared.folder.journal) if event["event"] == "skipped"]
            assert skipped == sorted(steps)
            check_order(prepared.folder.root)
