"""Pairs from translators' own files: translation memories (TMX) and message catalogues (PO, MO)."""

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat

import polib  # type: ignore[import-untyped]

from dragoman.data.lines import FileFacts, read_blocks, refusal
from dragoman.data.pair import Pair, Reason, Rules, Skipped, admit
from dragoman.data.stream import read_chunks
from dragoman.data.tables import Columns
from dragoman.errors import DataError

CATALOGUE_LIMIT = 1 << 26
"""Largest PO or MO file in bytes: these are held in memory."""

_MAX_DEPTH = 64
_MAX_LANGUAGES = 100
_MAX_TOKEN = 1 << 22
_NATIVE = frozenset({"bpt", "ept", "it", "ph", "ut"})
"""Elements of a segment that hold another program's formatting codes and no text (TMX 1.4b, content markup)."""

_PO_LINE = re.compile(r'((msgid|msgid_plural|msgctxt|msgstr(\[\d\])?)[ \t]*)?"([^"\\]|\\.)*"')
_NOT_LF = "\v\f\x1c\x1d\x1e\x85\u2028\u2029"
_STAND_INS = "".join(map(chr, range(0xFDD0, 0xFDD8)))
_HIDE = str.maketrans(_NOT_LF, _STAND_INS)
_SHOW = str.maketrans(_STAND_INS, _NOT_LF)


def read_tmx(path: Path, facts: FileFacts, columns: Columns | None, rules: Rules, skipped: Skipped) -> Iterator[Pair]:
    """Two languages of a translation memory, unit after unit, without holding more than one.

    The languages are ``columns``, such as ``("en", "de")`` (``en`` also finds ``en-GB``); else the header's ``srclang``
    and the only other one of the first unit that has two. White space around a line break in a segment is one space,
    formatting codes are left out. XML says itself how it is encoded, so UTF-16 is read here.

    Raises:
        DataError: not well-formed; an internal DTD or an entity of its own (neither is ever followed); more than two
            languages and no ``columns``.
    """
    units = _Units(facts.path, columns, rules.line_limit)
    for unit in _parsed(path, facts, units):
        place = f"{path}, line {unit.line}"
        if unit.too_long:
            skipped.add(Reason.LENGTH, unit.line, f"{place}: the unit has more than {rules.line_limit:,} characters")
            continue
        texts = units.choose(unit)
        if texts is None:
            skipped.add(Reason.LANGUAGE, unit.line, f"{place}: the unit has {', '.join(unit.texts) or 'no language'}")
            continue
        pair = admit(*texts, unit.line, place, rules, skipped)
        if pair:
            yield pair


@dataclass
class _Unit:
    """One `tu`: language -> text, the first of each language."""

    line: int
    texts: dict[str, str] = field(default_factory=dict)
    too_long: bool = False


class _Units:
    """What expat calls while it reads a TMX file; ``finished`` holds the units that are complete."""

    def __init__(self, name: str, columns: Columns | None, limit: int) -> None:
        self.finished: list[_Unit] = []
        self.parser = self._new_parser()
        self._name = name
        self._limit = limit
        self._wanted = columns
        self._srclang = ""
        self._unit: _Unit | None = None
        self._language = ""
        self._text: list[str] = []
        self._size = 0
        self._depth = 0
        self._in_segment = False
        self._native = 0

    def choose(self, unit: _Unit) -> tuple[str, str] | None:
        """The two wanted texts of a unit, or nothing if it lacks one."""
        if self._wanted is None:
            if len(unit.texts) < 2:
                return None
            self._wanted = self._languages(unit)
        src, tgt = (_find(unit.texts, language) for language in self._wanted)
        return None if src is None or tgt is None else (src, tgt)

    def _languages(self, unit: _Unit) -> Columns:
        names = list(unit.texts)
        src = next((name for name in names if self._srclang and _matches(name, self._srclang)), names[0])
        others = [name for name in names if name != src]
        if len(others) > 1:
            raise DataError(
                f"{self._name}, line {unit.line}: the unit has {', '.join(names)}; name the two languages to take"
            )
        return src, others[0]

    def _new_parser(self) -> expat.XMLParserType:
        parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._characters
        parser.StartDoctypeDeclHandler = self._doctype
        parser.EntityDeclHandler = self._entity
        parser.SkippedEntityHandler = self._unknown_entity
        return parser

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise DataError(
                f"{self._here()}: elements nested more than {_MAX_DEPTH} deep; this is not a translation memory"
            )
        if self._in_segment:
            self._native += self._native > 0 or tag in _NATIVE
        elif tag == "tu":
            self._unit, self._size = _Unit(self.parser.CurrentLineNumber), 0
        elif tag == "tuv":
            self._language = _tidy(attributes.get("xml:lang", attributes.get("lang", "")))
        elif tag == "seg":
            self._in_segment, self._text = True, []
        elif tag == "header" and attributes.get("srclang", "*all*") != "*all*":
            self._srclang = _tidy(attributes["srclang"])
        elif self._depth == 1 and tag != "tmx":
            raise DataError(
                f"{self._here()}: the root element is <{tag[:40]}>, not <tmx>; this is not a translation memory"
            )

    def _end(self, tag: str) -> None:
        self._depth -= 1
        if self._native:
            self._native -= 1
        elif tag == "seg":
            self._in_segment = False
            if self._unit and self._language and len(self._unit.texts) < _MAX_LANGUAGES:
                self._unit.texts.setdefault(self._language, "".join(self._text))
            self._text = []
        elif tag == "tuv":
            self._language = ""
        elif tag == "tu" and self._unit:
            self.finished.append(self._unit)
            self._unit = None

    def _characters(self, text: str) -> None:
        if not self._in_segment or self._native or not self._unit:
            return
        self._size += len(text)
        if self._size > self._limit:
            self._unit.too_long = True
            self._unit.texts.clear()
            self._text.clear()
        else:
            self._text.append(text)

    def _doctype(self, name: str, system: str | None, public: str | None, internal: bool) -> None:
        if internal:
            raise DataError(f"{self._here()}: declarations inside <!DOCTYPE>, which are not read; remove `[...]`")

    def _entity(self, name: str, *declaration: object) -> None:
        raise DataError(f"{self._here()}: declares the entity {name!r}, which is not read; write the text itself")

    def _unknown_entity(self, name: str, is_parameter: bool) -> None:
        raise DataError(f"{self._here()}: uses the entity {name!r}, which is not defined; write the text itself")

    def _here(self) -> str:
        return f"{self._name}, line {self.parser.CurrentLineNumber}"


def _parsed(path: Path, facts: FileFacts, units: _Units) -> Iterator[_Unit]:
    parser = units.parser
    for chunk in read_chunks(path):
        facts.bytes += len(chunk)
        _parse(parser, chunk, False, path)
        if facts.bytes - parser.CurrentByteIndex > _MAX_TOKEN + len(chunk):
            raise DataError(f"{path}, line {parser.CurrentLineNumber}: a tag over {_MAX_TOKEN:,} bytes; close it")
        finished, units.finished = units.finished, []
        yield from finished
    _parse(parser, b"", True, path)
    facts.lines = parser.CurrentLineNumber
    yield from units.finished


def _parse(parser: expat.XMLParserType, chunk: bytes, final: bool, path: Path) -> None:
    try:
        parser.Parse(chunk, final)
    except expat.ExpatError as error:
        what = expat.errors.messages.get(error.code, "not well-formed")
        place = f"{path}, line {error.lineno}, byte {parser.ErrorByteIndex}"
        raise DataError(f"{place}: not well-formed ({what}); export the file again") from None
    except (LookupError, ValueError) as error:
        raise DataError(f"{path}: its XML encoding is not known here ({error}); convert it to UTF-8") from None


def _tidy(language: str) -> str:
    return language.strip().replace("_", "-").lower()


def _matches(language: str, wanted: str) -> bool:
    return language == wanted or language.startswith(wanted + "-")


def _find(texts: dict[str, str], wanted: str) -> str | None:
    name = _tidy(wanted)
    return next(
        (texts[language] for language in (name, *texts) if language in texts and _matches(language, name)), None
    )


def read_po(path: Path, facts: FileFacts, columns: Columns | None, rules: Rules, skipped: Skipped) -> Iterator[Pair]:
    """Finished messages of a gettext catalogue in text form; see :func:`_message_pairs` for plurals.

    Raises:
        DataError: not UTF-8, larger than :data:`CATALOGUE_LIMIT`, or not in the PO format, with the line.
    """
    text = _po_text(path, facts, rules)
    try:
        entries = polib.pofile(text, encoding="utf-8")
    except (OSError, ValueError, IndexError, KeyError) as error:
        raise DataError(f"{path}: not in the PO format ({error}); check it with `msgfmt -c`") from None
    yield from _catalogue_pairs(entries, path, "line", _swapped(columns, path), rules, skipped)


def _po_text(path: Path, facts: FileFacts, rules: Rules) -> str:
    """The file as one text with every line checked, and nothing left in it that polib takes for a line end but LF."""
    lines: list[str] = []
    for block in read_blocks(path, facts, keep_controls=True, line_limit=rules.line_limit):
        for number, defect in block.defects.items():
            raise refusal(path, number, defect)
        for number, line in enumerate(block.lines, block.first):
            bare = line.strip()
            if bare and not bare.startswith("#") and not _PO_LINE.fullmatch(bare):
                raise DataError(
                    f"{path}, line {number}: not in the PO format ({bare[:40]!r}); check it with `msgfmt -c`"
                )
        lines += block.lines
        if facts.bytes > CATALOGUE_LIMIT:
            raise DataError(f"{path} has more than {CATALOGUE_LIMIT:,} bytes; split it, or make a TSV of it")
    text = "\n".join([*lines, ""]).replace("\r", "\\r")
    if any(stand_in in text for stand_in in _STAND_INS):
        raise DataError(f"{path}: holds a noncharacter (U+FDD0 to U+FDD7), which no text should; remove it")
    return text.translate(_HIDE)


def read_mo(path: Path, facts: FileFacts, columns: Columns | None, rules: Rules, skipped: Skipped) -> Iterator[Pair]:
    """Messages of a compiled gettext catalogue, numbered from 1 in the file's own order (sorted).

    Raises:
        DataError: larger than :data:`CATALOGUE_LIMIT`, not in the MO format, or not UTF-8.
    """
    data = _mo_bytes(path)
    facts.bytes = len(data)
    try:
        _check_mo(data)
        entries = polib.mofile(data, encoding="utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}: a message is not valid UTF-8 ({error.reason}); convert it with `msgunfmt | msgconv -t UTF-8`"
        ) from None
    except (OSError, ValueError, IndexError, struct.error) as error:
        raise DataError(f"{path}: not in the MO format ({error}); compile it again with `msgfmt`") from None
    facts.lines = len(entries)
    yield from _catalogue_pairs(entries, path, "entry", _swapped(columns, path), rules, skipped)


def _mo_bytes(path: Path) -> bytes:
    data = bytearray()
    for chunk in read_chunks(path):
        data += chunk
        if len(data) > CATALOGUE_LIMIT:
            raise DataError(f"{path} has more than {CATALOGUE_LIMIT:,} bytes; split it, or make a TSV of it")
    return bytes(data)


def _check_mo(data: bytes) -> None:
    """Every string inside the file, and all together no longer than it, before polib believes the header."""
    order = "<" if data[:4] == b"\xde\x12\x04\x95" else ">"
    _, _, strings, originals, translations = struct.unpack_from(order + "5I", data)
    if strings > len(data) // 16:
        raise ValueError(f"the header promises {strings:,} messages, more than fit into {len(data):,} bytes")
    total = 0
    for table in (originals, translations):
        for length, offset in struct.iter_unpack(order + "2I", data[table : table + 8 * strings]):
            total += length
            if offset + length > len(data) or total > len(data):
                raise ValueError("a message lies outside of the file")


def _swapped(columns: Columns | None, path: Path) -> bool:
    if columns in (None, ("msgid", "msgstr")):
        return False
    if columns == ("msgstr", "msgid"):
        return True
    raise DataError(
        f"{path}: columns {columns}; a catalogue has ('msgid', 'msgstr') or, turned round, ('msgstr', 'msgid')"
    )


def _catalogue_pairs(
    entries: list[polib.POEntry], path: Path, unit: str, swapped: bool, rules: Rules, skipped: Skipped
) -> Iterator[Pair]:
    for index, entry in enumerate(entries, 1):
        number = max(1, int(entry.linenum)) if unit == "line" else index
        if "fuzzy" in entry.flags or entry.obsolete:
            skipped.add(Reason.UNFINISHED, number)
            continue
        for texts in _message_pairs(entry):
            src, tgt = reversed(texts) if swapped else texts
            pair = admit(src.translate(_SHOW), tgt.translate(_SHOW), number, f"{path}, {unit} {number}", rules, skipped)
            if pair:
                yield pair


def _message_pairs(entry: polib.POEntry) -> Iterator[tuple[str, str]]:
    """A message with its translation; with plurals the singular with form 0 and the plural with form 1.

    A language with one form for all numbers pairs it with the plural.
    """
    if not entry.msgid_plural:
        yield entry.msgid, entry.msgstr
        return
    forms = entry.msgstr_plural
    if len(forms) > 1:
        yield entry.msgid, forms.get(0, "")
    yield entry.msgid_plural, forms.get(1, forms.get(0, ""))
