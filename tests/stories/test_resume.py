"""Stopped at any instant and started again, a training ends in the same bits as if nothing had happened."""

import json
import random
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from command import Nursery, Ran, call, settings
from dragoman.data.batch import Batch
from dragoman.errors import ConfigError, FolderError, TrainingError
from dragoman.loss import token_loss
from dragoman.store import checkpoint, lock, tensors
from dragoman.store.folder import ModelFolder
from dragoman.train import step, validation
from dragoman.train.loop import Loop
from dragoman.train.optimizer import optimizer_tensors
from dragoman.train.prepare import Prepared
from dragoman.train.validation import mean_loss
from trainings import TINY, Silent, check_order, corpus, fingerprint, prepared_in

UPDATES = 12
SHORT: dict[str, Any] = {
    **TINY,
    "text__bpe_dropout": 0.2,
    "data__batch_tokens": 16,
    "train__accumulate": 3,
    "train__steps": UPDATES,
}
"""Few pairs, two or three a batch, so that three epochs are soon over."""

Files = tuple[Path, Path]

LONG: dict[str, Any] = {
    **TINY,
    "text__bpe_dropout": 0.2,
    "data__batch_tokens": 128,
    "train__accumulate": 2,
    "train__steps": 40,
    "train__save_every": 5,
    "train__validate_every": 20,
}


def train(files: Files, out: Path, *more: object, **values: object) -> Ran:
    """`dragoman train` in this process, with the same pairs to validate on."""
    return call("train", *files, "--valid", *files, "--out", out, *settings(**{**LONG, **values}), *more)


# Stopped at every update ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return corpus(tmp_path_factory.mktemp("few"), 17)


def watch(patch: pytest.MonkeyPatch) -> list[list[Any]]:
    """The ids of every batch that is learned from, from now on."""
    seen: list[list[Any]] = []

    def watched(running: Loop, batches: list[Batch], step: int) -> Any:
        seen.extend([batch.src.tolist(), batch.tgt_out.tolist()] for batch in batches)
        return learn(running, batches, step)

    learn = Loop._backpropagate
    patch.setattr(Loop, "_backpropagate", watched)
    return seen


def run_for(prepared: Prepared, updates: int) -> None:
    """Train, and be told to stop after some updates."""
    left = iter(range(updates - 1, -1, -1))
    Loop(prepared, Silent()).run(lambda: 0 if next(left) else signal.SIGTERM)


@dataclass(frozen=True)
class Course:
    """What a training read, and what it left."""

    settings: dict[str, Any]
    batches: list[list[Any]]
    fingerprint: dict[str, str]


@pytest.fixture(scope="module", params=["adam", "muon"])
def straight(request: pytest.FixtureRequest, few: Files, tmp_path_factory: pytest.TempPathFactory) -> Course:
    """Thirty-six batches in six epochs, accumulated by three and cut by BPE-dropout, at one go."""
    settings = {**SHORT, "train__optimizer": request.param}
    prepared = prepared_in(tmp_path_factory.mktemp("straight"), few, few, **settings)
    with pytest.MonkeyPatch.context() as patch:
        batches = watch(patch)
        Loop(prepared, Silent()).run(lambda: 0)
    assert len(batches) == 3 * UPDATES
    return Course(settings, batches, fingerprint(prepared.folder.root))


@pytest.mark.goal("A7")
@pytest.mark.parametrize("stops", [[1] * UPDATES, [1], [4, 1], [UPDATES - 1]], ids=["every", "1", "4 and 5", "last"])
def test_stopped_after_an_update(
    few: Files, straight: Course, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stops: list[int]
) -> None:
    prepared = prepared_in(tmp_path / "m", few, few, **straight.settings)
    batches = watch(monkeypatch)
    for updates in stops:
        run_for(prepared, updates)
    Loop(prepared, Silent()).run(lambda: 0)
    assert batches == straight.batches
    assert fingerprint(tmp_path / "m") == straight.fingerprint


def test_every_epoch_reads_every_pair_once(few: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    batches = watch(monkeypatch)
    prepared = prepared_in(tmp_path / "m", few, few, **{**SHORT, "text__bpe_dropout": 0.0})
    Loop(prepared, Silent()).run(lambda: 0)
    wanted = sorted(prepared.tokens.pair(index)[0] for index in range(17))
    read = [[index for index in row if index not in (0, 2)] for src, _ in batches for row in src]
    for epoch in range(len(read) // 17):
        assert sorted(read[17 * epoch : 17 * (epoch + 1)]) == wanted


def test_adam_goes_on_with_its_moments(few: Files, tmp_path: Path) -> None:
    prepared = prepared_in(tmp_path / "m", few, few, **SHORT)
    run_for(prepared, 4)
    training = Loop(prepared, Silent()).training
    moments = training.optimizer.state
    assert len(moments) == len(list(training.model.parameters()))
    assert all(float(state["step"]) == 4 for state in moments.values())
    for moment in ("exp_avg", "exp_avg_sq"):
        assert any(float(state[moment].abs().sum()) > 0 for state in moments.values())
    found, _ = checkpoint.newest(prepared.folder.checkpoints)
    assert found is not None
    kept = tensors.read_tensors(found.file("optimizer.safetensors"))
    taken = optimizer_tensors(training.model, training.optimizer)
    assert kept.keys() == taken.keys()
    assert all(torch.equal(kept[name], tensor) for name, tensor in taken.items())


# Killed --------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return corpus(tmp_path_factory.mktemp("many"), 120)


@dataclass(frozen=True)
class Whole:
    """A training that nobody disturbed: what it left, and how long it took."""

    root: Path
    fingerprint: dict[str, str]
    seconds: float


def command(files: Files, out: Path, **values: object) -> list[object]:
    """Arguments of the training that is killed."""
    return ["train", *files, "--valid", *files, "--out", out, *settings(**{**LONG, **values})]


@pytest.fixture(scope="module")
def whole(many: Files, nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> Whole:
    root = tmp_path_factory.mktemp("whole") / "model"
    started = time.monotonic()
    assert nursery.start(root.with_suffix(".log"), *command(many, root)).wait() == 0
    return Whole(root, fingerprint(root), time.monotonic() - started)


def kill_and_resume(nursery: Nursery, files: Files, folder: Path, whole: Whole, kills: int, seed: int) -> None:
    """Kill ``kills`` trainings in turn, each in one of as many folders as it takes, and let each come to its end."""
    draws, killed, folders = random.Random(seed), 0, 0
    while killed < kills:
        folders += 1
        root = folder / str(folders)
        code = -1
        while code:
            child = nursery.start(root.with_suffix(".log"), *command(files, root))
            if killed < kills:
                time.sleep(draws.uniform(0.0, 0.5 * whole.seconds))
                child.kill(signal.SIGKILL)
            code = child.wait()
            assert code in (0, -signal.SIGKILL), f"seed {seed}: {root.with_suffix('.log').read_text()}"
            killed += code != 0
        assert fingerprint(root) == whole.fingerprint, f"seed {seed}, folder {folders}"
        check_order(root)


def test_killed_at_random_instants(nursery: Nursery, many: Files, whole: Whole, tmp_path: Path) -> None:
    kill_and_resume(nursery, many, tmp_path, whole, kills=6, seed=_seed())


@pytest.mark.slow
def test_killed_at_twenty_random_instants(nursery: Nursery, many: Files, whole: Whole, tmp_path: Path) -> None:
    kill_and_resume(nursery, many, tmp_path, whole, kills=20, seed=_seed())


def _seed() -> int:
    """A new one each time; printed when a test fails."""
    return time.time_ns() % 2**32


@pytest.mark.goal("A17")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)])
def test_asked_to_stop(nursery: Nursery, many: Files, whole: Whole, tmp_path: Path, number: int, code: int) -> None:
    root = tmp_path / "model"
    child = nursery.start(tmp_path / "log", *command(many, root))
    child.wait_for("update 1 of")
    child.kill(number)
    assert child.wait() == code
    last_line = child.log.read_text().splitlines()[-1]
    [saved] = [path.name for path in ModelFolder(root).checkpoints.glob("step-*")][-1:]
    assert last_line == f"stopped at update {int(saved[5:])}; the same command goes on from there"
    assert nursery.start(tmp_path / "log", *command(many, root)).wait() == 0
    assert fingerprint(root) == whole.fingerprint


@pytest.mark.goal("A17")
def test_asked_twice(nursery: Nursery, many: Files, whole: Whole, tmp_path: Path) -> None:
    root = tmp_path / "model"
    child = nursery.start(tmp_path / "log", *command(many, root))
    child.wait_for("update 1 of")
    child.kill(signal.SIGTERM)
    child.kill(signal.SIGTERM)
    assert child.wait() in (143, -signal.SIGTERM)
    assert nursery.start(tmp_path / "log", *command(many, root)).wait() == 0
    assert fingerprint(root) == whole.fingerprint


# Damaged -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def copy(whole: Whole, tmp_path: Path) -> Path:
    """The undisturbed training, to be harmed."""
    return Path(shutil.copytree(whole.root, tmp_path / "model"))


def checkpoints(root: Path) -> list[Path]:
    """Oldest first."""
    return sorted(ModelFolder(root).checkpoints.glob("step-*"))


def flip(path: Path) -> None:
    """One bit."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


HARMS: dict[str, Callable[[Path], Any]] = {
    "bit": lambda checkpoint: flip(checkpoint / "optimizer.safetensors"),
    "cut": lambda checkpoint: (checkpoint / "model.safetensors").write_bytes(b"\x08"),
    "state": lambda checkpoint: (checkpoint / "state.json").write_text("{}"),
    "missing": lambda checkpoint: (checkpoint / "average.safetensors").unlink(),
}


@pytest.mark.goal("A6")
@pytest.mark.parametrize("harm", HARMS)
def test_a_damaged_checkpoint_falls_back(many: Files, whole: Whole, copy: Path, harm: str) -> None:
    older, newest = checkpoints(copy)
    HARMS[harm](newest)
    ran = train(many, copy)
    assert ran.code == 0
    assert f"checkpoint {newest.name} is damaged and not used: " in ran.err
    assert f"resuming after update {int(older.name[5:])}\n" in ran.err
    assert fingerprint(copy) == whole.fingerprint
    check_order(copy)


@pytest.mark.goal("A6")
def test_all_damaged_is_refused(many: Files, copy: Path) -> None:
    weights = (copy / "model.safetensors").read_bytes()
    for path in checkpoints(copy):
        flip(path / "model.safetensors")
    names = [path.name for path in checkpoints(copy)]
    ran = train(many, copy)
    assert ran.code == 2
    said = ran.err.splitlines()[-1]
    assert said.startswith("dragoman: every checkpoint in")
    assert all(name in said for name in names)
    assert [checkpoint.name for checkpoint in checkpoints(copy)] == names
    assert (copy / "model.safetensors").read_bytes() == weights


def test_a_lost_journal_costs_nothing_else(many: Files, whole: Whole, copy: Path) -> None:
    (copy / "journal.jsonl").unlink()
    shutil.rmtree(checkpoints(copy)[-1])
    assert train(many, copy).code == 0
    assert fingerprint(copy) == whole.fingerprint
    check_order(copy)


# Refused -------------------------------------------------------------------------------------------------------------


def test_a_second_start_is_refused(many: Files, copy: Path) -> None:
    with lock.hold(ModelFolder(copy).lock):
        ran = train(many, copy)
    assert ran.code == 2
    assert "is being trained by process" in ran.err
    assert train(many, copy).code == 0


@pytest.mark.goal("A12")
def test_of_simultaneous_starts_one_runs(nursery: Nursery, many: Files, whole: Whole, tmp_path: Path) -> None:
    root = tmp_path / "model"
    children = [nursery.start(tmp_path / f"log{number}", *command(many, root)) for number in range(3)]
    codes = [child.wait() for child in children]
    assert sorted(codes) == [0, 2, 2]
    for child, code in zip(children, codes, strict=True):
        assert ("is being trained by process" in child.log.read_text()) == (code == 2)
    assert fingerprint(root) == whole.fingerprint


@pytest.mark.goal("A15")
def test_changed_data_are_refused(many: Files, copy: Path, tmp_path: Path) -> None:
    src, tgt = (Path(shutil.copy(path, tmp_path)) for path in many)
    assert train((src, tgt), copy).code == 0, "the same content in another place is the same data"
    with src.open("a") as more_src, tgt.open("a") as more_tgt:
        more_src.write("1 2\n")
        more_tgt.write("2 1\n")
    before = fingerprint(copy)
    ran = train((src, tgt), copy)
    assert ran.code == 2
    assert "the data are not those" in ran.err
    assert "--accept-changed-data" in ran.err
    assert train((src, tgt), copy, "--accept-changed-data").code == 0
    assert fingerprint(copy) == before


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("train__learning_rate", 1e-3, "train.learning_rate=0.005, not 0.001"),
        ("model__d_model", 32, "model.d_model=16, not 32"),
        ("text__vocab_size", 300, "text.vocab_size=272, not 300"),
        ("data__batch_tokens", 256, "data.batch_tokens=128, not 256"),
        ("train__seed", 2, "train.seed=1, not 2"),
        ("train__schedule", "linear", "train.schedule='noam', not 'linear'"),
    ],
)
def test_a_changed_setting_is_refused(many: Files, copy: Path, key: str, value: object, said: str) -> None:
    ran = train(many, copy, **{key: value})
    assert ran.code == 2
    assert said in ran.err
    assert len(ran.err.splitlines()) == 1


def test_what_may_change_changes(many: Files, copy: Path) -> None:
    ran = train(many, copy, train__steps=42, train__keep=1, search__beam_size=3)
    assert ran.code == 0
    assert [path.name for path in checkpoints(copy)] == ["step-00000042"]
    written = (copy / "config.toml").read_text()
    assert "beam_size = 3\n" in written
    assert "steps = 42\n" in written
    assert call("translate", "--model", copy, "1 2").code == 0


def test_the_end_of_a_schedule_does_not_move(few: Files, tmp_path: Path) -> None:
    prepared_in(tmp_path / "m", few, few, **{**SHORT, "train__schedule": "cosine"})
    with pytest.raises(ConfigError, match=r"train\.steps=12, not 20"):
        prepared_in(tmp_path / "m", few, few, **{**SHORT, "train__schedule": "cosine", "train__steps": 20})


def test_a_folder_without_training_is_not_begun_anew(many: Files, copy: Path) -> None:
    shutil.rmtree(copy / "training")
    ran = train(many, copy)
    assert ran.code == 2
    assert "without its training/ part" in ran.err


# Not finite ----------------------------------------------------------------------------------------------------------


def finite(weights: dict[str, torch.Tensor]) -> bool:
    return all(bool(torch.isfinite(tensor).all()) for tensor in weights.values())


@pytest.mark.goal("A13")
@pytest.mark.parametrize("number", [float("nan"), float("inf")])
@pytest.mark.parametrize("where", ["loss", "gradient"])
def test_what_is_not_finite_is_skipped_and_counted(
    few: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: float, where: str
) -> None:
    prepared = prepared_in(tmp_path / "m", few, few, **SHORT)
    training = Loop(prepared, Silent())
    # The middle batch of the fourth update, and no other.
    factors = iter([*[1.0] * 10, number, *[1.0] * 100])
    if where == "loss":
        monkeypatch.setattr(step, "token_loss", lambda *args: token_loss(*args) * next(factors))
    else:
        output = training.training.model.output.weight
        output.register_hook(lambda gradient: gradient * next(factors))  # type: ignore[no-untyped-call]
    counters = training.run(lambda: 0).counters
    assert (counters.step, counters.skipped, counters.bad_steps) == (UPDATES, 1, 0)
    events = [json.loads(line) for line in prepared.folder.journal.read_text().splitlines()]
    assert [event["step"] for event in events if event["event"] == "skipped"] == [4]
    assert finite(tensors.read_tensors(prepared.folder.weights))
    last = max(prepared.folder.checkpoints.glob("step-*"))
    assert finite(tensors.read_tensors(last / "model.safetensors"))
    moments = tensors.read_tensors(last / "optimizer.safetensors")
    assert finite(moments)
    assert {float(moment) for name, moment in moments.items() if name.endswith(".step")} == {UPDATES - 1.0}


@pytest.mark.goal("A13")
def test_too_many_in_a_row_end_it(few: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changes = {"train__max_bad_steps": 3, "train__save_every": 2, "train__steps": 30}
    prepared = prepared_in(tmp_path / "m", few, few, **{**SHORT, **changes})
    factors = iter([*[1.0] * 15, *[float("nan")] * 100])
    monkeypatch.setattr(step, "token_loss", lambda *args: token_loss(*args) * next(factors))
    watcher = Silent()
    with pytest.raises(TrainingError, match="17: 3 updates in a row .* 3 steps back did not help"):
        Loop(prepared, watcher).run(lambda: 0)
    assert [text for text in watcher.messages if "skipped" in text] == [
        f"update {number} skipped: loss nan, gradient norm nan" for number in range(6, 18)
    ]
    back = [text for text in watcher.messages if "step back" in text]
    assert [text.split(":")[0] for text in back] == ["update 8", "update 11", "update 14"]
    assert "back to the weights of update 4 with 0.5 times the learning rate (step back 1 of at most 3)" in back[0]
    assert "back to the weights of update 8 with 0.25 times" in back[1]
    assert finite(tensors.read_tensors(max(prepared.folder.checkpoints.glob("step-*")) / "model.safetensors"))


@pytest.mark.goal("A13")
def test_a_validation_that_is_not_finite_is_never_the_best(
    few: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared = prepared_in(tmp_path / "m", few, few, **{**SHORT, "train__validate_every": 6})
    calls = iter([float("nan"), 0.0])
    monkeypatch.setattr(validation, "mean_loss", lambda *args: mean_loss(*args) + next(calls))
    watcher = Silent()
    counters = Loop(prepared, watcher).run(lambda: 0).counters
    assert [look.is_best for look in watcher.looks] == [False, True]
    assert counters.best_step == UPDATES
    assert b"NaN" not in prepared.folder.journal.read_bytes()


def test_no_sound_checkpoint_is_an_error_of_the_folder(few: Files, tmp_path: Path) -> None:
    prepared = prepared_in(tmp_path / "m", few, few, **SHORT)
    run_for(prepared, 1)
    flip(next(prepared.folder.checkpoints.glob("step-*")) / "state.json")
    watcher = Silent()
    with pytest.raises(FolderError, match="every checkpoint in .* is damaged"):
        Loop(prepared, watcher)
    assert "damaged and not used" in watcher.messages[0]
