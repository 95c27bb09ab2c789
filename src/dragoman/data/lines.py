"""From bytes to lines: split at LF and nowhere else, before decoding; strict UTF-8; every fault has a place.

U+2028, U+2029, U+0085, VT, FF, FS, GS, RS and a CR that is not before the LF are ordinary characters inside a line, so
the count of lines is what ``wc -l`` says. Whole blocks are decoded at once; only a block that holds something odd is
looked at line by line.
"""

import re
import unicodedata
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO, NamedTuple

from dragoman.data.stream import compression_of, read_chunks
from dragoman.errors import DataError

LINE_LIMIT = 1 << 20
"""Longest line in bytes that is kept; a longer one is passed over in bounded memory."""

CONTROLS = re.compile("[\x00-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f]")
"""Control characters no text needs: C0, DEL and C1 without TAB, LF, CR, and the separators VT FF FS GS RS NEL."""

_CONTROL_BYTES = re.compile(rb"[\x00-\x08\x0e-\x1b\x1f\x7f]|\xc2[\x80-\x84\x86-\x9f]")
_C1_BYTES = re.compile(rb"\xc2[\x80-\x84\x86-\x9f]")
_C0 = bytes([*range(9), *range(0x0E, 0x1C), 0x1F, 0x7F])
_NOT_TEXT = frozenset({"Cc", "Cn", "Co", "Cs"})
_UTF8_BOM = b"\xef\xbb\xbf"
_WIDE_BOMS = (
    (b"\xff\xfe\0\0", "UTF-32LE"),
    (b"\0\0\xfe\xff", "UTF-32BE"),
    (b"\xff\xfe", "UTF-16LE"),
    (b"\xfe\xff", "UTF-16BE"),
)


class Fault(StrEnum):
    """Why a line cannot be used as it is."""

    ENCODING = "invalid UTF-8"
    CONTROL = "control character"
    LENGTH = "line too long"


class Defect(NamedTuple):
    """One faulty line: its kind, the byte (from 0, of the uncompressed file) where it shows, and the tale in words."""

    fault: Fault
    offset: int
    tale: str


@dataclass(frozen=True, slots=True)
class Block:
    """Some consecutive lines: the text of each, and what is wrong with those that are wrong (their text is empty)."""

    first: int
    "Number of the first line, counted from 1."
    lines: list[str]
    defects: dict[int, Defect]
    "By line number."

    def split(self, count: int) -> tuple["Block", "Block"]:
        """The first ``count`` lines and the others."""
        after = self.first + count
        early = {number: defect for number, defect in self.defects.items() if number < after}
        late = {number: defect for number, defect in self.defects.items() if number >= after}
        return Block(self.first, self.lines[:count], early), Block(after, self.lines[count:], late)


@dataclass
class FileFacts:
    """What was seen of a file while it was read."""

    path: str
    lines: int = 0
    bytes: int = 0
    "Uncompressed."
    crlf: int = 0
    "Lines that ended in CR LF."
    bom: bool = False
    "A UTF-8 byte order mark stood at the start and was removed."
    final_newline: bool = True


@dataclass
class Splitter:
    """Cuts pieces of bytes, of any size, into blocks of whole lines; a byte order mark must be in the first piece."""

    facts: FileFacts
    keep_controls: bool = False
    limit: int = LINE_LIMIT
    _rest: bytearray = field(default_factory=bytearray)
    _dropped: int = 0
    _started: bool = False

    def feed(self, piece: bytes) -> Block | None:
        """Take one piece; give the lines that it completes, if any."""
        if not self._started:
            self._started = True
            piece = self._start(piece)
        end = piece.rfind(b"\n") + 1
        if not end:
            self._hold(piece)
            return None
        first = piece.find(b"\n") + 1
        self._hold(piece[:first])
        whole = bytes(self._rest) + piece[first:end]
        self._rest.clear()
        block = self._block(whole)
        self._hold(piece[end:])
        return block

    def finish(self) -> Block | None:
        """Give the last line, if it had no LF.

        Raises:
            DataError: the file has carriage returns and not one line feed.
        """
        if not self._rest:
            return None
        if not self.facts.lines and b"\r" in self._rest[:-1]:
            raise DataError(
                f"{self.facts.path}: no line feed, but carriage returns (line ends of an old Mac); "
                "convert it with `tr '\\r' '\\n'`"
            )
        self.facts.final_newline = False
        whole, self._rest = bytes(self._rest), bytearray()
        self.facts.bytes -= 1
        return self._block(whole + b"\n")

    def _start(self, piece: bytes) -> bytes:
        wide = _wide_encoding(piece)
        if wide:
            raise DataError(f"{self.facts.path} is {wide}, not UTF-8; convert it with `iconv -f {wide} -t UTF-8`")
        if not piece.startswith(_UTF8_BOM):
            return piece
        self.facts.bom = True
        self.facts.bytes = len(_UTF8_BOM)
        return piece[len(_UTF8_BOM) :]

    def _hold(self, piece: bytes) -> None:
        """Keep of an unfinished line no more than shows that it is too long."""
        room = self.limit + 2 - len(self._rest)
        if len(piece) <= room:
            self._rest += piece
            return
        kept = piece[: max(0, room - 1)]
        end = piece[-1:] if piece.endswith(b"\n") else b""
        self._rest += kept + end
        self._dropped += len(piece) - len(kept) - len(end)

    def _block(self, whole: bytes) -> Block:
        """Lines of ``whole``, which ends with LF and starts where the last block ended."""
        facts = self.facts
        first, offset, dropped = facts.lines + 1, facts.bytes, self._dropped
        text = whole.replace(b"\r\n", b"\n")
        defects: dict[int, Defect] = {}
        lines = self._decode_at_once(text)
        if lines is None:
            lines, defects = self._decode_each(whole, first, offset, dropped)
        facts.crlf += len(whole) - len(text)
        facts.lines += len(lines)
        facts.bytes += len(whole) + dropped
        self._dropped = 0
        return Block(first, lines, defects)

    def _decode_at_once(self, text: bytes) -> list[str] | None:
        if len(text) > self.limit or not (self.keep_controls or _free_of_controls(text)):
            return None
        try:
            lines = text.decode("utf-8").split("\n")
        except UnicodeDecodeError:
            return None
        lines.pop()
        return lines

    def _decode_each(self, whole: bytes, first: int, offset: int, dropped: int) -> tuple[list[str], dict[int, Defect]]:
        lines: list[str] = []
        defects: dict[int, Defect] = {}
        for number, raw in enumerate(whole[:-1].split(b"\n"), first):
            text = self._decode(raw.removesuffix(b"\r"), offset, dropped)
            if isinstance(text, Defect):
                defects[number] = text
                text = ""
            lines.append(text)
            offset += len(raw) + 1 + dropped
            dropped = 0
        return lines, defects

    def _decode(self, raw: bytes, offset: int, dropped: int) -> str | Defect:
        if len(raw) > self.limit or dropped:
            return Defect(
                Fault.LENGTH, offset, f"the line has {len(raw) + dropped:,} bytes, more than the {self.limit:,} allowed"
            )
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            tale = f"byte 0x{raw[error.start]:02X} is not valid UTF-8 here ({error.reason})"
            return Defect(Fault.ENCODING, offset + error.start, tale)
        control = None if self.keep_controls else _CONTROL_BYTES.search(raw)
        if control:
            code = control[0][-1]
            return Defect(Fault.CONTROL, offset + control.start(), f"control character U+{code:04X}")
        return text


_REMEDIES = {
    Fault.ENCODING: "convert the file (`iconv -f LATIN1 -t UTF-8`, if it is Latin-1) or mend the line",
    Fault.CONTROL: "remove it",
    Fault.LENGTH: "split the line",
}


def refusal(name: object, line: int, defect: Defect, way_out: str = "") -> DataError:
    """The error for a defective line: file, line, byte offset, what is wrong, what to do."""
    return DataError(f"{name}, line {line}, byte {defect.offset}: {defect.tale}; {_REMEDIES[defect.fault]}{way_out}")


def read_blocks(
    path: Path, facts: FileFacts, *, keep_controls: bool = False, line_limit: int = LINE_LIMIT
) -> Generator[Block, None, None]:
    """The lines of a file in blocks, in order, faulty ones marked; ``facts`` is filled on the way.

    Raises:
        DataError: the file as a whole cannot be read: see :func:`dragoman.data.stream.read_chunks`; UTF-16 or UTF-32;
            no line feeds but carriage returns.
    """
    yield from split_blocks(read_chunks(path), Splitter(facts, keep_controls, line_limit))


def split_blocks(pieces: Iterable[bytes], splitter: Splitter) -> Generator[Block, None, None]:
    """Feed all ``pieces`` to ``splitter``; the lines do not depend on where the pieces were cut."""
    for piece in pieces:
        block = splitter.feed(piece)
        if block:
            yield block
    block = splitter.finish()
    if block:
        yield block


def read_lines(path: Path, *, keep_controls: bool = False, line_limit: int = LINE_LIMIT) -> Iterator[str]:
    """Every line of a file, without its end; blank lines too, so that line i stays line i.

    Args:
        path: a regular file, UTF-8, plain or compressed with gzip, bzip2 or xz.
        keep_controls: let control characters through instead of refusing them.
        line_limit: longest line in bytes.

    Raises:
        DataError: as :func:`read_blocks`, and for the first faulty line, with its number and byte offset.
    """
    for block in read_blocks(path, FileFacts(str(path)), keep_controls=keep_controls, line_limit=line_limit):
        yield from _sound_lines(block, path)


_ARRIVING = 1 << 20


def read_stream(
    stream: BinaryIO, name: str = "standard input", *, keep_controls: bool = False, line_limit: int = LINE_LIMIT
) -> Iterator[str]:
    """Every line of a binary stream, each as soon as it has arrived; as strict as :func:`read_lines`.

    Raises:
        DataError: the stream is compressed, UTF-16 or UTF-32, or a line is faulty.
    """
    splitter = Splitter(FileFacts(name), keep_controls, line_limit)
    for block in split_blocks(_as_they_come(stream, name, line_limit), splitter):
        yield from _sound_lines(block, name)


def _as_they_come(stream: BinaryIO, name: str, limit: int) -> Iterator[bytes]:
    piece = stream.readline(limit)
    kind = compression_of(piece, name)
    if kind:
        raise DataError(f"{name} is compressed with {kind}; decompress it on the way: `{kind} -dc FILE | ...`")
    while piece:
        yield piece
        piece = stream.readline(limit)


def read_arriving(
    stream: BinaryIO, name: str = "standard input", *, keep_controls: bool = False
) -> Iterator[list[str]]:
    """The lines of a binary stream, as many together as have arrived: one from a person, a thousand from a fast pipe.

    Raises:
        DataError: as :func:`read_stream`, after the sound lines before the faulty one.
    """
    splitter = Splitter(FileFacts(name), keep_controls)
    for block in split_blocks(_as_much_as_there_is(stream, name), splitter):
        lines: list[str] = []
        try:
            for line in _sound_lines(block, name):
                lines.append(line)
        except DataError:
            yield lines
            raise
        yield lines


def _as_much_as_there_is(stream: BinaryIO, name: str) -> Iterator[bytes]:
    piece = stream.read1(_ARRIVING)  # type: ignore[attr-defined]
    kind = compression_of(piece, name)
    if kind:
        raise DataError(f"{name} is compressed with {kind}; decompress it on the way: `{kind} -dc FILE | ...`")
    while piece:
        yield piece
        piece = stream.read1(_ARRIVING)  # type: ignore[attr-defined]


def _sound_lines(block: Block, name: object) -> Iterator[str]:
    if not block.defects:
        yield from block.lines
        return
    number = min(block.defects)
    yield from block.lines[: number - block.first]
    raise refusal(name, number, block.defects[number])


def _free_of_controls(text: bytes) -> bool:
    return len(text.translate(None, _C0)) == len(text) and not (b"\xc2" in text and _C1_BYTES.search(text))


def _wide_encoding(head: bytes) -> str:
    """The name of the 16- or 32-bit encoding that the start of a file shows, or nothing."""
    for mark, name in _WIDE_BOMS:
        if head.startswith(mark):
            return name
    sample = head[: min(len(head), 4096) // 4 * 4]
    if b"\0" not in sample:
        return ""
    return next((name for _, name in _WIDE_BOMS if _reads_as(sample, name)), "")


def _reads_as(sample: bytes, encoding: str) -> bool:
    """Whether ``sample`` makes sense as ``encoding`` and not as UTF-8.

    In 16 bits, Latin text is half zeros; text of other scripts still has spaces or line feeds, and as UTF-8 is not
    valid or full of control characters.
    """
    try:
        text = sample.decode(encoding)
    except UnicodeDecodeError as error:
        if error.reason != "unexpected end of data":
            return False
        text = sample[: error.start].decode(encoding)
    if any(unicodedata.category(char) in _NOT_TEXT and char not in "\t\r\n" for char in text):
        return False
    if sum(char < "\u0250" for char in text) * 2 > len(text):
        return True
    return (" " in text or "\n" in text) and not _is_plausible_utf8(sample)


def _is_plausible_utf8(sample: bytes) -> bool:
    try:
        sample.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.reason != "unexpected end of data":
            return False
    return len(sample.translate(None, _C0)) * 4 > len(sample) * 3
