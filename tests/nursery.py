"""A process that imports everything once and forks a child for each command it is asked to run; see `command.Nursery`.

Requests and answers are lines: ``{"start": argv, "log": path}`` gives a process id, ``{"wait": pid}`` an exit code.
"""

import json
import os
import signal
import sys

import matplotlib.backends.backend_agg
import matplotlib.figure  # noqa: F401
import torch
import torch._dynamo  # what the first optimizer of a process imports, in seconds

import dragoman.train.finish
import dragoman.train.loop  # noqa: F401
from dragoman.cli.main import run


def become(argv: list[str], log: str) -> None:
    """Be the command."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1):
        os.dup2(nothing, descriptor)
    os.dup2(os.open(log, os.O_WRONLY | os.O_APPEND), 2)
    sys.argv = argv
    code = 0
    try:
        run()
    except SystemExit as leave:
        code = int(leave.code or 0)
    finally:
        sys.stderr.flush()
        os._exit(code)


def main() -> None:
    """Serve until standard input ends."""
    torch.set_num_threads(1)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for line in sys.stdin:
        request = json.loads(line)
        if "wait" in request:
            _, status = os.waitpid(request["wait"], 0)
            answer = os.waitstatus_to_exitcode(status)
        else:
            answer = os.fork()
            if answer == 0:
                become(request["start"], request["log"])
        sys.stdout.write(f"{answer}\n")
        sys.stdout.flush()


main()
