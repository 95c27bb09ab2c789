"""`dragoman translate`: an argument, a file or standard input; a line in, a line out."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dragoman.cli.settings import AsJson, Backend, Model, Recipe, Settings, search_settings, warn

if TYPE_CHECKING:
    from dragoman.engine.translator import Translation, Translator


def translate(
    model: Model,
    text: Annotated[list[str] | None, typer.Argument(metavar="[TEXT]...", help="Texts to translate.")] = None,
    file: Annotated[Path | None, typer.Option("--file", "-f", help="A file to translate, line by line.")] = None,
    n_best: Annotated[int | None, typer.Option("--n-best", help="Translations a line: number, score, text.")] = None,
    beam: Annotated[int | None, typer.Option("--beam", help="Hypotheses followed at once; 1 is greedy.")] = None,
    prefix: Annotated[str, typer.Option("--prefix", help="Text every translation must begin with.")] = "",
    config: Recipe = None,
    settings: Settings = None,
    backend: Backend = "auto",
    as_json: AsJson = False,
) -> None:
    """Translate arguments, a file, or standard input (line by line, as the lines arrive)."""
    from dragoman.cli.count import SentenceCount
    from dragoman.engine.loading import load
    from dragoman.errors import RequestError

    if text and file:
        raise RequestError("give texts or --file, not both")
    translator = load(model, backend, warn=warn)
    wanted = [*(settings or []), *_options(translator.search.beam_size, n_best, beam)]
    search = search_settings(translator.search, config, wanted)
    show = _json if as_json else _numbered if n_best else _plain
    cut: list[int] = []
    number = 0
    with SentenceCount() as count:
        for lines in _arriving(text, file):
            for line, found in zip(lines, translator.stream(lines, search, prefix, count.add), strict=True):
                number += 1
                if found[0].is_cut:
                    cut.append(number)
                typer.echo(show(translator, number, line, found))
    if cut:
        where = ", ".join(map(str, cut[:10])) + (", ..." if len(cut) > 10 else "")
        typer.echo(
            f"{len(cut)} translations reached the length limit before their end (lines {where});"
            " raise search.max_length_ratio",
            err=True,
        )


def _options(stored_beam: int, n_best: int | None, beam: int | None) -> Iterator[str]:
    if beam is not None:
        yield f"search.beam_size={beam}"
    if n_best is not None:
        yield f"search.n_best={n_best}"
        if beam is None and n_best > stored_beam:
            yield f"search.beam_size={n_best}"
    elif beam is not None:
        yield "search.n_best=1"


def _arriving(text: list[str] | None, file: Path | None) -> Iterable[list[str]]:
    import sys
    from itertools import islice

    from dragoman.data.lines import read_arriving, read_lines
    from dragoman.errors import RequestError

    if text:
        return [text]
    if file is None:
        if sys.stdin is None:
            raise RequestError("standard input is closed; give texts, --file, or something to read")
        return read_arriving(sys.stdin.buffer)
    lines = read_lines(file)
    return iter(lambda: list(islice(lines, 2048)), [])


def _plain(translator: "Translator", number: int, line: str, found: "list[Translation]") -> str:
    return one_line(found[0].text)


def _numbered(translator: "Translator", number: int, line: str, found: "list[Translation]") -> str:
    return "\n".join(f"{number}\t{one.score:.4f}\t{one_line(one.text)}" for one in found)


def _json(translator: "Translator", number: int, line: str, found: "list[Translation]") -> str:
    import json

    facts = {"line": number, "source": line, "translations": [_facts(translator, one) for one in found]}
    return json.dumps(facts, ensure_ascii=False, allow_nan=False)


def _facts(translator: "Translator", translation: "Translation") -> dict[str, Any]:
    """Tokens, their log-probabilities, and the source token each looked at most; the end of sentence is a token."""
    facts: dict[str, Any] = {"text": translation.text, "score": translation.score, "cut": translation.is_cut}
    source_tokens: list[str] = []
    tokens: list[str] = []
    log_probs: list[float] = []
    alignment: list[int] = []
    for part in translation.parts:
        looks = [max(range(len(row)), key=row.__getitem__) for row in translator.align(part)]
        alignment += [len(source_tokens) + place for place in looks]
        source_tokens += translator.src.pieces(part.source_ids)
        tokens += translator.tgt.pieces(part.target_ids)
        log_probs += part.hypothesis.token_log_probs
    return {**facts, "source_tokens": source_tokens, "tokens": tokens, "log_probs": log_probs, "alignment": alignment}


def one_line(text: str) -> str:
    """Line out for line in: a line break inside a translation would shift all that follow."""
    return " ".join(text.split("\n")) if "\n" in text else text
