"""`dragoman bench` with a model that takes no time."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from command import call, done
from dragoman.engine.library import instruction_set
from dragoman.evaluate import machine
from engines import needs_engine, quantized
from folders import write_model


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("bench") / "model")


@pytest.fixture(autouse=True)
def unforced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs the tests on another instruction set forces it on these too."""
    monkeypatch.delenv("DRAGOMAN_ISA", raising=False)


USUAL = ("--quick", "--precision", "torch", "--threads", 1, "--batch", 1, "--batch", 2, "--beam", 1)


def test_it_measures_and_stores_what_is_best(model: Path) -> None:
    ran = done("bench", model, *USUAL)
    assert "made up from the vocabulary" in ran.lines[0]
    assert ran.lines[2].split()[:3] == ["precision", "threads", "batch"]
    assert [line.split()[:4] for line in ran.lines[3:5]] == [["torch", "1", "2", "1"], ["torch", "1", "1", "1"]]
    assert ran.lines[-1].startswith("best here: torch with 1 thread, ")
    assert "one sentence takes" in ran.lines[-1]
    assert "stored in" in ran.err
    stored = json.loads((model / "bench.json").read_text(encoding="utf-8"))
    assert (stored["threads"], stored["precision"], stored["batch"]) == (1, "torch", 2)


def test_json_has_all_of_it_and_nothing_need_be_stored(model: Path, tmp_path: Path) -> None:
    (model / "bench.json").unlink(missing_ok=True)
    (tmp_path / "lines").write_text("a cat\n", encoding="utf-8")
    (facts,) = done("bench", model, *USUAL, "--file", tmp_path / "lines", "--no-store", "--json").json
    assert facts["sentences"] == str(tmp_path / "lines")
    assert len(facts["speeds"]) == 2
    assert facts["best"] == facts["speeds"][0]
    assert not (model / "bench.json").exists()


QUICK = ("--quick", "--threads", 1, "--batch", 1, "--beam", 1)


@needs_engine
def test_the_engine_is_measured_in_both_precisions(tmp_path: Path) -> None:
    root = write_model(tmp_path / "model")
    quantized(root)
    ran = done("bench", root, *QUICK)
    assert [line.split()[0] for line in ran.lines[3:5]] == ["int8", "float32"]
    stored = json.loads((root / "bench.json").read_text(encoding="utf-8"))
    assert ran.lines[-1].startswith(f"best here: {stored['precision']} with 1 thread, ")
    assert stored["isa"] == instruction_set()
    (facts,) = done("info", root, "--json").json
    assert facts["precision"] == stored["precision"]


@needs_engine
def test_what_another_instruction_set_measures_is_not_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = write_model(tmp_path / "model")
    forced = replace(machine.look_around(), wanted="portable", isa="portable", isas=("avx2", "portable"))
    monkeypatch.setattr(machine, "look_around", lambda: forced)
    ran = done("bench", root, *QUICK, "--precision", "float32")
    assert ran.err.count("stored") == 1
    assert "\nnot stored: DRAGOMAN_ISA=portable is not what this machine would take itself\n" in ran.err
    assert not (root / "bench.json").exists()


def test_explaining_needs_no_model() -> None:
    assert done("bench", "--explain").out.startswith("processor: ")
    (facts,) = done("bench", "--explain", "--json").json
    assert facts["processors"] >= 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [((), "give the model folder"), (("MODEL", "--precision", "int4"), "precision int4 is unknown")],
)
def test_what_cannot_be_measured(model: Path, arguments: tuple[str, ...], said: str) -> None:
    ran = call("bench", *(str(model) if one == "MODEL" else one for one in arguments))
    assert ran.code == 2
    assert said in ran.err
