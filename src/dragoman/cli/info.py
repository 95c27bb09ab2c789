"""`dragoman info`: what a model folder holds, how it is served here, and what quantizing has changed."""

from pathlib import Path
from typing import Annotated, Any

import typer

from dragoman.cli.settings import AsJson


def info(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Folder that `dragoman train` wrote.")],
    as_json: AsJson = False,
) -> None:
    """Tell a model's languages, sizes, precision, certificate, and what translates with it here."""
    import json

    from dragoman.evaluate.description import describe
    from dragoman.store.folder import ModelFolder

    facts = describe(ModelFolder.open(model))
    typer.echo(json.dumps(facts, ensure_ascii=False, allow_nan=False) if as_json else "\n".join(_lines(facts)))


def _lines(facts: dict[str, Any]) -> list[str]:
    pairs = [(name, value) for name, value in facts.items() if name not in ("sizes", "files", "certificate")]
    pairs += [(name, value) for name, value in facts["sizes"].items()]
    pairs += [(name, f"{size:,} bytes") for name, size in facts["files"].items()]
    if facts["certificate"]:
        pairs += [("certificate", facts["certificate"]["summary"])]
    width = max(len(name) for name, _ in pairs)
    return [f"{name.replace('_', ' '):{width}}  {_shown(value)}" for name, value in pairs]


def _shown(value: Any) -> str:
    if value is None or value == "":
        return "-"
    return f"{value:,}" if type(value) is int else str(value)
