"""Adam (section 5.3) and the running average of the weights, with a state that is plain tensors."""

import torch
from torch import Tensor, nn

from dragoman.config import TrainConfig

MOMENTS = ("exp_avg", "exp_avg_sq", "step")


def build_optimizer(model: nn.Module, config: TrainConfig) -> torch.optim.AdamW:
    """Adam with beta_1 = 0.9, beta_2 = 0.98, epsilon = 1e-9 (section 5.3), unless ``config`` says otherwise.

    Decoupled weight decay (0 by default, which is plain Adam) is for matrices only.
    """
    matrices = [parameter for parameter in model.parameters() if parameter.dim() > 1]
    vectors = [parameter for parameter in model.parameters() if parameter.dim() <= 1]
    groups = [{"params": matrices, "weight_decay": config.weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.AdamW(
        groups, lr=config.learning_rate, betas=config.adam_betas, eps=config.adam_epsilon, fused=True
    )


def optimizer_tensors(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Adam's moments under the names of the parameters they belong to; empty before the first update."""
    return {
        f"{name}.{moment}": optimizer.state[parameter][moment]
        for name, parameter in model.named_parameters()
        if parameter in optimizer.state
        for moment in MOMENTS
    }


def restore_optimizer(model: nn.Module, optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    """Give ``optimizer`` back the moments that :func:`optimizer_tensors` read out."""
    for name, parameter in model.named_parameters():
        if f"{name}.step" in tensors:
            optimizer.state[parameter] = {moment: tensors[f"{name}.{moment}"] for moment in MOMENTS}


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
