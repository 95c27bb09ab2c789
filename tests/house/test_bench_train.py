"""The arithmetic of the benchmark of training; the rivals themselves are not installed where the tests run."""

import argparse
import json
import statistics
import sys
from itertools import islice
from types import ModuleType

import pytest

from scripts import load


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    return load("bench_train")


@pytest.fixture(scope="module")
def contenders() -> ModuleType:
    return load("train_contenders")


SECONDS = [
    {"dragoman": 1.0, "nn": 4.0, "hf": 3.0},
    {"dragoman": 2.0, "nn": 4.5, "hf": 5.0},
    {"dragoman": 1.0, "nn": 9.0, "hf": 4.0},
]
FACTS = [
    {"contender": name, "precision": "float32", "loss": 9.2, "rss_mib": 512.0, "version": "1", "steps_a_round": 2}
    for name in SECONDS[0]
]


def rounds(benchmark: ModuleType, gemm: float = 0.5) -> list[object]:
    return [benchmark.Round(100, 1e11, gemm, dict(seconds)) for seconds in SECONDS]


def test_batches_keep_the_budget_and_are_sorted(benchmark: ModuleType) -> None:
    setting = benchmark.SETTINGS["tiny25"]
    batches = benchmark.make_batches(setting)
    assert sum(map(len, batches)) == benchmark.POOL
    for batch in batches:
        longest = max(max(len(source), len(target)) + 1 for source, target in batch)
        assert longest * len(batch) <= setting.batch_tokens
    lengths = [len(source) for batch in batches for source, _ in batch]
    assert lengths == sorted(lengths)
    assert statistics.median(lengths) == pytest.approx(25, abs=1)
    assert all(4 <= one < setting.vocab_size for pair in batches[0] for side in pair for one in side)


def test_batches_are_always_the_same(benchmark: ModuleType) -> None:
    toy = benchmark.SETTINGS["toy"]
    assert benchmark.make_batches(toy) == benchmark.make_batches(toy)


def test_any_few_batches_have_short_and_long_ones(benchmark: ModuleType) -> None:
    numbers = [[place] for place in range(90)]
    for begin in range(20):
        some = [batch[0] for batch in islice(benchmark.spread(numbers), begin, begin + 5)]
        assert {one // 30 for one in some} == {0, 1, 2}


def test_flops_are_those_of_every_product(benchmark: ModuleType) -> None:
    setting = benchmark.Setting(d_model=4, d_ff=8, num_heads=2, num_layers=3, vocab_size=10, median=2)
    s, t, d, f = 3, 2, 4, 8
    encoder = s * 4 * d * d + 2 * s * d * f + 2 * s * s * d
    own = t * 4 * d * d + 2 * d * sum(range(1, t + 1))
    cross = t * 2 * d * d + s * 2 * d * d + 2 * s * t * d
    multiplications = 3 * (encoder + own + cross + 2 * t * d * f) + t * 10 * d
    assert benchmark.model_flops(setting, [([5, 5], [5])]) == 3 * 2 * multiplications


def test_real_tokens_are_fewer_than_padded_ones(benchmark: ModuleType) -> None:
    batch = [([5, 5], [5]), ([5], [5, 5, 5])]
    assert benchmark.real_tokens(batch) == 3 + 2 + 2 + 4
    assert benchmark.padded_tokens(batch) == 2 * (3 + 4)


def test_the_reference_is_the_peer_with_the_best_median(benchmark: ModuleType) -> None:
    assert benchmark.best_peer(rounds(benchmark)) == "hf"
    assert benchmark.ratios(rounds(benchmark), "dragoman", "hf") == [3.0, 2.5, 4.0]
    assert benchmark.best_peer([benchmark.Round(1, 1.0, 1.0, {"dragoman": 1.0})]) is None


def test_the_report_is_a_table_and_numbers(benchmark: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    numbers = benchmark.report("toy", rounds(benchmark), FACTS)
    best = numbers["found"][0]
    assert (best["contender"], best["ratio"], best["tokens_per_second"]) == ("dragoman", 3.0, 100.0)
    assert (best["tflops"], best["share_of_peak"], numbers["gemm"]["tflops"]) == (0.1, 0.2, 0.5)
    json.dumps(numbers)
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("| ") for line in lines) == 4
    assert lines[5].startswith("| dragoman | float32 | 100 (100) | 0.100 (0.100) | 20% | 3.00 [2.50..4.00] |")


def test_the_last_line(benchmark: ModuleType) -> None:
    assert benchmark.ratio_line({"tiny14": 3.456, "tiny25": None, "base25": 2.0}) == "RATIOS tiny14=3.46 base25=2.00"
    assert benchmark.headline({"dragoman": 2.0, "dragoman-torch": 3.0, "hf": 9.0}) == 2.0
    assert benchmark.headline({"dragoman-torch": 3.0, "hf": 9.0}) == 3.0
    assert benchmark.headline({"hf": 9.0}) is None


def test_only_contenders_with_openmp_threads_are_bound(benchmark: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OMP_PROC_BIND", *benchmark.MALLOC):
        monkeypatch.delenv(name, raising=False)
    bound = {name for name in ("dragoman", "dragoman-torch", "nn") if "OMP_PROC_BIND" in benchmark.environment(name, 0)}
    assert bound == {"dragoman-torch", "nn"}
    malloc = {name for name in ("dragoman", "nn") if set(benchmark.MALLOC) <= set(benchmark.environment(name, True))}
    assert malloc == {"nn"}


def test_who_cannot_start_is_left_out(benchmark: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    options = argparse.Namespace(
        contenders=["unknown", "hf"], peers_python="/no/such/python", threads=1, peer_malloc=False
    )
    toy = benchmark.SETTINGS["toy"]
    workers, gemm = benchmark.start(toy, benchmark.make_batches(toy)[0], options)
    for worker in [*workers, gemm]:
        worker.close()
    assert workers == []
    told = capsys.readouterr().out
    assert told.count("is left out") == 2
    assert "No such file" in told


def test_the_faster_precision_is_kept(contenders: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(contenders.time, "perf_counter", lambda: clock[0])
    tried: list[tuple[str, int]] = []

    class Slow:
        precisions = contenders.BOTH

        def __init__(self) -> None:
            self.costs = {"float32": 1.0, "bfloat16": 9.0}

        def step(self, pairs: list[object], precision: str) -> float:
            tried.append((precision, len(pairs)))
            clock[0] += self.costs[precision]
            return 0.0

    one = Slow()
    assert contenders.faster_precision(one, [([4], [4])] * 32, contenders.BOTH) == "float32"
    assert tried.count(("bfloat16", 2)) == 1
    assert {size for _, size in tried} == {2}
    one.costs = {"float32": 1.0, "bfloat16": 0.8}
    assert contenders.faster_precision(one, [([4], [4])] * 32, contenders.BOTH) == "bfloat16"
    assert {size for _, size in tried} == {2, 8}
    assert contenders.faster_precision(one, [([4], [4])] * 32, ["float32"]) == "float32"


@pytest.mark.parametrize("name", ["dragoman", "dragoman-torch", "nn"])
def test_a_contender_learns_its_batch(benchmark: ModuleType, contenders: ModuleType, name: str) -> None:
    torch = pytest.importorskip("torch")
    sizes = benchmark.SETTINGS["toy"].sizes
    threads = torch.get_num_threads()
    try:
        contender = contenders.CONTENDERS[name](sizes, 1)
        losses = [contender.step([([5, 6, 7], [8, 9]), ([5], [6])], "float32") for _ in range(30)]
    finally:
        torch.set_num_threads(threads)
    assert losses[-1] < losses[0] - 0.1


@pytest.mark.slow
def test_the_whole_of_it(
    benchmark: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = [
        "--settings",
        "toy",
        "--contenders",
        "dragoman,nn",
        "--rounds",
        "3",
        "--seconds",
        "0.01",
        "--threads",
        "1",
    ]
    monkeypatch.setattr(sys, "argv", ["bench_train.py", *wanted])
    monkeypatch.setattr(benchmark.os, "sched_setaffinity", lambda *_: None)
    benchmark.main()
    lines = capsys.readouterr().out.splitlines()
    found = json.loads(lines[-2])["settings"]["toy"]["found"]
    assert {one["contender"] for one in found} == {"dragoman", "nn"}
    assert all(one["loss"] < 7 for one in found)
    assert lines[-1].startswith("RATIOS toy=")
