"""Everything a training is, into a checkpoint and back."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from dragoman.config import TrainConfig
from dragoman.errors import FolderError
from dragoman.store import checkpoint, records
from dragoman.store.checkpoint import Checkpoint
from dragoman.train.optimizer import build_optimizer, update_average
from dragoman.train.state import Counters, Training, contents, restore
from dragoman.train.step import Place
from folders import random_model, toy_settings

IDENTITY = {"configuration": "c1", "data": "d1"}


def fresh(seed: int) -> Training:
    config = toy_settings()
    model, average = random_model(config, seed), random_model(config, seed)
    return Training(model, average, build_optimizer(model, TrainConfig()), Counters())


def worked(seed: int, updates: int) -> Training:
    """With made-up gradients."""
    training = fresh(seed)
    for number in range(1, updates + 1):
        push(training, number)
    place, best = Place(2, 7), 12.5
    return training.at(Counters(updates, place, best, 1, 2, 0, 1, 1234, 5.25, 99))


def push(training: Training, number: int) -> None:
    generator = torch.Generator().manual_seed(number)
    for parameter in training.model.parameters():
        parameter.grad = torch.randn(parameter.shape, generator=generator)
    training.optimizer.step()
    update_average(training.average, training.model, 0.99, number)


def saved(training: Training, folder: Path) -> Checkpoint:
    checkpoint.save(folder, training.counters.step, contents(training, IDENTITY), {}, keep=1)
    found, damaged = checkpoint.newest(folder)
    assert found is not None
    assert not damaged
    return found


@pytest.mark.parametrize("updates", [0, 1, 3])
def test_it_comes_back_to_the_bit(tmp_path: Path, updates: int) -> None:
    training = worked(1, updates)
    back = restore(fresh(2), saved(training, tmp_path), IDENTITY)
    assert back.counters == training.counters
    for each in (training, back):
        push(each, 77)
    for ours, theirs in ((training.model, back.model), (training.average, back.average)):
        assert all(torch.equal(a, b) for a, b in zip(ours.parameters(), theirs.parameters(), strict=True))


def test_the_next_update_is_not_that_of_a_new_optimizer(tmp_path: Path) -> None:
    training = worked(1, 3)
    back = restore(fresh(2), saved(training, tmp_path), IDENTITY)
    forgetful = replace(back, optimizer=build_optimizer(fresh(1).model, TrainConfig()))
    assert {float(state["step"]) for state in back.optimizer.state.values()} == {3.0}
    assert forgetful.optimizer.state == {}


@pytest.mark.parametrize("key", IDENTITY)
def test_another_configuration_or_corpus_is_refused(tmp_path: Path, key: str) -> None:
    found = saved(worked(1, 1), tmp_path)
    with pytest.raises(FolderError, match=f"was written with another {key}; train into a new folder"):
        restore(fresh(1), found, {**IDENTITY, key: "other"})


def test_another_format_is_refused(tmp_path: Path) -> None:
    training = worked(1, 1)
    files = contents(training, IDENTITY)
    state = json.loads(b"".join(bytes(chunk) for chunk in files["state.json"]))
    checkpoint.save(tmp_path, 1, {**files, "state.json": [records.encode({**state, "version": 2})]}, {}, keep=1)
    found, _ = checkpoint.newest(tmp_path)
    assert found is not None
    with pytest.raises(FolderError, match="has format 2, this version reads 1"):
        restore(fresh(1), found, IDENTITY)
