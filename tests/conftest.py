"""What every test relies on: one thread, hypothesis that repeats itself, and where the shared data lie.

The shapes in the signatures of ``dragoman.model``, ``dragoman.loss`` and ``dragoman.data.batch`` are checked while the
tests run: ``--jaxtyping-packages`` in ``pyproject.toml`` hooks into their import before anything here is loaded.
"""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch
from hypothesis import settings

if TYPE_CHECKING:
    from command import Nursery

pytest_plugins = ["goals"]

settings.register_profile("dragoman", deadline=None, derandomize=True, print_blob=False)


def pytest_configure(config: pytest.Config) -> None:
    """Numbers are the same to the last digit only with the same number of threads.

    Children inherit signals that are ignored, as they are under `nohup` or in the background of a script.
    """
    torch.set_num_threads(1)
    settings.load_profile("dragoman")
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder with ``multi30k/`` and the others, too large to live in the repository."""
    folder = Path(os.environ.get("DRAGOMAN_DATA", Path(__file__).parents[2] / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no data in {folder}; set DRAGOMAN_DATA to the folder that holds multi30k/")
    return folder


@pytest.fixture(scope="session")
def nursery() -> "Iterator[Nursery]":
    """Where commands that will be killed are born."""
    from command import Nursery

    with Nursery() as made:
        yield made
