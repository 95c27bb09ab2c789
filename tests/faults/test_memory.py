"""Too little memory: allocations that fail, a limit of the system, a sentence of fifty thousand digits (A14)."""

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from cases import LIGHT
from command import Nursery, settings, write_lines
from dragoman.engine.translator import Translator
from dragoman.store import tensors
from dragoman.train import journal, loop, optimizer, step, validation
from dragoman.train.loop import Loop
from dragoman.train.packed import Packed
from goals import Trials
from trainings import Silent, check_order, corpus, digit_lines, fresh

ROOM = 1 << 30
"""Bytes beyond what Python and PyTorch have taken already."""


PLACES = (
    (Packed, "accumulate"),
    (Packed, "update"),
    (step, "token_loss"),
    (optimizer, "update"),
    (validation, "token_loss"),
    (Translator, "translate"),
    (loop, "contents"),
)
"""Where memory is asked for: gradient, update, validation, checkpoint."""


def fail_now_and_then(patch: pytest.MonkeyPatch, draws: random.Random, is_last: Callable[[], bool]) -> None:
    """The third allocation, and any other in one case of six, whoever asks; none of the last save, which must work."""
    made = count(1)

    def poor(real: Callable[..., Any], may_fail: Callable[[], bool]) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            if may_fail() and (next(made) == 3 or draws.random() < 1 / 6):
                words = "DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes"
                raise draws.choice([MemoryError("out of memory"), RuntimeError(words)])
            return real(*given)

        return call

    for owner, name in PLACES:
        patch.setattr(
            owner, name, poor(getattr(owner, name), (lambda: not is_last()) if owner is loop else lambda: True)
        )


@pytest.mark.goal("A14")
def test_allocations_that_fail(trials: Trials, tmp_path: Path) -> None:
    """The training ends, each failure is noted, and pairs that were left out are counted."""
    for trial in trials:
        with trial, pytest.MonkeyPatch.context() as patch:
            settings = {"train__backend": trial.draws.choice(["native", "torch"]), "data__batch_tokens": 48}
            prepared = fresh(tmp_path / str(trial.number), 17, train__steps=12, train__validate_every=3, **settings)
            watcher = Silent()
            fail_now_and_then(patch, trial.draws, lambda watcher=watcher: watcher.steps[-1:] == [12])
            counters = Loop(prepared, watcher).run(lambda: 0).counters
            assert (counters.step, counters.bad_steps, counters.steps_back) == (12, 0, 0)
            events = [event for event in journal.read(prepared.folder.journal) if event["event"] == "out of memory"]
            assert events
            assert counters.lost == sum(event.get("lost", 0) for event in events)
            assert counters.skipped == sum(event.get("what") == "update" for event in events)
            weights = tensors.read_tensors(prepared.folder.weights)
            assert all(bool(tensor.isfinite().all()) for tensor in weights.values())
            check_order(prepared.folder.root)


def overlong(folder: Path, digits: int) -> tuple[Path, Path]:
    """Forty pairs, and a very long one among them."""
    folder.mkdir()
    src, tgt = corpus(folder, 40)
    long = " ".join(random.Random(1).choices("0123456789", k=digits))
    lines = digit_lines(40)
    lines.insert(20, long)
    return write_lines(src, lines), write_lines(tgt, [line[::-1] for line in lines])


@dataclass(frozen=True)
class Ended:
    """A training with :func:`overlong` lines that has come to its end."""

    log: str
    lost: int
    "Pairs that were left out of an update, altogether."
    losses: list[int]
    "The same, each time that there was not enough memory."


@pytest.fixture
def trained(nursery: Nursery, tmp_path: Path) -> Callable[..., Ended]:
    """Trains for eight updates with 1 GB."""

    def train(digits: int, **values: Any) -> Ended:
        files, out = overlong(tmp_path / "data", digits), tmp_path / "model"
        wanted = {**LIGHT, "train__steps": 8, **values}
        command = ["train", *files, "--valid", *corpus(tmp_path, 9), "--out", out, *settings(**wanted)]
        child = nursery.start(tmp_path / "log", *command, memory=ROOM)
        code, log = child.wait(), child.log.read_text()
        assert code == 0, log
        check_order(out)
        last = max((out / "training" / "checkpoints").glob("step-*"))
        lost = json.loads((last / "state.json").read_text())["counters"]["lost"]
        events = [event for event in journal.read(out / "journal.jsonl") if event["event"] == "out of memory"]
        return Ended(log, lost, [event["lost"] for event in events])

    return train


@pytest.mark.goal("A14")
@pytest.mark.parametrize("backend", ["native", "torch"])
def test_an_overlong_sentence_is_dropped(trained: Callable[..., Ended], backend: str) -> None:
    ended = trained(50_000, train__backend=backend, data__max_length=256)
    assert "dropped 1 pairs: too long" in ended.log
    assert (ended.lost, ended.losses) == (0, [])


@pytest.mark.slow
@pytest.mark.goal("A14")
def test_an_overlong_sentence_is_left_out_of_each_epoch(trained: Callable[..., Ended]) -> None:
    """Where any length is wanted, and the kernels have no memory for it."""
    ended = trained(50_000, train__backend="native", data__max_length=65_536)
    assert "dropped" not in ended.log
    assert ended.log.count("1 pairs that do not fit alone left out") == len(ended.losses) == ended.lost > 1
    assert set(ended.losses) == {1}


@pytest.mark.slow
@pytest.mark.goal("A14")
def test_an_overlong_sentence_is_learned_from_where_it_fits(trained: Callable[..., Ended]) -> None:
    """PyTorch's attention needs memory for its length alone, not for the square of it."""
    ended = trained(5_000, train__backend="torch", data__max_length=65_536)
    assert (ended.lost, ended.losses) == (0, [])
