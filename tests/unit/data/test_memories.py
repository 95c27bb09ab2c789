"""Translators' own files: TMX without its dangers, PO and MO with plurals, flags and odd line ends."""

import gzip
import random
import struct
import tracemalloc
from contextlib import suppress
from pathlib import Path

import polib  # type: ignore[import-untyped]
import pytest

from dragoman.data.corpus import Corpus, Pair, open_corpus
from dragoman.errors import DataError


def corpus_of(folder: Path, name: str, content: str | bytes, **options: object) -> Corpus:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return open_corpus([path], **options)  # type: ignore[arg-type]


def unit(*texts: tuple[str, str]) -> str:
    return "<tu>" + "".join(f'<tuv xml:lang="{lang}"><seg>{text}</seg></tuv>' for lang, text in texts) + "</tu>\n"


def memory(*units: str, doctype: str = '<!DOCTYPE tmx SYSTEM "tmx14.dtd">', srclang: str = "en") -> str:
    head = (
        f'<?xml version="1.0" encoding="UTF-8"?>\n{doctype}\n<tmx version="1.4"><header srclang="{srclang}"/>\n<body>\n'
    )
    return head + "".join(units) + "</body></tmx>\n"


# ---- TMX


def test_tmx_pairs_the_source_language_with_the_other(tmp_path: Path) -> None:
    text = memory(unit(("en", "one"), ("de", "eins")), unit(("de", "zwei"), ("en", "two")))
    expected = [Pair("one", "eins", 5), Pair("two", "zwei", 6)]
    assert list(corpus_of(tmp_path, "m.tmx", text)) == expected
    assert list(corpus_of(tmp_path, "m.tmx.gz", gzip.compress(text.encode()))) == expected
    utf16 = text.replace("UTF-8", "UTF-16").encode("utf-16")
    assert list(corpus_of(tmp_path, "m.tmx", utf16)) == expected


def test_tmx_languages_can_be_named_without_their_region(tmp_path: Path) -> None:
    text = memory(unit(("EN_gb", "one"), ("de-AT", "eins"), ("fr", "un")), srclang="*all*")
    assert [(pair.src, pair.tgt) for pair in corpus_of(tmp_path, "m.tmx", text, columns=("fr", "en"))] == [
        ("un", "one")
    ]
    with pytest.raises(DataError, match="line 5: the unit has en-gb, de-at, fr; name the two languages"):
        list(corpus_of(tmp_path, "m.tmx", text))


def test_tmx_skips_units_without_both_languages(tmp_path: Path) -> None:
    text = memory(unit(("en", "zero")), unit(("en", "one"), ("de", "eins")), unit(("en", "two"), ("fr", "deux")))
    corpus = corpus_of(tmp_path, "m.tmx", text)
    assert [pair.src for pair in corpus] == ["one"]
    assert corpus.skipped.counts == {"language missing": 2}
    assert corpus.skipped.lines == {"language missing": [5, 7]}


def test_tmx_leaves_formatting_codes_out_and_joins_lines(tmp_path: Path) -> None:
    rich = (
        'a <bpt i="1">&lt;b><sub>no</sub></bpt>bold<ept i="1">&lt;/b></ept> <hi>high</hi>\n   end &amp; more &#x4e2d;'
    )
    corpus = corpus_of(tmp_path, "m.tmx", memory(unit(("en", rich), ("de", "x"))))
    assert [pair.src for pair in corpus] == ["a bold high end & more 中"]
    assert corpus.skipped.joined == 1


def test_tmx_empty_and_control(tmp_path: Path) -> None:
    text = memory(unit(("en", ""), ("de", "x")), unit(("en", "a\x9f"), ("de", "x")), unit(("en", "b"), ("de", "y")))
    corpus = corpus_of(tmp_path, "m.tmx", text)
    assert [pair.src for pair in corpus] == ["b"]
    assert corpus.skipped.counts == {"empty source": 1, "control character": 1}


@pytest.mark.parametrize(
    ("doctype", "text", "what"),
    [
        ('<!DOCTYPE tmx [<!ENTITY x "boom">]>', "&x;", "declarations inside <!DOCTYPE>"),
        ('<!DOCTYPE tmx [<!ENTITY x SYSTEM "file:///etc/passwd">]>', "&x;", "declarations inside <!DOCTYPE>"),
        ('<!DOCTYPE tmx SYSTEM "http://127.0.0.1:9/evil.dtd">', "&x;", "entity 'x', which is not defined"),
        ("", "&x;", "undefined entity"),
    ],
)
def test_tmx_follows_no_entity(tmp_path: Path, doctype: str, text: str, what: str) -> None:
    with pytest.raises(DataError, match=f"line [0-9]+.*{what}"):
        list(corpus_of(tmp_path, "m.tmx", memory(unit(("en", text), ("de", "x")), doctype=doctype)))


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (memory(unit(("en", "a"), ("de", "x")))[:-20], r"line \d+, byte \d+: not well-formed"),
        (memory("<tu><tuv></tu>"), "mismatched tag"),
        (memory(unit(("en", "a"), ("de", "x"))).encode().replace(b">a<", b">\xff<"), "line 5, byte .*not well-formed"),
        ("<html><body/></html>", "root element is <html>, not <tmx>"),
        (memory("<x>" * 100), "nested more than 64"),
        ('<?xml version="1.0" encoding="klingon"?><tmx/>', "unknown encoding|not known here"),
        (f'<tmx a="{"x" * 9_000_000}"/>', "a tag over"),
    ],
)
def test_tmx_that_is_none_is_refused(tmp_path: Path, content: str | bytes, what: str) -> None:
    with pytest.raises(DataError, match=what):
        list(corpus_of(tmp_path, "m.tmx", content))


def test_tmx_is_read_in_bounded_memory(tmp_path: Path) -> None:
    units = [unit(("en", f"{number} word"), ("de", f"{number} wort")) for number in range(4_000)]
    units[2_000] = unit(("en", "x" * 3_000_000), ("de", "y"))
    corpus = corpus_of(tmp_path, "m.tmx", memory(*units))
    tracemalloc.start()
    numbers = [pair.src.split()[0] == pair.tgt.split()[0] for pair in corpus]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(numbers) == 3_999
    assert all(numbers)
    assert corpus.skipped.counts == {"line too long": 1}
    assert peak < 8_000_000


# ---- PO and MO

PO = r"""# head
msgid ""
msgstr "Content-Type: text/plain; charset=UTF-8\n"

msgid "Open"
msgstr "Öffnen"

#, fuzzy
msgid "Close"
msgstr "Schliessen?"

msgctxt "menu"
msgid "A \"quoted\" word\t"
"and \\ more\n"
msgstr "Ein \"Wort\""

msgid "%d file"
msgid_plural "%d files"
msgstr[0] "%d Datei"
msgstr[1] "%d Dateien"

msgid "Untranslated"
msgstr ""

#~ msgid "Old"
#~ msgstr "Alt"
"""


def test_po_pairs_finished_messages(tmp_path: Path) -> None:
    corpus = corpus_of(tmp_path, "m.po", PO)
    assert list(corpus) == [
        Pair("Open", "Öffnen", 5),
        Pair('A "quoted" word\tand \\ more', 'Ein "Wort"', 12),
        Pair("%d file", "%d Datei", 17),
        Pair("%d files", "%d Dateien", 17),
    ]
    assert corpus.skipped.counts == {"fuzzy or obsolete entry": 2, "empty target": 1}
    assert list(corpus_of(tmp_path, "m.po.gz", gzip.compress(PO.encode()))) == list(corpus)
    turned = corpus_of(tmp_path, "m.po", PO, columns=("msgstr", "msgid"))
    assert next(iter(turned)) == Pair("Öffnen", "Open", 5)


def test_po_of_a_language_without_plural_pairs_the_plural(tmp_path: Path) -> None:
    text = 'msgid "%d file"\nmsgid_plural "%d files"\nmsgstr[0] "%d 个文件"\n'
    assert [(pair.src, pair.tgt) for pair in corpus_of(tmp_path, "m.po", text)] == [("%d files", "%d 个文件")]


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x85", "\v", "\f", "\x1c", "\x1d", "\x1e"])
def test_po_lines_end_at_line_feeds_only(tmp_path: Path, separator: str) -> None:
    text = f'msgid "a{separator}b"\nmsgstr "x"\n\nmsgid "c"\nmsgstr "{separator}y"\n'
    assert list(corpus_of(tmp_path, "m.po", text)) == [Pair(f"a{separator}b", "x", 1), Pair("c", f"{separator}y", 4)]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (b'msgid "a\xff"\nmsgstr "x"\n', "line 1, byte 8: byte 0xFF is not valid UTF-8"),
        ('msgid "a"\nmsgstr "x\n', "line 2: not in the PO format"),
        ('msgid "a"\nnonsense "x"\n', "line 2: not in the PO format"),
        ('msgid "a"\nmsgid "b"\n', "not in the PO format"),
        ('msgid "a\ufdd0"\nmsgstr "x"\n', "noncharacter"),
    ],
)
def test_po_that_is_none_is_refused_with_its_line(tmp_path: Path, text: str | bytes, what: str) -> None:
    with pytest.raises(DataError, match=what):
        list(corpus_of(tmp_path, "m.po", text))


def test_catalogues_have_two_columns(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="a catalogue has"):
        list(corpus_of(tmp_path, "m.po", PO, columns=("en", "de")))


@pytest.fixture
def mo(tmp_path: Path) -> bytes:
    """The catalogue above, compiled."""
    path = tmp_path / "made.mo"
    polib.pofile(PO).save_as_mofile(str(path))
    return path.read_bytes()


def test_mo_pairs_messages(tmp_path: Path, mo: bytes) -> None:
    corpus = corpus_of(tmp_path, "whatever.tsv", mo)
    assert corpus.format == "mo"
    found = {(pair.src, pair.tgt) for pair in corpus}
    assert found == {
        ("Open", "Öffnen"),
        ('A "quoted" word\tand \\ more', 'Ein "Wort"'),
        ("%d file", "%d Datei"),
        ("%d files", "%d Dateien"),
    }
    assert [pair.line for pair in corpus] == sorted(pair.line for pair in corpus)


def test_damaged_mo_is_refused_or_read_but_never_crashes(tmp_path: Path, mo: bytes) -> None:
    rng = random.Random(5)
    for _ in range(200):
        data = bytearray(mo)
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(4, len(data))] = rng.randrange(256)
        with suppress(DataError):
            list(corpus_of(tmp_path, "m.mo", bytes(data[: rng.randint(20, len(data))])))


@pytest.mark.parametrize(
    ("numbers", "what"),
    [((0, 1 << 30, 28, 28), "promises 1,073,741,824 messages"), ((0, 1, 28, 28), "outside of the file")],
)
def test_mo_with_a_lying_header_is_refused_before_memory_is_taken(
    tmp_path: Path, numbers: tuple[int, ...], what: str
) -> None:
    data = struct.pack("<5I", 0x950412DE, *numbers) + struct.pack("<8I", *[1 << 31] * 8)
    with pytest.raises(DataError, match=what):
        list(corpus_of(tmp_path, "m.mo", data))
