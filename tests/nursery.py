"""A process that imports everything once and forks a child for each command it is asked to run; see `command.Nursery`.

Requests and answers are lines. ``{"start": argv, "log": path, "conditions": {...}}`` gives a process id; what
conditions there are says `conditions.impose`. ``{"wait": pid, "patience": seconds}`` gives an exit code.
"""

import json
import os
import signal
import sys
import time
import traceback
from typing import Any

import matplotlib.backends.backend_agg
import matplotlib.figure  # noqa: F401
import sacrebleu  # noqa: F401
import torch
import torch._dynamo  # what the first optimizer of a process imports, in seconds

import dragoman.cli.progress
import dragoman.train.finish
import dragoman.train.length
import dragoman.train.loop  # noqa: F401
from conditions import impose
from dragoman.cli.main import run


def become(argv: list[str], log: str, conditions: dict[str, Any]) -> None:
    """Be the command; under a watched disk its last words are how many operations that saw."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1):
        os.dup2(nothing, descriptor)
    os.dup2(os.open(log, os.O_WRONLY | os.O_APPEND), 2)
    sys.argv = argv
    code = 0
    disk = impose(**conditions)
    try:
        run()
    except SystemExit as leave:
        code = int(leave.code or 0)
    except BaseException:
        traceback.print_exc()
        code = 1
    finally:
        if disk.root:
            sys.stderr.write(f"file operations: {disk.count}\n")
        sys.stderr.flush()
        os._exit(code)


def wait(pid: int, patience: float) -> int:
    """The exit code of a child; one that takes too long is killed."""
    deadline = time.monotonic() + patience
    while True:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.002)


def main() -> None:
    """Serve until standard input ends."""
    torch.set_num_threads(1)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for line in sys.stdin:
        request = json.loads(line)
        if "wait" in request:
            answer = wait(request["wait"], request["patience"])
        else:
            answer = os.fork()
            if answer == 0:
                become(request["start"], request["log"], request["conditions"])
        sys.stdout.write(f"{answer}\n")
        sys.stdout.flush()


main()
