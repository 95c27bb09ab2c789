"""What the benchmark of the start takes from a process."""

import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from folders import write_model
from scripts import load


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    return load("bench_start")


def test_the_clock_stops_at_the_first_line(benchmark: ModuleType) -> None:
    script = "import time; print('here', flush=True); time.sleep(3)"
    seconds, mib = benchmark.sample([sys.executable, "-c", script])
    assert 0 < seconds < 3
    assert 1 < mib < 1000
    with pytest.raises(subprocess.CalledProcessError):
        benchmark.sample([sys.executable, "-c", "raise SystemExit(2)"])


def test_median_fastest_and_the_largest_peak(benchmark: ModuleType) -> None:
    assert benchmark.summary([(0.3, 50.0), (0.2, 60.0), (0.9, 55.0)]) == {
        "median_seconds": 0.3,
        "fastest_seconds": 0.2,
        "peak_mib": 60.0,
        "processes": 3,
    }


def test_all_of_it(
    benchmark: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = write_model(tmp_path / "model")
    monkeypatch.setattr(sys, "argv", ["bench_start.py", str(root), "--rounds", "1"])
    benchmark.main()
    *found, goals = map(json.loads, capsys.readouterr().out.splitlines())
    assert [(one["start"], one["processes"]) for one in found] == [("translate", 1), ("load", 1), ("help", 1)]
    assert goals["goals"]["seconds"] == 0.4
