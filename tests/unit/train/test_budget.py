"""A training that fits into a given time: what is planned, and what the clock ends."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.config import MOST_STEPS, TrainConfig, merge
from dragoman.errors import ConfigError
from dragoman.store.folder import ModelFolder
from dragoman.train import budget, costs, journal
from dragoman.train.budget import SURPLUS, Budget, Fit, affordable, fit
from dragoman.train.costs import Costs
from dragoman.train.length import Epoch, Epochs, Steps
from dragoman.train.loop import Loop
from dragoman.train.prepare import Plan, Prepared
from dragoman.train.presets import CorpusSize, for_corpus
from trainings import Silent, Stopped, corpus, prepared_in

QUICK = Costs(begin=0.5, update=0.1, validation=2.0, save=0.2, picture=0.3)


TRAIN = TrainConfig(save_every=1000, validate_every=50)
SET = frozenset({"validate_every"})


def test_as_many_updates_as_fit() -> None:
    fitted = fit(1800.0, QUICK, TRAIN)
    spent = QUICK.begin + fitted.steps * QUICK.update + 10 * QUICK.validation + QUICK.end - QUICK.validation
    saving = fitted.steps / fitted.save_every * QUICK.save
    assert 1800 < spent < spent + saving < 1.085 * 1800, "a few more are planned than fit"
    assert fitted.steps == 10 * fitted.validate_every
    assert fitted.save_every == 1000


@pytest.mark.parametrize(("left", "looks"), [(1800.0, 10), (100.0, 7), (40.0, 3), (20.0, 1), (8.0, 1)])
def test_short_trainings_are_looked_at_and_saved_less_often(left: float, looks: int) -> None:
    fitted = fit(left, QUICK, TRAIN)
    assert fitted.steps == looks * fitted.validate_every
    assert fitted.save_every <= 1000
    assert fitted.steps // fitted.save_every * QUICK.save <= max(0.04 * left, QUICK.save)


def test_in_short_trainings_fewer_pairs_are_looked_at() -> None:
    assert affordable(1000, 1800.0, QUICK) == 1000
    assert affordable(1000, 40.0, QUICK) == 300
    assert affordable(1000, 4.0, QUICK) == affordable(1000, -4.0, QUICK) == budget.LEAST_PAIRS
    assert affordable(20, 4.0, QUICK) == 20


def test_the_user_s_interval_stays() -> None:
    assert fit(1e9, QUICK, TRAIN).steps == MOST_STEPS
    fitted = fit(1800.0, QUICK, TRAIN, SET)
    assert fitted.validate_every == 50
    assert fitted.steps == pytest.approx(SURPLUS * 1800 / (0.1 + 2.0 / 50), rel=0.01)
    assert fit(1800.0, QUICK, replace(TRAIN, save_every=7), frozenset({"save_every"})).save_every == 7


@pytest.mark.parametrize("left", [3.0, 1.0, 0.0, -5.0])
@pytest.mark.parametrize("fixed", [frozenset(), SET])
def test_too_late(left: float, fixed: frozenset[str]) -> None:
    assert fit(left, QUICK, TRAIN, fixed).steps == 0


@pytest.mark.parametrize(
    ("pairs", "minutes", "width", "said"),
    [
        (90_000, 1e6, 128, 0),
        (150_000, 59.0, 256, 0),
        (150_000, 61.0, 128, 1),
        (5_000_000, 59.0, 512, 0),
        (5_000_000, 61.0, 128, 2),
    ],
)
def test_too_wide_for_the_time(
    monkeypatch: pytest.MonkeyPatch, pairs: int, minutes: float, width: int, said: int
) -> None:
    monkeypatch.setattr(budget, "training_minutes", lambda config, size: minutes)
    watcher, plan = Silent(), Budget(1900.0, Stopped(100.0))
    layer = plan.defaults(CorpusSize(pairs, 9.0, 9.0), [{"train": {"threads": 1}}], watcher)
    assert merge([layer]).model.d_model == width
    assert merge([layer]).train.optimizer == ("adam" if width == 512 else "muon")
    assert len(watcher.messages) == said
    assert all(text.endswith("a narrower one is taken for 31 min 40 s") for text in watcher.messages)


def test_the_width_that_the_user_wants_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "training_minutes", lambda config, size: pytest.fail("nothing is to be chosen"))
    size = CorpusSize(150_000, 9.0, 9.0)
    for model in ({"preset": "base"}, {"d_model": 64}):
        layers = [{"model": model}]
        assert Budget(60.0, Stopped()).defaults(size, layers, Silent()) == for_corpus(size, layers)


@pytest.mark.parametrize(
    ("pairs", "model"),
    [(12_000, {}), (90_000, {"preset": "base"}), (150_000, {"d_model": 64})],
)
def test_where_muon_was_not_compared_adam_stays(pairs: int, model: dict[str, Any]) -> None:
    size, layers = CorpusSize(pairs, 9.0, 9.0), [{"model": model}]
    for plan in (Budget(60.0, Stopped()), Steps(100), Epochs(2.0)):
        defaults = plan.defaults(size, layers, Silent())
        assert defaults == for_corpus(size, layers)
        assert merge([defaults]).train.optimizer == "adam"


def begun(root: Path, plan: Plan | None, watcher: Silent | None = None, **values: Any) -> Prepared:
    root.mkdir(exist_ok=True)
    train = corpus(root, 60)
    return prepared_in(root / "m", train, train, watcher, plan, **values)


@pytest.fixture
def rehearsed(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Nothing is measured; for how long it would have been."""
    asked: list[float] = []
    monkeypatch.setattr(budget, "measure", lambda _, seconds: asked.append(seconds) or QUICK)
    return asked


def test_it_is_written_down(tmp_path: Path, rehearsed: list[float]) -> None:
    watcher = Silent()
    free = {"train__steps": None, "train__warmup_steps": None, "train__schedule": None}
    config = begun(tmp_path, Budget(1800.0, Stopped(100.0)), watcher, **free).config.train
    assert rehearsed == [36.0]
    steps, every = config.steps, config.validate_every
    assert Fit(steps, every, config.save_every) == fit(1700.0, QUICK, TrainConfig(save_every=300))
    assert (config.budget, config.schedule) == (1800.0, "plateau")
    assert config.ema_decay == min(0.99, 1 - 20 / steps)
    [said] = [text for text in watcher.messages if text.startswith("30 min: ")]
    assert f" {steps:,} updates of about " in said
    assert said.endswith(f" epochs), validation every {every:,}")


def test_a_short_training_has_a_short_average(tmp_path: Path, rehearsed: list[float]) -> None:
    config = begun(tmp_path, Budget(20.0, Stopped()), train__steps=None).config.train
    assert config.steps < 200
    assert config.ema_decay == pytest.approx(1 - 20 / config.steps, abs=1e-5)


@pytest.mark.parametrize(("epochs", "set_by_user", "dropout"), [(4.9, None, 0.1), (5.1, None, 0.3), (4.9, 0.25, 0.25)])
def test_in_few_epochs_there_is_little_dropout(
    tmp_path: Path,
    rehearsed: list[float],
    monkeypatch: pytest.MonkeyPatch,
    epochs: float,
    set_by_user: float | None,
    dropout: float,
) -> None:
    steps = fit(60.0, QUICK, TrainConfig(save_every=300)).steps
    monkeypatch.setattr(budget, "measure_epoch", lambda *_: Epoch(steps / epochs, 100.0))
    monkeypatch.setattr(budget, "for_corpus", lambda size, layers: {"model": {"dropout": 0.3}})
    prepared = begun(tmp_path, Budget(60.0, Stopped()), train__steps=None, model__dropout=set_by_user)
    assert prepared.config.model.dropout == dropout


def test_the_same_command_goes_on(tmp_path: Path, rehearsed: list[float]) -> None:
    first = begun(tmp_path, Budget(60.0, Stopped()), train__steps=None)
    watcher = Silent()
    again = begun(tmp_path, Budget(60.0, Stopped()), watcher, train__steps=None)
    assert len(rehearsed) == 1
    assert (again.config, again.identity, watcher.messages) == (first.config, first.identity, [])
    more = begun(tmp_path, Budget(120.0, Stopped()), watcher, train__steps=None)
    assert watcher.messages == [f"the schedule stays as it was begun: {first.config.train.steps} updates"]
    assert (more.config.train.budget, more.identity) == (120.0, first.identity)


def test_what_the_user_sets_stays(tmp_path: Path, rehearsed: list[float]) -> None:
    plan = Budget(60.0, Stopped(), frozenset({"validate_every"}))
    config = begun(tmp_path, plan, train__steps=None, train__schedule="linear", train__validate_every=33).config.train
    assert (config.schedule, config.validate_every) == ("linear", 33)
    wanted = TrainConfig(save_every=300, validate_every=33)
    assert config.steps == fit(60.0, QUICK, wanted, plan.fixed).steps


def test_no_time_to_train(tmp_path: Path, rehearsed: list[float]) -> None:
    with pytest.raises(ConfigError, match="--budget 1 min 30 s leaves no time to train; 88 s went into preparing"):
        begun(tmp_path, Budget(90.0, Stopped(88.0)), train__steps=None)
    assert not ModelFolder(tmp_path / "m").config.exists()


def test_everything_is_measured(tmp_path: Path) -> None:
    prepared = begun(tmp_path, None)
    before = {path: path.read_bytes() for path in prepared.folder.root.rglob("*") if path.is_file()}
    measured = costs.measure(prepared, 0.01)
    assert min(measured.begin, measured.update, measured.validation, measured.save) > 0
    assert measured.end >= measured.validation + measured.save
    costs.write(prepared.folder, measured)
    assert costs.read(prepared.folder) == measured
    after = {path: path.read_bytes() for path in prepared.folder.root.rglob("*") if path.is_file()}
    assert {path: content for path, content in after.items() if path.name != costs.COSTS} == before


def test_a_disturbance_is_not_measured() -> None:
    assert costs._undisturbed([1.0, 1.2, 1.4]) == pytest.approx(1.2)
    assert costs._undisturbed([*[3.0] * 20, *[1.0] * 60]) == pytest.approx(1.0)
    assert costs._undisturbed([1.0, 2.0] * 30) == pytest.approx(1.5, rel=0.05)


def test_the_clock_ends_it(tmp_path: Path) -> None:
    """At 100 s with a reading every 2; it is validated and kept, and there is nothing left to do afterwards."""
    watcher = Silent()
    prepared = begun(tmp_path, None, train__steps=500, train__validate_every=400, train__budget=100.0)
    counters = Loop(prepared, watcher, Stopped(each=2.0)).run(lambda: 0).counters
    assert 10 < counters.step < 50
    assert counters.looked == counters.best_step == counters.step
    assert 90 < counters.seconds < 110
    assert f"the 1 min 40 s are over after update {counters.step} of 500" in watcher.messages
    assert prepared.folder.weights.exists()
    noted = journal.read(prepared.folder.journal)
    assert noted[-1] == {"event": "end", "step": counters.step, "reason": "the budget is over"}
    again = Silent()
    resumed = Loop(prepared, again, Stopped()).run(lambda: 0).counters
    assert resumed == counters
    assert again.looks == []
    assert journal.read(prepared.folder.journal) == noted


def test_the_end_is_reserved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costs, "read", lambda _: Costs(validation=60.0))
    prepared = begun(tmp_path, None, train__steps=500, train__validate_every=400, train__budget=100.0)
    clock = Stopped(each=1.0)
    assert Loop(prepared, Silent(), clock).run(lambda: 0).counters.step < 40


def test_earlier_commands_count(tmp_path: Path) -> None:
    prepared = begun(tmp_path, None, train__steps=500, train__validate_every=400, train__budget=100.0)
    left = iter(range(5, -1, -1))
    first = Loop(prepared, Silent(), Stopped(70.0)).run(lambda: 0 if next(left) else 15)
    assert first.counters.seconds == 70.0
    second = Loop(prepared, Silent(), Stopped(each=2.0)).run(lambda: 0)
    assert second.counters.step - first.counters.step < 15
    assert second.counters.seconds > 90


def test_without_a_budget_the_clock_does_not_matter(tmp_path: Path) -> None:
    prepared = begun(tmp_path, None)
    assert Loop(prepared, Silent(), Stopped(1e9)).run(lambda: 0).counters.step == 4
    assert journal.read(prepared.folder.journal)[-1] == {"event": "end", "step": 4, "reason": "all updates are made"}
