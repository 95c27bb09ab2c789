"""The token file: what goes in comes out, whole or not at all."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from dragoman.data import tokenfile
from dragoman.data.tokenfile import IDS, OFFSETS, TokenFile, build
from dragoman.errors import DataError
from dragoman.store.files import is_temporary


class Letters:
    """A tokenizer: each character is an id."""

    def __init__(self) -> None:
        self.largest = 0

    def encode_batch(self, texts: list[str]) -> list[list[int]]:
        self.largest = max(self.largest, len(texts))
        return [[ord(letter) for letter in text] for text in texts]


LETTERS = Letters()
PAIRS = [("ab", "c"), ("", "xyz"), ("\U0010ffff的", ""), ("ab", "c"), ("a" * 9, "b"), ("a", "b" * 9)]


def built(folder: Path, pairs: list[tuple[str, str]] = PAIRS, longest: int = 8, distinct: bool = False) -> TokenFile:
    build(folder, pairs, LETTERS, LETTERS, longest, distinct)
    return TokenFile.open(folder)


def texts(tokens: TokenFile) -> list[tuple[str, str]]:
    pairs = (tokens.pair(index) for index in range(len(tokens)))
    return [("".join(map(chr, src)), "".join(map(chr, tgt))) for src, tgt in pairs]


def test_there_and_back(tmp_path: Path) -> None:
    tokens = built(tmp_path / "train")
    assert texts(tokens) == PAIRS[:4]
    assert tokens.lengths(np.array([2, 0, 0])).tolist() == [[2, 0], [2, 1], [2, 1]]
    assert tokens.lengths(np.array([], dtype=np.int64)).shape == (0, 2)
    assert all(type(index) is int for index in tokens.pair(0)[0])


def test_what_is_dropped_is_counted(tmp_path: Path) -> None:
    counts = build(tmp_path / "all", PAIRS, LETTERS, LETTERS, 8, drop_duplicates=False)
    assert counts == {"kept": 4, "too long": 2}
    counts = build(tmp_path / "once", PAIRS, LETTERS, LETTERS, 9, drop_duplicates=True)
    assert counts == {"kept": 5, "duplicate": 1}
    assert texts(TokenFile.open(tmp_path / "once")) == [*PAIRS[:3], *PAIRS[4:]]


def test_the_sides_do_not_run_into_each_other(tmp_path: Path) -> None:
    """("ab", "c") and ("a", "bc") are two pairs."""
    assert len(built(tmp_path / "train", [("ab", "c"), ("a", "bc"), ("ab", "c")], distinct=True)) == 2


@pytest.mark.parametrize("count", [1, 6, 7, 8, 20, 21, 22])
def test_any_number_of_chunks(tmp_path: Path, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bytes do not depend on how the corpus was cut while it was built."""
    pairs = [(str(number), "x" * (number % 5)) for number in range(count)]
    whole = built(tmp_path / "whole", pairs)
    monkeypatch.setattr(tokenfile, "CHUNK", 7)
    letters = Letters()
    build(tmp_path / "parts", iter(pairs), letters, letters, 8, drop_duplicates=False)
    assert letters.largest <= 7
    for name in (IDS, OFFSETS):
        assert (tmp_path / "parts" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert len(whole) == count


def test_two_tokenizers(tmp_path: Path) -> None:
    class Lengths:
        def encode_batch(self, texts: list[str]) -> list[list[int]]:
            return [[len(text)] for text in texts]

    build(tmp_path / "train", [("ab", "xyz")], LETTERS, Lengths(), 8, drop_duplicates=False)
    assert TokenFile.open(tmp_path / "train").pair(0) == ([97, 98], [3])


def test_nothing_left(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no pair is left to train on: 2 are longer than data\.max_length=1 pieces"):
        build(tmp_path / "train", [("ab", "c"), ("a", "bc")], LETTERS, LETTERS, 1, drop_duplicates=False)
    assert list(tmp_path.iterdir()) == []


def test_an_interruption_leaves_nothing(tmp_path: Path) -> None:
    def broken() -> Iterator[tuple[str, str]]:
        yield from PAIRS
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build(tmp_path / "train", broken(), LETTERS, LETTERS, 8, drop_duplicates=False)
    assert list(tmp_path.iterdir()) == []


def test_a_killed_build_leaves_what_the_store_sweeps_away(tmp_path: Path) -> None:
    """Its unfinished folder has a name that the store knows as a leftover, and holds no other."""
    names: list[str] = []

    def watched() -> Iterator[tuple[str, str]]:
        yield from PAIRS
        names.extend(path.name for path in tmp_path.iterdir())

    build(tmp_path / "train", watched(), LETTERS, LETTERS, 8, drop_duplicates=False)
    assert len(names) == 1
    assert is_temporary(names[0])


def test_a_full_disk_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(tokenfile.os, "fsync", full)
    with pytest.raises(DataError, match=r"cannot write the token file .*train: No space left on device"):
        built(tmp_path / "train")
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_is_not_overwritten(tmp_path: Path) -> None:
    built(tmp_path / "train")
    with pytest.raises(DataError, match="not empty"):
        build(tmp_path / "train", [("x", "y")], LETTERS, LETTERS, 8, drop_duplicates=False)
    assert texts(TokenFile.open(tmp_path / "train")) == PAIRS[:4]


@pytest.mark.parametrize("name", [IDS, OFFSETS])
@pytest.mark.parametrize("damage", ["missing", "empty", "cut", "cut by a byte", "longer"])
def test_damage_is_refused(tmp_path: Path, name: str, damage: str) -> None:
    built(tmp_path / "train")
    path = tmp_path / "train" / name
    content = path.read_bytes()
    path.unlink()
    if damage != "missing":
        cut = {"empty": b"", "cut": content[:-16], "cut by a byte": content[:-1], "longer": content + bytes(8)}
        path.write_bytes(cut[damage])
    with pytest.raises(DataError, match="delete that folder, it is built again"):
        TokenFile.open(tmp_path / "train")


def test_opening_reads_nothing(tmp_path: Path) -> None:
    tokens = built(tmp_path / "train")
    assert isinstance(tokens.offsets, np.memmap)
    assert not tokens.offsets.flags.writeable


def test_a_file_cut_short_under_its_reader_is_an_error(tmp_path: Path) -> None:
    tokens = built(tmp_path / "train")
    os.truncate(tmp_path / "train" / IDS, 4)
    with pytest.raises(DataError, match="was cut short while it was read"):
        texts(tokens)
