"""From numbers to sentences: what in a report deserves to be said, how loudly, and what to do about it."""

import os
from collections.abc import Iterator, Sequence
from itertools import combinations

from dragoman.data.facts import Comparison, CorpusReport, Count, Finding, Level, SideReport
from dragoman.data.pair import Reason

_REFUSED = (Reason.ENCODING.value, Reason.RECORD.value)

# Shares of the pairs above which something is a warning and not a note.
_MANY_COPIES = 0.05
_MANY_DUPLICATES = 0.2
_MANY_OFF_SCRIPT = 0.01
_MANY_OUTLIERS = 0.01
_MANY_SKIPPED = 0.05

_LEAST_CORRELATION = 0.3
_ENOUGH_TO_CORRELATE = 200
_ENOUGH_TO_TELL_LANGUAGES = 1000
_ONE_LANGUAGE = 0.97
_LONG = 2000
_FEW_PAIRS = 1000


def find(
    reports: Sequence[CorpusReport], comparisons: Sequence[Comparison], drop_duplicates: bool
) -> Iterator[Finding]:
    """All findings, in no particular order."""
    yield from _same_files(reports)
    for report in reports:
        yield from _reading(report)
        yield from _files(report)
        if report.pairs:
            yield from _alignment(report)
            yield from _repeats(report, drop_duplicates)
            yield from _copies(report)
            yield from _lengths(report)
            yield from _side(report, "source", report.src)
            yield from _side(report, "target", report.tgt)
    by_name = {report.name: report for report in reports}
    for comparison in comparisons:
        yield from _shared(comparison, by_name[comparison.name])
        yield from _places(comparison, by_name[comparison.name], by_name[comparison.other])


def _same_files(reports: Sequence[CorpusReport]) -> Iterator[Finding]:
    named = [(report.name, file.path) for report in reports for file in report.files]
    for (name, path), (other, again) in combinations(named, 2):
        if os.path.exists(path) and os.path.exists(again) and os.path.samefile(path, again):
            what = "both sides are the same file" if name == other else f"{name} and {other} use the same file"
            yield Finding("warning", name, f"{what}, {path}", "check the file names")


def _reading(report: CorpusReport) -> Iterator[Finding]:
    if report.error:
        yield Finding("error", report.name, report.error)
    for skip in report.skipped:
        refused = report.strict and skip.reason in _REFUSED
        fate = "will be refused" if refused else "will be dropped"
        tale = f": {skip.tale}" if skip.tale else ""
        what = f"{_number(skip.count, 'pair')} {fate} ({skip.reason}; {_lines(skip.lines, skip.count)}){tale}"
        if refused:
            remedy = "mend the lines, or skip such pairs with `--set data.skip_invalid=true`"
            yield Finding("error", report.name, what, remedy)
        else:
            much = skip.count > _MANY_SKIPPED * (report.pairs + skip.count)
            yield Finding(_level(much), report.name, what)
    if report.joined:
        what = f"{_number(report.joined, 'text')} with line breaks inside, which become spaces"
        yield Finding("note", report.name, what)
    if report.name == "train" and 0 < report.pairs < _FEW_PAIRS:
        what = f"only {_number(report.pairs, 'pair')}; what is learnt from them will not generalise"
        yield Finding("note", "train", what, "add pairs")


def _files(report: CorpusReport) -> Iterator[Finding]:
    for file in report.files:
        if file.bom:
            yield Finding("note", report.name, f"{file.path}: the UTF-8 byte order mark at the start is removed")
        if file.crlf:
            ends = f"{file.crlf:,} of {file.lines:,} lines end in CR LF"
            yield Finding("note", report.name, f"{file.path}: {ends}; the CR is removed")


def _alignment(report: CorpusReport) -> Iterator[Finding]:
    found = report.misalignment
    if found:
        what = f"misaligned from about line {found.line:,} to line {found.last_line:,}: {found.tale}"
        yield Finding("warning", report.name, what, "compare the two sides there; put back or remove a line")
    correlation = report.length_correlation
    if correlation is not None and correlation < _LEAST_CORRELATION and report.pairs >= _ENOUGH_TO_CORRELATE:
        what = f"long sources do not have long targets (correlation of the lengths {correlation:.2f})"
        yield Finding("warning", report.name, what, "make sure that line i of one side translates line i of the other")


def _repeats(report: CorpusReport, drop_duplicates: bool) -> Iterator[Finding]:
    count = report.duplicates
    if count:
        fate = "dropped" if drop_duplicates else "kept"
        remedy = "" if drop_duplicates else "drop them with `--set data.drop_duplicates=true`"
        what = f"{_number(count, 'pair')} ({_share(count, report)}) like an earlier pair, which will be {fate}"
        yield Finding(_level(count > _MANY_DUPLICATES * report.pairs), report.name, what, remedy)
    if report.several_targets:
        what = f"{_number(report.several_targets, 'source')} with more than one translation"
        yield Finding("note", report.name, what)


def _copies(report: CorpusReport) -> Iterator[Finding]:
    count = report.copies.count
    if count:
        share = _share(count, report)
        what = f"{_number(count, 'pair')} ({share}) with the same text on both sides ({_where(report.copies)})"
        remedy = "many copies teach copying; remove untranslated lines"
        yield Finding(_level(count > _MANY_COPIES * report.pairs), report.name, what, remedy)
    if report.likeness > _ONE_LANGUAGE and report.pairs >= _ENOUGH_TO_TELL_LANGUAGES:
        yield Finding("warning", report.name, "both sides look like the same language", "check the file names")


def _lengths(report: CorpusReport) -> Iterator[Finding]:
    count = report.ratio_outliers
    if count:
        worst = ", ".join(f"{example.line:,}" for example in report.ratio_examples)
        share = _share(count, report)
        what = f"{_number(count, 'pair')} ({share}) with an odd length ratio (worst: {_plural('line', count)} {worst})"
        yield Finding(_level(count > _MANY_OUTLIERS * report.pairs), report.name, what, "they are often wrong: look")


def _side(report: CorpusReport, side: str, facts: SideReport) -> Iterator[Finding]:
    where = f"{report.name} {side}"
    yield from _scripts(report, where, facts)
    if facts.decomposed.count:
        what = f"{_found(facts.decomposed)} not in Unicode's composed form (NFC)"
        yield Finding("note", where, what, "nothing to do: training and translation compose them")
    if facts.separators.count:
        what = f"{_found(facts.separators)} with U+2028, NEL, VT, FF, FS, GS or RS inside"
        yield Finding("note", where, what, "they are kept; other tools may count lines differently")
    if facts.longest[0][0] > _LONG:
        length, line = facts.longest[0]
        what = f"the longest line, {line:,}, has {length:,} characters"
        yield Finding("note", where, what, "what is longer than data.max_length pieces will be dropped")


def _scripts(report: CorpusReport, where: str, facts: SideReport) -> Iterator[Finding]:
    """Latin in a text of another script is names and code, so it is never more than a note."""
    main = facts.main_scripts
    off = facts.off_script
    if off.count:
        much = off.count > _MANY_OFF_SCRIPT * report.pairs and main == ("Latin",)
        what = f"{_found(off)} in another script than {' and '.join(main)}"
        yield Finding(_level(much), where, what, "check that they are in the right language")
    if len(main) > 1 and not (set(main) <= {"Han", "Kana"} or set(main) <= {"Han", "Hangul"}):
        what = f"scripts mixed: {' and '.join(main)}"
        yield Finding(_level("Latin" not in main), where, what, "check that this is one language")


def _shared(comparison: Comparison, report: CorpusReport) -> Iterator[Finding]:
    name, other = comparison.name, comparison.other
    for kind, found in (("pair", comparison.shared_pairs), ("source", comparison.shared_sources)):
        if found.count:
            verb = "is" if found.count == 1 else "are"
            what = (
                f"{found.count:,} of {_number(report.pairs, f'{name} {kind}')} {verb} in {other} too ({_where(found)})"
            )
            yield Finding("warning", f"{name} and {other}", what, f"remove from {other}, or scores will be too good")


def _places(comparison: Comparison, ours: CorpusReport, theirs: CorpusReport) -> Iterator[Finding]:
    where = f"{comparison.name} and {comparison.other}"
    if comparison.swapped:
        what = f"source and target of {comparison.name} have changed places"
        yield Finding("warning", where, what, "swap the two files, or the columns")
        return
    for side, mine, other in (("source", ours.src, theirs.src), ("target", ours.tgt, theirs.tgt)):
        if mine.main_scripts and other.main_scripts and not set(mine.main_scripts) & set(other.main_scripts):
            scripts = f"{mine.main_scripts[0]} in {comparison.name} and {other.main_scripts[0]} in {comparison.other}"
            yield Finding("warning", where, f"the {side} is {scripts}", "check the file names")


def _level(much: bool) -> Level:
    return "warning" if much else "note"


def _share(count: int, report: CorpusReport) -> str:
    share = 100 * count / report.pairs
    return f"{share:.2g} %" if share < 99.5 else f"{share:.0f} %"


def _found(found: Count) -> str:
    return f"{_number(found.count, 'line')} ({_lines(found.lines, found.count).partition(' ')[2]})"


def _where(found: Count) -> str:
    return _lines(found.lines, found.count)


def _lines(lines: Sequence[int], count: int) -> str:
    numbers = ", ".join(f"{line:,}" for line in lines)
    return f"{_plural('line', count)} {numbers}{', ...' if count > len(lines) else ''}"


def _number(count: int, noun: str) -> str:
    return f"{count:,} {_plural(noun, count)}"


def _plural(noun: str, count: int) -> str:
    return noun if count == 1 else noun + "s"
