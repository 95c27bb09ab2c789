"""What a model folder holds, as plain facts."""

import math
from typing import Any

from dragoman import config as configuration
from dragoman.config import Config
from dragoman.engine.library import has_torch, instruction_set
from dragoman.engine.loading import measured, prefers_torch, read_tokenizers, source_limit
from dragoman.engine.native_loading import read_precise
from dragoman.errors import EngineError, FolderError
from dragoman.store import records, tensors
from dragoman.store.folder import ModelFolder

SHOWN = ("places", "agreement", "translated_agreement", "largest_difference", "bleu_float32", "bleu")


def describe(folder: ModelFolder) -> dict[str, Any]:
    """Facts that have a JSON form; nothing is translated, and no weights are read.

    Raises:
        FolderError, ConfigError, VocabularyError: the folder is no model, or a file that must be there is damaged.
    """
    config = configuration.load(folder.config)
    service = _service(folder)
    header = tensors.read_header(folder.weights)
    src, tgt = read_tokenizers(folder, config)
    return {
        "model": str(folder.root),
        "source_language": config.text.src_lang,
        "target_language": config.text.tgt_lang,
        "parameters": sum(math.prod(entry.shape) for entry in header.entries),
        "source_vocabulary": len(src.vocab),
        "target_vocabulary": len(tgt.vocab),
        "longest_source": source_limit(config),
        **service,
        "certificate": _certificate(folder, service["instruction_set"]),
        "sizes": _sizes(config),
        "files": {path.name: path.stat().st_size for path in (folder.weights, folder.engine) if path.exists()},
    }


def _service(folder: ModelFolder) -> dict[str, str | None]:
    """Backend, instruction set and precision that ``load`` would take here, and what stands in the way of better."""
    usual = measured(folder)
    if prefers_torch(usual):
        return {"backend": "torch", "instruction_set": None, "precision": "float32", "problem": None}
    try:
        isa = instruction_set()
    except EngineError as error:
        backend, precision = ("torch", "float32") if has_torch() else (None, None)
        return {"backend": backend, "instruction_set": None, "precision": precision, "problem": str(error)}
    native = {"backend": "native", "instruction_set": isa}
    if not folder.engine.exists() or usual.precision == "float32":
        return {**native, "precision": "float32", "problem": None}
    try:
        precise = read_precise(folder, tensors.read_header(folder.engine))
    except FolderError as error:
        return {**native, "precision": None, "problem": str(error)}
    return {**native, "precision": f"int8, but for {', '.join(precise)}" if precise else "int8", "problem": None}


def _certificate(folder: ModelFolder, instruction_set: str | None) -> dict[str, Any] | None:
    """The certificate of the quantized weights that are there; None if it is of others, or there is none.

    Args:
        instruction_set: that the engine takes here, which need not be the one that was measured with.
    """
    if not folder.certificate.exists() or not folder.engine.exists():
        return None
    certificate = records.read(folder.certificate)
    if type(certificate) is not dict or certificate.get("engine_sha256") != tensors.read_header(folder.engine).sha256:
        return None
    if not all(type(certificate.get(name)) in (int, float) for name in SHOWN):
        raise FolderError(f"{folder.certificate} is damaged: run `dragoman quantize {folder.root}` again")
    summary = (
        f"{certificate['agreement']:.2%} of {certificate['places']:,} tokens agree with float32,"
        f" {certificate['translated_agreement']:.2%} in its own translations,"
        f" BLEU {certificate['bleu_float32']:.2f} -> {certificate['bleu']:.2f},"
        f" largest difference of a log-probability {certificate['largest_difference']:.3f}"
    )
    verdict = "" if certificate.get("is_passed") is True else "; FORCED: it changes more than is allowed"
    there = certificate.get("instruction_set")
    elsewhere = f"; measured with {there}, not with {instruction_set}" if instruction_set not in (None, there) else ""
    return {**certificate, "summary": summary + verdict + elsewhere}


def _sizes(config: Config) -> dict[str, Any]:
    model = config.model
    return {
        "d_model": model.d_model,
        "heads": model.num_heads,
        "layers": f"{model.num_encoder_layers} + {model.num_decoder_layers}",
        "d_ff": model.d_ff,
        "activation": model.activation,
        "norm": "before the sub-layer" if model.norm_first else "after the sub-layer",
        "positions": model.positions,
        "tied": model.tied,
    }
