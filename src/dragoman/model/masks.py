"""Masks: boolean tensors in which True means *may look*."""

import torch
from jaxtyping import Bool, Int
from torch import Tensor


def causal(q_len: int, k_len: int, device: torch.device | None = None) -> Bool[Tensor, "q_len k_len"]:
    """Each query may look at its own position and at all earlier ones (section 3.2.3).

    The last query stands at the last key: with more keys than queries the surplus keys are the past, which everyone
    may see. (PyTorch's ``is_causal=True`` aligns the *first* query with the first key instead.)
    """
    return torch.ones(q_len, k_len, dtype=torch.bool, device=device).tril(k_len - q_len)


def padding(lengths: Int[Tensor, " batch"], max_len: int) -> Bool[Tensor, "batch max_len"]:
    """True at the first ``lengths[i]`` positions of row i, the real tokens."""
    return torch.arange(max_len, device=lengths.device) < lengths[:, None]
