"""Byte-level byte-pair encoding learned from the user's own corpus: any text becomes ids and comes back unchanged."""

import json
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import accumulate, chain, pairwise
from operator import itemgetter
from typing import Any, Self

from dragoman.errors import VocabularyError
from dragoman.text.bpe import Bpe
from dragoman.text.normalize import normalize

PAD, BOS, EOS = 0, 1, 2
SPECIALS = ("<pad>", "<bos>", "<eos>")
"""Names of the ids 0, 1, 2. No text can spell them: the letters ``<pad>`` become ordinary pieces."""

MULTIPLE = 8
"""Vocabulary sizes are padded to a multiple of this, for the matrix kernels."""

MAX_FILE_BYTES = 64 * 2**20

FILE: dict[str, Any] = {
    "version": "1.0",
    "truncation": None,
    "padding": None,
    "added_tokens": [],
    "normalizer": None,
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
    "post_processor": None,
    "decoder": None,
}
"""What ``tokenizer.json`` says besides the model, for others that read it."""

MODEL: dict[str, Any] = {
    "type": "BPE",
    "dropout": None,
    "unk_token": None,
    "continuing_subword_prefix": None,
    "end_of_word_suffix": None,
    "fuse_unk": False,
    "byte_fallback": False,
    "ignore_merges": False,
}
"""What it says of the model besides vocabulary and merges."""


class Tokenizer:
    """Text <-> ids, with the merges of one learned vocabulary (Sennrich et al. 2016, on bytes).

    A space is put before the text and taken away again after decoding, so that a word is the same pieces at the start
    of a sentence and inside it. The base alphabet is all 256 bytes: nothing is ever unknown.
    """

    def __init__(self, vocab: dict[str, int], merges: Sequence[tuple[str, str]]) -> None:
        """Take a vocabulary (piece in byte-level letters -> id) and its merges, best first.

        See :meth:`learn` and :meth:`from_json`.

        Raises:
            VocabularyError: ids are missing, a byte or a special piece is missing, or a merge makes no piece.
        """
        _check(vocab, merges)
        self.vocab = vocab
        self.merges = list(merges)
        byte_ids = {byte: vocab[letter] for letter, byte in _byte_letters().items()}
        ranks = {
            (vocab[left], vocab[right]): (rank, vocab[left + right]) for rank, (left, right) in enumerate(self.merges)
        }
        self._bpe = Bpe([byte_ids[byte] for byte in range(256)], ranks)

    @classmethod
    def learn(cls, lines: Iterable[str], vocab_size: int) -> Self:
        """Learn ``vocab_size`` pieces (fewer where the corpus has not so many) from ``lines``; deterministic.

        The `tokenizers` library does it, much faster than Python could. What it learns is applied without it.

        Raises:
            VocabularyError: ``vocab_size`` has no room for the 256 bytes and the special pieces.
        """
        smallest = len(SPECIALS) + 256
        if vocab_size < smallest:
            raise VocabularyError(
                f"text.vocab_size={vocab_size} is too small; at least {smallest} are needed for the bytes alone"
            )
        from tokenizers import Tokenizer as Learner
        from tokenizers import models, pre_tokenizers, trainers

        learner = Learner(models.BPE())
        learner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
        trainer = trainers.BpeTrainer(
            vocab_size=vocab_size,
            min_frequency=2,
            special_tokens=list(SPECIALS),
            initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
            show_progress=False,
        )
        learner.train_from_iterator((" " + normalize(line) for line in lines), trainer)
        model = json.loads(learner.to_str())["model"]
        return cls(model["vocab"], [(left, right) for left, right in model["merges"]])

    @property
    def vocab_size(self) -> int:
        """Ids a model must have room for: the pieces, padded to a multiple of 8."""
        return -(-len(self.vocab) // MULTIPLE) * MULTIPLE

    def encode(self, text: str) -> list[int]:
        """Ids of ``text`` without BOS and EOS; an empty text has none."""
        return self._bpe.encode(" " + normalize(text)) if text else []

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """:meth:`encode` of many texts."""
        return [self.encode(text) for text in texts]

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """For each id of ``encode(text)`` the characters ``start:end`` of ``normalize(text)`` it belongs to.

        Several pieces of one character (an emoji cut into bytes) share that character's span. The space before a word
        belongs to the word's first piece, except before the first word, where there is none in the text.
        """
        character = [place for place, letter in enumerate(" " + normalize(text)) for _ in letter.encode()]
        ends = accumulate(len(self.bytes_of[index]) for index in self.encode(text))
        return [(max(character[start] - 1, 0), character[end - 1]) for start, end in pairwise(chain([0], ends))]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ``ids``; special ids and ids without a piece are silent.

        ``decode(encode(text)) == normalize(text)`` for every valid text. A model can produce ids whose bytes are not
        UTF-8; such bytes become U+FFFD.
        """
        table = self.bytes_of
        joined = b"".join(table[index] for index in ids if 0 <= index < len(table))
        return joined.removeprefix(b" ").decode("utf-8", errors="replace")

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Each id as readable text of its own, with its leading space.

        Special ids have their names in angle brackets; bytes that are no character stand as ``<0xE4>``.
        """
        return [self._piece(index) for index in ids]

    @cached_property
    def bytes_of(self) -> list[bytes]:
        """The bytes each id stands for; none for special ids and for the padding of the vocabulary."""
        letters = _byte_letters()
        table = [b""] * self.vocab_size
        for piece, index in self.vocab.items():
            table[index] = b"" if index < len(SPECIALS) else bytes(map(letters.__getitem__, piece))
        return table

    def to_json(self) -> str:
        """The tokenizer as the text of ``tokenizer.json``, which the Hugging Face `tokenizers` library reads too."""
        vocab = dict(sorted(self.vocab.items(), key=itemgetter(1)))
        content = {**FILE, "model": {**MODEL, "vocab": vocab, "merges": self.merges}}
        return json.dumps(content, ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what :meth:`to_json` wrote.

        Only the vocabulary and the merges are taken from the file: no pattern or normaliser in it is ever run.

        Raises:
            VocabularyError: the text is not such a tokenizer.
        """
        if len(text) > MAX_FILE_BYTES:
            raise VocabularyError(
                f"the tokenizer has {len(text):,} characters, more than the {MAX_FILE_BYTES:,} allowed"
            )
        try:
            model = json.loads(text)["model"]
            vocab, merges = dict(model["vocab"].items()), [(left, right) for left, right in model["merges"]]
            if not {str} >= set(map(type, chain.from_iterable(merges))):
                raise TypeError("merges")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise VocabularyError(f"not a byte-pair tokenizer of ours: {type(error).__name__} at {error}") from None
        return cls(vocab, merges)

    def _piece(self, index: int) -> str:
        if PAD <= index < len(SPECIALS):
            return SPECIALS[index]
        raw = self.bytes_of[index] if 0 <= index < len(self.bytes_of) else b""
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError:
            return "".join(f"<0x{byte:02X}>" for byte in raw)


def _byte_letters() -> dict[str, int]:
    """Byte-level BPE writes each byte as a printable letter: printable ones as themselves, the rest from U+0100 on."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + place): byte for place, byte in enumerate(others)}


def _check(vocab: dict[str, int], merges: Sequence[tuple[str, str]]) -> None:
    ids = vocab.values()
    if not all(type(index) is int for index in ids) or sorted(ids) != list(range(len(vocab))):
        raise VocabularyError(f"the tokenizer's ids are not 0..{len(vocab) - 1}, each once")
    letters = _byte_letters()
    if [vocab.get(name) for name in SPECIALS] != [PAD, BOS, EOS] or any(letter not in vocab for letter in letters):
        raise VocabularyError(f"the tokenizer lacks a special piece {SPECIALS} or one of the 256 bytes")
    mergeable = vocab.keys() - SPECIALS
    if not letters.keys() >= set("".join(mergeable)):
        strange = next(piece for piece in vocab if piece in mergeable and not letters.keys() >= set(piece))
        raise VocabularyError(f"the tokenizer's piece {strange!r} is not in byte-level letters")
    for left, right in merges:
        if left not in mergeable or right not in mergeable or left + right not in mergeable:
            raise VocabularyError(f"the tokenizer's merge {left!r} + {right!r} makes no piece of its vocabulary")
