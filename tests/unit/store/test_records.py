from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.errors import FolderError
from dragoman.store import records

scalars = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20)
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)


@settings(max_examples=60, deadline=None)
@given(values)
def test_round_trip(value: records.Json) -> None:
    assert records.decode(records.encode(value), "it") == value


def test_equal_values_give_equal_bytes_and_digests() -> None:
    one, other = {"a": 1, "b": [1, 2]}, {"b": [1, 2], "a": 1}
    assert records.encode(one) == records.encode(other)
    assert records.digest(one) == records.digest(other)
    assert records.digest(one) != records.digest({"a": 1, "b": [2, 1]})


def test_file(tmp_path: Path) -> None:
    records.write(tmp_path / "it.json", {"ä": 1.5})
    assert records.read(tmp_path / "it.json") == {"ä": 1.5}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "\ud800", {1, 2}])
def test_what_has_no_json_form_is_refused(value: records.Json) -> None:
    with pytest.raises(FolderError, match="cannot be written as JSON"):
        records.encode({"key": value})


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"{'a': 1}",
        b'{"a": 1, "a": 1}',
        b'{"a": NaN}',
        b"[-Infinity]",
        b"[1e999]",
        b"[1] [2]",
        b"\xef\xbb\xbf{}",
        b"\xff",
        b"9" * 5000,
        b"[" * 100_000,
        b'{"a":' * 100_000,
    ],
)
def test_what_only_looks_like_json_is_refused(data: bytes) -> None:
    with pytest.raises(FolderError, match=r"state\.json is (damaged|nested too deeply)"):
        records.decode(data, "state.json")
