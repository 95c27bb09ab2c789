"""The training's diary for TensorBoard: the same events as in the journal, as curves."""

import importlib.util
from pathlib import Path
from typing import Any

from dragoman.errors import ConfigError

SHOWN = {
    "update": ("loss", "norm", "learning_rate", "tokens_per_second"),
    "validation": ("loss", "bleu", "chrf"),
}
"""Which facts of which event become curves."""


def require() -> None:
    """See that the package is there.

    Raises:
        ConfigError: it is not.
    """
    if importlib.util.find_spec("tensorboard") is None:
        raise ConfigError("train.tensorboard=true needs the tensorboard package: pip install dragoman[tensorboard]")


class Board:
    """Writes event files; TensorBoard passes over what an interrupted run wrote after ``step``."""

    def __init__(self, folder: Path, step: int) -> None:
        require()
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(folder), purge_step=step + 1)

    def write(self, event: str, facts: dict[str, Any]) -> None:
        """Add a point to each curve that ``event`` has."""
        for name in SHOWN.get(event, ()):
            self._writer.add_scalar(f"{event}/{name}", facts[name], facts["step"])

    def sync(self) -> None:
        """Write what is waiting."""
        self._writer.flush()
