"""A training that begins with another model."""

import json
import shutil
from pathlib import Path

import pytest
import torch

from command import call, done
from dragoman.errors import ConfigError, FolderError
from dragoman.model.build import named_weights
from dragoman.store import tensors
from dragoman.train.loop import Loop
from dragoman.train.prepare import Prepared
from dragoman.train.recovery import step_back
from dragoman.train.start import Start
from dragoman.train.state import Training
from trainings import Silent, corpus, prepared_in


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A model of 40 pairs, after four updates."""
    (tmp_path / "old").mkdir()
    prepared = prepared_in(tmp_path / "old" / "m", corpus(tmp_path / "old", 40))
    Loop(prepared, Silent()).run(lambda: 0)
    return tmp_path / "old" / "m"


def begun(prepared: Prepared) -> Training:
    return Loop(prepared, Silent()).training


def test_vocabulary_and_weights_are_the_other_model_s(old: Path, tmp_path: Path) -> None:
    watcher = Silent()
    prepared = prepared_in(tmp_path / "new", corpus(tmp_path, 60), start=old, watcher=watcher, model__dropout=0.3)
    assert not any("vocabulary" in message for message in watcher.messages)
    assert prepared.src.to_json() == (old / "tokenizer.json").read_text(encoding="utf-8")
    assert prepared.config.model.dropout == 0.3
    theirs, training = tensors.read_tensors(old / "model.safetensors"), begun(prepared)
    for model in (training.model, training.average):
        mine = named_weights(model)
        assert mine.keys() == theirs.keys()
        assert all(torch.equal(mine[name], theirs[name]) for name in mine)
    assert training.counters.step == 0


def test_the_presets_of_the_corpus_give_way(old: Path, tmp_path: Path) -> None:
    """Sizes come from the other model where nobody names them; how long to train does not."""
    layer = Start.open(old).layer
    assert layer["model"]["d_model"] == 16
    assert "dropout" not in layer["model"]
    assert layer["text"] == {"vocab_size": 272, "shared": True}


@pytest.mark.parametrize(
    ("key", "value"), [("model__d_model", 32), ("text__vocab_size", 280), ("model__tied", "output")]
)
def test_what_the_weights_depend_on_cannot_change(old: Path, tmp_path: Path, key: str, value: object) -> None:
    with pytest.raises(ConfigError, match=rf"old.m has {key.replace('__', '.')}=.*, not .?{value}.*without --from"):
        prepared_in(tmp_path / "new", corpus(tmp_path, 60), start=old, **{key: value})


def test_it_goes_on_without_the_other_model(old: Path, tmp_path: Path) -> None:
    """Killed before its first checkpoint, it still knows what it was begun with."""
    files = corpus(tmp_path, 60)
    first = named_weights(begun(prepared_in(tmp_path / "new", files, start=old)).model)
    shutil.rmtree(old)
    again = named_weights(begun(prepared_in(tmp_path / "new", files)).model)
    assert all(torch.equal(first[name], again[name]) for name in first)


def test_a_step_back_to_the_beginning_is_one_to_the_other_model(old: Path, tmp_path: Path) -> None:
    prepared = prepared_in(tmp_path / "new", corpus(tmp_path, 60), start=old)
    training = begun(prepared)
    with torch.no_grad():
        for parameter in training.model.parameters():
            parameter.fill_(7.0)
    back = named_weights(step_back(prepared, training).model)
    theirs = tensors.read_tensors(old / "model.safetensors")
    assert all(torch.equal(back[name], theirs[name]) for name in theirs)


def test_after_a_checkpoint_its_own_weights_count(old: Path, tmp_path: Path) -> None:
    files = corpus(tmp_path, 60)
    trained = Loop(prepared_in(tmp_path / "new", files, start=old), Silent())
    trained.run(lambda: 0)
    again = begun(prepared_in(tmp_path / "new", files, start=old))
    assert again.counters.step == 4
    mine, other = named_weights(again.model), tensors.read_tensors(old / "model.safetensors")
    assert not all(torch.equal(mine[name], other[name]) for name in mine)


def test_another_model_is_refused_later(old: Path, tmp_path: Path) -> None:
    files = corpus(tmp_path, 60)
    prepared_in(tmp_path / "new", files, start=old)
    prepared_in(tmp_path / "plain", files)
    other = tmp_path / "other"
    shutil.copytree(old, other)
    weights = tensors.read_tensors(other / "model.safetensors")
    Start.open(other).folder.write_weights({name: weight + 1 for name, weight in weights.items()})
    with pytest.raises(FolderError, match=r"new was begun with m, not with the model that is now in .*other"):
        prepared_in(tmp_path / "new", files, start=other)
    with pytest.raises(FolderError, match=r"plain was begun with random weights, not with"):
        prepared_in(tmp_path / "plain", files, start=old)


def test_damaged_weights_are_refused(old: Path, tmp_path: Path) -> None:
    path = old / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(FolderError, match="is damaged"):
        prepared_in(tmp_path / "new", corpus(tmp_path, 60), start=old)


def test_an_attempt_that_did_not_come_far_leaves_nothing(old: Path, tmp_path: Path) -> None:
    """Killed while it prepared, and then begun without the other model: the weights are random ones."""
    files = corpus(tmp_path, 60)
    prepared_in(tmp_path / "new", files, start=old).folder.config.unlink()
    first, other = (named_weights(begun(prepared_in(tmp_path / name, files)).model) for name in ("new", "plain"))
    assert all(torch.equal(first[name], other[name]) for name in first)


def test_provenance_names_it(old: Path, tmp_path: Path) -> None:
    prepared = prepared_in(tmp_path / "new", corpus(tmp_path, 60), start=old)
    facts = json.loads(prepared.folder.provenance.read_text(encoding="utf-8"))["start"]
    assert facts == {"model": "m", "weights_sha256": tensors.read_header(old / "model.safetensors").sha256}


def test_by_the_command_line(old: Path, tmp_path: Path) -> None:
    files, new = corpus(tmp_path, 60), tmp_path / "new"
    told = done("train", *files, "--out", new, "--from", old, "--explain").err
    assert f"{sum(weight.numel() for weight in tensors.read_tensors(old / 'model.safetensors').values()):,}" in told
    done("train", *files, "--out", new, "--from", old, "--steps", 3)
    assert "begun with" in (new / "README.md").read_text(encoding="utf-8")
    assert done("translate", "--model", new, "1 2").out
    refused = call("train", *files, "--out", tmp_path / "more", "--from", tmp_path / "nothing")
    assert refused.code == 2
    assert "nothing is not a folder" in refused.err
