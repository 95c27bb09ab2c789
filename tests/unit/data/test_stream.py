"""Regular files only; compression told by content; damage is never taken for the end."""

import bz2
import gzip
import lzma
import os
import time
from pathlib import Path

import pytest

from dragoman.data.stream import CHUNK, head_of, open_regular, read_chunks
from dragoman.errors import DataError

TEXT = "".join(f"line {number} äöü 测试\n" for number in range(6_000)).encode()
PACK = {
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": lambda data: lzma.compress(data, preset=0),
}


def written(folder: Path, data: bytes, name: str = "file") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def whole(path: Path) -> bytes:
    return b"".join(read_chunks(path))


@pytest.mark.parametrize("kind", PACK)
def test_compression_is_told_by_content_and_not_by_name(tmp_path: Path, kind: str) -> None:
    assert whole(written(tmp_path, PACK[kind](TEXT), "plain.txt")) == TEXT


def test_a_plain_file_with_the_name_of_a_compressed_one_is_read_as_it_is(tmp_path: Path) -> None:
    assert whole(written(tmp_path, TEXT, "corpus.gz")) == TEXT


@pytest.mark.parametrize("kind", PACK)
def test_members_are_concatenated_and_padding_is_allowed(tmp_path: Path, kind: str) -> None:
    packed = PACK[kind](TEXT) + b"\0" * 8 + PACK[kind](b"more\n") + b"\0" * 512
    assert whole(written(tmp_path, packed)) == TEXT + b"more\n"


@pytest.mark.parametrize("kind", PACK)
@pytest.mark.parametrize("kept", [0.02, 0.5, 0.99])
def test_a_truncated_file_is_an_error(tmp_path: Path, kind: str, kept: float) -> None:
    packed = PACK[kind](TEXT)
    path = written(tmp_path, packed[: int(len(packed) * kept)])
    with pytest.raises(DataError, match=r"damaged or cut short.*make the file again"):
        whole(path)


@pytest.mark.parametrize("kind", PACK)
def test_a_file_cut_in_its_last_bytes_is_an_error(tmp_path: Path, kind: str) -> None:
    packed = PACK[kind](b"a\n")
    for missing in range(1, len(packed) - 14):
        path = written(tmp_path, packed[:-missing])
        with pytest.raises(DataError):
            whole(path)


@pytest.mark.parametrize("kind", PACK)
def test_trailing_garbage_is_an_error(tmp_path: Path, kind: str) -> None:
    with pytest.raises(DataError, match="damaged or cut short"):
        whole(written(tmp_path, PACK[kind](TEXT) + b"garbage"))


@pytest.mark.parametrize("kind", PACK)
def test_a_wrong_checksum_is_an_error(tmp_path: Path, kind: str) -> None:
    packed = bytearray(PACK[kind](TEXT))
    packed[len(packed) // 2] ^= 0x10
    with pytest.raises(DataError, match="damaged or cut short"):
        whole(written(tmp_path, bytes(packed)))


@pytest.mark.parametrize("kind", PACK)
def test_a_bomb_is_inflated_in_small_pieces(tmp_path: Path, kind: str) -> None:
    path = written(tmp_path, PACK[kind](bytes(5_000_000)))
    sizes = [len(chunk) for chunk in read_chunks(path)]
    assert sum(sizes) == 5_000_000
    assert max(sizes) <= 2 * CHUNK


def test_an_empty_member_is_an_empty_text(tmp_path: Path) -> None:
    assert whole(written(tmp_path, gzip.compress(b""))) == b""
    assert whole(written(tmp_path, b"")) == b""


@pytest.mark.parametrize(
    ("magic", "name"), [(b"\x28\xb5\x2f\xfd" + bytes(20), "zstd"), (b"PK\x03\x04" + bytes(20), "zip")]
)
def test_other_compressions_are_refused_by_name(tmp_path: Path, magic: bytes, name: str) -> None:
    with pytest.raises(DataError, match=rf"is .*{name}.* first"):
        whole(written(tmp_path, magic))


def test_a_pipe_is_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    begun = time.perf_counter()
    with pytest.raises(DataError, match="is a pipe, not a regular file"):
        open_regular(path)
    assert time.perf_counter() - begun < 1


@pytest.mark.parametrize(
    ("path", "what"),
    [
        (Path("/dev/zero"), "is a device"),
        (Path("/"), "Is a directory"),
        (Path("/nowhere/at/all"), "No such file"),
        (Path("nul\0byte"), "null byte"),
    ],
)
def test_what_is_no_regular_file_is_refused(path: Path, what: str) -> None:
    with pytest.raises(DataError, match=what):
        open_regular(path)


def test_an_unreadable_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(path: str, flags: int) -> int:
        raise PermissionError(13, "Permission denied", path)

    path = written(tmp_path, b"a\n")
    monkeypatch.setattr(os, "open", denied)
    with pytest.raises(DataError, match=r"cannot be opened \(Permission denied\)"):
        open_regular(path)


def test_the_head_of_a_compressed_file_is_of_its_text(tmp_path: Path) -> None:
    assert head_of(written(tmp_path, gzip.compress(TEXT)), 100) == TEXT[:100]


def test_the_first_piece_holds_the_start_also_across_members(tmp_path: Path) -> None:
    packed = b"".join(gzip.compress(bytes([letter])) for letter in TEXT[:5000])
    assert len(next(read_chunks(written(tmp_path, packed)))) >= 4096
