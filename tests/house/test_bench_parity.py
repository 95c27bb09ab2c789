"""The comparison of precisions, with a model that takes no time."""

import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from command import write_lines
from engines import needs_engine, quantized
from folders import write_model
from scripts import load

LINES = ["one", "two three", "", "Straße 12", "the cat"]


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    return load("bench_parity")


@needs_engine
def test_a_line_for_each_comparison(
    benchmark: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = write_model(tmp_path / "model")
    quantized(root)
    files = [str(write_lines(tmp_path / side, LINES)) for side in ("source", "references")]
    monkeypatch.setattr(sys, "argv", ["bench_parity.py", str(root), *files, "--limit", "4"])
    benchmark.main()
    exact, quick = map(json.loads, capsys.readouterr().out.splitlines())
    assert (exact["lines"], exact["equal_tokens"], exact["equal_lines"]) == (4, 1.0, 1.0)
    assert 0 < exact["largest_difference_of_a_search_score"] < 1e-4
    assert exact["is_reached"]
    assert quick["lines"] == 4
    assert quick["difference"] == pytest.approx(quick["bleu_int8"] - quick["bleu_float32"], abs=2e-3)


@needs_engine
def test_another_models_translations_do_not_reach_the_goal(benchmark: ModuleType, tmp_path: Path) -> None:
    models = [benchmark.open_translator(write_model(tmp_path / str(seed), seed), "float32", 1) for seed in (1, 2)]
    found = [benchmark.best_translations(model, LINES) for model in models]
    facts = benchmark.float32_beside_torch(*models, *found)
    assert facts["equal_tokens"] < 0.999
    assert facts["largest_difference_of_a_given_score"] > 1e-4
    assert not facts["is_reached"]
