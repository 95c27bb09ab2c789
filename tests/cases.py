"""A small training by the command line, in a child that may die of anything, and what is right afterwards."""

import time
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from command import Child, Nursery, settings
from trainings import TINY, check_order, corpus, fingerprint

LIGHT: dict[str, Any] = {
    **TINY,
    "model__d_model": 32,
    "model__d_ff": 32,
    "text__bpe_dropout": 0.2,
    "data__batch_tokens": 128,
    "train__accumulate": 2,
    "train__save_every": 2,
}
"""Sizes that the kernels can train; a checkpoint at every other update."""


@dataclass
class Case:
    """A training, undisturbed: its settings, what it leaves, and how long it takes."""

    nursery: Nursery
    folder: Path
    pairs: int
    values: dict[str, Any]
    files: tuple[Path, Path] = field(init=False)
    prints: dict[str, str] = field(init=False)
    seconds: float = field(init=False)

    def __post_init__(self) -> None:
        self.files = corpus(self.folder, self.pairs)
        root = self.folder / "undisturbed"
        started = time.monotonic()
        child = self.start(root)
        assert child.wait() == 0, child.log.read_text()
        self.seconds = time.monotonic() - started
        self.prints = fingerprint(root)

    @cached_property
    def operations(self) -> int:
        """File operations below its folder, from its beginning to its end."""
        root = self.folder / "counted"
        child = self.start(root, root=root)
        assert child.wait() == 0, child.log.read_text()
        return int(child.log.read_text().split()[-1])

    def start(self, out: Path, *more: object, files: tuple[Path, Path] | None = None, **conditions: Any) -> Child:
        """Begin it in the folder ``out``, or go on there, with its own or other ``files``."""
        told = {key: str(value) if isinstance(value, Path) else value for key, value in conditions.items()}
        train, values = files or self.files, settings(**{**LIGHT, **self.values})
        command = ["train", *train, "--valid", *self.files, "--out", out, *values, *more]
        return self.nursery.start(out.with_suffix(".log"), *command, **(told or {"picture": False}))

    def check(self, root: Path, but: tuple[str, ...] = ()) -> None:
        """See that a training in ``root`` that has come to its end is the undisturbed one, ``but`` for some things."""
        prints = fingerprint(root)
        assert {key for key in prints if prints[key] != self.prints[key]} <= set(but), prints["state"]
        check_order(root)

    def end(self, root: Path, but: tuple[str, ...] = ()) -> None:
        """Let the training in ``root`` come to its end, and check it."""
        child = self.start(root)
        assert child.wait() == 0, child.log.read_text()
        self.check(root, but)
