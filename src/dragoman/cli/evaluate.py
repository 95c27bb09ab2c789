"""`dragoman evaluate`: BLEU, chrF and TER of a model, or of a file, against references - and against a rival."""

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dragoman.cli.settings import AsJson, Backend, Model, Recipe, Settings, search_settings, warn

if TYPE_CHECKING:
    from dragoman.engine.loading import BackendName
    from dragoman.evaluate.bootstrap import Comparison
    from dragoman.evaluate.metrics import Scores


def evaluate(
    model: Model,
    source: Annotated[Path, typer.Argument(help="Source sentences, one a line.")],
    reference: Annotated[
        list[Path], typer.Argument(help="Their translations, one a line; several files are several references.")
    ],
    compare: Annotated[
        Path | None, typer.Option("--compare", help="Another model folder or a file of translations: paired bootstrap.")
    ] = None,
    lowercase: Annotated[bool, typer.Option("--lowercase", help="Compare without regard to case.")] = False,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Also write the translations here.")] = None,
    config: Recipe = None,
    settings: Settings = None,
    backend: Backend = "auto",
    as_json: AsJson = False,
) -> None:
    """Translate a test set and measure it; unequal counts of lines are refused."""
    import json

    from dragoman.data.lines import read_lines
    from dragoman.evaluate.bootstrap import compare as contrast
    from dragoman.evaluate.metrics import evaluate as measure
    from dragoman.store import files

    sources = list(read_lines(source))
    references = list(zip(*(_as_many(path, len(sources), source) for path in reference), strict=True))
    language = _target_language(model)
    if output:
        files.check_writable(output.parent)
    translated = partial(_translations, sources=sources, config=config, settings=settings, backend=backend)
    rival: list[str] = []
    if compare:
        rival = translated(compare) if compare.is_dir() else _as_many(compare, len(sources), source)
    hypotheses = translated(model, tell=warn)
    if output:
        files.write_atomic(output, "".join(f"{line}\n" for line in hypotheses).encode())
    scores = measure(hypotheses, references, language, lowercase)
    comparison = contrast(hypotheses, rival, references, language, lowercase) if compare else None
    if as_json:
        facts = {**asdict(scores), **({"comparison": asdict(comparison)} if comparison else {})}
        typer.echo(json.dumps(facts, ensure_ascii=False))
        return
    typer.echo(_table(scores))
    if comparison:
        typer.echo(_contrast(comparison, compare))


def _target_language(model: Path) -> str:
    from dragoman import config
    from dragoman.store.folder import ModelFolder

    return config.load(ModelFolder.open(model).config).text.tgt_lang


def _as_many(path: Path, count: int, source: Path) -> list[str]:
    from dragoman.data.lines import read_lines
    from dragoman.errors import DataError

    lines = list(read_lines(path))
    if len(lines) != count:
        raise DataError(f"{source} has {count} lines but {path} has {len(lines)}; line i must translate line i")
    return lines


def _translations(
    model: Path,
    sources: list[str],
    config: Path | None,
    settings: list[str] | None,
    backend: "BackendName",
    tell: Callable[[str], None] = lambda message: None,
) -> list[str]:
    from dragoman.cli.count import SentenceCount
    from dragoman.cli.translate import one_line
    from dragoman.engine.loading import load

    translator = load(model, backend, warn=tell)
    search = search_settings(translator.search, config, settings)
    with SentenceCount() as count:
        return [one_line(found[0].text) for found in translator.stream(sources, search, tick=count.add)]


def _table(scores: "Scores") -> str:
    lines = [f"{scores.lines} sentences"]
    for name, one in (("BLEU", scores.bleu), ("chrF", scores.chrf), ("TER", scores.ter)):
        lines.append(f"{name:5}{one.value:7.2f}   {one.signature}")
    return "\n".join([*lines, f"exact{scores.exact:7.2f} %"])


def _contrast(comparison: "Comparison", rival: Path | None) -> str:
    lines = [f"against {rival} (paired bootstrap, {comparison.samples} samples):"]
    for name, one in (("BLEU", comparison.bleu), ("chrF", comparison.chrf), ("TER", comparison.ter)):
        difference = f"{one.a:7.2f} - {one.b:6.2f} = {one.difference:+6.2f}"
        lines.append(f"{name:5}{difference}   95 % [{one.low:+.2f}, {one.high:+.2f}]   p = {one.p_value:.3f}")
    return "\n".join(lines)
