"""The same sizes, the same batches in dragoman and its peers: who trains faster, and how much of the machine is used?

    python benchmarks/bench_train.py --quick                                     # under fifteen minutes on two cores
    python benchmarks/bench_train.py --peers-python peers/bin/python             # where transformers is installed apart
    python benchmarks/bench_train.py --settings base25 --contenders dragoman,hf:float32,hf:bfloat16 --rounds 20

| setting | width | inner | layers | heads | vocabulary | median source |
|---|---|---|---|---|---|---|
| tiny14, tiny25 | 256 | 1024 | 4+4 | 4 | 10,000 | 14, 25 |
| base25 | 512 | 2048 | 6+6 | 8 | 8,000 | 25 |
| toy (to try the benchmark itself) | 32 | 64 | 2+2 | 2 | 100 | 8 |

Lengths are lognormal (sigma 0.6), a target is its source's length times another lognormal (sigma 0.2). Pairs are sorted
by length and cut into batches of pairs x longest side <= 4096. A step is forward, backward and update; tokens/s counts
real source and target tokens, the ends of sentences included. Dropout 0.1, label smoothing 0.1, Adam.

Contenders: see train_contenders.py. Where a contender can compute in float32 and in bfloat16 (autocast), a short trial
chooses; `hf:float32` asks for one. Every contender lives in its own process. They are visited one at a time, in turn,
in rounds, all with the same batches, since a machine's speed drifts: only ratios within a round mean anything. The
reference is the best peer of the run, the one with the highest median of tokens/s.

Model FLOPs of a step are counted over real tokens, the causal half of the decoder's self-attention as half, backward as
twice the forward:

    3 * sum over pairs of [2 s (N (4 d^2 + 2 d f) + N 2 d^2) + 2 t (N (6 d^2 + 2 d f) + V d)
                           + 4 d N (s^2 + s t + t (t + 1) / 2)]

They are set beside the speed of torch's matrix product at 1024 x 1024 x 1024 with as many threads, the better of
float32 and bfloat16, measured in every round; the best of the run is the peak.

Prints a table a setting, then a JSON line with all numbers and a last line of ratios: medians over the rounds of
dragoman's speed to the best peer's. Who fails is told in a line and left out. `--peer-malloc` gives the peers the
setting of the C library that dragoman makes for itself: freed memory is kept, which their users would have to know of.
"""

import argparse
import json
import math
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
POOL, LONGEST, FIRST_ID = 20_000, 120, 4
GOLDEN = (5**0.5 - 1) / 2
LEAST_ROUNDS = 3
MOST_BASE_SIZE = 4
"""Contenders of base size alive at once: each takes up to 6 GB."""

UNBOUND = ("dragoman",)
"""Contenders whose threads are their own: bound to the first one's core, they would all be stacked there."""

MALLOC = {"MALLOC_MMAP_THRESHOLD_": "8589934592", "MALLOC_TRIM_THRESHOLD_": "17179869184"}

Pair = tuple[list[int], list[int]]
"""Source and target ids, without special ones."""


@dataclass(frozen=True)
class Setting:
    """Sizes and data."""

    d_model: int
    d_ff: int
    num_heads: int
    num_layers: int
    vocab_size: int
    median: int
    batch_tokens: int = 4096

    @property
    def sizes(self) -> dict[str, int]:
        """Of the model."""
        return {name: value for name, value in asdict(self).items() if name not in ("median", "batch_tokens")}


SETTINGS = {
    "tiny14": Setting(256, 1024, 4, 4, 10_000, 14),
    "tiny25": Setting(256, 1024, 4, 4, 10_000, 25),
    "base25": Setting(512, 2048, 8, 6, 8_000, 25),
    "toy": Setting(32, 64, 2, 2, 100, 8, 256),
}


@dataclass
class Round:
    """The same batches for everybody."""

    tokens: int
    flops: float
    gemm_tflops: float = math.nan
    seconds: dict[str, float] = field(default_factory=dict)


class FailedError(Exception):
    """A contender is no more; the text is the last that it said."""


class Worker:
    """A contender at work."""

    def __init__(self, name: str, setting: Setting, options: argparse.Namespace) -> None:
        python = sys.executable if is_ours(name) or name == "gemm" else options.peers_python
        command = [python, str(HERE / "train_contenders.py"), name, "--sizes", json.dumps(setting.sizes)]
        self.name = name
        self.facts: dict[str, Any] = {}
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115
        try:
            self._process = subprocess.Popen(
                [*command, "--threads", str(options.threads)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._complaints,
                text=True,
                env=environment(name, options.peer_malloc),
            )
        except OSError as error:
            self._complaints.close()
            raise FailedError(f"{python}: {error.strerror}") from None

    def ask(self, batches: Sequence[Sequence[Pair]]) -> dict[str, Any]:
        """Train on ``batches``.

        Raises:
            FailedError: it ended instead of answering.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps({"batches": batches}) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except OSError:
            line = ""
        if not line:
            code = self._process.wait()
            self._complaints.seek(0)
            said = self._complaints.read().decode("utf-8", "replace").strip().splitlines()
            raise FailedError(f"signal {-code}" if code < 0 else said[-1] if said else f"exit code {code}")
        answer: dict[str, Any] = json.loads(line)
        self.facts |= answer
        return answer

    def close(self) -> None:
        """Let it end, if it has not."""
        with suppress(BrokenPipeError), self._process:
            pass
        self._complaints.close()


def is_ours(name: str) -> bool:
    """Whether the contender is dragoman."""
    return name.startswith("dragoman")


def environment(name: str, peer_malloc: bool) -> dict[str, str]:
    """Unbound OpenMP threads of torch may share one core for a while."""
    added = {} if name in UNBOUND else {"OMP_PROC_BIND": "close", "OMP_PLACES": "threads"}
    if peer_malloc and not is_ours(name):
        added |= MALLOC
    return {**os.environ, **added}


def make_batches(setting: Setting, seed: int = 1) -> list[list[Pair]]:
    """Random pairs, sorted by length and cut where pairs x longest side (its EOS included) would exceed the budget."""
    draws = random.Random(seed)
    lengths = []
    for _ in range(POOL):
        source = min(LONGEST, max(2, round(setting.median * math.exp(draws.gauss(0, 0.6)))))
        lengths.append((source, min(LONGEST, max(2, round(source * math.exp(draws.gauss(0, 0.2)))))))
    batches: list[list[Pair]] = [[]]
    longest = 0
    for source, target in sorted(lengths):
        longest = max(longest, source + 1, target + 1)
        if batches[-1] and longest * (len(batches[-1]) + 1) > setting.batch_tokens:
            batches.append([])
            longest = max(source, target) + 1
        source_ids, target_ids = (
            [draws.randrange(FIRST_ID, setting.vocab_size) for _ in range(length)] for length in (source, target)
        )
        batches[-1].append((source_ids, target_ids))
    return batches


def spread(batches: Sequence[list[Pair]]) -> Iterator[list[Pair]]:
    """The batches without end, in an order in which any few that follow each other have short and long ones."""
    turn = 0
    while True:
        turn += 1
        yield batches[int(turn * GOLDEN % 1 * len(batches))]


def real_tokens(batch: Sequence[Pair]) -> int:
    """Source and target tokens, each side's EOS included."""
    return sum(len(source) + len(target) + 2 for source, target in batch)


def padded_tokens(batch: Sequence[Pair]) -> int:
    """Places of the two rectangles."""
    return len(batch) * (max(len(source) for source, _ in batch) + max(len(target) for _, target in batch) + 2)


def model_flops(setting: Setting, batch: Sequence[Pair]) -> float:
    """Of one update, as the head of this file says."""
    d, f, n, v = setting.d_model, setting.d_ff, setting.num_layers, setting.vocab_size
    total = 0.0
    for source, target in batch:
        s, t = len(source) + 1, len(target) + 1
        total += 2 * s * n * (4 * d * d + 2 * d * f + 2 * d * d) + 2 * t * (n * (6 * d * d + 2 * d * f) + v * d)
        total += 4 * d * n * (s * s + s * t + t * (t + 1) / 2)
    return 3 * total


def speeds(rounds: Sequence[Round], name: str) -> list[float]:
    """Tokens a second, round by round."""
    return [one.tokens / one.seconds[name] for one in rounds]


def best_peer(rounds: Sequence[Round]) -> str | None:
    """The peer with the highest median; None where there is none."""
    peers = [name for name in rounds[0].seconds if not is_ours(name)]
    return max(peers, key=lambda name: statistics.median(speeds(rounds, name)), default=None)


def ratios(rounds: Sequence[Round], name: str, reference: str) -> list[float]:
    """How many times as fast as ``reference``, round by round."""
    return [one.seconds[reference] / one.seconds[name] for one in rounds]


def headline(medians: Mapping[str, float]) -> float | None:
    """The ratio of what is installed, or of the best of ours; None where there is none."""
    ours = {name: ratio for name, ratio in medians.items() if is_ours(name)}
    return ours.get("dragoman", max(ours.values(), default=None))


def ratio_line(found: Mapping[str, float | None]) -> str:
    """The last line."""
    return " ".join(["RATIOS", *(f"{name}={ratio:.2f}" for name, ratio in found.items() if ratio is not None)])


def start(setting: Setting, trial: list[Pair], options: argparse.Namespace) -> tuple[list[Worker], Worker | None]:
    """The contenders that started, each with its precision, and who measures the matrix product."""
    workers: list[Worker] = []
    for name in [*options.contenders, "gemm"]:
        try:
            workers.append(Worker(name, setting, options))
            workers[-1].ask([trial])
        except FailedError as failure:
            say(f"{name} is left out: {failure}")
            if workers and workers[-1].name == name:
                workers.pop().close()
    gemm = next((worker for worker in workers if worker.name == "gemm"), None)
    return [worker for worker in workers if worker.name != "gemm"], gemm


def measure(setting: Setting, batches: list[list[Pair]], options: argparse.Namespace) -> tuple[list[Round], list[Any]]:
    """All rounds, and what the contenders tell of themselves."""
    stream = spread(batches)
    workers, gemm = start(setting, next(stream), options)
    first = visit(workers, [next(stream)])
    again = visit(workers, [next(stream)])
    fastest = min([*again.values(), *first.values()], default=1.0)
    steps = max(1, math.ceil(options.seconds / fastest))
    rounds: list[Round] = []
    ends = time.monotonic() + options.budget
    while workers and len(rounds) < options.rounds and (len(rounds) < LEAST_ROUNDS or time.monotonic() < ends):
        some = [next(stream) for _ in range(steps)]
        one = Round(sum(map(real_tokens, some)), sum(model_flops(setting, batch) for batch in some))
        if gemm:
            with suppress(FailedError):
                one.gemm_tflops = gemm.ask([])["tflops"]
        turn = len(rounds) % len(workers)
        workers[:] = workers[turn:] + workers[:turn]
        one.seconds = visit(workers, some)
        rounds.append(one)
    for worker in [*workers, *([gemm] if gemm else [])]:
        worker.close()
    names = {worker.name for worker in workers}
    for one in rounds:
        one.seconds = {name: seconds for name, seconds in one.seconds.items() if name in names}
    facts = [{"contender": worker.name, **worker.facts, "steps_a_round": steps} for worker in workers]
    return rounds, [*facts, *([{"contender": "gemm", **gemm.facts}] if gemm else [])]


def visit(workers: list[Worker], batches: Sequence[Sequence[Pair]]) -> dict[str, float]:
    """Seconds of everybody, in turn; who fails is taken out of ``workers``."""
    seconds = {}
    for worker in list(workers):
        time.sleep(0.25)  # until the threads of the last one stop spinning
        try:
            seconds[worker.name] = worker.ask(batches)["seconds"]
        except FailedError as failure:
            say(f"{worker.name} is left out: {failure}")
            workers.remove(worker)
            worker.close()
    return seconds


def results(rounds: Sequence[Round], facts: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A contender a dictionary, the fastest first."""
    reference, peak = best_peer(rounds), max(one.gemm_tflops for one in rounds)
    found = []
    for told in facts:
        name = told["contender"]
        if name == "gemm":
            continue
        against = ratios(rounds, name, reference) if reference else [math.nan]
        tokens = speeds(rounds, name)
        tflops = [one.flops / one.seconds[name] / 1e12 for one in rounds]
        found.append(
            {
                "contender": name,
                "precision": told["precision"],
                "tokens_per_second": round(statistics.median(tokens), 1),
                "tokens_per_second_best": round(max(tokens), 1),
                "tflops": round(statistics.median(tflops), 4),
                "tflops_best": round(max(tflops), 4),
                "share_of_peak": round(statistics.median(tflops) / peak, 4),
                "ratio": round(statistics.median(against), 3),
                "ratio_min": round(min(against), 3),
                "ratio_max": round(max(against), 3),
                "loss": round(told["loss"], 4),
                "rss_mib": round(told["rss_mib"]),
                "version": told["version"],
            }
        )
    return sorted(found, key=lambda one: -one["tokens_per_second"])


def report(name: str, rounds: Sequence[Round], facts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Print the table of a setting.

    Returns:
        Its numbers.
    """
    found = results(rounds, facts)
    speed = [one.gemm_tflops for one in rounds]
    precision = next((told["precision"] for told in facts if told["contender"] == "gemm"), "?")
    steps = facts[0]["steps_a_round"]
    peak = {"precision": precision, "tflops": round(max(speed), 4), "tflops_median": round(statistics.median(speed), 4)}
    say(
        f"\n{name}: {len(rounds)} rounds of {steps} updates, best peer {best_peer(rounds)}; GEMM peak"
        f" {peak['tflops']:.3f} TFLOP/s ({precision}; median {peak['tflops_median']:.3f})\n"
    )
    say(
        "| contender | precision | tokens/s, median (best) | model TFLOP/s, median (best) | of GEMM peak |"
        " times the best peer, median [min..max] | loss | peak RSS MiB |"
    )
    say("|---|---|---|---|---|---|---|---|")
    for one in found:
        say(
            f"| {one['contender']} | {one['precision']} | {one['tokens_per_second']:,.0f}"
            f" ({one['tokens_per_second_best']:,.0f}) | {one['tflops']:.3f} ({one['tflops_best']:.3f})"
            f" | {one['share_of_peak']:.0%} | {one['ratio']:.2f} [{one['ratio_min']:.2f}..{one['ratio_max']:.2f}]"
            f" | {one['loss']:.3f} | {one['rss_mib']:,} |"
        )
    say("\n" + "; ".join(f"{one['contender']}: {one['version']}" for one in found))
    return {"rounds": len(rounds), "steps_a_round": steps, "best_peer": best_peer(rounds), "gemm": peak, "found": found}


def bench(name: str, options: argparse.Namespace) -> tuple[dict[str, Any], float | None]:
    """One setting: its numbers and the ratio of dragoman."""
    setting = SETTINGS[name]
    batches = make_batches(setting)
    padding = 1 - sum(map(real_tokens, batches)) / sum(map(padded_tokens, batches))
    rounds, facts = measure(setting, batches, options)
    if not rounds or not rounds[0].seconds:
        say(f"{name}: nobody is left")
        return {}, None
    numbers = report(name, rounds, facts)
    mean = statistics.mean(map(real_tokens, batches))
    say(f"\nReal tokens a batch {mean:,.0f}; padding of those that pad {padding:.1%}.")
    if numbers["best_peer"] is None:
        return numbers, None
    return numbers, headline({one["contender"]: one["ratio"] for one in numbers["found"]})


def machine(options: argparse.Namespace) -> dict[str, Any]:
    """What the numbers belong to."""
    known = Path("/proc/cpuinfo")
    text = known.read_text(encoding="utf-8") if known.exists() else ""
    lines = [line.partition(":") for line in text.splitlines()]
    names = [value.strip() for key, _, value in lines if key.startswith("model name")]
    flags = next((value.split() for key, _, value in lines if key.startswith("flags")), [])
    counted = [flag for flag in flags if flag.startswith(("avx", "amx"))]
    return {
        "processor": names[0] if names else platform.machine(),
        "instructions": " ".join(counted),
        "threads": options.threads,
        "peer_malloc": options.peer_malloc,
        "python": platform.python_version(),
    }


def say(text: str) -> None:
    """A line on standard output."""
    print(text, flush=True)  # noqa: T201


def parse() -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds, without JoeyNMT")
    parser.add_argument("--settings", default="tiny14,tiny25,base25", help=f"of {', '.join(SETTINGS)}")
    parser.add_argument("--contenders", help="separated by commas (dragoman,nn,hf,joey); see train_contenders.py")
    parser.add_argument(
        "--peers-python", default=sys.executable, help="interpreter that has transformers (and joeynmt)"
    )
    parser.add_argument("--peer-malloc", action="store_true", help="let the peers keep freed memory, as dragoman does")
    parser.add_argument("--threads", type=int, default=min(2, len(os.sched_getaffinity(0))))
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=2.0, help="of one visit to the fastest, at least")
    parser.add_argument(
        "--budget", type=float, default=900.0, help="seconds of a setting before it gets no more rounds"
    )
    options = parser.parse_args()
    if options.quick:
        options.budget, options.seconds = min(options.budget, 110.0), min(options.seconds, 1.0)
    options.contenders = (options.contenders or ("dragoman,nn,hf" if options.quick else "dragoman,nn,hf,joey")).split(
        ","
    )
    options.settings = options.settings.split(",")
    if unknown := set(options.settings) - set(SETTINGS):
        parser.error(f"unknown settings {', '.join(sorted(unknown))}; known are {', '.join(SETTINGS)}")
    if "base25" in options.settings and len(options.contenders) > MOST_BASE_SIZE:
        parser.error(f"base25 takes at most {MOST_BASE_SIZE} contenders at once, for their memory; run it in two parts")
    return options


def main() -> None:
    """Run it."""
    options = parse()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.threads])
    about = machine(options)
    say(json.dumps(about))
    numbers, found = {}, {}
    for name in options.settings:
        numbers[name], found[name] = bench(name, options)
    say("")
    say(json.dumps({"machine": about, "settings": numbers}))
    say(ratio_line(found))


if __name__ == "__main__":
    main()
