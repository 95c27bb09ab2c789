"""Where a training's tensors lie, as far as that can be seen without a GPU."""

import pytest
import torch

from dragoman.config import Config, TrainConfig, merge
from dragoman.data.batch import Batch, collate
from dragoman.errors import ConfigError
from dragoman.train.path import FusedPath, PlainPath, choose
from dragoman.train.placement import device_of, place, whole
from dragoman.train.state import Training, begin
from dragoman.train.step import backpropagate
from dragoman.train.workers import Workers
from toys import VOCAB, toy_model

SIZES = {"d_model": 32, "num_heads": 2, "num_encoder_layers": 1, "num_decoder_layers": 1, "d_ff": 32}
ALONE = Workers()


def config(**train: object) -> Config:
    return merge([{"model": SIZES, "train": train}])


def training(of: Config) -> Training:
    return begin(of, VOCAB, VOCAB)


def test_without_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert device_of(TrainConfig(), ALONE).type == "cpu"
    with pytest.raises(ConfigError, match='train.device="cuda": PyTorch finds no GPU here'):
        place(training(config(device="cuda")), config(device="cuda"), ALONE)


def test_with_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers of one machine take them in turn; the kernels stay on the CPU."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    devices = [device_of(TrainConfig(), Workers(5 + local, 8, local)) for local in range(3)]
    assert [str(device) for device in devices] == ["cuda:0", "cuda:1", "cuda:0"]
    assert device_of(TrainConfig(device="cpu"), ALONE).type == "cpu"
    assert device_of(TrainConfig(backend="native"), ALONE).type == "cpu"
    on_gpu = config()
    assert type(choose(training(on_gpu), on_gpu, lambda _: None)) is PlainPath
    on_cpu = config(backend="native")
    assert type(choose(training(on_cpu), on_cpu, lambda _: None)) is FusedPath


def test_what_is_in_place_stays() -> None:
    here = training(config(device="cpu"))
    assert place(here, config(device="cpu"), ALONE) is here
    assert whole(here, config(device="cpu"), ALONE) is here


def test_shards_need_company() -> None:
    with pytest.raises(ConfigError, match="train.sharded needs several workers; start with torchrun"):
        place(training(config(sharded=True)), config(sharded=True), ALONE)


def test_batches_go_to_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[torch.device] = []
    stay = Batch.to
    monkeypatch.setattr(Batch, "to", lambda batch, device: (seen.append(device), stay(batch, device))[1])
    model = toy_model()
    backpropagate(model, [collate([([5], [6])])] * 2, 0.1, 0.0, "float32")
    assert seen == [torch.device("cpu")] * 2
    there = collate([([5], [6])]).to(torch.device("meta"))
    assert {tensor.device.type for tensor in vars(there).values()} == {"meta"}


def test_precision_follows_the_device() -> None:
    assert PlainPath(training(config()), config()).precision == "float32"
    wanted = config(precision="bfloat16")
    assert PlainPath(training(wanted), wanted).precision == "bfloat16"
