"""`dragoman train` in several processes: killed, stopped and taken up by fewer or more, as if nothing had happened."""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from command import PATIENCE, Child, Nursery, call, settings
from crew import Meeting
from dragoman.store import tensors
from goals import Trials
from trainings import TINY, check_order, corpus, fingerprint

pytestmark = pytest.mark.slow

Files = tuple[Path, Path]

UPDATES = 24
SHORT: dict[str, Any] = {
    **TINY,
    "text__bpe_dropout": 0.2,
    "model__d_model": 32,
    "model__d_ff": 32,
    "train__steps": UPDATES,
    "train__save_every": 5,
    "train__validate_every": 8,
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return corpus(tmp_path_factory.mktemp("corpus"), 60)


@dataclass(frozen=True)
class Team:
    """Workers that train into one folder."""

    children: list[Child]
    meeting: Meeting

    def codes(self) -> list[int]:
        """The exit code of each, once all have ended."""
        return [child.wait() for child in self.children]

    @property
    def told(self) -> list[str]:
        """What each has written."""
        return [child.log.read_text() for child in self.children]


@dataclass(frozen=True)
class Start:
    """Starts teams."""

    nursery: Nursery
    files: Files
    logs: Iterator[Path]

    def __call__(self, out: Path, count: int, *more: object, **values: object) -> Team:
        wanted = settings(**{key: value for key, value in {**SHORT, **values}.items() if value is not None})
        arguments = ("train", *self.files, "--valid", *self.files, "--out", out, *wanted, *more)
        meeting = Meeting.call(count)
        children = [
            self.nursery.start(next(self.logs), *arguments, talkative=True, environment=place)
            for place in meeting.places
        ]
        return Team(children, meeting)


@pytest.fixture
def start(nursery: Nursery, files: Files, tmp_path: Path) -> Start:
    return Start(nursery, files, (tmp_path / f"log{number}" for number in range(1000)))


def weights(out: Path) -> np.ndarray:
    """Of the last checkpoint, in one piece."""
    last = max((out / "training" / "checkpoints").glob("step-*"))
    return np.concatenate([tensor.flatten().numpy() for tensor in read(last / "model.safetensors").values()])


def read(path: Path) -> Any:
    return dict(sorted(tensors.read_tensors(path).items()))


def counters(out: Path) -> Any:
    """Of the last checkpoint."""
    last = max((out / "training" / "checkpoints").glob("step-*"))
    return json.loads((last / "state.json").read_text())["counters"]


def test_a_budget_for_two(start: Start, tmp_path: Path) -> None:
    """It is laid out once, and the clock of the first one ends both after the same update."""
    seconds = 20
    began = time.monotonic()
    team = start(tmp_path / "m", 2, "--budget", f"{seconds}s", train__steps=None, train__warmup_steps=None)
    assert team.codes() == [0, 0], team.told
    assert 0.5 * seconds < time.monotonic() - began < 1.5 * seconds + 10
    assert sum(text.count(f"{seconds} s: ") for text in team.told) == 1
    made = counters(tmp_path / "m")
    assert made["step"] > 10
    assert made["looked"] == made["step"]


@pytest.mark.goal("A10")
def test_two_make_the_updates_of_one_that_accumulates(start: Start, tmp_path: Path) -> None:
    """With dropout they do not draw the same; without, nothing but the order of sums differs."""
    plain = {"model__dropout": 0.0, "train__learning_rate": 1e-3, "train__adam_epsilon": 1e-3}
    plain |= {"train__precision": "float32"}  # what is scaled otherwise has other bfloat16
    two = start(tmp_path / "two", 2, **plain)
    assert two.codes() == [0, 0], two.told
    assert two.told[1] == "", "only the first one talks"
    assert "resuming" not in two.told[0]
    assert start(tmp_path / "one", 1, train__accumulate=2, **plain).codes() == [0]
    ours, theirs = weights(tmp_path / "two"), weights(tmp_path / "one")
    assert np.linalg.norm(ours - theirs) / np.linalg.norm(theirs) < 1e-4
    for key in ("step", "place", "tokens", "lost", "looked"):
        assert counters(tmp_path / "two")[key] == counters(tmp_path / "one")[key]
    check_order(tmp_path / "two")
    assert call("translate", "--model", tmp_path / "two", "1 2").code == 0


def test_another_number_of_workers_goes_on_at_the_same_place(start: Start, tmp_path: Path) -> None:
    """2, then 1, then 3: every update counts the batches that its workers have read."""
    out = tmp_path / "m"
    assert start(out, 2, train__steps=8).codes() == [0, 0]
    assert start(out, 1, train__steps=12).codes() == [0]
    assert start(out, 3, train__steps=UPDATES).codes() == [0, 0, 0]
    one = tmp_path / "one"
    read = 8 * 2 + 4 + (UPDATES - 12) * 3
    assert start(one, 1, train__steps=read, train__validate_every=100).codes() == [0]
    assert counters(out)["place"] == counters(one)["place"]
    check_order(out)


@pytest.mark.goal("A11")
def test_killed_and_taken_up_again(start: Start, trials: Trials, tmp_path: Path) -> None:
    """Any of three, at any instant: the others end soon, one line says why, and the end is the same to the bit."""
    straight = start(tmp_path / "straight", 3)
    assert straight.codes() == [0, 0, 0], straight.told
    wanted = fingerprint(tmp_path / "straight")
    for trial in trials:
        with trial:
            root, victim = tmp_path / str(trial.number), trial.draws.randrange(3)
            team = start(root, 3)
            team.children[0].wait_for(f"update {trial.draws.randint(1, UPDATES - 6)} of")
            time.sleep(trial.draws.uniform(0.0, 0.02))
            team.children[victim].kill(signal.SIGKILL)
            killed = time.monotonic()
            assert team.codes() == [-signal.SIGKILL if rank == victim else 2 for rank in range(3)], team.told
            assert time.monotonic() - killed < 60
            assert sum(text.count("another worker has ended") for text in team.told) == 1, team.told
            assert not any("Traceback" in text for text in team.told), team.told
            again = start(root, 3)
            assert again.codes() == [0, 0, 0], again.told
            assert fingerprint(root) == wanted
            check_order(root)
            shutil.rmtree(root)


@pytest.mark.goal("A11")
def test_one_that_hangs_is_given_up(start: Start, tmp_path: Path) -> None:
    """Stopped, not dead: the others wait for it, but not for long."""
    team = start(tmp_path / "m", 2, train__steps=10_000, train__save_every=50, train__validate_every=9999)
    team.children[0].wait_for("update 60 of")
    team.children[1].kill(signal.SIGSTOP)
    stopped = time.monotonic()
    assert team.children[0].wait() == 2
    assert time.monotonic() - stopped < 60
    assert "a worker has not answered for 45 s; the same command goes on from the last checkpoint" in team.told[0]
    team.children[1].kill(signal.SIGKILL)
    team.children[1].wait()


@pytest.mark.goal("A11")
@pytest.mark.parametrize("victim", [0, 1])
def test_a_signal_to_one_stops_all(start: Start, tmp_path: Path, victim: int) -> None:
    """At the same update, saved; and the end is the same to the bit."""
    assert start(tmp_path / "straight", 2).codes() == [0, 0]
    team = start(tmp_path / "m", 2)
    team.children[0].wait_for("update 6 of")
    team.children[victim].kill(signal.SIGTERM)
    assert team.codes() == [128 + signal.SIGTERM] * 2, team.told
    assert "the same command goes on from there" in team.told[0]
    assert start(tmp_path / "m", 2).codes() == [0, 0]
    assert fingerprint(tmp_path / "m") == fingerprint(tmp_path / "straight")


def test_one_step_back_for_all(start: Start, tmp_path: Path) -> None:
    """At first the decay is so strong that weights change sign and grow, until nothing is finite in any worker."""
    wild = {"train__learning_rate": 10, "train__weight_decay": 0.99, "train__schedule": "plateau"}
    rarely = {"train__warmup_steps": 1, "train__save_every": 1000, "train__validate_every": 1000}
    team = start(tmp_path / "m", 2, **wild, **rarely, train__max_bad_steps=2, train__steps=90)
    assert team.codes() == [0, 0], team.told
    assert team.told[1] == "", "only the first one talks"
    events = [json.loads(line) for line in (tmp_path / "m" / "journal.jsonl").read_text().splitlines()]
    back = [event for event in events if event["event"] == "step back"]
    assert [event["rate_factor"] for event in back] == [0.5, 0.25]
    assert [event["to"] for event in back] == [0, back[0]["step"]]
    assert all("not finite" in event["reason"] for event in back)
    skipped = [event["step"] for event in events if event["event"] == "skipped"]
    assert skipped == [step for event in back for step in (event["step"] - 1, event["step"])]
    ended = counters(tmp_path / "m")
    assert (ended["steps_back"], ended["skipped"]) == (len(back), len(skipped))
    assert np.isfinite(weights(tmp_path / "m")).all()


def test_shards_and_wholes_take_turns(start: Start, tmp_path: Path) -> None:
    """The checkpoint of two halves is one of a whole, and the other way round."""
    plain = {"model__dropout": 0.0, "train__backend": "torch", "train__adam_epsilon": 1e-3}
    out = tmp_path / "m"
    team = start(out, 2, train__steps=8, train__sharded="true", **plain)
    assert team.codes() == [0, 0], team.told
    assert start(out, 3, train__steps=12, **plain).codes() == [0, 0, 0]
    assert start(out, 2, train__steps=16, train__sharded="true", **plain).codes() == [0, 0]
    same = tmp_path / "same"
    assert start(same, 2, train__steps=8, **plain).codes() == [0, 0]
    assert start(same, 3, train__steps=12, **plain).codes() == [0, 0, 0]
    assert start(same, 2, train__steps=16, **plain).codes() == [0, 0]
    ours, theirs = weights(out), weights(same)
    assert np.linalg.norm(ours - theirs) / np.linalg.norm(theirs) < 1e-4
    assert counters(out)["place"] == counters(same)["place"]
    alone = start(out, 1, train__steps=17, train__sharded="true", **plain)
    assert alone.codes() == [2]
    assert "train.sharded needs several workers" in alone.told[0]


def test_sharded_and_stopped(start: Start, tmp_path: Path) -> None:
    values = {"train__backend": "torch", "train__sharded": "true"}
    assert start(tmp_path / "straight", 2, **values).codes() == [0, 0]
    team = start(tmp_path / "m", 2, **values)
    team.children[0].wait_for("update 6 of")
    team.children[1].kill(signal.SIGTERM)
    assert team.codes() == [128 + signal.SIGTERM] * 2, team.told
    assert start(tmp_path / "m", 2, **values).codes() == [0, 0]
    assert fingerprint(tmp_path / "m") == fingerprint(tmp_path / "straight")


def test_an_error_in_the_first_is_told_once(start: Start, files: Files, tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "something").write_text("else")
    team = start(tmp_path / "m", 3)
    assert team.codes() == [2, 2, 2]
    assert "is not a model folder" in team.told[0]
    assert team.told[1:] == ["", ""]


@pytest.mark.goal("A11")
def test_torchrun_starts_a_dead_worker_again(start: Start, files: Files, tmp_path: Path) -> None:
    """With `--max-restarts` the training goes on by itself, and ends in the same bits."""
    assert start(tmp_path / "straight", 2, train__steps=60).codes() == [0, 0]
    out, wanted = tmp_path / "m", settings(**{**SHORT, "train__steps": 60})
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        "2",
        "--max-restarts",
        "2",
    ]
    command += ["-m", "dragoman", "train", *map(str, files), "--valid", *map(str, files)]
    log = tmp_path / "torchrun"
    with open(log, "wb") as file:
        running = subprocess.Popen([*command, "--out", str(out), *wanted], stderr=file, stdout=file)
    deadline = time.monotonic() + PATIENCE
    while not list((out / "training" / "checkpoints").glob("step-0*")) and time.monotonic() < deadline:
        time.sleep(0.005)
    children = [pid for pid in _children(running.pid) if b"dragoman" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    os.kill(random.choice(children), signal.SIGKILL)
    assert running.wait(PATIENCE) == 0, log.read_text()
    said = log.read_text()
    assert re.search(r"resuming after update \d+", said), said
    assert said.count("another worker has ended") <= 1, said
    assert fingerprint(out) == fingerprint(tmp_path / "straight")
    check_order(out)


def _children(parent: int) -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]
