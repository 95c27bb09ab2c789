"""`dragoman score`: how likely the model finds given translations."""

from typing import Annotated, Any

import typer

from dragoman.cli.settings import AsJson, Backend, Files, Model, Settings, search_settings, warn


def score(
    model: Model,
    files: Files,
    settings: Settings = None,
    tokens: Annotated[bool, typer.Option("--tokens", help="Also the log-probability of each piece.")] = False,
    backend: Backend = "auto",
    as_json: AsJson = False,
) -> None:
    """Print score (normalised by length, as in the search) and log-probability of each pair, a line a pair."""
    import json

    from dragoman.data.corpus import open_corpus
    from dragoman.engine.loading import load
    from dragoman.engine.translator import Translator

    loaded = load(model, backend, warn=warn)
    search = search_settings(loaded.search, None, settings)
    translator = Translator(loaded.src, loaded.tgt, loaded.backend, search, loaded.max_length)
    corpus = open_corpus(files)
    for pair, scored in zip(corpus, translator.score((pair.src, pair.tgt) for pair in open_corpus(files)), strict=True):
        pieces = translator.tgt.pieces([*scored.ids, translator.backend.eos_id])
        facts: dict[str, Any] = {"line": pair.line, "score": scored.score, "log_prob": scored.log_prob}
        if tokens:
            facts |= {"tokens": pieces, "log_probs": list(scored.token_log_probs)}
        if as_json:
            typer.echo(json.dumps(facts, ensure_ascii=False, allow_nan=False))
        else:
            each = "\t" + " ".join(f"{log_prob:.3f}" for log_prob in scored.token_log_probs) if tokens else ""
            typer.echo(f"{scored.score:.6f}\t{scored.log_prob:.6f}{each}")
    if corpus.skipped.total:
        typer.echo(f"skipped: {corpus.skipped.summary()}", err=True)
