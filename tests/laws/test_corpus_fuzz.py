"""The law of the corpus reader: whatever happens to the bytes, either a DataError, or pair i is still pair i.

Good files are damaged at random (the seed is in the test's name) and read again. What is read is compared with a reader
that is too simple to be wrong, and the numbers that stand three times in each text of a pair must agree.
"""

import csv
import gzip
import io
import json
import random
import re
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dragoman.data.corpus import Corpus, open_corpus
from dragoman.data.lines import CONTROLS
from dragoman.data.pair import is_blank
from dragoman.errors import DataError

PAIRS = 40
CASES = 25
BATCHES = range(4)

ODD = [
    b"\n",
    b"\r\n",
    b"\r",
    b"\t",
    b"\0",
    b"\xff",
    b'"',
    b",",
    b"\\",
    b"{",
    b"\xe2\x80\xa8",
    b"\xc2\x85",
    b"\x0c",
    b"\xed\xa0\x80",
]

Row = tuple[str, str]


def good_rows() -> list[Row]:
    return [
        (
            f"<{number}> the größte <{number}> house 🙂, \u2028 \\ <{number}>",
            f"<{number}> 这是 \x85 “第” <{number}> 行 <{number}>",
        )
        for number in range(PAIRS)
    ]


def damage(data: bytes, rng: random.Random) -> bytes:
    """One to three random injuries."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        at = rng.randrange(len(data) + 1)
        end = min(len(data), at + rng.choice((1, 1, 2, 5, 40)))
        there = rng.randrange(len(data) + 1)
        data = rng.choice(
            [
                data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :],
                data[:at] + rng.choice(ODD) + data[at:],
                data[:at] + data[end:],
                data[:there] + data[at:end] + data[there:],
                data[: max(1, at)],
            ]
        )
    return data


def sound(raw: bytes) -> str | None:
    """The text of a raw line, or nothing if it cannot be one."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return None if CONTROLS.search(text) else text


def raw_lines(data: bytes) -> list[bytes]:
    data = data.removeprefix(b"\xef\xbb\xbf")
    return [line.removesuffix(b"\r") for line in data.removesuffix(b"\n").split(b"\n")]


def usable(line: int, src: str | None, tgt: str | None) -> Iterator[tuple[int, str, str]]:
    if src is not None and tgt is not None and not is_blank(src) and not is_blank(tgt):
        yield line, src, tgt


def one_line(text: str) -> str:
    parts = (part.strip(" \t\r") for part in text.split("\n"))
    return " ".join(filter(None, parts)) if "\n" in text else text


def tsv_oracle(data: bytes) -> Iterator[tuple[int, str, str]]:
    for number, raw in enumerate(raw_lines(data), 1):
        text = sound(raw)
        if text is not None and text.count("\t") == 1:
            yield from usable(number, *text.split("\t"))


def jsonl_oracle(data: bytes) -> Iterator[tuple[int, str, str]]:
    for number, raw in enumerate(raw_lines(data), 1):
        text = sound(raw)
        try:
            items = json.loads(text or "0", object_pairs_hook=list)
        except (ValueError, RecursionError):
            continue
        record = dict(items) if isinstance(items, list) and all(isinstance(item, tuple) for item in items) else {}
        src, tgt = record.get("src"), record.get("tgt")
        if len(record) == len(items or []) and isinstance(src, str) and isinstance(tgt, str):
            src, tgt = one_line(src), one_line(tgt)
            if not CONTROLS.search(src + tgt):
                yield from usable(number, src, tgt)


def read(corpus: Callable[[], Corpus]) -> list[tuple[int, str, str]] | None:
    """What the reader gives, or nothing if it refuses."""
    try:
        return [(pair.line, pair.src, pair.tgt) for pair in corpus()]
    except DataError as error:
        refusal = str(error)
    assert "; " in refusal
    assert "\n" not in refusal
    return None


def check_numbers(found: list[tuple[int, str, str]]) -> None:
    """Two intact marks in one text are the pair's number; both texts of a record must have the same."""
    for _, src, tgt in found:
        ours, theirs = re.findall(r"<(\d+)>", src), re.findall(r"<(\d+)>", tgt)
        if len(ours) == len(theirs) == 3 and len(set(ours)) == len(set(theirs)) == 1:
            assert ours == theirs, (src, tgt)


@pytest.mark.parametrize("seed", BATCHES)
@pytest.mark.parametrize("skip_invalid", [False, True])
def test_two_files(tmp_path: Path, seed: int, skip_invalid: bool) -> None:
    rng = random.Random(seed)
    paths = [tmp_path / "src", tmp_path / "tgt"]
    good = ["\n".join(side).encode() + b"\n" for side in zip(*good_rows(), strict=True)]
    accepted = 0
    for _ in range(CASES):
        contents = list(good)
        hurt = rng.randrange(2)
        contents[hurt] = damage(contents[hurt], rng)
        for path, content in zip(paths, contents, strict=True):
            path.write_bytes(content)
        found = read(lambda: open_corpus(paths, skip_invalid=skip_invalid))
        src, tgt = map(raw_lines, contents)
        if found is not None:
            accepted += 1
            assert len(src) == len(tgt)
            both = enumerate(zip(src, tgt, strict=True), 1)
            assert found == [row for line, (a, b) in both for row in usable(line, sound(a), sound(b))]
        elif skip_invalid:
            assert len(src) != len(tgt)
    assert accepted > 0 or not skip_invalid


@pytest.mark.parametrize("seed", BATCHES)
@pytest.mark.parametrize("kind", ["tsv", "jsonl"])
@pytest.mark.parametrize("skip_invalid", [False, True])
def test_one_record_a_line(tmp_path: Path, seed: int, kind: str, skip_invalid: bool) -> None:
    rng = random.Random(100 + seed)
    if kind == "tsv":
        lines, oracle = ["\t".join(row) for row in good_rows()], tsv_oracle
    else:
        lines = [json.dumps({"src": src, "tgt": tgt}, ensure_ascii=False) for src, tgt in good_rows()]
        oracle = jsonl_oracle
    good = "\n".join(lines).encode() + b"\n"
    path = tmp_path / f"corpus.{kind}"
    accepted = 0
    for _ in range(CASES):
        content = damage(good, rng)
        path.write_bytes(content)
        found = read(lambda: open_corpus([path], skip_invalid=skip_invalid))
        if found is not None:
            accepted += 1
            assert found == list(oracle(content))
    assert accepted > CASES // 2 or not skip_invalid


@pytest.mark.parametrize("seed", BATCHES)
def test_csv_keeps_the_two_texts_of_a_record_together(tmp_path: Path, seed: int) -> None:
    rng = random.Random(200 + seed)
    buffer = io.StringIO()
    csv.writer(buffer).writerows(good_rows())
    good = buffer.getvalue().encode()
    path = tmp_path / "corpus.csv"
    for _ in range(CASES):
        at = rng.randrange(len(good))
        changed = rng.choice([bytes([rng.randrange(256)]), b"", rng.choice(ODD) + good[at : at + 1]])
        path.write_bytes(good[:at] + changed + good[at + 1 :])
        found = read(lambda: open_corpus([path]))
        if found is not None:
            assert PAIRS - 2 <= len(found) <= PAIRS
            check_numbers(found)


@pytest.mark.parametrize("seed", BATCHES)
def test_compressed_files_are_never_read_half(tmp_path: Path, seed: int) -> None:
    rng = random.Random(300 + seed)
    rows = good_rows()
    good = gzip.compress("\n".join("\t".join(row) for row in rows).encode())
    path = tmp_path / "corpus.tsv.gz"
    for _ in range(CASES):
        content = damage(good, rng)
        path.write_bytes(content)
        found = read(lambda: open_corpus([path], skip_invalid=True))
        if found is not None:
            try:
                text = gzip.decompress(content)
            except (OSError, EOFError, zlib.error):
                text = content
            assert found == list(tsv_oracle(text))
            check_numbers(found)


def test_undamaged_files_are_read_whole(tmp_path: Path) -> None:
    expected = [(number, *row) for number, row in enumerate(good_rows(), 1)]
    path = tmp_path / "c.tsv"
    path.write_text("\n".join("\t".join(row) for row in good_rows()))
    assert read(lambda: open_corpus([path])) == expected == list(tsv_oracle(path.read_bytes()))
    check_numbers(expected)
