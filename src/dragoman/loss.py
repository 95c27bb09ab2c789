"""Label-smoothed cross-entropy over real tokens: sums and counts, never means, so that any grouping adds up."""

from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import cross_entropy

IGNORED = -100


def token_loss(
    logits: Float[Tensor, "batch tgt_len vocab"],
    targets: Int[Tensor, "batch tgt_len"],
    real: Bool[Tensor, "batch tgt_len"],
    label_smoothing: float = 0.0,
) -> Float[Tensor, ""]:
    """Sum over real tokens of the cross-entropy, with label smoothing (section 5.4).

    The wanted distribution has 1 - eps on the target, and eps spread over *all* words, the target among them, as in
    PyTorch. Divide by the number of real tokens of the whole update (all its batches, all its workers) to get the mean;
    a batch without a real token gives 0.

    Args:
        logits: before the softmax.
        targets: the right ids; those at padding are not looked at.
        real: True at real tokens.
        label_smoothing: the paper's eps_ls.
    """
    wanted = targets.masked_fill(~real, IGNORED).flatten()
    return cross_entropy(
        logits.flatten(0, 1), wanted, ignore_index=IGNORED, reduction="sum", label_smoothing=label_smoothing
    )
