"""`dragoman train`: from sentence pairs to a model folder, or on from where an earlier training stopped."""

from pathlib import Path
from typing import Annotated

import typer

from dragoman.cli.length import Wish, plan
from dragoman.cli.settings import Files, Recipe, Settings, layers, training_corpus
from dragoman.train.clock import Clock

SIGNALLED = 128


def train(
    files: Files,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder to write; a training in it is resumed.")],
    valid: Annotated[
        list[Path] | None,
        typer.Option(
            "--valid", help="Validation files, one or two, after the corpus. Without them some pairs are put aside."
        ),
    ] = None,
    config: Recipe = None,
    settings: Settings = None,
    licence: Annotated[str, typer.Option("--licence", help="Licence of data and model, for the model card.")] = "",
    accept_changed_data: Annotated[
        bool, typer.Option("--accept-changed-data", help="Resume although the files changed, with what was read then.")
    ] = False,
    budget: Annotated[
        str | None,
        typer.Option("--budget", metavar="TIME", help="How long, everything included: 30m, 2h, 1h30m. Fits all to it."),
    ] = None,
    epochs: Annotated[float | None, typer.Option("--epochs", help="How often to read the corpus.")] = None,
    steps: Annotated[int | None, typer.Option("--steps", help="How many updates to make.")] = None,
) -> None:
    """Train a translator. Every default follows the size of the corpus; killed, it resumes where it was."""
    clock = Clock()
    wish = Wish(budget, epochs, steps)
    wanted = wish.settle(layers(config, settings), bool(config))
    from dragoman.cli.progress import TrainingProgress
    from dragoman.data.corpus import open_corpus
    from dragoman.store import lock
    from dragoman.store.folder import ModelFolder
    from dragoman.train.finish import finish
    from dragoman.train.loop import run
    from dragoman.train.prepare import Sources, prepare

    skip_invalid = any(layer.get("data", {}).get("skip_invalid") is True for layer in wanted)
    sources = Sources(
        training_corpus(files, valid or [], skip_invalid),
        open_corpus(valid, skip_invalid=skip_invalid) if valid else None,
        accept_changed_data,
    )
    folder = ModelFolder.create(out)
    with TrainingProgress() as watcher, lock.hold(folder.lock) as warning:
        if warning:
            watcher.message(warning)
        folder.clean_leftovers()
        prepared = prepare(folder, sources, wanted, watcher, plan(wish, wanted, clock))
        outcome = run(prepared, watcher, clock)
        finish(prepared, outcome, licence)
    if outcome.stopped_by:
        watcher.message(f"stopped at update {outcome.counters.step:,}; the same command goes on from there")
        raise typer.Exit(SIGNALLED + outcome.stopped_by)
    watcher.message(
        f"done: best BLEU {outcome.counters.best or 0:.1f} at update {outcome.counters.best_step:,}; try it:"
        f" echo '...' | dragoman translate --model {out}"
    )
