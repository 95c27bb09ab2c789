"""A folder, looked at while others write it."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from dragoman.errors import FolderError
from dragoman.serve.watch import Watched
from dragoman.store import lock
from dragoman.store.folder import ModelFolder
from dragoman.train.loop import Loop
from trainings import Silent, corpus, prepared_in
from watched import END, LITERAL, PAIRS, begun, update, validation, write_journal


def told(watched: Watched) -> Any:
    return json.loads(watched.snapshot().body)


def test_a_training_from_its_beginning_to_its_end(tmp_path: Path) -> None:
    folder = ModelFolder.create(tmp_path / "my-en-fr")
    watched = Watched(folder.root)
    assert told(watched)["state"] == "empty"
    with lock.hold(folder.lock):
        assert told(watched)["state"] == "preparing"
        begun(folder.root)
        before = told(watched)
        assert (before["state"], before["now"]["steps"], before["written"]) == ("preparing", 200, None)
        assert [sample["source"] for sample in before["samples"]] == [src for src, _ in PAIRS[:3]]
        write_journal(folder.root, [update(50)])
        assert told(watched)["state"] == "running"
        write_journal(folder.root, [update(50), validation(200, 30.0, examples=["a", LITERAL, ""]), END])
    after = told(watched)
    assert (after["name"], after["problem"], after["state"]) == ("my-en-fr", "", "finished")
    assert after["languages"] == ["en", "fr"]
    assert after["samples"][1]["stages"] == [{"step": 200, "text": LITERAL}]


def test_a_line_that_is_being_written_is_not_there_yet(tmp_path: Path) -> None:
    watched = Watched(begun(tmp_path / "m", [update(50)]))
    write_journal(tmp_path / "m", [update(50), update(100)], torn='{"event": "upd')
    assert told(watched)["now"]["step"] == 100


def test_only_what_has_changed_is_read_again(tmp_path: Path) -> None:
    watched = Watched(begun(tmp_path / "m", [update(50)]))
    first = watched.snapshot()
    assert watched.snapshot() is first
    write_journal(tmp_path / "m", [update(50), update(100)])
    second = watched.snapshot()
    assert second.tag != first.tag
    assert json.loads(second.body)["now"]["step"] == 100


def test_a_folder_that_vanishes_and_comes_back_as_another(tmp_path: Path) -> None:
    root = tmp_path / "m"
    watched = Watched(begun(root, [update(50)]))
    assert told(watched)["problem"] == ""
    shutil.rmtree(root)
    assert told(watched) == {"name": "m", "problem": f"{root} is not there any more"}
    root.mkdir()
    assert "is not a model folder" in told(watched)["problem"]
    begun(root, [update(150)])
    assert told(watched)["now"]["step"] == 150


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("journal.jsonl", "{\n{\n", "journal.jsonl is damaged"),
        ("config.toml", "[train]\nsteps = 'x'\n", "train.steps"),
        ("training/corpus/valid.json", "{", "valid.json is damaged"),
        ("training/corpus/valid.json", '{"a": 1}', "valid.json is damaged: it must hold pairs"),
        ("training/corpus/valid.json", '[["a"]]', "valid.json is damaged: it must hold pairs"),
    ],
)
def test_what_cannot_be_read_is_told(tmp_path: Path, name: str, content: str, problem: str) -> None:
    watched = Watched(begun(tmp_path / "m", [update(50)]))
    (tmp_path / "m" / name).write_text(content)
    assert problem in told(watched)["problem"]


def test_a_finished_model_needs_no_training_part(tmp_path: Path) -> None:
    root = begun(tmp_path / "m", [validation(200, 30.0, examples=["x"]), END])
    shutil.rmtree(root / "training")
    seen = told(Watched(root))
    assert seen["state"] == "finished"
    assert seen["samples"] == [{"source": "", "reference": "", "stages": [{"step": 200, "text": "x"}]}]


def test_what_is_no_model_folder(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "file").write_text("")
    for name, said in (("no", "is not a folder"), ("file", "is not a folder"), ("other", "is not a model folder")):
        with pytest.raises(FolderError, match=f"{name} {said}.*; give the folder that `dragoman train` writes"):
            Watched(tmp_path / name)


def test_a_real_training_notes_translations(tmp_path: Path) -> None:
    watcher = Silent()
    prepared = prepared_in(tmp_path / "m", corpus(tmp_path, 40), watcher=watcher, train__validate_every=2)
    Loop(prepared, watcher).run(lambda: 0)
    seen = told(Watched(tmp_path / "m"))
    assert seen["state"] == "finished"
    assert len(seen["samples"]) == min(len(prepared.validation.sources), 3) > 0
    assert seen["samples"][0]["source"] == prepared.validation.sources[0]
    assert seen["samples"][0]["stages"][-1]["text"] == watcher.looks[-1].example
