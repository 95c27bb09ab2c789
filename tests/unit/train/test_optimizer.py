"""Adam by hand, its moments there and back, and the running average."""

import copy

import pytest
import torch

from dragoman.config import TrainConfig
from dragoman.model.build import named_weights
from dragoman.model.families import EncoderDecoder
from dragoman.train.optimizer import build_optimizer, optimizer_tensors, restore_optimizer, update, update_average
from dragoman.train.orthogonal import block_shapes
from toys import toy_model

CONFIG = TrainConfig(learning_rate=0.01)
MUON = TrainConfig(learning_rate=0.01, optimizer="muon")


def step(model: EncoderDecoder, optimizer: torch.optim.Optimizer, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        parameter.grad = torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)
    update(optimizer, CONFIG.learning_rate)


def equal(one: EncoderDecoder, other: EncoderDecoder) -> bool:
    return all(torch.equal(*pair) for pair in zip(one.parameters(), other.parameters(), strict=True))


def test_two_updates_by_hand() -> None:
    """Section 5.3 and Kingma and Ba 2015, algorithm 1, for one number with the gradients 2 and -1."""
    model = torch.nn.Linear(1, 1, bias=False).double()
    with torch.no_grad():
        model.weight.fill_(1.0)
    optimizer = build_optimizer(model, CONFIG)
    weight, mean, square = 1.0, 0.0, 0.0
    for step_number, gradient in enumerate((2.0, -1.0), start=1):
        model.weight.grad = torch.tensor([[gradient]], dtype=torch.float64)
        optimizer.step()
        mean, square = 0.9 * mean + 0.1 * gradient, 0.98 * square + 0.02 * gradient**2
        corrected, root = mean / (1 - 0.9**step_number), (square / (1 - 0.98**step_number)) ** 0.5
        weight -= 0.01 * corrected / (root + 1e-9)
        assert float(model.weight.detach()) == pytest.approx(weight, rel=1e-12)


def test_decay_is_for_matrices() -> None:
    optimizer = build_optimizer(toy_model(), TrainConfig(weight_decay=0.1))
    matrices, vectors = optimizer.param_groups
    assert (matrices["weight_decay"], vectors["weight_decay"]) == (0.1, 0.0)
    assert all(parameter.dim() > 1 for parameter in matrices["params"])
    assert all(parameter.dim() == 1 for parameter in vectors["params"])
    assert len(matrices["params"]) + len(vectors["params"]) == len(named_weights(toy_model()))


@pytest.mark.parametrize("tied", ["three-way", "none"])
@pytest.mark.parametrize("config", [CONFIG, MUON], ids=["adam", "muon"])
def test_moments_there_and_back(tied: str, config: TrainConfig) -> None:
    """4 updates and 2 after restoring equal 6, to the bit; and not what a fresh optimizer would do."""
    model = toy_model(torch.float32, tied=tied)
    optimizer = build_optimizer(model, config)
    for seed in range(4):
        step(model, optimizer, seed)
    kept = {name: tensor.clone() for name, tensor in optimizer_tensors(model, optimizer).items()}
    orthogonal = {name for name, weight in model.named_parameters() if weight in block_shapes(model)}
    assert kept.keys() == {
        f"{name}.{moment}"
        for name in named_weights(model)
        for moment in ("exp_avg", "exp_avg_sq", "step")
        if config is CONFIG or moment != "exp_avg_sq" or name not in orthogonal
    }
    resumed, fresh = copy.deepcopy(model), copy.deepcopy(model)
    second, third = build_optimizer(resumed, config), build_optimizer(fresh, config)
    restore_optimizer(resumed, second, kept)
    for seed in (4, 5):
        for one, its in ((model, optimizer), (resumed, second), (fresh, third)):
            step(one, its, seed)
    assert equal(model, resumed)
    assert not equal(model, fresh)
    mine, theirs = optimizer_tensors(model, optimizer), optimizer_tensors(resumed, second)
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)


def test_before_the_first_update_there_are_no_moments() -> None:
    model = toy_model()
    optimizer = build_optimizer(model, CONFIG)
    assert optimizer_tensors(model, optimizer) == {}
    restore_optimizer(model, optimizer, {})
    step(model, optimizer, 1)
    assert float(optimizer_tensors(model, optimizer)["decoder.layers.0.feed_forward.inner.bias.step"]) == 1


@pytest.mark.parametrize(
    ("decay", "update", "keep"),
    [
        (0.999, 1, 2 / 11),
        (0.999, 90, 0.91),
        (0.999, 8990, 8991 / 9000),
        (0.999, 10**6, 0.999),
        (0.5, 90, 0.5),
        (0.0, 90, 0.0),
    ],
)
def test_the_average_by_hand(decay: float, update: int, keep: float) -> None:
    """Slow to begin with, so that the first random weights are soon forgotten."""
    model, average = toy_model(seed=1), toy_model(seed=2)
    before = {name: tensor.clone() for name, tensor in named_weights(average).items()}
    untouched = {name: tensor.clone() for name, tensor in named_weights(model).items()}
    update_average(average, model, decay, update)
    for name, tensor in named_weights(average).items():
        expected = keep * before[name] + (1 - keep) * untouched[name]
        assert (tensor - expected).abs().max() < 1e-14
    assert all(torch.equal(tensor, untouched[name]) for name, tensor in named_weights(model).items())


def test_without_decay_the_average_is_a_copy() -> None:
    model, average = toy_model(torch.float32, seed=1), toy_model(torch.float32, seed=2)
    update_average(average, model, 0.0, 5)
    assert equal(model, average)
