"""What moves on a terminal, and what stands still in a pipe."""

import errno
import io
import math
import sys
import time
from pathlib import Path

import pytest

from dragoman.cli import progress
from dragoman.cli.count import SentenceCount
from dragoman.cli.progress import TrainingProgress
from dragoman.train.journal import Journal
from dragoman.train.watcher import Progress, Validation


class Terminal(io.StringIO):
    """A stream that says it is one."""

    def isatty(self) -> bool:
        return True


def on_terminal(patch: pytest.MonkeyPatch, columns: int = 120) -> Terminal:
    """One in the place of standard error."""
    terminal = Terminal()
    patch.setattr(sys, "stderr", terminal)
    patch.setenv("TERM", "xterm")
    patch.setenv("COLUMNS", str(columns))
    return terminal


def at(step: int) -> Progress:
    return Progress(step, 1000, 0, 2.5, 1e-3, 12_345.6, 100.0)


def test_plain_lines_in_a_pipe(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    with TrainingProgress() as watcher:
        watcher.message("[bold]not markup[/bold]")
        watcher.progress(at(1))
        watcher.progress(at(2))
        clock[0] += progress.PLAIN_EVERY
        watcher.progress(at(3))
        watcher.validation(Validation(3, 1.5, 20.0, 30.0, True, "[red]Straße[/red] " + "x" * 100))
        watcher.progress(at(1000))
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert out == ""
    assert lines[0] == "[bold]not markup[/bold]"
    assert [line.split("  ")[0] for line in lines[1:3]] == ["update 1 of 1,000", "update 3 of 1,000"]
    assert "epoch 1  loss 2.50" in lines[1]
    assert "12,346 tokens/s" in lines[1]
    assert lines[3].startswith(
        "update 3: validation loss 1.500, BLEU 20.0, chrF 30.0  best so far  | [red]Straße[/red]"
    )
    assert lines[4].startswith("update 1,000 of 1,000")
    assert len(lines) == 5


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EPIPE, errno.EIO])
@pytest.mark.parametrize("kind", [io.StringIO, Terminal])
def test_a_log_that_cannot_be_written_ends_nothing(
    kind: type[io.StringIO], number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = kind()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")

    def refuse(_: str) -> int:
        raise OSError(number, "refused")

    with TrainingProgress() as watcher:
        watcher.message("before")
        with monkeypatch.context() as patch:
            patch.setattr(stream, "write", refuse)
            watcher.progress(at(1))
            watcher.message("lost")
        watcher.message("after")
        monkeypatch.setattr(stream, "write", refuse)
    assert "before" in stream.getvalue()
    assert "after" in stream.getvalue()


def test_in_eighty_columns_what_matters_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch, 80)
    with TrainingProgress() as watcher:
        watcher.validation(Validation(150, 1.5, 20.0, 30.0, True, "x"))
        watcher.progress(Progress(12_345, 100_000, 3, 2.5, 1e-3, 12_345.6, 6600.0))
    assert "update 12,345 of 100,000 loss 2.50  BLEU 20.0  12,346 tokens/s  1 h 50 min left" in terminal.getvalue()


def test_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    with TrainingProgress() as watcher:
        for step in range(1, 4):
            watcher.progress(at(step))
        watcher.message("something to know")
    assert "something to know" in terminal.getvalue()
    assert "update 3 of 1,000" in terminal.getvalue()
    assert "loss   2.50 ▅▅" in terminal.getvalue()
    assert "BLEU" not in terminal.getvalue()


def test_curves_below_the_bar_go_on_with_the_journal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    diary = Journal(tmp_path / "j", 0)
    diary.write("update", {"step": 50, "loss": 9.5})
    diary.write("update", {"step": 100, "loss": math.nan})
    diary.write("validation", {"step": 100, "bleu": 0.5})
    terminal = on_terminal(monkeypatch, 60)
    with TrainingProgress() as watcher:
        watcher.recall(tmp_path / "nothing")
        watcher.recall(tmp_path / "j")
        watcher.validation(Validation(150, 1.5, 20.0, 30.0, True, "x"))
        watcher.progress(at(150))
    loss, bleu = (line for line in terminal.getvalue().splitlines() if line.startswith(("loss ", "BLEU ")))
    assert loss.startswith("loss   9.50  ")
    assert loss.rstrip().endswith("▁ 2.50")
    assert bleu.startswith("BLEU    0.5  ")
    assert bleu.rstrip().endswith("▁█ 20.0")


def test_a_narrow_terminal_has_no_curves(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch, 20)
    with TrainingProgress() as watcher:
        watcher.progress(at(3))
    assert "▅" not in terminal.getvalue()


def count_to(number: int, out: io.StringIO, err: io.StringIO, monkeypatch: pytest.MonkeyPatch, pace: float) -> str:
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    with SentenceCount() as count:
        for _ in range(number):
            clock[0] += pace
            count.add()
    return err.getvalue()


def test_a_count_after_two_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = count_to(400, io.StringIO(), Terminal(), monkeypatch, pace=1 / 64)
    assert shown.startswith("\r128 sentences translated\r160 sentences translated\r192")
    assert shown.endswith("\r\x1b[K")


def test_no_count_of_what_is_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    assert count_to(100, io.StringIO(), Terminal(), monkeypatch, pace=0.01) == ""


@pytest.mark.parametrize(("out", "err"), [(io.StringIO(), io.StringIO()), (Terminal(), Terminal())])
def test_no_count_in_a_pipe_or_among_the_results(
    out: io.StringIO, err: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert count_to(100, out, err, monkeypatch, pace=1.0) == ""
