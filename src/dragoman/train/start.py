"""Another model to begin a training with: its vocabulary and its weights."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from dragoman import config as configuration
from dragoman.config import Config, Layer
from dragoman.engine.loading import read_tokenizers
from dragoman.errors import ConfigError
from dragoman.store import tensors
from dragoman.store.folder import ModelFolder
from dragoman.text.tokenizer import Tokenizer

FREE = {"bpe_dropout", "src_lang", "tgt_lang", "dropout"}
"""Keys of [text] and [model] that neither vocabulary nor weights depend on."""


@dataclass(frozen=True)
class Start:
    """The model that is begun with; it is only read."""

    folder: ModelFolder
    config: Config

    @classmethod
    def open(cls, root: Path) -> Self:
        """Take the model in ``root``.

        Raises:
            FolderError, ConfigError: as when it is to translate.
        """
        folder = ModelFolder.open(root)
        return cls(folder, configuration.load(folder.config))

    @property
    def layer(self) -> Layer:
        """The settings that go with the vocabulary and the weights."""
        return {
            section: {key: value for key, value in values.items() if key not in FREE}
            for section, values in self.config.to_dict().items()
            if section in ("text", "model")
        }

    @property
    def facts(self) -> dict[str, Any]:
        """What the provenance of a model says that was begun with this one."""
        return {
            "model": self.folder.root.resolve().name,
            "weights_sha256": tensors.read_header(self.folder.weights).sha256,
        }

    def check(self, wanted: Config) -> None:
        """See that a model of these settings can take the weights.

        Raises:
            ConfigError: a setting that the weights depend on is another.
        """
        settings = wanted.to_dict()
        for section, values in self.layer.items():
            for key, value in values.items():
                if settings[section][key] != value:
                    raise ConfigError(
                        f"{self.folder.root} has {section}.{key}={value!r}, not {settings[section][key]!r}, and what is"
                        " begun with it has the same; leave it as it is, or train without --from"
                    )

    def tokenizers(self) -> tuple[Tokenizer, Tokenizer]:
        """Those of source and target."""
        return read_tokenizers(self.folder, self.config)

    def copy_weights(self, path: Path) -> None:
        """Write the weights, checked, for a training that may be killed before it has any of its own."""
        tensors.write_tensors(path, tensors.read_tensors(self.folder.weights), {})
