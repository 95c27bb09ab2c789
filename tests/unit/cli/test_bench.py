"""`dragoman bench` with a model that takes no time."""

import json
from pathlib import Path

import pytest

from command import call, done
from folders import write_model


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("bench") / "model")


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
