"""`dragoman demo`: the whole journey on sentences of our own, in about two minutes."""

from pathlib import Path
from typing import Annotated

import typer

from dragoman.cli.settings import warn

SENTENCE = "The cat is on the mat."
SEED = 1
UPDATES = 1600
"""Fewer than these pairs would get by default: enough for a demonstration, and over in two minutes."""


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for data and model.")] = Path("demo"),
) -> None:
    """Write a small English-French corpus, check it, train on it, measure the translator, and use it."""
    from dragoman.cli.check import check
    from dragoman.cli.console import Console
    from dragoman.cli.evaluate import evaluate
    from dragoman.cli.train import train
    from dragoman.data.phrases import split
    from dragoman.engine.loading import load

    console = Console(stderr=True, highlight=False, soft_wrap=True)
    out.mkdir(parents=True, exist_ok=True)
    parts = split(SEED)
    for name, pairs in (("train", parts.train), ("valid", parts.valid), ("test", parts.test)):
        for side, language in enumerate(("en", "fr")):
            (out / f"{name}.{language}").write_text("".join(f"{pair[side]}\n" for pair in pairs), encoding="utf-8")
    files = {name: [out / f"{name}.en", out / f"{name}.fr"] for name in ("train", "valid", "test")}
    model = out / "en-fr"
    shorter = [f"train.steps={UPDATES}"]

    def step(number: int, command: str) -> None:
        console.print(f"\n[bold]{number}. dragoman {command}[/bold]")

    step(1, f"check {files['train'][0]} {files['train'][1]}")
    check(files["train"], files["valid"], files["test"], settings=shorter)
    step(2, "train {} {} --valid {} {} --out {} --set {}".format(*files["train"], *files["valid"], model, *shorter))
    train(files["train"], model, files["valid"], settings=shorter, licence="CC0-1.0 (made by dragoman demo)")
    step(3, f"evaluate --model {model} {files['test'][0]} {files['test'][1]}")
    evaluate(model, files["test"][0], [files["test"][1]])
    step(4, f"translate --model {model} '{SENTENCE}'")
    typer.echo(load(model, warn=warn).translate(SENTENCE))
