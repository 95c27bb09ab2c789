"""What moves on a terminal while one waits for a training."""

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bar
from rich.text import Text

from dragoman.train.duration import spell
from dragoman.train.watcher import Progress, Validation

PLAIN_EVERY = 15.0
"""Seconds between two lines in a pipe."""


class TrainingProgress:
    """A :class:`dragoman.train.watcher.Watcher` that writes to standard error: a bar, or plain lines in a pipe."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False, soft_wrap=True)
        self._bar = Bar(
            TextColumn("update {task.completed:,.0f} of {task.total:,.0f}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[facts]}"),
            console=self._console,
            transient=True,
        )
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
            self._bar.stop()

    def progress(self, progress: Progress) -> None:
        """Move the bar; in a pipe write a line now and then."""
        facts = (
            f"epoch {progress.epoch + 1}  loss {progress.loss:.2f}{self._bleu}"
            f"  {progress.tokens_per_second:,.0f} tokens/s  {spell(progress.seconds_left)} left"
        )
        if self._task is not None:
            self._bar.update(self._task, completed=progress.step, total=progress.steps, facts=facts, visible=True)
        elif time.monotonic() >= self._next_line or progress.step == progress.steps:
            self._next_line = time.monotonic() + PLAIN_EVERY
            self.message(f"update {progress.step:,} of {progress.steps:,}  {facts}")

    def validation(self, validation: Validation) -> None:
        """Write a line with the scores."""
        best = "  best so far" if validation.is_best else ""
        self._bleu = f"  BLEU {validation.bleu:.1f}"
        self.message(
            f"update {validation.step:,}: validation loss {validation.loss:.3f}, BLEU {validation.bleu:.1f},"
            f" chrF {validation.chrf:.1f}{best}  | {validation.example[:60]}"
        )

    def message(self, text: str) -> None:
        """Write a line."""
        self._console.print(Text(text))
