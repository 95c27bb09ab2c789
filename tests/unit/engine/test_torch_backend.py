"""The PyTorch model behind the search's interface."""

import numpy as np
import pytest
import torch

from dragoman.engine.torch_backend import TorchBackend, TorchState
from dragoman.text.tokenizer import BOS, EOS, PAD
from folders import PIECES, random_model, toy_settings

KNOWN = PIECES - 3
"""As if the tokenizer had three pieces fewer than the vocabulary, which is padded."""

SOURCES = [[5, 6, 7, EOS], [8, EOS], [9, 10, 11, 12, 13, EOS]]


@pytest.fixture(scope="module", params=[torch.float32, torch.float64], ids=["float32", "float64"])
def backend(request: pytest.FixtureRequest) -> TorchBackend:
    return TorchBackend(random_model(toy_settings()).to(request.param), KNOWN)


def test_full_and_top_agree(backend: TorchBackend) -> None:
    ids = np.array([BOS] * 3)
    full, _ = backend.step_full(ids, backend.start(SOURCES))
    top, _ = backend.step_top(ids, backend.start(SOURCES), 4)
    assert full.shape == (3, PIECES)
    assert top.ids.shape == top.log_probs.shape == (3, 4)
    np.testing.assert_array_equal(np.take_along_axis(full, top.ids, axis=1), top.log_probs)
    np.testing.assert_array_equal(top.log_probs, -np.sort(-full, axis=1)[:, :4])


def test_some_ids_are_never_produced(backend: TorchBackend) -> None:
    full, _ = backend.step_full(np.array([BOS] * 3), backend.start(SOURCES))
    never = {PAD, BOS, *range(KNOWN, PIECES)}
    assert {int(index) for index in np.flatnonzero(np.isneginf(full).any(axis=0))} == never
    assert np.isneginf(full[:, sorted(never)]).all()
    top, _ = backend.step_top(np.array([BOS] * 3), backend.start(SOURCES), PIECES)
    assert np.isfinite(top.log_probs[:, : PIECES - len(never)]).all()


def test_steps_are_the_whole(backend: TorchBackend) -> None:
    """Step by step the search sees what the model says of the whole target at once."""
    target = [20, 21, 22, EOS]
    [whole] = backend.log_probs([SOURCES[0]], [target])
    state, steps = backend.start([SOURCES[0]]), []
    for before, after in zip([BOS, *target], target, strict=False):
        full, state = backend.step_full(np.array([before]), state)
        steps.append(float(full[0, after]))
    assert steps == pytest.approx(whole, abs=1e-5)


def test_log_probs_do_not_depend_on_the_neighbours(backend: TorchBackend) -> None:
    targets = [[20, EOS], [21, 22, 23, 24, EOS], [EOS]]
    together = backend.log_probs(SOURCES, targets)
    assert [len(row) for row in together] == [2, 5, 1]
    for row, source, target in zip(together, SOURCES, targets, strict=True):
        assert row == pytest.approx(backend.log_probs([source], [target])[0], abs=1e-5)


def test_rows_are_selected_and_joined(backend: TorchBackend) -> None:
    first, second = backend.start(SOURCES[:2]), backend.start(SOURCES[2:])
    _, first = backend.step_full(np.array([BOS, BOS]), first)
    joined = first.select(np.array([1, 0, 1])).join(second)
    full, _ = backend.step_full(np.array([20, 21, 22, BOS]), joined)
    alone, _ = backend.step_full(np.array([20]), _after_one_step(backend, SOURCES[1]))
    np.testing.assert_allclose(full[0], alone[0], atol=1e-5)
    fresh, _ = backend.step_full(np.array([BOS]), backend.start(SOURCES[2:]))
    np.testing.assert_allclose(full[3], fresh[0], atol=1e-5)


def _after_one_step(backend: TorchBackend, source: list[int]) -> TorchState:
    return backend.step_full(np.array([BOS]), backend.start([source]))[1]


@pytest.mark.parametrize("target", [[EOS], [20, 21, EOS], [20, 21, 22]])
def test_attention_rows_sum_to_one(backend: TorchBackend, target: list[int]) -> None:
    weights = backend.align(SOURCES[2], target)
    assert weights.shape == (len(target), len(SOURCES[2]))
    assert (weights >= 0).all()
    np.testing.assert_allclose(weights.sum(axis=1), 1.0, atol=1e-6)


def test_looking_changes_nothing(backend: TorchBackend) -> None:
    before = backend.log_probs(SOURCES[:1], [[20, EOS]])
    backend.align(SOURCES[0], [20, EOS])
    assert not [module for module in backend.model.modules() if getattr(module, "observer", None)]
    assert backend.log_probs(SOURCES[:1], [[20, EOS]]) == before


def test_nothing_is_learned_while_translating(backend: TorchBackend) -> None:
    full, state = backend.step_full(np.array([BOS]), backend.start(SOURCES[:1]))
    assert isinstance(full, np.ndarray)
    assert not any(layer.keys.requires_grad for layer in state.cache.layers)
