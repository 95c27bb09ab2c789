"""The tokenizer: what it learns, what it refuses, what nobody can spell."""

import json
import os
import subprocess
import sys
import time
import unicodedata
from typing import Any

import pytest
import tokenizers

from dragoman.errors import RequestError, VocabularyError
from dragoman.text import tokenizer as module
from dragoman.text.tokenizer import SPECIALS, Tokenizer
from toys import LINES, NASTY, toy_tokenizer

BYTES = 3 + 256


@pytest.mark.parametrize("text", NASTY, ids=ascii)
def test_round_trip(text: str) -> None:
    tokenizer = toy_tokenizer()
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == unicodedata.normalize("NFC", text)
    assert all(3 <= index < len(tokenizer.vocab) for index in ids)


def test_spaces_stay_as_they_are() -> None:
    """Nothing is tidied up before punctuation, and a space at either end is a space."""
    for text in ("hello !", "a , b", "25.\u00a0September", "a  b", " do not", "x ", "  ", "a \n b"):
        assert toy_tokenizer().decode(toy_tokenizer().encode(text)) == text


def test_a_word_is_the_same_anywhere() -> None:
    tokenizer = toy_tokenizer()
    assert tokenizer.encode("cat cat") == 2 * tokenizer.encode("cat")


def test_an_empty_text_has_no_ids() -> None:
    assert toy_tokenizer().encode("") == []
    assert toy_tokenizer().offsets("") == []
    assert toy_tokenizer().encode_batch([]) == []
    assert toy_tokenizer().encode_batch(["", "a", ""])[::2] == [[], []]


def test_a_batch_is_each_alone() -> None:
    assert toy_tokenizer().encode_batch(NASTY) == [toy_tokenizer().encode(text) for text in NASTY]


@pytest.mark.parametrize("name", SPECIALS)
def test_special_ids_cannot_be_spelled(name: str) -> None:
    """Not even where the corpus is full of their names."""
    tokenizer = Tokenizer.learn([f"a {name} b {name}{name}"] * 50 + [f"x{name}y"] * 50, 320)
    for text in (name, f" {name} ", f"{name}{name}", f"a{name}b"):
        ids = tokenizer.encode(text)
        assert min(ids) >= len(SPECIALS)
        assert tokenizer.decode(ids) == text


def test_special_ids_are_silent() -> None:
    tokenizer = toy_tokenizer()
    ids = tokenizer.encode("The cat")
    assert tokenizer.decode([1, *ids, 2, 0, 0]) == "The cat"
    assert tokenizer.pieces([0, 1, 2]) == ["<pad>", "<bos>", "<eos>"]


def test_ids_without_a_piece_are_silent() -> None:
    tokenizer = toy_tokenizer(501)
    assert (len(tokenizer.vocab), tokenizer.vocab_size) == (501, 504)
    strange = [501, 503, 504, 10**9, -1, -500]
    assert tokenizer.decode(strange) == ""
    assert tokenizer.pieces(strange) == [""] * len(strange)


def test_bytes_that_are_no_text() -> None:
    """A model may produce half a character; it is shown, and it does not swallow its neighbours."""
    tokenizer = Tokenizer.learn([], BYTES)
    first, second, third = tokenizer.encode("的")[1:]
    assert tokenizer.decode([*tokenizer.encode("a"), first, *tokenizer.encode("b")]) == "a\ufffd b"
    assert tokenizer.pieces([first, second, third]) == ["<0xE7>", "<0x9A>", "<0x84>"]


def test_pieces_read_well() -> None:
    tokenizer = toy_tokenizer()
    assert tokenizer.pieces(tokenizer.encode("The cat")) == [" The", " cat"]
    assert "".join(tokenizer.pieces(tokenizer.encode("学习 Straße 👩‍👩‍👧")))[1:].startswith("学习 Straße")


def test_offsets_by_hand() -> None:
    tokenizer = Tokenizer.learn(["cat"] * 5, 300)
    assert tokenizer.pieces(tokenizer.encode("cat cat的\u0301")) == [
        " cat",
        " cat",
        *(f"<0x{b:02X}>" for b in "的\u0301".encode()),
    ]
    assert tokenizer.offsets("cat cat的\u0301") == [(0, 3), (3, 7), (7, 8), (7, 8), (7, 8), (8, 9), (8, 9)]
    assert tokenizer.offsets(" cat") == [(0, 0), (0, 4)]


def test_offsets_are_in_the_normalized_text() -> None:
    """e and its accent are one character there."""
    assert toy_tokenizer().offsets("e\u0301x")[-1] == (1, 2)


@pytest.mark.parametrize("size", [BYTES, 264, 300, 301, 400])
def test_learned_size(size: int) -> None:
    """As many pieces as asked for; a model gets room for a multiple of 8."""
    tokenizer = Tokenizer.learn(LINES * 3, size)
    assert len(tokenizer.vocab) == size
    assert tokenizer.vocab_size == (size + 7) // 8 * 8


def test_a_small_corpus_has_fewer_pieces() -> None:
    assert len(Tokenizer.learn([], 5000).vocab) == BYTES
    assert BYTES < len(Tokenizer.learn(LINES * 2, 100_000).vocab) < 1000


def test_too_small_to_learn() -> None:
    with pytest.raises(VocabularyError, match=r"text\.vocab_size=258 is too small; at least 259"):
        Tokenizer.learn(LINES, 258)


def test_learning_normalizes() -> None:
    composed, apart = (Tokenizer.learn([f"caf{e} caf{e}"] * 9, 300) for e in ("\u00e9", "e\u0301"))
    assert composed.to_json() == apart.to_json()


def test_learning_refuses_what_is_not_unicode() -> None:
    with pytest.raises(RequestError):
        Tokenizer.learn(["a\ud800"], 300)


LEARN = """
import json, sys
from dragoman.text.tokenizer import Tokenizer
print(Tokenizer.learn(json.load(sys.stdin), 450).to_json())
"""


def test_learning_is_deterministic() -> None:
    """Within one process, and in another with other hash seeds and numbers of threads."""
    first = Tokenizer.learn(LINES * 3, 450).to_json()
    assert all(Tokenizer.learn(iter(LINES * 3), 450).to_json() == first for _ in range(3))
    for seed, threads in (("1", "1"), ("2", "4")):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "RAYON_NUM_THREADS": threads, "PYTHONUTF8": "1"}
        done = subprocess.run(
            [sys.executable, "-c", LEARN],
            input=json.dumps(LINES * 3),
            capture_output=True,
            encoding="utf-8",
            check=True,
            env=environment,
        )
        assert done.stdout.strip() == first


@pytest.mark.parametrize("size", [BYTES, 450])
def test_json_there_and_back(size: int) -> None:
    tokenizer = Tokenizer.learn(LINES * 3, size)
    again = Tokenizer.from_json(tokenizer.to_json())
    assert (again.vocab, again.merges) == (tokenizer.vocab, tokenizer.merges)
    assert again.to_json() == tokenizer.to_json()
    assert again.encode_batch(NASTY) == tokenizer.encode_batch(NASTY)


def test_the_tokenizers_library_reads_our_file() -> None:
    theirs = tokenizers.Tokenizer.from_str(toy_tokenizer().to_json())
    for text in NASTY[1:]:
        spaced = " " + unicodedata.normalize("NFC", text)
        assert theirs.encode(spaced, add_special_tokens=False).ids == toy_tokenizer().encode(text)


def damaged(**changes: Any) -> str:
    model = json.loads(toy_tokenizer().to_json())["model"]
    return json.dumps({"model": {**model, **changes}})


def vocab_with(changes: dict[str, Any], without: str = "") -> dict[str, Any]:
    return {piece: index for piece, index in {**toy_tokenizer().vocab, **changes}.items() if piece != without}


LAST = len(toy_tokenizer().vocab)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        "{}",
        '{"model": 3}',
        '{"model": {"vocab": []}}',
        '{"model": {"vocab": {}, "merges": []}}',
        "[" * 100_000,
        "{" + 100 * '"model":{',
        toy_tokenizer().to_json()[:-1000],
        damaged(vocab=None),
        damaged(merges=None),
        damaged(merges=[["Ġ"]]),
        damaged(merges=["Ġ t", "a b c"]),
        damaged(merges=[["Ġ", "Ġqqq"]]),
        damaged(merges=[3]),
        damaged(merges=[[["t"], "a"]]),
        damaged(merges=[[1, 2]]),
        damaged(merges=[["<pad", ">"]], vocab=vocab_with({"<pad": LAST})),
        damaged(merges=[["<pad>", "a"]], vocab=vocab_with({"<pad>a": LAST})),
        damaged(vocab=vocab_with({"Ġx": 5})),
        damaged(vocab=vocab_with({"Ġx": LAST + 1})),
        damaged(vocab=vocab_with({"Ġxyz": -1})),
        damaged(vocab=vocab_with({"Ġxyz": float(LAST)})),
        damaged(vocab=vocab_with({"Ġxyz": True})),
        damaged(vocab=vocab_with({"Ġxyz": str(LAST)})),
        damaged(vocab=vocab_with({"Ġxyz": 2**70})),
        damaged(vocab=vocab_with({"的": LAST})),
        damaged(vocab=vocab_with({"\ud800": LAST})),
        damaged(vocab=vocab_with({" a": LAST})),
        damaged(vocab=vocab_with({}, without="<eos>")),
        damaged(vocab=vocab_with({}, without="a")),
        damaged(vocab=vocab_with({"<pad>": 1, "<bos>": 0})),
    ],
    ids=lambda text: text[:20],
)
def test_damaged_files_are_refused(text: str) -> None:
    with pytest.raises(VocabularyError) as caught:
        Tokenizer.from_json(text)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


def test_a_file_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_FILE_BYTES", 1000)
    with pytest.raises(VocabularyError, match="more than the 1,000 allowed"):
        Tokenizer.from_json(toy_tokenizer().to_json())


def test_patterns_in_the_file_are_not_run() -> None:
    """A file could bring a regular expression that takes for ever; only vocabulary and merges are read."""
    content = json.loads(toy_tokenizer().to_json())
    content["pre_tokenizer"] = {
        "type": "Split",
        "pattern": {"Regex": "(a+)+$"},
        "behavior": "Isolated",
        "invert": False,
    }
    content["normalizer"] = {"type": "Lowercase"}
    text = "ABC " + "a" * 5000 + "!"
    assert Tokenizer.from_json(json.dumps(content)).encode(text) == toy_tokenizer().encode(text)


@pytest.mark.parametrize(
    "text", ["a", " ", "的", "!", "1", "\u0301", "👩", "\n", "'s", "a的", "\x00", "ß", "\u200d", "e\u0301"], ids=ascii
)
def test_huge_words(text: str) -> None:
    """100,000 equal characters, as one word; quadratic work would take minutes."""
    begun = time.process_time()
    long = text * (100_000 // len(text))
    ids = toy_tokenizer().encode(long)
    assert time.process_time() - begun < 3
    assert toy_tokenizer().decode(ids) == unicodedata.normalize("NFC", long)
