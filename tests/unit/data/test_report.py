"""What the doctor sees: each thing it reports is planted in a corpus and must be found, with numbers and lines."""

import io
import json
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from dragoman.cli.report_table import render
from dragoman.data.census import Census
from dragoman.data.corpus import Corpus, open_corpus
from dragoman.data.report import Finding, Report, examine

Maker = Callable[..., Corpus]


def _words(text: str) -> list[str]:
    return text.split()


ENGLISH = _words("the a man woman dog red house walks through with over under street holding ball water and its small")
GERMAN = _words(
    "der die ein Mann Frau Hund rotes Haus geht durch mit über unter Straße hält Ball Wasser und sein klein"
)
RUSSIAN = _words("мужчина женщина собака красный дом идёт через над под улица держит мяч вода и маленький")


def sentences(count: int, words: Sequence[str], seed: int = 1, lengths: Sequence[int] = ()) -> list[str]:
    rng = random.Random(seed)
    sizes = lengths or [rng.randint(3, 20) for _ in range(count)]
    return [" ".join(rng.choice(words) for _ in range(size)) + f" {number}." for number, size in enumerate(sizes)]


def pairs(count: int, seed: int = 1) -> tuple[list[str], list[str]]:
    src = sentences(count, ENGLISH, seed)
    return src, sentences(count, GERMAN, seed + 100, [line.count(" ") for line in src])


@pytest.fixture
def make(tmp_path: Path) -> Maker:
    def corpus(src: Iterable[str], tgt: Iterable[str], name: str = "train", **options: object) -> Corpus:
        paths = [tmp_path / f"{name}.en", tmp_path / f"{name}.de"]
        for path, lines in zip(paths, (src, tgt), strict=True):
            path.write_bytes("".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape"))
        return open_corpus(paths, **options)  # type: ignore[arg-type]

    return corpus


def said(report: Report, fragment: str, level: str | None = None) -> Finding:
    """The one finding that says ``fragment``."""
    found = [finding for finding in report.findings if fragment in finding.what]
    assert len(found) == 1, [finding.what for finding in report.findings]
    assert level is None or found[0].level == level
    return found[0]


def test_a_good_corpus_has_no_warning(make: Maker) -> None:
    report = examine(make(*pairs(2000)))
    assert [finding for finding in report.findings if finding.level != "note"] == []
    assert report.fit_to_train
    train = report.train
    assert train.pairs == 2000
    assert [file.lines for file in train.files] == [2000, 2000]
    assert train.length_correlation is not None
    assert train.length_correlation > 0.9
    assert train.length_ratio == pytest.approx(1.1, abs=0.15)
    assert train.src.scripts == {"Latin": 1.0}
    assert train.misalignment is None


def test_a_lost_line_in_a_corpus_of_equal_counts_is_located(make: Maker) -> None:
    src, tgt = pairs(3000)
    del tgt[1200]
    report = examine(make(src, [*tgt, "ein Satz zu viel"]))
    found = report.train.misalignment
    assert found is not None
    assert abs(found.line - 1201) <= 5
    assert found.shift == -1
    assert said(report, "misaligned from about line 1,20", "warning").remedy.startswith("compare")


def test_unequal_counts_are_an_error_with_both_counts_and_the_place(make: Maker) -> None:
    src, tgt = pairs(3000)
    del src[2000]
    report = examine(make(src, tgt))
    finding = said(report, "2,999 lines", "error")
    assert "3,000" in finding.what
    assert "near line 2,00" in finding.what
    assert not report.fit_to_train
    assert report.train.misalignment is not None


def test_sides_that_do_not_belong_together(make: Maker) -> None:
    src, tgt = pairs(1000)
    random.Random(3).shuffle(tgt)
    said(examine(make(src, tgt)), "long sources do not have long targets", "warning")


def test_what_will_be_dropped_is_counted_by_reason(make: Maker) -> None:
    src, tgt = pairs(100)
    src[9], tgt[19], src[29], tgt[29] = "", "\u200b", " ", ""
    src[39] += "\0"
    report = examine(make(src, tgt))
    found = {skip.reason: (skip.count, skip.lines) for skip in report.train.skipped}
    assert found == {
        "empty source": (1, (10,)),
        "empty target": (1, (20,)),
        "both sides empty": (1, (30,)),
        "control character": (1, (40,)),
    }
    assert report.train.pairs == 96
    assert "will be dropped (empty source; line 10)" in said(report, "empty source").what
    assert report.fit_to_train


def test_invalid_utf8_is_an_error_unless_it_is_to_be_skipped(make: Maker) -> None:
    src, tgt = pairs(100)
    src[6] = "caf\udce9"
    report = examine(make(src, tgt))
    finding = said(report, "1 pair will be refused (invalid UTF-8; line 7)", "error")
    assert "byte 0xE9" in finding.what
    assert "skip_invalid" in finding.remedy
    assert report.train.pairs == 99
    lenient = examine(make(src, tgt, skip_invalid=True))
    said(lenient, "1 pair will be dropped (invalid UTF-8; line 7)", "note")
    assert lenient.fit_to_train


def test_damage_is_reported_and_not_raised(make: Maker, tmp_path: Path) -> None:
    corpus = make(*pairs(10))
    (tmp_path / "train.en").unlink()
    report = examine(corpus)
    said(report, "cannot be opened", "error")
    assert report.train.pairs == 0
    assert json.dumps(report.to_json())
    render(report, Console(file=io.StringIO()))


def test_line_ends_and_byte_order_marks(make: Maker) -> None:
    src, tgt = pairs(100)
    report = examine(make(["\ufeff" + src[0], *src[1:]], [f"{line}\r" for line in tgt]))
    said(report, "the UTF-8 byte order mark at the start is removed", "note")
    said(report, "100 of 100 lines end in CR LF", "note")
    assert report.train.files[0].bom
    assert report.train.files[1].crlf == 100


def test_duplicates_copies_and_several_targets(make: Maker) -> None:
    src, tgt = pairs(2000)
    src += [src[0], src[0], src[1], "same", "same"]
    tgt += [tgt[0], tgt[0], "anders", "same", "same"]
    corpus = make(src, tgt)
    report = examine(corpus)
    assert report.train.duplicates == 3
    assert report.train.several_targets == 1
    assert report.train.copies.count == 2
    assert report.train.copies.lines == (2004, 2005)
    assert "kept" in said(report, "like an earlier pair", "note").what
    assert "dropped" in said(examine(corpus, drop_duplicates=True), "like an earlier pair").what
    said(report, "1 source with more than one translation", "note")
    said(report, "2 pairs (0.1 %) with the same text on both sides (lines 2,004, 2,005)", "note")


def test_a_corpus_of_copies_is_warned_of(make: Maker) -> None:
    src, _ = pairs(1500)
    report = examine(make(src, src))
    said(report, "with the same text on both sides", "warning")
    said(report, "both sides look like the same language", "warning")


def test_odd_length_ratios_are_counted_and_shown(make: Maker) -> None:
    src, tgt = pairs(500)
    tgt[41] = "kurz"
    src[41] = "a very long source sentence with a great many words, far more than any translation needs " * 3
    tgt[99] = "immer weiter " * 200
    report = examine(make(src, tgt))
    assert report.train.ratio_outliers == 2
    assert {example.line for example in report.train.ratio_examples} == {42, 100}
    assert all(len(example.src) <= 80 and len(example.tgt) <= 80 for example in report.train.ratio_examples)
    said(report, "2 pairs (0.4 %) with an odd length ratio", "note")


def test_lines_in_another_script_are_found(make: Maker) -> None:
    src, tgt = pairs(500)
    for index in range(7, 27):
        tgt[index] = sentences(1, RUSSIAN)[0]
    report = examine(make(src, tgt))
    assert report.train.tgt.off_script.count == 20
    said(report, "20 lines (8, 9, 10, 11, 12, ...) in another script than Latin", "warning")


def test_mixed_scripts_are_warned_of(make: Maker) -> None:
    src, tgt = pairs(300)
    greek = ["και το σπίτι είναι μικρό"] * 150
    report = examine(make(src, sentences(150, RUSSIAN) + greek))
    assert set(report.train.tgt.main_scripts) == {"Cyrillic", "Greek"}
    said(report, "scripts mixed", "warning")
    assert tgt


def test_normal_forms_and_separators_are_counted(make: Maker) -> None:
    src, tgt = pairs(100)
    tgt[3] = "u\u0308ber die Bru\u0308cke"
    tgt[5] = "mit ﬁ und ２"
    src[8] = "a\u2028b and c"
    report = examine(make(src, tgt))
    assert report.train.tgt.decomposed.lines == (4,)
    assert report.train.tgt.compatibility.lines == (6,)
    assert report.train.src.separators.lines == (9,)
    said(report, "not in Unicode's composed form", "note")
    said(report, "with U+2028", "note")


def test_longest_lines_are_shown(make: Maker) -> None:
    src, tgt = pairs(5000)
    src[4500] = "long " * 1000
    report = examine(make(src, tgt))
    assert report.train.src.longest[0] == (5000, 4501)
    assert len(report.train.src.longest) == 5
    said(report, "the longest line, 4,501, has 5,000 characters", "note")


def test_overlap_of_the_sets(make: Maker) -> None:
    src, tgt = pairs(1000)
    valid_src, valid_tgt = pairs(50, seed=77)
    test_src, test_tgt = pairs(50, seed=78)
    valid_src[4], valid_tgt[4] = src[10], tgt[10]
    valid_src[9] = src[20]
    test_src[1], test_tgt[1] = valid_src[30], valid_tgt[30]
    report = examine(make(src, tgt), make(valid_src, valid_tgt, "valid"), make(test_src, test_tgt, "test"))
    with_train, test_train, test_valid = report.comparisons
    assert with_train.shared_pairs.lines == (5,)
    assert with_train.shared_sources.lines == (5, 10)
    assert test_train.shared_sources.count == 0
    assert test_valid.shared_pairs.lines == (2,)
    said(report, "1 of 50 valid pairs is in train too (line 5)", "warning")
    said(report, "2 of 50 valid sources are in train too (lines 5, 10)", "warning")
    said(report, "1 of 50 test pairs is in valid too (line 2)", "warning")


def test_swapped_columns_are_found_between_related_languages(make: Maker) -> None:
    src, tgt = pairs(1000)
    valid_src, valid_tgt = pairs(60, seed=77)
    assert not examine(make(src, tgt), make(valid_src, valid_tgt, "valid")).comparisons[0].swapped
    report = examine(make(src, tgt), make(valid_tgt, valid_src, "valid"))
    assert report.comparisons[0].swapped
    said(report, "source and target of valid have changed places", "warning")


def test_a_set_in_another_script_is_found(make: Maker) -> None:
    src, tgt = pairs(300)
    report = examine(make(src, tgt), make(src[:50], sentences(50, RUSSIAN), "valid"))
    said(report, "the target is Cyrillic in valid and Latin in train", "warning")


def test_one_file_in_two_places_is_warned_of(make: Maker, tmp_path: Path) -> None:
    corpus = make(*pairs(50))
    both = open_corpus([tmp_path / "train.en", tmp_path / "train.en"])
    said(examine(both), "both sides are the same file", "warning")
    report = examine(corpus, corpus)
    assert [finding.what for finding in report.findings if "use the same file" in finding.what] != []


def test_a_corpus_of_one_pair(make: Maker) -> None:
    report = examine(make(["a"], ["b"]))
    assert report.train.pairs == 1
    assert report.train.length_correlation is None
    said(report, "only 1 pair", "note")
    assert report.fit_to_train


def test_texts_of_records_with_line_breaks_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    path.write_text('{"src": "a\\nb", "tgt": "c"}\n')
    report = examine(open_corpus([path]))
    assert report.train.joined == 1
    said(report, "line breaks inside, which become spaces", "note")


def test_the_report_is_plain_json_and_can_be_completed(make: Maker) -> None:
    report = examine(make(*pairs(50)), make(*pairs(20, seed=5), "valid"))
    assert report.preset is None
    full = replace(report, preset="tiny", vocab_size=1000, estimated_minutes=2.5)
    plain = full.to_json()
    assert json.loads(json.dumps(plain)) == plain
    assert plain["preset"] == "tiny"
    assert plain["train"]["src"]["off_script"] == {"count": 0, "lines": []}
    assert plain["comparisons"][0]["other"] == "train"
    assert plain["fit_to_train"] is True


def test_errors_come_first(make: Maker) -> None:
    src, tgt = pairs(100)
    src[6] = "caf\udce9"
    report = examine(make(src, tgt), make(src[:3], tgt[:3], "valid"))
    assert [finding.level for finding in report.findings] == sorted(
        finding.level for finding in report.findings[:1]
    ) + [finding.level for finding in report.findings[1:]]
    assert report.findings[0].level == "error"


def test_the_table_shows_texts_as_they_are(make: Maker) -> None:
    src, tgt = pairs(100)
    src[6] = "caf\udce9"
    report = examine(make(src, tgt), make(*pairs(30, seed=9), "valid"))
    stream = io.StringIO()
    render(replace(report, preset="tiny", vocab_size=1000, estimated_minutes=2.5), Console(file=stream, width=160))
    text = stream.getvalue()
    assert "usable pairs" in text
    assert "valid" in text
    assert "error: train: 1 pair will be refused" in text
    assert "plan: preset tiny, 1,000 pieces of vocabulary, about 2 min of training on this machine" in text
    assert "training will refuse this" in text
    stream.truncate(0)
    odd = replace(report.findings[0], what="[bold]not markup[/bold]", level="note")
    render(replace(report, findings=(odd,)), Console(file=stream, width=160))
    assert "[bold]not markup[/bold]" in stream.getvalue()
    assert "fit to train on" in stream.getvalue()


def test_many_pairs_cost_few_bytes_each(make: Maker) -> None:
    census = Census()
    census.add_all(make(*pairs(3000)))
    assert len(census.pair_hashes) == len(census.src_hashes) == 3000
    assert census.pair_hashes.itemsize + census.src_hashes.itemsize == 16
    assert census.lines is None
