"""A sentence with its translation, and the account of those that were passed over."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from dragoman.data.lines import CONTROLS, LINE_LIMIT, Defect, Fault, refusal
from dragoman.errors import DataError

SHOWN = 5
"""Line numbers kept as examples of one reason."""

WAY_OUT = ", or skip and count such pairs (`--set data.skip_invalid=true`)"

BLANK = (
    "\t\n\v\f\r\x1c\x1d\x1e\x1f \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
    "\xad\u034f\u061c\u180e\u200b\u200c\u200d\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2060\u2061\u2062\u2063\u2064"
    "\u2066\u2067\u2068\u2069\ufe0e\ufe0f\ufeff"
)
"""White space, and characters that show nothing: a text of these alone is an empty text."""


class Pair(NamedTuple):
    """One source text and its translation; neither holds a line feed, neither is blank."""

    src: str
    tgt: str
    line: int
    "Where it stands: the line from 1, or for an MO file the entry from 1."


class Reason(StrEnum):
    """Why a pair was passed over."""

    EMPTY_SRC = "empty source"
    EMPTY_TGT = "empty target"
    EMPTY_BOTH = "both sides empty"
    CONTROL = Fault.CONTROL.value
    LENGTH = Fault.LENGTH.value
    ENCODING = Fault.ENCODING.value
    RECORD = "malformed record"
    LANGUAGE = "language missing"
    UNFINISHED = "fuzzy or obsolete entry"


@dataclass
class Skipped:
    """How many pairs were passed over for which reason, where the first of them stand, and what was altered."""

    counts: dict[str, int] = field(default_factory=dict)
    "Reason -> pairs."
    lines: dict[str, list[int]] = field(default_factory=dict)
    "Reason -> the first few line numbers."
    tales: dict[str, str] = field(default_factory=dict)
    "Reason -> the first case in words, for reasons that have more to tell than their name."
    joined: int = 0
    "Texts of kept pairs in which line breaks became spaces (possible in CSV, JSON, TMX, PO and MO only)."

    @property
    def total(self) -> int:
        """Pairs passed over, all reasons together."""
        return sum(self.counts.values())

    def add(self, reason: Reason, line: int, tale: str = "") -> None:
        """Count one more pair."""
        key = reason.value
        self.counts[key] = self.counts.get(key, 0) + 1
        where = self.lines.setdefault(key, [])
        if len(where) < SHOWN:
            where.append(line)
        if tale:
            self.tales.setdefault(key, tale)

    def summary(self) -> str:
        """For people: `3 pairs skipped (empty source 2, control character 1)`; empty if there is nothing to say."""
        if not self.counts:
            return ""
        parts = ", ".join(f"{reason} {count:,}" for reason, count in self.counts.items())
        return f"{self.total:,} {'pair' if self.total == 1 else 'pairs'} skipped ({parts})"


@dataclass(frozen=True)
class Rules:
    """What the reader lets through."""

    skip_invalid: bool = False
    "Skip and count pairs with invalid UTF-8, and malformed records, instead of refusing the file."
    keep_controls: bool = False
    "Keep pairs with control characters instead of skipping them."
    line_limit: int = LINE_LIMIT
    "Longest line in bytes."


def is_blank(text: str) -> bool:
    """Whether ``text`` shows nothing: it is empty, white space, or zero-width characters."""
    return not text.strip(BLANK)


def emptiness(src: str, tgt: str) -> Reason | None:
    """Which of the two texts is blank."""
    if is_blank(src):
        return Reason.EMPTY_BOTH if is_blank(tgt) else Reason.EMPTY_SRC
    return Reason.EMPTY_TGT if is_blank(tgt) else None


def admit(src: str, tgt: str, line: int, place: str, rules: Rules, skipped: Skipped) -> Pair | None:
    """The pair of two texts from a record, each on one line; or nothing, and the reason counted.

    Raises:
        DataError: half of a surrogate pair, which JSON can write and UTF-8 cannot, unless ``rules.skip_invalid``.
    """
    reason = emptiness(src, tgt)
    if reason:
        skipped.add(reason, line)
        return None
    fault = _surrogate(src) or _surrogate(tgt)
    if fault:
        if not rules.skip_invalid:
            raise DataError(f"{place}: {fault}; write the character itself, or both halves{WAY_OUT}")
        skipped.add(Reason.ENCODING, line, f"{place}: {fault}")
        return None
    control = None if rules.keep_controls else CONTROLS.search(src) or CONTROLS.search(tgt)
    if control:
        skipped.add(Reason.CONTROL, line, f"{place}: control character U+{ord(control[0]):04X}")
        return None
    skipped.joined += ("\n" in src) + ("\n" in tgt)
    return Pair(_on_one_line(src), _on_one_line(tgt), line)


def pass_over(defect: Defect, line: int, name: object, rules: Rules, skipped: Skipped) -> None:
    """Count the pair that a defective line belongs to.

    Raises:
        DataError: the line is not UTF-8, unless ``rules.skip_invalid``.
    """
    if defect.fault is Fault.ENCODING and not rules.skip_invalid:
        raise refusal(name, line, defect, WAY_OUT)
    skipped.add(Reason(defect.fault.value), line, f"{name}, line {line}, byte {defect.offset}: {defect.tale}")


def _on_one_line(text: str) -> str:
    if "\n" not in text:
        return text
    parts = (part.strip(" \t\r") for part in text.split("\n"))
    return " ".join(part for part in parts if part)


def _surrogate(text: str) -> str:
    if text.isascii():
        return ""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        return f"lone surrogate U+{ord(text[error.start]):04X}"
    return ""
