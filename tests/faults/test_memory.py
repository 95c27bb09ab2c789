"""Too little memory: allocations that fail, a limit of the system, a sentence of fifty thousand characters (A14)."""

import random
from collections.abc import Callable
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


def overlong(folder: Path) -> tuple[Path, Path]:
    """Forty pairs, and a very long one among them."""
    folder.mkdir()
    src, tgt = corpus(folder, 40)
    long = " ".join(random.Random(1).choices("0123456789", k=25_000))
    lines = digit_lines(40)
    lines.insert(20, long)
    return write_lines(src, lines), write_lines(tgt, [line[::-1] for line in lines])


@pytest.mark.goal("A14")
@pytest.mark.parametrize("backend", ["native", "torch"])
@pytest.mark.parametrize(
    "longest", [pytest.param(256, id="dropped"), pytest.param(65_536, id="read", marks=pytest.mark.slow)]
)
def test_an_overlong_sentence(nursery: Nursery, tmp_path: Path, longest: int, backend: str) -> None:
    """It is dropped and counted; or, where any length is wanted, learned from or left out of each epoch and counted."""
    files, out = overlong(tmp_path / "data"), tmp_path / "model"
    valid = corpus(tmp_path, 9)
    wanted = {**LIGHT, "train__steps": 8, "train__backend": backend, "data__max_length": longest}
    command = ["train", *files, "--valid", *valid, "--out", out, *settings(**wanted)]
    child = nursery.start(tmp_path / "log", *command, memory=ROOM)
    code, log = child.wait(), child.log.read_text()
    assert code == 0, log
    dropped, left_out = "dropped 1 pairs: too long", "1 pairs that do not fit alone left out"
    assert (dropped in log) == (longest == 256), log
    if backend == "torch" and longest > 256:
        assert left_out in log
    check_order(out)
    events = [event for event in journal.read(out / "journal.jsonl") if event["event"] == "out of memory"]
    assert all(event.get("lost", 0) <= 1 for event in events)
