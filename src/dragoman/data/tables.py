"""Pairs from files with one record a line: two plain files side by side, TSV, CSV, JSON lines."""

import csv
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from dragoman.data.lines import Block, FileFacts, read_blocks, refusal
from dragoman.data.pair import WAY_OUT, Pair, Reason, Rules, Skipped, admit, emptiness, is_blank, pass_over
from dragoman.errors import DataError

Columns = tuple[str, str]
"""Where source and target stand: numbers from 1 (TSV, CSV), keys (JSON), languages (TMX), `msgid`/`msgstr` (PO, MO)."""

_CODE = re.compile(r"[a-z]{2,3}([-_][A-Za-z]{2,4})?")
_HEADINGS = frozenset({"src", "tgt", "source", "target", "source_text", "target_text", "translation"})
_END = Block(0, [], {})


class UnequalError(DataError):
    """Two plain files do not have equally many lines."""

    def __init__(self, src_lines: int, tgt_lines: int) -> None:
        super().__init__(f"{src_lines:,} source lines and {tgt_lines:,} target lines; they must be equally many")
        self.src_lines = src_lines
        self.tgt_lines = tgt_lines


def read_two_files(
    paths: tuple[Path, Path], facts: tuple[FileFacts, FileFacts], rules: Rules, skipped: Skipped
) -> Iterator[Pair]:
    """Line i of the first file with line i of the second.

    Raises:
        UnequalError: at the end, when both counts are known.
        DataError: see :func:`dragoman.data.lines.read_blocks` and :func:`dragoman.data.pair.pass_over`.
    """
    src_blocks, tgt_blocks = (_blocks(path, seen, rules) for path, seen in zip(paths, facts, strict=True))
    src, tgt = next(src_blocks, _END), next(tgt_blocks, _END)
    while src.lines and tgt.lines:
        size = min(len(src.lines), len(tgt.lines))
        src_now, src = src.split(size)
        tgt_now, tgt = tgt.split(size)
        if src_now.defects or tgt_now.defects:
            yield from _pairs_around_defects(src_now, tgt_now, facts, rules, skipped)
        else:
            yield from _pairs(src_now, tgt_now, skipped)
        src, tgt = src if src.lines else next(src_blocks, _END), tgt if tgt.lines else next(tgt_blocks, _END)
    for blocks in (src_blocks, tgt_blocks):
        for _ in blocks:
            pass
    if facts[0].lines != facts[1].lines:
        raise UnequalError(facts[0].lines, facts[1].lines)


def _blocks(path: Path, facts: FileFacts, rules: Rules) -> Iterator[Block]:
    return read_blocks(path, facts, keep_controls=rules.keep_controls, line_limit=rules.line_limit)


def _pairs(src: Block, tgt: Block, skipped: Skipped) -> Iterator[Pair]:
    if not (any(map(is_blank, src.lines)) or any(map(is_blank, tgt.lines))):
        return map(Pair, src.lines, tgt.lines, count(src.first))
    return _pairs_around_blanks(src, tgt, skipped)


def _pairs_around_blanks(src: Block, tgt: Block, skipped: Skipped) -> Iterator[Pair]:
    for pair in map(Pair, src.lines, tgt.lines, count(src.first)):
        reason = emptiness(pair.src, pair.tgt)
        if reason:
            skipped.add(reason, pair.line)
        else:
            yield pair


def _pairs_around_defects(
    src: Block, tgt: Block, facts: tuple[FileFacts, FileFacts], rules: Rules, skipped: Skipped
) -> Iterator[Pair]:
    for pair in map(Pair, src.lines, tgt.lines, count(src.first)):
        src_defect, tgt_defect = src.defects.get(pair.line), tgt.defects.get(pair.line)
        if src_defect:
            pass_over(src_defect, pair.line, facts[0].path, rules, skipped)
        elif tgt_defect:
            pass_over(tgt_defect, pair.line, facts[1].path, rules, skipped)
        elif reason := emptiness(pair.src, pair.tgt):
            skipped.add(reason, pair.line)
        else:
            yield pair


@dataclass
class _Layout:
    """Which cells of a row are source and target; the first row fixes how many cells there are."""

    name: str
    separator: str
    columns: Columns | None
    picks: tuple[int, int] = (0, 1)
    width: int = 0

    def complaint(self, cells: Sequence[str], line: int) -> str:
        """What is wrong with a row, or nothing."""
        if not self.width:
            self._fix(cells, f"{self.name}, line {line}")
        if len(cells) != self.width:
            counts = f"{len(cells)} columns where the first line has {self.width}"
            return f"{counts}; mend the line (no {self.separator} inside a text)"
        empty = [pick for pick in self.picks if is_blank(cells[pick])]
        return f"column {empty[0] + 1} is empty; fill it in or delete the line" if empty else ""

    def _fix(self, cells: Sequence[str], place: str) -> None:
        if self.columns:
            self.picks = (self._number(self.columns[0]), self._number(self.columns[1]))
        if len(cells) < 2:
            semicolon = " (`;` separates nothing here)" if ";" in cells[0] and self.separator == "comma" else ""
            raise DataError(f"{place}: one column; separate the two texts by a {self.separator}{semicolon}")
        if max(self.picks) >= len(cells):
            raise DataError(
                f"{place}: {len(cells)} columns, but column {max(self.picks) + 1} is asked for; choose others"
            )
        heads = [cells[pick].strip().lower() for pick in self.picks]
        if heads[0] != heads[1] and all(head in _HEADINGS or _CODE.fullmatch(head) for head in heads):
            raise DataError(
                f"{place}: looks like a header ({heads[0]}, {heads[1]}) and not like a pair; delete that line"
            )
        self.width = len(cells)

    def _number(self, column: str) -> int:
        if not (column.isascii() and column.isdigit() and 1 <= int(column) <= 1000):
            raise DataError(f"{self.name}: column {column!r} is not a number from 1; choose columns like ('1', '2')")
        return int(column) - 1


def read_tsv(path: Path, facts: FileFacts, columns: Columns | None, rules: Rules, skipped: Skipped) -> Iterator[Pair]:
    """Two of the tab-separated columns (the first two); no quoting, no header; the first line fixes how many there are.

    Raises:
        DataError: a line with another number of columns, or an empty one among the two (both unless
            ``rules.skip_invalid``); a header; and as :func:`read_two_files`.
    """
    layout = _Layout(facts.path, "tab", columns)
    for block in _blocks(path, facts, rules):
        for number, line in enumerate(block.lines, block.first):
            if number in block.defects:
                pass_over(block.defects[number], number, path, rules, skipped)
                continue
            if is_blank(line):
                skipped.add(Reason.EMPTY_BOTH, number)
                continue
            cells = line.split("\t")
            complaint = layout.complaint(cells, number)
            if complaint:
                _malformed(f"{path}, line {number}: {complaint}", number, rules, skipped)
                continue
            yield Pair(cells[layout.picks[0]], cells[layout.picks[1]], number)


def _malformed(complaint: str, line: int, rules: Rules, skipped: Skipped) -> None:
    if not rules.skip_invalid:
        raise DataError(complaint + WAY_OUT)
    skipped.add(Reason.RECORD, line, complaint)


@dataclass
class _CountedLines:
    """The lines of a file with their LF, and the number of the one given last."""

    blocks: Iterator[Block]
    name: str
    number: int = 0
    _lines: Iterator[str] = field(default_factory=lambda: iter(()))

    def __iter__(self) -> Iterator[str]:
        for block in self.blocks:
            for self.number, line in enumerate(block.lines, block.first):
                if self.number in block.defects:
                    raise refusal(self.name, self.number, block.defects[self.number])
                yield line + "\n"


def read_csv(path: Path, facts: FileFacts, columns: Columns | None, rules: Rules, skipped: Skipped) -> Iterator[Pair]:
    """Two of the comma-separated columns (the first two), quoted as in RFC 4180; no header.

    A faulty line is always refused: skipping it could tear a quoted text in two.

    Raises:
        DataError: as :func:`read_tsv`; a quote that is not closed, at the line that opens it.
    """
    layout = _Layout(facts.path, "comma", columns)
    lines = _CountedLines(read_blocks(path, facts, keep_controls=True, line_limit=rules.line_limit), facts.path)
    rows = csv.reader(iter(lines), strict=True)
    while True:
        number = lines.number + 1
        try:
            cells = next(rows, None)
        except csv.Error as error:
            raise DataError(
                f"{path}, line {number}: {error}; close the quote that opens here, and double quotes inside it"
            ) from None
        if cells is None:
            return
        if all(map(is_blank, cells)):
            skipped.add(Reason.EMPTY_BOTH, number)
        elif complaint := layout.complaint(cells, number):
            _malformed(f"{path}, line {number}: {complaint}", number, rules, skipped)
        else:
            src, tgt = (cells[pick] for pick in layout.picks)
            pair = admit(src, tgt, number, f"{path}, line {number}", rules, skipped)
            if pair:
                yield pair


def read_jsonl(path: Path, facts: FileFacts, columns: Columns | None, rules: Rules, skipped: Skipped) -> Iterator[Pair]:
    """One JSON object a line.

    The two texts are under ``columns`` if given; else, as the first object has them, under ``src`` and ``tgt``, or
    ``source`` and ``target``, or two language codes (the first is the source). They may stand in an object of their own
    under ``translation``.

    Raises:
        DataError: a line that is not such an object, lacks a key, has one twice, or a text that is not a string (all
            unless ``rules.skip_invalid``, the first line excepted); and as :func:`read_two_files`.
    """
    keys = None
    for block in _blocks(path, facts, rules):
        for number, line in enumerate(block.lines, block.first):
            place = f"{path}, line {number}"
            if number in block.defects:
                pass_over(block.defects[number], number, path, rules, skipped)
                continue
            if is_blank(line):
                skipped.add(Reason.EMPTY_BOTH, number)
                continue
            try:
                record = _record(line)
                keys = keys or _keys(record, columns)
                src, tgt = (_text(record, key) for key in keys)
            except ValueError as error:
                complaint = f"{place}: {error}"
                if keys is None:
                    raise DataError(complaint) from None
                _malformed(complaint, number, rules, skipped)
                continue
            pair = admit(src, tgt, number, place, rules, skipped)
            if pair:
                yield pair


def _record(line: str) -> dict[str, Any]:
    try:
        record = json.loads(line, object_pairs_hook=_unique)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON ({error.msg}, at character {error.pos}); write one object a line") from None
    except RecursionError:
        raise ValueError("nested too deeply; write one flat object a line") from None
    if not isinstance(record, dict):
        raise ValueError(f"not a JSON object but {type(record).__name__}; write one object a line")
    inner = record.get("translation")
    return inner if isinstance(inner, dict) else record


def _unique(items: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(items)
    if len(record) != len(items):
        names = [key for key, _ in items]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"key {twice!r} stands twice; keep one")
    return record


def _keys(record: dict[str, Any], columns: Columns | None) -> Columns:
    if columns:
        return columns
    for pair in (("src", "tgt"), ("source", "target")):
        if pair[0] in record and pair[1] in record:
            return pair
    codes = [key for key, value in record.items() if isinstance(value, str) and _CODE.fullmatch(key)]
    if len(codes) == 2:
        return codes[0], codes[1]
    raise ValueError(
        f"keys {', '.join(map(repr, list(record)[:8]))}: no `src` and `tgt` and not two language codes; name the two"
    )


def _text(record: dict[str, Any], key: str) -> str:
    if key not in record:
        raise ValueError(f"key {key!r} is missing; every line needs it")
    if not isinstance(record[key], str):
        raise ValueError(f"{key!r} is {json.dumps(record[key])[:40]}, not a text; put it in quotes")
    return str(record[key])
