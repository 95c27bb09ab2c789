"""The running average of the weights against the mean of the last n checkpoints. Prints one JSON line for each.

    python benchmarks/bench_average.py FOLDER VALID.src VALID.tgt [--limit 1000]

FOLDER is a model folder whose training kept its checkpoints (`--set train.keep=10`, which may also be set on resuming;
the default of 2 leaves nothing to compare). Greedy BLEU and chrF on the validation pairs; the folder is only read.
"""

import argparse
import json
from itertools import islice
from pathlib import Path

import torch

from dragoman import config as configuration
from dragoman.config import Config
from dragoman.data.corpus import open_corpus
from dragoman.engine.loading import read_tokenizers
from dragoman.evaluate.metrics import corpus_scores
from dragoman.model.build import build, named_weights
from dragoman.model.families import EncoderDecoder
from dragoman.store import checkpoint
from dragoman.store.average import average
from dragoman.store.checkpoint import Checkpoint
from dragoman.store.folder import ModelFolder
from dragoman.text.tokenizer import Tokenizer
from dragoman.train import validation


def mean_of(config: Config, src: Tokenizer, tgt: Tokenizer, paths: list[Path]) -> EncoderDecoder:
    """A model with the mean of some weights."""
    model = build(config.model, src.vocab_size, tgt.vocab_size).eval()
    weights = named_weights(model)
    for name, array in average(paths).items():
        weights[name].copy_(torch.from_numpy(array))
    return model


def contenders(found: list[Checkpoint]) -> dict[str, list[Path]]:
    """What is compared, newest checkpoint first in ``found``."""
    newest = {"running average": [found[0].file("average.safetensors")], "last": [found[0].file("model.safetensors")]}
    means = {
        f"mean of last {n}": [each.file("model.safetensors") for each in found[:n]] for n in range(2, len(found) + 1)
    }
    return newest | means


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("valid", type=Path, nargs=2)
    parser.add_argument("--limit", type=int, default=1000)
    options = parser.parse_args()
    folder = ModelFolder(options.folder)
    config = configuration.load(folder.config)
    src, tgt = read_tokenizers(folder, config)
    pairs = list(islice(open_corpus(options.valid), options.limit))
    found = [each for each in checkpoint.scan(folder.checkpoints) if isinstance(each, Checkpoint)]
    for name, paths in contenders(found).items():
        model = mean_of(config, src, tgt, paths)
        texts = validation.translator(model, src, tgt, config).translate([pair.src for pair in pairs])
        bleu, chrf = corpus_scores(texts, [pair.tgt for pair in pairs], config.text.tgt_lang)
        facts = {"weights": name, "step": found[0].step, "pairs": len(pairs), "bleu": bleu, "chrf": chrf}
        print(json.dumps(facts), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
