"""The loss over pairs that are never trained on."""

import math

import pytest

from dragoman.data.batch import collate
from dragoman.loss import token_loss
from dragoman.model.families import EncoderDecoder
from dragoman.train import validation
from dragoman.train.validation import ValidationSet, mean_loss
from folders import PIECES, random_model, toy_settings
from toys import toy_tokenizer

SOURCES = ["the cat", "a", "The cat is on the mat.", "我喜欢"]
TARGETS = ["le chat", "Le chat est sur le tapis.", "un", "x y z"]


@pytest.fixture(scope="module")
def model() -> EncoderDecoder:
    return random_model(toy_settings()).double()


def loss_of(model: EncoderDecoder, sources: list[str], targets: list[str], max_length: int = 100) -> float:
    tokenizer = toy_tokenizer(PIECES)
    return mean_loss(model, ValidationSet(sources, targets, ""), tokenizer, tokenizer, max_length)


def test_it_is_the_mean_over_tokens(model: EncoderDecoder) -> None:
    tokenizer = toy_tokenizer(PIECES)
    total, count = 0.0, 0
    for source, target in zip(SOURCES, TARGETS, strict=True):
        batch = collate([(tokenizer.encode(source), tokenizer.encode(target))])
        logits = model(batch.src, batch.src_mask, batch.tgt_in).detach()
        total += float(token_loss(logits, batch.tgt_out, batch.tgt_mask))
        count += len(tokenizer.encode(target)) + 1
    assert loss_of(model, SOURCES, TARGETS) == pytest.approx(total / count, rel=1e-10)


@pytest.mark.parametrize(("pairs", "tokens"), [(1, 4096), (3, 4096), (64, 30), (64, 1)])
def test_it_does_not_depend_on_the_batches(
    model: EncoderDecoder, monkeypatch: pytest.MonkeyPatch, pairs: int, tokens: int
) -> None:
    whole = loss_of(model, SOURCES, TARGETS)
    monkeypatch.setattr(validation, "BATCH", pairs)
    monkeypatch.setattr(validation, "LOGITS", tokens * toy_tokenizer(PIECES).vocab_size)
    assert loss_of(model, SOURCES, TARGETS) == pytest.approx(whole, rel=1e-10)


def test_what_is_too_long_is_left_out(model: EncoderDecoder) -> None:
    longest = len(toy_tokenizer(PIECES).encode(TARGETS[1]))
    assert loss_of(model, SOURCES, TARGETS, longest) == loss_of(model, SOURCES, TARGETS)
    without = loss_of(model, [*SOURCES[:1], *SOURCES[2:]], [*TARGETS[:1], *TARGETS[2:]])
    source = len(toy_tokenizer(PIECES).encode(SOURCES[2]))
    assert source < longest
    assert loss_of(model, SOURCES, TARGETS, longest - 1) == pytest.approx(without, rel=1e-10)
    assert math.isnan(loss_of(model, SOURCES, TARGETS, 1))
