import os
import shutil
from pathlib import Path

import pytest
import torch

from dragoman.errors import FolderError
from dragoman.store import files, tensors
from dragoman.store.folder import ModelFolder

CONFIG = b"[text]\nshared = true\n[model]\nd_model = 8\nnum_heads = 2\n[search]\nbeam_size = 5\n"


def complete(root: Path) -> ModelFolder:
    folder = ModelFolder.create(root)
    files.write_atomic(folder.config, CONFIG)
    files.write_atomic(folder.tokenizers(shared=True)[0], b"{}")
    folder.write_weights({"w": torch.ones(2, 2)})
    return folder


def test_paths(tmp_path: Path) -> None:
    folder = ModelFolder(tmp_path)
    top = [folder.config, folder.weights, folder.card, folder.provenance, folder.report, folder.journal, folder.curve]
    assert [path.relative_to(tmp_path).as_posix() for path in [*top, *folder.tokenizers(shared=False)]] == [
        *("config.toml", "model.safetensors", "README.md", "provenance.json", "report.json", "journal.jsonl"),
        *("curve.png", "tokenizer.src.json", "tokenizer.tgt.json"),
    ]
    assert folder.lock == tmp_path / "training" / "lock"
    assert folder.corpus == tmp_path / "training" / "corpus"
    assert folder.checkpoints == tmp_path / "training" / "checkpoints"


def test_create_twice_then_open(tmp_path: Path) -> None:
    root = tmp_path / "deep" / "model"
    complete(root)
    assert ModelFolder.create(root) == ModelFolder.open(root) == ModelFolder(root)
    assert tensors.read_tensors(ModelFolder.open(root).weights)["w"].tolist() == [[1.0, 1.0], [1.0, 1.0]]


def test_create_where_something_else_is(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_bytes(b"")
    with pytest.raises(FolderError, match=r"is not a model folder \(it holds thesis\.tex\); choose another one"):
        ModelFolder.create(tmp_path)
    with pytest.raises(FolderError, match="a part of the path is a file"):
        ModelFolder.create(tmp_path / "thesis.tex")
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize("name", ["training/corpus/train/a.en", "training/run1.log", "config.toml"])
def test_create_where_a_name_of_ours_is_somebody_elses(tmp_path: Path, name: str) -> None:
    """A project may have a folder `training` or a `config.toml`, too; nothing of it is touched."""
    for path in (tmp_path / name, tmp_path / "README.md"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("[build]\n")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(FolderError, match="is not a model folder"):
        ModelFolder.create(tmp_path)
    assert sorted(tmp_path.rglob("*")) == before


def test_create_where_a_training_was_killed_at_once(tmp_path: Path) -> None:
    ModelFolder.create(tmp_path)
    (tmp_path / "training" / "corpus").rmdir()
    assert ModelFolder.create(tmp_path).corpus.is_dir()


def test_create_where_only_the_finished_model_is_left(tmp_path: Path) -> None:
    shutil.rmtree(complete(tmp_path).training)
    with pytest.raises(FolderError, match="holds a finished model without its training/ part"):
        ModelFolder.create(tmp_path)
    assert not (tmp_path / "training").exists()


def test_create_where_nothing_can_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, chunks: object) -> None:
        raise OSError(30, os.strerror(30))

    monkeypatch.setattr(files, "write_new", refuse)
    with pytest.raises(FolderError, match="read-only"):
        ModelFolder.create(tmp_path / "model")


@pytest.mark.parametrize(
    ("missing", "words"),
    [
        ("config.toml", "not a model folder: it has no config.toml"),
        ("tokenizer.json", "is incomplete: it has no tokenizer.json"),
        ("model.safetensors", "has no model.safetensors yet: its training did not reach the first validation"),
    ],
)
def test_open_names_what_is_missing(missing: str, words: str, tmp_path: Path) -> None:
    (complete(tmp_path).root / missing).unlink()
    with pytest.raises(FolderError, match=words):
        ModelFolder.open(tmp_path)


def test_open_with_two_tokenizers(tmp_path: Path) -> None:
    folder = complete(tmp_path)
    files.write_atomic(folder.config, CONFIG.replace(b"shared = true", b"shared = false"))
    folder.write_weights({"w": torch.ones(1)})
    with pytest.raises(FolderError, match=r"it has no tokenizer\.src\.json"):
        ModelFolder.open(tmp_path)
    for path in folder.tokenizers(shared=False):
        files.write_atomic(path, b"{}")
    ModelFolder.open(tmp_path)


def test_open_what_is_no_folder(tmp_path: Path) -> None:
    for path in (tmp_path / "missing", tmp_path / "file"):
        (tmp_path / "file").write_bytes(b"")
        with pytest.raises(FolderError, match="is not a folder; give the folder that `dragoman train` wrote"):
            ModelFolder.open(path)
    with pytest.raises(FolderError, match="too long"):
        ModelFolder.open(tmp_path / ("a" * 300))


@pytest.mark.parametrize("config", [b"\xff", b"[model", b"a = " + b"[" * 5000, b"model = 3\n", b"text = []\n"])
def test_open_with_a_damaged_configuration(config: bytes, tmp_path: Path) -> None:
    folder = complete(tmp_path)
    folder.config.write_bytes(config)
    with pytest.raises(FolderError, match=r"config\.toml is damaged"):
        ModelFolder.open(tmp_path)


def test_what_shapes_the_weights_must_not_change(tmp_path: Path) -> None:
    folder = complete(tmp_path)
    files.write_atomic(folder.config, CONFIG.replace(b"beam_size = 5", b"beam_size = 9") + b"[train]\nsteps = 1\n")
    ModelFolder.open(tmp_path)
    files.write_atomic(folder.config, CONFIG.replace(b"d_model = 8\n", b"d_model = 8\nnew_in_a_later_version = 1\n"))
    ModelFolder.open(tmp_path)
    files.write_atomic(folder.config, CONFIG.replace(b"num_heads = 2", b"num_heads = 4"))
    with pytest.raises(FolderError, match=r"says model\.num_heads=4, but the weights were trained with 2; restore it"):
        ModelFolder.open(tmp_path)


@pytest.mark.parametrize("recorded", ["[]", '{"model": 3}', "{"])
def test_weights_with_a_strange_configuration_inside(recorded: str, tmp_path: Path) -> None:
    folder = complete(tmp_path)
    tensors.write_tensors(folder.weights, {"w": torch.ones(1)}, {"config": recorded})
    with pytest.raises(FolderError, match=r"model\.safetensors is damaged"):
        ModelFolder.open(tmp_path)


def test_a_failed_write_keeps_the_weights(tmp_path: Path) -> None:
    folder = complete(tmp_path)
    with pytest.raises(FolderError, match="holds NaN"):
        folder.write_weights({"w": torch.tensor([float("nan")])})
    assert ModelFolder.open(tmp_path) == folder


def test_the_weights_name_the_configuration_file(tmp_path: Path) -> None:
    folder = complete(tmp_path)
    metadata = tensors.read_header(folder.weights).metadata
    assert metadata["config_sha256"] == files.measure(folder.config).sha256


def test_clean_leftovers(tmp_path: Path) -> None:
    folder = complete(tmp_path)
    for place in (folder.root, folder.training, folder.corpus):
        (place / f".tmp-{os.getpid()}-00ff").write_bytes(b"half")
    for name in (".tmp-1-00ff", ".trash-00ff"):
        (folder.checkpoints / name).mkdir()
    folder.clean_leftovers()
    assert [path for path in tmp_path.rglob(".*") if path.name.startswith((".tmp-", ".trash-"))] == []
