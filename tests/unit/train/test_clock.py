"""The time of a training that was interrupted."""

import time

import pytest

from dragoman.train.clock import Clock


def test_interruptions_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    clock = Clock()
    now[0] += 7
    assert clock.seconds == 7
    now[0] += 3600
    resumed = Clock()
    now[0] += 2
    resumed.resume(7)
    assert resumed.seconds == 9
