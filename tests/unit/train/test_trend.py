"""The running mean of the loss: what is a divergence, and what is none."""

import math
import random
from collections.abc import Iterable

import pytest

from dragoman.train.trend import SPAN, Trend


def along(losses: Iterable[float], trend: Trend | None = None) -> list[Trend]:
    """The trend after each loss."""
    trends = [trend or Trend()]
    for loss in losses:
        trends.append(trends[-1].after(loss))
    return trends[1:]


def falling(count: int, noise: float, seed: int) -> list[float]:
    """From 9 nats down to 2."""
    draws = random.Random(seed)
    return [2 + 7 * math.exp(-update / 300) + draws.gauss(0, noise) for update in range(count)]


@pytest.mark.parametrize("noise", [0.0, 0.3, 1.0])
def test_it_is_a_running_mean(noise: float) -> None:
    losses = [3 + random.Random(1).gauss(0, noise)] * 400
    assert along(losses)[-1].mean == pytest.approx(losses[0])
    assert along([5.0, 3.0])[-1].mean == 4.0


@pytest.mark.parametrize("seed", range(20))
def test_a_healthy_training_never_explodes(seed: int) -> None:
    assert not any(trend.has_exploded for trend in along(falling(3000, 1.0, seed)))


@pytest.mark.parametrize("level", [0.1, 0.5, 2.0, 5.0])
def test_a_spike_that_passes_is_none(level: float) -> None:
    losses = [*[level] * 200, *[level + 5] * 8, *[level] * 200]
    assert not any(trend.has_exploded for trend in along(losses))


@pytest.mark.parametrize("level", [0.1, 2.0, 3.5])
def test_what_was_learned_is_lost(level: float) -> None:
    trends = along([*[level] * 200, *[8.0] * 100])
    first = next(place for place, trend in enumerate(trends) if trend.has_exploded)
    assert 200 < first < 300
    assert not trends[first].is_calm
    assert trends[200 - 1].is_calm
    unsettled = next(place for place, trend in enumerate(trends) if not trend.is_calm)
    assert 200 <= unsettled < first, "no checkpoint from then on is stepped back to"


def test_a_few_losses_decide_nothing() -> None:
    assert not any(trend.has_exploded for trend in along([9.0] * 100, Trend(0.0, 0, 1.0))[: SPAN - 1])
    assert along([2.0] * (SPAN - 1))[-1].lowest is None
    assert along([2.0] * SPAN)[-1].lowest == pytest.approx(2.0)


def test_a_step_back_forgets_the_mean_alone() -> None:
    trend = along([2.0] * 200)[-1].anew()
    assert (trend.updates, trend.lowest) == (0, pytest.approx(2.0))
    assert trend.is_calm
    assert not trend.has_exploded
