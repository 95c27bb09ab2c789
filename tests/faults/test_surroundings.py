"""What changes around a training: the files of its corpus (A15), and the clock (A16)."""

import ast
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cases import LIGHT, Case
from command import PYTHON_M, Nursery, settings
from dragoman.errors import DataError
from dragoman.store import records
from dragoman.train import journal
from goals import Trials
from trainings import Silent, corpus, fingerprint, prepared_in

Files = tuple[Path, Path]

SOURCES = sorted((Path(__file__).parents[2] / "src").rglob("*.py"))


@pytest.fixture(scope="module")
def case(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> Case:
    """A training that lasts long enough to be interfered with."""
    return Case(nursery, tmp_path_factory.mktemp("case"), 60, {"train__steps": 20, "train__validate_every": 10})


# The corpus ----------------------------------------------------------------------------------------------------------


def append(path: Path) -> None:
    """A line more."""
    with path.open("a") as file:
        file.write("1 2\n")


def truncate(path: Path) -> None:
    """Ten lines less, in place."""
    lines = path.read_bytes().splitlines(keepends=True)
    os.truncate(path, sum(map(len, lines[:-10])))


def replace(path: Path) -> None:
    """Another file under the name."""
    other = path.with_name(f"{path.name}.new")
    other.write_bytes(b"".join(reversed(path.read_bytes().splitlines(keepends=True))))
    other.replace(path)


def reword(path: Path) -> None:
    """Another last line, of the same length."""
    with path.open("r+b") as file:
        file.seek(-2, os.SEEK_END)
        file.write(b"0\n" if path.read_bytes()[-2:-1] != b"0" else b"1\n")


def touch(path: Path) -> None:
    """The same content, another time."""
    os.utime(path, (1e9, 1e9))


EDITS: tuple[Callable[[Path], None], ...] = (append, truncate, replace, touch)


def edited_between(case: Case, root: Path, files: Files, edit: Callable[[Path], None], _: random.Random) -> None:
    """Between two commands."""
    child = case.start(root, files=files, talkative=True)
    child.wait_for("update 5 of")
    child.kill(signal.SIGTERM)
    assert child.wait() == 143
    for path in files:
        edit(path)
    see_to_the_end(case, root, files, edit)


def edited_while_training(case: Case, root: Path, files: Files, edit: Callable[[Path], None], _: random.Random) -> None:
    """The command that runs reads its own copy of the ids."""
    child = case.start(root, files=files, talkative=True)
    child.wait_for("update 5 of")
    for path in files:
        edit(path)
    assert child.wait() == 0, child.log.read_text()
    case.check(root)
    see_to_the_end(case, root, files, edit)


def see_to_the_end(case: Case, root: Path, files: Files, edit: Callable[[Path], None]) -> None:
    """Other data are refused until they are accepted; then it is still trained on what was read first."""
    child = case.start(root, files=files)
    if edit is not touch:
        assert child.wait() == 2
        assert "the data are not those" in child.log.read_text().splitlines()[-1]
        child = case.start(root, "--accept-changed-data", files=files)
    assert child.wait() == 0, child.log.read_text()
    case.check(root)


def edited_while_reading(
    case: Case, root: Path, files: Files, edit: Callable[[Path], None], draws: random.Random
) -> None:
    """Before the first update: it stops with a message, or trains on exactly the files that it says it has read."""
    child = case.start(root, files=files)
    time.sleep(draws.uniform(0.0, 0.15 * case.seconds))
    for path in files:
        edit(path)
    code, log = child.wait(), child.log.read_text()
    assert code == 0 or (code == 2 and log.splitlines()[-1].startswith("dragoman: ")), log
    assert "Traceback" not in log
    fresh = root.with_name(f"{root.name}-fresh")
    assert case.start(fresh, files=files).wait() == 0
    told = [entry["sha256"] for entry in records.read(root / "provenance.json")["data"]["train"]] if code == 0 else []
    after = [entry["sha256"] for entry in records.read(fresh / "provenance.json")["data"]["train"]]
    if code == 0 and told != after:
        case.check(root)
    else:
        assert case.start(root, files=files).wait() == 0
        assert fingerprint(root) == fingerprint(fresh)


MOMENTS = (edited_between, edited_while_training, edited_while_reading)


@pytest.mark.goal("A15")
@pytest.mark.slow
def test_an_edited_corpus(case: Case, trials: Trials, tmp_path: Path) -> None:
    """Every edit at every moment."""
    for trial in trials:
        with trial:
            edit, moment = EDITS[trial.number % 4], MOMENTS[trial.number % 3]
            folder = tmp_path / str(trial.number)
            folder.mkdir()
            src, tgt = (Path(shutil.copy(path, folder)) for path in case.files)
            moment(case, folder / "model", (src, tgt), edit, trial.draws)


class Editor(Silent):
    """Edits a file when it hears a message."""

    def __init__(self, moment: str, path: Path, edit: Callable[[Path], None]) -> None:
        super().__init__()
        self.moment, self.path, self.edit = moment, path, edit

    def message(self, text: str) -> None:
        """This one?"""
        super().message(text)
        if text.startswith(self.moment):
            self.edit(self.path)


@pytest.mark.goal("A15")
@pytest.mark.parametrize("moment", ["reading the corpus", "learning a vocabulary", "writing the ids"])
@pytest.mark.parametrize("edit", [reword, replace])
def test_edited_between_two_passes(moment: str, edit: Callable[[Path], None], tmp_path: Path) -> None:
    """The vocabulary would be of other lines than the ids, and the provenance of yet others."""
    files = corpus(tmp_path, 40)
    with pytest.raises(DataError, match="train.src changed while it was read; start again"):
        prepared_in(tmp_path / "m", files, files, Editor(moment, files[0], edit))
    prepared_in(tmp_path / "m", files, files)


# The clock -----------------------------------------------------------------------------------------------------------


TIMES_OF_DAY = ("time.time", "time.time_ns", "time.localtime", "datetime.now", "datetime.datetime.now", "date.today")


@pytest.mark.goal("A16")
def test_nothing_asks_for_the_time_of_day() -> None:
    """Only clocks that never jump are asked."""
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute):
                assert ast.unparse(node) not in TIMES_OF_DAY, path
            assert not (isinstance(node, ast.ImportFrom) and node.module == "time"), path


def check_times(root: Path) -> None:
    """No time is negative, and none is longer than it can have been."""
    state = records.read(max((root / "training" / "checkpoints").glob("step-*")) / "state.json")
    assert 0 < state["counters"]["seconds"] < 1000
    for event in journal.read(root / "journal.jsonl"):
        assert event.get("seconds", 0) >= 0
        assert event.get("tokens_per_second", 1) > 0


@pytest.mark.goal("A16")
def test_a_time_of_day_that_jumps(case: Case, trials: Trials, tmp_path: Path) -> None:
    """Between 1970 and 2100, each time that Python is asked."""
    for trial in trials:
        with trial:
            root = tmp_path / str(trial.number)
            child = case.start(root, clock=trial.draws.randrange(10**6))
            assert child.wait() == 0, child.log.read_text()
            case.check(root)
            check_times(root)


JUMPS = ("+1h", "-1h", "@1970-01-02 00:00:00", "@2038-01-19 03:14:00")


@pytest.mark.goal("A16")
@pytest.mark.slow
@pytest.mark.parametrize("jump", JUMPS)
def test_a_system_clock_that_jumps(case: Case, tmp_path: Path, jump: str) -> None:
    """For all of the process, C++ too, in the middle of the training."""
    if not shutil.which("faketime"):
        pytest.skip("no faketime")
    root, setting = tmp_path / "model", tmp_path / "time"
    setting.write_text("+0\n")
    environment: dict[str, Any] = {
        **os.environ,
        "FAKETIME_TIMESTAMP_FILE": str(setting),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    train = [*PYTHON_M, "train", *case.files, "--valid", *case.files, "--out", root]
    command = ["faketime", "-f", "+0", *train, *settings(**{**LIGHT, **case.values})]
    with subprocess.Popen(list(map(str, command)), stderr=subprocess.PIPE, env=environment, text=True) as process:
        assert process.stderr is not None
        log = ""
        while "update 1 of" not in log:
            log += process.stderr.readline()
            assert process.poll() is None, log
        setting.write_text(f"{jump}\n")
        log += process.stderr.read()
    assert process.returncode == 0, log
    case.check(root)
    check_times(root)
