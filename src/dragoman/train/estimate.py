"""How long a training would take on this machine, measured and not guessed."""

import random
import time

from dragoman.config import Config
from dragoman.data.batch import collate
from dragoman.train.memory import keep_freed_memory
from dragoman.train.path import choose
from dragoman.train.state import begin

LENGTH = 18
"""Pieces a side of the made-up sentences."""

SAMPLE_TOKENS = 1024
"""Target pieces of the measured batch, or the configured ones if they are fewer."""


def training_minutes(config: Config) -> float:
    """Minutes that ``config.train.steps`` updates would take: the best of three real updates on made-up sentences.

    Validation is not counted; a busy machine takes longer. Costs two to ten seconds.
    """
    keep_freed_memory()
    vocab = -(-config.text.vocab_size // 8) * 8
    path = choose(begin(config, vocab, vocab), config, lambda _: None)
    tokens = min(SAMPLE_TOKENS, config.data.batch_tokens)
    batch = collate(_made_up(max(tokens // (LENGTH + 1), 1), vocab))
    seconds = []
    for _ in range(3):
        started = time.monotonic()
        path.update(path.gradient([batch], 1), config.train.learning_rate, 1)
        seconds.append(time.monotonic() - started)
    updates = config.train.steps * config.train.accumulate
    return min(seconds) * updates * config.data.batch_tokens / tokens / 60


def _made_up(count: int, vocab: int) -> list[tuple[list[int], list[int]]]:
    draws = random.Random(1)
    sentences = [[draws.randrange(3, vocab) for _ in range(LENGTH)] for _ in range(2 * count)]
    return list(zip(sentences[::2], sentences[1::2], strict=True))
