"""The arithmetic of the benchmark of decoding; the rivals themselves are not installed where the tests run."""

from types import ModuleType

import pytest

from scripts import load


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    return load("bench_decode")


ROUNDS = [
    {"dragoman-int8": 1.0, "ct2-int8-1x2": 4.0, "ct2-int8-2x1": 3.0},
    {"dragoman-int8": 2.0, "ct2-int8-1x2": 4.5, "ct2-int8-2x1": 5.0},
    {"dragoman-int8": 1.0, "ct2-int8-1x2": 9.0, "ct2-int8-2x1": 4.0},
]


def test_ratios_are_taken_round_by_round_against_the_best_setting(benchmark: ModuleType) -> None:
    assert benchmark.best(ROUNDS, ["ct2-int8-1x2", "ct2-int8-2x1"]) == "ct2-int8-2x1"
    assert benchmark.ratios(ROUNDS, "dragoman-int8", "ct2-int8-2x1") == [3.0, 2.5, 4.0]


def test_only_the_hopeless_of_a_family_are_dropped(benchmark: ModuleType) -> None:
    first = {"a-1x2": 1.0, "a-2x1": 1.3, "a-1x1": 1.5, "b": 9.0}
    families = {name: name.split("-")[0] for name in first}
    assert benchmark.promising(first, families) == ["a-1x2", "a-2x1", "b"]
    assert benchmark.family("ct2-int8-1x2/32", False) == "ct2-int8"
    assert benchmark.family("ct2-int8-1x2/32", True) == benchmark.family("ct2-float32-1x2", True) == "ct2"
    assert benchmark.family("hf-float32", True) == "hf-float32"


def test_agreement_counts_sequences_and_places(benchmark: ModuleType) -> None:
    assert benchmark.agreement([[1, 2], [3]], [[1, 2], [3]]) == (1.0, 1.0)
    assert benchmark.agreement([[1, 2], [3, 4]], [[1, 2], [3, 5, 6]]) == (0.5, 0.6)
    assert benchmark.agreement([], []) == (0.0, 0.0)


def test_the_last_line_of_a_quick_run(benchmark: ModuleType) -> None:
    found = dict.fromkeys(reversed(benchmark.REGIMES), 2.0)
    assert benchmark.ratio_line(found) == "RATIOS b1k1=2.00 b1k4=2.00 b32k4=2.00 b128k4=2.00 b128k1=2.00"
    assert benchmark.headline({"dragoman-int8": 2.0, "dragoman-torch": 3.0, "hf-float32": 9.0}) == 2.0
    assert benchmark.headline({"dragoman-torch": 3.0, "hf-float32": 9.0}) == 3.0


def test_sources_are_of_one_length_and_always_the_same(benchmark: ModuleType) -> None:
    sources = benchmark.random_sources(3)
    assert sources == benchmark.random_sources(3)
    assert all(len(source) == 25 and source[-1] == 2 and min(source[:-1]) >= 3 for source in sources)


def test_names_of_regimes_and_splits(benchmark: ModuleType) -> None:
    assert benchmark.parse_regime("b128k4") == (128, 4)
    assert (benchmark.splits(1), benchmark.splits(2)) == (["1x1"], ["1x2", "2x1"])
    assert benchmark.batches("ct2-int8-1x2", 128) == [0, 32]
    assert benchmark.batches("dragoman-int8", 128) == benchmark.batches("ct2-int8-1x2", 32) == [0]


def test_the_report_is_a_table_and_a_line_of_json_each(
    benchmark: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    facts = {name: {"identical": 1.0, "equal_tokens": 1.0} for name in ROUNDS[0]}
    medians = benchmark.report("toy", "b1k4", ROUNDS, facts, 30)
    assert medians["dragoman-int8"] == 3.0
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("| ") for line in lines) == 4
    assert sum(line.startswith('{"model": "toy", "regime": "b1k4"') for line in lines) == 3
