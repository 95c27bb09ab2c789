"""What the benchmark of budgets reads and prints; the peer itself is not installed where the tests run."""

import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from scripts import load


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    return load("bench_budget")


def figures(side: str, minutes: float, bleu: float) -> dict[str, object]:
    scores = {"published_bleu": bleu, "sacrebleu_cased": bleu - 1}
    return {"side": side, "budget_minutes": minutes, "minutes": minutes + 0.04, "updates": 1200, **scores}


def test_the_table_has_a_line_a_budget_and_gaps(benchmark: ModuleType) -> None:
    found = [figures("marian", 10.0, 20.0), figures("dragoman", 2.0, 25.5), figures("marian", 2.0, 8.0)]
    lines = benchmark.table(found)
    assert lines[2] == "| 2 | 2.0 | 1,200 | 25.50 | 24.50 | 2.0 | 1,200 | 8.00 | 7.00 |"
    assert lines[3] == "| 10 |  |  |  |  | 10.0 | 1,200 | 20.00 | 19.00 |"
    assert len({line.count("|") for line in lines}) == 1
    assert benchmark.table(found[:1])[2] == "| 10 | 10.0 | 1,200 | 20.00 | 19.00 |"


def test_updates_are_those_of_the_last_line_that_has_them(benchmark: ModuleType, tmp_path: Path) -> None:
    journal = tmp_path / "journal.jsonl"
    events = [{"event": "update", "step": 50, "tokens": 9}, {"event": "update", "step": 100, "tokens": 20}]
    journal.write_text("".join(json.dumps(one) + "\n" for one in [*events, {"event": "validation", "step": 100}]))
    assert benchmark.last_update(journal) == {"updates": 100, "tokens": 20}


def test_what_is_finished_is_not_done_again(
    benchmark: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trained = []

    def train(options: object, minutes: str, out: Path) -> dict[str, object]:
        trained.append(minutes)
        (out / "hypotheses").write_text("eins\nzwei\n")
        return {"minutes": 2.0, "updates": 7}

    scores = {"published_bleu": 3.0, "sacrebleu_cased": 2.0}
    monkeypatch.setattr(benchmark, "train_dragoman", train)
    monkeypatch.setattr(benchmark, "run", lambda command, log: json.dumps(scores))
    monkeypatch.setattr(benchmark.os, "sched_setaffinity", lambda *_: None)
    asked = ["--out", str(tmp_path), "--budgets", "2,5", "--sides", "dragoman", "--threads", "1"]
    monkeypatch.setattr(sys, "argv", ["bench_budget.py", "data", "de", *asked])
    left = tmp_path / "dragoman-en-de-5m"
    left.mkdir()
    (left / "interrupted").touch()
    benchmark.main()
    first = capsys.readouterr().out
    assert not (left / "interrupted").exists()
    benchmark.main()
    assert trained == ["2", "5"]
    assert capsys.readouterr().out == first
    assert json.loads(first.splitlines()[0])["updates"] == 7


def test_a_command_that_fails_is_told_with_its_last_line(benchmark: ModuleType, tmp_path: Path) -> None:
    script = "import sys; sys.exit('no such option: --budget')"
    with pytest.raises(SystemExit, match="no such option: --budget"):
        benchmark.run([sys.executable, "-c", script], tmp_path / "log")
