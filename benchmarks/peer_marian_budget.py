"""MarianMT of transformers, trained from raw files for so many minutes: the peer of bench_budget.py.

    python benchmarks/peer_marian_budget.py train.en train.de --minutes 10 --test test.en --output test.de

The clock starts with the process: importing, learning the vocabulary and encoding count, translating the test set does
not. What a careful user of transformers would do for 29,000 captions: a shared byte-level BPE of 10,000 pieces, the
"Transformer-Tiny" of Wu et al. (2021), fused AdamW, clipping, label smoothing 0.1, batches of pairs of like length,
float32. The learning rate warms up and then falls with a half cosine of what is spent, so that it ends with the
budget, or with the inverse square root of the updates. No time goes into validation; beam 5 translates with the last
weights. What so many updates learn does not depend on the machine: `--updates` has the budget in these, for a training
on a machine that is not quiet; with `--keep` the state is kept every 1,000 of them, and the same command goes on there.

Needs torch, transformers and tokenizers, and nothing of dragoman. Any file may be gzipped. Prints one JSON line.
"""

import time

BEGAN = time.monotonic()

import argparse  # noqa: E402
import gzip  # noqa: E402
import json  # noqa: E402
import math  # noqa: E402
import random  # noqa: E402
from collections.abc import Iterator, Sequence  # noqa: E402
from itertools import islice  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

import marian  # noqa: E402
import tokenizers  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from marian import BOS, EOS, PAD  # noqa: E402

WARMING = 0.1
"""Share of the budget after which the rate is at its highest, however slow the machine is."""

POOL = 50
"""Batches whose pairs are sorted by length together."""

KEPT_EVERY = 1000

FREE = ("keep", "test", "output", "threads", "beam")

Ids = list[list[int]]
Counts = tuple[int, int, float]


def read_lines(path: Path) -> list[str]:
    """The lines of a text file; only LF ends a line."""
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return data.decode("utf-8").removesuffix("\n").split("\n")


def learn(lines: Sequence[str], pieces: int) -> tokenizers.Tokenizer:
    """A byte-level BPE; a space before the text makes words equal at the start of a sentence and inside it."""
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=pieces,
        min_frequency=2,
        special_tokens=["<pad>", "<bos>", "<eos>"],
        initial_alphabet=sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(lines, trainer)
    return tokenizer


def encode(tokenizer: tokenizers.Tokenizer, lines: Sequence[str]) -> Ids:
    """Ids of each line, EOS behind them."""
    return [[*one.ids, EOS] for one in tokenizer.encode_batch(list(lines), add_special_tokens=False)]


def rectangle(rows: Sequence[Sequence[int]]) -> torch.Tensor:
    """Rows of ids, padded to the longest."""
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[PAD] * (longest - len(row))] for row in rows])


def batches(sources: Ids, targets: Ids, size: int, draws: random.Random) -> Iterator[list[int]]:
    """Places of ``size`` pairs of like length each, without end."""
    while True:
        order = draws.sample(range(len(sources)), len(sources))
        for begin in range(0, len(order), POOL * size):
            pool = sorted(order[begin : begin + POOL * size], key=lambda one: (len(targets[one]), len(sources[one])))
            cut = [pool[first : first + size] for first in range(0, len(pool), size)]
            yield from draws.sample(cut, len(cut))


def share_spent(updates: int, options: argparse.Namespace) -> float:
    """Share of the budget that is gone."""
    if options.updates:
        return updates / int(options.updates)
    return (time.monotonic() - BEGAN) / 60 / float(options.minutes)


def rate(update: int, spent: float, options: argparse.Namespace) -> float:
    """The learning rate of an update, ``spent`` being the share of the budget that is gone."""
    warm = min(max(update / options.warmup, spent / WARMING), 1.0)
    if options.schedule == "cosine":
        return options.learning_rate * warm * (1 + math.cos(math.pi * min(spent, 1.0))) / 2
    return options.learning_rate * min(warm, (options.warmup / max(update, 1)) ** 0.5)


def train(model: Any, sources: Ids, targets: Ids, options: argparse.Namespace) -> Counts:
    """Train until the budget, minutes or updates, is spent.

    Returns:
        Updates, real source and target tokens, and a running mean of the loss.
    """
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), options.learning_rate, (0.9, 0.98), 1e-9, fused=True)
    updates, tokens, mean = restore(model, optimizer, options)
    stream = batches(sources, targets, options.pairs, random.Random(options.seed))
    for places in islice(stream, updates, None):
        if options.keep and updates % KEPT_EVERY == 0:
            keep(model, optimizer, options, (updates, tokens, mean))
        spent = share_spent(updates, options)
        if spent >= 1:
            break
        updates += 1
        for group in optimizer.param_groups:
            group["lr"] = rate(updates, spent, options)
        source = rectangle([sources[one] for one in places])
        target = rectangle([[BOS, *targets[one]] for one in places])
        read, said = target[:, :-1].contiguous(), target[:, 1:].contiguous()
        logits = model(
            input_ids=source,
            attention_mask=(source != PAD).long(),
            decoder_input_ids=read,
            decoder_attention_mask=(read != PAD).long(),
        ).logits
        loss = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), said.flatten(), ignore_index=PAD, label_smoothing=0.1
        )
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        tokens += int((source != PAD).sum()) + int((said != PAD).sum())
        mean += max(1 / updates, 0.02) * (loss.item() - mean)
    return updates, tokens, mean


def wanted(options: argparse.Namespace) -> dict[str, str]:
    """The options that decide what is learned; the others may change when a training goes on."""
    return {name: str(value) for name, value in vars(options).items() if name not in FREE}


def keep(model: Any, optimizer: torch.optim.Optimizer, options: argparse.Namespace, counts: Counts) -> None:
    """Write all that a training needs to go on."""
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "counts": counts}
    unfinished = options.keep.with_name(f"{options.keep.name}.new")
    torch.save({**state, "draws": torch.get_rng_state(), "options": wanted(options)}, unfinished)
    unfinished.rename(options.keep)


def restore(model: Any, optimizer: torch.optim.Optimizer, options: argparse.Namespace) -> Counts:
    """Go on from what was kept: updates, tokens and mean loss; nothing if there is no such file."""
    if options.keep is None or not options.keep.exists():
        return 0, 0, 0.0
    state = torch.load(options.keep, weights_only=True)
    if state.get("options") != wanted(options):
        raise SystemExit(f"{options.keep} is of a training with other options; give another --keep, or remove it")
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    torch.set_rng_state(state["draws"])
    updates, tokens, mean = state["counts"]
    return updates, tokens, mean


def translate(model: Any, tokenizer: tokenizers.Tokenizer, lines: Sequence[str], beam: int) -> list[str]:
    """Beam search, in batches of like length."""
    model.eval()
    sources = encode(tokenizer, lines)
    order = sorted(range(len(lines)), key=lambda one: -len(sources[one]))
    found = [""] * len(lines)
    for begin in range(0, len(order), 32):
        places = order[begin : begin + 32]
        source = rectangle([sources[one] for one in places])
        with torch.inference_mode():
            rows = model.generate(
                source,
                attention_mask=(source != PAD).long(),
                num_beams=beam,
                do_sample=False,
                length_penalty=1.0,
                max_new_tokens=2 * source.shape[1] + 20,
            ).tolist()
        texts = tokenizer.decode_batch([[one for one in row if one not in (PAD, BOS, EOS)] for row in rows])
        for place, text in zip(places, texts, strict=True):
            found[place] = " ".join(text.split())
    return found


def parse() -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", type=Path, help="sentences, one a line")
    parser.add_argument("target", type=Path, help="their translations")
    budget = parser.add_mutually_exclusive_group(required=True)
    budget.add_argument("--minutes", type=float)
    budget.add_argument("--updates", type=int)
    parser.add_argument("--keep", type=Path, help="the state of a training by --updates, to go on from")
    parser.add_argument("--test", type=Path, required=True, help="sentences to translate in the end")
    parser.add_argument("--output", type=Path, required=True, help="their translations")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--pieces", type=int, default=10_000)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--inner", type=int, default=256)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--pairs", type=int, default=32, help="of a batch")
    parser.add_argument("--learning-rate", type=float, default=2e-3, help="the highest")
    parser.add_argument("--warmup", type=int, default=400, help="updates")
    parser.add_argument("--schedule", choices=["cosine", "inverse-sqrt"], default="cosine")
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if (options.minutes or options.updates or 0) <= 0:
        parser.error("the budget must be more than nothing; give --minutes or --updates above 0")
    if options.keep and options.minutes:
        parser.error("--keep needs --updates: the minutes of a process that ended are not known")
    for path in (options.source, options.target, options.test):
        if not path.is_file():
            parser.error(f"{path} is not a file")
    for path in filter(None, (options.output, options.keep)):
        if not path.absolute().parent.is_dir():
            parser.error(f"{path} cannot be written: there is no such folder")
    return options


def main() -> None:
    """Run it."""
    options = parse()
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    transformers.logging.set_verbosity_error()
    sides = [read_lines(path) for path in (options.source, options.target)]
    tokenizer = learn([line for side in sides for line in side], options.pieces)
    sources, targets = (encode(tokenizer, side) for side in sides)
    model = marian.build(
        -(-tokenizer.get_vocab_size() // 8) * 8,
        options.width,
        options.inner,
        (options.layers, options.layers),
        options.heads,
        dropout=options.dropout,
        max_position_embeddings=512,
    )
    updates, tokens, loss = train(model, sources, targets, options)
    minutes = (time.monotonic() - BEGAN) / 60
    lines = translate(model, tokenizer, read_lines(options.test), options.beam)
    options.output.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    facts = {"updates": updates, "tokens": tokens, "epochs": round(updates * options.pairs / len(sources), 2)}
    model_facts = {"parameters": sum(each.numel() for each in model.parameters()), "loss": round(loss, 4)}
    versions = {"transformers": transformers.__version__, "torch": torch.__version__}
    print(json.dumps({"minutes": round(minutes, 3), **facts, **model_facts, **versions}))  # noqa: T201


if __name__ == "__main__":
    main()
