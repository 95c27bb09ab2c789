"""The encoder-decoder of "Attention Is All You Need" for one sentence pair, in float64 numpy, written from the paper.

It takes a dictionary of weights under the names of ``model.safetensors`` and reads sizes off their shapes. There is no
batch, no padding, no cache: one sentence in, one matrix of logits out.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from oracles.attention import Array, Looks, attend

NORM_EPSILON = 1e-5
"""The paper does not give the epsilon of its layer norm; this is PyTorch's."""


@dataclass(frozen=True)
class Oracle:
    """A model: its weights, and the choices that cannot be read off them."""

    weights: Mapping[str, Array]
    num_heads: int
    norm_first: bool = False
    activation: str = "relu"
    positions: str = "sinusoidal"

    def logits(self, src: list[int], tgt: list[int]) -> Array:
        """Logits [len(tgt), vocab] of the token after each of ``tgt``, given ``src``."""
        output = self._either("output.weight", "tgt_embedding.token.weight", "src_embedding.token.weight")
        return self.decode(self.encode(src), tgt) @ output.T

    def encode(self, src: list[int]) -> Array:
        """The encoder's output [len(src), d_model]."""
        x = self._embed("src_embedding", src)
        everything = np.ones((len(src), len(src)), dtype=bool)
        for number in range(self._depth("encoder")):
            at = f"encoder.layers.{number}"
            x = self._residual(x, f"{at}.self_attention", lambda x, at=at: self._attention(x, x, at, everything))
            x = self._residual(x, f"{at}.feed_forward", lambda x, at=at: self._feed_forward(x, f"{at}.feed_forward"))
        return self._norm(x, "encoder.norm") if self.norm_first else x

    def decode(self, memory: Array, tgt: list[int]) -> Array:
        """The decoder's output [len(tgt), d_model]."""
        y = self._embed("tgt_embedding", tgt)
        past = np.array([[j <= i for j in range(len(tgt))] for i in range(len(tgt))])
        everything = np.ones((len(tgt), len(memory)), dtype=bool)
        for number in range(self._depth("decoder")):
            at = f"decoder.layers.{number}"
            y = self._residual(y, f"{at}.self_attention", lambda y, at=at: self._attention(y, y, at, past))
            y = self._residual(
                y, f"{at}.cross_attention", lambda y, at=at: self._attention(y, memory, at, everything, "cross")
            )
            y = self._residual(y, f"{at}.feed_forward", lambda y, at=at: self._feed_forward(y, f"{at}.feed_forward"))
        return self._norm(y, "decoder.norm") if self.norm_first else y

    def _embed(self, side: str, ids: list[int]) -> Array:
        """Section 3.4: embeddings times the root of d_model; section 3.5: plus positions."""
        table = self._either(f"{side}.token.weight", "src_embedding.token.weight")
        d_model = table.shape[1]
        tokens = table[ids] * math.sqrt(d_model)
        if self.positions == "learned":
            return tokens + self.weights[f"{side}.position.weight"][: len(ids)]
        return tokens + np.array([position_vector(pos, d_model, self.positions) for pos in range(len(ids))])

    def _attention(self, x: Array, memory: Array, layer: str, looks: Looks, kind: str = "self") -> Array:
        """Section 3.2.2: project, attend in each head alone, concatenate, project."""
        at = f"{layer}.{kind}_attention"
        queries = self._linear(x, f"{at}.query")
        keys, values = np.split(self._linear(memory, f"{at}.key_value"), 2, axis=1)
        size = x.shape[1] // self.num_heads
        heads = [
            attend(queries[:, part], keys[:, part], values[:, part], looks)
            for part in (slice(head * size, (head + 1) * size) for head in range(self.num_heads))
        ]
        return self._linear(np.concatenate(heads, axis=1), f"{at}.output")

    def _feed_forward(self, x: Array, at: str) -> Array:
        """Section 3.3; the gated forms after Shazeer 2020."""
        inner = self._linear(x, f"{at}.inner")
        if self.activation == "relu":
            return self._linear(np.maximum(0.0, inner), f"{at}.outer")
        if self.activation == "gelu":
            return self._linear(gelu(inner), f"{at}.outer")
        gate, linear = np.split(inner, 2, axis=1)
        opened = gelu(gate) if self.activation == "geglu" else gate / (1.0 + np.exp(-gate))
        return self._linear(opened * linear, f"{at}.outer")

    def _residual(self, x: Array, at: str, sublayer: Callable[[Array], Array]) -> Array:
        """Section 3.1: LayerNorm(x + Sublayer(x)); pre-norm is x + Sublayer(LayerNorm(x))."""
        norm = f"{at}_residual.norm"
        return x + sublayer(self._norm(x, norm)) if self.norm_first else self._norm(x + sublayer(x), norm)

    def _norm(self, x: Array, at: str) -> Array:
        """Layer norm (Ba et al. 2016), row by row; the variance is that of the whole row, not of a sample."""
        rows = []
        for row in x:
            mean = row.sum() / len(row)
            variance = ((row - mean) ** 2).sum() / len(row)
            rows.append((row - mean) / math.sqrt(variance + NORM_EPSILON))
        return np.array(rows) * self.weights[f"{at}.weight"] + self.weights[f"{at}.bias"]

    def _linear(self, x: Array, at: str) -> Array:
        return x @ self.weights[f"{at}.weight"].T + self.weights[f"{at}.bias"]

    def _depth(self, stack: str) -> int:
        return 1 + max(int(name.split(".")[2]) for name in self.weights if name.startswith(f"{stack}.layers."))

    def _either(self, *names: str) -> Array:
        """The first that there is: a matrix with several uses stands under one name only."""
        return next(self.weights[name] for name in names if name in self.weights)


def position_vector(pos: int, d_model: int, layout: str = "sinusoidal") -> Array:
    """Section 3.5, one number after the other, in each of the three layouts."""
    if layout == "sinusoidal":
        angles = [pos / 10000 ** (2 * (k // 2) / d_model) for k in range(d_model)]
        return np.array([math.cos(angle) if k % 2 else math.sin(angle) for k, angle in enumerate(angles)])
    half = d_model // 2 if layout == "sinusoidal_half_inclusive" else math.ceil(d_model / 2)
    if layout == "sinusoidal_half_inclusive":
        angles = [pos / 10000 ** (i / max(half - 1, 1)) for i in range(half)]
    else:
        angles = [pos / 10000 ** (2 * i / d_model) for i in range(half)]
    numbers = [math.sin(angle) for angle in angles] + [math.cos(angle) for angle in angles] + [0.0]
    return np.array(numbers[:d_model])


def gelu(x: Array) -> Array:
    """x times the normal distribution function at x (Hendrycks and Gimpel 2016), the exact form."""
    return x * 0.5 * (1.0 + np.vectorize(math.erf, otypes=[np.float64])(x / math.sqrt(2.0)))
