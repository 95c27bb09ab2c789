"""From a model folder to a PyTorch model; the only part of loading that imports torch."""

import torch

from dragoman.config import Config
from dragoman.engine.torch_backend import TorchBackend
from dragoman.model.build import build, named_weights
from dragoman.model.families import EncoderDecoder
from dragoman.store import tensors
from dragoman.store.folder import ModelFolder
from dragoman.text.tokenizer import Tokenizer


def load_torch(folder: ModelFolder, config: Config, src: Tokenizer, tgt: Tokenizer, threads: int) -> TorchBackend:
    """The model behind the translator's interface.

    Args:
        threads: of PyTorch, which knows but one number for the whole process; 0 leaves it as it is.
    """
    if threads:
        torch.set_num_threads(threads)
    return TorchBackend(read_model(folder, config, src, tgt), len(tgt.vocab))


def read_model(folder: ModelFolder, config: Config, src: Tokenizer, tgt: Tokenizer) -> EncoderDecoder:
    """The model with its weights, in evaluation mode; sizes are compared with the file before memory is taken."""
    with torch.device("meta"):
        expected = tensors.specs(named_weights(build(config.model, src.vocab_size, tgt.vocab_size)))
    weights = tensors.read_tensors(folder.weights, expected)
    model = build(config.model, src.vocab_size, tgt.vocab_size)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(weights[name])
    return model.eval()
