from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dragoman.errors import FolderError
from dragoman.store import checkpoint, records, tensors
from dragoman.store.checkpoint import Checkpoint


def save(folder: Path, step: int, keep: int = 2, note: str = "") -> checkpoint.Saved:
    contents = {
        "model.safetensors": tensors.encode_arrays({"w": np.full((2, 2), float(step))}, {}),
        "state.json": [records.encode({"step": step, "note": note})],
    }
    return checkpoint.save(folder, step, contents, {"config": "abc"}, keep)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_save_and_find_again(tmp_path: Path) -> None:
    saved = save(tmp_path / "deep" / "checkpoints", 1234)
    assert saved == checkpoint.Saved(tmp_path / "deep" / "checkpoints" / "step-00001234", ())
    found, damaged = checkpoint.newest(tmp_path / "deep" / "checkpoints")
    assert damaged == []
    assert found is not None
    assert found.step == 1234
    assert found.facts == {"config": "abc"}
    assert tensors.read_arrays(found.file("model.safetensors"))["w"][0, 0] == 1234.0
    assert records.read(found.file("state.json"))["step"] == 1234
    with pytest.raises(FolderError, match=r"has no optimizer; it holds model\.safetensors, state\.json"):
        found.file("optimizer")


def test_one_is_spared(tmp_path: Path) -> None:
    for step in range(10, 60, 10):
        checkpoint.save(tmp_path, step, {"a": [b"x"]}, {}, keep=2, spared=20)
    assert names(tmp_path) == ["step-00000020", "step-00000040", "step-00000050"]
    checkpoint.save(tmp_path, 60, {"a": [b"x"]}, {}, keep=1, spared=50)
    assert names(tmp_path) == ["step-00000050", "step-00000060"]


def test_the_newest_n_are_kept(tmp_path: Path) -> None:
    for step in range(0, 100, 10):
        save(tmp_path, step, keep=3)
    assert names(tmp_path) == ["step-00000070", "step-00000080", "step-00000090"]
    save(tmp_path, 100, keep=1)
    assert names(tmp_path) == ["step-00000100"]


def test_scan_goes_from_new_to_old(tmp_path: Path) -> None:
    for step in (5, 99_999_999, 100_000_000, 999_999_999_999):
        save(tmp_path, step, keep=9)
    (tmp_path / "step-1").mkdir()
    (tmp_path / "step-000000005").mkdir()
    (tmp_path / "notes.txt").write_bytes(b"")
    found = list(checkpoint.scan(tmp_path))
    assert [one.step for one in found if isinstance(one, Checkpoint)] == [
        *(999_999_999_999, 100_000_000, 99_999_999, 5),
    ]
    assert len(found) == 4


def test_a_step_saved_twice_is_the_later_one(tmp_path: Path) -> None:
    save(tmp_path, 1)
    save(tmp_path, 2, note="first")
    save(tmp_path, 2, note="second")
    assert names(tmp_path) == ["step-00000001", "step-00000002"]
    found, _ = checkpoint.newest(tmp_path)
    assert found is not None
    assert records.read(found.file("state.json"))["note"] == "second"


def test_one_that_stepped_aside_counts_until_it_is_replaced(tmp_path: Path) -> None:
    save(tmp_path, 1)
    save(tmp_path, 2, note="aside")
    (tmp_path / "step-00000002").rename(tmp_path / "step-00000002~")
    found, _ = checkpoint.newest(tmp_path)
    assert found is not None
    assert (found.step, found.path.name) == (2, "step-00000002~")
    save(tmp_path, 3)
    assert names(tmp_path) == ["step-00000002~", "step-00000003"]
    save(tmp_path, 4)
    assert names(tmp_path) == ["step-00000003", "step-00000004"]


@pytest.mark.parametrize("damaged", ["step-00000002", "step-00000002~"])
def test_of_two_of_a_step_the_sound_one_is_spared(
    damaged: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path, 2, note="aside")
    (tmp_path / "step-00000002").rename(tmp_path / "step-00000002~")
    monkeypatch.setattr(checkpoint, "_purge", lambda *_: [])
    save(tmp_path, 2, note="original")
    (tmp_path / damaged / "state.json").write_bytes(b"")
    monkeypatch.setattr(checkpoint.files, "rename", rename_unless_published(checkpoint.files.rename))
    with pytest.raises(FolderError, match="stop here"):
        save(tmp_path, 2, note="new")
    found, _ = checkpoint.newest(tmp_path)
    assert found is not None
    assert records.read(found.file("state.json"))["note"] == ("aside" if damaged[-1] == "2" else "original")


def rename_unless_published(real: Callable[[Path, Path], None]) -> Callable[[Path, Path], None]:
    def rename(old: Path, new: Path) -> None:
        if old.name.startswith(".tmp-"):
            raise FolderError("stop here")
        real(old, new)

    return rename


def test_later_damaged_ones_go_when_an_earlier_step_is_saved(tmp_path: Path) -> None:
    save(tmp_path, 1)
    save(tmp_path, 5)
    (tmp_path / "step-00000005" / "state.json").unlink()
    found, damaged = checkpoint.newest(tmp_path)
    assert found is not None
    assert found.step == 1
    assert "state.json: it does not exist" in damaged[0].reason
    save(tmp_path, 2, keep=1)
    assert names(tmp_path) == ["step-00000002"]


def test_leftovers_are_cleaned_whoever_left_them(tmp_path: Path) -> None:
    save(tmp_path, 1)
    (tmp_path / ".tmp-1-00ff").mkdir()
    (tmp_path / ".tmp-1-00ff" / "model").write_bytes(b"half")
    (tmp_path / ".trash-ab").mkdir()
    (tmp_path / ".hidden").mkdir()
    save(tmp_path, 2)
    assert names(tmp_path) == [".hidden", "step-00000001", "step-00000002"]


def test_what_cannot_be_deleted_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied")

    save(tmp_path, 1, keep=1)
    monkeypatch.setattr(checkpoint.files, "remove_tree", refuse)
    saved = save(tmp_path, 2, keep=1)
    assert len(saved.warnings) == 1
    assert "Permission denied" in saved.warnings[0]
    monkeypatch.undo()
    assert save(tmp_path, 3, keep=1).warnings == ()
    assert names(tmp_path) == ["step-00000003"]


@pytest.mark.parametrize("name", ["", "../model", "a/b", ".hidden", "manifest.json", "ä", "a" * 200])
def test_names_of_files(name: str, tmp_path: Path) -> None:
    with pytest.raises(FolderError, match="is not a name for a file of a checkpoint"):
        checkpoint.save(tmp_path, 1, {name: [b""]}, {}, 1)


@pytest.mark.parametrize(("step", "keep"), [(-1, 1), (10**12, 1), (1, 0)])
def test_numbers_that_make_no_sense(step: int, keep: int, tmp_path: Path) -> None:
    with pytest.raises(FolderError, match="step must be 0 or more and keep 1 or more"):
        save(tmp_path, step, keep)


def test_too_large_a_manifest_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(FolderError, match="the manifest of step 1 would have"):
        checkpoint.save(tmp_path, 1, {}, {"corpus": "x" * (1 << 20)}, 1)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "text", ["[]", '{"format_version": "1"}', '{"format_version": 1}', '{"format_version": 1, "files": 3}']
)
def test_manifests_that_are_none(text: str, tmp_path: Path) -> None:
    save(tmp_path, 1)
    (tmp_path / "step-00000001" / "manifest.json").write_text(text)
    found, damaged = checkpoint.newest(tmp_path)
    assert found is None
    assert "manifest.json is damaged" in damaged[0].reason
