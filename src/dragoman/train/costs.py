"""What the parts of a training cost on this machine, measured on a model that is then thrown away."""

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import islice

import torch
from msgspec.structs import replace

from dragoman.config import Config
from dragoman.evaluate.metrics import corpus_scores
from dragoman.store import checkpoint, files, records
from dragoman.store.folder import ModelFolder
from dragoman.train import validation
from dragoman.train.curve import can_draw, draw
from dragoman.train.memory import keep_freed_memory
from dragoman.train.optimizer import build_optimizer
from dragoman.train.path import ALONE, choose
from dragoman.train.placement import begin_alone, whole
from dragoman.train.prepare import Prepared, longest_side
from dragoman.train.shortage import Room
from dragoman.train.state import Training, contents
from dragoman.train.step import Place
from dragoman.train.validation import ValidationSet

FIRST, LEAST, MOST = 1, 3, 300
"""Updates that are not measured, since memory and threads are set up in the first; fewest and most that are."""

STRETCHES, SHORTEST = 4, 8
"""The measured updates are cut into so many stretches, of so many updates at least."""

SHARE, TOGETHER = 8, 64
"""One in ``SHARE`` of the validation pairs is translated, and at least as many as the translator takes together."""

AROUND = 0.5
"""Seconds for what nobody measures: the beginning and the end of the process, the model card."""

COSTS = "costs.json"
"""Within ``training/``: a training that goes on must know what its end will cost."""


@dataclass(frozen=True)
class Costs:
    """In seconds."""

    begin: float = 0.0
    "Building the model and its optimizer."
    update: float = 0.0
    validation: float = 0.0
    save: float = 0.0
    "Of a checkpoint."
    picture: float = 0.0

    @property
    def end(self) -> float:
        """What comes after the last update."""
        return self.validation + self.save + self.picture + AROUND


def read(folder: ModelFolder) -> Costs:
    """What was measured when the training in ``folder`` began; zeros if nothing was."""
    path = folder.training / COSTS
    return Costs(**records.read(path)) if path.exists() else Costs()


def write(folder: ModelFolder, costs: Costs) -> None:
    """Keep what was measured for this training."""
    records.write(folder.training / COSTS, asdict(costs))


def measure(prepared: Prepared, seconds: float) -> Costs:
    """Do once what a training does again and again.

    Args:
        seconds: for updates; they are at least ``FIRST + LEAST`` however long that takes.
    """
    config = prepared.config
    if config.train.threads:
        torch.set_num_threads(config.train.threads)
    keep_freed_memory()
    build_optimizer(torch.nn.Linear(1, 1), config.train)  # the first one of a process imports, in seconds
    started = time.monotonic()
    training = begin_alone(config, prepared.src.vocab_size, prepared.tgt.vocab_size)
    begun = time.monotonic()
    update = _seconds_an_update(prepared, training, seconds)
    training = whole(training, config, ALONE)
    return Costs(
        begin=begun - started,
        update=update,
        validation=_seconds_a_validation(prepared, training),
        save=_seconds_a_save(prepared, training),
        picture=_seconds_a_picture(),
    )


def _seconds(act: Callable[[], object]) -> float:
    started = time.monotonic()
    act()
    return time.monotonic() - started


def _seconds_an_update(prepared: Prepared, training: Training, seconds: float) -> float:
    train = prepared.config.train
    batches = (batch for batch, _ in prepared.reader().read(Place()))
    path, room = choose(training, prepared.config, lambda _: None), Room()

    def update() -> None:
        group = list(islice(batches, train.accumulate))
        gradient = room.fit(lambda batches: path.gradient(batches, train.seed), group).gradient
        path.update(gradient, 0.0, 1)  # nothing is to be learned, and nothing can diverge

    taken: list[float] = []
    while len(taken) < FIRST + LEAST or (sum(taken) < seconds and len(taken) < FIRST + MOST):
        taken.append(_seconds(update))
    return _undisturbed(taken[FIRST:])


def _undisturbed(seconds: Sequence[float]) -> float:
    """The mean of the fastest stretch. Whoever else uses the machine may be gone soon, and too many updates are planned
    at less loss than too few: then the clock ends them."""
    size = max(len(seconds) // STRETCHES, min(len(seconds), SHORTEST))
    starts = range(0, len(seconds) - size + 1, size)
    return min(sum(seconds[start : start + size]) / size for start in starts)


def _seconds_a_validation(prepared: Prepared, training: Training) -> float:
    pairs, model = _some(prepared.validation), training.average
    src, tgt = prepared.src, prepared.tgt
    translator = validation.translator(model, src, tgt, _as_long(prepared, pairs))

    def look() -> None:
        validation.mean_loss(model, pairs, src, tgt, longest_side(prepared.config))
        corpus_scores(translator.translate(list(pairs.sources)), pairs.references, pairs.target_language)

    return _seconds(look) * len(prepared.validation.sources) / len(pairs.sources)


def _some(pairs: ValidationSet) -> ValidationSet:
    count = max(len(pairs.sources) // SHARE, TOGETHER)
    return ValidationSet(pairs.sources[:count], pairs.references[:count], pairs.target_language)


def _as_long(prepared: Prepared, pairs: ValidationSet) -> Config:
    """A search whose translations are as long as the references: a model that knows nothing never comes to an end."""
    sides = (prepared.src, pairs.sources), (prepared.tgt, pairs.references)
    src, tgt = (sum(map(len, tokenizer.encode_batch(list(texts)))) for tokenizer, texts in sides)
    limits = {"max_length_ratio": min(tgt / max(src, 1), 100.0), "max_length_extra": 1, "min_length": 0}
    return replace(prepared.config, search=replace(prepared.config.search, **limits))


def _seconds_a_save(prepared: Prepared, training: Training) -> float:
    aside = files.make_temporary_folder(prepared.folder.training)
    try:
        return _seconds(lambda: checkpoint.save(aside, 1, contents(training, prepared.identity), {}, keep=1))
    finally:
        files.remove_tree(aside)


def _seconds_a_picture() -> float:
    """Not of the first, for which matplotlib is imported."""
    if not can_draw():
        return 0.0
    draw([], "")
    return _seconds(lambda: draw([], ""))
