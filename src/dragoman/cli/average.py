"""`dragoman average`: the mean of several models of one training, or of several trainings from one beginning."""

from pathlib import Path
from typing import Annotated

import typer


def average(
    models: Annotated[list[Path], typer.Argument(help="Model folders with the same configuration and vocabulary.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Model folder to write.")],
) -> None:
    """Write a model whose weights are the mean of those of several models."""
    import torch

    from dragoman import config as configuration
    from dragoman.errors import FolderError
    from dragoman.store import files
    from dragoman.store.average import average as mean
    from dragoman.store.folder import ModelFolder

    if len(models) < 2:
        raise FolderError("an average needs at least two model folders")
    if out.exists():
        raise FolderError(f"{out} exists already; choose another --out")
    folders = [ModelFolder.open(path) for path in models]
    first = folders[0]
    config = configuration.load(first.config)
    text, model = config.text, config.model.to_dict()
    for folder, path in zip(folders[1:], models[1:], strict=True):
        for key, value in configuration.load(folder.config).model.to_dict().items():
            if key != "dropout" and value != model[key]:  # the weights have the same meaning whatever that was
                raise FolderError(f"{path} has model.{key}={value!r}, {models[0]} has {model[key]!r}; average equals")
        for mine, theirs in zip(first.tokenizers(text.shared), folder.tokenizers(text.shared), strict=True):
            if not theirs.is_file() or mine.read_bytes() != theirs.read_bytes():
                raise FolderError(f"{path} has another vocabulary than {models[0]}; average models that share one")
    weights = mean([folder.weights for folder in folders])
    made = ModelFolder(out)
    files.make_folder(out)
    for name in (first.config, *first.tokenizers(text.shared)):
        files.write_atomic(out / name.name, name.read_bytes())
    made.write_weights({name: torch.from_numpy(array) for name, array in weights.items()})
    typer.echo(f"{out}: the mean of {len(models)} models", err=True)
