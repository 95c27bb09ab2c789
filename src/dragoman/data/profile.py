"""What one side of a corpus looks like, added up while its lines stream by."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from dragoman.data.characters import (
    SCRIPTS,
    Characters,
    IntArray,
    bigram_profile,
    leading_scripts,
    lines_with_separators,
    script_counts,
)

SHOWN = 5
"""Examples kept of each kind."""

BINS = 4096
"""Of the letter pairs."""

_ALL_OF = 20_000
"""So many lines go into the letter pairs whole, of the rest every eighth."""


@dataclass
class Tally:
    """How many lines have a property, and the numbers of the first of them."""

    count: int = 0
    lines: list[int] = field(default_factory=list)

    def add(self, lines: Sequence[int] | IntArray) -> None:
        """Count these lines."""
        self.count += len(lines)
        self.lines += [int(line) for line in lines[: max(0, SHOWN - len(self.lines))]]


@dataclass
class SideProfile:
    """Sums over the lines of one side."""

    lines: int = 0
    characters: int = 0
    longest: list[tuple[int, int]] = field(default_factory=list)
    "(characters, line number), longest first."
    letters: IntArray = field(default_factory=lambda: np.zeros(len(SCRIPTS), np.int64))
    "Letters of each script; 0 counts what is no letter."
    led_by: list[Tally] = field(default_factory=lambda: [Tally() for _ in SCRIPTS])
    "Lines whose letters are mostly of each script; 0 counts lines without letters."
    bigrams: IntArray = field(default_factory=lambda: np.zeros(BINS, np.int64))
    "Hashed pairs of neighbouring letters."
    decomposed: Tally = field(default_factory=Tally)
    "Lines that NFC would change."
    compatibility: Tally = field(default_factory=Tally)
    "Lines that NFKC would change further (full-width signs, ligatures, no-break spaces)."
    separators: Tally = field(default_factory=Tally)
    "Lines that hold a character which other programs take for the end of a line."

    def add(self, texts: Sequence[str], chars: Characters, numbers: IntArray) -> None:
        """The next lines, their code points, and their line numbers."""
        self.lines += len(texts)
        self.characters += len(chars.codes)
        self._add_lengths(chars.lengths, numbers)
        self._add_scripts(chars, numbers)
        sampled = len(texts) if self.lines <= _ALL_OF else 1 + len(texts) // 8
        self.bigrams += bigram_profile(chars.head(sampled), BINS)
        self.separators.add(numbers[lines_with_separators(chars)])
        self._add_forms(texts, numbers)

    def _add_lengths(self, lengths: IntArray, numbers: IntArray) -> None:
        top = np.argsort(-lengths, kind="stable")[:SHOWN]
        found = zip(lengths[top].tolist(), numbers[top].tolist(), strict=True)
        self.longest = sorted([*self.longest, *found], key=lambda item: (-item[0], item[1]))[:SHOWN]

    def _add_scripts(self, chars: Characters, numbers: IntArray) -> None:
        self.letters += script_counts(chars)
        leaders = leading_scripts(chars)
        for script in np.unique(leaders):
            self.led_by[script].add(numbers[leaders == script])

    def _add_forms(self, texts: Sequence[str], numbers: IntArray) -> None:
        """Whole batches are asked first: nearly always nothing is wrong."""
        batch = "\n".join(texts)
        if not unicodedata.is_normalized("NFC", batch):
            self.decomposed.add(numbers[[not unicodedata.is_normalized("NFC", text) for text in texts]])
        if not unicodedata.is_normalized("NFKC", batch):
            self.compatibility.add(numbers[[_folds(text) for text in texts]])

    def script_shares(self) -> dict[str, float]:
        """Script -> its share of the letters, largest first."""
        total = int(self.letters[1:].sum())
        order = np.argsort(-self.letters[1:], kind="stable") + 1
        return {SCRIPTS[script]: int(self.letters[script]) / total for script in order if self.letters[script]}

    def main_scripts(self) -> tuple[str, ...]:
        """Scripts that lead a tenth of the lines with letters, at least; most frequent first."""
        counts = np.array([tally.count for tally in self.led_by])
        counts[0] = 0
        order = np.argsort(-counts, kind="stable")
        return tuple(SCRIPTS[script] for script in order if counts[script] and counts[script] * 10 >= counts.sum())

    def off_script(self) -> Tally:
        """Lines led by another script than the main ones."""
        main = self.main_scripts()
        others = [tally for script, tally in zip(SCRIPTS, self.led_by, strict=True) if script and script not in main]
        return Tally(
            sum(tally.count for tally in others), sorted(line for tally in others for line in tally.lines)[:SHOWN]
        )

    def likeness(self, other: "SideProfile") -> float:
        """How alike the letter pairs of two sides are: 1 for one language and domain, near 0 for different scripts.

        The Bhattacharyya coefficient of the two distributions.
        """
        ours, theirs = self.bigrams / max(1, self.bigrams.sum()), other.bigrams / max(1, other.bigrams.sum())
        return float(np.sqrt(ours * theirs).sum())


def _folds(text: str) -> bool:
    """Whether NFKC changes a text that NFC leaves alone."""
    if text.isascii() or unicodedata.is_normalized("NFKC", text):
        return False
    return unicodedata.is_normalized("NFC", text)
