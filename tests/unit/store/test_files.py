import errno
import os
from pathlib import Path
from typing import NoReturn

import pytest

from dragoman.errors import FolderError
from dragoman.store import files


def fail_with(number: int) -> NoReturn:
    raise OSError(number, os.strerror(number))


def test_write_atomic_replaces_and_leaves_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    files.write_atomic(path, b"old")
    files.write_atomic_chunks(path, [b"ne", bytearray(b"w"), memoryview(b"er"), b""])
    assert path.read_bytes() == b"newer"
    assert [other.name for other in tmp_path.iterdir()] == ["config.toml"]


def test_failed_write_keeps_the_old_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "config.toml"
    files.write_atomic(path, b"old")
    monkeypatch.setattr(files.os, "fsync", lambda _: fail_with(errno.EIO))
    with pytest.raises(FolderError, match=r"cannot write .*config\.toml: the disk reports an error"):
        files.write_atomic(path, b"new")
    assert path.read_bytes() == b"old"
    assert [other.name for other in tmp_path.iterdir()] == ["config.toml"]


def test_full_disk_is_noticed_before_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free = os.statvfs_result((4096, 4096, 1000, 1, 1, 0, 0, 0, 0, 255))
    monkeypatch.setattr(files.os, "statvfs", lambda _: free)
    files.write_atomic(tmp_path / "small", b"x" * 4096)
    with pytest.raises(FolderError, match=r"big \(4,097 bytes are needed\): the disk is full; free some space"):
        files.write_atomic(tmp_path / "big", b"x" * 4097)


def test_file_systems_that_do_not_know_their_size_are_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files.os, "statvfs", lambda _: os.statvfs_result((0,) * 10))
    files.write_atomic(tmp_path / "file", b"x")


def test_folders_that_cannot_be_synced_are_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files.os, "fsync", lambda _: fail_with(errno.EINVAL))
    files.sync_folder(tmp_path)


def test_a_write_that_takes_nothing_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files.os, "write", lambda _, data: 0)
    with pytest.raises(FolderError, match="the disk reports an error"):
        files.write_atomic(tmp_path / "file", b"x")


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOSPC, r"\(9 bytes are needed\): the disk is full"),
        (errno.EDQUOT, r"\(9 bytes are needed\): your disk quota is used up"),
        (errno.EACCES, "no permission"),
        (errno.EROFS, "read-only"),
        (errno.ENAMETOOLONG, "too long"),
        (errno.ETIMEDOUT, "timed out"),
    ],
)
def test_explained_says_what_where_why(number: int, words: str) -> None:
    with pytest.raises(FolderError, match=f"cannot write /model.*{words}"), files.explained("write", Path("/model"), 9):
        fail_with(number)


def test_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(FolderError, match="it does not exist"):
        files.write_atomic(tmp_path / "no" / "file", b"x")


def test_make_folder(tmp_path: Path) -> None:
    files.make_folder(tmp_path / "a" / "b")
    files.make_folder(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(FolderError, match="a part of the path is a file"):
        files.make_folder(tmp_path / "file")
    with pytest.raises(FolderError, match="a part of the path is a file"):
        files.make_folder(tmp_path / "file" / "b")


def test_make_folder_that_somebody_else_makes_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.mkdir

    def make_both(path: Path) -> None:
        real(path)
        fail_with(errno.EEXIST)

    monkeypatch.setattr(files.os, "mkdir", make_both)
    files.make_folder(tmp_path / "a")
    assert (tmp_path / "a").is_dir()


def test_remove_tree_does_not_follow_links(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").write_bytes(b"x")
    (tmp_path / "gone" / "deep").mkdir(parents=True)
    (tmp_path / "gone" / "link").symlink_to(tmp_path / "kept")
    (tmp_path / "gone" / "deep" / "file").write_bytes(b"x")
    files.remove_tree(tmp_path / "gone")
    assert not (tmp_path / "gone").exists()
    assert (tmp_path / "kept" / "file").exists()


def test_list_folder(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "a").write_bytes(b"")
    assert files.list_folder(tmp_path) == ["a", "b"]
    assert files.list_folder(tmp_path / "missing") == []
    with pytest.raises(FolderError, match="cannot list"):
        files.list_folder(tmp_path / "a")


def test_clean_leftovers_spares_the_living(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dead, alive, forbidden, own = 101, 102, 103, os.getpid()

    def kill(pid: int, _: int) -> None:
        if pid == dead:
            raise ProcessLookupError
        if pid == forbidden:
            raise PermissionError

    monkeypatch.setattr(files.os, "kill", kill)
    for pid in (dead, alive, forbidden, own):
        (tmp_path / f".tmp-{pid}-00ff00ff").mkdir()
    (tmp_path / f".tmp-{dead}-0a").write_bytes(b"x")
    (tmp_path / ".tmp-notes").write_bytes(b"x")
    files.clean_leftovers(tmp_path)
    left = {".tmp-102-00ff00ff", ".tmp-103-00ff00ff", ".tmp-notes"}
    assert {path.name for path in tmp_path.iterdir()} == left


def test_temporary_names_are_known_and_differ() -> None:
    names = {files.temporary_name() for _ in range(100)}
    assert len(names) == 100
    assert all(files.is_temporary(name) for name in names)
    assert not files.is_temporary("step-00000001")


def test_read_bytes_within_a_limit(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    assert files.read_bytes(tmp_path / "file", 5) == b"12345"
    with pytest.raises(FolderError, match="has 5 bytes; at most 4 are read"):
        files.read_bytes(tmp_path / "file", 4)


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero"), tmp_path):
        with pytest.raises(FolderError, match="not a regular file"):
            files.read_bytes(path, 10)
    with pytest.raises(FolderError, match="it does not exist"):
        files.read_bytes(tmp_path / "missing", 10)


def test_a_file_cut_while_it_is_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    with files.reading(tmp_path / "file") as source:
        (tmp_path / "file").write_bytes(b"12")
        with pytest.raises(FolderError, match="ends early"):
            source.read_exactly(5)


def test_measure_reads_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "PIECE", 4)
    for size in (0, 3, 4, 9):
        written = files.write_new(tmp_path / str(size), [b"abcdefghi"[:size]])
        assert written.size == size
        assert files.measure(tmp_path / str(size)) == written


def test_check_writable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files.check_writable(tmp_path)
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(files.os, "open", lambda *_: fail_with(errno.EACCES))
    with pytest.raises(FolderError, match=r"cannot write into .*: no permission"):
        files.check_writable(tmp_path)


def test_names_that_are_not_utf8_are_shown(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"mod\xe8le")
    assert files.shown(path) == f"{tmp_path}/mod\\xe8le"
    with pytest.raises(FolderError) as caught:
        files.read_bytes(path, 10)
    str(caught.value).encode("utf-8")
