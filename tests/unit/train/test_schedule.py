"""The learning rate of each update, by hand."""

import itertools

import pytest

from dragoman.config import TrainConfig
from dragoman.train.schedule import learning_rate, paper_peak


@pytest.mark.parametrize(
    ("update", "rate"),
    [
        (1, 1.746928e-07),
        (2, 3.493856e-07),
        (3999, 6.985966e-04),
        (4000, 6.987712e-04),
        (4001, 6.986839e-04),
        (16000, 3.493856e-04),
    ],
)
def test_equation_3(update: int, rate: float) -> None:
    """d_model 512, 4000 warm-up updates; the first update already has a rate, and its own."""
    config = TrainConfig(learning_rate=paper_peak(512, 4000), warmup_steps=4000)
    assert learning_rate(update, config) == pytest.approx(rate, rel=1e-6)
    assert learning_rate(update, config) == pytest.approx(512**-0.5 * min(update**-0.5, update * 4000**-1.5), rel=1e-12)


@pytest.mark.parametrize("schedule", ["noam", "cosine", "linear", "plateau"])
def test_up_to_the_peak_and_down(schedule: str) -> None:
    config = TrainConfig(learning_rate=0.5, warmup_steps=10, steps=50, schedule=schedule)  # type: ignore[arg-type]
    rates = [learning_rate(update, config) for update in range(1, 51)]
    assert rates[:10] == pytest.approx([0.05 * update for update in range(1, 11)])
    assert max(rates) == rates[9] == 0.5
    stay = 24 if schedule == "plateau" else 0
    assert rates[9 : 10 + stay] == [0.5] * (1 + stay)
    assert all(later < earlier for earlier, later in itertools.pairwise(rates[9 + stay :]))


@pytest.mark.parametrize("schedule", ["noam", "cosine", "linear", "plateau"])
def test_a_factor_of_every_rate(schedule: str) -> None:
    config = TrainConfig(learning_rate=0.5, warmup_steps=10, steps=50, schedule=schedule)  # type: ignore[arg-type]
    for update in (1, 10, 30, 50, 60):
        assert learning_rate(update, config, 0.25) == 0.25 * learning_rate(update, config)


def test_where_they_end() -> None:
    middle, end = 30, 50
    expected = {
        "cosine": (0.25, 0.0),
        "linear": (0.25, 0.0),
        "plateau": (0.5, 0.0),
        "noam": (0.5 * (10 / 30) ** 0.5, 0.5 * (10 / 50) ** 0.5),
    }
    for schedule, rates in expected.items():
        config = TrainConfig(learning_rate=0.5, warmup_steps=10, steps=50, schedule=schedule)  # type: ignore[arg-type]
        assert [learning_rate(update, config) for update in (middle, end)] == pytest.approx(list(rates), abs=1e-15)
        assert learning_rate(end + 1, config) >= 0


@pytest.mark.parametrize(("begin", "end"), [(34, 35), (34, 40), (20, 30), (34, 70)])
def test_a_plateau_that_falls_elsewhere(begin: int, end: int) -> None:
    config = TrainConfig(learning_rate=0.5, warmup_steps=10, steps=50, schedule="plateau")
    rates = [learning_rate(update, config, begin=begin, end=end) for update in range(1, end + 1)]
    assert rates[9:begin] == [0.5] * (begin - 9)
    assert all(later < earlier for earlier, later in itertools.pairwise(rates[begin - 1 :]))
    assert rates[-1] == pytest.approx(0.0, abs=1e-15)


@pytest.mark.parametrize("schedule", ["noam", "cosine", "linear", "plateau"])
@pytest.mark.parametrize(("warmup", "steps"), [(1, 1), (10, 10), (10, 5), (1, 2)])
def test_short_trainings(schedule: str, warmup: int, steps: int) -> None:
    config = TrainConfig(warmup_steps=warmup, steps=steps, schedule=schedule)  # type: ignore[arg-type]
    rates = [learning_rate(update, config) for update in range(1, steps + 3)]
    assert all(0 <= rate <= config.learning_rate for rate in rates)
    assert rates[0] > 0
