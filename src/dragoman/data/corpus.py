"""A parallel corpus on disk: pair after pair from whatever files it comes in, as often as wanted, in bounded memory."""

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from dragoman.data.alignment import first_suspicious_line
from dragoman.data.lines import LINE_LIMIT, FileFacts
from dragoman.data.memories import read_mo, read_po, read_tmx
from dragoman.data.pair import Pair, Reason, Rules, Skipped
from dragoman.data.stream import head_of, open_regular
from dragoman.data.tables import Columns, UnequalError, read_csv, read_jsonl, read_tsv, read_two_files
from dragoman.errors import DataError

__all__ = ["Columns", "Corpus", "Format", "Pair", "Skipped", "holds_both_sides", "open_corpus"]

Format = Literal["two files", "tsv", "csv", "jsonl", "tmx", "po", "mo"]

_SUFFIXES: dict[str, Format] = {
    ".tsv": "tsv",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".tmx": "tmx",
    ".po": "po",
    ".pot": "po",
    ".mo": "mo",
    ".gmo": "mo",
}
_PACKED = frozenset({".gz", ".bz2", ".xz"})
_MO_MAGIC = (b"\xde\x12\x04\x95", b"\x95\x04\x12\xde")

Reader = Callable[[Path, FileFacts, Columns | None, Rules, Skipped], Iterator[Pair]]
_READERS: dict[Format, Reader] = {
    "tsv": read_tsv,
    "csv": read_csv,
    "jsonl": read_jsonl,
    "tmx": read_tmx,
    "po": read_po,
    "mo": read_mo,
}


NOT_UTF8 = "convert the files to UTF-8 (`iconv -f LATIN1 -t UTF-8`, if they are Latin-1)"


@dataclass
class Corpus:
    """Sentence pairs in one or two files; iterate over it to read them, from the start each time."""

    paths: tuple[Path, ...]
    format: Format
    columns: Columns | None = None
    rules: Rules = field(default_factory=Rules)
    skipped: Skipped = field(default_factory=Skipped)
    "Of the iteration that began last: pairs passed over, by reason."
    files: tuple[FileFacts, ...] = ()
    "Of the iteration that began last: what was seen of each file."

    def __iter__(self) -> Iterator[Pair]:
        """Every usable pair, in the order of the files.

        Raises:
            DataError: see :func:`open_corpus`; what is only known at the end (unequal counts, more invalid pairs than
                usable ones) is raised at the end, so train on nothing before the first whole pass.
        """
        self.skipped = Skipped()
        self.files = tuple(FileFacts(str(path)) for path in self.paths)
        return self._read(self.skipped, self.files)

    def lenient(self) -> "Corpus":
        """The same corpus, read past invalid UTF-8 and malformed records."""
        return replace(self, rules=replace(self.rules, skip_invalid=True), skipped=Skipped(), files=())

    def fingerprint(self) -> list[dict[str, str | int]]:
        """For each file: ``path``, ``bytes`` (on disk), ``mtime_ns`` and ``sha256``; reads every byte."""
        return [_fingerprint(path) for path in self.paths]

    def _read(self, skipped: Skipped, files: tuple[FileFacts, ...]) -> Iterator[Pair]:
        count = 0
        for pair in self._pairs(skipped, files):
            count += 1
            yield pair
        names = " and ".join(map(str, self.paths))
        if not count:
            detail = f": {skipped.summary()}" if skipped.total else ", it is empty"
            is_foreign = 0 < skipped.total == skipped.counts.get(Reason.ENCODING)
            remedy = NOT_UTF8 if is_foreign else "give a corpus with text on both sides"
            raise DataError(f"{names}: not one usable pair{detail}; {remedy}")
        invalid = skipped.counts.get(Reason.ENCODING, 0) + skipped.counts.get(Reason.RECORD, 0)
        if invalid > count:
            tale = next(iter(skipped.tales.values()), "")
            raise DataError(
                f"{names}: {invalid:,} invalid pairs and only {count:,} usable ones ({tale}); mend the file"
            )

    def _pairs(self, skipped: Skipped, files: tuple[FileFacts, ...]) -> Iterator[Pair]:
        if self.format != "two files":
            yield from _READERS[self.format](self.paths[0], files[0], self.columns, self.rules, skipped)
            return
        paths = (self.paths[0], self.paths[1])
        try:
            yield from read_two_files(paths, (files[0], files[1]), self.rules, skipped)
        except UnequalError as error:
            raise DataError(_unequal(paths, error, self.rules)) from None


def open_corpus(
    paths: Sequence[Path],
    *,
    skip_invalid: bool = False,
    keep_controls: bool = False,
    line_limit: int = LINE_LIMIT,
    columns: Columns | None = None,
) -> Corpus:
    """The corpus in ``paths``: two plain files, line i with line i; or one TSV, CSV, JSON lines, TMX, PO or MO file.

    Any of them may be compressed with gzip, bzip2 or xz (told by the content). The format of a single file is told by
    its name, or by how it begins.

    Args:
        paths: source and target file, or one file with both.
        skip_invalid: skip and count pairs with invalid UTF-8 and malformed records instead of refusing the file; it is
            still refused if these are more than the others.
        keep_controls: keep pairs with control characters (which are skipped and counted otherwise).
        line_limit: longest line in bytes; a pair with a longer one is skipped and counted.
        columns: where source and target stand in a single file, and so also the direction: ``("2", "1")`` in a TSV,
            ``("de", "en")`` in JSON lines or TMX, ``("msgstr", "msgid")`` in PO and MO.

    Raises:
        DataError: no or more than two paths; a file is missing, unreadable, a directory, a pipe, empty, or compressed
            in a way not read here; a single file of no known format. Damage further in is raised while iterating.
    """
    if not 1 <= len(paths) <= 2:
        raise DataError(
            f"{len(paths)} corpus files; give two plain files or one with both sides (did a pattern match more?)"
        )
    paths = tuple(Path(path) for path in paths)
    heads = [_head(path) for path in paths]
    kind: Format = "two files" if len(paths) == 2 else _format(paths[0], heads[0])
    if kind == "two files":
        _refuse_catalogues(paths, heads, columns)
    return Corpus(paths, kind, columns, Rules(skip_invalid, keep_controls, line_limit))


def holds_both_sides(path: Path) -> bool:
    """Whether a file, by its name, holds source and target, so that no second one belongs to it."""
    return _suffix(path) in _SUFFIXES


def _head(path: Path) -> bytes:
    head = head_of(path)
    if not head:
        raise DataError(f"{path} is empty; a corpus needs at least one pair")
    return head


def _refuse_catalogues(paths: tuple[Path, ...], heads: list[bytes], columns: Columns | None) -> None:
    if columns:
        raise DataError(f"columns {columns} with two plain files; leave them out, the first file is the source")
    for path, head in zip(paths, heads, strict=True):
        if head.startswith(_MO_MAGIC) or _suffix(path) in (".tmx", ".mo", ".gmo", ".po"):
            raise DataError(f"{path} holds both sides already; give it alone, not with a second file")


def _suffix(path: Path) -> str:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    while suffixes and suffixes[-1] in _PACKED:
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


def _format(path: Path, head: bytes) -> Format:
    if head.startswith(_MO_MAGIC):
        return "mo"
    by_name = _SUFFIXES.get(_suffix(path))
    if by_name:
        return by_name
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if start.startswith((b"<?xml", b"<tmx", b"<!DOCTYPE tmx")):
        return "tmx"
    if start.startswith(b"{"):
        return "jsonl"
    if b"\t" in head.split(b"\n", 1)[0]:
        return "tsv"
    raise DataError(
        f"{path}: a single file, and its first line has no tab; give a second file, or a TSV, CSV, JSONL, TMX, PO or MO"
    )


def _fingerprint(path: Path) -> dict[str, str | int]:
    with open_regular(path) as file:
        status = os.fstat(file.fileno())
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"path": str(path), "bytes": status.st_size, "mtime_ns": status.st_mtime_ns, "sha256": digest}


def _unequal(paths: tuple[Path, Path], error: UnequalError, rules: Rules) -> str:
    counts = f"{paths[0]} has {error.src_lines:,} lines and {paths[1]} has {error.tgt_lines:,}"
    place = first_suspicious_line(paths, rules.line_limit)
    where = f"they seem to part near line {place.line:,} ({place.tale})" if place else "no place stands out"
    return f"{counts}, and line i must belong to line i; {where}; put the missing line back"
