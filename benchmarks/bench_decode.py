"""The same weights in dragoman, CTranslate2 and Hugging Face: who translates faster, and do they say the same?

    python benchmarks/bench_decode.py --quick                             # base size, under ten minutes
    python benchmarks/bench_decode.py                                     # base and small, every contender
    python benchmarks/bench_decode.py --model MODEL --text sentences.en   # your own model, real ends of sentences

Random models (post-norm, relu, tied, 8,000 pieces) get sources of 25 tokens and must write exactly 30; your own model
gets the sentences of the text and ends where it wants. Same beam, same length normalisation (mean log-probability).
A regime bNkM is N sentences at once with beam M; `text` is the whole text with beam 4 through whole processes: start,
tokenizer, search, output.

Every contender lives in its own process. They are visited one at a time, in turn, in rounds, since a machine's speed
drifts: only ratios within a round mean anything. The reference of a regime is the best of all settings of CTranslate2
(compute type, inter x intra threads, batch), found in that very regime. What is clearly slower than the best of its
family in the first round is dropped from the others.

Prints tables, a JSON line for each contender and regime, and with --quick a last line of ratios. The ids that came out
are compared too: with `identical` (share of equal sequences) and `equal_tokens`, against CTranslate2 in float32.
`--isa` limits dragoman's instruction set, `--ct2-isa` that of CTranslate2. Needs ctranslate2, transformers,
safetensors beside dragoman.
"""

import argparse
import gzip
import json
import os
import platform
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SOURCE, TARGET, EOS = 25, 30, 2
REGIMES = ("b1k1", "b1k4", "b32k4", "b128k4", "b128k1")
REFERENCE = "ct2-float32"
CT2_LIMITS = ("CT2_FORCE_CPU_ISA", "ONEDNN_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS")
"""Its own kernels, and the two libraries that may multiply matrices for it and look at the processor themselves."""

HOPELESS = 1.4
"""Times the best of its family: a setting slower than that in the first round is not visited again."""

Ids = list[list[int]]
Round = Mapping[str, float]
"""Seconds of each setting."""


@dataclass(frozen=True)
class Task:
    """What is to be translated."""

    name: str
    beam: int
    sources: Ids
    length: int | None

    def request(self, batch: int, repetitions: int) -> dict[str, Any]:
        """As a line for a contender."""
        asked = {"sources": self.sources, "length": self.length, "beam": self.beam}
        return {**asked, "batch": batch, "repetitions": repetitions}


@dataclass
class Setting:
    """A contender with a size of batch."""

    name: str
    family: str
    kind: str
    batch: int
    process: "Process"
    repetitions: int = 1
    rss_mib: float = 0.0
    found: Ids = field(default_factory=list)


class Process:
    """A contender at work."""

    def __init__(self, name: str, options: argparse.Namespace, folder: Path, converted: Path) -> None:
        command = [sys.executable, HERE / "decode_contenders.py", name, "--folder", folder, "--ctranslate2", converted]
        self.name = name
        self._process = subprocess.Popen(
            [*map(str, command), "--threads", str(options.threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment(name, options),
        )
        self.kind: str = self._answer()["kind"]

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Translate."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def close(self) -> None:
        """Let it end."""
        self._process.communicate()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("ANSWER "):
                answer: dict[str, Any] = json.loads(line.removeprefix("ANSWER "))
                return answer
        raise SystemExit(f"{self.name} died")


def environment(name: str, options: argparse.Namespace) -> dict[str, str]:
    """Unbound OpenMP threads of torch may share one core for a while; CTranslate2's workers would be stacked by it."""
    added = {}
    if name.startswith("hf") or name == "dragoman-torch":
        added = {"OMP_PROC_BIND": "close", "OMP_PLACES": "threads"}
    if name.startswith("dragoman") and options.isa:
        added["DRAGOMAN_ISA"] = options.isa
    if name.startswith("ct2") and options.ct2_isa:
        added |= dict.fromkeys(CT2_LIMITS, options.ct2_isa)
    return {**os.environ, **added}


def splits(threads: int) -> list[str]:
    """Ways to use ``threads`` in CTranslate2: translations at once x threads of each."""
    return ["1x1"] if threads == 1 else [f"1x{threads}", f"{threads}x1"]


def batches(name: str, sentences: int) -> list[int]:
    """Sizes of batches to try: CTranslate2 is given large inputs whole, and in handy pieces."""
    return [0, 32] if name.startswith("ct2") and sentences > 64 else [0]


def random_sources(count: int, seed: int = 0, pieces: int = 8000) -> Ids:
    """``count`` sources of 25 tokens, the end of sentence included."""
    draws = random.Random(seed)
    return [[draws.randrange(3, pieces) for _ in range(SOURCE - 1)] + [EOS] for _ in range(count)]


def parse_regime(name: str) -> tuple[int, int]:
    """Sentences and beam of ``bNkM``."""
    sentences, beam = name.removeprefix("b").split("k")
    return int(sentences), int(beam)


def best(rounds: Sequence[Round], names: Iterable[str]) -> str:
    """The one of ``names`` with the lowest median."""
    return min(names, key=lambda name: statistics.median(one[name] for one in rounds))


def ratios(rounds: Sequence[Round], name: str, reference: str) -> list[float]:
    """How many times as fast as ``reference``, round by round."""
    return [one[reference] / one[name] for one in rounds]


def agreement(one: Sequence[Sequence[Any]], other: Sequence[Sequence[Any]]) -> tuple[float, float]:
    """Share of equal sequences, and of places with equal tokens (of the longer one's)."""
    pairs = list(zip(one, other, strict=True))
    places = sum(max(len(a), len(b)) for a, b in pairs)
    equal = sum(x == y for a, b in pairs for x, y in zip(a, b, strict=False))
    return sum(list(a) == list(b) for a, b in pairs) / max(len(pairs), 1), equal / max(places, 1)


def promising(first: Round, families: Mapping[str, str]) -> list[str]:
    """What is not clearly slower than the best of its family."""
    fastest: dict[str, float] = {}
    for name, seconds in first.items():
        fastest[families[name]] = min(seconds, fastest.get(families[name], seconds))
    return [name for name, seconds in first.items() if seconds <= HOPELESS * fastest[families[name]]]


def ratio_line(found: Mapping[str, float]) -> str:
    """The last line of a quick run."""
    return "RATIOS " + " ".join(f"{name}={found[name]:.2f}" for name in REGIMES if name in found)


def family(name: str, quick: bool) -> str:
    """CTranslate2's settings of one compute type compete (quick: all of them); everybody else is alone."""
    if not name.startswith("ct2"):
        return name
    return "ct2" if quick else "-".join(name.split("-")[:2])


def headline(medians: Mapping[str, float]) -> float:
    """The ratio of dragoman's int8, or of its best where there is none."""
    ours = {name: ratio for name, ratio in medians.items() if name.startswith("dragoman")}
    return ours.get("dragoman-int8", max(ours.values(), default=0.0))


def measure(task: Task, settings: list[Setting], options: argparse.Namespace) -> list[Round]:
    """Seconds of every promising setting, a round a line; fills in what the settings found."""
    first: dict[str, float] = {}
    for one in settings:
        one.found = one.process.ask(task.request(one.batch, 1))["found"]
        answer = one.process.ask(task.request(one.batch, 1))
        first[one.name] = answer["seconds"]
        one.repetitions = max(1, int(options.seconds / answer["seconds"]))
        one.rss_mib = answer["rss_mib"]
    kept = promising(first, {one.name: one.family for one in settings})
    settings[:] = [one for one in settings if one.name in kept]
    rounds: list[Round] = []
    ends = time.monotonic() + options.budget
    while len(rounds) < options.rounds and (len(rounds) < 3 or time.monotonic() < ends):
        rounds.append({one.name: visit(task, one) for one in settings})
    return rounds


def visit(task: Task, setting: Setting) -> float:
    """Seconds of one translation of the whole task."""
    time.sleep(0.25)  # until the threads of the last one stop spinning
    seconds: float = setting.process.ask(task.request(setting.batch, setting.repetitions))["seconds"]
    return seconds


def report(
    model: str, regime: str, rounds: Sequence[Round], facts: Mapping[str, Mapping[str, Any]], tokens: int
) -> dict[str, float]:
    """Print the table and the JSON lines of a regime.

    Args:
        facts: of each setting, what else its line tells.
        tokens: target tokens of the task.

    Returns:
        Of each setting the median ratio to the best of CTranslate2.
    """
    reference = best(rounds, [name for name in rounds[0] if name.startswith("ct2")] or rounds[0])
    say(f"\n{model} {regime}: {len(rounds)} rounds, reference {reference}\n")
    say("| contender | median ms | best ms | tokens/s | times as fast, median [min..max] | identical | equal tokens |")
    say("|---|---|---|---|---|---|---|")
    lines, medians = [], {}
    for name in sorted(rounds[0], key=lambda name: statistics.median(one[name] for one in rounds)):
        seconds = [one[name] for one in rounds]
        against = ratios(rounds, name, reference)
        middle, medians[name] = statistics.median(seconds), statistics.median(against)
        same, equal = facts[name]["identical"], facts[name]["equal_tokens"]
        say(
            f"| {name} | {middle * 1e3:.1f} | {min(seconds) * 1e3:.1f} | {tokens / middle:,.0f} |"
            f" {medians[name]:.2f} [{min(against):.2f}..{max(against):.2f}] | {same:.3f} | {equal:.3f} |"
        )
        numbers = {"median_ms": middle * 1e3, "best_ms": min(seconds) * 1e3, "tokens_per_second": tokens / middle}
        spread = {"ratio": medians[name], "ratio_min": min(against), "ratio_max": max(against)}
        rounded = {key: round(value, 3) for key, value in {**numbers, **spread}.items()}
        first = {"model": model, "regime": regime, "contender": name, "reference": reference}
        lines.append({**first, **rounded, "rounds": len(rounds), **facts[name]})
    say("")
    for line in lines:
        say(json.dumps(line))
    return medians


def start(options: argparse.Namespace, made: "Models") -> list[Process]:
    """The processes of one model; of compute types that turn out to be the same one is kept."""
    wanted = {"dragoman-torch": ("dragoman-torch", made.folder)}
    if made.int8:
        wanted |= {
            "dragoman-int8": ("dragoman-native", made.int8),
            "dragoman-float32": ("dragoman-native", made.folder),
        }
    if made.int8 and options.quick:
        wanted = {"dragoman-int8": wanted["dragoman-int8"]}
    processes = []
    for called, (name, folder) in wanted.items():
        processes.append(Process(name, options, folder, made.converted))
        processes[-1].name = called
    known: set[tuple[str, str]] = set()
    for compute in compute_types(options):
        for split in splits(options.threads):
            process = Process(f"ct2-{compute}-{split}", options, made.folder, made.converted)
            if (process.kind, split) in known:
                process.close()
                continue
            known.add((process.kind, split))
            processes.append(process)
    if made.is_marian and not options.quick:
        processes.append(Process("hf-float32", options, made.folder, made.converted))
    return processes


def compute_types(options: argparse.Namespace) -> list[str]:
    """All that CTranslate2 offers on this processor, the plainest name first."""
    script = "import ctranslate2; print(*ctranslate2.get_supported_compute_types('cpu'))"
    asked = subprocess.run(
        [sys.executable, "-c", script], env=environment("ct2", options), capture_output=True, text=True, check=True
    )
    return sorted(asked.stdout.split(), key=lambda name: (len(name), name))


@dataclass(frozen=True)
class Models:
    """One model in all its forms."""

    name: str
    folder: Path
    int8: Path | None
    "None where dragoman's own engine was not built."
    converted: Path
    is_marian: bool


def make_models(name: str, source: Path | None, work: Path) -> Models:
    """Write, quantize and convert.

    Args:
        source: a trained folder, whose own int8 weights are kept if it has any; None: a random one of size ``name``.
    """
    from decode_models import Folder, is_marian, write_ctranslate2, write_int8, write_random

    folder, int8 = work / name, work / f"{name}-int8"
    own = ("training", "bench.json")
    if source:
        shutil.copytree(source, folder, ignore=shutil.ignore_patterns(*own, "engine.safetensors", "certificate.json"))
        shutil.copytree(source, int8, ignore=shutil.ignore_patterns(*own))
    else:
        write_random(folder, name)
        shutil.copytree(folder, int8)
    read = Folder(folder)
    converted = write_ctranslate2(read, work / f"{name}-ct2")
    native = has_native()
    if native and not (int8 / "engine.safetensors").exists():
        write_int8(int8)
    return Models(name, folder, int8 if native else None, converted, is_marian(read.config))


def has_native() -> bool:
    """Whether dragoman's own engine was built."""
    script = "from dragoman.engine.library import open_library; open_library()"
    return subprocess.run([sys.executable, "-c", script], stderr=subprocess.DEVNULL).returncode == 0


def compare(settings: Sequence[Setting], reference: Ids) -> dict[str, dict[str, Any]]:
    """Facts of each setting, with what it says against ``reference``."""
    facts = {}
    for one in settings:
        same, equal = agreement(one.found, reference)
        told = {"computes": one.kind, "rss_mib": round(one.rss_mib), "batch": one.batch}
        facts[one.name] = {**told, "identical": round(same, 4), "equal_tokens": round(equal, 4)}
    return facts


def bench(made: Models, sources: Ids | None, options: argparse.Namespace) -> dict[str, float]:
    """All regimes of one model; the ratio of the best dragoman in each."""
    processes = start(options, made)
    found = {}
    for regime in options.regimes:
        count, beam = parse_regime(regime)
        some = random_sources(count) if sources is None else [sources[i % len(sources)] for i in range(count)]
        task = Task(regime, beam, some, TARGET if sources is None else None)
        settings = [
            Setting(
                process.name + (f"/{batch}" if batch else ""),
                family(process.name, options.quick),
                process.kind,
                batch,
                process,
            )
            for process in processes
            for batch in batches(process.name, count)
        ]
        everybody = list(settings)
        rounds = measure(task, settings, options)
        reference = next(one.found for one in everybody if one.name.startswith(REFERENCE))
        tokens = sum(map(len, reference))
        medians = report(made.name, regime, rounds, compare(settings, reference), tokens)
        found[regime] = headline(medians)
    for process in processes:
        process.close()
    return found


def text_commands(made: Models, text: Path, options: argparse.Namespace) -> dict[str, list[str]]:
    """How each contender translates a file."""
    ours = [sys.executable, "-m", "dragoman", "translate", "--file", str(text), "--beam", "4"]
    commands = {}
    if made.int8:
        commands["dragoman-int8"] = [*ours, "--model", str(made.int8), "--backend", "native"]
        commands["dragoman-float32"] = [*ours, "--model", str(made.folder), "--backend", "native"]
    else:
        commands["dragoman-torch"] = [*ours, "--model", str(made.folder)]
    names = sorted(path.name for path in made.folder.glob("tokenizer*.json"))
    src, tgt = str(made.folder / names[0]), str(made.folder / names[-1])
    theirs = [sys.executable, str(HERE / "ct2_translate.py"), str(made.converted), src, tgt, str(text)]
    for compute in ("float32", *(name for name in compute_types(options) if name in ("int8", "int16", "bfloat16"))):
        for split in splits(options.threads):
            for batch in (16, 32, 64) if compute != "float32" else (32,):
                name = f"ct2-{compute}-{split}/{batch}"
                commands[name] = [*theirs, "--compute", compute, "--split", split, "--batch", str(batch)]
    return commands


def bench_text(made: Models, text: Path, options: argparse.Namespace) -> float:
    """Whole processes over the whole text."""
    commands = text_commands(made, text, options)
    outputs: dict[str, list[str]] = {}
    first = {name: run(name, command, options, outputs) for name, command in commands.items()}
    kept = promising(first, {name: family(name, options.quick) for name in commands})
    rounds: list[Round] = []
    ends = time.monotonic() + options.budget
    while len(rounds) < options.rounds and (len(rounds) < 3 or time.monotonic() < ends):
        rounds.append({name: run(name, commands[name], options, outputs) for name in kept})
    reference = next(lines for name, lines in outputs.items() if name.startswith(REFERENCE))
    facts = {}
    for name in kept:
        same, equal = agreement([line.split() for line in outputs[name]], [line.split() for line in reference])
        facts[name] = {"identical": round(same, 4), "equal_tokens": round(equal, 4), **bleu(outputs[name], options)}
    medians = report(made.name, "text", rounds, facts, sum(len(line.split()) for line in reference))
    return headline(medians)


def run(name: str, command: list[str], options: argparse.Namespace, outputs: dict[str, list[str]]) -> float:
    """Seconds of a whole process; its lines go into ``outputs``."""
    started = time.monotonic()
    done = subprocess.run(command, env=environment(name, options), capture_output=True, text=True)
    seconds = time.monotonic() - started
    if done.returncode:
        raise SystemExit(f"{name}: {done.stderr}")
    outputs[name] = done.stdout.splitlines()
    return seconds


def bleu(lines: Sequence[str], options: argparse.Namespace) -> dict[str, float]:
    """sacreBLEU of ``lines``, if references were given."""
    if not options.reference:
        return {}
    from sacrebleu.metrics.bleu import BLEU

    references = read_lines(options.reference)[: len(lines)]
    return {"bleu": round(BLEU().corpus_score(list(lines), [references]).score, 2)}


def read_lines(path: Path) -> list[str]:
    """Lines of a text file, gzipped or not."""
    data = path.read_bytes()
    return (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8").splitlines()


def machine(options: argparse.Namespace) -> dict[str, Any]:
    """What the numbers belong to."""
    from decode_models import versions

    known = Path("/proc/cpuinfo")
    text = known.read_text(encoding="utf-8") if known.exists() else ""
    names = [line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("model name")]
    limits = {"isa": options.isa or "best", "ct2_isa": options.ct2_isa or "best", "threads": options.threads}
    return {"processor": names[0] if names else platform.machine(), **limits, **versions()}


def say(text: str) -> None:
    """A line on standard output."""
    print(text, flush=True)  # noqa: T201


def parse() -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--architectures", default="base,small", help="random models to make, separated by commas")
    parser.add_argument("--model", type=Path, help="a trained model folder, instead of random ones")
    parser.add_argument("--text", type=Path, help="source sentences for --model, one a line")
    parser.add_argument("--reference", type=Path, help="their translations, for BLEU")
    parser.add_argument("--lines", type=int, default=1000, help="of the text that are used")
    parser.add_argument("--regimes", default=",".join(REGIMES), help="of them and `text`; separated by commas")
    parser.add_argument("--threads", type=int, default=min(2, len(os.sched_getaffinity(0))))
    parser.add_argument("--isa", help="DRAGOMAN_ISA, such as avx2")
    parser.add_argument("--ct2-isa", help="the same of CTranslate2 and the libraries under it, such as AVX2")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1.0, help="of one visit")
    parser.add_argument("--budget", type=float, default=600.0, help="seconds of a regime before it gets no more rounds")
    parser.add_argument("--quick", action="store_true", help="base size only, no rivals beyond CTranslate2")
    options = parser.parse_args()
    options.regimes = [name for name in options.regimes.split(",") if name]
    if options.quick:
        options.architectures = "base" if options.architectures == "base,small" else options.architectures
        options.budget, options.seconds = min(options.budget, 60.0), min(options.seconds, 0.5)
    if options.model and not options.text:
        parser.error("--model needs --text")
    return options


def main() -> None:
    """Run it."""
    options = parse()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.threads])
    say(json.dumps(machine(options)))
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        if options.model:
            found = bench_trained(work, options)
        else:
            for architecture in options.architectures.split(","):
                found |= bench(make_models(architecture, None, work), None, options)
    say(ratio_line(found))


def bench_trained(work: Path, options: argparse.Namespace) -> dict[str, float]:
    """The regimes of the user's model, and the text as a whole."""
    from decode_models import Folder

    made = make_models("trained", options.model, work)
    lines = read_lines(options.text)[: options.lines]
    text = work / "text"
    text.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    sources = [[*ids, EOS] for ids in Folder(made.folder).src.encode_batch(lines)]
    wanted = options.regimes
    options.regimes = [name for name in wanted if name != "text"]
    found = bench(made, sources, options)
    if "text" in wanted or wanted == list(REGIMES):
        say(f"TEXT ratio={bench_text(made, text, options):.2f}")
    return found


if __name__ == "__main__":
    main()
