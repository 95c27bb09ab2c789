"""One signal asks, the second one kills."""

import os
import signal
from collections.abc import Sequence

import pytest

from dragoman.train.signals import caught


def ended(numbers: Sequence[int], ignored: int = 0) -> int:
    """How a process ends that gets these signals: negative if one kills it, else the signal that it was told of."""
    pid = os.fork()
    if not pid:
        if ignored:
            signal.signal(ignored, signal.SIG_IGN)
        with caught() as stop:
            for number in numbers:
                os.kill(os.getpid(), number)
            os._exit(stop())
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_one_asks(number: int) -> None:
    assert ended([number]) == number


@pytest.mark.parametrize("first", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_second_one_kills(first: int, second: int) -> None:
    assert ended([first, second]) == -second


def test_what_was_ignored_stays_ignored() -> None:
    assert ended([signal.SIGHUP], ignored=signal.SIGHUP) == 0
    assert ended([signal.SIGHUP, signal.SIGTERM], ignored=signal.SIGHUP) == signal.SIGTERM


def test_afterwards_they_mean_what_they_meant() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with caught() as stop:
        assert signal.getsignal(signal.SIGTERM) is not before
        assert stop() == 0
    assert signal.getsignal(signal.SIGTERM) is before
