"""What was found best counts on the machine where it was found, and nowhere else."""

import json
import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from dragoman.store import bench
from dragoman.store.bench import Best, Default

BEST = Best(2, "float32", 128, 5, 123.4, "a processor", 4, "avx2")
UNKNOWN = Default()


def test_read_where_it_was_found(tmp_path: Path) -> None:
    bench.write(tmp_path / "bench.json", BEST)
    assert bench.read(tmp_path / "bench.json", "a processor", 4, "avx2") == Default(2, "float32")
    bench.write(tmp_path / "bench.json", replace(BEST, precision="torch", threads=1))
    assert bench.read(tmp_path / "bench.json", "a processor", 4, "avx2") == Default(1, "torch")


@pytest.mark.parametrize(
    "here",
    [
        ("another", 4, "avx2"),
        ("a processor", 2, "avx2"),
        ("a processor", 4, "avx512"),
        ("a processor", 4, ""),
        ("", 0, ""),
    ],
)
def test_not_on_another_machine(tmp_path: Path, here: tuple[str, int, str]) -> None:
    bench.write(tmp_path / "bench.json", BEST)
    assert bench.read(tmp_path / "bench.json", *here) == UNKNOWN


def test_a_file_that_does_not_name_the_instruction_set(tmp_path: Path) -> None:
    """As versions before wrote them."""
    facts = {name: value for name, value in asdict(BEST).items() if name != "isa"}
    (tmp_path / "bench.json").write_text(json.dumps(facts), encoding="utf-8")
    for isa in ("avx2", ""):
        assert bench.read(tmp_path / "bench.json", "a processor", 4, isa) == UNKNOWN


@pytest.mark.parametrize(
    "changes",
    [
        {"threads": 0},
        {"threads": -1},
        {"threads": 10**9},
        {"threads": True},
        {"threads": 2.0},
        {"threads": "2"},
        {"precision": "int4"},
        {"precision": ["int8"]},
        {"precision": None},
        {"processor": None},
        {"processors": "4"},
        {"isa": None},
        {"isa": ["avx2"]},
    ],
)
def test_values_that_make_no_sense(tmp_path: Path, changes: dict[str, Any]) -> None:
    (tmp_path / "bench.json").write_text(json.dumps({**asdict(BEST), **changes}), encoding="utf-8")
    assert bench.read(tmp_path / "bench.json", "a processor", 4, "avx2") == UNKNOWN


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"null", b"{}", b'{"threads": NaN}', b"\xff", b"[" * 9000, b" " * (1 << 20) + b"{}"]
)
def test_damaged_files(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "bench.json").write_bytes(content)
    assert bench.read(tmp_path / "bench.json", "a processor", 4, "avx2") == UNKNOWN


def test_what_is_no_file(tmp_path: Path) -> None:
    assert bench.read(tmp_path / "none", "a processor", 4, "avx2") == UNKNOWN
    assert bench.read(tmp_path, "a processor", 4, "avx2") == UNKNOWN
    os.mkfifo(tmp_path / "pipe")
    assert bench.read(tmp_path / "pipe", "a processor", 4, "avx2") == UNKNOWN
