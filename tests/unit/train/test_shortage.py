"""Too little memory: for reading, a batch, an update, a validation, a save."""

import copy
from collections.abc import Callable, Sequence
from itertools import count, islice
from pathlib import Path
from typing import Any

import pytest
import torch

from dragoman.data.batch import Batch, collate
from dragoman.engine.translator import Translator
from dragoman.errors import EngineError, FolderError
from dragoman.store import checkpoint, tensors
from dragoman.train import journal, loop, optimizer, saving, shortage, step, validation
from dragoman.train.loop import Loop
from dragoman.train.packed import Packed
from dragoman.train.prepare import Prepared
from dragoman.train.shortage import Room
from dragoman.train.state import Training
from dragoman.train.step import Gradient, Place, backpropagate
from dragoman.train.watcher import Progress
from folders import random_model, toy_settings
from trainings import Silent, fresh

PAIRS = [([5, 6, 7], [8, 9]), ([5], [6, 7, 8, 9]), ([7, 8], [5]), ([9], [9]), ([6, 5, 9, 8, 7], [5, 6])]


def tight(most: int, error: Exception) -> Callable[[Sequence[Batch]], Gradient]:
    """A gradient for which a batch may have ``most`` numbers."""

    def compute(batches: Sequence[Batch]) -> Gradient:
        if any(batch.src.numel() + batch.tgt_in.numel() > most for batch in batches):
            raise error
        return Gradient(float(len(batches)), 1, sum(batch.tokens for batch in batches), 0.0)

    return compute


ERRORS = [MemoryError(), RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried")]
BOTH = pytest.mark.parametrize("error", ERRORS, ids=["python", "torch"])


@BOTH
def test_cut_until_it_fits(error: Exception) -> None:
    batches = [collate(PAIRS), collate(PAIRS[:2])]
    whole = Room().fit(tight(1000, error), batches)
    assert (whole.batches, whole.lost, whole.failed) == (2, 0, 0)
    cut = Room().fit(tight(20, error), batches)
    assert cut.lost == 0
    assert cut.batches > 2
    assert cut.failed
    assert cut.gradient.tokens == whole.gradient.tokens


def test_what_does_not_fit_alone_is_left_out() -> None:
    fitted = Room().fit(tight(7, ERRORS[0]), [collate(PAIRS)])
    kept = [pair for pair in PAIRS if len(pair[0]) + len(pair[1]) + 2 <= 7]
    assert fitted.lost == len(PAIRS) - len(kept) == 1
    assert fitted.gradient.tokens == collate(kept).tokens


def test_nothing_fits() -> None:
    fitted = Room().fit(tight(0, ERRORS[1]), [collate(PAIRS)])
    assert (fitted.batches, fitted.lost, fitted.gradient.tokens) == (0, len(PAIRS), 0)


def test_what_did_not_fit_is_not_tried_again() -> None:
    room, sizes = Room(), list[int]()

    def compute(batches: Sequence[Batch]) -> Gradient:
        sizes.append(max(batch.src.numel() + batch.tgt_in.numel() for batch in batches))
        return tight(20, ERRORS[0])(batches)

    first = room.fit(compute, [collate(PAIRS)])
    assert first.failed == len(sizes) - 1 > 0
    failed = sizes[:-1]
    sizes.clear()
    again = room.fit(compute, [collate(PAIRS[:2]), collate(PAIRS)])
    assert (again.failed, len(sizes)) == (0, 1)
    assert again.gradient.tokens == collate(PAIRS).tokens + collate(PAIRS[:2]).tokens
    assert max(sizes) < min(failed)


def test_a_pair_alone_is_always_tried() -> None:
    room, long = Room(), collate([([5] * 30, [6] * 30)])
    assert room.fit(tight(20, ERRORS[0]), [long]).lost == 1
    assert room.fit(tight(1000, ERRORS[0]), [long]).lost == 0


def test_memory_may_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shortage, "PATIENCE", 3)
    room, batch = Room(), collate(PAIRS)
    found = [room.fit(tight(20, ERRORS[0]), [batch])] + [room.fit(tight(1000, ERRORS[0]), [batch]) for _ in range(9)]
    assert [fitted.batches for fitted in found] == sorted((fitted.batches for fitted in found), reverse=True)
    assert found[2].batches == found[0].batches
    assert found[-1].batches == 1


def test_no_memory_for_nothing_is_an_error() -> None:
    def never(_: Sequence[Batch]) -> Gradient:
        raise MemoryError

    with pytest.raises(MemoryError):
        Room().fit(never, [collate(PAIRS)])


def test_other_errors_are_not_caught() -> None:
    with pytest.raises(RuntimeError, match="shapes"):
        Room().fit(tight(1, RuntimeError("shapes do not fit")), [collate(PAIRS)])


def test_the_gradient_is_that_of_the_whole() -> None:
    model = random_model(toy_settings(), 1).eval()

    def compute(batches: Sequence[Batch]) -> Gradient:
        tight(20, ERRORS[0])(batches)
        return backpropagate(model, batches, 0.1, 0.0, "float32")

    whole = backpropagate(model, [collate(PAIRS)], 0.1, 0.0, "float32")
    wanted = [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]
    cut = Room().fit(compute, [collate(PAIRS)])
    assert cut.gradient.loss == pytest.approx(whole.loss, rel=1e-5)
    assert cut.gradient.tgt_tokens == whole.tgt_tokens
    got = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    for ours, theirs in zip(got, wanted, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("backend", ["native", "torch"])
def test_an_update_of_which_nothing_fits_moves_nothing(
    backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared = fresh(tmp_path / "data", 12, train__steps=4, train__backend=backend)
    running = Loop(prepared, Silent())
    batches = [batch for batch, _ in islice(prepared.reader().read(Place()), 3)]
    running._update(batches[:1], Place(0, 1), 0.0)
    before = [parameter.clone() for parameter in running.training.model.parameters()]
    compute = type(running.path).gradient

    def fails(path: Any, group: Sequence[Batch], seed: int) -> Gradient:
        if group:
            raise MemoryError
        return compute(path, group, seed)

    monkeypatch.setattr(type(running.path), "gradient", fails)
    running._update(batches[1:2], Place(0, 2), 0.0)
    assert running.training.counters.lost == len(batches[1].src)
    assert running.training.counters.step == 2
    for parameter, was in zip(running.training.model.parameters(), before, strict=True):
        assert torch.equal(parameter, was)


# Beside the gradient -------------------------------------------------------------------------------------------------


def failing(real: Callable[..., Any], error: Exception, times: Sequence[int]) -> Callable[..., Any]:
    """``real``, which fails when it is called for one of ``times``, counted from 1."""
    made = count(1)

    def call(*given: Any, **more: Any) -> Any:
        if next(made) in times:
            raise error
        return real(*given, **more)

    return call


def short(root: Path, **values: Any) -> Prepared:
    root.mkdir(exist_ok=True)
    return fresh(root / "data", 12, **{"train__steps": 6, "train__save_every": 2, "train__validate_every": 3, **values})


def shortages(prepared: Prepared) -> list[tuple[int, str]]:
    """What the journal says was skipped for lack of memory."""
    events = journal.read(prepared.folder.journal)
    return [(event["step"], event["what"]) for event in events if event["event"] == "out of memory"]


def weights(training: Training) -> dict[str, torch.Tensor]:
    """A copy of the weights and of their average."""
    models = {"model": training.model, "average": training.average}
    named = {f"{key}.{name}": p.detach() for key, model in models.items() for name, p in model.named_parameters()}
    return copy.deepcopy(named)


def moments(training: Training) -> dict[str, torch.Tensor]:
    """A copy of what the optimizer keeps."""
    return copy.deepcopy(optimizer.optimizer_tensors(training.model, training.optimizer))


def state(training: Training) -> dict[str, torch.Tensor]:
    """A copy of all that an update moves."""
    return {**weights(training), **moments(training)}


def assert_equal(left: dict[str, torch.Tensor], right: dict[str, torch.Tensor]) -> None:
    assert left.keys() == right.keys()
    assert all(torch.equal(left[name], right[name]) for name in left)


@BOTH
def test_an_update_by_the_kernels_is_skipped_and_counted(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared, watcher = short(tmp_path, train__backend="native"), Silent()
    monkeypatch.setattr(Packed, "update", failing(Packed.update, error, [2, 3]))
    counters = Loop(prepared, watcher).run(lambda: 0).counters
    assert (counters.step, counters.skipped, counters.bad_steps, counters.steps_back) == (6, 2, 0, 0)
    assert shortages(prepared) == [(2, "update"), (3, "update")]
    said = "update 2 skipped: out of memory while the weights were moved"
    assert [text for text in watcher.messages if text.startswith("update 2")] == [said]
    found, _ = checkpoint.newest(prepared.folder.checkpoints)
    assert found is not None
    kept = tensors.read_tensors(found.file("optimizer.safetensors"))
    assert {float(moment) for name, moment in kept.items() if name.endswith(".step")} == {4.0}


class Poor:
    """The kernels, which have no memory for an update."""

    def __init__(self, library: Any) -> None:
        self._library = library

    def __getattr__(self, name: str) -> Any:
        return getattr(self._library, name)

    @staticmethod
    def dragoman_trainer_update(*_: Any) -> int:
        return -1


@BOTH
@pytest.mark.parametrize("kind", ["adam", "muon"])
def test_an_update_by_the_kernels_is_all_or_nothing(
    kind: str, error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever moment finds no room, and if the kernels find none; then the update is that of an undisturbed one."""
    prepared = short(tmp_path, train__backend="native", train__optimizer=kind)
    [(batch, _)] = islice(prepared.reader().read(Place()), 1)
    whole, tried = Loop(prepared, Silent()), Loop(prepared, Silent())
    gradient, _ = (each.path.gradient([batch], 1) for each in (whole, tried))
    whole.path.update(gradient, 1e-2, 1)
    before = weights(tried.training)

    def fails() -> bool:
        try:
            tried.path.update(gradient, 1e-2, 1)
        except type(error):
            assert_equal(weights(tried.training), before)
            return True
        return False

    with monkeypatch.context() as patch:
        patch.setattr("dragoman.train.packed.last_error", lambda _: "out of memory")
        patch.setattr(tried.path.packed, "library", Poor(tried.path.packed.library))  # type: ignore[attr-defined]
        with pytest.raises(MemoryError):
            tried.path.update(gradient, 1e-2, 1)
    assert_equal(weights(tried.training), before)
    tried.training.optimizer.state.clear()
    for number in count(1):
        with monkeypatch.context() as patch:
            patch.setattr(torch, "zeros_like", failing(torch.zeros_like, error, [number]))
            if not fails():
                break
    assert number > 8
    assert_equal(weights(tried.training), weights(whole.training))
    assert_equal(moments(tried.training), moments(whole.training))


@BOTH
def test_an_update_by_pytorch_goes_back_to_the_last_checkpoint(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For it may be half done. The rate stays; no step back is counted."""
    prepared, watcher = short(tmp_path, train__backend="torch"), Silent()
    running = Loop(prepared, watcher)
    seen = list[dict[str, torch.Tensor]]()
    real = optimizer.update

    def half(*given: Any) -> None:
        real(*given)
        if len(watcher.steps) in (0, 4):
            raise error

    def progress(progress: Progress) -> None:
        watcher.steps.append(progress.step)
        seen.append(state(running.training))

    monkeypatch.setattr(optimizer, "update", half)
    monkeypatch.setattr(watcher, "progress", progress)
    counters = running.run(lambda: 0).counters
    assert (counters.step, counters.skipped, counters.steps_back, counters.rate_factor) == (6, 2, 0, 1.0)
    assert shortages(prepared) == [(1, "update"), (5, "update")]
    assert [text for text in watcher.messages if "out of memory" in text] == [
        f"update {step} skipped: out of memory while the weights were moved; back to the weights of update {back}"
        for step, back in ((1, 0), (5, 4))
    ]
    assert_equal(seen[0], state(Loop(short(tmp_path / "other"), Silent()).training))
    assert_equal(seen[4], seen[3])
    name = next(iter(seen[4]))
    assert not torch.equal(seen[5][name], seen[4][name])


LATE = [
    EngineError("the CPU engine cannot go on: out of memory"),
    ImportError("etree.so: failed to map segment from shared object"),
]


@BOTH
def test_a_batch_is_read_again(error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the same weights in the end as if there had been memory."""
    monkeypatch.setattr(loop, "PAUSE", 0.0)
    undisturbed = Loop(short(tmp_path / "one"), Silent())
    undisturbed.run(lambda: 0)
    prepared, watcher = short(tmp_path / "other"), Silent()
    disturbed = Loop(prepared, watcher)
    with monkeypatch.context() as patch:
        patch.setattr(step, "collate", failing(step.collate, error, [1, 2, 6]))
        disturbed.run(lambda: 0)
    assert_equal(state(disturbed.training), state(undisturbed.training))
    assert [what for _, what in shortages(prepared)] == ["reading"] * 3
    said = [text for text in watcher.messages if "out of memory" in text]
    assert [text.partition(" ")[2].partition(": ")[2] for text in said] == [
        "out of memory while pairs are read; trying again"
    ] * 2


def test_a_batch_that_never_finds_memory_ends_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared = short(tmp_path)
    monkeypatch.setattr(loop, "PAUSE", 0.0)
    monkeypatch.setattr(step, "collate", failing(step.collate, MemoryError(), range(1, 1000)))
    with pytest.raises(MemoryError):
        Loop(prepared, Silent()).run(lambda: 0)
    assert len(shortages(prepared)) == loop.READINGS


@pytest.mark.parametrize("error", [*ERRORS, *LATE])
@pytest.mark.parametrize("place", ["loss", "translation"])
def test_a_validation_is_tried_with_fewer_pairs(
    place: str, error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the same result."""
    prepared, watcher = short(tmp_path), Silent()
    whole = short(tmp_path / "other")
    Loop(whole, undisturbed := Silent()).run(lambda: 0)
    owner, name = (validation, "mean_loss") if place == "loss" else (Translator, "translate")
    monkeypatch.setattr(owner, name, failing(getattr(owner, name), error, [1, 2]))
    Loop(prepared, watcher).run(lambda: 0)
    assert shortages(prepared) == []
    for ours, theirs in zip(watcher.looks, undisturbed.looks, strict=True):
        assert (ours.bleu, ours.example, ours.is_best) == (theirs.bleu, theirs.example, theirs.is_best)
        assert ours.loss == pytest.approx(theirs.loss, rel=1e-5)


@BOTH
@pytest.mark.parametrize("place", ["loss", "translation"])
def test_a_validation_is_skipped(place: str, error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one: the folder has a model all the same, until a better one is known."""
    prepared, watcher = short(tmp_path), Silent()
    owner, name = (validation, "mean_loss") if place == "loss" else (Translator, "translate")
    monkeypatch.setattr(owner, name, failing(getattr(owner, name), error, [1, 2, 3]))
    first: list[bool] = []
    running = Loop(prepared, watcher)
    running.run(lambda: first.append(prepared.folder.weights.exists()) or 0)  # type: ignore[func-returns-value]
    assert first == [False, False, True, True, True, True]
    assert shortages(prepared) == [(3, "validation")]
    assert [text for text in watcher.messages if "validation" in text] == [
        "warning: validation of update 3 skipped: out of memory"
    ]
    assert [(look.step, look.is_best) for look in watcher.looks] == [(6, True)]
    counters = running.training.counters
    assert (counters.best_step, counters.stale, counters.looked) == (6, 0, 6)


def test_another_error_of_a_validation_is_none_of_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validation, "mean_loss", failing(validation.mean_loss, RuntimeError("shapes"), [1]))
    with pytest.raises(RuntimeError, match="shapes"):
        Loop(short(tmp_path), Silent()).run(lambda: 0)


@BOTH
def test_a_save_is_tried_again(error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared, watcher = short(tmp_path), Silent()
    monkeypatch.setattr(loop, "contents", failing(loop.contents, error, [1, 2]))
    assert Loop(prepared, watcher).run(lambda: 0).counters.step == 6
    missed = [event for event in journal.read(prepared.folder.journal) if event["event"] == "not saved"]
    assert [(event["step"], event["what"], event["reason"]) for event in missed] == [
        (2, "checkpoint", "out of memory"),
        (4, "checkpoint", "out of memory"),
    ]
    assert [text for text in watcher.messages if "saved" in text] == [
        "warning: checkpoint of update 2 not saved; training goes on and tries again: out of memory",
        "update 6: checkpoint saved again",
    ]
    assert not list(prepared.folder.root.rglob(".tmp*"))


@BOTH
def test_a_best_model_that_is_not_kept_is_not_called_the_best(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared, watcher = short(tmp_path), Silent()
    monkeypatch.setattr(loop, "named_weights", failing(loop.named_weights, error, [1]))
    Loop(prepared, watcher).run(lambda: 0)
    assert [look.is_best for look in watcher.looks] == [False, True]


@BOTH
def test_a_last_save_is_tried_again(error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saving, "PAUSE", 0.0)
    prepared, watcher = short(tmp_path), Silent()
    monkeypatch.setattr(loop, "contents", failing(loop.contents, error, [3, 4]))
    assert Loop(prepared, watcher).run(lambda: 0).counters.step == 6
    found, _ = checkpoint.newest(prepared.folder.checkpoints)
    assert found is not None
    assert found.step == 6
    assert [text for text in watcher.messages if "saved" in text] == [
        "warning: checkpoint of update 6 not saved; trying again: out of memory",
        "update 6: checkpoint saved again",
    ]


@BOTH
def test_a_last_save_without_memory_is_an_error(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was saved before is intact, and the same command ends the training."""
    prepared = short(tmp_path)
    monkeypatch.setattr(saving, "PAUSE", 0.0)
    with monkeypatch.context() as patch:
        patch.setattr(loop, "contents", failing(loop.contents, error, range(3, 3 + saving.MOST_FAILURES)))
        with pytest.raises(
            FolderError, match=r"update 6: checkpoint could not be saved \(20 times in a row\): out of memory"
        ):
            Loop(prepared, Silent()).run(lambda: 0)
    found, _ = checkpoint.newest(prepared.folder.checkpoints)
    assert found is not None
    assert found.step == 4
    assert Loop(prepared, Silent()).run(lambda: 0).counters.step == 6
