"""BPE-dropout: the same text, other pieces, decided by seeds."""

import random
import unicodedata

import pytest

from dragoman.text.dropout import BpeDropout
from dragoman.text.tokenizer import Tokenizer
from toys import LINES, NASTY, toy_tokenizer


def cut(text: str, rate: float, seed: int = 1, draw: int = 1) -> list[int]:
    ids = toy_tokenizer().encode(text)
    return BpeDropout(toy_tokenizer(), rate, seed).segment(ids, random.Random(draw))


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.5, 0.99])
@pytest.mark.parametrize("text", [*NASTY, *LINES], ids=ascii)
def test_the_text_stays(text: str, rate: float) -> None:
    found = cut(text, rate)
    assert toy_tokenizer().decode(found) == unicodedata.normalize("NFC", text)
    assert all(3 <= index < len(toy_tokenizer().vocab) for index in found)


@pytest.mark.parametrize("text", LINES, ids=ascii)
def test_rate_zero_changes_nothing(text: str) -> None:
    assert cut(text, 0.0) == toy_tokenizer().encode(text)


def test_the_highest_rate_leaves_bytes() -> None:
    assert len(cut(LINES[0], 1.0 - 1e-12)) == len(LINES[0].encode()) + 1


def test_higher_rates_cut_finer() -> None:
    text = " ".join(LINES)
    lengths = [len(cut(text, rate)) for rate in (0.0, 0.1, 0.3, 0.6, 0.9)]
    assert lengths == sorted(set(lengths))


def test_the_share_of_skipped_merges() -> None:
    """A word of one merge stays whole with probability 1 - rate."""
    tokenizer = Tokenizer.learn(["a"] * 9, 260)
    assert len(tokenizer.merges) == 1
    [word] = tokenizer.encode("a")
    whole = 0
    for seed in range(40):
        dropout, draws = BpeDropout(tokenizer, 0.3, seed), random.Random(seed)
        whole += sum(dropout.segment([word], draws) == [word] for _ in range(100))
    assert 0.65 < whole / 4000 < 0.75


def test_a_sentence_that_would_be_too_long_stays() -> None:
    ids = toy_tokenizer().encode(LINES[0])
    longest = len(ids) + 2
    limited = BpeDropout(toy_tokenizer(), 0.3, 1, longest)
    found = [limited.segment(ids, random.Random(draw)) for draw in range(50)]
    assert max(map(len, found)) <= longest
    wanted = [cut(LINES[0], 0.3, draw=draw) for draw in range(50)]
    assert found == [each if len(each) <= longest else ids for each in wanted]
    assert any(len(each) > longest for each in wanted)


def test_it_varies_from_draw_to_draw_and_from_word_to_word() -> None:
    dropout, draws = BpeDropout(toy_tokenizer(), 0.3, 1), random.Random(1)
    ids = toy_tokenizer().encode(LINES[1])
    assert len({tuple(dropout.segment(ids, draws)) for _ in range(20)}) > 15
    twice = toy_tokenizer().encode("tapis tapis")
    halves = [dropout.segment(twice, draws) for _ in range(20)]
    assert any(found[: len(found) // 2] != found[len(found) // 2 :] for found in halves)


def test_the_seeds_decide() -> None:
    text = LINES[1]
    assert cut(text, 0.3) == cut(text, 0.3)
    assert cut(text, 0.3) != cut(text, 0.3, seed=2)
    assert cut(text, 0.3) != cut(text, 0.3, draw=2)


def test_what_was_asked_before_does_not_matter() -> None:
    """A resumed training asks another instance, which has not seen the earlier sentences."""
    ids = toy_tokenizer().encode(LINES[1])
    used = BpeDropout(toy_tokenizer(), 0.3, 1)
    for number, line in enumerate(LINES):
        used.segment(toy_tokenizer().encode(line), random.Random(number))
    assert used.segment(ids, random.Random(7)) == BpeDropout(toy_tokenizer(), 0.3, 1).segment(ids, random.Random(7))


def test_special_ids_stay_where_they_are() -> None:
    tokenizer, dropout = toy_tokenizer(), BpeDropout(toy_tokenizer(), 0.5, 1)
    found = dropout.segment([1, *tokenizer.encode("The cat"), 2, *tokenizer.encode("x"), 0, 0], random.Random(1))
    assert [index for index in found if index < 3] == [1, 2, 0, 0]
    assert found[0] == 1
    assert found[-2:] == [0, 0]
    assert tokenizer.decode(found[: found.index(2)]) == "The cat"


def test_nothing_of_nothing() -> None:
    assert BpeDropout(toy_tokenizer(), 0.5, 1).segment([], random.Random(1)) == []
