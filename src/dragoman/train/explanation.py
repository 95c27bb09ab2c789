"""What a training would be, by arithmetic: sizes, tokens, memory, and what several workers send each other."""

import torch
from torch import nn

from dragoman.config import Config
from dragoman.model.build import build
from dragoman.train.orthogonal import block_shapes

MB = 1e6

A_NUMBER = 4
"""Bytes."""

KEPT = 5
"""Numbers a parameter: weight, running average, gradient, Adam's two moments; Muon has but one."""


def explain(config: Config, workers: int, length: str = "") -> list[str]:
    """Lines for people; nothing is built and nothing measured.

    Args:
        workers: processes that train together.
        length: how long the training is, in words, where that is not ``train.steps``.
    """
    train, model = config.train, config.model
    parameters = count_parameters(config)
    tokens = config.data.batch_tokens * train.accumulate * workers
    layers = f"{model.num_encoder_layers} + {model.num_decoder_layers} layers of width {model.d_model}"
    lines = [
        f"model: {parameters:,} parameters ({parameters * 4 / MB:,.1f} MB), {layers}, {vocabulary(config):,} pieces",
        f"training: {length or f'{train.steps:,} updates'} of at most {tokens:,} tokens of the longer sides"
        f" ({workers} x {train.accumulate} batches of {config.data.batch_tokens:,})",
        f"memory: {state_bytes(config, workers) / MB:,.0f} MB for weights, average, gradient and moments,"
        f" in each process, and what a batch needs{_of_kernels(config)}",
    ]
    if workers > 1:
        sent = f"{sent_bytes(config, workers) / MB:,.1f} MB sent by each an update"
        together = "" if config.train.sharded else "; nothing if the kernels train on one machine"
        lines.append(f"workers: {workers}; {sent}{_at(config, workers)}{together}")
    return lines


def vocabulary(config: Config) -> int:
    """Pieces of a vocabulary; learned ones are rounded up like that."""
    return -(-config.text.vocab_size // 8) * 8


def count_parameters(config: Config) -> int:
    """Numbers to be learned, exactly."""
    return sum(parameter.numel() for parameter in _model(config).parameters())


def count_orthogonal(config: Config) -> int:
    """Those of them that Muon moves."""
    if config.train.optimizer == "adam":
        return 0
    return sum(parameter.numel() for parameter in block_shapes(_model(config)))


def state_bytes(config: Config, workers: int) -> float:
    """What a training holds all the time in each process; see also :func:`packed_bytes`."""
    parts = workers if config.train.sharded else 1
    return A_NUMBER * (KEPT * count_parameters(config) - count_orthogonal(config)) / parts


def packed_bytes(config: Config) -> int:
    """What the kernels hold beside it: every matrix laid out for the way there, and for the way back, in float32."""
    model = _model(config)
    matrices = sum(parameter.numel() for parameter in block_shapes(model))
    return 2 * A_NUMBER * (matrices + config.model.d_model * vocabulary(config))


def sent_bytes(config: Config, workers: int) -> float:
    """What each worker sends an update.

    Adding up in a ring takes 2 (N - 1) / N times the gradient. With shards every batch gathers the weights twice, once
    forth and once back, and scatters the gradient, (N - 1) / N of the weights each; Muon gathers its momentum.
    """
    if config.train.sharded:
        numbers = 3 * config.train.accumulate * count_parameters(config) + count_orthogonal(config)
    else:
        numbers = 2 * count_parameters(config)
    return A_NUMBER * numbers * (workers - 1) / workers


def _model(config: Config) -> nn.Module:
    """No memory is taken for it."""
    with torch.device("meta"):
        return build(config.model, vocabulary(config), vocabulary(config))


def _of_kernels(config: Config) -> str:
    if config.train.backend == "torch" or config.train.sharded or config.train.compile:
        return ""
    packed, gradient = packed_bytes(config) / MB, A_NUMBER * count_parameters(config) / MB
    return (
        f"; the kernels {packed:,.0f} MB more (half where factors are bfloat16), and {gradient:,.0f} MB for each thread"
        " but the first"
    )


def _at(config: Config, workers: int) -> str:
    seconds = sent_bytes(config, workers) / 125e6
    return f", {seconds:,.2f} s at 1 Gbit/s, {seconds / 25:,.3f} s at 25 Gbit/s"
