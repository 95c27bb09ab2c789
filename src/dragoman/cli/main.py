"""The door: which commands there are, and how an error leaves the house - as one line and an exit code."""

import os
import sys
from typing import Annotated

import typer

from dragoman import __version__
from dragoman.cli.average import average
from dragoman.cli.check import check
from dragoman.cli.demo import demo
from dragoman.cli.evaluate import evaluate
from dragoman.cli.score import score
from dragoman.cli.train import train
from dragoman.cli.translate import translate
from dragoman.errors import DragomanError

BAD_INPUT, INTERRUPTED, BROKEN_PIPE = 2, 130, 141

app = typer.Typer(
    name="dragoman",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Train a translator from your own sentence pairs, and use it.",
)
for command in (check, train, translate, score, evaluate, average, demo):
    app.command()(command)


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
    """Run the command line and end the process: 0 done, 2 bad input, 130 and 143 stopped by a signal, 141 nobody reads."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    try:
        app(spread(sys.argv[1:]), prog_name="dragoman")
    except DragomanError as error:
        _leave(f"dragoman: {error}", BAD_INPUT)
    except BrokenPipeError:
        _leave("", BROKEN_PIPE)
    except KeyboardInterrupt:
        _leave("dragoman: interrupted", INTERRUPTED)
    except MemoryError:
        _leave("dragoman: out of memory; lower data.batch_tokens or choose a smaller model.preset", BAD_INPUT)


def spread(arguments: list[str]) -> list[str]:
    """Let ``--valid`` and ``--test`` take two files as well as one: ``--valid a b`` becomes ``--valid a --valid b``."""
    spread: list[str] = []
    for argument in arguments:
        two_back = spread[-2] if len(spread) > 1 else ""
        again = two_back in ("--valid", "--test") and spread.count(two_back) == 1
        spread += [two_back, argument] if again and not argument.startswith("-") else [argument]
    return spread


def _leave(message: str, code: int) -> None:
    """End at once: nothing may be written to a pipe that is closed, not even by the interpreter's own last flush."""
    if message:
        print(message.replace("\n", " "), file=sys.stderr)  # noqa: T201
        sys.stderr.flush()
    if code == BROKEN_PIPE:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)
