"""A training, looked at from outside again and again while another process writes it, ends, or replaces its folder."""

import contextlib
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dragoman import config
from dragoman.errors import DragomanError, FolderError
from dragoman.serve import summary
from dragoman.store import files, lock, records
from dragoman.store.files import shown
from dragoman.store.folder import ModelFolder
from dragoman.train import journal


@dataclass(frozen=True)
class Snapshot:
    """What the page shows, as JSON."""

    body: bytes
    tag: str
    "Another one for another body."


class Watched:
    """The training of one folder. Looking never waits for it, and it never notices."""

    def __init__(self, root: Path) -> None:
        """Take a folder in which a training has begun.

        Raises:
            FolderError: there is none.
        """
        self._folder = ModelFolder(root)
        _check(self._folder)
        self._last: tuple[object, Snapshot] = (None, Snapshot(b"", ""))

    def snapshot(self) -> Snapshot:
        """What there is now; read again only if a file has changed."""
        is_running = lock.is_held(self._folder.lock)
        stamp = (is_running, *(_stamp(path) for path in self._read_paths()))
        before, snapshot = self._last
        if stamp != before:
            body = json.dumps(_told(self._folder, is_running), ensure_ascii=False, allow_nan=False)
            data = body.encode("utf-8", "replace")
            snapshot = Snapshot(data, f'"{hashlib.sha256(data).hexdigest()[:32]}"')
            self._last = stamp, snapshot
        return snapshot

    def _read_paths(self) -> tuple[Path, ...]:
        return self._folder.root, self._folder.config, self._folder.journal, self._folder.validation


def _check(folder: ModelFolder) -> None:
    with files.explained("open", folder.root):
        exists = folder.root.is_dir()
    if not exists:
        raise FolderError(f"{shown(folder.root)} is not a folder; give the folder that `dragoman train` writes")
    if not {folder.config.name, folder.training.name} & set(files.list_folder(folder.root)):
        raise FolderError(
            f"{shown(folder.root)} is not a model folder: it has neither {folder.config.name} nor"
            f" {folder.training.name}/; give the folder that `dragoman train` writes"
        )


def _told(folder: ModelFolder, is_running: bool) -> dict[str, Any]:
    """All that the page shows; of a folder that cannot be read now, why."""
    name = folder.root.resolve().name
    try:
        if not folder.root.is_dir():
            raise FolderError(f"{shown(folder.root)} is not there any more")
        _check(folder)
        return {"name": name, "problem": "", **_facts(folder, is_running)}
    except (DragomanError, OSError) as error:
        return {"name": name, "problem": str(error)}


def _facts(folder: ModelFolder, is_running: bool) -> dict[str, Any]:
    settings = config.load(folder.config) if folder.config.exists() else None
    events, written = _events(folder.journal)
    train, text = (settings.train, settings.text) if settings else (None, None)
    return {
        "state": summary.state(events, is_running),
        "written": written,
        "languages": [text.src_lang, text.tgt_lang] if text else ["", ""],
        "now": summary.now(events, train.steps if train else None),
        "curves": summary.curves(events),
        "samples": summary.samples(events, _pairs(folder.validation)),
        "warnings": summary.warnings(events),
    }


def _events(path: Path) -> tuple[list[summary.Event], float | None]:
    """The journal's events and the time of its last line; none before the first update."""
    if not path.exists():
        return [], None
    with files.explained("read", path):
        written = path.stat().st_mtime
        return summary.sound(journal.read(path)), round(written)


def _pairs(path: Path) -> summary.Pairs:
    """The first validation pairs, if they are still there."""
    match records.read(path) if path.exists() else []:
        case [*pairs] if all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
            return [(str(src), str(tgt)) for src, tgt in pairs[: summary.SAMPLES]]
    raise FolderError(f"{shown(path)} is damaged: it must hold pairs of texts")


def _stamp(path: Path) -> tuple[int, ...]:
    with contextlib.suppress(OSError):
        status = path.stat()
        return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
    return ()
