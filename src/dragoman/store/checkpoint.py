"""Checkpoints that are whole or absent: one protocol for every save, and a search for the newest that can be trusted.

A save into ``folder``:

1. everything is written into `.tmp-<pid>-<random>/`, each file fsynced;
2. `manifest.json` comes last: format version, step, size and SHA-256 of every file, sealed by its own SHA-256;
3. the temporary folder is fsynced, renamed ONCE to `step-00001234`, and ``folder`` is fsynced;
4. only then are older ones renamed to `.trash-*` and deleted.

Whatever instant the process or the power dies at, the newest complete checkpoint is found again. A step that is saved
a second time first steps aside as `step-00001234~`, which counts like the original until the new one is in place.

Whoever calls `save` holds the training lock (`lock.py`): unfinished folders found here belong to the dead.
"""

import contextlib
import re
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dragoman.errors import FolderError
from dragoman.store import files, records
from dragoman.store.files import Chunks, Written, shown

FORMAT_VERSION = 1
MANIFEST = "manifest.json"

_MAX_MANIFEST = 1 << 20
_MAX_STEP = 10**12
_STEP = re.compile(r"step-(\d{8}|[1-9]\d{8,11})(~?)")
_FILE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]{0,100}")


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint whose every file was verified: where it is, what it holds, and what was noted about it."""

    path: Path
    step: int
    files: Mapping[str, Written]
    facts: Mapping[str, str]

    def file(self, name: str) -> Path:
        """The path of one of its files.

        Raises:
            FolderError: it has no such file.
        """
        if name not in self.files:
            raise FolderError(f"checkpoint {shown(self.path)} has no {name}; it holds {', '.join(sorted(self.files))}")
        return self.path / name


@dataclass(frozen=True)
class Damaged:
    """A checkpoint that cannot be used, and why."""

    path: Path
    reason: str


@dataclass(frozen=True)
class Saved:
    """A checkpoint that is durable now, and what could not be cleaned up after it (to be shown as warnings)."""

    path: Path
    warnings: tuple[str, ...]


def save(
    folder: Path,
    step: int,
    contents: Mapping[str, Chunks],
    facts: Mapping[str, str],
    keep: int,
    spared: int | None = None,
) -> Saved:
    """Publish a checkpoint; afterwards it is durable and the older ones beyond ``keep`` are gone.

    Args:
        folder: where the checkpoints lie; made if missing.
        step: number of updates done; the highest is the newest.
        contents: file name -> content, from `tensors.encode_tensors` or ``[records.encode(...)]``.
        facts: short strings for the manifest, such as the hashes of configuration and corpus.
        keep: checkpoints that stay, this one included. Those of a later step go too: they could not be resumed from.
        spared: step of one that stays besides, if it is there.

    Raises:
        FolderError: it could not be made durable (disk full, I/O error, no permission...); every checkpoint that was
            there before is still there.
    """
    _check_request(step, contents, keep)
    files.make_folder(folder)
    warnings = clean(folder)
    final = folder / f"step-{step:08d}"
    sizes = _sizes(step, contents, facts)
    with files.explained("save the checkpoint", final, sum(sizes)):
        files.need_space(folder, sizes)
        temporary = files.make_temporary_folder(folder)
        try:
            _fill(temporary, step, contents, facts)
            _make_way(folder, final, step)
            files.rename(temporary, final)
        except BaseException:
            with contextlib.suppress(OSError):
                files.remove_tree(temporary)
            raise
        files.sync_folder(folder)
    return Saved(final, (*warnings, *_purge(folder, step, keep, spared)))


def newest(folder: Path) -> tuple[Checkpoint | None, list[Damaged]]:
    """The complete checkpoint of the highest step, and the damaged ones above it, newest first, to be warned about.

    None together with damaged ones means that all are damaged: to start anew would be to lose the training silently.

    Raises:
        FolderError: the folder cannot be listed.
    """
    damaged: list[Damaged] = []
    for found in scan(folder):
        if isinstance(found, Checkpoint):
            return found, damaged
        damaged.append(found)
    return None, damaged


def scan(folder: Path) -> Iterator[Checkpoint | Damaged]:
    """All checkpoints from the newest to the oldest, each verified when it is asked for (its files are read once).

    Raises:
        FolderError: the folder cannot be listed.
    """
    for step, _, name in sorted(_published(folder), reverse=True):
        try:
            yield _verify(folder / name, step)
        except FolderError as error:
            yield Damaged(folder / name, str(error))


def clean(folder: Path) -> list[str]:
    """Delete unfinished and discarded checkpoints; what resists is reported and tried again at the next save.

    Raises:
        FolderError: the folder cannot be listed.
    """
    warnings = []
    for name in files.list_folder(folder):
        if files.is_temporary(name) or name.startswith(".trash-"):
            try:
                files.remove_tree(folder / name)
            except OSError as error:
                warnings.append(f"cannot delete {shown(folder / name)}: {error.strerror}")
    return warnings


def _check_request(step: int, contents: Mapping[str, Chunks], keep: int) -> None:
    if not 0 <= step < _MAX_STEP or keep < 1:
        raise FolderError(f"a checkpoint of step {step}, keeping {keep}: step must be 0 or more and keep 1 or more")
    for name in contents:
        if not _FILE.fullmatch(name) or name == MANIFEST:
            raise FolderError(f"{name!r} is not a name for a file of a checkpoint")


def _sizes(step: int, contents: Mapping[str, Chunks], facts: Mapping[str, str]) -> list[int]:
    sizes = {name: sum(len(chunk) for chunk in chunks) for name, chunks in contents.items()}
    manifest = _encode_manifest(step, {name: Written(size, "0" * 64) for name, size in sizes.items()}, facts)
    if len(manifest) > _MAX_MANIFEST:
        raise FolderError(f"the manifest of step {step} would have {len(manifest):,} bytes; at most {_MAX_MANIFEST:,}")
    return [*sizes.values(), len(manifest)]


def _fill(temporary: Path, step: int, contents: Mapping[str, Chunks], facts: Mapping[str, str]) -> None:
    written = {name: files.write_new(temporary / name, chunks) for name, chunks in contents.items()}
    files.write_new(temporary / MANIFEST, [_encode_manifest(step, written, facts)])
    files.sync_folder(temporary)


def _encode_manifest(step: int, written: Mapping[str, Written], facts: Mapping[str, str]) -> bytes:
    manifest: dict[str, records.Json] = {
        "format_version": FORMAT_VERSION,
        "step": step,
        "files": {name: {"size": file.size, "sha256": file.sha256} for name, file in written.items()},
        "facts": dict(facts),
    }
    return records.encode({**manifest, "sha256": records.digest(manifest)})


def _make_way(folder: Path, final: Path, step: int) -> None:
    """Let an earlier save of the same step step aside; of two earlier ones only a sound one survives."""
    names, aside = files.list_folder(folder), folder / f"{final.name}~"
    if final.name not in names:
        return
    if aside.name in names:
        worse = aside if _is_sound(final, step) else final
        files.rename(worse, folder / _trash_name())
        if worse == final:
            return
    files.rename(final, aside)


def _is_sound(path: Path, step: int) -> bool:
    try:
        _verify(path, step)
    except FolderError:
        return False
    return True


def _purge(folder: Path, step: int, keep: int, spared: int | None) -> list[str]:
    """Delete what is not to be kept: first its name, then its content, so that no half-deleted one can be found."""
    try:
        _discard(folder, step, keep, spared)
        return clean(folder)
    except FolderError as error:
        return [str(error)]


def _discard(folder: Path, step: int, keep: int, spared: int | None) -> None:
    published = _published(folder)
    kept = {step, spared, *sorted({other for other, _, _ in published if other < step}, reverse=True)[: keep - 1]}
    steps = {other for other, original, _ in published if original}
    old = [name for other, original, name in published if other not in kept or (not original and other in steps)]
    with files.explained("delete old checkpoints in", folder):
        for name in old:
            files.rename(folder / name, folder / _trash_name())
        if old:
            files.sync_folder(folder)


def _trash_name() -> str:
    return f".trash-{secrets.token_hex(8)}"


def _published(folder: Path) -> list[tuple[int, bool, str]]:
    """(step, whether it is the original and not one that stepped aside, name) of all that claim to be complete."""
    matches = [(_STEP.fullmatch(name), name) for name in files.list_folder(folder)]
    return [(int(match[1]), not match[2], name) for match, name in matches if match]


def _verify(path: Path, step: int) -> Checkpoint:
    manifest = _read_manifest(path / MANIFEST)
    if manifest["step"] != step:
        raise FolderError(f"{shown(path)} is damaged: its manifest is that of step {manifest['step']}")
    for name, expected in manifest["files"].items():
        found = files.measure(path / name)
        if found.size != expected.size:
            raise FolderError(f"{shown(path / name)} is damaged: {found.size:,} bytes, not {expected.size:,}")
        if found.sha256 != expected.sha256:
            raise FolderError(f"{shown(path / name)} is damaged: its SHA-256 is not that of the manifest")
    return Checkpoint(path, step, manifest["files"], manifest["facts"])


def _read_manifest(path: Path) -> dict[str, Any]:
    data = files.read_bytes(path, _MAX_MANIFEST)
    manifest = records.decode(data, shown(path))
    if not isinstance(manifest, dict) or not isinstance(manifest.get("format_version"), int):
        raise FolderError(f"{shown(path)} is damaged: it is no manifest")
    if manifest["format_version"] > FORMAT_VERSION:
        raise FolderError(f"{shown(path)} has format version {manifest['format_version']}: upgrade dragoman")
    try:
        written = {name: Written(file["size"], file["sha256"]) for name, file in manifest["files"].items()}
        intact = data == _encode_manifest(manifest["step"], written, manifest["facts"])
    except (KeyError, TypeError, AttributeError, ValueError, FolderError):
        intact = False
    if not intact or not all(_FILE.fullmatch(name) for name in written):
        raise FolderError(f"{shown(path)} is damaged: its own SHA-256 does not fit")
    return {**manifest, "files": written}
