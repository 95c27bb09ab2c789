"""Options that several commands share, and what becomes of them."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from dragoman.config import Layer, SearchConfig
    from dragoman.data.corpus import Corpus

Files = Annotated[
    list[Path],
    typer.Argument(
        metavar="SOURCE TARGET",
        help="Two plain files, line i with line i; or one TSV, CSV, JSON lines, TMX, PO or MO file; gzipped or not.",
    ),
]
Model = Annotated[Path, typer.Option("--model", "-m", help="Folder that `dragoman train` wrote.")]
Recipe = Annotated[Path | None, typer.Option("--config", "-c", help="TOML file with settings.")]
Settings = Annotated[
    list[str] | None, typer.Option("--set", "-s", metavar="SECTION.KEY=VALUE", help="One setting; may be repeated.")
]
Backend = Annotated[
    Literal["auto", "native", "torch"],
    typer.Option("--backend", help="The CPU engine, PyTorch, or the engine if it is there (auto)."),
]
AsJson = Annotated[bool, typer.Option("--json", help="JSON instead of text, for programs.")]


def warn(message: str) -> None:
    """Say something that is no error, on standard error."""
    typer.echo(f"dragoman: {message}", err=True)


def layers(recipe: Path | None, settings: Sequence[str] | None) -> "list[Layer]":
    """What the user wants to differ, weakest first.

    Raises:
        ConfigError: an unknown key, a bad value, an unreadable recipe.
    """
    from dragoman.config import merge, read_setting, read_toml

    wanted = [*([read_toml(recipe)] if recipe else []), *(read_setting(setting) for setting in settings or ())]
    merge(wanted)
    return wanted


def training_corpus(files: Sequence[Path], others: Sequence[Path], skip_invalid: bool) -> "Corpus":
    """The corpus in ``files``; ``others`` are those that `--valid` and `--test` have taken.

    Raises:
        DataError: as ``open_corpus``; where an option may have taken one of the corpus's two files, it says so.
    """
    from dragoman.data.corpus import open_corpus
    from dragoman.errors import DataError

    try:
        return open_corpus(files, skip_invalid=skip_invalid)
    except DataError as error:
        if len(files) == 1 and len(others) > 1:
            raise DataError(f"{error}; `--valid` or `--test` took {others[-1]}: put the corpus before them") from None
        raise


def search_settings(stored: "SearchConfig", recipe: Path | None, settings: Sequence[str] | None) -> "SearchConfig":
    """The model folder's search settings with what the user wants to differ.

    Raises:
        ConfigError: as :func:`layers`.
    """
    from dragoman.config import merge

    return merge([{"search": stored.to_dict()}, *layers(recipe, settings)]).search
