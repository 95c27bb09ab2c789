"""Damaged checkpoints and weights: all is noticed, the older one is used, only our errors are seen (A6, D3)."""

import contextlib
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dragoman.errors import DragomanError, FolderError
from dragoman.store import checkpoint, records, tensors
from dragoman.store.checkpoint import Damaged
from goals import Trials

FILES = ("model.safetensors", "optimizer.safetensors", "state.json", "manifest.json")
OLD, NEW = "step-00000002", "step-00000003"
Damage = Callable[[Path], None]


def save(folder: Path, step: int) -> None:
    rng = np.random.default_rng(step)
    weights = {"w": rng.standard_normal((4, 3)), "b": rng.standard_normal(3).astype(np.float32)}
    contents = {
        "model.safetensors": tensors.encode_arrays(weights, {}),
        "optimizer.safetensors": tensors.encode_arrays({"m": rng.standard_normal(5)}, {}),
        "state.json": [records.encode({"step": step, "best": 1.5})],
    }
    checkpoint.save(folder, step, contents, {"config": "abc"}, 3)


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pristine")
    for step in (2, 3):
        save(folder, step)
    return folder


def flip(name: str, place: float, bit: int) -> Damage:
    def damage(folder: Path) -> None:
        data = bytearray((folder / NEW / name).read_bytes())
        data[int(place * len(data))] ^= 1 << bit
        (folder / NEW / name).write_bytes(data)

    return damage


def cut(name: str, part: float) -> Damage:
    def damage(folder: Path) -> None:
        data = (folder / NEW / name).read_bytes()
        (folder / NEW / name).write_bytes(data[: int(part * len(data))])

    return damage


def grow(name: str) -> Damage:
    def damage(folder: Path) -> None:
        with (folder / NEW / name).open("ab") as file:
            file.write(b"\n")

    return damage


def delete(name: str) -> Damage:
    return lambda folder: (folder / NEW / name).unlink()


def replace_by_folder(name: str) -> Damage:
    def damage(folder: Path) -> None:
        (folder / NEW / name).unlink()
        (folder / NEW / name).mkdir()

    return damage


def take_from_older(name: str) -> Damage:
    return lambda folder: shutil.copyfile(folder / OLD / name, folder / NEW / name) and None


def swap_within(folder: Path) -> None:
    first, second = folder / NEW / FILES[0], folder / NEW / FILES[1]
    shutil.move(first, folder / "x")
    shutil.move(second, first)
    shutil.move(folder / "x", second)


def take_all_from_older(folder: Path) -> None:
    shutil.rmtree(folder / NEW)
    shutil.copytree(folder / OLD, folder / NEW)


def newer_version(folder: Path) -> None:
    manifest = (folder / NEW / "manifest.json").read_text().replace('"format_version": 1', '"format_version": 2')
    (folder / NEW / "manifest.json").write_text(manifest)


def systematic() -> list[Damage]:
    """Cuts at every fiftieth of every file, and damages to whole files."""
    cuts = [cut(name, part / 50) for name in FILES for part in range(50)]
    whole = [make(name) for name in FILES for make in (grow, delete, replace_by_folder, take_from_older)]
    return [*cuts, *whole, swap_within, take_all_from_older, newer_version]


@pytest.mark.goal("A6")
def test_every_damage_is_noticed_and_the_older_used(trials: Trials, pristine: Path, tmp_path: Path) -> None:
    """After the systematic ones, bits anywhere."""
    first = systematic()
    for trial in trials:
        with trial:
            draws, folder = trial.draws, tmp_path / str(trial.number)
            shutil.copytree(pristine, folder)
            bit = flip(draws.choice(FILES), draws.random(), draws.randrange(8))
            damage = first[trial.number - 1] if trial.number <= len(first) else bit
            damage(folder)
            found, damaged = checkpoint.newest(folder)
            assert found is not None
            assert found.step == 2
            assert [bad.path.name for bad in damaged] == [NEW]
            assert str(folder / NEW) in damaged[0].reason
            assert "\n" not in damaged[0].reason
            save(folder, 3)
            assert checkpoint.newest(folder)[0] == checkpoint.Checkpoint(
                folder / NEW, 3, *(getattr(checkpoint.newest(pristine)[0], name) for name in ("files", "facts"))
            )
            assert sorted(path.name for path in folder.iterdir() if path.name != "x") == [OLD, NEW]


@pytest.mark.goal("A6")
def test_all_damaged_is_not_the_same_as_none(pristine: Path, tmp_path: Path) -> None:
    folder = tmp_path / "all"
    shutil.copytree(pristine, folder)
    for path in folder.iterdir():
        (path / "state.json").write_bytes(b"")
    found, damaged = checkpoint.newest(folder)
    assert found is None
    assert [type(bad) for bad in damaged] == [Damaged, Damaged]
    assert checkpoint.newest(tmp_path / "missing") == (None, [])


@pytest.mark.goal("A6")
def test_every_bit_of_a_weights_file_counts(tmp_path: Path) -> None:
    """Also alone, without a manifest, a weights file notices every flipped bit and every cut."""
    path = tmp_path / "model.safetensors"
    arrays = {"a": np.array([1.5, -2.0], np.float32), "n": np.array([3], np.int64), "t": np.array([True, False])}
    whole = b"".join(bytes(chunk) for chunk in tensors.encode_arrays(arrays, {"config": "{}"}))
    path.write_bytes(whole)
    assert tensors.read_arrays(path).keys() == arrays.keys()
    for bit in range(8 * len(whole)):
        data = bytearray(whole)
        data[bit // 8] ^= 1 << bit % 8
        path.write_bytes(data)
        with pytest.raises(FolderError, match=r"model\.safetensors"):
            tensors.read_arrays(path)
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        with pytest.raises(FolderError):
            tensors.read_arrays(path)


def test_mutated_files_give_only_our_errors(tmp_path: Path) -> None:
    """Random edits of weights and records: an error of ours or an unharmed result, never anything else."""
    rng = random.Random(13)
    path = tmp_path / "file"
    arrays = {"a": np.arange(6.0).reshape(2, 3), "b": np.ones(4, np.float16)}
    whole = b"".join(bytes(chunk) for chunk in tensors.encode_arrays(arrays, {"config": "{}"}))
    record = records.encode({"step": 3, "list": [1, 2.5, None, True, "text"], "deep": {"a": {"b": []}}})
    for _ in range(1500):
        path.write_bytes(mutated(whole, rng))
        try:
            found = tensors.read_arrays(path)
        except DragomanError:
            continue
        assert all(np.array_equal(found[name], array) for name, array in arrays.items())
    for _ in range(1500):
        path.write_bytes(mutated(record, rng))
        with contextlib.suppress(DragomanError):
            records.encode(records.read(path))


PIECES = [b"[", b"]", b"{", b"}", b'"', b",", b":", b"-1", b"1e999", b"NaN", b"99999999999999999999", b"\xff", b"null"]
PIECES += [b"true", b"0", b"\\ud800", b"\\u0000", b'"dtype"', b'"F64"', b'"__metadata__":{},', b"[" * 3000, b"9" * 5000]


def mutated(data: bytes, rng: random.Random) -> bytes:
    result = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        start = rng.randrange(len(result) + 1)
        end = min(len(result), start + rng.choice([0, 0, 1, 2, 10]))
        source = rng.randrange(len(data))
        result[start:end] = rng.choice([rng.choice(PIECES), bytes(rng.randbytes(2)), data[source : source + 20], b""])
    return bytes(result)


@pytest.mark.goal("A6")
def test_mutated_manifests_are_never_believed(pristine: Path, tmp_path: Path) -> None:
    rng = random.Random(17)
    folder = tmp_path / "checkpoints"
    shutil.copytree(pristine, folder)
    manifest = folder / NEW / "manifest.json"
    whole = manifest.read_bytes()
    for _ in range(600):
        data = mutated(whole, rng)
        manifest.write_bytes(data)
        found, _ = checkpoint.newest(folder)
        assert found is not None
        assert found.step == (3 if data == whole else 2)
