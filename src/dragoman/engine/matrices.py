"""The engine's matrices and norms in the order it wants them, and the model's weights that each is made of."""

from collections.abc import Iterator
from dataclasses import dataclass

from dragoman.config import ModelConfig
from dragoman.store.tensors import Spec

SRC_TOKENS, TGT_TOKENS = "src_embedding.token.weight", "tgt_embedding.token.weight"
SRC_POSITIONS, TGT_POSITIONS = "src_embedding.position.weight", "tgt_embedding.position.weight"

HEAD = 16
"""The width of a head is padded to a multiple of this."""


@dataclass(frozen=True)
class Matrix:
    """One matrix product of the engine: linear layers of the model with their outputs side by side."""

    name: str
    layers: tuple[tuple[str, int], ...]
    "Of each layer its name in the weights file, without `.weight` and `.bias`, and its outputs."
    inputs: int
    "As in the model; see `padded_inputs`."
    has_bias: bool = True
    output_heads: int = 0
    "Heads that the outputs are cut into, each of which is padded; 0: they are not."
    input_heads: int = 0
    "The same of the inputs."

    @property
    def outputs(self) -> int:
        """As in the model."""
        return sum(outputs for _, outputs in self.layers)

    @property
    def padded_outputs(self) -> int:
        """With every head padded."""
        return widened(self.outputs, self.output_heads)

    @property
    def padded_inputs(self) -> int:
        """With every head padded."""
        return widened(self.inputs, self.input_heads)


def up(size: int, multiple: int) -> int:
    """``size`` rounded up."""
    return -(-size // multiple) * multiple


def widened(size: int, heads: int) -> int:
    """``size`` with each of its ``heads`` padded to a multiple of ``HEAD``; unchanged without heads."""
    return heads * up(size // heads, HEAD) if heads else size


def matrices(config: ModelConfig, tgt_vocab: int) -> list[Matrix]:
    """All matrices, in the engine's order."""
    made: list[Matrix] = []
    for number in range(config.num_encoder_layers):
        layer = f"encoder.layers.{number}"
        made += [
            *_self_attention(config, f"encoder.{number}", layer),
            *_feed_forward(config, f"encoder.{number}", layer),
        ]
    for number in range(config.num_decoder_layers):
        layer = f"decoder.layers.{number}"
        made += _self_attention(config, f"decoder.{number}", layer)
        made += _cross_attention(config, f"decoder.{number}", layer)
        made += _feed_forward(config, f"decoder.{number}", layer)
    tied = {"three-way": SRC_TOKENS, "output": TGT_TOKENS, "none": "output.weight"}[config.tied]
    output = tied.removesuffix(".weight")
    return [*made, Matrix("output", ((output, tgt_vocab),), config.d_model, has_bias=False)]


def norms(config: ModelConfig) -> dict[str, str]:
    """The engine's name of each norm, in its order, and the name in the weights file without `.weight` and `.bias`."""
    kinds = {"self_norm": "self_attention", "cross_norm": "cross_attention", "ff_norm": "feed_forward"}
    made = {
        f"{stack}.{number}.{short}": f"{stack}.layers.{number}.{long}_residual.norm"
        for stack, count in (("encoder", config.num_encoder_layers), ("decoder", config.num_decoder_layers))
        for number in range(count)
        for short, long in kinds.items()
        if (stack, short) != ("encoder", "cross_norm")
    }
    last = {"encoder.norm": "encoder.norm", "decoder.norm": "decoder.norm"}
    return {**made, **(last if config.norm_first else {})}


def weight_specs(config: ModelConfig, src_vocab: int, tgt_vocab: int) -> dict[str, Spec]:
    """What the weights file of such a model holds: as ``tensors.specs(named_weights(build(...)))``, without torch."""
    shapes: dict[str, tuple[int, ...]] = {SRC_TOKENS: (src_vocab, config.d_model)}
    if config.tied != "three-way":
        shapes[TGT_TOKENS] = (tgt_vocab, config.d_model)
    if config.positions == "learned":
        shapes |= dict.fromkeys((SRC_POSITIONS, TGT_POSITIONS), (config.max_positions, config.d_model))
    for matrix in matrices(config, tgt_vocab):
        for layer, outputs in matrix.layers:
            shapes[f"{layer}.weight"] = (outputs, matrix.inputs)
            if matrix.has_bias:
                shapes[f"{layer}.bias"] = (outputs,)
    for norm in norms(config).values():
        shapes[f"{norm}.weight"] = shapes[f"{norm}.bias"] = (config.d_model,)
    return {name: (shape, "F32") for name, shape in shapes.items()}


def _self_attention(config: ModelConfig, name: str, layer: str) -> Iterator[Matrix]:
    d_model, heads, attention = config.d_model, config.num_heads, f"{layer}.self_attention"
    both = (f"{attention}.query", d_model), (f"{attention}.key_value", 2 * d_model)
    yield Matrix(f"{name}.qkv", both, d_model, output_heads=3 * heads)
    yield Matrix(f"{name}.out", ((f"{attention}.output", d_model),), d_model, input_heads=heads)


def _cross_attention(config: ModelConfig, name: str, layer: str) -> Iterator[Matrix]:
    d_model, heads, attention = config.d_model, config.num_heads, f"{layer}.cross_attention"
    yield Matrix(f"{name}.cross_query", ((f"{attention}.query", d_model),), d_model, output_heads=heads)
    yield Matrix(f"{name}.cross_kv", ((f"{attention}.key_value", 2 * d_model),), d_model, output_heads=2 * heads)
    yield Matrix(f"{name}.cross_out", ((f"{attention}.output", d_model),), d_model, input_heads=heads)


def _feed_forward(config: ModelConfig, name: str, layer: str) -> Iterator[Matrix]:
    gated = config.activation in ("swiglu", "geglu")
    inner = 2 * config.d_ff if gated else config.d_ff
    yield Matrix(f"{name}.inner", ((f"{layer}.feed_forward.inner", inner),), config.d_model)
    yield Matrix(f"{name}.outer", ((f"{layer}.feed_forward.outer", config.d_model),), config.d_ff)
