"""Where weights lie: on the CPU or a GPU, whole or in shards, one a worker; and how they become whole again."""

from collections.abc import Mapping

import torch
from msgspec.structs import replace
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from dragoman.config import Config, TrainConfig
from dragoman.errors import ConfigError
from dragoman.model.build import build, named_weights
from dragoman.model.families import EncoderDecoder
from dragoman.train.optimizer import build_optimizer, optimizer_tensors, restore_optimizer
from dragoman.train.state import Training, begin
from dragoman.train.workers import Workers


def device_of(train: TrainConfig, workers: Workers) -> torch.device:
    """Where this worker computes; those on one machine take its GPUs in turn.

    Raises:
        ConfigError: a GPU is wanted and there is none.
    """
    has_gpu = torch.cuda.is_available()
    if train.device == "cuda" and not has_gpu:
        raise ConfigError('train.device="cuda": PyTorch finds no GPU here; set train.device="cpu" or "auto"')
    if train.device == "cpu" or train.backend == "native" or not has_gpu:
        return torch.device("cpu")
    return torch.device("cuda", workers.local_rank % torch.cuda.device_count())


def require(train: TrainConfig, workers: Workers) -> None:
    """See at once, before a corpus is read, that ``train.device`` and ``train.sharded`` are to be had here.

    Raises:
        ConfigError: they are not.
    """
    device_of(train, workers)
    if train.sharded and workers.count == 1:
        raise ConfigError("train.sharded needs several workers; start with torchrun, or set train.sharded=false")


def place(training: Training, config: Config, workers: Workers) -> Training:
    """Bring a training to where ``train.device`` and ``train.sharded`` want it; what is already there stays.

    Args:
        training: whole; the same in every worker.

    Raises:
        ConfigError: the wish cannot be fulfilled here.
    """
    require(config.train, workers)
    device, is_sharded = device_of(config.train, workers), config.train.sharded
    if device.type == "cpu" and not is_sharded:
        return training
    moments = optimizer_tensors(training.model, training.optimizer)
    for model in (training.model, training.average):
        model.to(device)
        if is_sharded:
            _shard(model, device, workers)
    optimizer = build_optimizer(training.model, config.train)
    weights = dict(training.model.named_parameters())
    restore_optimizer(training.model, optimizer, {name: _like(moments[name], name, weights) for name in moments})
    return Training(training.model, training.average, optimizer, training.counters)


def begin_alone(config: Config, src_vocab: int, tgt_vocab: int) -> Training:
    """A training before its first update, where this process alone would make it; in order to be measured.

    Raises:
        ConfigError: see :func:`device_of`.
    """
    alone = replace(config, train=replace(config.train, sharded=False))
    return place(begin(alone, src_vocab, tgt_vocab), alone, Workers())


def whole(training: Training, config: Config, workers: Workers) -> Training:
    """The same training on the CPU and in one piece, to be looked at and saved.

    All workers must ask for it. Only the first one gets it; the others get ``training`` back.

    Cost: with shards or on a GPU, the first worker holds all of it in the CPU's memory for as long as it is needed.
    """
    if device_of(config.train, workers).type == "cpu" and not config.train.sharded:
        return training
    moments = optimizer_tensors(training.model, training.optimizer)
    model, average, moments = (
        _gather(tensors, workers.is_first)
        for tensors in (named_weights(training.model), named_weights(training.average), moments)
    )
    if not workers.is_first:
        return training
    models = [_rebuilt(training.model, weights, config) for weights in (model, average)]
    optimizer = build_optimizer(models[0], config.train)
    restore_optimizer(models[0], optimizer, moments)
    return Training(models[0].train(), models[1].eval(), optimizer, training.counters)


def _shard(model: EncoderDecoder, device: torch.device, workers: Workers) -> None:
    """Fully sharded data parallel (Zhao et al. 2023): a worker keeps one part of every matrix and its moments.

    A layer's weights are gathered when it is their turn and forgotten afterwards. Gradients are added up, not averaged:
    what each worker computes is divided by the tokens of all already.
    """
    mesh = init_device_mesh(device.type, (workers.count,))
    for layer in (*model.encoder.layers, *model.decoder.layers):
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.set_gradient_divide_factor(1.0)
            module.set_force_sum_reduction_for_comms(True)  # gloo knows no other


def _like(moment: Tensor, name: str, weights: Mapping[str, Tensor]) -> Tensor:
    """A moment, or the part of it that belongs to this worker, where its weight lies."""
    weight = weights[name.rpartition(".")[0]]
    moment = moment.to(weight.device)
    if moment.dim() and isinstance(weight, DTensor):
        return distribute_tensor(moment, weight.device_mesh, weight.placements)
    return moment


def _gather(tensors: Mapping[str, Tensor], keep: bool) -> dict[str, Tensor]:
    gathered = {}
    for name, tensor in tensors.items():
        one = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
        if keep:
            gathered[name] = one.detach().cpu()
    return gathered


def _rebuilt(like: EncoderDecoder, weights: Mapping[str, Tensor], config: Config) -> EncoderDecoder:
    src_vocab, tgt_vocab = (each.token.weight.shape[0] for each in (like.src_embedding, like.tgt_embedding))
    model = build(config.model, src_vocab, tgt_vocab).to(next(iter(weights.values())).dtype)
    for name, tensor in named_weights(model).items():
        tensor.copy_(weights[name])
    return model
