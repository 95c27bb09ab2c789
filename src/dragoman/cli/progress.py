"""What moves on a terminal while one waits for a training."""

import math
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.console import RenderableType
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bar
from rich.text import Text

from dragoman.cli.console import Console
from dragoman.cli.curve import Curve
from dragoman.errors import DragomanError
from dragoman.train import journal
from dragoman.train.duration import spell
from dragoman.train.watcher import Progress, Validation

PLAIN_EVERY = 15.0
"""Seconds between two lines in a pipe."""


WIDE = 110
"""Columns that a terminal has room for everything from; without, the bar and the epoch make way for the time left."""


class BarWithCurves(Bar):
    """A bar, and below it a line for each of ``curves``."""

    curves: Sequence[Curve] = ()

    def get_renderables(self) -> Iterable[RenderableType]:
        """What is shown now."""
        yield from super().get_renderables()
        for task in self.tasks:
            for curve in self.curves if task.visible else ():
                if line := curve.line(int(task.completed), self.console.width):
                    yield Text(line, no_wrap=True, overflow="crop")


class TrainingProgress:
    """A :class:`dragoman.train.watcher.Watcher` that writes to standard error: a bar, or plain lines in a pipe.

    Below the bar are the curves of the training loss and of the BLEU of the validations so far.
    """

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False, soft_wrap=True)
        self._is_wide = self._console.width >= WIDE
        self._loss, self._scores = Curve("loss", 2), Curve("BLEU", 1)
        self._bar = BarWithCurves(
            TextColumn("update {task.completed:,.0f} of {task.total:,.0f}"),
            *([BarColumn(bar_width=24)] if self._is_wide else []),
            TextColumn("{task.fields[facts]}"),
            console=self._console,
            transient=True,
        )
        self._bar.curves = (self._loss, self._scores)
        visible = self._console.is_terminal
        self._task = self._bar.add_task("", total=None, facts="", visible=False) if visible else None
        self._next_line = 0.0
        self._bleu = ""

    def __enter__(self) -> Self:
        if self._task is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._task is not None:
            with suppress(OSError):
                self._bar.stop()

    def recall(self, diary: Path) -> None:
        """Begin the curves with the journal of a training that is resumed; without it they begin later."""
        with suppress(OSError, DragomanError):
            for event in journal.read(diary):
                match event:
                    case {"event": "update", "step": int(step), "loss": loss}:
                        self._loss.add(step, math.nan if loss is None else loss)
                    case {"event": "validation", "step": int(step), "bleu": bleu}:
                        self._scores.add(step, math.nan if bleu is None else bleu)

    def progress(self, progress: Progress) -> None:
        """Move the bar; in a pipe write a line now and then."""
        self._loss.add(progress.step, progress.loss)
        facts = (
            f"loss {progress.loss:.2f}{self._bleu}"
            f"  {progress.tokens_per_second:,.0f} tokens/s  {spell(progress.seconds_left)} left"
        )
        if self._task is None or self._is_wide:
            facts = f"epoch {progress.epoch + 1}  {facts}"
        if self._task is not None:
            self._bar.update(self._task, completed=progress.step, total=progress.steps, facts=facts, visible=True)
        elif time.monotonic() >= self._next_line or progress.step == progress.steps:
            self._next_line = time.monotonic() + PLAIN_EVERY
            self.message(f"update {progress.step:,} of {progress.steps:,}  {facts}")

    def validation(self, validation: Validation) -> None:
        """Write a line with the scores."""
        best = "  best so far" if validation.is_best else ""
        self._scores.add(validation.step, validation.bleu)
        self._bleu = f"  BLEU {validation.bleu:.1f}"
        self.message(
            f"update {validation.step:,}: validation loss {validation.loss:.3f}, BLEU {validation.bleu:.1f},"
            f" chrF {validation.chrf:.1f}{best}  | {validation.example[:60]}"
        )

    def message(self, text: str) -> None:
        """Write a line. A training does not end because its log cannot be written, or nobody reads it any more."""
        with suppress(OSError):
            if self._task is not None:
                self._console.print(Text(text))
            elif sys.stderr:
                sys.stderr.write(f"{Text(text).plain}\n")
                sys.stderr.flush()
