"""How long a training would take on this machine, measured and not guessed."""

import random
import time
from statistics import median

import torch

from dragoman.config import Config
from dragoman.data.batch import Batch, collate
from dragoman.train.memory import keep_freed_memory
from dragoman.train.path import choose
from dragoman.train.placement import begin_alone
from dragoman.train.presets import CorpusSize

SAMPLE_TOKENS = 1024
"""Pieces, of the longer side, of the measured batch, or the configured ones if they are fewer."""

TIMES = 8
"""The median counts, but for the first, in which memory and threads are set up."""


def training_minutes(config: Config, size: CorpusSize) -> float:
    """Minutes that ``config.train.steps`` updates would take, from real ones on made-up sentences of this length.

    Validation is not counted; a busy machine takes longer. Costs two to ten seconds.
    """
    keep_freed_memory()
    if config.train.threads:
        torch.set_num_threads(config.train.threads)
    vocab = -(-config.text.vocab_size // 8) * 8
    path = choose(begin_alone(config, vocab, vocab), config, lambda _: None)
    tokens = min(SAMPLE_TOKENS, config.data.batch_tokens)
    batch = _made_up(size, tokens, vocab, config.data.max_length)
    gradients, updates = [], []
    for _ in range(TIMES):
        started = time.monotonic()
        gradient = path.gradient([batch], 1)
        between = time.monotonic()
        path.update(gradient, config.train.learning_rate, 1)
        gradients.append(between - started)
        updates.append(time.monotonic() - between)
    passes = config.train.accumulate * config.data.batch_tokens / tokens
    return config.train.steps * (passes * median(gradients[1:]) + median(updates[1:])) / 60


def _made_up(size: CorpusSize, tokens: int, vocab: int, longest: int) -> Batch:
    draws = random.Random(1)
    src, tgt = (min(max(round(pieces), 1), longest) for pieces in (size.src, size.tgt))

    def sentence(length: int) -> list[int]:
        return [draws.randrange(3, vocab) for _ in range(length)]

    return collate([(sentence(src), sentence(tgt)) for _ in range(max(tokens // (max(src, tgt) + 1), 1))])
