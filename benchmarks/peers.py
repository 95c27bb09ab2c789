"""dragoman as a contender of side-by-side harnesses that load a class from a file.

``TrainStep(cfg)`` offers ``step(src, tgt) -> loss``; cfg has d, ffn, heads, enc, dec, vocab; ids are lists, tgt begins
with BOS and ends with EOS. ``Decoder(path)`` offers ``translate(ids, length, beam) -> ids``: exactly ``length`` tokens,
with random weights of the size that the harness's ``path`` names.
"""

import json
from pathlib import Path

import torch

from dragoman.config import ModelConfig, SearchConfig, TrainConfig
from dragoman.data.batch import collate
from dragoman.engine.torch_backend import TorchBackend
from dragoman.engine.translator import SLOTS
from dragoman.model.build import build, initialize
from dragoman.search.beam import beam_search
from dragoman.search.request import SourceRequest
from dragoman.text.tokenizer import EOS
from dragoman.train.memory import keep_freed_memory
from dragoman.train.optimizer import build_optimizer, update_average
from dragoman.train.step import backpropagate


class TrainStep:
    """One update as `dragoman train` makes it: forward, backward, clipping, Adam, running average."""

    def __init__(self, cfg: dict[str, int]) -> None:
        keep_freed_memory()
        sizes = ModelConfig(
            d_model=cfg["d"],
            num_heads=cfg["heads"],
            num_encoder_layers=cfg["enc"],
            num_decoder_layers=cfg["dec"],
            d_ff=cfg["ffn"],
        )
        self.config = TrainConfig()
        self.model, self.average = (build(sizes, cfg["vocab"], cfg["vocab"]) for _ in range(2))
        for model in (self.model, self.average):
            initialize(model, 1)
        self.model.train()
        self.optimizer = build_optimizer(self.model, self.config)
        self.count = 0

    def step(self, src: list[list[int]], tgt: list[list[int]]) -> float:
        """Train on one batch."""
        batch = collate([(source[:-1], target[1:-1]) for source, target in zip(src, tgt, strict=True)])
        gradient = backpropagate(self.model, [batch], self.config.label_smoothing, self.config.clip_norm, "float32")
        self.optimizer.step()
        self.count += 1
        update_average(self.average, self.model, self.config.ema_decay, self.count)
        return gradient.loss


class Decoder:
    """Beam search as `dragoman translate` does it, without text."""

    def __init__(self, path: str) -> None:
        stored = json.loads((Path(path) / "hf" / "config.json").read_text(encoding="utf-8"))
        sizes = ModelConfig(
            d_model=stored["d_model"],
            num_heads=stored["encoder_attention_heads"],
            num_encoder_layers=stored["encoder_layers"],
            num_decoder_layers=stored["decoder_layers"],
            d_ff=stored["encoder_ffn_dim"],
        )
        model = build(sizes, 8000, 8000)
        initialize(model, 1)
        self.backend = TorchBackend(model.eval(), 8000)
        self.backend.never[EOS] = -torch.inf

    def translate(self, ids: list[list[int]], length: int, beam: int) -> list[list[int]]:
        """Exactly ``length`` tokens for each source."""
        settings = SearchConfig(beam_size=beam)
        requests = [SourceRequest(source, max_length=length) for source in ids]
        found = dict(beam_search(self.backend, requests, settings, SLOTS))
        return [list(found[place][0].ids) for place in range(len(ids))]
