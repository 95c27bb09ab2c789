"""From a model folder to a translator. torch is imported only where it translates."""

import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Literal

from dragoman import config as configuration
from dragoman.config import Config
from dragoman.engine import processor
from dragoman.engine.library import has_torch, instruction_set, open_library
from dragoman.engine.native_loading import Sizes, load_native, open_engine
from dragoman.engine.translator import GROWTH, Backend, Translator
from dragoman.errors import EngineError, FolderError, VocabularyError
from dragoman.store import bench
from dragoman.store.folder import ModelFolder
from dragoman.text.tokenizer import MAX_FILE_BYTES, Tokenizer

BackendName = Literal["auto", "native", "torch"]
"""native: the CPU engine, quantized where the folder is; torch: PyTorch; auto: the engine if there is one.

Where `dragoman bench` has found something else faster on this machine, auto takes that, and native its precision.
"""


@cache
def warn_once(message: str) -> None:
    """Show a Python warning, the same one once a process.

    Python itself forgets what it has shown when somebody adds a filter, as torch does when it is imported.
    """
    warnings.warn(message, stacklevel=4)  # where the caller of load stands


def load(
    path: str | Path,
    backend: BackendName = "auto",
    threads: int = 0,
    warn: Callable[[str], None] = warn_once,
) -> Translator:
    """The translator in a model folder.

    Args:
        threads: 0 takes as many as `dragoman bench` has found best on this machine, or all processors this process may
            use; PyTorch keeps the number it has, unless it was found best itself.
        warn: told in one line why PyTorch translates where ``auto`` would rather have had the engine.

    Raises:
        FolderError, ConfigError, VocabularyError: the folder is not a model, or something in it is missing, damaged,
            or older than something else.
        EngineError: ``native`` is wanted and there is no engine for it; or there is neither an engine nor PyTorch.
    """
    folder = ModelFolder.open(Path(path))
    config = configuration.load(folder.config)
    usual = measured(folder)
    is_native = _is_native("torch" if backend == "auto" and prefers_torch(usual) else backend, warn)
    engine = open_engine(folder, is_exact=usual.precision == "float32") if is_native else None
    src, tgt = read_tokenizers(folder, config)
    made: Backend
    if is_native:
        made = load_native(folder, sizes_of(config, src, tgt), threads or usual.threads, engine)
    else:
        threads = threads or (usual.threads if usual.precision == "torch" else 0)
        made = _torch(folder, config, src, tgt, threads)
    return Translator(src, tgt, made, config.search, source_limit(config))


def measured(folder: ModelFolder) -> bench.Default:
    """What `dragoman bench` has found best for this model on this machine."""
    if not folder.bench.exists():
        return bench.Default()
    here = processor.look()
    return bench.read(folder.bench, here.name, here.usable, _isa())


def prefers_torch(usual: bench.Default) -> bool:
    """Whether PyTorch was found best, and is there."""
    return usual.precision == "torch" and has_torch()


def read_tokenizers(folder: ModelFolder, config: Config) -> tuple[Tokenizer, Tokenizer]:
    """The tokenizers of source and target, one and the same where the vocabulary is shared."""
    read = [_read_tokenizer(path) for path in folder.tokenizers(config.text.shared)]
    return read[0], read[-1]


def source_limit(config: Config) -> int:
    """Longest source, in pieces, that is translated in one go: what training has seen, and what positions allow."""
    if config.model.positions != "learned":
        return config.data.max_length
    return min(config.data.max_length, max(config.model.max_positions // GROWTH, 1))


def sizes_of(config: Config, src: Tokenizer, tgt: Tokenizer) -> Sizes:
    """What the engine must know beside the weights."""
    limit = source_limit(config)
    return Sizes(config, src.vocab_size, tgt.vocab_size, len(tgt.vocab), max(limit + 1, GROWTH * limit))


def _isa() -> str:
    try:
        return instruction_set()
    except EngineError:
        return ""


def _is_native(backend: BackendName, warn: Callable[[str], None]) -> bool:
    if backend == "torch":
        return False
    try:
        open_library()
    except EngineError as error:
        if backend == "native" or not has_torch():
            raise
        warn(str(error))
        return False
    return True


def _torch(folder: ModelFolder, config: Config, src: Tokenizer, tgt: Tokenizer, threads: int) -> Backend:
    try:
        from dragoman.engine.torch_loading import load_torch
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise EngineError(
            "--backend torch needs PyTorch, which is not installed; pip install 'dragoman[train]'"
        ) from None
    return load_torch(folder, config, src, tgt, threads)


def _read_tokenizer(path: Path) -> Tokenizer:
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise FolderError(f"{path} has {path.stat().st_size:,} bytes, more than the {MAX_FILE_BYTES:,} allowed")
        return Tokenizer.from_json(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, VocabularyError) as error:
        raise FolderError(f"{path} is damaged: {error}") from None
