"""What `dragoman bench` found best for a model: ``bench.json``, the default for whoever loads it on that machine.

Its keys are the fields of :class:`Best`.
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from dragoman.errors import FolderError
from dragoman.store import files, records

Precision = Literal["int8", "float32", "torch"]
"""int8 and float32: of the CPU engine; torch: PyTorch, which computes in float32."""

PRECISIONS: tuple[Precision, ...] = get_args(Precision)

MOST_THREADS = 1024
"""More are taken for damage."""

_LIMIT = 1 << 16


@dataclass(frozen=True)
class Best:
    """The best settings, and what they were found with."""

    threads: int
    precision: Precision
    batch: int
    beam: int
    sentences_per_second: float
    processor: str
    processors: int
    "How many the process might use."
    isa: str
    "Instruction set of the CPU engine; empty where there was no engine."


@dataclass(frozen=True)
class Default:
    """What to load a model with where the user leaves it open."""

    threads: int = 0
    "0: nothing is known."
    precision: Precision | None = None
    "None: nothing is known."


def write(path: Path, best: Best) -> None:
    """Write it atomically.

    Raises:
        FolderError: as `files.write_atomic`.
    """
    records.write(path, asdict(best))


def read(path: Path, processor: str, processors: int, isa: str) -> Default:
    """What was found best on this machine; nothing is known where the file is missing, damaged, or of another one.

    A processor's name is not enough: rented machines of several generations call theirs alike. A default is no reason
    to refuse a model, so none of that is an error.
    """
    try:
        facts = records.decode(files.read_bytes(path, _LIMIT), files.shown(path))
    except FolderError:
        return Default()
    here = {"processor": processor, "processors": processors, "isa": isa}
    if not _is_sound(facts) or any(facts.get(name) != value for name, value in here.items()):
        return Default()
    return Default(facts["threads"], facts["precision"])


def _is_sound(facts: Any) -> bool:
    if type(facts) is not dict or not {"threads", "precision"} <= facts.keys():
        return False
    threads, precision = facts["threads"], facts["precision"]
    return type(threads) is int and 1 <= threads <= MOST_THREADS and precision in PRECISIONS
