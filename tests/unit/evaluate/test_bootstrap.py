import json
from random import Random

import pytest

from dragoman.errors import DataError, RequestError
from dragoman.evaluate.bootstrap import Comparison, Difference, compare
from dragoman.evaluate.metrics import evaluate

WORDS = (
    "the",
    "a",
    "small",
    "old",
    "cat",
    "dog",
    "house",
    "tree",
    "sees",
    "finds",
    "has",
    "on",
    "under",
    "near",
    "not",
)


def corpus(lines: int, seed: int) -> list[str]:
    chance = Random(seed)
    return [" ".join(chance.choice(WORDS) for _ in range(chance.randint(4, 9))) for _ in range(lines)]


def damaged(lines: list[str], share: float, seed: int) -> list[str]:
    chance = Random(seed)
    return [" ".join("wrong" if chance.random() < share else word for word in line.split()) for line in lines]


REFERENCES = corpus(60, 1)
GOOD, BAD, TWIN = damaged(REFERENCES, 0.1, 2), damaged(REFERENCES, 0.3, 3), damaged(REFERENCES, 0.1, 4)


def differences(comparison: Comparison) -> tuple[Difference, Difference, Difference]:
    return comparison.bleu, comparison.chrf, comparison.ter


@pytest.mark.parametrize("lowercase", [False, True])
@pytest.mark.parametrize("language", ["en", "zh"])
def test_both_scores_are_those_of_evaluate(language: str, lowercase: bool) -> None:
    comparison = compare(GOOD, BAD, REFERENCES, language, lowercase, samples=3)
    a, b = (evaluate(system, REFERENCES, language, lowercase) for system in (GOOD, BAD))
    for difference, score_a, score_b in zip(
        differences(comparison), (a.bleu, a.chrf, a.ter), (b.bleu, b.chrf, b.ter), strict=True
    ):
        assert difference.a == pytest.approx(score_a.value, abs=1e-9)
        assert difference.b == pytest.approx(score_b.value, abs=1e-9)
        assert difference.difference == difference.a - difference.b
        assert difference.signature == score_a.signature


def test_a_clear_difference_is_significant() -> None:
    comparison = compare(GOOD, BAD, REFERENCES, samples=300)
    for difference in differences(comparison):
        assert difference.p_value == pytest.approx(1 / 301)
        assert difference.low < difference.difference < difference.high
    assert comparison.bleu.low > 0
    assert comparison.ter.high < 0, "fewer edits: the difference is negative where lower is better"


def test_a_difference_of_nothing_is_not() -> None:
    for difference in differences(compare(GOOD, GOOD, REFERENCES, samples=50)):
        assert (difference.difference, difference.low, difference.high, difference.p_value) == (0.0, 0.0, 0.0, 1.0)


def test_equal_damage_elsewhere_is_luck() -> None:
    for difference in differences(compare(GOOD, TWIN, REFERENCES, samples=300)):
        assert difference.low < 0 < difference.high
        assert difference.p_value > 0.05


def test_exchanging_the_systems_exchanges_the_signs() -> None:
    there, back = compare(GOOD, BAD, REFERENCES, samples=80), compare(BAD, GOOD, REFERENCES, samples=80)
    for one, other in zip(differences(there), differences(back), strict=True):
        assert (one.difference, one.low, one.high) == pytest.approx((-other.difference, -other.high, -other.low))
        assert one.p_value == other.p_value


def test_the_seed_decides() -> None:
    first, again, other = (compare(GOOD, TWIN, REFERENCES, samples=40, seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert first.bleu.low != other.bleu.low


def test_several_references_a_sentence() -> None:
    references = [(line, "something else") for line in REFERENCES]
    comparison = compare(GOOD, BAD, references, samples=5)
    assert comparison.bleu.a == pytest.approx(evaluate(GOOD, references).bleu.value)


def test_unequal_counts_are_refused_with_all_of_them() -> None:
    with pytest.raises(DataError, match="2 and 1 hypotheses"):
        compare(["a", "b"], ["a"], ["a", "b"])
    with pytest.raises(DataError, match="2 hypotheses but 3 references"):
        compare(["a", "b"], ["a", "b"], ["a", "b", "c"])


def test_no_draws_are_refused() -> None:
    with pytest.raises(RequestError, match="samples=0"):
        compare(["a"], ["a"], ["a"], samples=0)


def test_json_holds_the_whole_comparison() -> None:
    comparison = compare(GOOD, BAD, REFERENCES, samples=5, seed=7)
    told = json.loads(comparison.to_json())
    assert (told["lines"], told["samples"], told["seed"]) == (60, 5, 7)
    assert told["bleu"]["p_value"] == comparison.bleu.p_value
