"""The model against an encoder-decoder in numpy that was written from the paper."""

from typing import Any

import numpy as np
import pytest
import torch

from dragoman.model import attention
from dragoman.model.build import named_weights
from oracles import attention as pencil
from oracles.transformer import Oracle
from toys import ALL_VARIANTS, name_of, toy_model

SRC, TGT = [5, 3, 3, 12, 2], [1, 7, 0, 7]


def oracle_of(model: torch.nn.Module, variant: dict[str, Any], num_heads: int = 2) -> Oracle:
    weights = {name: tensor.numpy() for name, tensor in named_weights(model).items()}  # type: ignore[arg-type]
    choices = {key: variant[key] for key in ("norm_first", "activation", "positions")}
    return Oracle(weights, num_heads, **choices)


@pytest.mark.parametrize("variant", ALL_VARIANTS, ids=name_of)
def test_logits(variant: dict[str, Any]) -> None:
    """Note that PAD (0) and EOS (2) are ordinary ids to a model; only masks say what is padding."""
    model = toy_model(**variant)
    logits = model(torch.tensor([SRC]), None, torch.tensor([TGT]))[0].detach().numpy()
    assert np.abs(logits - oracle_of(model, variant).logits(SRC, TGT)).max() < 1e-9


@pytest.mark.parametrize(
    "sizes",
    [
        {"num_heads": 1, "d_model": 5},
        {"num_heads": 8, "d_model": 8},
        {"num_encoder_layers": 1, "num_decoder_layers": 4},
        {"d_model": 1, "num_heads": 1, "d_ff": 1},
    ],
    ids=str,
)
def test_other_sizes(sizes: dict[str, int]) -> None:
    variant = {"norm_first": True, "activation": "relu", "positions": "sinusoidal"}
    model = toy_model(**variant, **sizes)
    logits = model(torch.tensor([SRC]), None, torch.tensor([TGT]))[0].detach().numpy()
    oracle = oracle_of(model, variant, sizes.get("num_heads", 2))
    assert np.abs(logits - oracle.logits(SRC, TGT)).max() < 1e-9


def test_memory() -> None:
    model = toy_model()
    variant = {"norm_first": False, "activation": "relu", "positions": "sinusoidal"}
    memory = model.encode(torch.tensor([SRC]), None)[0].detach().numpy()
    assert np.abs(memory - oracle_of(model, variant).encode(SRC)).max() < 1e-9


@pytest.mark.parametrize("seed", range(5))
def test_attention(seed: int) -> None:
    """Under random masks in which query 2 may look at nothing; each head has a mask of its own."""
    rng = np.random.default_rng(seed)
    queries, keys = rng.standard_normal((2, 3, 4, 5)), rng.standard_normal((2, 3, 6, 5))
    values, looks = rng.standard_normal((2, 3, 6, 5)), rng.random((2, 3, 4, 6)) < 0.5
    looks[:, :, 2] = False
    tensors = [torch.from_numpy(array) for array in (queries, keys, values, looks)]
    for way in (attention.attend, attention.attend_fused):
        mixed = way(*tensors).numpy()
        shares = attention.attention_weights(tensors[0], tensors[1], tensors[3]).numpy()
        for at in np.ndindex(2, 3):
            expected = pencil.attend(queries[at], keys[at], values[at], looks[at])
            assert np.abs(mixed[at] - expected).max() < 1e-12
            assert np.abs(shares[at] - pencil.weights(queries[at], keys[at], looks[at])).max() < 1e-12
