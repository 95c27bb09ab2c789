"""The same weights in ``torch.nn.Transformer`` give the same outputs and the same gradients.

PyTorch's masks say what may *not* be looked at, ours what may; its own are given here as booleans and as floats
{0, -inf}. Its post-norm stacks end with one more norm than the paper's: they are built without.
"""

from collections.abc import Mapping
from itertools import product

import pytest
import torch
from torch import Tensor, nn

from dragoman.model import masks
from dragoman.model.families import EncoderDecoder
from toys import toy_model

D_MODEL, HEADS, D_FF, ENCODER, DECODER = 12, 3, 20, 2, 3
SRC_LENGTHS, TGT_LENGTHS = [5, 2, 4], [3, 6, 1]
SRC_LOOKS, TGT_LOOKS = masks.padding(torch.tensor(SRC_LENGTHS), 5), masks.padding(torch.tensor(TGT_LENGTHS), 6)
CASES = list(product([False, True], ["relu", "gelu"]))

RENAMED = {
    "encoder": {"feed_forward_residual.norm": "norm2"},
    "decoder": {"feed_forward_residual.norm": "norm3"},
    "both": {
        "self_attention_residual.norm": "norm1",
        "cross_attention_residual.norm": "norm2",
        "self_attention": "self_attn",
        "cross_attention": "multihead_attn",
        "feed_forward.inner": "linear1",
        "feed_forward.outer": "linear2",
        "output": "out_proj",
    },
}


def ours(norm_first: bool, activation: str) -> EncoderDecoder:
    sizes = {"d_model": D_MODEL, "num_heads": HEADS, "d_ff": D_FF}
    depths = {"num_encoder_layers": ENCODER, "num_decoder_layers": DECODER}
    return toy_model(norm_first=norm_first, activation=activation, **sizes, **depths)


def theirs(model: EncoderDecoder, norm_first: bool, activation: str) -> nn.Transformer:
    """A ``torch.nn.Transformer`` with the weights of ``model``."""
    kind = {"batch_first": True, "norm_first": norm_first, "activation": activation, "dtype": torch.float64}
    last = [nn.LayerNorm(D_MODEL, dtype=torch.float64) if norm_first else None for _ in range(2)]
    encoder_layer = nn.TransformerEncoderLayer(D_MODEL, HEADS, D_FF, 0.0, **kind)
    decoder_layer = nn.TransformerDecoderLayer(D_MODEL, HEADS, D_FF, 0.0, **kind)
    encoder = nn.TransformerEncoder(encoder_layer, ENCODER, last[0], enable_nested_tensor=False)
    decoder = nn.TransformerDecoder(decoder_layer, DECODER, last[1])
    transformer = nn.Transformer(D_MODEL, HEADS, custom_encoder=encoder, custom_decoder=decoder, batch_first=True)
    transformer.load_state_dict(as_theirs({name: weight.detach() for name, weight in model.named_parameters()}))
    return transformer


def as_theirs(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors of the two stacks under PyTorch's names; its three projections of attention are one matrix."""
    renamed = {}
    for name, tensor in tensors.items():
        stack = name.split(".")[0]
        if stack not in ("encoder", "decoder") or ".key_value." in name:
            continue
        if ".query." in name:
            tensor = torch.cat([tensor, tensors[name.replace(".query.", ".key_value.")]])
        their = name.replace(".query.", ".in_proj_")
        for old, new in {**RENAMED[stack], **RENAMED["both"]}.items():
            their = their.replace(f".{old}.", f".{new}.")
        renamed[their] = tensor
    return renamed


def hidden_states() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(3)
    shapes = ((3, max(SRC_LENGTHS), D_MODEL), (3, max(TGT_LENGTHS), D_MODEL))
    src, tgt = (torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes)
    return src, tgt


def run_ours(model: EncoderDecoder) -> tuple[Tensor, Tensor]:
    """Both stacks' outputs at real positions."""
    src, tgt = hidden_states()
    memory = model.encoder(src, SRC_LOOKS)
    return memory[SRC_LOOKS], model.decoder(tgt, memory, SRC_LOOKS)[TGT_LOOKS]


def run_theirs(transformer: nn.Transformer, as_float: bool) -> tuple[Tensor, Tensor]:
    def hidden(looks: Tensor) -> Tensor:
        return torch.zeros(looks.shape, dtype=torch.float64).masked_fill(~looks, -torch.inf) if as_float else ~looks

    src, tgt = hidden_states()
    memory = transformer.encoder(src, src_key_padding_mask=hidden(SRC_LOOKS))
    mixed = transformer.decoder(
        tgt,
        memory,
        tgt_mask=hidden(masks.causal(6, 6)),
        tgt_key_padding_mask=hidden(TGT_LOOKS),
        memory_key_padding_mask=hidden(SRC_LOOKS),
    )
    return memory[SRC_LOOKS], mixed[TGT_LOOKS]


def gradients(module: nn.Module) -> dict[str, Tensor]:
    return {name: parameter.grad for name, parameter in module.named_parameters() if parameter.grad is not None}


@pytest.mark.parametrize("as_float", [False, True])
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize(("norm_first", "activation"), CASES)
def test_outputs_and_gradients(norm_first: bool, activation: str, training: bool, as_float: bool) -> None:
    model = ours(norm_first, activation).train(training)
    transformer = theirs(model, norm_first, activation).train(training)
    mine, reference = run_ours(model), run_theirs(transformer, as_float)
    for states, expected in zip(mine, reference, strict=True):
        assert (states - expected).abs().max() < 1e-10
    weights = torch.randn(mine[1].shape, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    (mine[1] * weights).sum().backward()
    (reference[1] * weights).sum().backward()
    found, wanted = as_theirs(gradients(model)), gradients(transformer)
    assert found.keys() == wanted.keys() == dict(transformer.named_parameters()).keys()
    for name, gradient in wanted.items():
        assert (found[name] - gradient).abs().max() < 1e-10 * max(1.0, float(gradient.abs().max())), name


@pytest.mark.parametrize(("norm_first", "activation"), CASES)
def test_every_mode_gives_the_same(norm_first: bool, activation: str) -> None:
    """No mode may change a value or a shape, and PyTorch's own fast path for inference agrees."""
    model = ours(norm_first, activation)
    expected = [states.detach() for states in run_ours(model.train())]
    transformer = theirs(model, norm_first, activation).eval()
    with torch.no_grad():
        runs = [run_ours(model.eval()), run_theirs(transformer, as_float=False)]
    with torch.inference_mode():
        runs.append(run_ours(model))
    for run in runs:
        for states, reference in zip(run, expected, strict=True):
            assert states.shape == reference.shape
            assert (states - reference).abs().max() < 1e-10
