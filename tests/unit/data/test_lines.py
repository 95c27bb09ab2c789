"""Bytes to lines: LF and nothing else, strict UTF-8, faults with file, line and byte."""

import gzip
import io
import itertools
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman.data.lines import Fault, FileFacts, Splitter, read_blocks, read_lines, read_stream, split_blocks
from dragoman.errors import DataError

SEPARATORS = {
    "LS": "\u2028",
    "PS": "\u2029",
    "NEL": "\x85",
    "VT": "\v",
    "FF": "\f",
    "FS": "\x1c",
    "GS": "\x1d",
    "RS": "\x1e",
    "CR": "\r",
}


def written(folder: Path, data: bytes, name: str = "text") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def lines_of(folder: Path, data: bytes) -> list[str]:
    return list(read_lines(written(folder, data)))


@pytest.mark.parametrize("name", SEPARATORS)
def test_other_separators_are_ordinary_characters(tmp_path: Path, name: str) -> None:
    odd = f"a{SEPARATORS[name]}b"
    text = f"1\n{odd}\n3\n4\n"
    assert lines_of(tmp_path, text.encode()) == ["1", odd, "3", "4"]
    assert lines_of(tmp_path, gzip.compress(text.encode())) == ["1", odd, "3", "4"]
    assert list(read_stream(io.BytesIO(text.encode()))) == ["1", odd, "3", "4"]


def test_all_separators_in_one_line(tmp_path: Path) -> None:
    odd = "x".join(SEPARATORS.values())
    assert len(odd.splitlines()) == 9
    assert lines_of(tmp_path, f"{odd}y\nz\n".encode()) == [f"{odd}y", "z"]


def test_the_last_line_counts_with_and_without_line_feed(tmp_path: Path) -> None:
    assert lines_of(tmp_path, b"a\nb") == ["a", "b"]
    assert lines_of(tmp_path, b"a\nb\n") == ["a", "b"]
    assert lines_of(tmp_path, b"a\nb\n\n") == ["a", "b", ""]
    assert lines_of(tmp_path, b"\n") == [""]
    assert lines_of(tmp_path, b"") == []


def test_one_carriage_return_before_the_line_feed_is_removed(tmp_path: Path) -> None:
    assert lines_of(tmp_path, b"a\r\nb\r\r\nc\rd\ne\r") == ["a", "b\r", "c\rd", "e"]


def test_the_line_ends_are_counted(tmp_path: Path) -> None:
    facts = FileFacts("text")
    list(read_blocks(written(tmp_path, b"\xef\xbb\xbfa\r\nb\nc\r\nd"), facts))
    assert facts == FileFacts("text", lines=4, bytes=12, crlf=2, bom=True, final_newline=False)


def test_an_old_mac_file_is_refused_with_a_hint(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"text: no line feed, but carriage returns.*tr '\\r' '\\n'"):
        lines_of(tmp_path, b"a\rb\rc\r")
    with pytest.raises(DataError, match="carriage returns"):
        lines_of(tmp_path, b"word word\r" * 200_000)


def test_a_byte_order_mark_is_removed_at_the_start_only(tmp_path: Path) -> None:
    text = "\ufeffa\n\ufeffb\n"
    assert lines_of(tmp_path, text.encode()) == ["a", "\ufeffb"]
    assert list(read_stream(io.BytesIO(text.encode()))) == ["a", "\ufeffb"]
    assert lines_of(tmp_path, b"\xef\xbb\xbf") == []


@pytest.mark.parametrize("text", ["Hello there,\nworld of text.\n", "测试一下，\n你好 123\n" * 9, "Привет,\nмир\n" * 9])
@pytest.mark.parametrize("encoding", ["UTF-16LE", "UTF-16BE", "UTF-32LE", "UTF-32BE"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_wide_encodings_are_refused_by_name(tmp_path: Path, text: str, encoding: str, mark: str) -> None:
    with pytest.raises(DataError, match=rf"is {encoding}, not UTF-8; convert it with `iconv -f {encoding}"):
        lines_of(tmp_path, (mark + text).encode(encoding.lower()))


@pytest.mark.parametrize("text", ["a\0b\n", "ab\0c", "\0\0\0\0\n", "测\0试\n" * 3000, "\0" * 5000])
def test_zeros_alone_are_no_wide_encoding(tmp_path: Path, text: str) -> None:
    assert list(read_lines(written(tmp_path, text.encode()), keep_controls=True)) == text.removesuffix("\n").split("\n")


@pytest.mark.parametrize(
    ("bad", "at"),
    [
        (b"caf\xe9", 3),
        (b"\xc0\xaf", 0),
        (b"\xed\xa0\x80", 0),
        (b"ab\xe6\xb5", 2),
        (b"\xff", 0),
        (b"\xf4\x90\x80\x80", 0),
        (b"x\x80", 1),
    ],
    ids=["latin-1", "overlong", "surrogate", "truncated", "ff", "beyond", "lone-continuation"],
)
def test_invalid_utf8_is_refused_with_line_and_byte(tmp_path: Path, bad: bytes, at: int) -> None:
    data = "ä\n".encode() + b"fine\n" + bad + b"\nfine\n"
    place = rf"text, line 3, byte {8 + at}: byte 0x[0-9A-F]{{2}} is not valid UTF-8.*iconv"
    with pytest.raises(DataError, match=place):
        lines_of(tmp_path, data)
    lines = read_lines(written(tmp_path, data))
    assert [next(lines), next(lines)] == ["ä", "fine"]


def test_the_byte_counts_a_removed_mark_and_carriage_returns(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="line 2, byte 7"):
        lines_of(tmp_path, b"\xef\xbb\xbfa\r\nb\xff\n")


@pytest.mark.parametrize("code", [0, 1, 7, 8, 0x0E, 0x1B, 0x1F, 0x7F, 0x80, 0x84, 0x86, 0x9F])
def test_control_characters_are_refused_or_kept(tmp_path: Path, code: int) -> None:
    data = f"fine\na{chr(code)}b\nfine\n".encode()
    with pytest.raises(DataError, match=rf"line 2, byte 6: control character U\+{code:04X}"):
        lines_of(tmp_path, data)
    kept = list(read_lines(written(tmp_path, data), keep_controls=True))
    assert kept == ["fine", f"a{chr(code)}b", "fine"]


def test_neighbours_of_the_controls_are_text(tmp_path: Path) -> None:
    text = "\ta\xa0b ~\xad¡Â\u0100"
    assert lines_of(tmp_path, f"{text}\n".encode()) == [text]


def test_a_line_up_to_the_limit_is_kept_and_a_longer_one_refused(tmp_path: Path) -> None:
    for ending in (b"\n", b"\r\n", b""):
        data = b"a\n" + b"x" * 50 + ending
        assert list(read_lines(written(tmp_path, data), line_limit=50)) == ["a", "x" * 50]
    with pytest.raises(DataError, match=r"line 2, byte 2: the line has 51 bytes, more than the 50 allowed; split"):
        list(read_lines(written(tmp_path, b"a\n" + b"x" * 51 + b"\n"), line_limit=50))


def test_a_huge_line_costs_no_memory_and_the_next_ones_keep_their_numbers(tmp_path: Path) -> None:
    facts = FileFacts("text")
    splitter = Splitter(facts)
    pieces = itertools.chain([b"one\n"], itertools.repeat(b"x" * 100_000, 300), [b"\nthree\nf\xff\n"])
    blocks = list(split_blocks(pieces, splitter))
    defects = {number: defect for block in blocks for number, defect in block.defects.items()}
    assert [line for block in blocks for line in block.lines] == ["one", "", "three", ""]
    assert defects[2].fault is Fault.LENGTH
    assert "30,000,000 bytes" in defects[2].tale
    assert defects[4].offset == 4 + 30_000_001 + 6 + 1


def test_offsets_beyond_four_gigabytes() -> None:
    splitter = Splitter(FileFacts("text"))
    piece = b"y" * (1 << 26)
    pieces = itertools.chain(itertools.repeat(piece, 66), [b"\nbad\xff\n"])
    blocks = list(split_blocks(pieces, splitter))
    assert blocks[-1].defects[2].offset == 66 * (1 << 26) + 1 + 3


@pytest.mark.parametrize("size", [1, 2, 3, 8, 60, 1000])
def test_lines_do_not_depend_on_where_the_bytes_are_cut(size: int) -> None:
    text = "".join(f"{number} äöü 测试 🙂\r\n\n" for number in range(300)) + "x" * 900 + "\nlast"
    data = text.encode()

    def pieces(step: int) -> Iterator[bytes]:
        return (data[start : start + step] for start in range(0, len(data), step))

    def lines(step: int) -> tuple[list[str], FileFacts]:
        facts = FileFacts("text")
        blocks = split_blocks(pieces(step), Splitter(facts))
        return [line for block in blocks for line in block.lines], facts

    assert lines(size) == lines(len(data))
    assert len(lines(size)[0]) == 602


def test_a_stream_gives_each_line_as_soon_as_it_is_there() -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as stream, os.fdopen(writing, "wb", buffering=0) as sink:
        lines = read_stream(stream)
        sink.write(b"first\n")
        assert next(lines) == "first"
        sink.write("zweite, län".encode())
        threading.Timer(0.05, lambda: sink.write(b"ger\r\n\n")).start()
        assert next(lines) == "zweite, länger"
        assert next(lines) == ""
        sink.write(b"no end")
        sink.close()
        assert list(lines) == ["no end"]


def test_a_stream_is_as_strict_as_a_file() -> None:
    for data, what in (
        (b"a\n\xff\n", "standard input, line 2, byte 2"),
        (b"a\n\x01\n", r"U\+0001"),
        (b"a\rb", "carriage"),
    ):
        with pytest.raises(DataError, match=what):
            list(read_stream(io.BytesIO(data)))
    with pytest.raises(DataError, match=r"compressed with gzip; .*gzip -dc"):
        list(read_stream(io.BytesIO(gzip.compress(b"a\n"))))
    with pytest.raises(DataError, match=r"stdin, line 2.*more than the 10"):
        list(read_stream(io.BytesIO(b"a\n" + b"b" * 11 + b"\n"), "stdin", line_limit=10))
