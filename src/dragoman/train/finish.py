"""After the last update: the model card and the picture of the training."""

from collections.abc import Mapping, Sequence

from dragoman import __version__
from dragoman.store import files, records
from dragoman.store.card import CardFacts, DataFact, ScoreFact, render
from dragoman.train import journal
from dragoman.train.curve import can_draw, draw
from dragoman.train.loop import Outcome
from dragoman.train.prepare import Prepared


def finish(prepared: Prepared, outcome: Outcome, licence: str) -> None:
    """Write what people read into the model folder; done after an interruption too, it is then made anew at the end.

    There is no picture without matplotlib; `prepare` has said so.
    """
    files.write_atomic(prepared.folder.card, render(_facts(prepared, outcome, licence)).encode())
    events = journal.read(prepared.folder.journal)
    if can_draw() and any(event["event"] == "validation" for event in events):
        files.write_atomic(prepared.folder.curve, draw(events, prepared.folder.root.resolve().name))


def _named(entries: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """The SHA-256 of each file; those of one name are told apart by the folders they lie in."""
    sums = {tuple(entry["path"].split("/")): entry["sha256"] for entry in entries}
    named: dict[str, str] = {}
    for length in range(1, max(map(len, sums)) + 1):
        named = {"/".join(path[-length:]): sha256 for path, sha256 in sums.items()}
        if len(named) == len(sums):
            break
    return named


def _facts(prepared: Prepared, outcome: Outcome, licence: str) -> CardFacts:
    config, counters = prepared.config, outcome.counters
    name = prepared.folder.root.resolve().name
    provenance = records.read(prepared.folder.provenance)
    pairs = {"train": provenance["pairs"]["kept"], "valid": provenance["pairs"]["validation"]}
    data = [DataFact(role, _named(entries), pairs[role]) for role, entries in provenance["data"].items() if entries]
    scores = [] if counters.best is None else [ScoreFact("validation pairs, greedy", "BLEU", round(counters.best, 2))]
    sizes: dict[str, str | int] = {
        "parameters": outcome.parameters,
        "vocabulary": prepared.tgt.vocab_size,
        "d_model": config.model.d_model,
        "layers": f"{config.model.num_encoder_layers} + {config.model.num_decoder_layers}",
        "updates": counters.step,
        "source and target pieces seen": counters.tokens,
    }
    if "start" in provenance:
        sizes["begun with"] = provenance["start"]["model"]
    return CardFacts(
        name,
        __version__,
        config.text.src_lang,
        config.text.tgt_lang,
        licence,
        data,
        sizes,
        scores,
        ("dragoman", "train", "...", "--config", f"{name}/config.toml"),
        counters.seconds,
    )
