"""The doctor's report as a value: a tree of frozen dataclasses."""

from dataclasses import asdict, dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Count:
    """How many lines, and the numbers of the first of them."""

    count: int
    lines: tuple[int, ...] = ()


@dataclass(frozen=True)
class Skip:
    """Pairs that are passed over for one reason."""

    reason: str
    count: int
    lines: tuple[int, ...]
    tale: str
    "The first case in words, if there is more to say than the reason."


@dataclass(frozen=True)
class FileReport:
    """One file as it was read."""

    path: str
    lines: int
    bytes: int
    "Uncompressed."
    bom: bool
    crlf: int
    final_newline: bool


@dataclass(frozen=True)
class SideReport:
    """One side of the usable pairs."""

    characters: int
    mean_length: float
    longest: tuple[tuple[int, int], ...]
    "(characters, line number), longest first."
    scripts: dict[str, float]
    "Share of the letters, largest first."
    main_scripts: tuple[str, ...]
    off_script: Count
    "Lines written mostly in another script."
    decomposed: Count
    "Lines not in NFC."
    compatibility: Count
    "Lines with characters that NFKC would fold."
    separators: Count
    "Lines with U+2028, NEL, VT, FF, FS, GS or RS inside."


@dataclass(frozen=True)
class Example:
    """A pair to look at; long texts are cut."""

    line: int
    src: str
    tgt: str


@dataclass(frozen=True)
class Suspicion:
    """Where the two sides seem to part."""

    line: int
    last_line: int
    shift: int | None
    tale: str


@dataclass(frozen=True)
class CorpusReport:
    """One of train, valid and test."""

    name: str
    format: str
    files: tuple[FileReport, ...]
    pairs: int
    "Usable ones."
    strict: bool
    "Invalid UTF-8 and malformed records are refused; if not, they are among the skipped."
    skipped: tuple[Skip, ...]
    joined: int
    "Texts in which line breaks become spaces."
    src: SideReport
    tgt: SideReport
    length_ratio: float | None
    "Median of target / source characters."
    length_correlation: float | None
    "Of the log lengths of the two sides; translations have 0.7 and more."
    ratio_outliers: int
    ratio_examples: tuple[Example, ...]
    copies: Count
    "Pairs whose sides are the same text."
    duplicates: int
    "Pairs that repeat an earlier one."
    several_targets: int
    "Sources with more than one translation."
    likeness: float
    "Of the letter pairs of the two sides: near 1 is one language."
    misalignment: Suspicion | None
    error: str
    "Why it could not be read to the end; empty if it could."


@dataclass(frozen=True)
class Comparison:
    """What one corpus has to do with another; line numbers are those of ``name``."""

    name: str
    other: str
    shared_pairs: Count
    shared_sources: Count
    swapped: bool
    "Source and target seem to have changed places."


Level = Literal["error", "warning", "note"]
LEVELS: tuple[Level, ...] = ("error", "warning", "note")
"""Worst first."""


@dataclass(frozen=True)
class Finding:
    """One thing to know: an error stops training, a warning is likely a mistake, a note is for information."""

    level: Level
    where: str
    what: str
    remedy: str = ""


@dataclass(frozen=True)
class Report:
    """All that ``dragoman check`` says; the caller fills in the last three fields with ``dataclasses.replace``."""

    train: CorpusReport
    valid: CorpusReport | None
    test: CorpusReport | None
    comparisons: tuple[Comparison, ...]
    findings: tuple[Finding, ...]
    preset: str | None = None
    vocab_size: int | None = None
    estimated_minutes: float | None = None

    @property
    def fit_to_train(self) -> bool:
        """Whether nothing was found that training would refuse."""
        return not any(finding.level == "error" for finding in self.findings)

    def to_json(self) -> dict[str, Any]:
        """The report as plain dictionaries, lists, numbers and strings."""
        plain = _plain(asdict(self))
        return {**plain, "fit_to_train": self.fit_to_train}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, tuple | list) else value
