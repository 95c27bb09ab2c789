"""Whatever is wrong, the answer is one line that says what, where and what to do; exit code 2, no traceback."""

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from command import call, write_lines
from folders import write_model


@dataclass(frozen=True)
class Desk:
    """What lies on it: good files ``a`` and ``b`` of three lines, a model, and room for more."""

    path: Path
    model: Path

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    def lines(self, name: str, lines: list[str]) -> Path:
        """A file."""
        return write_lines(self.path / name, lines)

    def raw(self, name: str, content: bytes) -> Path:
        """A file."""
        (self.path / name).write_bytes(content)
        return self.path / name

    def copy(self) -> Path:
        """A model to be spoilt."""
        return Path(shutil.copytree(self.model, self.path / "copy"))

    def spoilt(self, name: str, change: Callable[[bytes], bytes]) -> Path:
        """A model one of whose files is changed."""
        copy = self.copy()
        (copy / name).write_bytes(change((copy / name).read_bytes()))
        return copy

    def without(self, name: str) -> Path:
        """A model one of whose files is missing."""
        copy = self.copy()
        (copy / name).unlink()
        return copy


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("models") / "model")


@pytest.fixture
def desk(tmp_path: Path, model: Path) -> Desk:
    made = Desk(tmp_path, model)
    made.lines("a", ["one", "two", "three"])
    made.lines("b", ["eins", "zwei", "drei"])
    return made


def flipped(content: bytes) -> bytes:
    """One bit of the last byte."""
    return content[:-1] + bytes([content[-1] ^ 1])


Case = tuple[Callable[[Desk], list[object]], list[str]]

CASES: dict[str, Case] = {
    # the command line itself
    "unknown command": (lambda d: ["translte"], ["translte", "--help"]),
    "unknown option": (lambda d: ["translate", "--modle", "m"], ["--modle", "translate --help"]),
    "missing option": (lambda d: ["translate", "x"], ["--model"]),
    "a word for a number": (lambda d: ["translate", "-m", d.model, "--beam", "two", "x"], ["--beam"]),
    # corpora
    "missing file": (lambda d: ["check", d / "a", d / "nowhere"], ["nowhere", "No such file"]),
    "directory as file": (lambda d: ["train", d / "a", d.path, "--out", d / "out"], ["a directory"]),
    "three files": (lambda d: ["check", d / "a", d / "b", d / "a"], ["3 corpus files"]),
    "one file without columns": (lambda d: ["check", d / "a"], ["no tab", "second file"]),
    "empty corpus": (lambda d: ["train", d.raw("e", b""), d / "b", "--out", d / "out"], ["is empty"]),
    "blank corpus": (
        lambda d: ["train", d.lines("e", ["", "", ""]), d / "b", "--out", d / "out"],
        ["not one usable pair", "empty source 3"],
    ),
    "unequal corpus": (
        lambda d: ["train", d.lines("c", ["one", "two"]), d / "b", "--out", d / "out"],
        ["c has 2 lines", "b has 3"],
    ),
    "invalid UTF-8": (
        lambda d: ["train", d.raw("c", b"one\ntw\xff\nthree\n"), d / "b", "--out", d / "out"],
        ["line 2", "byte 6", "0xFF", "data.skip_invalid=true"],
    ),
    "UTF-16": (lambda d: ["train", d.raw("c", "one\n".encode("utf-16")), d / "b", "--out", d / "out"], ["UTF-16"]),
    "truncated gzip": (
        lambda d: ["train", d.raw("c.gz", b"\x1f\x8b\x08\0\0\0\0\0\0\x03abc"), d / "b", "--out", d / "out"],
        ["c.gz", "damaged or cut short"],
    ),
    "missing validation": (
        lambda d: ["train", d / "a", d / "b", "--valid", d / "v", "--valid", d / "b", "--out", d / "out"],
        ["v: cannot be opened"],
    ),
    "validation that is too long": (
        lambda d: [
            *("train", d / "a", d / "b", "--valid", d.lines("v", ["x" * 30]), d.lines("w", ["y" * 30])),
            *("--out", d / "out", "--set", "data.max_length=10"),
        ],
        ["every validation pair", "10 pieces"],
    ),
    "training that is too long": (
        lambda d: ["train", d / "a", d / "b", "--out", d / "out", "--set", "data.max_length=1"],
        ["no pair is left", "data.max_length=1"],
    ),
    # settings
    "unknown key": (
        lambda d: ["train", d / "a", d / "b", "--out", d / "out", "--set", "train.step=3"],
        ["train.step;", "did you mean steps?"],
    ),
    "unknown section": (
        lambda d: ["train", d / "a", d / "b", "--out", d / "out", "--set", "trian.steps=3"],
        ["[trian]", "did you mean train?"],
    ),
    "wrong type": (
        lambda d: ["train", d / "a", d / "b", "--out", d / "out", "--set", "train.steps=many"],
        ["train.steps='many'", "whole number"],
    ),
    "no setting": (lambda d: ["check", d / "a", d / "b", "--set", "steps"], ["--set steps", "section.key=value"]),
    "heads that do not divide": (
        lambda d: ["check", d / "a", d / "b", "--set", "model.num_heads=7"],
        ["model.d_model=512", "model.num_heads=7"],
    ),
    "missing recipe": (lambda d: ["check", d / "a", d / "b", "--config", d / "r.toml"], ["r.toml", "No such file"]),
    "damaged recipe": (
        lambda d: ["check", d / "a", d / "b", "--config", d.lines("r.toml", ["[train", "steps=3"])],
        ["r.toml", "not valid TOML"],
    ),
    "monstrous model": (
        lambda d: ["check", d / "a", d / "b", "--set", "model.d_model=1000000"],
        ["parameters", "make it smaller"],
    ),
    # places to write
    "out is a file": (lambda d: ["train", d / "a", d / "b", "--out", d / "a"], ["is a file, not a folder"]),
    "out is something else": (lambda d: ["train", d / "a", d / "b", "--out", d.path], ["not a model folder"]),
    "no place for the output": (
        lambda d: ["evaluate", "-m", d.model, d / "a", d / "b", "--output", d / "no" / "where"],
        ["no", "it does not exist"],
    ),
    # models
    "missing model": (lambda d: ["translate", "-m", d / "m", "x"], ["m is not a folder", "dragoman train"]),
    "no model": (lambda d: ["translate", "-m", d.path, "x"], ["not a model folder", "config.toml"]),
    "no tokenizer": (lambda d: ["translate", "-m", d.without("tokenizer.json"), "x"], ["incomplete", "tokenizer.json"]),
    "no weights": (lambda d: ["score", "-m", d.without("model.safetensors"), d / "a", d / "b"], ["model.safetensors"]),
    "damaged weights": (
        lambda d: ["translate", "-m", d.spoilt("model.safetensors", flipped), "x"],
        ["model.safetensors", "damaged", "SHA-256"],
    ),
    "cut weights": (lambda d: ["translate", "-m", d.spoilt("model.safetensors", lambda b: b[:-4]), "x"], ["damaged"]),
    "damaged tokenizer": (
        lambda d: ["evaluate", "-m", d.spoilt("tokenizer.json", lambda b: b[:-9]), d / "a", d / "b"],
        ["tokenizer.json", "damaged"],
    ),
    "foreign configuration": (
        lambda d: [
            "translate",
            "-m",
            d.spoilt("config.toml", lambda b: b.replace(b"d_model = 16", b"d_model = 32")),
            "x",
        ],
        ["config.toml says model.d_model=32", "trained with 16"],
    ),
    "configuration of another program": (
        lambda d: ["translate", "-m", d.spoilt("config.toml", lambda b: b"[marian]\nbeam = 3\n"), "x"],
        ["config.toml"],
    ),
    "foreign tokenizer": (
        lambda d: [
            "translate",
            "-m",
            d.spoilt("tokenizer.json", lambda b: b'{"model": {"vocab": {}, "merges": []}}'),
            "x",
        ],
        ["tokenizer.json", "damaged"],
    ),
    # requests
    "texts and a file": (lambda d: ["translate", "-m", d.model, "--file", d / "a", "x"], ["not both"]),
    "missing text file": (lambda d: ["translate", "-m", d.model, "--file", d / "t"], ["t: cannot be opened"]),
    "lone surrogate": (lambda d: ["translate", "-m", d.model, "fine", "b\udcffd"], ["text 2", "U+DCFF"]),
    "beam of 0": (lambda d: ["translate", "-m", d.model, "--beam", 0, "x"], ["search.beam_size=0"]),
    "more than the beam": (
        lambda d: ["translate", "-m", d.model, "--beam", 2, "--n-best", 3, "x"],
        ["search.n_best=3", "search.beam_size=2"],
    ),
    "temperature that is no number": (
        lambda d: ["translate", "-m", d.model, "--set", "search.temperature=nan", "x"],
        ["search.temperature=nan", "number >= 0.0"],
    ),
    "negative temperature": (
        lambda d: ["translate", "-m", d.model, "--set", "search.temperature=-1.0", "x"],
        ["search.temperature=-1.0"],
    ),
    "top_p of 0": (lambda d: ["translate", "-m", d.model, "--set", "search.top_p=0.0", "x"], ["search.top_p=0.0"]),
    "id outside the vocabulary": (
        lambda d: ["translate", "-m", d.model, "--set", "search.suppress=[99999]", "x"],
        ["suppress=99999"],
    ),
    "everything suppressed": (
        lambda d: ["translate", "-m", d.model, "--set", f"search.suppress={list(range(320))}", "x"],
        ["sentence 1", "suppressed ids"],
    ),
    "prefix without room": (
        lambda d: ["translate", "-m", d.model, "--prefix", "x " * 400, "x"],
        ["the prefix", "shorten"],
    ),
    "minimum without room": (
        lambda d: ["translate", "-m", d.model, "--set", "search.min_length=5000", "x"],
        ["search.min_length", "fewer than 320"],
    ),
    "pair too long to score": (
        lambda d: ["score", "-m", d.model, d.lines("c", ["one", "xy" * 60]), d.lines("d", ["eins", "zwei"])],
        ["pair 2", "source", "more than 80"],
    ),
    # evaluation and averages
    "unequal test set": (
        lambda d: ["evaluate", "-m", d.model, d / "a", d.lines("c", ["eins"])],
        ["a has 3 lines", "c has 1"],
    ),
    "second reference of another length": (
        lambda d: ["evaluate", "-m", d.model, d / "a", d / "b", d.lines("c", ["eins"])],
        ["a has 3 lines", "c has 1"],
    ),
    "comparison with another count": (
        lambda d: ["evaluate", "-m", d.model, d / "a", d / "b", "--compare", d.lines("c", ["eins"])],
        ["a has 3 lines", "c has 1"],
    ),
    "empty test set": (
        lambda d: ["evaluate", "-m", d.model, d.raw("c", b""), d.raw("d", b"")],
        ["nothing to evaluate"],
    ),
    "average of one": (lambda d: ["average", d.model, "--out", d / "out"], ["at least two"]),
    "average onto something": (lambda d: ["average", d.model, d.model, "--out", d / "a"], ["a exists already"]),
    "average of different vocabularies": (
        lambda d: ["average", d.model, d.spoilt("tokenizer.json", lambda b: b + b"\n"), "--out", d / "out"],
        ["another vocabulary"],
    ),
    "average of different models": (
        lambda d: [
            *("average", d.model, write_model(d / "other", model={"num_heads": 4}), "--out", d / "out"),
        ],
        ["model.num_heads=4"],
    ),
}


STEPS = ("reading", "learning", "writing", "no --valid", "warning", "dropped")
"""How the lines begin that tell how far a training is."""


@pytest.mark.parametrize("name", CASES)
def test_one_line_says_it(name: str, desk: Desk) -> None:
    arguments, fragments = CASES[name]
    ran = call(*arguments(desk))
    assert ran.code == 2, ran
    assert ran.out == ""
    said = ran.err.splitlines()
    told = [line for line in said if not line.startswith(STEPS)]
    assert len(told) == 1, ran.err
    assert told[0].startswith("dragoman: ")
    assert "Traceback" not in ran.err
    for fragment in fragments:
        assert fragment in told[0]
    assert not (desk / "out" / "model.safetensors").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written(desk: Desk) -> None:
    desk.path.chmod(0o500)
    ran = call("train", desk / "a", desk / "b", "--out", desk / "out")
    desk.path.chmod(0o700)
    assert ran.code == 2
    assert "no permission" in ran.err


def test_a_damaged_model_never_answers_nan(tmp_path: Path) -> None:
    """Weights so large that numbers overflow: an error, or finite scores, but no NaN."""
    model = write_model(tmp_path / "model", scale=1e38)
    for command in (("translate", "--json", "x"), ("score", "--json", *_pair(tmp_path))):
        ran = call(command[0], "-m", model, *command[1:])
        assert (ran.code, ran.out) == (2, "")
        assert "not finite" in ran.err
        assert len(ran.err.splitlines()) == 1


def _pair(folder: Path) -> list[Path]:
    return [write_lines(folder / side, ["one two"]) for side in ("a", "b")]
