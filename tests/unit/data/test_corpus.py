"""Pairs from files: every row of the table of bad input has a test here, beside those of the formats."""

import bz2
import gzip
import hashlib
import json
import lzma
import os
import random
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from dragoman.data.corpus import Columns, Corpus, Pair, open_corpus
from dragoman.errors import DataError

Maker = Callable[..., Corpus]


@pytest.fixture
def two(tmp_path: Path) -> Maker:
    """A corpus of two plain files with the given contents."""

    def make(src: bytes | str, tgt: bytes | str, **options: object) -> Corpus:
        for name, content in (("src.txt", src), ("tgt.txt", tgt)):
            (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
        return open_corpus([tmp_path / "src.txt", tmp_path / "tgt.txt"], **options)  # type: ignore[arg-type]

    return make


@pytest.fixture
def one(tmp_path: Path) -> Maker:
    """A corpus of a single file with the given name and content."""

    def make(name: str, content: bytes | str, **options: object) -> Corpus:
        (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
        return open_corpus([tmp_path / name], **options)  # type: ignore[arg-type]

    return make


def texts(corpus: Corpus) -> list[tuple[str, str]]:
    return [(pair.src, pair.tgt) for pair in corpus]


# ---- two plain files


def test_line_i_goes_with_line_i(two: Maker) -> None:
    corpus = two("one\ntwo\n", "eins\nzwei\n")
    assert list(corpus) == [Pair("one", "eins", 1), Pair("two", "zwei", 2)]
    assert corpus.skipped.counts == {}
    assert [facts.lines for facts in corpus.files] == [2, 2]


def test_iteration_starts_again_each_time(two: Maker) -> None:
    corpus = two("one\n\n", "eins\n\n")
    assert list(corpus) == list(corpus)
    assert corpus.skipped.counts == {"both sides empty": 1}


def test_many_blocks_of_unequal_size_stay_in_step(two: Maker) -> None:
    count = 30_000
    corpus = two(
        "".join(f"{number} {'x' * (number % 60)}\n" for number in range(count)),
        "".join(f"{number} {'测' * (number % 7)}\n" for number in range(count)),
    )
    for number, pair in enumerate(corpus):
        assert pair.line == number + 1
        assert pair.src.split()[0] == pair.tgt.split()[0] == str(number)
    assert number == count - 1


def test_unequal_line_counts_are_refused_with_both_counts(two: Maker) -> None:
    corpus = two("a\nb\nc\n", "x\ny\n")
    pairs = iter(corpus)
    assert [next(pairs).src, next(pairs).src] == ["a", "b"]
    with pytest.raises(DataError, match=r"src.txt has 3 lines and .*tgt.txt has 2, .*no place stands out; put the"):
        next(pairs)


@pytest.mark.parametrize("side", ["source", "target"])
@pytest.mark.parametrize("at", [40, 1500, 2900])
def test_unequal_line_counts_are_refused_with_the_first_suspicious_place(two: Maker, side: str, at: int) -> None:
    rng = random.Random(7)
    src = [f"{'word ' * rng.randint(2, 25)}end." for _ in range(3000)]
    tgt = [f"{'wort ' * max(1, line.count(' ') + rng.randint(-2, 2))}ende." for line in src]
    del (src if side == "source" else tgt)[at]
    with pytest.raises(DataError, match=r"part near line") as caught:
        list(two("\n".join(src), "\n".join(tgt)))
    message = str(caught.value)
    counts = ("2,999 lines", "has 3,000") if side == "source" else ("3,000 lines", "has 2,999")
    assert all(count in message for count in counts)
    assert f"fits 1 line {'later' if side == 'source' else 'earlier'}" in message
    assert abs(int(message.split("near line ")[1].split(" ")[0].replace(",", "")) - (at + 1)) <= 10


def test_a_missing_block_of_many_lines_is_found(two: Maker) -> None:
    rng = random.Random(8)
    src = [f"{'word ' * rng.randint(2, 25)}end." for _ in range(3000)]
    tgt = [f"{'wort ' * max(1, line.count(' ') + rng.randint(-1, 1))}ende." for line in src]
    del tgt[1000:1300]
    with pytest.raises(DataError, match=r"fits 300 lines earlier") as caught:
        list(two("\n".join(src), "\n".join(tgt)))
    assert 991 <= int(str(caught.value).split("near line ")[1].split(" ")[0].replace(",", "")) <= 1310


def test_the_last_line_counts_with_and_without_line_feed(two: Maker) -> None:
    assert texts(two("a\nb", "x\ny\n")) == [("a", "x"), ("b", "y")]


def test_blank_lines_at_the_end_of_both_are_dropped(two: Maker) -> None:
    corpus = two("a\n\n\n", "x\n\n\n")
    assert texts(corpus) == [("a", "x")]
    assert corpus.skipped.counts == {"both sides empty": 2}


def test_a_blank_line_at_the_end_of_one_is_unequal(two: Maker) -> None:
    with pytest.raises(DataError, match=r"has 2 lines and .* has 1"):
        list(two("a\n\n", "x\n"))


def test_crlf_on_one_side_gives_the_same_pairs(two: Maker) -> None:
    corpus = two("a\r\nb\r\n", "x\ny\n")
    assert texts(corpus) == [("a", "x"), ("b", "y")]
    assert [facts.crlf for facts in corpus.files] == [2, 0]


def test_mixed_line_ends_and_a_lone_cr(two: Maker) -> None:
    assert texts(two("a\r\nb\rc\n", "x\ny\n")) == [("a", "x"), ("b\rc", "y")]


def test_a_cr_only_file_is_refused_with_a_hint(two: Maker) -> None:
    with pytest.raises(DataError, match=r"src.txt: no line feed, but carriage returns.*tr "):
        list(two("a\rb\r", "x\ny\n"))


def test_a_byte_order_mark_is_no_part_of_the_first_text(two: Maker) -> None:
    corpus = two("\ufeffa\n", "x\n")
    assert texts(corpus) == [("a", "x")]
    assert [facts.bom for facts in corpus.files] == [True, False]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-32", "utf-32-le"])
def test_wide_encodings_are_refused_by_name(two: Maker, encoding: str) -> None:
    with pytest.raises(DataError, match=r"src.txt is UTF-(16|32)[BL]E, not UTF-8"):
        list(two("some plain text\n".encode(encoding), "x\n"))


@pytest.mark.parametrize("bad", [b"caf\xe9", b"\xc0\xaf", b"\xed\xa0\x80", b"a\xe6\xb5"])
@pytest.mark.parametrize("side", [0, 1])
def test_invalid_utf8_is_refused_or_its_pair_skipped(two: Maker, bad: bytes, side: int) -> None:
    contents = [b"1\n2\n3\n", b"1\n2\n3\n"]
    contents[side] = b"1\n" + bad + b"\n3\n"
    with pytest.raises(DataError, match=r"(src|tgt)\.txt, line 2, byte \d+: .*data.skip_invalid=true"):
        list(two(*contents))
    corpus = two(*contents, skip_invalid=True)
    assert list(corpus) == [Pair("1", "1", 1), Pair("3", "3", 3)]
    assert corpus.skipped.counts == {"invalid UTF-8": 1}
    assert corpus.skipped.lines == {"invalid UTF-8": [2]}
    assert "line 2, byte" in corpus.skipped.tales["invalid UTF-8"]


@pytest.mark.parametrize("control", ["\0", "\x07", "\x1b", "\x7f", "\x80", "\x9f"])
@pytest.mark.parametrize("side", [0, 1])
def test_pairs_with_control_characters_are_skipped_or_kept(two: Maker, control: str, side: int) -> None:
    contents = ["1\n2\n3\n", "1\n2\n3\n"]
    contents[side] = f"1\n2{control}\n3\n"
    corpus = two(*contents)
    assert [pair.line for pair in corpus] == [1, 3]
    assert corpus.skipped.counts == {"control character": 1}
    assert [pair.line for pair in two(*contents, keep_controls=True)] == [1, 2, 3]


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x85", "\v", "\f", "\x1c", "\x1d", "\x1e", "\r"])
def test_other_separators_move_no_pair(two: Maker, one: Maker, separator: str) -> None:
    odd = f"2 a{separator}b"
    expected = [("1", "1"), (odd, "2"), ("3", "3"), ("4", "4")]
    src, tgt = f"1\n{odd}\n3\n4\n", "1\n2\n3\n4\n"
    assert texts(two(src, tgt)) == expected
    assert texts(two(gzip.compress(src.encode()), tgt)) == expected
    assert texts(one("c.tsv", f"1\t1\n{odd}\t2\n3\t3\n4\t4\n")) == expected
    lines = [json.dumps({"src": a, "tgt": b}, ensure_ascii=False) for a, b in expected]
    assert texts(one("c.jsonl", "\n".join(lines).replace("\r", "\\r"))) == expected


def test_empty_lines_are_skipped_and_numbers_kept(two: Maker) -> None:
    corpus = two("a\n\nc\n\ne\n", "v\nw\n\n\nz\n")
    assert list(corpus) == [Pair("a", "v", 1), Pair("e", "z", 5)]
    assert corpus.skipped.counts == {"empty source": 1, "empty target": 1, "both sides empty": 1}
    assert corpus.skipped.lines == {"empty source": [2], "empty target": [3], "both sides empty": [4]}
    assert corpus.skipped.summary() == "3 pairs skipped (empty source 1, empty target 1, both sides empty 1)"


@pytest.mark.parametrize(
    "blank", [" ", "\t \u3000", "\u200b", "\u200b\u200d \ufeff", "\xa0", "\u2060", "\u2028", "\x85"]
)
def test_white_space_and_zero_width_count_as_empty(two: Maker, blank: str) -> None:
    corpus = two(f"a\n{blank}\nc\n", "x\ny\nz\n")
    assert [pair.line for pair in corpus] == [1, 3]
    assert corpus.skipped.counts == {"empty source": 1}


def test_a_huge_line_skips_its_pair_in_bounded_memory(two: Maker) -> None:
    corpus = two("1\n2\n3\n", b"1\n" + b"x" * 20_000_000 + b"\n3\n")
    tracemalloc.start()
    assert [pair.line for pair in corpus] == [1, 3]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8_000_000
    assert corpus.skipped.counts == {"line too long": 1}
    assert "20,000,000 bytes" in corpus.skipped.tales["line too long"]


def test_the_line_limit_can_be_set(two: Maker) -> None:
    assert [pair.line for pair in two("abc\nabcd\n", "x\ny\n", line_limit=3)] == [1]


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_compressed_files_are_told_by_content(two: Maker, pack: Callable[[bytes], bytes]) -> None:
    assert texts(two(pack(b"a\n") + pack(b"b\n"), "x\ny\n")) == [("a", "x"), ("b", "y")]


def test_a_truncated_compressed_file_is_an_error(two: Maker) -> None:
    rng = random.Random(1)
    packed = gzip.compress("".join(f"{rng.random()}\n" for _ in range(500)).encode())
    with pytest.raises(DataError, match=r"src.txt: damaged or cut short"):
        list(two(packed[:-100], "x\n" * 500))
    with pytest.raises(DataError, match="damaged or cut short"):
        list(two(packed + b"rubbish", "x\n" * 500))
    with pytest.raises(DataError, match="zstd-compressed"):
        two(b"\x28\xb5\x2f\xfd" + bytes(50), "x\n")


def test_an_empty_file_is_refused_when_opened(two: Maker) -> None:
    with pytest.raises(DataError, match=r"tgt.txt is empty; a corpus needs at least one pair"):
        two("a\n", "")
    with pytest.raises(DataError, match="is empty"):
        two(gzip.compress(b""), "a\n")


def test_a_file_of_a_byte_order_mark_alone_has_no_line(two: Maker) -> None:
    with pytest.raises(DataError, match=r"src.txt has 0 lines and .*tgt.txt has 1"):
        list(two("\ufeff", "x\n"))
    with pytest.raises(DataError, match="not one usable pair, it is empty"):
        list(two("\ufeff", "\ufeff"))


def test_one_pair_is_a_corpus(two: Maker) -> None:
    assert texts(two("a", "x")) == [("a", "x")]


def test_no_usable_pair_is_an_error_that_says_why(two: Maker) -> None:
    with pytest.raises(DataError, match=r"not one usable pair: 2 pairs skipped \(empty source 1, empty target 1\)"):
        list(two("\nb\n", "x\n\n"))


def test_files_of_another_encoding_are_told_as_such(two: Maker) -> None:
    with pytest.raises(DataError, match=r"not one usable pair: .*; convert the files to UTF-8 \(`iconv -f LATIN1"):
        list(two(b"caf\xe9\ncaf\xe9\n", "x\ny\n", skip_invalid=True))


def test_more_invalid_pairs_than_usable_ones_are_refused_even_if_they_may_be_skipped(two: Maker, one: Maker) -> None:
    with pytest.raises(DataError, match=r"2 invalid pairs and only 1 usable ones .*line 1, byte 3"):
        list(two(b"caf\xe9\ncaf\xe9\na\n", "x\ny\nz\n", skip_invalid=True))
    with pytest.raises(
        DataError, match=r"3 invalid pairs and only 1 usable .*line 2: 2 columns where the first line has 3"
    ):
        list(one("c.tsv", "a\tx\t!\nb\ty\nc\tz\nd\tw\n", skip_invalid=True))


def test_what_is_no_regular_file_is_refused_when_opened(tmp_path: Path) -> None:
    good = tmp_path / "good"
    good.write_text("a\n")
    os.mkfifo(tmp_path / "pipe")
    begun = time.perf_counter()
    cases = (
        (tmp_path, "directory"),
        (tmp_path / "pipe", "pipe"),
        (tmp_path / "none", "No such"),
        (Path("/dev/zero"), "device"),
    )
    for bad, what in cases:
        with pytest.raises(DataError, match=what):
            open_corpus([good, bad])
    assert time.perf_counter() - begun < 1


@pytest.mark.parametrize("count", [0, 3, 4])
def test_a_pattern_that_matches_too_much_is_refused(tmp_path: Path, count: int) -> None:
    with pytest.raises(DataError, match=f"{count} corpus files; give two plain files"):
        open_corpus([tmp_path] * count)


def test_both_sides_may_be_one_file(tmp_path: Path) -> None:
    path = tmp_path / "same"
    path.write_text("a\nb\n")
    assert texts(open_corpus([path, path])) == [("a", "a"), ("b", "b")]


def test_the_fingerprint_is_of_the_bytes_on_disk(two: Maker) -> None:
    data = gzip.compress(b"a\n")
    corpus = two(data, "x\n")
    first, second = corpus.fingerprint()
    assert first["bytes"] == len(data)
    assert first["sha256"] == hashlib.sha256(data).hexdigest()
    assert str(first["path"]).endswith("src.txt")
    assert second["mtime_ns"] == os.stat(str(second["path"])).st_mtime_ns


def test_a_tab_in_a_plain_file_is_text(two: Maker) -> None:
    assert texts(two("a\tb\n", "x\n")) == [("a\tb", "x")]


def test_memory_does_not_grow_with_the_corpus(two: Maker) -> None:
    def peak(lines: int) -> int:
        corpus = two(("some source text " * 20 + "\n") * lines, ("ein Text als Ziel " * 20 + "\n") * lines)
        tracemalloc.start()
        assert sum(1 for _ in corpus) == lines
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    assert peak(20_000) < 1.2 * peak(5_000)


# ---- TSV and CSV


def test_tsv_takes_the_first_two_columns(one: Maker) -> None:
    corpus = one("c.tsv", "a\tx\tdomain\nb\ty\t\n")
    assert list(corpus) == [Pair("a", "x", 1), Pair("b", "y", 2)]
    assert corpus.format == "tsv"


def test_tsv_columns_can_be_chosen_and_turned_round(one: Maker) -> None:
    assert texts(one("c.tsv", "a\tx\tp\n", columns=("3", "1"))) == [("p", "a")]
    with pytest.raises(DataError, match="2 columns, but column 3 is asked for"):
        list(one("c.tsv", "a\tx\n", columns=("1", "3")))
    for wrong in (("0", "1"), ("en", "de"), ("²", "1")):
        with pytest.raises(DataError, match="is not a number from 1"):
            list(one("c.tsv", "a\tx\n", columns=wrong))


@pytest.mark.parametrize("line", ["b", "b\ty\tz", "b\ty\t"], ids=["few", "many", "trailing"])
def test_tsv_with_another_number_of_columns_is_refused_or_skipped(one: Maker, line: str) -> None:
    content = f"a\tx\n{line}\nc\tz\n"
    with pytest.raises(DataError, match=r"c.tsv, line 2: \d columns where the first line has 2; .*data.skip_invalid"):
        list(one("c.tsv", content))
    corpus = one("c.tsv", content, skip_invalid=True)
    assert [pair.line for pair in corpus] == [1, 3]
    assert corpus.skipped.counts == {"malformed record": 1}


@pytest.mark.parametrize(("line", "column"), [("\ty", 1), ("b\t", 2), ("b\t \u200b", 2)])
def test_tsv_with_an_empty_column_is_refused(one: Maker, line: str, column: int) -> None:
    with pytest.raises(DataError, match=f"line 2: column {column} is empty"):
        list(one("c.tsv", f"a\tx\n{line}\n"))


def test_tsv_blank_lines_are_skipped(one: Maker) -> None:
    corpus = one("c.tsv", "a\tx\n\nb\ty\n\n\n")
    assert [pair.line for pair in corpus] == [1, 3]
    assert corpus.skipped.counts == {"both sides empty": 3}


@pytest.mark.parametrize("head", ["src\ttgt", "source\ttarget", "en\tde", "EN\tzh-Hans", "source\ttranslation"])
def test_tsv_with_a_header_is_refused(one: Maker, head: str) -> None:
    with pytest.raises(DataError, match=r"line 1: looks like a header .* delete that line"):
        list(one("c.tsv", f"{head}\na\tx\n"))


def test_tsv_knows_no_quotes(one: Maker) -> None:
    assert texts(one("c.tsv", '"a\t"x"\n"b"\ty""\n')) == [('"a', '"x"'), ('"b"', 'y""')]


def test_tsv_with_one_column_is_refused(one: Maker) -> None:
    with pytest.raises(DataError, match="line 1: one column; separate the two texts by a tab"):
        list(one("c.tsv", "a\n"))


def test_tsv_faults_are_treated_as_in_plain_files(one: Maker) -> None:
    content = b"1\t1\n2\xff\t2\n3\x01\t3\n" + b"4\t" + b"x" * 2_000_000 + b"\n5\t5\n"
    with pytest.raises(DataError, match="line 2, byte 5"):
        list(one("c.tsv", content))
    corpus = one("c.tsv", content, skip_invalid=True)
    assert [pair.line for pair in corpus] == [1, 5]
    assert corpus.skipped.counts == {"invalid UTF-8": 1, "control character": 1, "line too long": 1}


def test_csv_follows_rfc_4180(one: Maker) -> None:
    content = 'a,x\r\n"b, c","y ""z"""\r\n"two\nlines",w\r\nd,v\r\n'
    corpus = one("c.csv", content)
    assert list(corpus) == [Pair("a", "x", 1), Pair("b, c", 'y "z"', 2), Pair("two lines", "w", 3), Pair("d", "v", 5)]
    assert corpus.skipped.joined == 1


@pytest.mark.parametrize("rest", ['c,z\n"d",w\n', "c,z\n" * 50_000, ""], ids=["later quote", "long", "end"])
def test_csv_with_an_open_quote_is_refused_at_the_line_that_opens_it(one: Maker, rest: str) -> None:
    with pytest.raises(DataError, match=r"c.csv, line 2: .*close the quote that opens here"):
        list(one("c.csv", f'a,x\n"b,y\n{rest}'))


def test_csv_with_semicolons_is_refused_by_name(one: Maker) -> None:
    with pytest.raises(DataError, match=r"line 1: one column; .*comma \(`;` separates nothing here\)"):
        list(one("c.csv", "a;x\nb;y\n"))


def test_csv_columns_header_blank_and_faults(one: Maker) -> None:
    with pytest.raises(DataError, match="line 2: 3 columns"):
        list(one("c.csv", "a,x\nb,y,z\n"))
    with pytest.raises(DataError, match="header"):
        list(one("c.csv", "source,target\na,x\n"))
    with pytest.raises(DataError, match="line 2, byte 4: byte 0xFF"):
        list(one("c.csv", b"a,x\n\xff,y\n", skip_invalid=True))
    corpus = one("c.csv", "a,x\n,\n\nb\x01,y\nc,z\n")
    assert [pair.line for pair in corpus] == [1, 5]
    assert corpus.skipped.counts == {"both sides empty": 2, "control character": 1}


# ---- JSON lines


@pytest.mark.parametrize(
    "record",
    [
        {"src": "a", "tgt": "x"},
        {"id": 7, "source": "a", "target": "x"},
        {"en": "a", "de": "x"},
        {"en": "a", "zh_Hans": "x", "score": 0.5},
        {"id": "1", "translation": {"en": "a", "de": "x"}},
        {"translation": {"src": "a", "tgt": "x"}},
    ],
)
def test_jsonl_finds_the_two_keys(one: Maker, record: dict[str, object]) -> None:
    assert texts(one("c.jsonl", json.dumps(record) + "\n" + json.dumps(record))) == [("a", "x")] * 2


def test_jsonl_keys_can_be_named(one: Maker) -> None:
    line = json.dumps({"en": "a", "de": "x", "fr": "p"})
    assert texts(one("c.jsonl", line, columns=("fr", "en"))) == [("p", "a")]
    with pytest.raises(DataError, match="no `src` and `tgt` and not two language codes"):
        list(one("c.jsonl", line))


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("{", r"line 2: not JSON \(Expecting property name"),
        ('["a", "x"]', "line 2: not a JSON object but list"),
        ('{"src": "a"}', "line 2: key 'tgt' is missing"),
        ('{"src": "a", "tgt": 5}', "line 2: 'tgt' is 5, not a text"),
        ('{"src": "a", "tgt": null}', "line 2: 'tgt' is null, not a text"),
        ('{"src": "a", "src": "b", "tgt": "x"}', "line 2: key 'src' stands twice"),
        ("[" * 100_000, "line 2: nested too deeply"),
        ('{"src": "a", "tgt": ' + "9" * 5000 + "}", "line 2: .*4300 digits"),
        ('{"src": "\\ud800", "tgt": "x"}', r"line 2: lone surrogate U\+D800"),
    ],
)
def test_jsonl_bad_lines_are_refused_or_skipped(one: Maker, line: str, what: str) -> None:
    content = f'{{"src": "1", "tgt": "1"}}\n{line}\n{{"src": "3", "tgt": "3"}}\n'
    with pytest.raises(DataError, match=what):
        list(one("c.jsonl", content))
    corpus = one("c.jsonl", content, skip_invalid=True)
    assert [pair.line for pair in corpus] == [1, 3]
    assert corpus.skipped.total == 1


def test_jsonl_first_line_must_show_the_keys(one: Maker) -> None:
    with pytest.raises(DataError, match="line 1: not JSON"):
        list(one("c.json", '{\n "src": "a"}\n', skip_invalid=True))


def test_jsonl_texts_become_one_line_and_controls_are_found(one: Maker) -> None:
    records = [{"src": "a\nb \n\n c", "tgt": "x"}, {"src": "a\0", "tgt": "x"}, {"src": "", "tgt": "x"}]
    corpus = one("c.jsonl", "\n".join(map(json.dumps, records)) + "\n\n")
    assert list(corpus) == [Pair("a b c", "x", 1)]
    assert corpus.skipped.joined == 1
    assert corpus.skipped.counts == {"control character": 1, "empty source": 1, "both sides empty": 1}


# ---- which format


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("corpus", "a\tx\n", "tsv"),
        ("corpus.gz", "a\tx\n", "tsv"),
        ("corpus", '{"src": "a", "tgt": "x"}', "jsonl"),
        ("corpus.NDJSON.xz", '{"src": "a", "tgt": "x"}', "jsonl"),
        ("corpus", '<?xml version="1.0"?><tmx/>', "tmx"),
        ("corpus.pot", "", "po"),
        ("corpus.tsv", "a\tx\n", "tsv"),
    ],
)
def test_the_format_is_told_by_name_or_beginning(one: Maker, name: str, content: str, expected: str) -> None:
    assert one(name, content or "#\n").format == expected


def test_a_single_plain_file_is_refused(one: Maker) -> None:
    with pytest.raises(DataError, match="a single file, and its first line has no tab; give a second file"):
        one("corpus.txt", "a\nb\n")


def test_columns_and_catalogues_do_not_go_with_two_files(two: Maker, tmp_path: Path) -> None:
    columns: Columns = ("1", "2")
    with pytest.raises(DataError, match="with two plain files; leave them out"):
        two("a\n", "x\n", columns=columns)
    (tmp_path / "m.tmx").write_text("<tmx/>")
    with pytest.raises(DataError, match="holds both sides already"):
        open_corpus([tmp_path / "m.tmx", tmp_path / "m.tmx"])
