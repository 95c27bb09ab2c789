"""How an error leaves the house."""

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from command import call
from dragoman.cli import main
from dragoman.errors import DataError


def failing(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Make every command fail."""

    def fail(arguments: list[str]) -> None:
        raise error

    monkeypatch.setattr(main, "_dispatch", fail)


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (DataError("line 1\nline 2"), 2, "dragoman: line 1 line 2\n"),
        (OSError(errno.ENOSPC, "No space left on device", "/x/y"), 2, "dragoman: /x/y: No space left on device\n"),
        (OSError("closed"), 2, "dragoman: input or output: closed\n"),
        (MemoryError(), 2, "dragoman: out of memory; lower data.batch_tokens or choose a smaller model.preset\n"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), 2, "dragoman: out of memory; "),
        (KeyboardInterrupt(), 130, "dragoman: interrupted\n"),
    ],
)
def test_one_line_and_a_code(monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, said: str) -> None:
    failing(monkeypatch, error)
    ran = call("check")
    assert (ran.code, ran.out) == (code, "")
    assert ran.err.startswith(said)
    assert ran.err.count("\n") == 1


def test_our_own_mistakes_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, RuntimeError("a bug"))
    with pytest.raises(RuntimeError, match="a bug"):
        call("check")


@pytest.mark.parametrize("arguments", [[], ["--help"]])
def test_without_a_command_it_helps(arguments: list[str]) -> None:
    ran = call(*arguments)
    assert (ran.code, ran.err) == (0, "")
    assert "translate" in ran.out


def test_version() -> None:
    assert call("--version").out.startswith("dragoman ")


TWO: dict[str, tuple[str, str]] = {
    "train a b --valid c d --out e": ("train a b --valid c --valid d --out e", "two files"),
    "train a b --valid c --valid d": ("train a b --valid c --valid d", "as it is"),
    "check a b --valid c --test d e": ("check a b --valid c --test d --test e", "one file, then an option"),
    "check a b --test d e --valid f g h": ("check a b --test d --test e --valid f --valid g h", "two of three"),
    "check a": ("check a", "nothing to spread"),
    "train --valid one.tsv a b": ("train --valid one.tsv a b", "a file with both sides is alone"),
    "train --valid one.jsonl.gz two.tmx": ("train --valid one.jsonl.gz two.tmx", "packed or not"),
    "train --valid c d a b": ("train --valid c --valid d a b", "before the corpus"),
}


@pytest.mark.parametrize("given", TWO, ids=[why for _, why in TWO.values()])
def test_a_pair_of_files_after_one_option(given: str) -> None:
    spread: Callable[[list[str]], list[str]] = main.spread
    assert spread(given.split()) == TWO[given][0].split()


@pytest.mark.parametrize("command", ["train --out m", "check"])
def test_a_corpus_that_lost_a_file_to_an_option(tmp_path: Path, command: str) -> None:
    for name in ("v", "a", "b"):
        (tmp_path / name).write_text("1 2\n")
    ran = call(*command.split(), "--valid", *(tmp_path / name for name in ("v", "a", "b")))
    assert ran.code == 2
    assert f"`--valid` or `--test` took {tmp_path / 'a'}: put the corpus before them" in ran.err
