"""Law 7: a beam as wide as the tree of outputs finds them all, in order; a narrower one keeps its documented rules."""

import random
from dataclasses import replace

import pytest
from msgspec import structs

from dragoman.config import SearchConfig
from dragoman.search.beam import beam_search
from dragoman.search.request import SourceRequest
from oracles.enumeration import Ids, Norm, Output, Rules, TableModel, ToyStepper, enumerate_outputs, plain_beam

ALPHAS = (0.0, 0.6, 1.0, -1.0)
NORMS: tuple[Norm, ...] = ("power", "gnmt")


def check(model: TableModel, source: Ids, rules: Rules, alpha: float, norm: Norm) -> None:
    expected = enumerate_outputs(model, source, rules, alpha, norm)
    width = model.vocab_size**rules.max_length
    assert_found(model, source, rules, SearchConfig(length_penalty=alpha, length_norm=norm), width, width, expected)


def assert_found(
    model: TableModel,
    source: Ids,
    rules: Rules,
    settings: SearchConfig,
    beam_size: int,
    n_best: int,
    expected: list[Output],
) -> None:
    settings = structs.replace(
        settings,
        beam_size=beam_size,
        n_best=n_best,
        no_repeat_ngram=rules.no_repeat_ngram,
        suppress=rules.suppress,
    )
    request = SourceRequest(source, rules.prefix, rules.max_length, rules.min_length)
    [(index, found)] = beam_search(ToyStepper(model), [request], settings, slots=1)
    assert index == 0
    assert [(hypothesis.ids, hypothesis.finish_reason == "eos") for hypothesis in found] == [
        (output.ids, output.ended) for output in expected
    ]
    assert [hypothesis.score for hypothesis in found] == pytest.approx([o.score for o in expected], abs=1e-9)
    assert [hypothesis.log_prob for hypothesis in found] == pytest.approx([o.log_prob for o in expected], abs=1e-9)


def random_rules(rng: random.Random, model: TableModel) -> Rules:
    max_length = 3 if model.vocab_size == 7 else rng.choice((3, 4))
    ids = [id_ for id_ in range(model.vocab_size) if id_ != model.eos_id]
    return Rules(
        max_length=max_length,
        min_length=rng.choice((0, 0, 1, 2, max_length)),
        prefix=tuple(rng.choices(ids, k=rng.choice((0, 0, 1, 2, 3)))),
        no_repeat_ngram=rng.choice((0, 0, 1, 2, 3)),
        suppress=tuple(rng.sample(range(model.vocab_size), k=rng.choice((0, 0, 1, 2)))),
    )


@pytest.mark.parametrize("seed", range(100))
def test_plain(seed: int) -> None:
    rng = random.Random(seed)
    model = TableModel(5 + seed % 3, seed=seed, sharpness=rng.choice((0.3, 1.5, 4.0)))
    rules = Rules(max_length=4 if seed % 3 == 0 or seed % 25 == 0 else 3)
    check(model, (3, seed), rules, ALPHAS[seed % 4], NORMS[seed // 4 % 2])


@pytest.mark.parametrize("seed", range(100, 200))
def test_constrained(seed: int) -> None:
    rng = random.Random(seed)
    impossible = tuple(rng.sample((0, 1, 3, 4), k=rng.choice((0, 1, 2))))
    model = TableModel(
        5 + seed % 3, seed=seed, impossible=impossible, eos_bonus=rng.choice((0.0, 2.0)), whole=seed % 5 == 0
    )
    for alpha in ALPHAS:
        check(model, (seed,), random_rules(rng, model), alpha, NORMS[rng.randrange(2)])


@pytest.mark.parametrize("sharpness", [0.0, 1.5])
def test_all_alphas_on_one_tree(sharpness: float) -> None:
    """With sharpness 0 all scores of a length are equal, and only the ids order them."""
    for alpha in ALPHAS:
        for norm in NORMS:
            check(TableModel(4, seed=1, sharpness=sharpness), (9,), Rules(max_length=4), alpha, norm)


@pytest.mark.parametrize("seed", range(60))
def test_narrow_beams_keep_the_rules(seed: int) -> None:
    """And stopping early changes nothing, for any number of hypotheses asked for."""
    rng = random.Random(seed)
    sharpness, eos_bonus = rng.choice((1.0, 2.5)), rng.choice((-1.0, 1.0, 2.0))
    model = TableModel(8, seed=seed, sharpness=sharpness, eos_bonus=eos_bonus, whole=seed % 2 == 1)
    rules = replace(random_rules(rng, model), max_length=rng.randrange(4, 13))
    alpha, norm, beam_size = rng.choice((*ALPHAS, 2.5)), rng.choice(NORMS), rng.randrange(1, 7)
    expected = plain_beam(model, (seed,), rules, beam_size, alpha, norm)
    settings = SearchConfig(length_penalty=alpha, length_norm=norm)
    for n_best in range(1, beam_size + 1):
        assert_found(model, (seed,), rules, settings, beam_size, n_best, expected[:n_best])
