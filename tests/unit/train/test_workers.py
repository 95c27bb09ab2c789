"""Several workers learn what one would from all their batches; nobody hangs, and one of them says what went wrong."""

import subprocess
import sys
import zlib
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import crew
from crew import NATIVE, SHARDS, SHARES, UPDATES, found
from dragoman.config import TrainConfig, merge
from dragoman.data import tokenfile
from dragoman.data.tokenfile import TokenFile
from dragoman.errors import ConfigError, TrainingError
from dragoman.train.loop import Loop
from dragoman.train.step import Place, Reader
from dragoman.train.workers import Workers, joined
from toys import LINES, toy_tokenizer
from trainings import Silent, corpus, prepared_in

# Alone ---------------------------------------------------------------------------------------------------------------


def test_alone_nothing_is_sent() -> None:
    alone = Workers()
    assert alone.is_first
    assert alone.speaks()
    assert alone.gather([1, 2.5]) == [[1, 2.5]]
    thing = object()
    assert alone.share(thing) is thing
    with joined() as same:
        assert same == alone


def test_an_environment_that_is_not_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.delenv("RANK", raising=False)
    with pytest.raises(ConfigError, match="start with torchrun"), joined():
        pass


# The stream ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> TokenFile:
    folder = tmp_path_factory.mktemp("corpus") / "train"
    pairs = [(" ".join(line.split()[:4]), f"{line} {number}") for number, line in enumerate(LINES * 3)]
    tokenfile.build(folder, pairs, toy_tokenizer(), toy_tokenizer(), 1000, drop_duplicates=False)
    return TokenFile.open(folder)


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_their_batches_together_are_the_stream(tokens: TokenFile, count: int) -> None:
    """Over the ends of epochs, and from the place that a training with other workers has left."""
    reader = Reader(tokens, 200, 1, None, None)
    place, whole = next(islice(reader.read(Place(), 1, 2), 2, 3))[1], reader.read(Place())
    assert place == [after for _, after in islice(whole, 6)][-1]
    shares = [reader.read(place, rank, count) for rank in range(count)]
    for _ in range(8):
        turn = [next(share) for share in shares]
        expected = list(islice(whole, count))
        assert [batch.src.tolist() for batch, _ in turn] == [batch.src.tolist() for batch, _ in expected]
        assert {after for _, after in turn} == {expected[-1][1]}


# What is refused -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"device": "cuda", "backend": "native"}, 'computes on CPUs with whole weights, not with train.device="cuda"'),
        ({"sharded": True, "backend": "native"}, "not with train.sharded=true"),
        ({"compile": True, "backend": "native"}, "not with train.compile=true"),
        ({"compile": True, "sharded": True}, "train.compile was not tried together with train.sharded"),
    ],
)
def test_what_does_not_go_together(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        merge([{"train": settings}])


def test_a_weight_that_differs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared = prepared_in(tmp_path / "m", corpus(tmp_path, 30))
    monkeypatch.setattr(Workers, "gather", lambda *_, patiently: [[1.0], [2.0], [1.0]])
    with pytest.raises(TrainingError, match="worker 1 begins with other weights than worker 0; give all of them"):
        Loop(prepared, Silent(), workers=Workers(0, 3))


# Together ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the workers of `crew.main` have left what they found."""
    folder = tmp_path_factory.mktemp("crew")
    ran = subprocess.run([sys.executable, str(Path(crew.__file__)), str(folder)])
    assert ran.returncode == 0
    return folder


def difference(ours: list[float], theirs: list[float]) -> float:
    a, b = np.array(ours), np.array(theirs)
    return float(np.linalg.norm(a - b) / np.linalg.norm(b))


def check_same(folder: Path, name: str, alone: str, limit: float) -> None:
    """Weights, average, losses and norms after twenty updates, against those of one process."""
    results, [one] = found(folder, name), found(folder, alone)
    assert [result.get("trace") for result in results] == [None] * len(results)
    for key in ("weights", "average"):
        assert difference(results[0][key], one[key]) < limit
    for ours, theirs in zip(results[0]["losses"], one["losses"], strict=True):
        assert ours == pytest.approx(theirs, rel=limit)
    assert len(results[0]["losses"]) == UPDATES
    assert all(result["losses"] == results[0]["losses"] for result in results), "they do not agree on the loss"


def prints(results: list[dict[str, Any]]) -> set[int]:
    return {zlib.crc32(np.array(result["weights"]).tobytes()) for result in results}


@pytest.mark.slow
@pytest.mark.goal("A10")
@pytest.mark.parametrize("name", [name for name in SHARES if name != "one"])
def test_many_learn_what_one_does(folder: Path, name: str) -> None:
    check_same(folder, f"plain-{name}", "plain-one", 1e-10)
    assert len(prints(found(folder, f"plain-{name}"))) == 1, "not the same bits in every worker"


@pytest.mark.slow
@pytest.mark.goal("A10")
@pytest.mark.parametrize("name", [name for name in NATIVE if name != "one"])
def test_many_with_kernels(folder: Path, name: str) -> None:
    check_same(folder, f"native-{name}", "native-one", 1e-5)
    for result in found(folder, f"native-{name}"):
        assert (result["path"], result["board"]) == ("FusedPath", "Blackboard")
    assert len(prints(found(folder, f"native-{name}"))) == 1


@pytest.mark.slow
@pytest.mark.goal("A10")
def test_on_two_machines_with_kernels(folder: Path) -> None:
    check_same(folder, "native-apart", "native-one", 1e-5)
    results = found(folder, "native-apart")
    assert [result["board"] for result in results] == ["NoneType"] * 2
    assert len(prints(results)) == 1


@pytest.mark.slow
def test_memory_that_they_share(folder: Path) -> None:
    """Every row gets the sum; no file is left; where one of them cannot have it, or sees another file, none has."""
    results = found(folder, "memory")
    assert results == [{"right": True, "left": [], "without": [True] * 3, "again": True}] * 3


@pytest.mark.slow
@pytest.mark.goal("A10")
@pytest.mark.parametrize("name", SHARDS)
def test_shards_learn_what_a_whole_does(folder: Path, name: str) -> None:
    """Each has about its part of the weights, and the parts become the whole again."""
    check_same(folder, f"sharded-{name}", "plain-one", 1e-10)
    first, *others = found(folder, f"sharded-{name}")
    whole = len(first["weights"])
    parts = [len(result["weights"]) for result in others]
    assert max(parts) < whole / len(SHARDS[name]) * 1.1


@pytest.mark.slow
@pytest.mark.goal("A10")
@pytest.mark.parametrize("name", ["two", "sharded"])
def test_many_orthogonalize_what_one_does(folder: Path, name: str) -> None:
    check_same(folder, f"muon-{name}", "muon-one", 1e-9)


@pytest.mark.slow
@pytest.mark.goal("A10")
def test_many_orthogonalize_with_kernels(folder: Path) -> None:
    check_same(folder, "muon-native-two", "muon-native-one", 1e-4)
    assert found(folder, "muon-native-two")[0]["path"] == "FusedPath"
    assert len(prints(found(folder, "muon-native-two"))) == 1


@pytest.mark.slow
@pytest.mark.goal("A14")
@pytest.mark.parametrize("name", ["one", "all", "half"])
def test_an_update_without_memory_is_skipped_by_all(folder: Path, name: str) -> None:
    """Where one of them has moved its weights, or half of them, all go back to those of the last checkpoint."""
    results = found(folder, f"poor-{name}")
    assert [result.get("trace") for result in results] == [None] * 2
    first, second = results
    assert first["weights"] == second["weights"]
    assert [(result["step"], result["skipped"]) for result in results] == [(6, 2)] * 2
    skipped = "skipped: out of memory while the weights were moved"
    back = ["", ""] if name == "all" else [f"; back to the weights of update {step}" for step in (0, 3)]
    for result in results:
        assert result["said"] == [f"update 2 {skipped}{back[0]}", f"update 5 {skipped}{back[1]}"]
    after = first["weights"]
    assert len(after) == 6
    assert after[1] == after[0] if name == "all" else after[1] != after[0]
    assert after[4] == (after[3] if name == "all" else after[2])
    assert after[5] != after[4]


@pytest.mark.slow
@pytest.mark.goal("A11")
def test_a_death_in_an_update_with_shards_is_told(folder: Path) -> None:
    """Muon gathers there; so does lack of memory end it, for the others wait for a part that never comes."""
    [left] = found(folder, "poor-death")
    assert left["error"] == "TrainingError", left["trace"]
    assert left["said"] == "another worker has ended; the same command goes on from the last checkpoint"
    results = found(folder, "poor-shard")
    assert [result["error"] for result in results] == ["TrainingError"] * 2, results
    [said] = [result["said"] for result in results if result["said"]]
    assert said.startswith(("out of memory; lower data.batch_tokens", "another worker has ended"))


@pytest.mark.slow
def test_what_they_say(folder: Path) -> None:
    results = found(folder, "talk")
    thing = {"text": "ünï", "number": 0.1, "none": None, "inf": float("-inf")}
    for result in results:
        assert result == {"sum": [6.0] * 3, "gather": [[0, 0.5], [1, 0.5], [2, 0.5]], "share": [thing, thing]}
    assert len(results) == 3


@pytest.mark.slow
@pytest.mark.goal("A11")
def test_a_death_is_told_once(folder: Path) -> None:
    results = found(folder, "killed")
    assert [result["error"] for result in results] == ["TrainingError"] * 2
    [said] = [result["said"] for result in results if result["said"]]
    assert said == "another worker has ended; the same command goes on from the last checkpoint"


@pytest.mark.slow
@pytest.mark.goal("A11")
def test_an_error_is_told_by_who_has_it(folder: Path) -> None:
    assert [result["said"] for result in found(folder, "error")] == ["", "", "the corpus is gone"]


def test_settings_that_a_resumption_may_change() -> None:
    from dragoman.train.prepare import FREE

    assert {"device", "sharded"} <= FREE <= set(TrainConfig.__struct_fields__)
