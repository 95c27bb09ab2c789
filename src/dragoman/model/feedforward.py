"""The position-wise feed-forward network (section 3.3)."""

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional


class FeedForward(nn.Module):
    """FFN(x) = max(0, x W_1 + b_1) W_2 + b_2 (equation 2), the same at every position.

    Beyond the paper: ``gelu`` in place of the max, and the gated forms ``swiglu`` and ``geglu`` (Shazeer 2020), in
    which the inner layer is a(x W_g + b_g) * (x W_1 + b_1); gated networks have half as many parameters more.
    """

    def __init__(self, d_model: int, d_ff: int, activation: str) -> None:
        super().__init__()
        self.activation = activation
        self.inner = nn.Linear(d_model, 2 * d_ff if activation in ("swiglu", "geglu") else d_ff)
        self.outer = nn.Linear(d_ff, d_model)

    def forward(self, x: Float[Tensor, "*at d_model"]) -> Float[Tensor, "*at d_model"]:
        """One vector in, one vector out, for each position alone."""
        return self.outer(self._activate(self.inner(x)))  # type: ignore[no-any-return]

    def _activate(self, inner: Tensor) -> Tensor:
        if self.activation == "relu":
            return functional.relu(inner)
        if self.activation == "gelu":
            return functional.gelu(inner)
        gate, linear = inner.chunk(2, dim=-1)
        return (functional.silu(gate) if self.activation == "swiglu" else functional.gelu(gate)) * linear
