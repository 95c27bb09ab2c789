"""A contender of bench_train.py in a process of its own: pairs of ids in, seconds out; a JSON line each.

    python benchmarks/train_contenders.py NAME --sizes '{"d_model": 256, ...}' --threads 2

NAME is `dragoman` (what is installed, its fastest path on this processor), `dragoman-torch` (its PyTorch path), `nn`
(torch.nn.Transformer), `hf` (MarianMT of transformers) or `joey` (JoeyNMT), with `:float32` or `:bfloat16` behind it to
forbid the other precision; or `gemm`, which measures what the processor's matrix product gives.

What all have in common: post-norm, relu, one matrix for both embeddings and the output, dropout 0.1, label smoothing
0.1, Adam with betas 0.9 and 0.98. Every contender gets the same pairs without special tokens and pads as it likes.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol, TextIO

Pairs = Sequence[tuple[Sequence[int], Sequence[int]]]
Sizes = dict[str, int]
"""d_model, d_ff, num_heads, num_layers (of either stack), vocab_size."""

DROPOUT, SMOOTHING, RATE, BETAS, CLIP = 0.1, 0.1, 1e-4, (0.9, 0.98), 1.0
BOTH = ("float32", "bfloat16")
TRIALS = (16, 4)
"""Shares of a batch on which the precisions compete: a small one for the hopeless, a larger one for the others."""

HOPELESS = 1.5
"""Times the better one: a precision slower than that is not tried on the larger share."""


class Contender(Protocol):
    """Trains a model of its own."""

    precisions: tuple[str, ...]
    "What it can compute with; the faster one is kept."
    version: str

    def step(self, pairs: Pairs, precision: str) -> float:
        """Forward, backward and update on one batch.

        Returns:
            The loss, in nats a target token.
        """
        ...

    def settle(self, precision: str) -> None:
        """There will be steps in this precision only."""
        ...


class Dragoman:
    """Updates as `dragoman train` makes them: gradient, clipping, Adam, running average.

    Args:
        backend: ``train.backend``; ``auto`` takes the kernels where they are built. The version says who computes.
    """

    precisions: tuple[str, ...] = BOTH

    def __init__(self, sizes: Sizes, threads: int, backend: str) -> None:
        import torch

        import dragoman
        from dragoman.config import merge
        from dragoman.engine.library import open_library
        from dragoman.train.memory import keep_freed_memory
        from dragoman.train.path import FusedPath

        torch.set_num_threads(threads)
        keep_freed_memory()
        stacks = {"num_encoder_layers": sizes["num_layers"], "num_decoder_layers": sizes["num_layers"]}
        widths = {name: sizes[name] for name in ("d_model", "d_ff", "num_heads")}
        train = {"learning_rate": RATE, "label_smoothing": SMOOTHING, "adam_betas": BETAS, "clip_norm": CLIP}
        self.vocab_size = sizes["vocab_size"]
        self.configs = {
            precision: merge(
                [
                    {"model": {**stacks, **widths, "dropout": DROPOUT}},
                    {"train": {**train, "threads": threads, "backend": backend, "precision": precision}},
                ]
            )
            for precision in BOTH
        }
        self.paths: dict[str, Any] = {}
        self.count = 0
        self.version = f"dragoman {dragoman.__version__} by {type(self.path('float32')).__name__}"
        if isinstance(self.path("float32"), FusedPath):  # what train.precision=auto takes
            self.precisions = ("bfloat16" if open_library().dragoman_has_bfloat16() else "float32",)

    def path(self, precision: str) -> Any:
        """Who computes in ``precision``, with a model of its own."""
        from dragoman.train.path import choose
        from dragoman.train.state import begin

        if precision not in self.paths:
            config = self.configs[precision]
            training = begin(config, self.vocab_size, self.vocab_size)
            self.paths[precision] = choose(training, config, lambda line: sys.stderr.write(f"{line}\n"))
        return self.paths[precision]

    def settle(self, precision: str) -> None:
        """See :class:`Contender`."""
        self.paths = {precision: self.path(precision)}

    def step(self, pairs: Pairs, precision: str) -> float:
        """See :class:`Contender`."""
        from dragoman.data.batch import collate

        self.count += 1
        path = self.path(precision)
        gradient = path.gradient([collate(pairs)], self.count)
        path.update(gradient, RATE, self.count)
        loss: float = gradient.loss
        return loss


class Peer:
    """What the peers share: rectangles of ids, autocast, the loss of logits."""

    precisions = BOTH
    pad, bos, eos = 0, 1, 2

    def __init__(self, threads: int) -> None:
        import torch

        torch.set_num_threads(threads)
        torch.manual_seed(0)
        self.torch = torch

    def settle(self, precision: str) -> None:
        """See :class:`Contender`; the weights are float32 in either."""

    def batch(self, pairs: Pairs) -> tuple[Any, Any, Any]:
        """Source ids with EOS; target ids behind BOS; target ids with EOS."""
        source = self.rectangle([[*src, self.eos] for src, _ in pairs])
        target = self.rectangle([[self.bos, *tgt, self.eos] for _, tgt in pairs])
        return source, target[:, :-1].contiguous(), target[:, 1:].contiguous()

    def rectangle(self, rows: Sequence[Sequence[int]]) -> Any:
        """Rows of ids, padded to the longest."""
        longest = max(map(len, rows))
        return self.torch.tensor([[*row, *[self.pad] * (longest - len(row))] for row in rows])

    def autocast(self, precision: str) -> Any:
        """Where the matrix products are computed in ``precision``."""
        return self.torch.autocast("cpu", self.torch.bfloat16, enabled=precision == "bfloat16")

    def loss(self, logits: Any, expected: Any) -> Any:
        """Smoothed cross-entropy, a mean over the real target tokens."""
        return self.torch.nn.functional.cross_entropy(
            logits.float().flatten(0, 1), expected.flatten(), ignore_index=self.pad, label_smoothing=SMOOTHING
        )


class TorchTransformer(Peer):
    """torch.nn.Transformer with what it lacks: tied embeddings, sinusoids, loss, fused Adam."""

    def __init__(self, sizes: Sizes, threads: int) -> None:
        super().__init__(threads)
        torch, width = self.torch, sizes["d_model"]
        self.version = f"torch {torch.__version__}"
        self.embedding = torch.nn.Embedding(sizes["vocab_size"], width, padding_idx=self.pad)
        torch.nn.init.normal_(self.embedding.weight, 0, width**-0.5)
        layers = (sizes["num_layers"], sizes["num_layers"])
        self.stacks = torch.nn.Transformer(
            width, sizes["num_heads"], *layers, sizes["d_ff"], DROPOUT, batch_first=True
        ).train()
        angles = torch.arange(512)[:, None] / 10000 ** (2 * torch.arange(width // 2) / width)
        self.positions = torch.cat([angles.sin(), angles.cos()], 1)
        self.scale = width**0.5
        self.dropout = torch.nn.Dropout(DROPOUT)
        learned = [*self.embedding.parameters(), *self.stacks.parameters()]
        self.optimizer = torch.optim.Adam(learned, RATE, BETAS, 1e-9, fused=True)

    def step(self, pairs: Pairs, precision: str) -> float:
        """See :class:`Contender`."""
        torch = self.torch
        source, read, said = self.batch(pairs)
        future = torch.ones(read.shape[1], read.shape[1], dtype=torch.bool).triu(1)
        with self.autocast(precision):
            hidden = self.stacks(
                self.embed(source),
                self.embed(read),
                tgt_mask=future,
                src_key_padding_mask=source == self.pad,
                tgt_key_padding_mask=read == self.pad,
                memory_key_padding_mask=source == self.pad,
            )
            logits = torch.nn.functional.linear(hidden, self.embedding.weight)
        loss = self.loss(logits, said)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return float(loss.detach())

    def embed(self, ids: Any) -> Any:
        """Scaled embeddings plus sinusoids."""
        return self.dropout(self.embedding(ids) * self.scale + self.positions[: ids.shape[1]])


class Marian(Peer):
    """MarianMTModel in the loop of a Trainer: fused AdamW, clipping, label smoothing."""

    def __init__(self, sizes: Sizes, threads: int) -> None:
        super().__init__(threads)
        import marian
        import transformers

        self.version = f"transformers {transformers.__version__}, torch {self.torch.__version__}"
        layers = sizes["num_layers"], sizes["num_layers"]
        self.model = marian.build(
            sizes["vocab_size"], sizes["d_model"], sizes["d_ff"], layers, sizes["num_heads"], dropout=DROPOUT
        ).train()
        self.optimizer = self.torch.optim.AdamW(self.model.parameters(), RATE, BETAS, 1e-9, fused=True)

    def step(self, pairs: Pairs, precision: str) -> float:
        """See :class:`Contender`."""
        source, read, said = self.batch(pairs)
        with self.autocast(precision):
            logits = self.model(
                input_ids=source,
                attention_mask=(source != self.pad).long(),
                decoder_input_ids=read,
                decoder_attention_mask=(read != self.pad).long(),
            ).logits
        loss = self.loss(logits, said)
        self.optimizer.zero_grad()
        loss.backward()
        self.torch.nn.utils.clip_grad_norm_(self.model.parameters(), CLIP)
        self.optimizer.step()
        return float(loss.detach())


class Joey(Peer):
    """JoeyNMT's model with its own loss, which is a divergence: the entropy of the smoothed targets is taken off."""

    pad, bos, eos = 1, 2, 3  # the places its vocabulary gives them; 0 is the unknown word

    def __init__(self, sizes: Sizes, threads: int) -> None:
        super().__init__(threads)
        import joeynmt
        from joeynmt.model import build_model
        from joeynmt.vocabulary import Vocabulary

        self.version = f"joeynmt {joeynmt.__version__}, torch {self.torch.__version__}"
        tokens = {"unk_token": "<unk>", "pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>"}
        places = {"unk_id": 0, "pad_id": self.pad, "bos_id": self.bos, "eos_id": self.eos}
        special = SimpleNamespace(**tokens, **places, sep_token=None, sep_id=None, lang_tags=[])
        words = Vocabulary([f"t{place}" for place in range(4, sizes["vocab_size"])], special)
        stack = {
            "type": "transformer",
            "num_layers": sizes["num_layers"],
            "num_heads": sizes["num_heads"],
            "embeddings": {"embedding_dim": sizes["d_model"], "scale": True, "dropout": DROPOUT},
            "hidden_size": sizes["d_model"],
            "ff_size": sizes["d_ff"],
            "dropout": DROPOUT,
            "layer_norm": "post",
            "freeze": False,
        }
        drawn = {"initializer": "xavier_uniform", "embed_initializer": "xavier_uniform"}
        tied = {"tied_embeddings": True, "tied_softmax": True}
        # Each stack takes its settings out of the dictionary it is given.
        stacks = json.loads(json.dumps({"encoder": stack, "decoder": stack}))
        self.model = build_model({**drawn, **tied, **stacks}, words, words)
        self.model.loss_function = ("crossentropy", SMOOTHING)
        self.model.train()
        self.optimizer = self.torch.optim.Adam(self.model.parameters(), RATE, BETAS)

    def step(self, pairs: Pairs, precision: str) -> float:
        """See :class:`Contender`."""
        source, read, said = self.batch(pairs)
        with self.autocast(precision):
            total, _, _, _ = self.model(
                return_type="loss",
                src=source,
                trg_input=read,
                trg=said,
                src_mask=(source != self.pad).unsqueeze(1),
                src_length=(source != self.pad).sum(1),
                trg_mask=(said != self.pad).unsqueeze(1),
                trg_prompt_mask=None,
            )
        loss = total / sum(len(target) + 1 for _, target in pairs)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return float(loss.detach())


CONTENDERS: dict[str, Callable[[Sizes, int], Contender]] = {
    "dragoman": partial(Dragoman, backend="auto"),
    "dragoman-torch": partial(Dragoman, backend="torch"),
    "nn": TorchTransformer,
    "hf": Marian,
    "joey": Joey,
}


def quickest(works: Mapping[str, Callable[[], object]], limit: float) -> dict[str, float]:
    """Seconds of the best of three of each, in turn, or of fewer of what has spent ``limit`` seconds."""
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(3):
        for name, work in works.items():
            if sum(seconds[name]) < limit:
                started = time.perf_counter()
                work()
                seconds[name].append(time.perf_counter() - started)
    return {name: min(each) for name, each in seconds.items()}


def faster_precision(contender: Contender, pairs: Pairs, allowed: Sequence[str]) -> str:
    """The one allowed, or what a short trial on parts of a batch finds faster of those the contender offers."""
    left = [precision for precision in contender.precisions if precision in allowed] or list(allowed)
    for share in TRIALS:
        if len(left) > 1:
            some = pairs[:: max(min(share, len(pairs) // 2), 1)]
            seconds = quickest({each: partial(contender.step, some, each) for each in left}, limit=3.0)
            left = sorted((each for each in left if seconds[each] <= HOPELESS * min(seconds.values())), key=seconds.get)
    return left[0]


def serve(contender: Contender, allowed: Sequence[str], answers: TextIO) -> None:
    """Answer until standard input ends. The first request is the trial's batch, each other one a round."""
    precision = faster_precision(contender, json.loads(sys.stdin.readline())["batches"][0], allowed)
    contender.settle(precision)
    forget_peak()
    say(answers, {"precision": precision, "version": contender.version})
    for line in sys.stdin:
        batches = json.loads(line)["batches"]
        started = time.perf_counter()
        losses = [contender.step(pairs, precision) for pairs in batches]
        seconds = time.perf_counter() - started
        say(answers, {"seconds": seconds, "loss": losses[-1], "rss_mib": peak_memory()})


def serve_gemm(threads: int, answers: TextIO) -> None:
    """The best of float32 and bfloat16 at 1024 x 1024 x 1024, at each request; the trial is the first one."""
    import torch

    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    side = 1024
    sides = {name: torch.randn(side, side).to(getattr(torch, name)) for name in BOTH}

    def speeds(names: Sequence[str], repetitions: int = 6) -> dict[str, float]:
        works = {name: partial(torch.mm, sides[name], sides[name]) for name in names}
        found = [quickest(works, limit=0.3) for _ in range(repetitions)]
        return {name: 2e-12 * side**3 / min(one[name] for one in found) for name in names}

    sys.stdin.readline()
    first = speeds(BOTH, 2)
    precision = max(first, key=first.__getitem__)
    say(answers, {"precision": precision, "version": f"torch {torch.__version__}"})
    for _ in sys.stdin:
        say(answers, {"tflops": speeds([precision])[precision]})


def peak_memory() -> float:
    """Peak resident memory in MiB; getrusage would count what the parent had when it started this process."""
    status = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM"))


def forget_peak() -> None:
    """Let the peak of resident memory begin anew, where the system can."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def say(answers: TextIO, facts: dict[str, Any]) -> None:
    """One line."""
    answers.write(f"{json.dumps(facts)}\n")
    answers.flush()


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("--sizes", type=json.loads, required=True)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    # What libraries print goes to standard error: standard output is for answers alone.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    if options.name == "gemm":
        serve_gemm(options.threads, answers)
        return
    name, _, precision = options.name.partition(":")
    serve(CONTENDERS[name](options.sizes, options.threads), [precision] if precision else BOTH, answers)


if __name__ == "__main__":
    main()
