import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from dragoman.errors import FolderError
from dragoman.store import records, tensors

ALL_DTYPES = (
    *(torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16),
    *(torch.int8, torch.uint64, torch.uint32, torch.uint16, torch.uint8, torch.bool),
)


def some_tensors() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    made = {str(dtype)[6:]: (torch.rand(3, 5, generator=generator) * 2).to(dtype) for dtype in ALL_DTYPES}
    return {**made, "scalar": torch.tensor(2.5), "empty": torch.empty(0, 4), "strided": torch.arange(6.0).view(2, 3).T}


def forge(path: Path, entries: Mapping[str, Any], data: bytes = b"", version: str = "1", **more: Any) -> None:
    """A file whose header has the right SHA-256, so that only the checks behind it can refuse it."""
    metadata = {"format_version": version, "sha256": "0" * 64}
    header = {**entries, "__metadata__": metadata, **more}
    header["__metadata__"] = {**metadata, "header_sha256": records.digest(header)}
    write_header(path, json.dumps(header).encode(), data)


def write_header(path: Path, header: bytes, data: bytes = b"") -> None:
    path.write_bytes(len(header).to_bytes(8, "little") + header + data)


def entry(dtype: Any, shape: Any, *offsets: Any) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": list(offsets)}


def test_round_trip_of_every_dtype(tmp_path: Path) -> None:
    path, made = tmp_path / "model.safetensors", some_tensors()
    tensors.write_tensors(path, made, {"note": "ä {} :"})
    found = tensors.read_tensors(path, tensors.specs(made))
    assert found.keys() == made.keys()
    for name, tensor in made.items():
        assert found[name].dtype == tensor.dtype
        assert torch.equal(found[name], tensor), name
    assert tensors.read_header(path).metadata == {"note": "ä {} :"}
    assert tensors.read_header(path).specs == tensors.specs(made)


def test_the_reference_library_reads_what_we_write(tmp_path: Path) -> None:
    path, made = tmp_path / "model.safetensors", some_tensors()
    tensors.write_tensors(path, made, {})
    found = safetensors.torch.load_file(path)
    assert found.keys() == made.keys()
    assert all(torch.equal(found[name], tensor) for name, tensor in made.items())


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(
        st.from_regex(r"[A-Za-z0-9_\-/]{1,20}", fullmatch=True),
        npst.arrays(
            st.sampled_from([np.dtype(name) for name in ("<f8", "<f4", "<f2", "<i8", "|u1", "|b1")]),
            npst.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4),
            elements={"allow_nan": False, "allow_infinity": False},
        ),
        max_size=5,
    )
)
def test_round_trip_of_arrays(tmp_path_factory: pytest.TempPathFactory, arrays: dict[str, tensors.Array]) -> None:
    path = tmp_path_factory.mktemp("arrays") / "file"
    content = b"".join(bytes(chunk) for chunk in tensors.encode_arrays(arrays, {"a": "b"}))
    path.write_bytes(content)
    found = tensors.read_arrays(path)
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)
    theirs = safetensors.numpy.load(content)
    assert all(np.array_equal(theirs[name], array) for name, array in arrays.items())


def test_equal_tensors_give_equal_bytes_in_any_order() -> None:
    made = some_tensors()
    turned = dict(reversed(made.items()))
    assert tensors.encode_tensors(made, {"a": "1", "b": "2"}) == tensors.encode_tensors(turned, {"b": "2", "a": "1"})


def test_tensors_lie_where_their_dtype_wants_them(tmp_path: Path) -> None:
    tensors.write_tensors(tmp_path / "file", some_tensors(), {"odd": "x" * 13})
    with (tmp_path / "file").open("rb") as file:
        assert int.from_bytes(file.read(8), "little") % 8 == 0
    for one in tensors.read_header(tmp_path / "file").entries:
        assert one.begin % np.dtype(tensors._NUMPY[one.dtype]).itemsize == 0


def test_bfloat16_becomes_float32_without_torch(tmp_path: Path) -> None:
    made = {"w": torch.tensor([1.5, -0.125, 3e38, 0.0]).bfloat16()}
    tensors.write_tensors(tmp_path / "file", made, {})
    array = tensors.read_arrays(tmp_path / "file")["w"]
    assert array.dtype == np.float32
    np.testing.assert_array_equal(array, made["w"].float().numpy())


def test_reading_arrays_needs_no_torch(tmp_path: Path) -> None:
    tensors.write_tensors(tmp_path / "file", {"w": torch.ones(2)}, {})
    program = (
        "import sys; from pathlib import Path; from dragoman.store import tensors, checkpoint, folder, average;"
        "tensors.read_arrays(Path(sys.argv[1])); raise SystemExit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program, str(tmp_path / "file")]).returncode == 0


def test_tensors_do_not_share_memory_with_each_other(tmp_path: Path) -> None:
    tensors.write_tensors(tmp_path / "file", {"a": torch.ones(2), "b": torch.ones(2)}, {})
    found = tensors.read_tensors(tmp_path / "file")
    found["a"].zero_()
    assert found["b"].tolist() == [1.0, 1.0]


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_values_that_are_not_finite_are_neither_written_nor_read(
    bad: float, dtype: torch.dtype, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, made = tmp_path / "file", {"w": torch.ones(3, 3, dtype=dtype)}
    made["w"][2, 1] = bad
    with pytest.raises(FolderError, match="tensor w is not saved: it holds NaN or infinity"):
        tensors.write_tensors(path, made, {})
    assert not path.exists()
    with monkeypatch.context() as patch:
        patch.setattr(tensors, "_check_values", lambda *_: None)
        tensors.write_tensors(path, made, {})
    with pytest.raises(FolderError, match="file is damaged: tensor w holds NaN or infinity"):
        tensors.read_tensors(path)


def test_one_nan_in_a_large_tensor_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensors, "_SCAN", 100)
    array = np.ones(1050)
    array[1049] = np.nan
    with pytest.raises(FolderError, match="holds NaN"):
        tensors.encode_arrays({"w": array}, {})


def test_a_truth_value_is_0_or_1(tmp_path: Path) -> None:
    forge(tmp_path / "file", {"t": entry("BOOL", [2], 0, 2)}, b"\x01\x02")
    with pytest.raises(FolderError, match="neither true nor false"):
        tensors.read_arrays(tmp_path / "file")


@pytest.mark.parametrize("name", ["", "a b", "..", "a/../b", "ä", "a" * 257, "a\n"])
def test_names_that_are_not_stored(name: str, tmp_path: Path) -> None:
    with pytest.raises(FolderError, match="is not a name for a tensor"):
        tensors.encode_arrays({name: np.ones(1)}, {})
    forge(tmp_path / "file", {name: entry("U8", [0], 0, 0)})
    with pytest.raises(FolderError, match="is not a name for a tensor"):
        tensors.read_header(tmp_path / "file")


def test_dtypes_that_are_not_stored() -> None:
    with pytest.raises(FolderError, match="tensor c has dtype complex128, which is not stored"):
        tensors.encode_arrays({"c": np.ones(1, complex)}, {})
    with pytest.raises(FolderError, match=r"tensor c has dtype torch\.complex64, which is not stored"):
        tensors.encode_tensors({"c": torch.ones(1, dtype=torch.complex64)}, {})


def test_too_many_tensors_for_one_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensors, "MAX_TENSORS", 2)
    with pytest.raises(FolderError, match="3 tensors are too many for one file; at most 2"):
        tensors.encode_arrays({name: np.ones(1) for name in "abc"}, {})


@pytest.mark.parametrize(
    ("expected", "words"),
    [
        ({"a": ((2, 3), "F32"), "b": ((1,), "I64"), "c": ((), "F32")}, "it has no tensor c"),
        ({"a": ((2, 3), "F32")}, "its tensor b has no place in the model"),
        ({"a": ((3, 2), "F32"), "b": ((1,), "I64")}, r"tensor a is F32 \[2, 3\], not F32 \[3, 2\]"),
        ({"a": ((2, 3), "F16"), "b": ((1,), "I64")}, r"tensor a is F32 \[2, 3\], not F16 \[2, 3\]"),
    ],
)
def test_what_the_configuration_implies_is_compared_first(
    expected: dict[str, tensors.Spec], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tensors.write_tensors(tmp_path / "file", {"a": torch.ones(2, 3), "b": torch.tensor([1])}, {})
    monkeypatch.setattr(tensors.np, "empty", lambda *_: pytest.fail("allocated before it was compared"))
    with pytest.raises(FolderError, match=f"does not fit the configuration: {words}"):
        tensors.read_tensors(tmp_path / "file", expected)


def test_specs_of_a_model_that_is_not_allocated() -> None:
    module = torch.nn.Linear(1_000_000, 1_000_000, device="meta")
    assert tensors.specs(module.state_dict())["weight"] == ((1_000_000, 1_000_000), "F32")


GOOD = entry("U8", [2], 0, 2)
FORGED = {
    "overlap": ({"a": GOOD, "b": entry("U8", [2], 1, 3)}, b"123", "gap or an overlap before tensor b"),
    "gap": ({"a": GOOD, "b": entry("U8", [1], 3, 4)}, b"1234", "gap or an overlap before tensor b"),
    "late start": ({"a": entry("U8", [1], 1, 2)}, b"12", "gap or an overlap before tensor a"),
    "trailing bytes": ({"a": GOOD}, b"123", "its tensors take 2 bytes, the file holds 3"),
    "cut": ({"a": GOOD}, b"1", "its tensors take 2 bytes, the file holds 1"),
    "beyond the file": ({"a": entry("U8", [1 << 40], 0, 1 << 40)}, b"12", "its tensors take"),
    "backwards": ({"a": entry("U8", [2], 2, 0)}, b"12", "does not fill its byte range"),
    "wrong size": ({"a": entry("F32", [2], 0, 2)}, b"12", "does not fill its byte range"),
    "negative shape": ({"a": entry("U8", [-1, -2], 0, 2)}, b"12", "impossible shape or byte range"),
    "negative offset": ({"a": entry("U8", [2], -2, 0)}, b"12", "impossible shape or byte range"),
    "true as a shape": ({"a": entry("U8", [True, 2], 0, 2)}, b"12", "impossible shape or byte range"),
    "float as a shape": ({"a": entry("U8", [2.0], 0, 2)}, b"12", "impossible shape or byte range"),
    "text as a shape": ({"a": entry("U8", "2", 0, 2)}, b"12", "impossible shape or byte range"),
    "three offsets": ({"a": entry("U8", [2], 0, 1, 2)}, b"12", "impossible shape or byte range"),
    "one offset": ({"a": entry("U8", [2], 0)}, b"12", "impossible shape or byte range"),
    "many dimensions": ({"a": entry("U8", [1] * 9, 0, 1)}, b"1", "impossible shape or byte range"),
    "overflow": ({"a": entry("F64", [1 << 62, 4], 0, 0)}, b"", "has an impossible shape"),
    "overflow to zero": ({"a": entry("F64", [0, 1 << 62], 0, 0)}, b"", "has an impossible shape"),
    "unknown dtype": ({"a": entry("F8_E4M3", [2], 0, 2)}, b"12", "a dtype that is not read: 'F8_E4M3'"),
    "list as a dtype": ({"a": entry(["U8"], [2], 0, 2)}, b"12", "a dtype that is not read"),
    "missing key": ({"a": {"dtype": "U8", "shape": [2]}}, b"12", "is not described by"),
    "one key more": ({"a": {**GOOD, "more": 1}}, b"12", "is not described by"),
    "not an object": ({"a": [1, 2]}, b"12", "is not described by"),
}


@pytest.mark.parametrize("case", FORGED)
def test_forged_headers(case: str, tmp_path: Path) -> None:
    entries, data, words = FORGED[case]
    forge(tmp_path / "model.safetensors", entries, data)
    with pytest.raises(FolderError, match=rf"model\.safetensors.*{words}"):
        tensors.read_arrays(tmp_path / "model.safetensors")


def test_versions_and_foreign_files(tmp_path: Path) -> None:
    path = tmp_path / "file"
    forge(path, {}, version="2")
    with pytest.raises(FolderError, match="format version 2, newer than 1: upgrade dragoman"):
        tensors.read_header(path)
    safetensors.torch.save_file({"w": torch.ones(2)}, path)
    with pytest.raises(FolderError, match="not written by dragoman: it has no metadata"):
        tensors.read_header(path)
    safetensors.torch.save_file({"w": torch.ones(2)}, path, {"format": "pt"})
    with pytest.raises(FolderError, match="not written by dragoman: its metadata lack version"):
        tensors.read_header(path)
    for metadata in ([], {"format_version": 1}, None):
        write_header(path, json.dumps({"__metadata__": metadata}).encode())
        with pytest.raises(FolderError, match="it has no metadata"):
            tensors.read_header(path)


def test_exchanged_names_are_noticed(tmp_path: Path) -> None:
    tensors.write_tensors(tmp_path / "file", {"aa": torch.ones(2), "bb": torch.zeros(2)}, {})
    data = (tmp_path / "file").read_bytes()
    (tmp_path / "file").write_bytes(data.replace(b"aa", b"xx").replace(b"bb", b"aa").replace(b"xx", b"bb"))
    with pytest.raises(FolderError, match="the SHA-256 of its header"):
        tensors.read_tensors(tmp_path / "file")


BOMBS = {
    "empty file": b"",
    "seven bytes": b"1234567",
    "length 2^63": (1 << 63).to_bytes(8, "little") + b"{}",
    "length 0": bytes(8),
    "header of 17 MiB": (17 << 20).to_bytes(8, "little") + b" " * (17 << 20),
    "longer than the file": (100).to_bytes(8, "little") + b"{}",
}
HEADERS = {
    "no object": b"[]",
    "mark of byte order": b"\xef\xbb\xbf{}",
    "leading blank": b" {}",
    "deep": b'{"a":' * 30_000,
    "deep list": b'{"a":' + b"[" * 200_000,
    "millions of lists": b'{"a":[' + b"[]," * 3_000_000 + b"1]}",
    "millions of objects": b'{"a":[' + b"{}," * 3_000_000 + b"1]}",
    "millions of numbers": b'{"a":[' + b"1," * 6_000_000 + b"1]}",
    "millions of keys": b"{" + b",".join(b'"%d":1' % number for number in range(1_000_000)) + b"}",
    "one long number": b'{"a":' + b"9" * 10_000_000 + b"}",
    "twice the same key": b'{"a":1,"a":1}',
    "not a number": b'{"a":NaN}',
    "not utf-8": b'{"\xff":1}',
    "half a surrogate": b'{"__metadata__":{"format_version":"1","sha256":"\\ud800","header_sha256":""}}',
    "too large a number": b'{"a":1e999,"__metadata__":{"format_version":"1","sha256":"","header_sha256":""}}',
}


@pytest.mark.parametrize("case", [*BOMBS, *HEADERS])
def test_bombs_are_refused_at_once_and_without_memory(case: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(BOMBS[case]) if case in BOMBS else write_header(path, HEADERS[case])
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    with pytest.raises(FolderError, match="file"):
        tensors.read_arrays(path)
    assert time.process_time() - start < 1.0
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10


def test_a_hundred_thousand_tensors_are_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    forge(path, {f"t{number}": entry("U8", [1], number, number + 1) for number in range(30)}, bytes(30))
    assert len(tensors.read_header(path).entries) == 30
    monkeypatch.setattr(tensors, "MAX_TENSORS", 29)
    with pytest.raises(FolderError, match="30 tensors; at most 29"):
        tensors.read_header(path)


def test_a_file_that_claims_terabytes_costs_nothing(tmp_path: Path) -> None:
    """A sparse file: its header fits its size, but not the configuration."""
    path = tmp_path / "file"
    forge(path, {"w": entry("F32", [1 << 35], 0, 1 << 37)})
    os.truncate(path, path.stat().st_size + (1 << 37))
    with pytest.raises(FolderError, match=r"tensor w is F32 \[34359738368\], not F32 \[8, 8\]"):
        tensors.read_arrays(path, {"w": ((8, 8), "F32")})


# Mapped --------------------------------------------------------------------------------------------------------------


def aligned_arrays() -> dict[str, tensors.Array]:
    return {
        "bytes": np.arange(128, dtype=np.int8).reshape(2, 64),
        "floats": np.linspace(-1, 1, 32, dtype=np.float32).reshape(16, 2),
        "ints": np.arange(16, dtype=np.int32),
    }


def write_arrays(
    path: Path, arrays: Mapping[str, tensors.Array], metadata: Mapping[str, str]
) -> dict[str, tensors.Spec]:
    path.write_bytes(b"".join(bytes(chunk) for chunk in tensors.encode_arrays(arrays, metadata)))
    return dict(tensors.read_header(path).specs)


@pytest.mark.parametrize("odd", ["", "x", "x" * 13, "x" * 64])
def test_mapped_arrays_are_aligned_and_read_only(tmp_path: Path, odd: str) -> None:
    path, made = tmp_path / "file", aligned_arrays()
    specs = write_arrays(path, made, {"odd": odd})
    found = tensors.Mapped(path).arrays(specs)
    assert found.keys() == made.keys()
    for name, array in made.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].dtype == array.dtype
        assert found[name].ctypes.data % 64 == 0
        assert not found[name].flags.writeable
    theirs = safetensors.numpy.load(path.read_bytes())
    assert all(np.array_equal(theirs[name], array) for name, array in made.items())


def test_a_mapping_outlives_the_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    specs = write_arrays(path, aligned_arrays(), {})
    found = tensors.Mapped(path).arrays(specs)
    path.with_name("new").write_bytes(b"another")
    path.with_name("new").replace(path)
    np.testing.assert_array_equal(found["ints"], np.arange(16))


def test_every_damaged_byte_is_noticed_when_mapped(tmp_path: Path) -> None:
    path = tmp_path / "file"
    specs = write_arrays(path, aligned_arrays(), {"a": "b"})
    whole = path.read_bytes()
    for place in range(0, len(whole), 7):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(FolderError, match="file "):
            tensors.Mapped(path).arrays(specs)
    for length in (0, 7, 8, 100, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(FolderError, match="file is damaged"):
            tensors.Mapped(path).arrays(specs)


def test_what_cannot_be_mapped_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    specs = write_arrays(path, {**aligned_arrays(), "few": np.ones(3, np.float32)}, {})
    with pytest.raises(FolderError, match="cannot be mapped: its tensors do not begin at multiples of 64 bytes"):
        tensors.Mapped(path).arrays(specs)
    specs = write_arrays(path, aligned_arrays(), {})
    with pytest.raises(FolderError, match="it has no tensor more"):
        tensors.Mapped(path).arrays({**specs, "more": ((1,), "F32")})
    with pytest.raises(FolderError, match=r"tensor ints is I32 \[16\], not I32 \[17\]"):
        tensors.Mapped(path).arrays({**specs, "ints": ((17,), "I32")})


def test_mapped_values_must_be_finite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    with monkeypatch.context() as patch:
        patch.setattr(tensors, "_check_values", lambda *_: None)
        specs = write_arrays(path, {"w": np.full(16, np.nan, np.float32)}, {})
    with pytest.raises(FolderError, match="tensor w holds NaN or infinity"):
        tensors.Mapped(path).arrays(specs)


def test_nothing_at_all_can_be_mapped(tmp_path: Path) -> None:
    specs = write_arrays(tmp_path / "file", {}, {})
    assert tensors.Mapped(tmp_path / "file").arrays(specs) == {}
