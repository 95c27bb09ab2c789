"""`dragoman bench`: how fast a model translates on this machine, and with which settings it does so best."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dragoman.cli.settings import AsJson

if TYPE_CHECKING:
    from dragoman.evaluate.machine import Machine
    from dragoman.evaluate.speed import Plan, Speed

QUICK_SECONDS, QUICK_BUDGET = 0.3, 20.0


def bench(
    model: Annotated[Path | None, typer.Argument(help="Folder that `dragoman train` wrote.")] = None,
    file: Annotated[Path | None, typer.Option("--file", "-f", help="Sentences to translate, one a line.")] = None,
    threads: Annotated[list[int] | None, typer.Option("--threads", help="May be repeated, as the next three.")] = None,
    batch: Annotated[list[int] | None, typer.Option("--batch", help="Sentences translated at once.")] = None,
    beam: Annotated[list[int] | None, typer.Option("--beam", help="Hypotheses followed at once.")] = None,
    precision: Annotated[list[str] | None, typer.Option("--precision", help="int8, float32 or torch.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A few seconds, and only the usual settings.")] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Only say which instruction set is used, and why.")
    ] = False,
    store: Annotated[
        bool, typer.Option("--store/--no-store", help="Make the best settings the model's default on this machine.")
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Measure sentences/s, tokens/s, latency, memory and start-up, tokenization included; takes up to two minutes."""
    import json
    from dataclasses import asdict

    from dragoman.errors import RequestError
    from dragoman.evaluate import machine as machines
    from dragoman.evaluate import speed

    machine = machines.look_around()
    if explain:
        typer.echo(json.dumps(asdict(machine)) if as_json else machines.explain(machine))
        return
    if model is None:
        raise RequestError("give the model folder to measure, or --explain")
    lines, origin, plan = _prepare(model, machine, file, quick, threads, batch, beam, precision)
    speeds = speed.bench(model, lines, plan, lambda text: typer.echo(text, err=True))
    chosen = speed.best(speeds)
    if as_json:
        facts = {"machine": asdict(machine), "sentences": origin, "speeds": [asdict(one) for one in speeds]}
        typer.echo(json.dumps({**facts, "best": asdict(chosen)}, ensure_ascii=False))
    else:
        typer.echo(f"{len(lines)} sentences: {origin}\n\n{_table(speeds)}\n\n{_verdict(chosen, speeds)}")
    if store and machine.is_forced:
        typer.echo(f"not stored: DRAGOMAN_ISA={machine.wanted} is not what this machine would take itself", err=True)
    elif store:
        typer.echo(f"stored in {speed.record(model, chosen, machine)}", err=True)


def _prepare(
    model: Path,
    machine: "Machine",
    file: Path | None,
    quick: bool,
    threads: list[int] | None,
    batch: list[int] | None,
    beam: list[int] | None,
    precision: list[str] | None,
) -> "tuple[list[str], str, Plan]":
    """Sentences, where they come from, and what to measure."""
    from dragoman import config
    from dragoman.engine.loading import read_tokenizers
    from dragoman.evaluate import speed
    from dragoman.store.folder import ModelFolder

    folder = ModelFolder.open(model)
    settings = config.load(folder.config)
    usual = settings.search.beam_size
    plan = speed.Plan(
        precisions=speed.precisions(folder, machine, precision or ()),
        threads=threads or ([machine.processors] if quick else speed.thread_counts(machine.processors)),
        batches=batch or ([1, 32] if quick else [1, 32, 128]),
        beams=beam or ([usual] if quick else [1, usual]),
        **_pace(quick),
    )
    lines, origin = speed.sentences(folder, lambda: read_tokenizers(folder, settings)[0], file)
    return lines, origin, plan


def _pace(quick: bool) -> dict[str, Any]:
    return {"seconds": QUICK_SECONDS, "rounds": 1, "budget": QUICK_BUDGET} if quick else {}


def _table(speeds: "list[Speed]") -> str:
    head = (
        "precision",
        "threads",
        "batch",
        "beam",
        "sentences/s",
        "tokens/s",
        "p50 ms",
        "p95 ms",
        "p99 ms",
        "MiB",
        "start s",
    )
    rows = [head, *(_row(one) for one in speeds)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)


def _row(speed: "Speed") -> tuple[str, ...]:
    return (
        speed.precision,
        *(str(number) for number in (speed.threads, speed.batch, speed.beam)),
        f"{speed.sentences_per_second:,.1f}",
        f"{speed.tokens_per_second:,.0f}",
        *(f"{milliseconds:,.1f}" for milliseconds in (speed.p50_ms, speed.p95_ms, speed.p99_ms)),
        f"{speed.rss_mib:,.0f}",
        f"{speed.start_seconds:.2f}",
    )


def _verdict(chosen: "Speed", speeds: "list[Speed]") -> str:
    said = (
        f"best here: {chosen.precision} with {_counted(chosen.threads, 'thread')},"
        f" {chosen.sentences_per_second:,.1f} sentences/s in batches of {chosen.batch} with beam {chosen.beam}"
    )
    alone = [one for one in speeds if one.batch == 1 and one.beam == chosen.beam]
    if not alone or chosen.batch == 1:
        return said
    first = min(alone, key=lambda one: one.p50_ms)
    return f"{said}; one sentence takes {first.p50_ms:.1f} ms ({first.precision}, {_counted(first.threads, 'thread')})"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
