"""`dragoman train`: from sentence pairs to a model folder, or on from where an earlier training stopped."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dragoman.cli.length import Wish, plan, spelled
from dragoman.cli.settings import Files, Recipe, Settings, layers, training_corpus, warn
from dragoman.train.clock import Clock

if TYPE_CHECKING:
    from dragoman.config import Layer
    from dragoman.store.folder import ModelFolder
    from dragoman.train.prepare import Prepared, Sources
    from dragoman.train.watcher import Watcher
    from dragoman.train.workers import Workers

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
    start: Annotated[
        Path | None, typer.Option("--from", metavar="MODEL", help="Begin with this model's vocabulary and weights.")
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
    explain: Annotated[bool, typer.Option("--explain", help="Only say what the training would be.")] = False,
) -> None:
    """Train a translator. Every default follows the size of the corpus; killed, it resumes where it was.

    Started by torchrun, several processes train together, each on its part of every update.
    """
    clock = Clock()
    wish = Wish(budget, epochs, steps)
    wanted = wish.settle(layers(config, settings), bool(config))
    from dragoman.cli.progress import TrainingProgress
    from dragoman.config import merge
    from dragoman.data.corpus import open_corpus
    from dragoman.train.finish import finish
    from dragoman.train.loop import run
    from dragoman.train.placement import require
    from dragoman.train.prepare import Sources, prepare
    from dragoman.train.start import Start
    from dragoman.train.watcher import Unwatched
    from dragoman.train.workers import joined

    skip_invalid = any(layer.get("data", {}).get("skip_invalid") is True for layer in wanted)

    def sources() -> Sources:
        return Sources(
            training_corpus(files, valid or [], skip_invalid),
            open_corpus(valid, skip_invalid=skip_invalid) if valid else None,
            accept_changed_data,
            Start.open(start) if start else None,
        )

    if explain:
        _explain(out, sources(), wanted, wish)
        return
    with joined() as workers, TrainingProgress() if workers.is_first else nullcontext(Unwatched()) as watcher:
        require(merge(wanted).train, workers)

        def make(folder: "ModelFolder", given: Sources) -> "Prepared":
            return prepare(folder, given, wanted, watcher, plan(wish, wanted, clock), workers.count)

        with _prepared(out, sources, make, watcher, workers) as prepared:
            if isinstance(watcher, TrainingProgress):
                watcher.recall(prepared.folder.journal)
            outcome = run(prepared, watcher, clock, workers)
            if workers.is_first:
                finish(prepared, outcome, licence)
    if outcome.stopped_by:
        watcher.message(f"stopped at update {outcome.counters.step:,}; the same command goes on from there")
        raise typer.Exit(SIGNALLED + outcome.stopped_by)
    best, at = outcome.counters.best, outcome.counters.best_step
    what = "no validation came to an end" if best is None else f"best BLEU {best:.1f} at update {at:,}"
    watcher.message(f"done: {what}; try it: echo '...' | dragoman translate --model {out}")


@contextmanager
def _prepared(
    out: Path,
    sources: "Callable[[], Sources]",
    make: "Callable[[ModelFolder, Sources], Prepared]",
    watcher: "Watcher",
    workers: "Workers",
) -> "Iterator[Prepared]":
    """The folder ready for training: the first worker makes it so and holds its lock, the others wait for that."""
    from dragoman.store import lock
    from dragoman.store.folder import ModelFolder
    from dragoman.train.prepare import reopen

    if not workers.is_first:
        workers.share(None, patiently=True)
        yield reopen(ModelFolder(out))
        return
    given = sources()
    folder = ModelFolder.create(out)
    with lock.hold(folder.lock) as warning:
        if warning:
            watcher.message(warning)
        folder.clean_leftovers()
        prepared = make(folder, given)
        workers.share(None, patiently=True)
        yield prepared


def _explain(out: Path, sources: "Sources", wanted: "Sequence[Layer]", wish: Wish) -> None:
    """Say what the training would be; of the workers, one says it."""
    from dragoman.config import load, merge
    from dragoman.data.report import examine
    from dragoman.store.folder import ModelFolder
    from dragoman.train.explanation import explain
    from dragoman.train.prepare import check_layers
    from dragoman.train.presets import CorpusSize, for_corpus, narrower

    folder, may_be_narrower = ModelFolder(out), False
    if folder.config.exists():
        begun = load(folder.config)
        check_layers(folder, begun, wanted)
        basis: Layer = begun.to_dict()
    else:
        size = CorpusSize.of(examine(sources.train, sources.valid).train)
        begun_with = [sources.start.layer] if sources.start else []
        over = [*begun_with, *wanted]
        may_be_narrower = wish.budget is not None and bool(narrower(size, over))
        basis = merge([for_corpus(size, over), *begun_with]).to_dict()
    if os.environ.get("RANK", "0") == "0":
        for line in explain(merge([basis, *wanted]), int(os.environ.get("WORLD_SIZE", "1")), spelled(wish)):
            warn(line)
        if may_be_narrower:
            warn("that is the usual model; a narrower one is taken if less than half of its training fits, as measured")
