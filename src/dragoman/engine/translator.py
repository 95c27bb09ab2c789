"""The journey of a translation: text -> tokens -> encoder -> search -> text."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol, overload

from dragoman.config import SearchConfig
from dragoman.errors import RequestError
from dragoman.search.beam import beam_search, stream_greedy
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
"""Parts that are read ahead and sorted by length, so that those translated together are of one size."""


class Backend(Stepper[Any], Protocol):
    """A model as the translator wants it: it steps, and it looks back at a finished translation."""

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


@dataclass(frozen=True)
class Translation:
    """One translation of a line; ``parts`` has more than one entry where the line was split, and none where it is blank."""

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
        max_length: longest source in pieces; longer lines are split into sentences, translated and joined again.
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
        self, lines: Iterable[str], search: SearchConfig | None = None, prefix: str = ""
    ) -> Iterator[list[Translation]]:
        """The n best translations of each line, in the order of the lines, as soon as they are known.

        A blank line has itself as its only translation. A line that had to be split has one translation, the parts' best.

        Args:
            search: other settings than the model folder's.
            prefix: text with which every translation must begin.
        """
        settings = search or self.search
        waiting = iter(enumerate(lines))
        while window := list(islice(waiting, WINDOW)):
            cut = [self._cut(line, number) for number, line in window]
            found = iter(self._search([text for parts in cut for text in parts if text.strip()], settings, prefix))
            for (_, line), parts in zip(window, cut, strict=True):
                yield _joined(line, parts, [next(found) if text.strip() else [] for text in parts])

    def stream_tokens(self, text: str, prefix: str = "") -> Iterator[str]:
        """The greedy translation of one text, piece by piece, each as soon as it is known; joined they are the whole.

        Raises:
            RequestError: the text is longer than the model's limit.
        """
        ids = self._source_ids(text)
        if len(ids) > self.max_length + 1:
            raise RequestError(f"the text has {len(ids) - 1} pieces, more than {self.max_length}; split it, or use translate")
        request = self._request(ids, tuple(self.tgt.encode(prefix)), self.search)
        shown, so_far = "", []
        for token in stream_greedy(self.backend, request, self.search):
            so_far.append(token)
            text_so_far = self.tgt.decode(so_far)
            if not text_so_far.endswith("\ufffd"):
                yield text_so_far[len(shown) :]
                shown = text_so_far

    def score(self, pairs: Iterable[tuple[str, str]]) -> Iterator[Hypothesis]:
        """How likely the model finds given translations: the hypothesis the search would have made of each.

        Its score equals the search's own for the same pieces. (A search may have found other pieces for the same text.)

        Raises:
            RequestError: a side is longer than the model's limit.
        """
        waiting = iter(pairs)
        while chunk := list(islice(waiting, SLOTS)):
            sources = [self._source_ids(src) for src, _ in chunk]
            targets = [(*self.tgt.encode(tgt), EOS) for _, tgt in chunk]
            yield from self.score_ids(sources, targets)

    def score_ids(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[Hypothesis]:
        """:meth:`score` of ids, both sides ending with EOS."""
        for ids in (*sources, *targets):
            if len(ids) > self.max_length + 1:
                raise RequestError(f"a text has {len(ids) - 1} pieces, more than {self.max_length}; score its sentences")
        scored = []
        for target, log_probs in zip(targets, self.backend.log_probs(sources, targets), strict=True):
            total = sum(log_probs)
            score = normalise(total, len(target), self.search)
            scored.append(Hypothesis(tuple(target[:-1]), total, score, tuple(log_probs), "eos"))
        return scored

    def align(self, part: Part) -> list[list[float]]:
        """Attention of a translated part: a row for each target piece (and EOS), a column for each source piece (and EOS)."""
        weights: list[list[float]] = self.backend.align(part.source_ids, (*part.hypothesis.ids, EOS)).tolist()
        return weights

    def _search(self, texts: list[str], settings: SearchConfig, prefix: str) -> list[list[Part]]:
        ids = [self._source_ids(text) for text in texts]
        forced = tuple(self.tgt.encode(prefix))
        order = sorted(range(len(texts)), key=lambda place: -len(ids[place]))
        requests = [self._request(ids[place], forced, settings, key=place) for place in order]
        search = sample if settings.sample else beam_search
        found: list[list[Part]] = [[] for _ in texts]
        for turn, hypotheses in search(self.backend, requests, settings, SLOTS):
            place = order[turn]
            if not hypotheses:
                raise nothing_found(place, requests[turn])
            found[place] = [Part(texts[place], self.tgt.decode(one.ids), one, ids[place]) for one in hypotheses]
        return found

    def _request(self, ids: tuple[int, ...], forced: tuple[int, ...], settings: SearchConfig, key: int = 0) -> SourceRequest:
        most = int(settings.max_length_ratio * len(ids)) + settings.max_length_extra
        wanted = max(most, len(forced) + settings.max_length_extra, settings.min_length + 1)
        return SourceRequest(ids, prefix=forced, max_length=min(wanted, 4 * self.max_length), key=key)

    def _source_ids(self, text: str) -> tuple[int, ...]:
        return (*self.src.encode(text), EOS)

    def _cut(self, line: str, number: int) -> list[str]:
        try:
            return split(normalize(line), self.max_length, lambda text: len(self.src.encode(text)))
        except RequestError as error:
            raise RequestError(f"text {number + 1}: {error}") from None


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
