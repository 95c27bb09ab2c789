"""The training's diary for TensorBoard: the same events as in the journal, as curves."""

import importlib.util
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
    """Writes event files; TensorBoard passes over what an interrupted run wrote after ``step``.

    What the disk does not take is told once and missing in the curves. A writer that has failed never writes again, so
    the next :meth:`sync` takes another one.
    """

    def __init__(self, folder: Path, step: int, tell: Callable[[str], None]) -> None:
        require()
        self._folder, self._step, self._tell = folder, step, tell
        self._writer: Any = None
        self._is_told = False
        self.sync()

    def write(self, event: str, facts: dict[str, Any]) -> None:
        """Add a point to each curve that ``event`` has."""
        self._step = facts["step"]
        with self._surviving():
            for name in SHOWN.get(event, ()) if self._writer else ():
                self._writer.add_scalar(f"{event}/{name}", facts[name], self._step)

    def sync(self) -> None:
        """Write what is waiting."""
        from torch.utils.tensorboard import SummaryWriter

        with self._surviving():
            self._writer = self._writer or SummaryWriter(str(self._folder), purge_step=self._step + 1)
            self._writer.flush()

    @contextmanager
    def _surviving(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self._writer = None
            if not self._is_told:
                self._tell(f"warning: TensorBoard's curves will have gaps: {error}")
            self._is_told = True
