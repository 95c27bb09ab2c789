"""How fast a model translates on this machine, tokenization included, and with which settings it does so best.

Each pair of precision and threads is a process of its own. All of them are visited in turn for each pair of batch and
beam: neighbours on a shared machine change its speed within seconds, so only what was measured side by side compares.

What is best is written into the model folder, the default for whoever loads the model on this machine; see
:mod:`dragoman.store.bench`.
"""

import json
import math
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from dragoman.data.lines import read_lines
from dragoman.engine.library import has_torch
from dragoman.errors import EngineError, RequestError
from dragoman.evaluate.machine import Machine
from dragoman.store import bench as stored
from dragoman.store import records
from dragoman.store.bench import PRECISIONS, Precision
from dragoman.store.folder import ModelFolder
from dragoman.text.tokenizer import SPECIALS, Tokenizer

MOST_LINES = 1000
NEAR = 0.97
"""Share of the best speed that is taken for equal, if it needs fewer threads."""

_WORKER = "from dragoman.evaluate.speed_process import main; main()"


@dataclass(frozen=True)
class Plan:
    """What is measured: everything with everything."""

    precisions: Sequence[Precision]
    threads: Sequence[int]
    batches: Sequence[int]
    beams: Sequence[int]
    seconds: float = 0.7
    "Of each measurement, at least; a batch is never cut short."
    rounds: int = 2
    budget: float = 100.0
    "Seconds after which no further pair of batch and beam is begun; the first two always are."

    def __post_init__(self) -> None:
        for name in ("threads", "batches", "beams"):
            low = [value for value in getattr(self, name) if value < 1]
            if low:
                raise RequestError(f"{name}: {low[0]} is less than 1")

    def pairs(self) -> list[tuple[int, int]]:
        """Batch and beam, the most telling first: the largest batch, then single sentences, each with the last beam."""
        batches = sorted(set(self.batches), key=lambda batch: (batch != max(self.batches), batch))
        return [(batch, beam) for beam in reversed(list(dict.fromkeys(self.beams))) for batch in batches]


@dataclass(frozen=True)
class Speed:
    """One measurement."""

    precision: Precision
    threads: int
    batch: int
    beam: int
    sentences_per_second: float
    tokens_per_second: float
    "Target tokens, the ends of sentences included."
    p50_ms: float
    "Half of the batches took no longer; with batch 1 that is the latency of a sentence."
    p95_ms: float
    p99_ms: float
    samples: int
    "Batches that were timed."
    rss_mib: float
    "Peak resident memory of the process so far."
    start_seconds: float
    "From the start of the process to its first translation."


@dataclass
class Runner:
    """A process with one precision and one number of threads."""

    precision: Precision
    threads: int
    process: "subprocess.Popen[str]"
    start_seconds: float = 0.0

    @classmethod
    def start(cls, folder: Path, precision: Precision, threads: int, line: str) -> Self:
        """Start it and wait for its first translation, that of ``line``.

        Raises:
            EngineError: it cannot load the model, or cannot translate.
        """
        asked = json.dumps({"folder": str(folder), "precision": precision, "threads": threads, "line": line})
        pipe = subprocess.PIPE
        started = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, "-c", _WORKER, asked], stdin=pipe, stdout=pipe, text=True, encoding="utf-8"
        )
        runner = cls(precision, threads, process)
        try:
            runner._answer()
        except BaseException:
            runner.close()
            raise
        runner.start_seconds = time.perf_counter() - started
        return runner

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def measure(self, lines: Sequence[str], batch: int, beam: int, seconds: float) -> dict[str, Any]:
        """See :func:`dragoman.evaluate.speed_process.measure`."""
        request = {"lines": lines, "batch": batch, "beam": beam, "seconds": seconds}
        if self.process.stdin is not None:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
        return self._answer()

    def close(self) -> None:
        """End it."""
        self.process.kill()
        self.process.communicate()

    def _answer(self) -> dict[str, Any]:
        line = self.process.stdout.readline() if self.process.stdout else ""
        answer: dict[str, Any] = json.loads(line) if line else {"error": "it ended without a word"}
        if "error" in answer:
            raise EngineError(f"{self.precision}, threads {self.threads}: {answer['error']}")
        return answer


def bench(folder: Path, lines: Sequence[str], plan: Plan, tell: Callable[[str], None]) -> list[Speed]:
    """Measure ``plan``.

    Args:
        tell: is told what goes on.

    Raises:
        EngineError: a process cannot load the model, or cannot translate.
    """
    speeds: list[Speed] = []
    with ExitStack() as stack:
        runners = []
        for precision in plan.precisions:
            for threads in plan.threads:
                tell(f"starting: {precision}, threads {threads}")
                runners.append(stack.enter_context(Runner.start(folder, precision, threads, lines[0])))
        pairs, ends = plan.pairs(), time.monotonic() + plan.budget
        for done, (batch, beam) in enumerate(pairs):
            if done > 1 and time.monotonic() > ends:
                tell(f"time is up: {len(pairs) - done} of {len(pairs)} pairs of batch and beam were not measured")
                break
            tell(f"batch {batch}, beam {beam} ({done + 1} of {len(pairs)})")
            speeds += _side_by_side(runners, lines, batch, beam, plan)
    return speeds


def _side_by_side(
    runners: Sequence[Runner], lines: Sequence[str], batch: int, beam: int, plan: Plan
) -> Iterator[Speed]:
    answers: list[list[dict[str, Any]]] = [[] for _ in runners]
    for _ in range(plan.rounds):
        for runner, own in zip(runners, answers, strict=True):
            own.append(runner.measure(lines, batch, beam, plan.seconds / plan.rounds))
    for runner, own in zip(runners, answers, strict=True):
        yield summarize(runner.precision, runner.threads, batch, beam, runner.start_seconds, own)


def summarize(
    precision: Precision, threads: int, batch: int, beam: int, start_seconds: float, answers: Sequence[dict[str, Any]]
) -> Speed:
    """One measurement out of the answers of its rounds."""
    durations = sorted(seconds for answer in answers for seconds in answer["seconds"])
    total = sum(durations)
    return Speed(
        precision,
        threads,
        batch,
        beam,
        sentences_per_second=len(durations) * batch / total,
        tokens_per_second=sum(answer["tokens"] for answer in answers) / total,
        p50_ms=1e3 * percentile(durations, 50),
        p95_ms=1e3 * percentile(durations, 95),
        p99_ms=1e3 * percentile(durations, 99),
        samples=len(durations),
        rss_mib=max(answer["rss_mib"] for answer in answers),
        start_seconds=start_seconds,
    )


def percentile(ordered: Sequence[float], share: int) -> float:
    """The smallest value that ``share`` percent of ``ordered`` do not exceed (nearest rank)."""
    return ordered[max(math.ceil(share * len(ordered) / 100), 1) - 1]


def best(speeds: Sequence[Speed]) -> Speed:
    """The fastest in the largest batch with the widest beam; of nearly equal ones that with the fewest threads."""
    telling = max((speed.batch, speed.beam) for speed in speeds)
    rivals = [speed for speed in speeds if (speed.batch, speed.beam) == telling]
    fastest = max(speed.sentences_per_second for speed in rivals)
    near = [speed for speed in rivals if speed.sentences_per_second >= NEAR * fastest]
    return min(near, key=lambda speed: (speed.threads, -speed.sentences_per_second))


def record(folder: Path, chosen: Speed, machine: Machine) -> Path:
    """Write ``chosen`` into the model folder as its default on ``machine``.

    Raises:
        FolderError: the folder cannot be written.
    """
    path = ModelFolder(folder).bench
    best = stored.Best(
        threads=chosen.threads,
        precision=chosen.precision,
        batch=chosen.batch,
        beam=chosen.beam,
        sentences_per_second=round(chosen.sentences_per_second, 1),
        processor=machine.processor,
        processors=machine.processors,
        isa=machine.isa,
    )
    stored.write(path, best)
    return path


def precisions(folder: ModelFolder, machine: Machine, wanted: Iterable[str]) -> list[Precision]:
    """What to measure: ``wanted``, or all that the CPU engine offers for this model, or PyTorch where there is none.

    Raises:
        RequestError: one is unknown or not to be had.
        EngineError: nothing is to be had: neither engine nor PyTorch.
    """
    if machine.problem and not has_torch():
        raise EngineError(machine.problem)
    offered: list[Precision] = ["torch"]
    if not machine.problem:
        offered = [*(["int8"] if folder.engine.exists() else []), "float32"]  # type: ignore[list-item]
    reasons = {"int8": "run `dragoman quantize` first", "float32": machine.problem}
    chosen: list[Precision] = []
    for name in wanted:
        if name not in PRECISIONS:
            raise RequestError(f"precision {name} is unknown; there are {', '.join(PRECISIONS)}")
        if name not in (*offered, "torch"):
            raise RequestError(
                f"precision {name} is not to be had for {folder.root}: {machine.problem or reasons[name]}"
            )
        chosen.append(name)
    return list(dict.fromkeys(chosen)) or offered


def thread_counts(processors: int) -> list[int]:
    """One, half of the processors, all of them."""
    return sorted({1, max(processors // 2, 1), processors})


def sentences(folder: ModelFolder, tokenizer: Callable[[], Tokenizer], file: Path | None) -> tuple[list[str], str]:
    """Sentences to translate, and where they come from: a file, the training's validation pairs, or nowhere.

    Raises:
        DataError, FolderError: a file cannot be read.
        RequestError: the file has nothing but blank lines.
    """
    if file:
        lines = [line for line in islice(read_lines(file), MOST_LINES) if line.strip()]
        if not lines:
            raise RequestError(f"{file} has no sentences to translate")
        return lines, str(file)
    if folder.validation.is_file():
        lines = [src for src, _ in records.read(folder.validation)[:MOST_LINES] if src.strip()]
        if lines:
            return lines, "the training's validation sentences"
    return made_up(tokenizer()), "made up from the vocabulary; give --file for real ones"


def made_up(tokenizer: Tokenizer, count: int = 200) -> list[str]:
    """Lines of random pieces, as long as sentences are (median 12 pieces); always the same ones."""
    draws = random.Random(1)
    pieces = range(len(SPECIALS), len(tokenizer.vocab))
    lines: list[str] = []
    while len(lines) < count:
        length = min(max(round(draws.lognormvariate(2.5, 0.5)), 3), 40)
        text = " ".join(tokenizer.decode(draws.choices(pieces, k=length)).split())
        lines += [text] if text else []
    return lines
