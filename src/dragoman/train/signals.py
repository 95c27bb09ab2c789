"""The signals that stop a training without losing anything."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def caught() -> Iterator[Callable[[], int]]:
    """Until its end, note the signals that ask a program to stop; what it gives tells the first of them, or 0.

    A second one kills at once. Those that were ignored before (`nohup`) stay ignored.
    """
    received: list[int] = []
    wanted = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    watched = [number for number in wanted if signal.getsignal(number) is not signal.SIG_IGN]

    def note(number: int, _: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        if received:
            signal.raise_signal(number)
        received.append(number)

    before = {number: signal.signal(number, note) for number in watched}
    try:
        yield lambda: received[0] if received else 0
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
