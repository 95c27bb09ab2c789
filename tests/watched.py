"""Folders of trainings that never took place, and the page that shows them."""

import contextlib
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dragoman.serve.server import PageServer
from dragoman.serve.watch import Watched
from dragoman.store.folder import ModelFolder
from folders import toy_settings

PAIRS = [["the cat", "le chat"], ["a <b>dog</b>", "un <i>chien</i>"], ["我喜欢", "j'aime"], ["four", "quatre"]]
LITERAL = "</script><img src=x onerror=alert(1)>"


def update(step: int, **more: Any) -> dict[str, Any]:
    """An event of the journal, as the loop writes it."""
    known = {"epoch": step // 100, "loss": 8.0 / step, "norm": 1.0, "learning_rate": 1e-3}
    return {"event": "update", "step": step, **known, "tokens": 900 * step, "tokens_per_second": 450.0, **more}


def validation(step: int, bleu: float | None, best: bool = True, **more: Any) -> dict[str, Any]:
    """As `update`."""
    return {"event": "validation", "step": step, "loss": 2.0, "bleu": bleu, "chrf": 50.0, "best": best, **more}


END: dict[str, Any] = {"event": "end", "step": 200, "reason": "all updates are made"}


def write_journal(root: Path, events: list[Any], torn: str = "") -> None:
    """The journal of a folder, all at once."""
    text = "".join(json.dumps(event, ensure_ascii=False) + "\n" for event in events)
    ModelFolder(root).journal.write_text(text + torn, encoding="utf-8")


def begun(root: Path, events: list[Any] | None = None, **train: Any) -> Path:
    """A folder as a training of 200 updates leaves it, without weights."""
    folder = ModelFolder.create(root)
    settings = {"steps": 200, "validate_every": 50, "save_every": 50, **train}
    languages = {"src_lang": "en", "tgt_lang": "fr", "vocab_size": 320}
    folder.config.write_text(toy_settings(train=settings, text=languages).to_toml(), encoding="utf-8")
    folder.validation.write_text(json.dumps(PAIRS), encoding="utf-8")
    if events is not None:
        write_journal(root, events)
    return root


@contextlib.contextmanager
def shown(root: Path) -> Iterator[PageServer]:
    """The page of ``root`` at any free port."""
    with PageServer(Watched(root), 0) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
