"""`dragoman quantize`: int8 weights for the CPU engine, with the proof that they say the same."""

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dragoman.cli.settings import AsJson

if TYPE_CHECKING:
    from dragoman.store.folder import ModelFolder


def quantize(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Folder that `dragoman train` wrote.")],
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[SOURCE TARGET]",
            help="Held-out pairs to measure with, as for training; without them those the training validated with.",
        ),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Pairs that are used, the first ones.")] = 1000,
    force: Annotated[bool, typer.Option("--force", help="Write it though it changes more than is allowed.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write int8 weights into the model folder, and a certificate of what that changes; too much is refused."""
    import json

    from dragoman.evaluate.quantizing import quantize as write
    from dragoman.store.folder import ModelFolder

    folder = ModelFolder.open(model)
    pairs, data = _pairs(folder, files, limit)
    certificate = write(folder, pairs, data, force, lambda message: typer.echo(message, err=True))
    if as_json:
        typer.echo(json.dumps(certificate.to_json(), ensure_ascii=False, allow_nan=False))
    else:
        size, before = folder.engine.stat().st_size, folder.weights.stat().st_size
        typer.echo(f"{folder.engine}: {size:,} bytes in place of {before:,}; {certificate.summary()}")


def _pairs(folder: "ModelFolder", files: list[Path] | None, limit: int) -> tuple[list[tuple[str, str]], str]:
    """Held-out sentences with their translations, and where they come from."""
    from dragoman.data.corpus import open_corpus
    from dragoman.errors import RequestError
    from dragoman.store import records

    if files:
        pairs = [(pair.src, pair.tgt) for pair in islice(open_corpus(files), limit)]
        return pairs, " ".join(path.name for path in files)
    if not folder.validation.exists():
        raise RequestError(
            f"{folder.root} holds no validation sentences to measure with; give files SOURCE and TARGET of held-out"
            " pairs"
        )
    return [(src, tgt) for src, tgt in records.read(folder.validation)[:limit]], "validation pairs of the training"
