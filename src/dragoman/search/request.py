"""What is asked for: one source sentence with its own prefix and limits, checked before anything is computed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from math import isfinite

from dragoman.config import SearchConfig
from dragoman.errors import RequestError

MAX_KEY = 2**64


@dataclass(frozen=True, slots=True)
class SourceRequest:
    """One sentence to search a target for."""

    ids: Sequence[int]
    "Source ids, as the stepper wants them."
    prefix: Sequence[int] = ()
    "Target ids with which every hypothesis must begin."
    max_length: int | None = None
    "Most target tokens, prefix and end of sentence included; None follows the settings (see `prepare`)."
    min_length: int | None = None
    "Target tokens, prefix included, before the end of sentence is allowed; None follows the settings."
    key: int | None = None
    "Sampling: requests with equal seed, key and source get equal samples; None takes the place in the queue."


@dataclass(frozen=True, slots=True)
class Sentence:
    """A checked request with every default filled in."""

    index: int
    "Place in the queue, from 0."
    ids: Sequence[int]
    prefix: tuple[int, ...]
    max_length: int
    min_length: int
    key: int

    @property
    def guarded(self) -> int:
        """Tokens that are chosen under a constraint of this sentence: inside the prefix, or before the minimum."""
        return max(len(self.prefix), self.min_length)


def prepare(request: SourceRequest, settings: SearchConfig, vocab_size: int, eos_id: int, index: int) -> Sentence:
    """Check ``request`` and fill in its defaults.

    Without a ``max_length`` of its own a sentence may have ``max_length_ratio * len(ids) + max_length_extra`` tokens,
    and always ``max_length_extra`` beyond its prefix and its minimum: the default is a guard against endless output
    and never a reason to refuse.

    Args:
        vocab_size, eos_id: of the stepper that will serve it.
        index: place in the queue, for messages and as default key.

    Raises:
        RequestError: a limit that leaves nothing to generate, a minimum above the maximum, a prefix that does not fit
            below the maximum, ends the sentence or has ids outside the vocabulary, or a key outside 0 .. 2**64 - 1.
    """
    prefix = tuple(request.prefix)
    min_length = settings.min_length if request.min_length is None else request.min_length
    max_length = request.max_length
    if max_length is None:
        room = max(int(settings.max_length_ratio * len(request.ids)), len(prefix), min_length)
        max_length = room + settings.max_length_extra
    sentence = Sentence(
        index, request.ids, prefix, max_length, min_length, index if request.key is None else request.key
    )
    _check(sentence, vocab_size, eos_id)
    return sentence


def check_settings(settings: SearchConfig, vocab_size: int) -> None:
    """Check what a configuration cannot know, and what a copy with changed values has not been checked for.

    Raises:
        RequestError: more hypotheses wanted than the beam holds, a suppressed id outside the vocabulary, or a
            temperature, top_k or top_p out of range.
    """
    if not 1 <= settings.n_best <= settings.beam_size:
        raise RequestError(f"n_best={settings.n_best} does not fit beam_size={settings.beam_size}; raise the beam")
    outside = [id_ for id_ in settings.suppress if not 0 <= id_ < vocab_size]
    if outside:
        raise RequestError(f"suppress={outside[0]} is not an id of this vocabulary (0 to {vocab_size - 1})")
    if not (isfinite(settings.temperature) and settings.temperature >= 0.0):
        raise RequestError(f"temperature={settings.temperature} must be a finite number, 0 or more")
    if not 0.0 < settings.top_p <= 1.0:
        raise RequestError(f"top_p={settings.top_p} must be above 0 and at most 1")
    if settings.top_k < 0:
        raise RequestError(f"top_k={settings.top_k} must be 0 (all) or more")


def nothing_found(index: int, request: SourceRequest) -> RequestError:
    """The error for an empty n-best list, for callers who have no other use for one."""
    after = f" under the target prefix {list(request.prefix)}" if request.prefix else ""
    return RequestError(
        f"sentence {index}: the model gave every continuation{after} probability zero or a number that is not finite;"
        " check the prefix, the suppressed ids and the weights"
    )


@dataclass(frozen=True, slots=True)
class Queue:
    """Sentences waiting for a slot; drawn lazily, each checked when it is drawn."""

    requests: Iterator[SourceRequest]
    counter: Iterator[int]
    slots: int
    settings: SearchConfig
    vocab_size: int
    eos_id: int

    def __post_init__(self) -> None:
        if self.slots < 1:
            raise RequestError(f"slots={self.slots} leaves no room for a sentence; give at least 1")
        check_settings(self.settings, self.vocab_size)

    def next_batch(self, busy: int) -> list[Sentence]:
        """The sentences that start now, while ``busy`` ones are still running.

        Slots are refilled when an eighth of them is free, not one by one: starting a sentence runs an encoder, which
        is far cheaper for several at once.
        """
        free = self.slots - busy
        if busy and free * 8 < self.slots:
            return []
        return [
            prepare(request, self.settings, self.vocab_size, self.eos_id, index)
            for request, index in zip(islice(self.requests, free), self.counter, strict=False)
        ]


def _check(sentence: Sentence, vocab_size: int, eos_id: int) -> None:
    where, prefix, most = f"sentence {sentence.index}", sentence.prefix, sentence.max_length
    if most < 1:
        raise RequestError(f"{where}: max_length={most} leaves nothing to generate; give at least 1")
    if not 0 <= sentence.min_length <= most:
        raise RequestError(f"{where}: min_length={sentence.min_length} must lie between 0 and max_length={most}")
    if len(prefix) > most:
        raise RequestError(f"{where}: the target prefix has {len(prefix)} tokens, more than max_length={most}")
    if eos_id in prefix:
        raise RequestError(f"{where}: the target prefix contains the end of sentence (id {eos_id}); leave it out")
    outside = [id_ for id_ in prefix if not 0 <= id_ < vocab_size]
    if outside:
        raise RequestError(f"{where}: the target prefix has id {outside[0]}, outside 0 to {vocab_size - 1}")
    if not 0 <= sentence.key < MAX_KEY:
        raise RequestError(f"{where}: key={sentence.key} must lie between 0 and 2**64 - 1")
