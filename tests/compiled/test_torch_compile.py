"""`train.compile`: layers compiled by PyTorch learn what they learn uncompiled, and go on from where they stopped."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from command import PYTHON_M, settings
from trainings import TINY, corpus, fingerprint

Files = tuple[Path, Path]
SHORT: dict[str, Any] = {**TINY, "train__backend": "torch", "train__validate_every": 8, "train__save_every": 4}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return corpus(tmp_path_factory.mktemp("pairs"), 40)


def train(files: Files, out: Path, **values: object) -> Path:
    """In a process of its own, in which no shapes are checked; the folder."""
    command = [*PYTHON_M, "train", *files, "--valid", *files, "--out", out, *settings(**{**SHORT, **values})]
    ran = subprocess.run(list(map(str, command)), capture_output=True, check=False)
    assert ran.returncode == 0, ran.stderr.decode()
    return out


def losses(folder: Path) -> list[float]:
    """Of every validation."""
    events = map(json.loads, (folder / "journal.jsonl").read_text(encoding="utf-8").splitlines())
    return [event["loss"] for event in events if event["event"] == "validation"]


def kept(folder: Path) -> dict[str, str]:
    """The last checkpoint; the best model carries its settings, of which the updates differ here."""
    return {name: found for name, found in fingerprint(folder).items() if name != "best"}


@pytest.mark.slow
def test_it_learns_the_same(files: Files, tmp_path: Path) -> None:
    """Without dropout, whose masks are drawn in another order."""
    plain = losses(train(files, tmp_path / "plain", train__steps=24, model__dropout=0))
    compiled = losses(train(files, tmp_path / "compiled", train__steps=24, model__dropout=0, train__compile="true"))
    assert len(plain) == 3
    assert plain[-1] < plain[0] - 0.1
    assert compiled == pytest.approx(plain, abs=1e-4)


@pytest.mark.slow
def test_it_goes_on_in_the_same_bits(files: Files, tmp_path: Path) -> None:
    whole = train(files, tmp_path / "whole", train__steps=16, train__compile="true")
    train(files, tmp_path / "parts", train__steps=8, train__compile="true")
    parts = train(files, tmp_path / "parts", train__steps=16, train__compile="true")
    assert kept(parts) == kept(whole)
