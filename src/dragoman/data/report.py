"""The doctor: what a corpus is like, what is suspicious about it, what will not be trained on; before any training."""

from array import array
from collections.abc import Iterator

from dragoman.data.census import Census, Extreme, repeats, shared
from dragoman.data.corpus import Corpus
from dragoman.data.facts import (
    LEVELS,
    Comparison,
    CorpusReport,
    Count,
    Example,
    FileReport,
    Finding,
    Report,
    SideReport,
    Skip,
    Suspicion,
)
from dragoman.data.findings import find
from dragoman.data.lines import FileFacts
from dragoman.data.pair import Skipped
from dragoman.data.profile import SideProfile, Tally
from dragoman.errors import DataError

__all__ = [
    "Comparison",
    "CorpusReport",
    "Count",
    "Example",
    "FileReport",
    "Finding",
    "Report",
    "SideReport",
    "Skip",
    "Suspicion",
    "examine",
]

TEXT_SHOWN = 80
"""Characters of an example's text that are kept."""

_ENOUGH_TO_COMPARE = 20


def examine(
    train: Corpus, valid: Corpus | None = None, test: Corpus | None = None, *, drop_duplicates: bool = False
) -> Report:
    """Read each corpus once and report on it. Nothing in a corpus raises: what cannot be read is an ``error`` finding.

    Args:
        train: to be trained on.
        valid: to be validated on; looked for in ``train``.
        test: to be reported on; looked for in ``train`` and ``valid``.
        drop_duplicates: say that repeated pairs will be dropped.

    Cost: 10 to 20 microseconds a pair; 16 bytes of memory a pair and some 100 MB.
    """
    corpora = {"valid": valid, "test": test, "train": train}
    studies = {name: _Study(name, corpus) for name, corpus in corpora.items() if corpus is not None}
    reports = {name: study.report() for name, study in studies.items()}
    comparisons = tuple(_comparisons(studies))
    findings = sorted(
        find(list(reports.values()), comparisons, drop_duplicates), key=lambda finding: LEVELS.index(finding.level)
    )
    return Report(reports["train"], reports.get("valid"), reports.get("test"), comparisons, tuple(findings))


class _Study:
    """One corpus, read and counted."""

    def __init__(self, name: str, corpus: Corpus) -> None:
        self.name = name
        self.corpus = corpus
        self.census = Census(lines=None if name == "train" else array("q"))
        self.error = ""
        tolerant = corpus.lenient()
        try:
            self.census.add_all(tolerant)
        except DataError as error:
            self.error = str(error)
        self.skipped, self.files = tolerant.skipped, tolerant.files

    def report(self) -> CorpusReport:
        census = self.census
        repeated = repeats(census)
        outliers, extremes = census.ratios.outliers()
        found = census.watch.found
        return CorpusReport(
            name=self.name,
            format=self.corpus.format,
            files=tuple(_file_report(facts) for facts in self.files),
            pairs=census.pairs,
            strict=not self.corpus.rules.skip_invalid,
            skipped=_skips(self.skipped),
            joined=self.skipped.joined,
            src=_side_report(census.src),
            tgt=_side_report(census.tgt),
            length_ratio=census.ratios.median() if census.pairs else None,
            length_correlation=census.ratios.correlation(),
            ratio_outliers=outliers,
            ratio_examples=tuple(map(_example, extremes)),
            copies=_count(census.copies),
            duplicates=repeated.duplicates,
            several_targets=repeated.several_targets,
            likeness=census.src.likeness(census.tgt),
            misalignment=Suspicion(found.line, found.last_line, found.shift, found.tale) if found else None,
            error=self.error,
        )


def _file_report(facts: FileFacts) -> FileReport:
    return FileReport(facts.path, facts.lines, facts.bytes, facts.bom, facts.crlf, facts.final_newline)


def _skips(skipped: Skipped) -> tuple[Skip, ...]:
    return tuple(
        Skip(reason, count, tuple(skipped.lines[reason]), skipped.tales.get(reason, ""))
        for reason, count in skipped.counts.items()
    )


def _side_report(side: SideProfile) -> SideReport:
    return SideReport(
        characters=side.characters,
        mean_length=side.characters / side.lines if side.lines else 0.0,
        longest=tuple(side.longest),
        scripts=side.script_shares(),
        main_scripts=side.main_scripts(),
        off_script=_count(side.off_script()),
        decomposed=_count(side.decomposed),
        compatibility=_count(side.compatibility),
        separators=_count(side.separators),
    )


def _count(tally: Tally) -> Count:
    return Count(tally.count, tuple(tally.lines))


def _example(extreme: Extreme) -> Example:
    return Example(extreme.pair.line, _cut(extreme.pair.src), _cut(extreme.pair.tgt))


def _cut(text: str) -> str:
    return text if len(text) <= TEXT_SHOWN else text[: TEXT_SHOWN - 3] + "..."


def _comparisons(studies: dict[str, _Study]) -> Iterator[Comparison]:
    for name, other in (("valid", "train"), ("test", "train"), ("test", "valid")):
        if name in studies and other in studies:
            ours, theirs = studies[name].census, studies[other].census
            found = shared(ours, theirs)
            yield Comparison(name, other, _count(found.pairs), _count(found.sources), _swapped(ours, theirs))


def _swapped(ours: Census, theirs: Census) -> bool:
    """Whether each side looks more like the other corpus's opposite side (related languages are 0.1 to 0.2 apart)."""
    if min(ours.pairs, theirs.pairs) < _ENOUGH_TO_COMPARE:
        return False
    straight = ours.src.likeness(theirs.src) + ours.tgt.likeness(theirs.tgt)
    crossed = ours.src.likeness(theirs.tgt) + ours.tgt.likeness(theirs.src)
    return crossed > straight + 0.1
