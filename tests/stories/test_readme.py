"""What the README promises: its commands and its Python, run as they stand there."""

import re
import shlex
import shutil
from pathlib import Path

import pytest

from command import TESTS, done
from trainings import Digits

README = (TESTS.parent / "README.md").read_text(encoding="utf-8")
SHORT = ["--config", "recipe.toml", "--set", "train.steps=6", "--set", "train.validate_every=3"]
MORE = {"check": ["--no-estimate"], "train": [*SHORT, "--set", "text.tgt_lang=de"]}
"""What is not tested is made short: how long training would take, and how good its result is."""


def blocks(language: str) -> list[str]:
    """The code blocks in a language."""
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.S)


def commands() -> list[list[str]]:
    """The first block of `dragoman` commands, each as its words."""
    [first, *_] = [block for block in blocks("sh") if "dragoman " in block]
    return [shlex.split(line, comments=True)[1:] for line in first.splitlines()]


@pytest.fixture
def desk(digits: Digits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files the README speaks of."""
    for name in ("train", "valid", "test"):
        for ours, theirs in (("src", "en"), ("tgt", "de")):
            shutil.copy(digits.folder / f"{name}.{ours}", tmp_path / f"{name}.{theirs}")
    shutil.copy(digits.folder / "test.src", tmp_path / "in.txt")
    shutil.copy(digits.folder / "recipe.toml", tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_four_commands_and_the_python(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = commands()
    assert [words[0] for words in told] == ["check", "train", "translate", "evaluate"]
    for words in told:
        if "<" in words:
            at = words.index("<")
            source, arrow, out = words[at + 1 :]
            assert arrow == ">"
            text = done(*words[:at], stdin=Path(source).read_bytes()).out
            Path(out).write_text(text, encoding="utf-8")
        else:
            done(*words, *MORE.get(words[0], []))
    assert Path("out.txt").read_text().count("\n") == Path("in.txt").read_text().count("\n")
    [python] = blocks("python")
    exec(compile(python, "README.md", "exec"), {})
    assert len(capsys.readouterr().out.splitlines()) >= 2
