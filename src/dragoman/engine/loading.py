"""From a model folder to a translator."""

from pathlib import Path

import torch

from dragoman import config as configuration
from dragoman.config import Config
from dragoman.engine.torch_backend import TorchBackend
from dragoman.engine.translator import GROWTH, Translator
from dragoman.errors import FolderError, VocabularyError
from dragoman.model.build import build, named_weights
from dragoman.model.families import EncoderDecoder
from dragoman.store import tensors
from dragoman.store.folder import ModelFolder
from dragoman.text.tokenizer import MAX_FILE_BYTES, Tokenizer


def load(path: str | Path) -> Translator:
    """The translator in a model folder.

    Raises:
        FolderError, ConfigError, VocabularyError: the folder is not a model, or something in it is missing or damaged.
    """
    folder = ModelFolder.open(Path(path))
    config = configuration.load(folder.config)
    src, tgt = read_tokenizers(folder, config)
    model = read_model(folder, config, src, tgt)
    return Translator(src, tgt, TorchBackend(model, len(tgt.vocab)), config.search, source_limit(config))


def read_tokenizers(folder: ModelFolder, config: Config) -> tuple[Tokenizer, Tokenizer]:
    """The tokenizers of source and target, one and the same where the vocabulary is shared."""
    read = [_read_tokenizer(path) for path in folder.tokenizers(config.text.shared)]
    return read[0], read[-1]


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


def source_limit(config: Config) -> int:
    """Longest source, in pieces, that is translated in one go: what training has seen, and what positions allow."""
    if config.model.positions != "learned":
        return config.data.max_length
    return min(config.data.max_length, max(config.model.max_positions // GROWTH, 1))


def _read_tokenizer(path: Path) -> Tokenizer:
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise FolderError(f"{path} has {path.stat().st_size:,} bytes, more than the {MAX_FILE_BYTES:,} allowed")
        return Tokenizer.from_json(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, VocabularyError) as error:
        raise FolderError(f"{path} is damaged: {error}") from None
