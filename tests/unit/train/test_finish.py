"""What is written for people when a training ends."""

import os
import sys
from pathlib import Path

import pytest

from dragoman.train import finish as finishing
from dragoman.train import prepare as preparing
from dragoman.train.finish import finish
from dragoman.train.loop import Loop
from trainings import Silent, corpus, prepared_in


def test_the_card_and_the_picture(tmp_path: Path) -> None:
    train = corpus(tmp_path, 30)
    prepared = prepared_in(tmp_path / "digits-back", train, train, text__src_lang="xx")
    outcome = Loop(prepared, Silent()).run(lambda: 0)
    finish(prepared, outcome, "CC0-1.0")
    card = prepared.folder.card.read_text()
    assert card.startswith("# digits-back\n")
    assert "Languages: xx -> unknown. Licence: CC0-1.0." in card
    assert f"| parameters | {outcome.parameters:,} |" in card
    assert f"| updates | {outcome.counters.step} |" in card
    assert "train.src" in card
    assert str(tmp_path) not in card
    assert prepared.folder.curve.read_bytes().startswith(b"\x89PNG")


def test_files_of_one_name(tmp_path: Path) -> None:
    train = corpus(tmp_path, 30)
    moved = [tmp_path / side / "train.txt" for side in ("en", "de")]
    for path, to in zip(train, moved, strict=True):
        to.parent.mkdir()
        path.rename(to)
    prepared = prepared_in(tmp_path / "m", moved)
    finish(prepared, Loop(prepared, Silent()).run(lambda: 0), "")
    card = prepared.folder.card.read_text()
    assert "en/train.txt" in card
    assert "de/train.txt" in card
    assert str(tmp_path) not in card


def test_without_matplotlib_it_is_said_at_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (preparing, finishing):
        monkeypatch.setattr(module, "can_draw", lambda: False)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    train, watcher = corpus(tmp_path, 30), Silent()
    prepared = prepared_in(tmp_path / "m", train, train, watcher)
    assert watcher.messages[0].startswith("warning: there will be no curve.png: matplotlib is not installed (pip ")
    finish(prepared, Loop(prepared, Silent()).run(lambda: 0), "")
    assert prepared.folder.card.exists()
    assert not prepared.folder.curve.exists()


def test_stopped_before_the_first_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train = corpus(tmp_path, 30)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    prepared = prepared_in(Path(os.curdir), train, train)
    outcome = Loop(prepared, Silent()).run(lambda: 15)
    assert (outcome.stopped_by, outcome.counters.step) == (15, 1)
    finish(prepared, outcome, "")
    assert prepared.folder.card.read_text().startswith("# here\n")
    assert not prepared.folder.curve.exists()
