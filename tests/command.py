"""How the tests call the command line: in this process (cheap), or in processes of their own that can be killed."""

import contextlib
import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from unittest import mock

from dragoman.cli.main import run

TESTS = Path(__file__).parent
PYTHON_M = (sys.executable, "-m", "dragoman")
PATIENCE = 300.0
"""Seconds after which a process that does not answer is given up; generous, for machines with other things to do."""


@dataclass(frozen=True)
class Ran:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """Standard output, cut at line feeds and nowhere else."""
        return self.out.removesuffix("\n").split("\n") if self.out else []

    @property
    def json(self) -> Any:
        """Standard output, a line of JSON each."""
        return [json.loads(line) for line in self.lines]


def call(*arguments: object, stdin: bytes = b"") -> Ran:
    """Run the command line in this process."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", newline="\n", write_through=True) for _ in range(2))
    arrives = io.TextIOWrapper(io.BufferedReader(io.BytesIO(stdin)), "utf-8")
    code = 0
    with mock.patch.multiple(sys, argv=["dragoman", *map(str, arguments)], stdin=arrives, stdout=out, stderr=err):
        try:
            run()
        except SystemExit as leave:
            code = int(leave.code or 0)
    texts = (stream.buffer.getvalue().decode() for stream in (out, err))
    return Ran(code, *texts)


def done(*arguments: object, stdin: bytes = b"") -> Ran:
    """As `call`, of a command that must succeed."""
    ran = call(*arguments, stdin=stdin)
    assert ran.code == 0, ran.err
    return ran


def spawn(*arguments: object, **options: Any) -> "subprocess.Popen[bytes]":
    """The command line in a process of its own, its three streams being pipes."""
    pipe = subprocess.PIPE
    return subprocess.Popen([*PYTHON_M, *map(str, arguments)], stdin=pipe, stdout=pipe, stderr=pipe, **options)


@dataclass(frozen=True)
class Child:
    """A command in a process forked from a `Nursery`."""

    pid: int
    log: Path
    "Its standard error; standard output is thrown away."
    nursery: "Nursery"

    def kill(self, number: int) -> None:
        """Send it a signal; it may be dead already."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def wait(self) -> int:
        """Its exit code; that of a process ended by a signal is the signal's number, negative.

        It is killed if it takes too long.
        """
        return int(self.nursery.ask({"wait": self.pid, "patience": PATIENCE}))

    def wait_for(self, text: str) -> None:
        """Wait until ``text`` stands in its log."""
        deadline = time.monotonic() + PATIENCE
        while text not in self.log.read_text():
            assert time.monotonic() < deadline, f"no {text!r} in {self.log.read_text()!r}"
            time.sleep(0.001)


class Nursery:
    """A process that has imported everything and forks a child for each command, so that none pays for the imports."""

    def __init__(self) -> None:
        script = (sys.executable, str(TESTS / "nursery.py"))
        self._process = subprocess.Popen(script, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> Self:
        assert self._answer() == "ready\n"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()

    def start(self, log: Path, *arguments: object, **conditions: Any) -> Child:
        """Run a command, under conditions that `conditions.impose` knows; without any there is also a picture."""
        log.touch()
        told = conditions or {"picture": True}
        pid = self.ask({"start": ["dragoman", *map(str, arguments)], "log": str(log), "conditions": told})
        return Child(int(pid), log, self)

    def ask(self, request: dict[str, Any]) -> str:
        """One request, one answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()


def settings(**values: object) -> Iterator[str]:
    """Options for ``section__key=value``."""
    for name, value in values.items():
        yield from ("--set", f"{name.replace('__', '.')}={value}")


def write_lines(path: Path, lines: Sequence[str]) -> Path:
    """A file with ``lines``."""
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")
    return path
