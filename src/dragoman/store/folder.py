"""A model folder: where everything of one model lies, and whether it is all there.

    my-en-de/
      config.toml            the resolved configuration
      tokenizer.json         or tokenizer.src.json and tokenizer.tgt.json
      model.safetensors      the weights to translate with
      engine.safetensors     the same, quantized for the CPU engine, if `dragoman quantize` was run
      certificate.json       what that changed in the translations
      bench.json             the best settings on the machine where `dragoman bench` was run
      README.md              the model card
      provenance.json        where data and weights come from
      report.json  journal.jsonl  curve.png
      training/              only needed to resume: lock, corpus/, checkpoints/, start.safetensors

A folder without ``training/`` is complete; copy it anywhere.
"""

import hashlib
import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from dragoman.errors import FolderError
from dragoman.store import files, lock, records, tensors
from dragoman.store.files import shown

if TYPE_CHECKING:
    import torch

_MAX_CONFIG = 1 << 20
_SHAPING = ("text", "model")
"""The sections of the configuration that the weights depend on."""


@dataclass(frozen=True)
class ModelFolder:
    """The paths of a model folder; constructing one touches nothing."""

    root: Path

    @property
    def config(self) -> Path:
        """The resolved configuration."""
        return self.root / "config.toml"

    @property
    def weights(self) -> Path:
        """The weights to translate with."""
        return self.root / "model.safetensors"

    @property
    def engine(self) -> Path:
        """The weights packed and quantized for the CPU engine."""
        return self.root / "engine.safetensors"

    @property
    def certificate(self) -> Path:
        """How the quantized weights compare with the others."""
        return self.root / "certificate.json"

    @property
    def bench(self) -> Path:
        """What `dragoman bench` found best."""
        return self.root / "bench.json"

    @property
    def card(self) -> Path:
        """The model card."""
        return self.root / "README.md"

    @property
    def provenance(self) -> Path:
        """Fingerprints and counts of the data, and the version of dragoman."""
        return self.root / "provenance.json"

    @property
    def report(self) -> Path:
        """What the examination of the corpus found."""
        return self.root / "report.json"

    @property
    def journal(self) -> Path:
        """The training step by step, one JSON object a line."""
        return self.root / "journal.jsonl"

    @property
    def curve(self) -> Path:
        """The picture of the training."""
        return self.root / "curve.png"

    @property
    def training(self) -> Path:
        """What is only needed to resume; may be deleted."""
        return self.root / "training"

    @property
    def lock(self) -> Path:
        """See `lock.hold`."""
        return self.training / "lock"

    @property
    def corpus(self) -> Path:
        """The tokenized corpus."""
        return self.training / "corpus"

    @property
    def validation(self) -> Path:
        """The validation pairs as text."""
        return self.corpus / "valid.json"

    @property
    def checkpoints(self) -> Path:
        """See `checkpoint.save`."""
        return self.training / "checkpoints"

    @property
    def start(self) -> Path:
        """The weights of another model that a training was begun with."""
        return self.training / "start.safetensors"

    def tokenizers(self, shared: bool) -> tuple[Path, ...]:
        """The tokenizer of both sides, or those of source and target."""
        names = ("tokenizer.json",) if shared else ("tokenizer.src.json", "tokenizer.tgt.json")
        return tuple(self.root / name for name in names)

    @classmethod
    def create(cls, root: Path) -> Self:
        """Make the folder for a training, or take the one of an earlier training, and see that it can be written.

        Raises:
            FolderError: the path is a file, holds something that is not a training, or cannot be written.
        """
        folder = cls(root)
        files.make_folder(root)
        names = [name for name in files.list_folder(root) if not files.is_temporary(name)]
        if names and not folder._is_ours():
            raise FolderError(f"{shown(root)} is not a model folder (it holds {names[0]}); choose another one")
        if folder.config.name in names and folder.training.name not in names:
            raise FolderError(
                f"{shown(root)} holds a finished model without its training/ part; train into a new folder"
            )
        for path in (folder.training, folder.corpus, folder.checkpoints):
            files.make_folder(path)
        lock.make(folder.lock)
        files.check_writable(root)
        return folder

    @classmethod
    def open(cls, root: Path) -> Self:
        """Take a folder to translate with: everything is there, and the weights belong to the configuration.

        Raises:
            FolderError: something is missing, damaged, from a newer version, or does not fit together.
        """
        folder = cls(root)
        with files.explained("open", root):
            exists = root.is_dir()
        if not exists:
            raise FolderError(f"{shown(root)} is not a folder; give the folder that `dragoman train` wrote")
        names = files.list_folder(root)
        if folder.config.name not in names:
            raise FolderError(f"{shown(root)} is not a model folder: it has no {folder.config.name}")
        for path in folder.tokenizers(folder._shaping_config()["text"].get("shared", True) is True):
            if path.name not in names:
                raise FolderError(f"{shown(root)} is incomplete: it has no {path.name}")
        if folder.weights.name not in names:
            raise FolderError(
                f"{shown(root)} has no {folder.weights.name} yet: its training did not reach the first validation;"
                " resume it with `dragoman train`"
            )
        folder._check_weights()
        return folder

    def _is_ours(self) -> bool:
        """Whether a training has begun here, or ended, or there is no file at all that could be lost."""
        if self.lock.exists():
            return True
        if self.config.exists():
            return bool(self._shaping_config()["model"])
        return not any(path.is_file() or path.is_symlink() for path in self.root.rglob("*"))

    def clean_leftovers(self) -> None:
        """Delete what killed processes left half written; to be called by whoever holds the lock, before it writes."""
        from dragoman.store import checkpoint

        for path in (self.root, self.training, self.corpus):
            files.clean_leftovers(path)
        checkpoint.clean(self.checkpoints)

    def write_weights(self, weights: "Mapping[str, torch.Tensor]") -> None:
        """Replace the weights atomically; they carry the configuration they belong to, which must be written before.

        Raises:
            FolderError: the configuration is missing, a weight is not finite, or the disk refuses; the old are intact.
        """
        digest = hashlib.sha256(files.read_bytes(self.config, _MAX_CONFIG)).hexdigest()
        shaping = json.dumps(self._shaping_config(), sort_keys=True)
        tensors.write_tensors(self.weights, weights, {"config": shaping, "config_sha256": digest})

    def _shaping_config(self) -> dict[str, dict[str, Any]]:
        data = files.read_bytes(self.config, _MAX_CONFIG)
        try:
            config = tomllib.loads(data.decode("utf-8"))
        except (ValueError, RecursionError) as error:
            raise FolderError(f"{shown(self.config)} is damaged: not valid TOML ({error})") from None
        sections = {name: config.get(name, {}) for name in _SHAPING}
        if not all(isinstance(section, dict) for section in sections.values()):
            raise FolderError(f"{shown(self.config)} is damaged: [text] and [model] must be sections")
        return sections

    def _check_weights(self) -> None:
        """Compare key by key, so that sections that shape nothing may change and later versions may add keys."""
        recorded = tensors.read_header(self.weights).metadata.get("config", "{}")
        trained = records.decode(recorded.encode("utf-8"), f"the configuration in {shown(self.weights)}")
        if not isinstance(trained, dict) or not all(isinstance(trained.get(name, {}), dict) for name in _SHAPING):
            raise FolderError(f"{shown(self.weights)} is damaged: the configuration in it is none")
        current = self._shaping_config()
        for section in _SHAPING:
            for key, value in trained.get(section, {}).items():
                if current[section].get(key) != value:
                    raise FolderError(
                        f"{shown(self.config)} says {section}.{key}={current[section].get(key)!r}, but the weights were"
                        f" trained with {value!r}; restore it"
                    )
