"""What diverges goes back to where it was good, and ends in the same bits however often it is interrupted."""

import hashlib
import json
import shutil
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from dragoman.config import TrainConfig
from dragoman.errors import FolderError, TrainingError
from dragoman.store import tensors
from dragoman.train import journal, trend
from dragoman.train.loop import Loop
from dragoman.train.path import PlainPath
from dragoman.train.prepare import Prepared
from dragoman.train.recovery import complaint
from dragoman.train.state import Counters
from dragoman.train.step import Gradient
from dragoman.train.trend import Trend
from dragoman.train.watcher import Progress
from trainings import Silent, corpus, noted_rates, prepared_in

Fresh = Callable[..., Prepared]

Spoil = Callable[[int], float]
"""What is added to the loss of an update."""

STEPS = 14
SHORT: dict[str, Any] = {
    "train__backend": "torch",
    "train__accumulate": 2,
    "train__steps": STEPS,
    "train__save_every": 4,
    "train__validate_every": 10,
    "train__max_bad_steps": 3,
}


def poison(patch: pytest.MonkeyPatch, spoil: Spoil) -> None:
    """Spoil the losses of some updates, whoever makes them."""
    real = PlainPath.gradient

    def gradient(self: PlainPath, batches: Any, seed: int) -> Gradient:
        found = real(self, batches, seed)
        return replace(found, loss=found.loss + spoil(seed % 2**32))

    patch.setattr(PlainPath, "gradient", gradient)


def not_finite(*steps: int) -> Spoil:
    return lambda step: float("nan") if step in steps else 0.0


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that is ready for training, to be copied."""
    root = tmp_path_factory.mktemp("begun")
    prepared_in(root / "m", corpus(root, 40), corpus(root, 40), **SHORT)
    return root


@pytest.fixture
def fresh(begun: Path, tmp_path: Path) -> Fresh:
    """Makes copies of that folder, with other settings of what may change."""

    def make(**values: Any) -> Prepared:
        root = Path(shutil.copytree(begun, tmp_path / str(len(list(tmp_path.iterdir())))))
        train = root / "train.src", root / "train.tgt"
        return prepared_in(root / "m", train, train, **{**SHORT, **values})

    return make


def fingerprint(prepared: Prepared) -> dict[str, str]:
    """The last checkpoint without the time it took, and the weights of the folder."""
    last = max(prepared.folder.checkpoints.glob("step-*"))
    state = json.loads((last / "state.json").read_bytes())
    for clock in ("seconds", "journal_bytes"):
        del state["counters"][clock]
    paths = [prepared.folder.weights, *sorted(last.glob("*.safetensors"))]
    prints = {path.name + path.parent.name[:1]: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}
    return {**prints, "state": json.dumps(state)}


def weights(prepared: Prepared, step: int) -> dict[str, torch.Tensor]:
    return tensors.read_tensors(prepared.folder.checkpoints / f"step-{step:08d}" / "model.safetensors")


def test_complaints() -> None:
    config = TrainConfig(warmup_steps=100, max_bad_steps=3)
    exploded = Trend(9.0, 60, 2.0)
    assert complaint(Counters(step=101, bad_steps=2, trend=Trend(2.5, 60, 2.0)), config) == ""
    assert complaint(Counters(step=5, bad_steps=3), config) == (
        "3 updates in a row had a loss or gradient that is not finite"
    )
    assert complaint(Counters(step=100, trend=exploded), config) == "", "warm-ups are rough"
    assert complaint(Counters(step=101, trend=exploded), config) == "the mean loss rose from 2.00 to 9.00"


def test_back_to_the_last_good_checkpoint(fresh: Fresh, monkeypatch: pytest.MonkeyPatch) -> None:
    """The batches go on, the weights are those of update 8, the rate is half of what it would be."""
    prepared, watcher = fresh(train__keep=5), Silent()
    poison(monkeypatch, not_finite(9, 10, 11))
    counters = Loop(prepared, watcher).run(lambda: 0).counters
    assert (counters.step, counters.steps_back, counters.rate_factor, counters.skipped) == (STEPS, 1, 0.5, 3)
    assert all(torch.equal(weights(prepared, 8)[name], tensor) for name, tensor in weights(prepared, 11).items())
    [event] = [event for event in journal.read(prepared.folder.journal) if event["event"] == "step back"]
    assert (event["step"], event["to"], event["rate_factor"]) == (11, 8, 0.5)
    said = "update 11: 3 updates in a row had a loss or gradient that is not finite; back to the weights of update 8"
    assert [text for text in watcher.messages if said in text and "1 of at most 3" in text]
    undisturbed = fresh()
    monkeypatch.undo()
    assert Loop(undisturbed, Silent()).run(lambda: 0).counters.place == counters.place


def test_back_to_the_beginning(fresh: Fresh, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared = fresh(train__keep=9)
    poison(monkeypatch, not_finite(1, 2, 3))
    assert Loop(prepared, Silent()).run(lambda: 0).counters.steps_back == 1
    initial = Loop(fresh(), Silent()).training.model
    stored = weights(prepared, 3)
    assert all(torch.equal(stored[name], tensor) for name, tensor in initial.named_parameters() if name in stored)


@pytest.mark.goal("A13")
@pytest.mark.parametrize(
    ("bad", "stops"),
    [
        ((9, 10, 11), [1] * STEPS),
        ((9, 10, 11), [9, 1, 2]),
        ((5, 6, 7, 9, 10, 11), [6, 1, 1, 2, 1]),
        ((1, 2, 3), [2]),
    ],
    ids=["every", "around", "twice", "at once"],
)
def test_stopped_and_resumed(
    fresh: Fresh, monkeypatch: pytest.MonkeyPatch, bad: tuple[int, ...], stops: list[int]
) -> None:
    poison(monkeypatch, not_finite(*bad))
    straight, stopped = fresh(), fresh()
    Loop(straight, Silent()).run(lambda: 0)
    for updates in stops:
        left = iter(range(updates - 1, -1, -1))
        Loop(stopped, Silent()).run(lambda left=left: 0 if next(left) else signal.SIGTERM)  # type: ignore[misc]
    Loop(stopped, Silent()).run(lambda: 0)
    assert fingerprint(stopped) == fingerprint(straight)
    told = [
        [(event["step"], event["loss"]) for event in journal.read(each.folder.journal) if event["event"] == "update"]
        for each in (stopped, straight)
    ]
    assert told[0] == told[1] != []


def test_the_rates_that_updates_are_made_with(fresh: Fresh, monkeypatch: pytest.MonkeyPatch) -> None:
    """By hand: up to 5e-3 at update 10, then as 1 / sqrt; half of it after the step back; a resumption changes none."""
    used = noted_rates(monkeypatch)
    poison(monkeypatch, not_finite(6, 7, 8))
    prepared = fresh()
    left = iter((0, 0, signal.SIGTERM))
    Loop(prepared, Silent()).run(lambda: next(left))
    Loop(prepared, Silent()).run(lambda: 0)
    before = {step: 5e-4 * step for step in range(1, 6)}
    after = {9: 2.25e-3, 10: 2.5e-3, 11: 2.3837e-3, 12: 2.2822e-3, 13: 2.1926e-3, 14: 2.1129e-3}
    assert used == pytest.approx({**before, **after}, rel=1e-4)


class Killer(Silent):
    """Ends the process, as far as a test can, after an update."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self.at = at

    def progress(self, progress: Progress) -> None:
        """Dead."""
        if progress.step == self.at:
            raise KeyboardInterrupt


@pytest.mark.parametrize("at", [8, 13])
def test_killed_and_resumed(fresh: Fresh, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    poison(monkeypatch, not_finite(9, 10, 11))
    straight, killed = fresh(), fresh()
    Loop(straight, Silent()).run(lambda: 0)
    with pytest.raises(KeyboardInterrupt):
        Loop(killed, Killer(at)).run(lambda: 0)
    Loop(killed, Silent()).run(lambda: 0)
    assert fingerprint(killed) == fingerprint(straight)


def test_an_explosion(fresh: Fresh, monkeypatch: pytest.MonkeyPatch) -> None:
    """Checkpoints of the time when the loss was rising already are not the good ones."""
    monkeypatch.setattr(trend, "SPAN", 10)
    prepared, watcher = fresh(train__steps=45, train__validate_every=45, train__save_every=1), Silent()
    poison(monkeypatch, lambda step: 20.0 * (30 < step < 34) if "back to" not in " ".join(watcher.messages) else 0.0)
    counters = Loop(prepared, watcher).run(lambda: 0).counters
    [event] = [event for event in journal.read(prepared.folder.journal) if event["event"] == "step back"]
    assert event["step"] in (32, 33)
    assert event["to"] == 30
    assert "the mean loss rose from" in event["reason"]
    assert (counters.step, counters.steps_back) == (45, 1)


def test_it_gives_up(fresh: Fresh, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trend, "SPAN", 10)
    prepared = fresh(train__steps=80, train__validate_every=80, train__save_every=10)
    poison(monkeypatch, lambda step: 20.0 if step > 20 else 0.0)
    with pytest.raises(TrainingError, match=r"the mean loss rose .* 3 steps back did not help; the last good"):
        Loop(prepared, Silent()).run(lambda: 0)


def test_a_damaged_checkpoint_is_stepped_over(fresh: Fresh, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared = fresh()
    poison(monkeypatch, not_finite(9, 10, 11))

    class Damage(Silent):
        def __init__(self, *steps: int) -> None:
            super().__init__()
            self.damaged = steps

        def message(self, text: str) -> None:
            super().message(text)
            if text.startswith("update 11 skipped"):
                for step in self.damaged:
                    (prepared.folder.checkpoints / f"step-{step:08d}" / "state.json").write_text("{}")

    with pytest.raises(FolderError, match="no checkpoint up to update 8 in .* is sound; restore one"):
        Loop(prepared, Damage(4, 8)).run(lambda: 0)
    again = fresh()
    prepared = again
    Loop(again, Damage(8)).run(lambda: 0)
    [event] = [event for event in journal.read(again.folder.journal) if event["event"] == "step back"]
    assert event["step"] == 11


LIMIT = 14
"""Real tokens; some pairs of the corpus have more."""


@pytest.mark.goal("A14")
def test_out_of_memory_never_ends_a_training(fresh: Fresh, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every batch of the second update beyond a size is refused: they are cut, and pairs are left out."""
    prepared, watcher = fresh(train__steps=4), Silent()
    real = PlainPath.gradient

    def gradient(self: PlainPath, batches: Any, seed: int) -> Gradient:
        if seed % 2**32 == 2 and any(batch.tokens > LIMIT for batch in batches):
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes")
        return real(self, batches, seed)

    monkeypatch.setattr(PlainPath, "gradient", gradient)
    counters = Loop(prepared, watcher).run(lambda: 0).counters
    assert (counters.step, counters.skipped) == (4, 0)
    [event] = [event for event in journal.read(prepared.folder.journal) if event["event"] == "out of memory"]
    assert event["step"] == 2
    assert event["batches"] > 0
    assert counters.lost == event["lost"] > 0
    [said] = [text for text in watcher.messages if "out of memory" in text]
    assert said.startswith("update 2: out of memory; cut into ")
    assert "that do not fit alone left out" in said
