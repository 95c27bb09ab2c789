"""The journey of a translation: text -> tokens -> encoder -> search -> text."""

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol, overload

from dragoman.config import SearchConfig
from dragoman.errors import RequestError
from dragoman.search.beam import Found, stream_greedy
from dragoman.search.request import SourceRequest, nothing_found
from dragoman.search.sample import sample
from dragoman.search.scoring import Hypothesis, normalise
from dragoman.search.stepper import FloatArray, Stepper
from dragoman.text.normalize import normalize
from dragoman.text.segment import split
from dragoman.text.tokenizer import EOS, Tokenizer

SLOTS = 64
"""Sentences translated at once."""

WINDOW = 2048
"""Lines that are read ahead; their parts are sorted by length, so that those translated together are of one size."""

GROWTH = 4
"""No translation is longer than this many times the longest source that the model takes in one go."""

SCORED_TOKENS = 4096
"""Padded target pieces scored at once; each costs memory for the whole vocabulary."""


class Backend(Stepper[Any], Protocol):
    """A model as the translator wants it: it searches, it steps, and it looks back at a finished translation."""

    def beam_search(self, requests: Iterable[SourceRequest], settings: SearchConfig, slots: int) -> Iterator[Found]:
        """As :func:`dragoman.search.beam.beam_search` with this model."""
        ...

    def log_probs(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[list[float]]:
        """Log-probability of every token of given targets."""
        ...

    def align(self, source: Sequence[int], target: Sequence[int]) -> FloatArray:
        """Weights [target tokens, source tokens]."""
        ...


@dataclass(frozen=True)
class Part:
    """The translation of one part of a line: of the whole line, unless that was too long for the model."""

    source: str
    text: str
    hypothesis: Hypothesis
    source_ids: tuple[int, ...]
    "With EOS."

    @property
    def target_ids(self) -> tuple[int, ...]:
        """The tokens of the translation, with EOS if it was reached; one for each of ``token_log_probs``."""
        ids = self.hypothesis.ids
        return (*ids, EOS) if self.hypothesis.finish_reason == "eos" else ids


@dataclass(frozen=True)
class Translation:
    """One translation of a line; ``parts`` has several entries where the line was split, and none where it is blank."""

    text: str
    score: float
    "The search's score; the sum over the parts."
    parts: tuple[Part, ...]

    @property
    def is_cut(self) -> bool:
        """Whether a part ran into the length limit before it was finished."""
        return any(part.hypothesis.finish_reason == "length" for part in self.parts)


class Translator:
    """A model with its tokenizers, ready to translate and to score. Made by :func:`dragoman.load`.

    A line's translation does not depend on the others that are translated with it.

    Args:
        max_length: longest source in pieces; longer lines are split into sentences, translated and joined again. The
            model must be able to write ``GROWTH`` times as many.
    """

    def __init__(self, src: Tokenizer, tgt: Tokenizer, backend: Backend, search: SearchConfig, max_length: int) -> None:
        self.src = src
        self.tgt = tgt
        self.backend = backend
        self.search = search
        self.max_length = max_length

    @overload
    def translate(self, text: str) -> str: ...
    @overload
    def translate(self, text: list[str]) -> list[str]: ...
    def translate(self, text: str | list[str]) -> str | list[str]:
        """The best translation of a text, or of each text of a list.

        Raises:
            RequestError: the text is not valid Unicode, or nothing could be found (see :class:`RequestError`).
        """
        if isinstance(text, str):
            return next(self.stream([text]))[0].text
        return [best[0].text for best in self.stream(text)]

    def stream(
        self,
        lines: Iterable[str],
        search: SearchConfig | None = None,
        prefix: str = "",
        tick: Callable[[], None] | None = None,
    ) -> Iterator[list[Translation]]:
        """The n best translations of each line, in the order of the lines, as soon as they are known.

        A blank line has itself as its only translation. A line that had to be split has one, made of the parts' best.
        A sample depends on the seed and on the text alone: equal lines get equal samples, wherever they stand.

        Args:
            search: other settings than the model folder's.
            prefix: text with which every translation must begin.
            tick: called after every sentence, for whoever shows progress.
        """
        settings = search or self.search
        forced = tuple(self.tgt.encode(prefix))
        waiting = iter(enumerate(lines, 1))
        while window := list(islice(waiting, WINDOW)):
            cut = [self._cut(line, number) for number, line in window]
            tasks = [task for (number, _), parts in zip(window, cut, strict=True) for task in _tasks(number, parts)]
            found = iter(self._search(tasks, settings, forced, tick))
            for (_, line), parts in zip(window, cut, strict=True):
                yield _joined(line, parts, [next(found) if text.strip() else [] for text in parts])

    def stream_tokens(self, text: str, prefix: str = "") -> Iterator[str]:
        """The greedy translation of one text, piece by piece, each as soon as it is known; joined they are the whole.

        Raises:
            RequestError: the text is longer than the model's limit.
        """
        if not text.strip():
            yield text
            return
        ids = self._source_ids(text)
        if len(ids) > self.max_length + 1:
            raise RequestError(f"the text has {len(ids) - 1} pieces, more than {self.max_length}; use translate")
        request = self._request(ids, tuple(self.tgt.encode(prefix)), self.search)
        shown, so_far = "", list[int]()
        for token in stream_greedy(self.backend, request, self.search):
            so_far.append(token)
            known = self.tgt.decode(so_far)
            if not known.endswith("\ufffd"):
                yield known[len(shown) :]
                shown = known
        if rest := self.tgt.decode(so_far)[len(shown) :]:
            yield rest

    def score(self, pairs: Iterable[tuple[str, str]]) -> Iterator[Hypothesis]:
        """How likely the model finds given translations: the hypothesis the search would have made of each.

        Its score equals the search's own for the same pieces. (A search may have found other pieces for the same text.)

        Raises:
            RequestError: a side is longer than the model's limit, or the model's numbers are not finite.
        """
        waiting, first = iter(pairs), 1
        while chunk := list(islice(waiting, SLOTS)):
            sources = [self._source_ids(src) for src, _ in chunk]
            targets = [(*self.tgt.encode(tgt), EOS) for _, tgt in chunk]
            yield from self.score_ids(sources, targets, first)
            first += len(chunk)

    def score_ids(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], first: int = 1
    ) -> list[Hypothesis]:
        """:meth:`score` of ids, both sides ending with EOS; errors count the pairs from ``first``."""
        for side, texts, most in (
            ("source", sources, self.max_length + 1),
            ("target", targets, GROWTH * self.max_length),
        ):
            for number, ids in enumerate(texts, first):
                if len(ids) > most:
                    what = f"pair {number}: the {side} has {len(ids) - 1} pieces, more than {most - 1}"
                    raise RequestError(f"{what}; score its sentences")
        log_probs = [
            row
            for start, stop in _affordable(targets)
            for row in self.backend.log_probs(sources[start:stop], targets[start:stop])
        ]
        numbers = range(first, first + len(targets))
        return [self._scored(*each) for each in zip(numbers, targets, log_probs, strict=True)]

    def align(self, part: Part) -> list[list[float]]:
        """Attention of a translated part: a row for each of ``target_ids``, a column for each of ``source_ids``."""
        weights: list[list[float]] = self.backend.align(part.source_ids, part.target_ids).tolist()
        return weights

    def _search(
        self, tasks: Sequence["_Task"], settings: SearchConfig, forced: tuple[int, ...], tick: Callable[[], None] | None
    ) -> list[list[Part]]:
        ids = [self._source_ids(task.text) for task in tasks]
        order = sorted(range(len(tasks)), key=lambda place: -len(ids[place]))
        requests = [self._request(ids[place], forced if tasks[place].is_first else (), settings) for place in order]
        found: list[list[Part]] = [[] for _ in tasks]
        for turn, hypotheses in self._searched(requests, settings):
            place = order[turn]
            if not hypotheses:
                raise nothing_found(tasks[place].number, requests[turn])
            found[place] = [Part(tasks[place].text, self.tgt.decode(one.ids), one, ids[place]) for one in hypotheses]
            if tick:
                tick()
        return found

    def _searched(self, requests: Sequence[SourceRequest], settings: SearchConfig) -> Iterator[Found]:
        if settings.sample:
            return sample(self.backend, requests, settings, SLOTS)
        return self.backend.beam_search(requests, settings, SLOTS)

    def _request(self, ids: tuple[int, ...], forced: tuple[int, ...], settings: SearchConfig) -> SourceRequest:
        ceiling = GROWTH * self.max_length
        for what, length in (("the prefix", len(forced)), ("search.min_length", settings.min_length)):
            if length >= ceiling:
                raise RequestError(f"{what} is {length} pieces, but this model writes fewer than {ceiling}; shorten it")
        most = int(settings.max_length_ratio * len(ids)) + settings.max_length_extra
        wanted = max(most, len(forced) + settings.max_length_extra, settings.min_length + 1)
        return SourceRequest(ids, prefix=forced, max_length=min(wanted, ceiling), key=_key(ids))

    def _scored(self, number: int, target: Sequence[int], log_probs: Sequence[float]) -> Hypothesis:
        total = sum(log_probs)
        if not math.isfinite(total):
            raise RequestError(f"pair {number}: the model's numbers for it are not finite; its weights are too large")
        score = normalise(total, len(target), self.search)
        return Hypothesis(tuple(target[:-1]), total, score, tuple(log_probs), "eos")

    def _source_ids(self, text: str) -> tuple[int, ...]:
        return (*self.src.encode(text), EOS)

    def _cut(self, line: str, number: int) -> list[str]:
        try:
            return split(normalize(line), self.max_length, lambda text: len(self.src.encode(text)))
        except RequestError as error:
            raise RequestError(f"text {number}: {error}") from None


@dataclass(frozen=True)
class _Task:
    """A part to be translated."""

    number: int
    "Of its line, from 1."
    text: str
    is_first: bool
    "Of its line: the one that begins with the prefix."


def _tasks(number: int, parts: list[str]) -> list[_Task]:
    """The parts that say something; without the white space at the seams, which no sentence of a corpus has."""
    texts = [text.strip() if len(parts) > 1 else text for text in parts if text.strip()]
    return [_Task(number, text, place == 0) for place, text in enumerate(texts)]


def _key(ids: tuple[int, ...]) -> int:
    """The number of a text's sample."""
    return int.from_bytes(hashlib.blake2b(repr(ids).encode(), digest_size=8).digest())


def _affordable(targets: Sequence[Sequence[int]]) -> Iterator[tuple[int, int]]:
    """Stretches of neighbours of at most ``SCORED_TOKENS`` padded pieces together; of a longer target it is alone."""
    start, longest = 0, 0
    for place, target in enumerate(targets):
        longest = max(longest, len(target))
        if place > start and longest * (place - start + 1) > SCORED_TOKENS:
            yield start, place
            start, longest = place, len(target)
    if targets:
        yield start, len(targets)


def _joined(line: str, parts: list[str], found: list[list[Part]]) -> list[Translation]:
    if not any(found):
        return [Translation(line, 0.0, ())]
    if len(parts) == 1:
        return [Translation(part.text, part.hypothesis.score, (part,)) for part in found[0]]
    best = [hypotheses[0] if hypotheses else None for hypotheses in found]
    text = "".join(_with_gap(source, part) for source, part in zip(parts, best, strict=True)).strip()
    kept = tuple(part for part in best if part)
    return [Translation(text, sum(part.hypothesis.score for part in kept), kept)]


def _with_gap(source: str, part: Part | None) -> str:
    """The translation of a part followed by the white space that followed the part."""
    return source if part is None else part.text + source[len(source.rstrip()) :]
