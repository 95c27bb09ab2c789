"""Small trainings for the tests: a corpus of digits, the settings of a model for it, a watcher that only listens."""

import hashlib
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from command import settings, write_lines
from dragoman.config import read_setting
from dragoman.data.corpus import open_corpus
from dragoman.store.folder import ModelFolder
from dragoman.train.clock import Clock
from dragoman.train.path import PlainPath
from dragoman.train.prepare import Plan, Prepared, Sources, prepare
from dragoman.train.start import Start
from dragoman.train.step import Gradient
from dragoman.train.watcher import Progress, Validation

TINY: dict[str, Any] = {
    "text__vocab_size": 272,
    "model__d_model": 16,
    "model__num_heads": 2,
    "model__num_encoder_layers": 1,
    "model__num_decoder_layers": 1,
    "model__d_ff": 24,
    "model__dropout": 0.1,
    "data__batch_tokens": 64,
    "train__steps": 4,
    "train__schedule": "noam",
    "train__learning_rate": 5e-3,
    "train__warmup_steps": 10,
    "train__threads": 1,
    "train__validate_limit": 3,
}


SMALL: dict[str, Any] = {
    "model__d_model": 32,
    "model__d_ff": 32,
    "text__bpe_dropout": 0.2,
    "data__batch_tokens": 16,
    "train__accumulate": 3,
    "train__save_every": 4,
    "train__validate_every": 50,
    "train__validate_limit": 1,
}
"""Sizes that the kernels can train; two or three pairs a batch, three batches an update."""


@dataclass(frozen=True)
class Digits:
    """Files ``train.src``, ``train.tgt``, ``valid.*``, ``test.*``, ``recipe.toml`` and a trained translator."""

    folder: Path
    model: Path

    @property
    def log(self) -> str:
        """What the training wrote to standard error."""
        return (self.folder / "log").read_text(encoding="utf-8")

    def lines(self, name: str) -> list[str]:
        """The lines of a file."""
        return (self.folder / name).read_text(encoding="utf-8").splitlines()

    def pair(self, name: str) -> tuple[Path, Path]:
        """Both files of ``train``, ``valid`` or ``test``."""
        return self.folder / f"{name}.src", self.folder / f"{name}.tgt"


@dataclass
class Silent:
    """A watcher that keeps what it hears."""

    messages: list[str] = field(default_factory=list)
    looks: list[Validation] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)

    def progress(self, progress: Progress) -> None:
        """Kept."""
        self.steps.append(progress.step)

    def validation(self, validation: Validation) -> None:
        """Kept."""
        self.looks.append(validation)

    def message(self, text: str) -> None:
        """Kept."""
        self.messages.append(text)


def digit_lines(count: int) -> list[str]:
    """Strings of one to seven digits."""
    draws = random.Random(count)
    return [" ".join(draws.choices("0123456789", k=draws.randint(1, 7))) for _ in range(count)]


def corpus(folder: Path, count: int) -> tuple[Path, Path]:
    """Two files: `digit_lines`, and the same backwards."""
    lines = digit_lines(count)
    return write_lines(folder / "train.src", lines), write_lines(folder / "train.tgt", [line[::-1] for line in lines])


def prepared_in(
    root: Path,
    train: Sequence[Path],
    valid: Sequence[Path] | None = None,
    watcher: Silent | None = None,
    plan: Plan | None = None,
    start: Path | None = None,
    **values: Any,
) -> Prepared:
    """A folder ready for `Loop`; a value of None leaves to others what `TINY` would say."""
    wanted = {key: value for key, value in {**TINY, **values}.items() if value is not None}
    begun = Start.open(start) if start else None
    sources = Sources(open_corpus(train), open_corpus(valid) if valid else None, start=begun)
    layers = [read_setting(setting) for setting in settings(**wanted) if setting != "--set"]
    return prepare(ModelFolder.create(root), sources, layers, watcher or Silent(), plan)


class Stopped(Clock):
    """Shows the same time until it is moved, or moves by itself whenever somebody looks."""

    def __init__(self, shown: float = 0.0, each: float = 0.0) -> None:
        super().__init__()
        self.shown = shown
        self.each = each

    @property
    def seconds(self) -> float:
        """As it was told."""
        self.shown += self.each
        return self._before + self.shown


def fresh(root: Path, pairs: int, **values: Any) -> Prepared:
    """A training of `SMALL` sizes before its first update, its corpus beside it."""
    root.mkdir()
    files = corpus(root, pairs)
    return prepared_in(root / "m", files, files, **{**SMALL, **values})


def noted_rates(patch: pytest.MonkeyPatch) -> dict[int, float]:
    """The rate of each update that PyTorch's path makes from now on."""
    rates, real = dict[int, float](), PlainPath.update

    def update(self: PlainPath, gradient: Gradient, rate: float, step: int) -> None:
        rates[step] = rate
        real(self, gradient, rate, step)

    patch.setattr(PlainPath, "update", update)
    return rates


def fingerprint(root: Path) -> dict[str, str]:
    """The SHA-256 of what a training leaves: the weights, and the last checkpoint without the time it took."""
    folder = ModelFolder(root)
    last = max(folder.checkpoints.glob("step-*"))
    state = json.loads((last / "state.json").read_bytes())
    for clock in ("seconds", "journal_bytes"):
        del state["counters"][clock]
    prints = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(last.glob("*.safetensors"))}
    best = hashlib.sha256(folder.weights.read_bytes()).hexdigest()
    return {**prints, "best": best, "state": json.dumps(state), "at": last.name}


def check_order(root: Path) -> None:
    """See that the journal and the folder are in order: every event once, none torn; nothing unfinished."""
    events = [json.loads(line) for line in (root / "journal.jsonl").read_text().splitlines()]
    for kind in ("update", "validation"):
        steps = [event["step"] for event in events if event["event"] == kind]
        assert steps == sorted(set(steps)), kind
    assert not [path for path in root.rglob(".*") if path.name.startswith((".tmp", ".trash"))]
