"""Everything a training is at one instant, into a checkpoint and back."""

import zlib
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from dragoman.config import Config
from dragoman.errors import FolderError
from dragoman.model.build import build, initialize, named_weights
from dragoman.model.families import EncoderDecoder
from dragoman.store import records, tensors
from dragoman.store.checkpoint import Checkpoint
from dragoman.store.files import Chunks
from dragoman.train.optimizer import build_optimizer, optimizer_tensors, restore_optimizer
from dragoman.train.step import Place
from dragoman.train.trend import Trend

FORMAT_VERSION = 1


@dataclass(frozen=True)
class Counters:
    """The numbers of a training; with the three sets of tensors they are all there is to know.

    There are no random states: dropout, order and segmentation are functions of the seed and these counters.
    """

    step: int = 0
    "Updates made, the skipped ones included."
    place: Place = field(default_factory=Place)
    best: float | None = None
    "Best validation score so far."
    best_step: int = 0
    stale: int = 0
    "Validations since the best one."
    bad_steps: int = 0
    "Skipped updates in a row, because loss or gradient was not finite."
    skipped: int = 0
    "Skipped updates altogether."
    tokens: int = 0
    "Real source and target tokens seen."
    seconds: float = 0.0
    "Time taken since the first command began, all included but interruptions."
    journal_bytes: int = 0
    looked: int = 0
    "The update at which the last validation was."
    lost: int = 0
    "Pairs left out because they do not fit into memory."
    trend: Trend = field(default_factory=Trend)
    anchor: int = 0
    "The update of the checkpoint to step back to if the training diverges; 0 is the beginning."
    steps_back: int = 0
    rate_factor: float = 1.0
    "Of the learning rate; halved at each step back."
    fall: int = 0
    "The update after which a plateau falls, once a budget's time has told; 0 before."
    end: int = 0
    "The last update, likewise."


@dataclass(frozen=True)
class Training:
    """Model, its running average, optimizer and counters."""

    model: EncoderDecoder
    average: EncoderDecoder
    optimizer: torch.optim.Optimizer
    counters: Counters

    def at(self, counters: Counters) -> "Training":
        """The same training with other counters."""
        return replace(self, counters=counters)


def begin(config: Config, src_vocab: int, tgt_vocab: int) -> Training:
    """A training before its first update."""
    model, average = (build(config.model, src_vocab, tgt_vocab) for _ in range(2))
    for each in (model, average):
        initialize(each, config.train.seed)
    return Training(model.train(), average.eval(), build_optimizer(model, config.train), Counters())


def begin_with(training: Training, weights: Path) -> Training:
    """``training`` with the weights of another model in that file.

    Raises:
        FolderError: the file is damaged or of another shape.
    """
    for model in (training.model, training.average):
        _fill(model, weights)
    return training


def checksum(training: Training) -> int:
    """Of weights, average and counters."""
    seen = zlib.crc32(repr(training.counters).encode())
    for tensor in (*named_weights(training.model).values(), *named_weights(training.average).values()):
        seen = zlib.crc32(tensor.numpy().tobytes(), seen)
    return seen


def contents(training: Training, identity: dict[str, str]) -> dict[str, Chunks]:
    """The files of a checkpoint; ``identity`` says which configuration and data it belongs to."""
    return {
        "model.safetensors": tensors.encode_tensors(named_weights(training.model), {}),
        "average.safetensors": tensors.encode_tensors(named_weights(training.average), {}),
        "optimizer.safetensors": tensors.encode_tensors(optimizer_tensors(training.model, training.optimizer), {}),
        "state.json": [records.encode({"version": FORMAT_VERSION, **identity, "counters": asdict(training.counters)})],
    }


def restore(training: Training, checkpoint: Checkpoint, identity: dict[str, str]) -> Training:
    """Bring ``training`` to where ``checkpoint`` was written.

    Raises:
        FolderError: the checkpoint is of another version, configuration or corpus.
    """
    state = records.read(checkpoint.file("state.json"))
    _check_identity(state, checkpoint, identity)
    _copy(training.model, checkpoint, "model.safetensors")
    _copy(training.average, checkpoint, "average.safetensors")
    moments = tensors.read_tensors(checkpoint.file("optimizer.safetensors"))
    restore_optimizer(training.model, training.optimizer, moments)
    return training.at(read_counters(state["counters"]))


def read_counters(stored: dict[str, Any]) -> Counters:
    """What ``asdict`` made of counters."""
    return Counters(**{**stored, "place": Place(**stored["place"]), "trend": Trend(**stored["trend"])})


def _check_identity(state: Any, checkpoint: Checkpoint, identity: dict[str, str]) -> None:
    if state.get("version") != FORMAT_VERSION:
        raise FolderError(f"{checkpoint.path} has format {state.get('version')}, this version reads {FORMAT_VERSION}")
    for key, value in identity.items():
        if state.get(key) != value:
            raise FolderError(f"{checkpoint.path} was written with another {key}; train into a new folder")


def _copy(model: EncoderDecoder, checkpoint: Checkpoint, name: str) -> None:
    _fill(model, checkpoint.file(name))


def _fill(model: EncoderDecoder, path: Path) -> None:
    weights = named_weights(model)
    for key, tensor in tensors.read_tensors(path, tensors.specs(weights)).items():
        weights[key].copy_(tensor)
