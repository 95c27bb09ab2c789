"""Adam (section 5.3), Muon beside it, and the running average of the weights, with a state that is plain tensors."""

from typing import Any

import torch
from torch import Tensor, nn

from dragoman.config import TrainConfig
from dragoman.train.orthogonal import block_shapes, move

MOMENTS = ("exp_avg", "exp_avg_sq", "step")
"""What is kept of a parameter; the second only by Adam."""


def build_optimizer(model: nn.Module, config: TrainConfig) -> torch.optim.AdamW:
    """Adam with beta_1 = 0.9, beta_2 = 0.98, epsilon = 1e-9 (section 5.3), unless ``config`` says otherwise.

    With ``muon``, groups that have a ``block`` are matrices that :func:`update` moves by
    :mod:`dragoman.train.orthogonal`. Decoupled weight decay (0 by default, which is plain Adam) is for matrices only.
    """
    blocks = block_shapes(model) if config.optimizer == "muon" else {}
    matrices = [parameter for parameter in model.parameters() if parameter.dim() > 1 and parameter not in blocks]
    vectors = [parameter for parameter in model.parameters() if parameter.dim() <= 1]
    decay = config.weight_decay
    groups: list[dict[str, Any]] = [
        {"params": matrices, "weight_decay": decay, "block": None},
        {"params": vectors, "weight_decay": 0.0, "block": None},
    ]
    for parameter, block in blocks.items():
        groups.append({"params": [parameter], "weight_decay": decay, "block": block})
    return torch.optim.AdamW(
        groups, lr=config.learning_rate, betas=config.adam_betas, eps=config.adam_epsilon, fused=True
    )


def start_state(optimizer: torch.optim.Optimizer, parameter: Tensor, is_adams: bool) -> dict[str, Tensor]:
    """What is kept of a parameter, before its first update; all of it or nothing."""
    state = {"step": torch.tensor(0.0), "exp_avg": torch.zeros_like(parameter)}
    if is_adams:
        state["exp_avg_sq"] = torch.zeros_like(parameter)
    optimizer.state[parameter] = state
    return state


def update(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Move the weights once, by the gradients in their ``grad``; what has none stays."""
    for group in optimizer.param_groups:
        group["lr"] = rate
        if group["block"]:
            _move(optimizer, group)
    optimizer.step()


def _move(optimizer: torch.optim.Optimizer, group: dict[str, Any]) -> None:
    [parameter] = group["params"]
    if parameter.grad is not None:
        state = optimizer.state[parameter] or start_state(optimizer, parameter, is_adams=False)
        state["step"] += 1
        move(parameter, state["exp_avg"], group["block"], group["lr"], group["weight_decay"])
        parameter.grad = None  # so that Adam leaves it alone


def optimizer_tensors(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimizer's averages under the names of the parameters they belong to; empty before the first update."""
    return {
        f"{name}.{moment}": optimizer.state[parameter][moment]
        for name, parameter in model.named_parameters()
        if parameter in optimizer.state
        for moment in MOMENTS
        if moment in optimizer.state[parameter]
    }


def restore_optimizer(model: nn.Module, optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    """Give ``optimizer`` back what :func:`optimizer_tensors` read out."""
    for name, parameter in model.named_parameters():
        if f"{name}.step" in tensors:
            kept = {moment: f"{name}.{moment}" for moment in MOMENTS}
            optimizer.state[parameter] = {moment: tensors[key] for moment, key in kept.items() if key in tensors}


def kept_share(decay: float, update: int) -> float:
    """d of :func:`update_average` at this update (from 1).

    It grows from near 0 to ``decay`` as min(decay, (1 + update) / (10 + update)), so that the random weights of the
    beginning are soon forgotten; with ``decay`` 0 it is 0.
    """
    return min(decay, (1 + update) / (10 + update)) if decay else 0.0


@torch.no_grad()
def update_average(average: nn.Module, model: nn.Module, decay: float, update: int) -> None:
    """Move ``average`` towards ``model``: average = d * average + (1 - d) * weights, see :func:`kept_share`."""
    keep = kept_share(decay, update)
    torch._foreach_lerp_(list(average.parameters()), list(model.parameters()), 1.0 - keep)
