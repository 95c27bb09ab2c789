"""The door: which commands there are, and how an error leaves the house - as one line and an exit code."""

import io
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated, cast

import typer
import typer.main

from dragoman import __version__
from dragoman.cli.average import average
from dragoman.cli.bench import bench
from dragoman.cli.check import check
from dragoman.cli.demo import demo
from dragoman.cli.evaluate import evaluate
from dragoman.cli.info import info
from dragoman.cli.quantize import quantize
from dragoman.cli.score import score
from dragoman.cli.train import train
from dragoman.cli.translate import translate
from dragoman.cli.watch import watch
from dragoman.errors import DragomanError, is_shortage

BAD_INPUT, INTERRUPTED, BROKEN_PIPE = 2, 130, 141

TWO_FILES = ("--valid", "--test")
"""Options that take one file or two."""

TRAINING_ONLY = ("torch", "tokenizers", "jaxtyping", "matplotlib")
"""What only ``dragoman[train]`` installs; every command that needs it finds out by importing it."""

app = typer.Typer(
    name="dragoman",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Train a translator from your own sentence pairs, and use it.",
)
for command in (check, train, watch, translate, score, evaluate, average, quantize, info, bench, demo):
    app.command()(command)

USAGE_ERROR = cast("type[typer.BadParameter]", typer.BadParameter.__base__)
"""What a wrong option raises; typer does not export it under its own name."""


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dragoman {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    """Train a translator from your own sentence pairs, and use it."""


def run() -> None:
    """Run the command line and end the process.

    Its exit code: 0 done, 1 not fit to train on, 2 bad input, 129, 130 and 143 stopped by a signal, 141 nobody reads.
    """
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    if os.uname().machine == "x86_64":  # numpy's BLAS, which nothing here uses, starts threads; elsewhere it is torch's
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        _dispatch(spread(sys.argv[1:]) or ["--help"])
    except DragomanError as error:
        _leave(str(error), BAD_INPUT)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in TRAINING_ONLY:
            raise
        _leave(f"this needs {error.name}, which is not installed; pip install 'dragoman[train]'", BAD_INPUT)
    except BrokenPipeError:
        _leave("", BROKEN_PIPE)
    except OSError as error:
        _leave(f"{error.filename or 'input or output'}: {error.strerror or error}", BAD_INPUT)
    except KeyboardInterrupt:
        _leave("interrupted", INTERRUPTED)
    except Exception as error:
        if not is_shortage(error):
            raise
        _leave("out of memory; lower data.batch_tokens or choose a smaller model.preset", BAD_INPUT)
    finally:
        _let_go()


def _dispatch(arguments: list[str]) -> None:
    """Not by ``app()``: it has words and exit codes of its own for wrong options, closed pipes and interrupts."""
    group = typer.main.get_command(app)
    try:
        with group.make_context("dragoman", arguments) as context:
            group.invoke(context)
    except typer.Exit as leave:
        sys.exit(leave.exit_code)
    except USAGE_ERROR as error:
        asked = error.ctx.command_path if error.ctx else "dragoman"
        _leave(f"{error.format_message().rstrip('.')}; see `{asked} --help`", BAD_INPUT)


def spread(arguments: list[str]) -> list[str]:
    """Let ``--valid`` and ``--test`` take two files as well as one: ``--valid a b`` becomes ``--valid a --valid b``.

    A file that holds both sides by its name (`one.tsv`) is alone; the next one begins the corpus.
    """
    spread: list[str] = []
    for argument in arguments:
        before = spread[-2:]
        again = len(before) == 2 and before[0] in TWO_FILES and spread.count(before[0]) == 1
        takes = again and not argument.startswith("-") and not _is_whole(before[1])
        spread += [before[0], argument] if takes else [argument]
    return spread


def _is_whole(name: str) -> bool:
    from dragoman.data.corpus import holds_both_sides

    return holds_both_sides(Path(name))


def _let_go() -> None:
    """What standard error did not take must not fail once more at the interpreter's end."""
    try:
        if sys.stderr:
            sys.stderr.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def _leave(message: str, code: int) -> None:
    """End at once: nothing may be written to a pipe that is closed, not even by the interpreter's own last flush."""
    if message:
        with suppress(OSError):
            typer.echo(f"dragoman: {' '.join(message.splitlines())}", err=True)
    if code == BROKEN_PIPE:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)
