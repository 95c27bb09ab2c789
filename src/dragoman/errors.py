"""The errors a user can meet, in one look.

    DragomanError            everything below; catch this to catch us
    |-- ConfigError          a setting is unknown, of the wrong type, or does not fit the others
    |-- DataError            a corpus file is missing, damaged, misaligned or not what it claims to be
    |-- VocabularyError      a tokenizer cannot be learned, read, or does not fit the model
    |-- ShapeError           sizes that must agree do not
    |-- FolderError          a model folder or checkpoint is missing, locked, damaged or from another version
    |-- TrainingError        training cannot go on: the loss is not finite, another worker has ended
    |-- ImportWeightsError   another program's weights do not map onto ours, or are not safe to read
    |-- ServeError           a page or a service cannot be offered: the port is taken
    |-- EngineError          the CPU engine is missing, does not fit this processor, or refuses a model
    `-- RequestError         a translation, scoring or sampling request that cannot be honoured

Each message is one line a tired person understands: what was wrong (key, value), where, what was expected, what to do.
"""


class DragomanError(Exception):
    """Root of all errors caused by input or environment; the command line prints it as one line and exits with 2."""


class ConfigError(DragomanError):
    """A setting is unknown, of the wrong type, or does not fit the others."""


class DataError(DragomanError):
    """A corpus file is missing, damaged, misaligned or not what it claims to be."""


class VocabularyError(DragomanError):
    """A tokenizer cannot be learned or read, or does not fit the model."""


class ShapeError(DragomanError):
    """Sizes that must agree do not."""


class FolderError(DragomanError):
    """A model folder or a checkpoint is missing, locked, damaged or from another version."""


class TrainingError(DragomanError):
    """Training cannot go on; the message names the last good checkpoint."""


class ImportWeightsError(DragomanError):
    """Another program's weights do not map onto ours, or are not safe to read."""


class ServeError(DragomanError):
    """A page or a service cannot be offered on this machine."""


class EngineError(DragomanError):
    """The CPU engine is missing, does not fit this processor, or refuses a model."""


class RequestError(DragomanError):
    """A translation, scoring or sampling request that cannot be honoured."""


SHORTAGE = "allocate memory", "out of memory", "failed to map segment"


def is_shortage(error: BaseException) -> bool:
    """Whether memory is what is lacking; PyTorch, the engine and a library that is loaded late say so in words only."""
    said = str(error) if isinstance(error, RuntimeError | EngineError | ImportError) else ""
    return isinstance(error, MemoryError) or any(words in said for words in SHORTAGE)
