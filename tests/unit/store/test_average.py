import itertools
from pathlib import Path

import numpy as np
import pytest
import torch

from dragoman.errors import FolderError
from dragoman.store import tensors
from dragoman.store.average import average


def write(path: Path, seed: int, **more: torch.Tensor) -> Path:
    generator = torch.Generator().manual_seed(seed)
    made = {"w": torch.randn(7, 3, generator=generator), "h": torch.randn(5, generator=generator).half()}
    tensors.write_tensors(
        path,
        {**made, "count": torch.tensor([4, 5]), "mask": torch.tensor([True]), "gain": torch.tensor(1.5), **more},
        {},
    )
    return path


def test_mean_in_float64(tmp_path: Path) -> None:
    paths = [write(tmp_path / str(seed), seed) for seed in range(5)]
    read = [tensors.read_arrays(path) for path in paths]
    found = average(paths)
    for name in ("w", "h"):
        exact = np.mean([one[name].astype(np.float64) for one in read], axis=0)
        assert found[name].dtype == read[0][name].dtype
        np.testing.assert_array_equal(found[name], exact.astype(found[name].dtype))
    assert found["count"].tolist() == [4, 5]
    assert found["mask"].tolist() == [True]
    assert found["gain"].shape == ()
    assert all(type(array) is np.ndarray for array in found.values())


def test_the_mean_of_copies_is_the_file(tmp_path: Path) -> None:
    path = write(tmp_path / "a", 1)
    for copies in (1, 2, 3, 7):
        found = average([path] * copies)
        for name, array in tensors.read_arrays(path).items():
            np.testing.assert_array_equal(found[name], array)
            assert found[name].dtype == array.dtype


def test_any_order_and_any_number_of_times(tmp_path: Path) -> None:
    paths = [write(tmp_path / str(seed), seed) for seed in range(3)]
    before = [path.read_bytes() for path in paths]
    first = average(paths)
    for order in itertools.permutations(paths):
        for name, array in average(order).items():
            np.testing.assert_allclose(array, first[name], rtol=1e-7)
    assert [path.read_bytes() for path in paths] == before


def test_differences_are_named(tmp_path: Path) -> None:
    first = write(tmp_path / "a", 1)
    more = write(tmp_path / "b", 1, extra=torch.ones(1))
    with pytest.raises(FolderError, match=r"extra is missing in .*/a and F32 \[1\] in .*/b"):
        average([first, more])
    with pytest.raises(FolderError, match=r"extra is F32 \[1\] in .*/b and missing in .*/a"):
        average([more, first])
    with pytest.raises(FolderError, match=r"w is F32 \[7, 3\] in .*/a and F32 \[2\] in .*/b"):
        average([first, write(tmp_path / "b", 1, w=torch.ones(2))])
    with pytest.raises(FolderError, match=r"the integers of count in .*/b are not those before"):
        average([first, write(tmp_path / "b", 1, count=torch.tensor([4, 6]))])


def test_nothing_and_damaged_files(tmp_path: Path) -> None:
    with pytest.raises(FolderError, match="nothing to average"):
        average([])
    first, other = write(tmp_path / "a", 1), write(tmp_path / "b", 2)
    data = bytearray(other.read_bytes())
    data[-1] ^= 1
    other.write_bytes(data)
    with pytest.raises(FolderError, match="/b is damaged"):
        average([first, other])


def test_bfloat16_becomes_float32(tmp_path: Path) -> None:
    for name, value in (("a", 1.0), ("b", 1.0078125)):
        tensors.write_tensors(tmp_path / name, {"w": torch.tensor([value]).bfloat16()}, {})
    found = average([tmp_path / "a", tmp_path / "b"])
    assert found["w"].dtype == np.float32
    assert found["w"].tolist() == [1.00390625]
