"""The journey of a translation, with models that end some sentences early and others never."""

import math
import random
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import torch
from msgspec.structs import replace

from dragoman.config import SearchConfig
from dragoman.engine import translator as engine
from dragoman.engine.loading import load, source_limit
from dragoman.engine.torch_backend import TorchBackend
from dragoman.engine.translator import GROWTH, Part, Translation, Translator
from dragoman.errors import RequestError
from dragoman.text.tokenizer import BOS, EOS, PAD
from folders import PIECES, random_model, toy_settings, write_model
from toys import toy_tokenizer

WORDS = "the cat is on a mat dog under table 我 喜欢 ! , łódź 12".split()


SHORT = {"max_length_ratio": 0.3, "max_length_extra": 3}
"""Sentences that never end cost time, the more so while shapes are checked."""


def texts(count: int = 12) -> list[str]:
    """One to some fifty pieces each."""
    draws = random.Random(1)
    return [" ".join(draws.choices(WORDS, k=1 + place * 18 // count)) for place in draws.sample(range(count), count)]


def look(**values: Any) -> SearchConfig:
    """Search settings."""
    return SearchConfig(**{"beam_size": 4, **SHORT, **values})


def make(
    dtype: torch.dtype = torch.float64, search: SearchConfig | None = None, **changes: dict[str, Any]
) -> Translator:
    config = toy_settings(**changes)
    tokenizer = toy_tokenizer(PIECES)
    backend = TorchBackend(random_model(config).to(dtype), len(tokenizer.vocab))
    return Translator(tokenizer, tokenizer, backend, search or look(), source_limit(config))


@pytest.fixture(scope="module")
def exact() -> Translator:
    return make()


@pytest.fixture(scope="module")
def quick() -> Translator:
    return make(torch.float32)


def told(translations: Iterable[list[Translation]]) -> list[Any]:
    """What may not depend on anything else."""
    return [
        [(one.text, [part.hypothesis.ids for part in one.parts], one.is_cut) for one in each] for each in translations
    ]


def scores(translations: Iterable[list[Translation]]) -> list[float]:
    return [one.score for each in translations for one in each]


# Alone and together --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("beam_size", "length_penalty", "length_norm", "slots"),
    [(1, 1.0, "power", 7), (4, 0.0, "power", 40), (3, 0.6, "gnmt", 2), (4, 1.0, "power", 13)],
)
def test_a_sentence_alone_and_in_any_company(
    exact: Translator,
    monkeypatch: pytest.MonkeyPatch,
    beam_size: int,
    length_penalty: float,
    length_norm: str,
    slots: int,
) -> None:
    lines = texts()
    settings = look(beam_size=beam_size, n_best=beam_size, length_penalty=length_penalty, length_norm=length_norm)
    monkeypatch.setattr(engine, "SLOTS", 1)
    alone = list(exact.stream(lines, settings))
    monkeypatch.setattr(engine, "SLOTS", slots)
    order = random.Random(slots).sample(range(len(lines)), len(lines))
    shuffled = list(exact.stream([lines[place] for place in order], settings))
    together = [shuffled[order.index(place)] for place in range(len(lines))]
    assert told(together) == told(alone)
    assert scores(together) == pytest.approx(scores(alone), abs=1e-10)
    ends = Counter(part.hypothesis.finish_reason for each in alone for one in each for part in one.parts)
    assert ends["eos"] > 3
    assert ends["length"] > 3


def test_single_precision_says_the_same(exact: Translator, quick: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the two best are further apart than rounding."""
    lines = texts()
    settings = look(n_best=2)
    reference = list(exact.stream(lines, settings))
    for slots in (1, 16):
        monkeypatch.setattr(engine, "SLOTS", slots)
        for wanted, got in zip(reference, quick.stream(lines, settings), strict=True):
            if wanted[0].score - wanted[1].score > 1e-3:
                assert got[0].text == wanted[0].text
                assert got[0].score == pytest.approx(wanted[0].score, abs=1e-4)


def test_the_window_shows_nowhere(exact: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [*texts()[:7], "", "  "]
    whole = told(exact.stream(lines))
    monkeypatch.setattr(engine, "WINDOW", 2)
    assert told(exact.stream(lines)) == whole


def test_more_of_the_best_begin_with_fewer(exact: Translator) -> None:
    lines = texts()[:10]
    by_count = [told(exact.stream(lines, look(n_best=count))) for count in (1, 2, 4)]
    for one, two, four in zip(*by_count, strict=True):
        assert four[:2] == two
        assert two[:1] == one


# What is said --------------------------------------------------------------------------------------------------------


def hypotheses(translator: Translator, lines: list[str], **settings: Any) -> list[Part]:
    search = look(**{"n_best": 4, **settings})
    return [part for each in translator.stream(lines, search) for one in each for part in one.parts]


def test_no_id_without_a_meaning(exact: Translator) -> None:
    for part in hypotheses(exact, texts()[:12]):
        assert not {PAD, BOS, EOS} & set(part.hypothesis.ids)
        assert max(part.hypothesis.ids, default=0) < len(exact.tgt.vocab)


def test_no_translation_twice(exact: Translator) -> None:
    for each in exact.stream(texts()[:12], look(n_best=4)):
        ids = [one.parts[0].hypothesis.ids for one in each]
        assert len(set(ids)) == len(ids)


@pytest.mark.parametrize(("dtype", "margin"), [(torch.float32, 1e-4), (torch.float64, 1e-10)])
@pytest.mark.parametrize("norm", [{"length_penalty": 1.0}, {"length_penalty": 0.6, "length_norm": "gnmt"}])
def test_scoring_gives_the_search_s_own_score(dtype: torch.dtype, margin: float, norm: dict[str, Any]) -> None:
    translator = make(dtype, look(**norm))
    found = hypotheses(translator, texts(), **norm)
    finished = [part for part in found if part.hypothesis.finish_reason == "eos"]
    cut = [part for part in found if part.hypothesis.finish_reason == "length"]
    assert finished
    assert cut
    for part, scored in zip(
        finished, translator.score_ids([p.source_ids for p in finished], [p.target_ids for p in finished]), strict=True
    ):
        assert scored.ids == part.hypothesis.ids
        assert scored.score == pytest.approx(part.hypothesis.score, abs=margin)
        assert scored.log_prob == pytest.approx(part.hypothesis.log_prob, abs=100 * margin)
        assert scored.token_log_probs == pytest.approx(part.hypothesis.token_log_probs, abs=10 * margin)
    for part in cut:  # the documented formula, without the end of sentence
        [row] = translator.backend.log_probs([part.source_ids], [part.target_ids])
        length, a = len(part.target_ids), norm["length_penalty"]
        divisor = length**a if "length_norm" not in norm else ((5 + length) / 6) ** a
        assert part.hypothesis.score == pytest.approx(sum(row) / divisor, abs=margin)


def test_score_of_texts(exact: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = list(zip(texts(), texts()[::-1], strict=True))
    whole = list(exact.score(pairs))
    monkeypatch.setattr(engine, "SLOTS", 3)
    monkeypatch.setattr(engine, "SCORED_TOKENS", 40)
    for one, other, (_, target) in zip(whole, exact.score(iter(pairs)), pairs, strict=True):
        assert one.score == pytest.approx(other.score, abs=1e-10)
        assert one.ids == tuple(exact.tgt.encode(target))
        assert one.log_prob == pytest.approx(sum(one.token_log_probs))
        assert one.score == pytest.approx(one.log_prob / (len(one.ids) + 1))
        assert one.finish_reason == "eos"


def test_an_empty_target_is_only_an_end(exact: Translator) -> None:
    [scored] = exact.score([("the cat", "")])
    assert scored.ids == ()
    assert len(scored.token_log_probs) == 1


@pytest.mark.parametrize("beam_size", [1, 4])
@pytest.mark.parametrize("prefix", ["Le chat", "unbeliev", "我喜", "é", " x  y "])
def test_a_prefix_begins_every_translation(exact: Translator, prefix: str, beam_size: int) -> None:
    settings = look(beam_size=beam_size, n_best=beam_size)
    for each in exact.stream(["the cat", "a dog on the mat"], settings, prefix):
        for one in each:
            assert one.text.startswith(prefix)
            assert one.parts[0].hypothesis.ids[: len(exact.tgt.encode(prefix))] == tuple(exact.tgt.encode(prefix))
            assert math.isfinite(one.score)


@pytest.mark.parametrize("beam_size", [1, 4])
@pytest.mark.parametrize(("extra", "minimum"), [(1, 0), (2, 0), (2, 1), (9, 3), (9, 8)])
def test_lengths_count_what_they_say(exact: Translator, beam_size: int, extra: int, minimum: int) -> None:
    limits = {"max_length_ratio": 0.0, "max_length_extra": extra, "min_length": minimum}
    for part in hypotheses(exact, texts()[:12], beam_size=beam_size, n_best=beam_size, **limits):
        assert minimum <= len(part.hypothesis.ids)
        assert len(part.target_ids) <= extra
        assert len(part.target_ids) == len(part.hypothesis.token_log_probs)
        assert (part.hypothesis.finish_reason == "eos") == (part.target_ids[-1] == EOS)


def test_a_minimum_makes_room_for_itself(exact: Translator) -> None:
    """The default limit is a guard against endless output, never a reason to refuse."""
    for part in hypotheses(exact, ["the cat"], max_length_ratio=0.0, max_length_extra=1, min_length=30):
        assert len(part.hypothesis.ids) == 30


# Sampling ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("more", [{}, {"top_k": 5}, {"top_p": 0.7, "temperature": 2.0}])
def test_samples_do_not_know_their_neighbours(exact: Translator, more: dict[str, Any]) -> None:
    settings = look(sample=True, beam_size=2, n_best=2, seed=3, **more)
    lines = texts()[:6]
    together = told(exact.stream(lines, settings))
    assert told(exact.stream(lines[::-1], settings)) == together[::-1]
    assert [told(exact.stream([line], settings))[0] for line in lines] == together
    assert told(exact.stream(["", *lines[3:5], lines[3]], settings))[1:] == [*together[3:5], together[3]]
    assert together[0][0] != together[0][1]
    other = replace(settings, seed=4)
    assert told(exact.stream(lines, other)) != together


def test_no_heat_is_greedy(exact: Translator) -> None:
    cold = look(sample=True, temperature=0.0, beam_size=1)
    assert told(exact.stream(texts()[:6], cold)) == told(exact.stream(texts()[:6], look(beam_size=1)))


@pytest.mark.parametrize("temperature", [1e-6, 1e6])
def test_no_heat_breaks_it(exact: Translator, temperature: float) -> None:
    settings = look(sample=True, temperature=temperature, beam_size=1)
    assert all(math.isfinite(score) for score in scores(exact.stream(texts()[:6], settings)))


# Token by token ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prefix", ["", "我喜"])
def test_tokens_join_to_the_greedy_translation(exact: Translator, prefix: str) -> None:
    greedy = look(beam_size=1)
    for line in [*texts()[::2], "", "   "]:
        pieces = list(exact.stream_tokens(line, prefix))
        [[wanted]] = exact.stream([line], greedy, prefix)
        assert "".join(pieces) == wanted.text
        assert all(pieces[1:])


def test_half_a_character_at_the_end_is_not_lost(exact: Translator) -> None:
    """Some of the random translations end in bytes that are no character."""
    assert any(list(exact.stream_tokens(line))[-1].endswith("\ufffd") for line in texts(40))


def test_too_long_for_tokens(exact: Translator) -> None:
    with pytest.raises(RequestError, match="more than 80; use translate"):
        list(exact.stream_tokens("cat " * 200))


# Attention -----------------------------------------------------------------------------------------------------------


def test_attention_of_finished_and_of_cut(exact: Translator) -> None:
    parts = hypotheses(exact, texts()[:10])
    assert {part.hypothesis.finish_reason for part in parts} == {"eos", "length"}
    for part in parts[::3]:
        rows = exact.align(part)
        assert len(rows) == len(part.target_ids)
        assert all(len(row) == len(part.source_ids) and sum(row) == pytest.approx(1.0) for row in rows)


# Long and blank lines ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("line", ["", " ", "\t\u3000", "\u2028"])
def test_blank_stays_blank(exact: Translator, line: str) -> None:
    assert exact.translate(line) == line
    [[one]] = exact.stream([line])
    assert (one.parts, one.score, one.is_cut) == ((), 0.0, False)
    assert list(exact.stream_tokens(line)) == [line]


def test_long_lines_are_split_and_joined(exact: Translator) -> None:
    line = "The cat is on the mat. " * 8 + "\n\n" + "a" * 200
    [[one]] = exact.stream([line])
    assert len(one.parts) > 3
    assert "".join("".join(part.source.split()) for part in one.parts) == "".join(line.split())
    assert all(len(part.source_ids) <= exact.max_length + 1 for part in one.parts)
    assert all(part.source == part.source.strip() for part in one.parts)
    assert one.score == pytest.approx(sum(part.hypothesis.score for part in one.parts))
    assert [part.text for part in one.parts] == [exact.translate(part.source) for part in one.parts]
    assert all(part.text.strip() in one.text for part in one.parts)


def test_a_long_line_does_not_disturb_its_neighbours(exact: Translator) -> None:
    lines = ["the cat", "a dog " * 40, "", "on the mat"]
    assert told(exact.stream(lines))[0::3] == told(exact.stream([lines[0], lines[3]]))


def test_a_prefix_begins_only_the_first_part(exact: Translator) -> None:
    line = "The cat is on the mat. " * 8
    [[plain]], [[begun]] = exact.stream([line]), exact.stream([line], prefix="Le chat")
    assert begun.text.startswith("Le chat")
    assert [part.text for part in begun.parts[1:]] == [part.text for part in plain.parts[1:]]


def test_every_sentence_ticks(exact: Translator) -> None:
    ticks = []
    list(exact.stream(["the cat", "", "a dog"], tick=lambda: ticks.append(1)))
    assert len(ticks) == 2


# Learned positions ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def narrow() -> Translator:
    """A table of forty positions: sources of ten pieces, translations of forty."""
    return make(model={"positions": "learned", "max_positions": 40})


LONG = "the cat is on a mat 我 喜欢 dog under table"


def test_the_table_bounds_the_lengths(narrow: Translator) -> None:
    assert len(narrow.src.encode(LONG)) > narrow.max_length == 10
    settings = look(beam_size=2, n_best=2, max_length_ratio=50.0)
    [split], several = narrow.stream([LONG, "cat"], settings)
    assert len(split.parts) > 1
    assert [len(one.parts) for one in several] == [1, 1]
    parts = [part for one in (split, *several) for part in one.parts]
    ends = {part.hypothesis.finish_reason: len(part.target_ids) for part in parts}
    assert ends["length"] == GROWTH * narrow.max_length == 40
    for part in parts:
        assert len(narrow.align(part)) == len(part.target_ids) <= 40
    assert told(narrow.stream(["cat"], settings)) == told([several])


def test_what_the_table_can_write_can_be_scored(narrow: Translator) -> None:
    source = tuple(narrow.src.encode("cat"))
    target = (*range(20, 59), EOS)
    [scored] = narrow.score_ids([(*source, EOS)], [target])
    assert math.isfinite(scored.score)
    with pytest.raises(RequestError, match="pair 1: the target has 40 pieces, more than 39"):
        narrow.score_ids([(*source, EOS)], [(20, *target)])


def test_a_prefix_must_fit_into_the_table(narrow: Translator) -> None:
    with pytest.raises(RequestError, match="the prefix is .* pieces, but this model writes fewer than 40"):
        next(narrow.stream(["cat"], prefix="cat " * 40))


# Numbers that are not finite -----------------------------------------------------------------------------------------


def test_overflow_is_an_error_and_never_a_score(tmp_path: Path) -> None:
    broken = load(write_model(tmp_path / "broken", scale=1e38))
    with pytest.raises(RequestError, match="sentence 2: .* not finite"):
        list(broken.stream(["", "the cat"]))
    with pytest.raises(RequestError, match="pair 1: .* not finite"):
        list(broken.score([("the cat", "le chat")]))
    with pytest.raises(RequestError):
        list(broken.stream_tokens("the cat"))


def test_large_weights_are_no_reason(tmp_path: Path) -> None:
    large = load(write_model(tmp_path / "large", scale=1e4))
    assert all(math.isfinite(score) for score in scores(large.stream(texts()[:4])))
