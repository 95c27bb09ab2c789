"""The reliability goals: how often each is attempted, what the attempts are drawn from, and how many went wrong.

``@pytest.mark.goal("A1")`` counts a test as one attempt at row A1 of docs/notes/0010-reliability.md. A test that asks
for ``trials`` makes many attempts, in two sizes: few always, many (marked ``reliability``) in `make test-reliability`;
some rows have a size between them, in `make test-all`.
A seed is drawn for each run and printed; ``DRAGOMAN_SEED`` gives it back, ``DRAGOMAN_TRIAL`` picks a single attempt.
"""

import os
import random
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import pytest


@dataclass(frozen=True)
class Row:
    """A goal, and how many attempts ``trials`` makes at it: always, before a release, and in the slow suite."""

    title: str
    few: int = 1
    many: int = 1
    some: int = 0
    "0: there is no such size."


ROWS = {
    "A1": Row("killed at random instants", 4, 200),
    "A2": Row("killed at a file operation", 4, 1000),
    "A3": Row("power lost", 200, 2000),
    "A4": Row("a file operation fails", 4, 500),
    "A5": Row("tiny disk", 1, 1),
    "A6": Row("damaged checkpoint", 420, 5000),
    "A7": Row("resumed at an update", 8, 120, 40),
    "A8": Row("resumed under any settings", 12, 192),
    "A9": Row("accumulation", 10, 1000),
    "A10": Row("several processes compute the same"),
    "A11": Row("one of several processes dies", 20, 100),
    "A12": Row("two starts at once", 1, 20),
    "A13": Row("not finite", 4, 200),
    "A14": Row("out of memory", 2, 100),
    "A15": Row("corpus edited", 12, 12),
    "A16": Row("clock jumps", 1, 10),
    "A17": Row("signals", 2, 300, 50),
    "A18": Row("same again", 1, 20),
    "A20": Row("soak"),
}


@dataclass
class Trial:
    """One attempt, to be entered as a context. What goes wrong inside is noted, and the next one follows."""

    trials: "Trials"
    number: int
    draws: random.Random

    def __enter__(self) -> Self:
        self.trials.made[0] += 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if not isinstance(error, Exception):
            return False
        self.trials.made[1] += 1
        story = "".join(traceback.format_exception(error))
        self.trials.stories.append(f"DRAGOMAN_SEED={self.trials.seed} DRAGOMAN_TRIAL={self.number}\n{story}")
        return True


@dataclass
class Trials:
    """The attempts of one test: ``for trial in trials: with trial: ...``."""

    row: str
    count: int
    seed: str
    made: list[int] = field(default_factory=lambda: [0, 0])
    "Attempts, and bad ones."
    stories: list[str] = field(default_factory=list)

    def __iter__(self) -> Iterator[Trial]:
        only = int(os.environ.get("DRAGOMAN_TRIAL", 0))
        for number in [only] if only else range(1, self.count + 1):
            yield Trial(self, number, random.Random(f"{self.seed} {self.row} {number}"))
        if self.stories:
            pytest.fail("\n".join([*self.stories[:5], f"{self.made[1]} of {self.made[0]} went wrong"]), pytrace=False)

    def places(self, total: int) -> Iterator[tuple[Trial, int]]:
        """Attempts with a place of 1 to ``total`` each: every place if there are attempts enough, or else any."""
        every, self.count = self.count >= total, min(self.count, total)
        for trial in self:
            yield trial, trial.number if every else trial.draws.randint(1, total)


@pytest.fixture
def trials(request: pytest.FixtureRequest, extent: str) -> Trials:
    """The attempts that a test makes at the goal it is marked with."""
    marker = request.node.get_closest_marker("goal")
    row = ROWS[marker.args[0]]
    found = Trials(marker.args[0], getattr(row, extent), os.environ["DRAGOMAN_SEED"])
    request.node.user_properties.append(("trials", found.made))
    return found


def pytest_configure(config: pytest.Config) -> None:
    """Draw a seed; the workers that share the tests inherit it."""
    os.environ.setdefault("DRAGOMAN_SEED", str(time.time_ns() % 2**32))


def pytest_report_header() -> str:
    """The seed."""
    return f"DRAGOMAN_SEED={os.environ['DRAGOMAN_SEED']}"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The sizes of each test that makes many attempts."""
    if "extent" in metafunc.fixturenames:
        goal = metafunc.definition.get_closest_marker("goal")
        some = [pytest.param("some", marks=pytest.mark.slow)] if goal and ROWS[goal.args[0]].some else []
        metafunc.parametrize("extent", ["few", *some, pytest.param("many", marks=pytest.mark.reliability)])


def is_wanted(config: pytest.Config) -> bool:
    """Whether ``-m reliability`` was asked for."""
    asked = config.option.markexpr
    return "reliability" in asked and "not reliability" not in asked


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """``-m reliability`` also takes the tests of goals that have one size; without it nothing takes hours."""
    wanted = is_wanted(config)
    for item in items:
        goal = item.get_closest_marker("goal")
        if goal:
            item.user_properties.append(("goal", goal.args[0]))
        if wanted and goal and "extent" not in getattr(item, "fixturenames", ()):
            item.add_marker("reliability")
    if not wanted:
        long = [item for item in items if item.get_closest_marker("reliability")]
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if item not in set(long)]


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """The table of attempts."""
    if not is_wanted(config):
        return
    stats = terminalreporter.stats
    reports = (report for how in ("passed", "failed", "error", "skipped") for report in stats.get(how, []))
    attempts, bad, skipped = tally(reports)
    terminalreporter.section(f"reliability, DRAGOMAN_SEED={os.environ['DRAGOMAN_SEED']}")
    for name, row in ROWS.items():
        note = f"  {skipped[name]} skipped" if skipped[name] else ""
        terminalreporter.line(f"{name:4} {row.title:36} {attempts[name]:6} attempts {bad[name]:4} bad{note}")


def tally(reports: Iterator[Any]) -> tuple[Counter[str], Counter[str], Counter[str]]:
    """Attempts, bad attempts and skipped tests of each row."""
    attempts, bad, skipped = Counter[str](), Counter[str](), Counter[str]()
    for report in reports:
        known = dict(report.user_properties)
        if "goal" not in known or (report.when != "call" and report.passed):
            continue
        row = known["goal"]
        made, wrong = known.get("trials", (0, 0))
        skipped[row] += report.skipped
        attempts[row] += made or (not report.skipped)
        bad[row] += max(wrong, report.failed)
    return attempts, bad, skipped
