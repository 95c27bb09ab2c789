"""Where two sides stop belonging together, seen from the lines alone: lengths, digits, and how they end.

For every line and every small shift k, the log of how much likelier it is that source i and target i + k are
translations than that they are strangers: the difference of log lengths is Laplace distributed, narrowly for
translations and widely for strangers (after Gale and Church 1993, who use a normal distribution); the digits of
translations mostly agree; questions stay questions. A lost line shows as a stretch in which some shift fits better than
none by more than chance allows.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dragoman.data.characters import Characters, IntArray, characters, digit_marks, endings
from dragoman.data.lines import LINE_LIMIT, FileFacts, read_blocks

FloatArray = npt.NDArray[np.float32]

BLOCK = 1 << 16
"""Pairs looked at together."""

_OVERLAP = 1 << 10
_SHIFTS = tuple(shift for size in range(1, 5) for shift in (size, -size))
_WINDOW = 64
_FEWEST = 2 * _WINDOW
_GAIN = 30.0
"""Least evidence (natural log) for a shift: chance gives this much in one of 10^13 places."""
_LOSS = 100.0
"""Least evidence against belonging together, when no shift explains it."""
_FAR = 1000
_TELLING = 0.8
"""Lengths tell something if those of translations vary by less than so much of what strangers do."""
_BEST_BIAS = 1.25
"""The mean distance in the best twentieth of the windows is so much less than in all, by chance."""
_SAME_DIGITS, _OTHER_DIGITS = 2.5, -1.8
_SAME_ENDING, _OTHER_ENDING = 0.1, -1.0


class Sketch(NamedTuple):
    """What is remembered of each line of one side."""

    length: FloatArray
    "log(1 + characters)"
    digits: npt.NDArray[np.uint32]
    "A mark of its digits; 0 without."
    ending: npt.NDArray[np.uint8]
    "Its last punctuation."

    def part(self, start: int, stop: int) -> "Sketch":
        """Lines ``start`` to ``stop``."""
        return Sketch(self.length[start:stop], self.digits[start:stop], self.ending[start:stop])


class Scales(NamedTuple):
    """Mean distance of log(target length) - log(source length) from its local mean."""

    kin: float
    strangers: float


@dataclass(frozen=True)
class Misalignment:
    """A stretch of pairs that do not seem to belong together."""

    line: int
    "Where it begins, within a few lines."
    last_line: int
    "Where it ends, or as far as was looked."
    shift: int | None
    "How many lines further down the target fits (negative: further up); None if no small shift fits."

    @property
    def tale(self) -> str:
        """The finding in words."""
        if self.shift is None:
            return "from there lengths and digits of the two sides no longer go together"
        lines = "line" if abs(self.shift) == 1 else "lines"
        return f"from there the target fits {abs(self.shift)} {lines} {'later' if self.shift > 0 else 'earlier'}"


def sketch(chars: Characters) -> Sketch:
    """Sketch of some lines. Memory: 9 bytes a line."""
    return Sketch(
        np.log1p(chars.lengths).astype(np.float32),
        digit_marks(chars).astype(np.uint32),
        endings(chars),
    )


def find_misalignment(src: Sketch, tgt: Sketch, scales: Scales) -> tuple[int, int, int | None] | None:
    """First index, last index and shift of the first stretch of ``src`` that does not fit ``tgt``, or nothing.

    Cost: about 2 microseconds a line.
    """
    straight = _likelihood(src, tgt, 0, scales)
    shifted = [stretch for shift in _SHIFTS if (stretch := _shifted_stretch(src, tgt, shift, scales, straight))]
    lost = _best_stretch(-straight)
    if shifted:
        first = min(stretch.start for stretch in shifted)
        if lost.gain < _LOSS or first < lost.start + _WINDOW:
            best = max((stretch for stretch in shifted if stretch.start < first + _WINDOW), key=lambda each: each.gain)
            return best.start, best.stop, best.shift
    if lost.gain < _LOSS:
        return None
    middle = (lost.start + lost.stop) // 2
    far = _far_shift(src, tgt, scales, lost.start, lost.stop)
    far = _far_shift(src, tgt, scales, middle, lost.stop) if far is None else far
    found = _shifted_stretch(src, tgt, far, scales, straight) if far is not None else None
    return (found.start, found.stop, far) if found else (lost.start, lost.stop, None)


def _shifted_stretch(src: Sketch, tgt: Sketch, shift: int, scales: Scales, straight: FloatArray) -> "_Stretch | None":
    """The stretch that ``shift`` explains best, if its lines fit well under it and better than without."""
    fit = _likelihood(src, tgt, shift, scales)
    stretch = _best_stretch(fit - straight)
    if stretch.gain < _GAIN or fit[stretch.start : stretch.stop + 1].sum() < _GAIN / 2:
        return None
    return stretch._replace(shift=shift)


@dataclass
class AlignmentWatch:
    """Looks for the first misalignment while pairs stream by; holds one block of them."""

    found: Misalignment | None = None
    _src: list[Sketch] = field(default_factory=list)
    _tgt: list[Sketch] = field(default_factory=list)
    _lines: list[IntArray] = field(default_factory=list)
    _held: int = 0
    _scales: Scales | None = None

    def add(self, src: Characters, tgt: Characters, lines: IntArray) -> None:
        """The next pairs and their line numbers."""
        if self.found:
            return
        self._src.append(sketch(src))
        self._tgt.append(sketch(tgt))
        self._lines.append(lines)
        self._held += len(lines)
        if self._held >= BLOCK:
            self.look()

    def look(self) -> None:
        """Judge what is held now; call it once more at the end."""
        if not self._held or self.found:
            return
        src, tgt, lines = _joined(self._src), _joined(self._tgt), np.concatenate(self._lines)
        self._scales = measure_scales(src, tgt) or self._scales
        stretch = find_misalignment(src, tgt, self._scales) if self._scales else None
        if stretch:
            self.found = Misalignment(int(lines[stretch[0]]), int(lines[stretch[1]]), stretch[2])
        kept = max(0, self._held - _OVERLAP)
        self._src, self._tgt = [src.part(kept, self._held)], [tgt.part(kept, self._held)]
        self._lines, self._held = [lines[kept:]], self._held - kept


def first_suspicious_line(paths: tuple[Path, Path], line_limit: int = LINE_LIMIT) -> Misalignment | None:
    """Where two files of unequally many lines part; reads both once more.

    Memory: 9 bytes a line of each.
    """
    parts = [list(_sketches(path, line_limit)) for path in paths]
    if not all(parts):
        return None
    src, tgt = map(_joined, parts)
    scales = None
    for start in range(0, min(len(src.length), len(tgt.length)), BLOCK - _OVERLAP):
        ours, theirs = src.part(start, start + BLOCK), tgt.part(start, start + BLOCK)
        scales = measure_scales(ours, theirs) or scales
        found = find_misalignment(ours, theirs, scales) if scales else None
        if found:
            return Misalignment(start + found[0] + 1, start + found[1] + 1, found[2])
    return _parting(src, tgt)


def _parting(src: Sketch, tgt: Sketch) -> Misalignment | None:
    """The likeliest place of the one gap that explains both counts: before it no shift, after it the difference."""
    shift = len(tgt.length) - len(src.length)
    scales = measure_scales(src, tgt, (*_SHIFTS, shift))
    if scales is None:
        return None
    straight, shifted = (_likelihood(src, tgt, by, scales).astype(np.float64) for by in (0, shift))
    gap = max(0, -shift)
    before = np.concatenate(([0.0], np.cumsum(straight)))
    after = np.concatenate((np.cumsum(shifted[::-1])[::-1], np.zeros(gap + 1)))[gap:]
    total = before + after
    start = int(np.argmax(total))
    if total[start] - before[-1] < _GAIN / 3:
        return None
    return Misalignment(min(start + 1, len(src.length)), len(src.length), shift)


def _sketches(path: Path, line_limit: int) -> Iterator[Sketch]:
    for block in read_blocks(path, FileFacts(str(path)), keep_controls=True, line_limit=line_limit):
        yield sketch(characters([line or " " for line in block.lines]))


def _joined(sketches: Sequence[Sketch]) -> Sketch:
    return Sketch(*(np.concatenate(arrays) for arrays in zip(*sketches, strict=True)))


class _Stretch(NamedTuple):
    """A run of lines and the evidence it adds up to."""

    gain: float
    start: int
    stop: int
    shift: int = 0


def measure_scales(src: Sketch, tgt: Sketch, shifts: Sequence[int] = _SHIFTS) -> Scales | None:
    """The scales of these lines; nothing if they are too few, or if lengths tell nothing under any of the ``shifts``.

    Measured where half of the lines fit under some shift, or else in the best twentieth.
    """
    size = min(len(src.length), len(tgt.length))
    if size < _FEWEST:
        return None
    x, y = src.length[:size], tgt.length[:size]
    strangers = float(np.mean(_unevenness(x, np.roll(y, size // 3))))
    windows = np.stack([_window_means(_unevenness(x, np.roll(y, -shift))) for shift in (0, *shifts)])
    kin = float(np.median(windows.min(axis=0)))
    if kin >= _TELLING * strangers:
        kin = _BEST_BIAS * float(np.quantile(windows, 0.05, axis=1).min())
    kin = max(kin, strangers / 8, 1e-3)
    return Scales(kin, strangers) if kin < _TELLING * strangers else None


def _unevenness(src_length: FloatArray, tgt_length: FloatArray) -> FloatArray:
    """Distance of each difference of lengths from the mean of its neighbourhood.

    From the neighbourhood's, because corpora have passages with a ratio of their own (names, headings, tables).
    """
    difference: FloatArray = tgt_length - src_length
    means = _window_means(difference) if len(difference) >= _WINDOW else difference.mean(keepdims=True)
    expected = np.repeat(means, _WINDOW)
    whole = min(len(expected), len(difference))
    difference[:whole] -= expected[:whole]
    difference[whole:] -= means[-1]
    return np.absolute(difference, out=difference)


def _window_means(values: FloatArray) -> FloatArray:
    count = len(values) // _WINDOW
    means: FloatArray = values[: count * _WINDOW].reshape(count, _WINDOW).mean(axis=1)
    return means


def _likelihood(src: Sketch, tgt: Sketch, shift: int, scales: Scales) -> FloatArray:
    """log p(translations) - log p(strangers) of source i and target i + shift; 0 where there is no such target."""
    size = len(src.length)
    start, stop = max(0, -shift), min(size, len(tgt.length) - shift)
    scores = np.zeros(size, np.float32)
    if start >= stop:
        return scores
    ours, theirs = src.part(start, stop), tgt.part(start + shift, stop + shift)
    distance = _unevenness(ours.length, theirs.length)
    score = distance * np.float32(1 / scales.strangers - 1 / scales.kin) + np.float32(
        np.log(scales.strangers / scales.kin)
    )
    digits = np.flatnonzero((ours.digits > 0) & (theirs.digits > 0))
    score[digits] += np.where(ours.digits[digits] == theirs.digits[digits], _SAME_DIGITS, _OTHER_DIGITS)
    score += np.where(ours.ending == theirs.ending, np.float32(_SAME_ENDING), np.float32(_OTHER_ENDING))
    scores[start:stop] = np.clip(score, -4.0, 4.0)
    return scores


def _best_stretch(gains: FloatArray) -> _Stretch:
    """The run of lines with the largest sum."""
    total = np.concatenate(([0.0], np.cumsum(gains, dtype=np.float64)))
    lowest = np.minimum.accumulate(total)
    stop = int(np.argmax(total - lowest))
    start = int(np.argmin(total[: stop + 1]))
    return _Stretch(float(total[stop] - total[start]), start, max(start, stop - 1))


def _far_shift(src: Sketch, tgt: Sketch, scales: Scales, first: int, last: int) -> int | None:
    """The shift of at most :data:`_FAR` lines under which the lines from ``first`` on fit, if one does."""
    part = src.part(first, min(last + 1, first + 4 * _WINDOW))
    size = len(part.length)
    shifts = range(max(-_FAR, -first), min(_FAR, len(tgt.length) - first - size) + 1)
    starts = [first + shift for shift in shifts]
    scores = [float(_likelihood(part, tgt.part(start, start + size), 0, scales).sum()) for start in starts]
    return shifts[int(np.argmax(scores))] if scores and max(scores) >= _GAIN else None
