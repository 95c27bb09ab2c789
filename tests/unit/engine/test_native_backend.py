"""The CPU engine is a twin of the PyTorch model: the same numbers, the same hypotheses."""

import gc
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
import torch

from dragoman.config import SearchConfig
from dragoman.engine import native_search
from dragoman.engine.library import instruction_set
from dragoman.engine.native_backend import NativeBackend
from dragoman.engine.torch_backend import TorchBackend
from dragoman.errors import EngineError, RequestError
from dragoman.search.beam import beam_search, stream_greedy
from dragoman.search.request import SourceRequest
from dragoman.search.sample import sample
from dragoman.search.scoring import Hypothesis
from dragoman.search.stepper import FloatArray, Stepper
from dragoman.text.tokenizer import BOS, EOS, PAD
from engines import native_of, needs_engine
from oracles.enumeration import Ids, Rules, TableModel, enumerate_outputs, plain_beam
from toys import VARIANTS, VOCAB, name_of, toy_config, toy_model

pytestmark = needs_engine

KNOWN = VOCAB - 2
"""As if the tokenizer had two pieces fewer than the vocabulary."""

ODD = {"d_model": 20, "num_heads": 5, "d_ff": 36, "num_encoder_layers": 1, "num_decoder_layers": 3}
SHAPES = [{}, ODD, {"d_model": 72, "num_heads": 3, "d_ff": 130}, {"d_model": 15, "num_heads": 3, "d_ff": 7}]
SOURCES = [[5, 6, 7, EOS], [8, EOS], [9, 10, 3, 4, 5, 9, EOS], [EOS]]
EXACT = 1e-4


@lru_cache(maxsize=4)
def twins(
    changes: tuple[tuple[str, Any], ...], precise: tuple[str, ...] | None = None
) -> tuple[NativeBackend, TorchBackend]:
    config, model = toy_config(**dict(changes)), toy_model(torch.float32, **dict(changes))
    return native_of(model, config, KNOWN, precise), TorchBackend(model, KNOWN)


def pair(**changes: Any) -> tuple[NativeBackend, TorchBackend]:
    return twins(tuple(changes.items()))


def some_sources(count: int) -> list[list[int]]:
    draws = random.Random(1)
    return [[*draws.choices(range(3, KNOWN), k=draws.randint(0, 12)), EOS] for _ in range(count)]


def close(mine: Any, theirs: Any, margin: float = EXACT) -> None:
    np.testing.assert_allclose(mine, theirs, atol=margin, rtol=1e-6)


# One step at a time --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", range(len(VARIANTS)), ids=lambda place: name_of(VARIANTS[place]))
def test_steps_give_the_model_s_numbers(place: int) -> None:
    """As near to the model in float64 as PyTorch's float32 is: some random weights make much of little differences."""
    native, single = pair(**VARIANTS[place], **SHAPES[(place + place // 4) % 4])
    double = TorchBackend(deepcopy(single.model).double(), KNOWN)
    wanted, mine, theirs = walk(double), walk(native), walk(single)
    for exact, one, other in zip(wanted, mine, theirs, strict=True):
        possible = np.isfinite(exact)
        np.testing.assert_array_equal(np.isfinite(one), possible)
        rounding = np.abs(other[possible] - exact[possible]).max()
        assert np.abs(one[possible] - exact[possible]).max() <= 2e-5 + 4 * rounding


def walk(stepper: Stepper[Any]) -> list[FloatArray]:
    """Log-probabilities of some steps, with rows that are selected and others that join."""
    draws = np.random.default_rng(1)
    seen, state, ids = [], stepper.start(SOURCES[:3]), np.array([BOS] * 3)
    for turn in range(6):
        full, state = stepper.step_full(ids, state)
        seen.append(full)
        if turn == 2:
            state = state.select(np.array([2, 0, 2, 2, 1]))
        if turn == 3:
            state = state.join(stepper.start(SOURCES[3:]))
        ids = draws.integers(3, KNOWN, size=(3, 3, 5, 6, 6, 6)[turn])
        if turn == 3:
            ids[-1] = BOS
    return seen


def test_full_and_top_agree() -> None:
    native, _ = pair(**ODD)
    ids, state = np.array([BOS] * 4), native.start(SOURCES)
    full, _ = native.step_full(ids, state)
    for k in (1, 3, VOCAB):
        top, _ = native.step_top(ids, state, k)
        assert top.ids.shape == top.log_probs.shape == (4, k)
        np.testing.assert_array_equal(np.take_along_axis(full, top.ids, axis=1), top.log_probs)
        np.testing.assert_array_equal(top.log_probs, -np.sort(-full, axis=1)[:, :k])


def test_some_ids_are_never_produced() -> None:
    native, _ = pair()
    full, _ = native.step_full(np.array([BOS] * 4), native.start(SOURCES))
    never = {PAD, BOS, *range(KNOWN, VOCAB)}
    assert {int(index) for index in np.flatnonzero(np.isneginf(full).any(axis=0))} == never
    assert np.isneginf(full[:, sorted(never)]).all()


def test_a_state_is_a_value() -> None:
    native, _ = pair()
    ids, state = np.array([BOS] * 4), native.start(SOURCES)
    first, after = native.step_full(ids, state)
    native.step_full(np.array([5, 6, 7, 8]), after)
    again, _ = native.step_full(ids, state)
    np.testing.assert_array_equal(again, first)
    nothing = after.select(np.zeros(0, np.int64))
    _, kept = native.step_full(np.array([5, 6, 7, 8]), nothing.join(after))
    assert native.model.library.dragoman_state_rows(kept.handle) == 4


def test_an_array_may_be_overwritten() -> None:
    native, _ = pair()
    full, state = native.step_full(np.array([BOS] * 4), native.start(SOURCES))
    kept = full.copy()
    full[:] = 0
    again, _ = native.step_full(np.array([BOS] * 4), native.start(SOURCES))
    np.testing.assert_array_equal(again, kept)
    del state


def test_states_outlive_the_backend() -> None:
    config, model = toy_config(), toy_model(torch.float32)
    state = native_of(model, config, KNOWN).start(SOURCES)
    gc.collect()
    selected = state.select(np.array([1, 1]))
    del state
    gc.collect()
    assert selected.model.library.dragoman_state_rows(selected.handle) == 2


@pytest.mark.parametrize("variant", VARIANTS[::3], ids=name_of)
def test_scoring_and_attention(variant: dict[str, Any]) -> None:
    native, theirs = pair(**variant, **ODD)
    targets = [[5, EOS], [6, 7, 8, 3, 4, EOS], [EOS], []]
    mine, wanted = native.log_probs(SOURCES, targets), theirs.log_probs(SOURCES, targets)
    assert [len(row) for row in mine] == [2, 6, 1, 0]
    for one, other in zip(mine, wanted, strict=True):
        assert one == pytest.approx(other, abs=EXACT)
    for source, target in zip(SOURCES, targets[:3], strict=False):
        weights = native.align(source, target)
        close(weights, theirs.align(source, target))
        close(weights.sum(axis=1), 1.0)
    assert native.align(SOURCES[0], []).shape == (0, 4)


@pytest.mark.parametrize("precise", [None, ()], ids=["float", "int8"])
def test_scores_are_those_of_the_steps(precise: tuple[str, ...] | None) -> None:
    """To the last bit, though the steps see one place of each target at a time and scoring sees all of them."""
    native, _ = twins(tuple(ODD.items()), precise)
    draws = random.Random(2)
    sources = some_sources(23)
    targets = [[*draws.choices(range(VOCAB), k=draws.randint(0, 40)), EOS][place % 5 == 0 :] for place in range(23)]
    targets[7] = []
    stepped: list[list[float]] = [[] for _ in targets]
    for rows, tokens, full in native.forced(sources, targets):
        for row, token, log_probs in zip(rows, tokens, full, strict=True):
            stepped[row].append(float(log_probs[token]))
    assert sum(map(len, stepped)) > 250
    assert native.log_probs(sources, targets) == stepped
    assert [native.log_probs([one], [other])[0] for one, other in zip(sources, targets, strict=True)] == stepped
    assert native.log_probs([], []) == []


@pytest.mark.parametrize("target", [[5, VOCAB], [-1], [2**33 + 5], [5] * 65], ids=["high", "low", "wrapped", "long"])
def test_targets_that_cannot_be_scored(target: list[int]) -> None:
    native, _ = pair()
    with pytest.raises(EngineError, match=r"cannot score: (target id|a target of 65)"):
        native.log_probs(SOURCES[:2], [[5, EOS], target])


# Search --------------------------------------------------------------------------------------------------------------


SEARCHES: list[dict[str, Any]] = [
    {"beam_size": 1},
    {"beam_size": 4, "n_best": 4},
    {"beam_size": 3, "n_best": 2, "length_penalty": 0.6, "length_norm": "gnmt"},
    {"beam_size": 5, "length_penalty": 0.0},
    {"beam_size": 4, "length_penalty": -0.5, "n_best": 3},
    {"beam_size": 3, "n_best": 3, "min_length": 4},
    {"beam_size": 4, "n_best": 4, "suppress": (4, 7, EOS)},
    {"beam_size": 2, "suppress": (3, 5)},
    {"beam_size": 12, "n_best": 12, "max_length_ratio": 0.0, "max_length_extra": 2},
    {"beam_size": 1, "no_repeat_ngram": 1},
    {"beam_size": 4, "n_best": 3, "no_repeat_ngram": 1, "length_penalty": 0.3},
    {"beam_size": 4, "no_repeat_ngram": 2},
    {"beam_size": 5, "n_best": 5, "no_repeat_ngram": 2, "min_length": 4, "suppress": (4, 7)},
    {"beam_size": 3, "n_best": 3, "no_repeat_ngram": 3, "suppress": (EOS,)},
    {"beam_size": 12, "n_best": 12, "no_repeat_ngram": 1, "min_length": 2},
]


def same(mine: list[Hypothesis], wanted: list[Hypothesis], margin: float = EXACT) -> None:
    assert [one.ids for one in mine] == [one.ids for one in wanted]
    assert [one.finish_reason for one in mine] == [one.finish_reason for one in wanted]
    for one, other in zip(mine, wanted, strict=True):
        assert one.score == pytest.approx(other.score, abs=margin)
        assert one.log_prob == pytest.approx(other.log_prob, abs=20 * margin)
        assert one.token_log_probs == pytest.approx(other.token_log_probs, abs=margin)
        assert sum(one.token_log_probs) == pytest.approx(one.log_prob, abs=1e-12)


def requests() -> list[SourceRequest]:
    """With and without a prefix and limits of their own."""
    made = []
    for place, source in enumerate(some_sources(24)):
        prefix = ((), (5,), (6, 7, 6))[place % 3]
        limits = ({}, {"max_length": 9}, {"min_length": 5, "max_length": 6}, {"max_length": 4})[place % 4]
        made.append(SourceRequest(source, prefix, **limits))
    return made


@pytest.mark.parametrize("settings", SEARCHES, ids=lambda settings: "-".join(map(str, settings.values())))
@pytest.mark.parametrize("changes", [{}, {**ODD, "norm_first": True, "activation": "geglu"}], ids=["small", "odd"])
def test_the_search_is_the_same(changes: dict[str, Any], settings: dict[str, Any]) -> None:
    native, theirs = pair(**changes)
    search = SearchConfig(**{"max_length_ratio": 1.0, "max_length_extra": 5, **settings})
    wanted = dict(beam_search(theirs, requests(), search, 8))
    found = dict(native.beam_search(iter(requests()), search, 8))
    assert found.keys() == wanted.keys() == set(range(24))
    for place, hypotheses in found.items():
        same(hypotheses, wanted[place])
    ends = {one.finish_reason for hypotheses in found.values() for one in hypotheses}
    assert "length" in ends
    assert search.beam_size == 1 or ("eos" in ends) == (EOS not in search.suppress)


@pytest.mark.parametrize("never", [PAD, BOS, KNOWN])
def test_nothing_begins_with_what_is_never_said(never: int) -> None:
    """PAD, BOS and ids without a piece."""
    native, theirs = pair()
    search = SearchConfig(beam_size=2, max_length_extra=5)
    asked = [SourceRequest([4, 5, EOS], [6, never], 9), SourceRequest([4, 5, EOS], [6], 9)]
    for found in (dict(native.beam_search(iter(asked), search, 8)), dict(beam_search(theirs, asked, search, 8))):
        assert found[0] == []
        assert found[1] != []


@pytest.mark.parametrize("settings", SEARCHES, ids=lambda settings: "-".join(map(str, settings.values())))
@pytest.mark.parametrize("precise", [None, ()], ids=["float", "int8"])
def test_the_search_steps_to_the_same_bits(precise: tuple[str, ...] | None, settings: dict[str, Any]) -> None:
    """The two searches on the same numbers: to the last bit, whoever ends first."""
    native, _ = twins(tuple(ODD.items()), precise)
    search = SearchConfig(**{"max_length_ratio": 1.0, "max_length_extra": 9, **settings})
    stepped = dict(beam_search(native, requests(), search, 8))
    assert dict(native.beam_search(requests(), search, 8)) == stepped
    team = NativeBackend(native.model, threads=3)
    assert [dict(team.beam_search([request], search, 1))[0] for request in requests()] == list(
        dict(sorted(stepped.items())).values()
    )


@dataclass(frozen=True)
class Stepped(TableModel):
    """What the engine says step by step, as the table that the oracles read."""

    native: NativeBackend | None = None

    def log_probs(self, source: Ids, prefix: Ids) -> FloatArray:
        assert self.native is not None
        state = self.native.start([source])
        for token in (BOS, *prefix):
            full, state = self.native.step_full(np.array([token]), state)
        return full[0].astype(np.float64)


@pytest.mark.parametrize("seed", range(40))
def test_the_search_is_its_written_rules(seed: int) -> None:
    """Against the plain beam, and where the beam is as wide as the tree, against every output there is."""
    rng = random.Random(seed)
    native, _ = twins(tuple(ODD.items()))
    model, source = Stepped(VOCAB, native=native), tuple(rng.choices(range(3, KNOWN), k=4))
    width, alpha = (1, 2, 3, 5, 1000)[seed % 5], rng.choice((0.0, 0.6, 1.0, -1.0))
    rules = Rules(
        max_length=3 if width == 1000 else rng.randrange(4, 10),
        min_length=rng.choice((0, 0, 2, 3)),
        prefix=tuple(rng.choices(range(3, 6), k=rng.choice((0, 0, 1, 3)))),
        no_repeat_ngram=rng.choice((0, 1, 1, 2, 2, 3)),
        suppress=tuple(rng.sample(range(2, KNOWN), k=rng.choice((0, 0, 1, 7)))),
    )
    wanted = plain_beam(model, source, rules, width, alpha, "power")
    if width == 1000:
        assert wanted == enumerate_outputs(model, source, rules, alpha, "power")
    settings = SearchConfig(
        beam_size=width,
        n_best=width,
        length_penalty=alpha,
        no_repeat_ngram=rules.no_repeat_ngram,
        suppress=rules.suppress,
    )
    request = SourceRequest(source, rules.prefix, rules.max_length, rules.min_length)
    [(_, found)] = native.beam_search([request], settings, 1)
    assert [(one.ids, one.finish_reason == "eos", one.log_prob, one.score) for one in found] == [
        (one.ids, one.ended, one.log_prob, one.score) for one in wanted
    ]


def test_sampling_and_streaming_step_through_the_engine() -> None:
    native, theirs = pair(**ODD)
    settings = SearchConfig(beam_size=3, n_best=3, temperature=1.3, top_k=6, seed=5, max_length_extra=6)
    for searched, wanted in zip(
        sample(native, requests(), settings, 8), sample(theirs, requests(), settings, 8), strict=True
    ):
        assert searched[0] == wanted[0]
        same(searched[1], wanted[1])
    for source in SOURCES:
        request = SourceRequest(source, max_length=12)
        assert list(stream_greedy(native, request, settings)) == list(stream_greedy(theirs, request, settings))


def test_sampling_everything() -> None:
    native, theirs = pair()
    settings = SearchConfig(beam_size=2, n_best=2, seed=5, top_p=0.9, max_length_extra=6)
    mine, wanted = (dict(sample(each, requests(), settings, 5)) for each in (native, theirs))
    for place, hypotheses in mine.items():
        same(hypotheses, wanted[place])


@pytest.mark.parametrize("precise", [None, (), ("output", "decoder.0.cross_kv")], ids=["float", "int8", "mixed"])
def test_alone_in_company_and_on_many_threads(precise: tuple[str, ...] | None) -> None:
    """To the last bit: neither neighbours nor threads change the order in which a sentence's numbers are added up."""
    native, _ = twins(tuple(ODD.items()), precise)
    settings = SearchConfig(beam_size=4, n_best=2, max_length_ratio=1.0, max_length_extra=6)
    wanted = [SourceRequest(source) for source in some_sources(40)]
    alone = [next(iter(native.beam_search([request], settings, 1)))[1] for request in wanted]
    together = dict(native.beam_search(wanted, settings, 64))
    assert [together[place] for place in range(len(wanted))] == alone
    many = dict(NativeBackend(native.model, threads=4).beam_search(wanted, settings, 64))
    assert many == together

    def again(turn: int) -> bool:
        order = random.Random(turn).sample(range(len(wanted)), len(wanted))
        found = dict(native.beam_search([wanted[place] for place in order], settings, 64))
        return all(found[turn] == alone[place] for turn, place in enumerate(order))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(again, range(16)))


def test_int8_is_near() -> None:
    """Random weights make much of roundings, those of one shape by chance more than those of another."""
    largest = []
    for shape in SHAPES[1:]:
        exact, quick = pair(**shape)[0], twins(tuple(shape.items()), ())[0]
        assert quick.model.is_int8
        assert not exact.model.is_int8
        one, _ = exact.step_full(np.array([BOS] * 4), exact.start(SOURCES))
        other, _ = quick.step_full(np.array([BOS] * 4), quick.start(SOURCES))
        possible = np.isfinite(one)
        np.testing.assert_array_equal(possible, np.isfinite(other))
        largest.append(np.abs(one[possible] - other[possible]).max())
    assert min(largest) > 0
    assert np.median(largest) < (1.0 if instruction_set() == "avx2" else 0.5)  # 7 bits there


def test_requests_are_read_window_by_window(monkeypatch: pytest.MonkeyPatch) -> None:
    native, _ = pair()
    settings = SearchConfig(beam_size=2, max_length_extra=6)
    wanted = dict(native.beam_search(requests(), settings, 8))
    monkeypatch.setattr(native_search, "WINDOW", 5)
    read = []

    def endless() -> Iterator[SourceRequest]:
        for request in requests():
            read.append(request)
            yield request

    found = native.beam_search(endless(), settings, 8)
    first = next(found)
    assert len(read) == 5
    assert dict([first, *found]) == wanted
    assert list(native.beam_search([], settings, 8)) == []


def test_a_search_that_nobody_waits_for_ends() -> None:
    native, _ = pair(**ODD)
    found = native.beam_search([SourceRequest(source) for source in some_sources(200)], SearchConfig(), 8)
    next(found)
    found.close()  # type: ignore[attr-defined]
    again = native.beam_search([SourceRequest(source) for source in some_sources(200)], SearchConfig(), 8)
    next(again)
    del again
    gc.collect()


def test_numbers_that_are_not_finite_stay_with_their_sentence() -> None:
    config, model = toy_config(tied="none"), toy_model(torch.float32, tied="none")
    with torch.no_grad():
        model.src_embedding.token.weight[9] = float("nan")
    native, theirs = native_of(model, config, KNOWN), TorchBackend(model, KNOWN)
    settings = SearchConfig(beam_size=3, n_best=3, max_length_extra=4)
    wanted = dict(beam_search(theirs, [SourceRequest(source) for source in SOURCES], settings, 8))
    found = dict(native.beam_search([SourceRequest(source) for source in SOURCES], settings, 8))
    assert found[2] == wanted[2] == []
    for place in (0, 1, 3):
        same(found[place], wanted[place])
    top, _ = native.step_top(np.array([BOS] * 4), native.start(SOURCES), 2)
    assert np.isnan(top.log_probs[2, 0])
    assert np.isfinite(top.log_probs[[0, 1, 3]]).all()


# What is refused -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (SourceRequest([5, VOCAB, EOS]), f"source id {VOCAB} is outside the vocabulary, 0 to {VOCAB - 1}"),
        (SourceRequest([-1, EOS]), "source id -1 is outside"),
        (SourceRequest([2**40, EOS]), "source id 1099511627776 is outside"),
        (SourceRequest([2**70, EOS]), "does not fit 64 bits"),
        (SourceRequest([5] * 65, max_length=3), "has 65 source ids, more than the 64 positions"),
        (SourceRequest([5, EOS], max_length=65), "max_length=65 is more than the 64 positions"),
        (SourceRequest([5, EOS], prefix=[VOCAB]), f"target prefix has id {VOCAB}"),
        (SourceRequest([5, EOS], max_length=0), "leaves nothing to generate"),
        (SourceRequest([5, EOS], min_length=9, max_length=8), "min_length=9"),
    ],
)
def test_requests_that_cannot_be_honoured(request_: SourceRequest, said: str) -> None:
    native, _ = pair()
    good = SourceRequest([5, EOS], max_length=3)
    with pytest.raises(RequestError, match=said):
        list(native.beam_search([good, request_, good], SearchConfig(), 8))
    assert len(list(native.beam_search([good], SearchConfig(), 8))) == 1


def test_settings_are_checked_at_the_call() -> None:
    native, _ = pair()
    with pytest.raises(RequestError, match="slots=0"):
        native.beam_search([], SearchConfig(), 0)
    with pytest.raises(RequestError, match=f"suppress={VOCAB}"):
        native.beam_search([], SearchConfig(suppress=(VOCAB,)), 8)


def test_the_last_position_can_be_reached_and_no_further() -> None:
    native, theirs = pair()
    longest = SourceRequest([*[5] * 63, EOS], max_length=64)
    settings = SearchConfig(beam_size=2, suppress=(EOS,))
    [(_, found)] = native.beam_search([longest], settings, 1)
    [(_, wanted)] = beam_search(theirs, [longest], settings, 1)
    assert len(found[0].ids) == 64
    same(found, wanted, 1e-4)
    state = native.start([[5, EOS]])
    for _ in range(64):
        _, state = native.step_top(np.array([5]), state, 1)
    with pytest.raises(EngineError):
        native.step_top(np.array([5]), state, 1)


def test_fed_ids_are_checked() -> None:
    native, _ = pair()
    for wrong in (-1, VOCAB):
        with pytest.raises(EngineError):
            native.step_top(np.array([wrong]), native.start([[5, EOS]]), 1)
    with pytest.raises(EngineError):
        native.start([[5, EOS]]).select(np.array([1]))
