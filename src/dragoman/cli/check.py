"""`dragoman check`: look at a corpus before anything is trained on it."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from dragoman.cli.settings import AsJson, Files, Recipe, Settings, layers, training_corpus

PROBLEMS = 1


def check(
    files: Files,
    valid: Annotated[
        list[Path] | None, typer.Option("--valid", help="Validation files, one or two, after the corpus.")
    ] = None,
    test: Annotated[list[Path] | None, typer.Option("--test", help="Test files, one or two, after the corpus.")] = None,
    config: Recipe = None,
    settings: Settings = None,
    estimate: Annotated[bool, typer.Option(help="Measure how long training would take here.")] = True,
    as_json: AsJson = False,
) -> None:
    """Report on a corpus: counts, misalignment, encodings, duplicates, what training would do. Exit code 1: unfit."""
    from importlib.util import find_spec

    from dragoman.config import merge
    from dragoman.data.corpus import open_corpus
    from dragoman.data.report import examine
    from dragoman.train import presets

    wanted = layers(config, settings)
    data = merge(wanted).data
    train = training_corpus(files, [*(valid or []), *(test or [])], data.skip_invalid)
    others = [open_corpus(paths, skip_invalid=data.skip_invalid) if paths else None for paths in (valid, test)]
    report = examine(train, *others, drop_duplicates=data.drop_duplicates)
    if report.fit_to_train:
        size = presets.CorpusSize.of(report.train)
        resolved = merge([presets.for_corpus(size, wanted), *wanted])
        minutes = None
        if estimate and find_spec("torch") is None:
            typer.echo("no estimate of the time: it needs torch; pip install 'dragoman[train]'", err=True)
        elif estimate:
            from dragoman.train.estimate import training_minutes

            minutes = training_minutes(resolved, size)
        name, vocab_size = presets.preset_name(size), resolved.text.vocab_size
        report = replace(report, preset=name, vocab_size=vocab_size, estimated_minutes=minutes)
    if as_json:
        import json

        typer.echo(json.dumps(report.to_json(), ensure_ascii=False))
    else:
        from dragoman.cli.console import Console
        from dragoman.cli.report_table import render

        render(report, Console())
    if not report.fit_to_train:
        raise typer.Exit(PROBLEMS)
