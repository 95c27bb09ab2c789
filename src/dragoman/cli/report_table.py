"""The doctor's report on a terminal: one column a corpus, then what to know, worst first."""

from collections.abc import Callable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dragoman.data.facts import CorpusReport, Finding, Report, SideReport
from dragoman.train.duration import spell

_STYLES = {"error": "bold red", "warning": "yellow", "note": "dim"}


def render(report: Report, console: Console) -> None:
    """Print ``report``. Texts from the corpus are shown as they are, never read as markup."""
    console.print(_overview([corpus for corpus in (report.train, report.valid, report.test) if corpus]))
    for finding in report.findings:
        console.print(_sentence(finding))
    plan = _plan(report)
    if plan:
        console.print(Text(plan))
    if report.fit_to_train:
        console.print(Text("fit to train on", style="green"))
    else:
        console.print(Text("training will refuse this; see the errors above", style=_STYLES["error"]))


def _overview(corpora: list[CorpusReport]) -> Table:
    table = Table(show_edge=False)
    table.add_column("")
    for corpus in corpora:
        table.add_column(corpus.name, justify="right")
    for name, cell in _ROWS.items():
        table.add_row(name, *(Text(cell(corpus)) for corpus in corpora))
    return table


_ROWS: dict[str, Callable[[CorpusReport], str]] = {
    "lines": lambda corpus: " / ".join(f"{file.lines:,}" for file in corpus.files),
    "usable pairs": lambda corpus: f"{corpus.pairs:,}",
    "passed over": lambda corpus: f"{sum(skip.count for skip in corpus.skipped):,}",
    "source script": lambda corpus: _scripts(corpus.src),
    "target script": lambda corpus: _scripts(corpus.tgt),
    "source length, mean / most": lambda corpus: _lengths(corpus.src),
    "target length, mean / most": lambda corpus: _lengths(corpus.tgt),
    "target / source length": lambda corpus: _optional(corpus.length_ratio),
    "correlation of lengths": lambda corpus: _optional(corpus.length_correlation),
    "odd length ratios": lambda corpus: f"{corpus.ratio_outliers:,}",
    "duplicates": lambda corpus: f"{corpus.duplicates:,}",
    "sources with several targets": lambda corpus: f"{corpus.several_targets:,}",
    "copies": lambda corpus: f"{corpus.copies.count:,}",
}


def _scripts(side: SideReport) -> str:
    return ", ".join(f"{script} {100 * share:.3g} %" for script, share in list(side.scripts.items())[:2]) or "-"


def _lengths(side: SideReport) -> str:
    return f"{side.mean_length:.0f} / {side.longest[0][0]:,}" if side.longest else "-"


def _optional(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _sentence(finding: Finding) -> Text:
    remedy = f"; {finding.remedy}" if finding.remedy else ""
    return Text.assemble(
        (f"{finding.level}: ", _STYLES[finding.level]), (f"{finding.where}: ", "bold"), f"{finding.what}{remedy}"
    )


def _plan(report: Report) -> str:
    parts = []
    if report.preset is not None:
        parts.append(f"preset {report.preset}")
    if report.vocab_size is not None:
        parts.append(f"{report.vocab_size:,} pieces of vocabulary")
    if report.estimated_minutes is not None:
        parts.append(f"about {spell(60 * report.estimated_minutes)} of training on this machine")
    return "plan: " + ", ".join(parts) if parts else ""
