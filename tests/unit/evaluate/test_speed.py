import json
from itertools import count
from pathlib import Path

import pytest

from dragoman.engine.loading import load
from dragoman.errors import EngineError, RequestError
from dragoman.evaluate import speed, speed_process
from dragoman.evaluate.machine import Machine
from dragoman.evaluate.speed import Plan, Precision, Speed
from dragoman.store import records
from dragoman.store.folder import ModelFolder
from folders import PIECES, write_model
from toys import toy_tokenizer

WITHOUT = Machine("a processor", 2, ("avx2",), "", (), "", "no CPU engine: it was not built")
WITH = Machine("a processor", 2, ("avx2",), "avx2", ("avx2", "portable"), "", "")


def made(precision: Precision, threads: int, batch: int, beam: int, sentences: float) -> Speed:
    return Speed(precision, threads, batch, beam, sentences, 9.0, 1.0, 2.0, 3.0, 4, 100.0, 0.5)


def test_percentiles_are_values_that_were_measured() -> None:
    hundred = [float(value) for value in range(1, 101)]
    assert [speed.percentile(hundred, share) for share in (50, 95, 99)] == [50.0, 95.0, 99.0]
    assert [speed.percentile([7.0], share) for share in (50, 99)] == [7.0, 7.0]
    assert speed.percentile([1.0, 2.0, 3.0], 50) == 2.0


def test_rounds_are_summed_up() -> None:
    answers = [
        {"seconds": [0.2, 0.4], "tokens": 30, "rss_mib": 80.0},
        {"seconds": [0.4], "tokens": 20, "rss_mib": 90.0},
    ]
    one = speed.summarize("float32", 2, 4, 5, 0.3, answers)
    assert one.sentences_per_second == pytest.approx(3 * 4 / 1.0)
    assert one.tokens_per_second == pytest.approx(50.0)
    assert (one.p50_ms, one.p99_ms, one.samples, one.rss_mib) == (400.0, 400.0, 3, 90.0)


def test_the_best_is_looked_for_where_it_tells_most() -> None:
    speeds = [
        made("float32", 1, 1, 5, 900.0),
        made("float32", 1, 32, 1, 800.0),
        made("float32", 1, 32, 5, 100.0),
        made("int8", 2, 32, 5, 200.0),
    ]
    assert speed.best(speeds) is speeds[3]


def test_of_equals_the_one_with_fewest_threads_is_best() -> None:
    speeds = [made("int8", 4, 32, 5, 100.0), made("int8", 2, 32, 5, 98.0), made("int8", 1, 32, 5, 90.0)]
    assert speed.best(speeds) is speeds[1]


def test_the_most_telling_pairs_are_measured_first() -> None:
    plan = Plan(("torch",), (1,), batches=(1, 32, 128), beams=(1, 5))
    assert plan.pairs() == [(128, 5), (1, 5), (32, 5), (128, 1), (1, 1), (32, 1)]
    assert Plan(("torch",), (1,), batches=(8,), beams=(4, 4)).pairs() == [(8, 4)]


@pytest.mark.parametrize("wrong", [{"threads": (0,)}, {"batches": (1, -1)}, {"beams": (0,)}])
def test_nothing_is_measured_with_less_than_one(wrong: dict[str, tuple[int, ...]]) -> None:
    with pytest.raises(RequestError, match=f"{next(iter(wrong))}: .* is less than 1"):
        Plan(**{"precisions": ("torch",), "threads": (1,), "batches": (1,), "beams": (1,), **wrong})  # type: ignore[arg-type]


@pytest.mark.parametrize(("processors", "counts"), [(1, [1]), (2, [1, 2]), (3, [1, 3]), (8, [1, 4, 8])])
def test_thread_counts(processors: int, counts: list[int]) -> None:
    assert speed.thread_counts(processors) == counts


def test_precisions_are_those_that_can_be_had(tmp_path: Path) -> None:
    folder = ModelFolder(tmp_path)
    assert speed.precisions(folder, WITHOUT, ()) == ["torch"]
    assert speed.precisions(folder, WITH, ()) == ["float32"]
    assert speed.precisions(folder, WITH, ("torch", "float32", "torch")) == ["torch", "float32"]
    with pytest.raises(RequestError, match="int8 is not to be had .* run `dragoman quantize` first"):
        speed.precisions(folder, WITH, ("int8",))
    with pytest.raises(RequestError, match="float32 is not to be had .* it was not built"):
        speed.precisions(folder, WITHOUT, ("float32",))
    with pytest.raises(RequestError, match="precision int4 is unknown"):
        speed.precisions(folder, WITH, ("int4",))
    folder.engine.touch()
    assert speed.precisions(folder, WITH, ()) == ["int8", "float32"]


def test_without_engine_and_pytorch_nothing_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed, "has_torch", lambda: False)
    for wanted in ((), ("torch",), ("int8",)):
        with pytest.raises(EngineError, match=r"^no CPU engine: it was not built$"):
            speed.precisions(ModelFolder(tmp_path), WITHOUT, wanted)
    assert speed.precisions(ModelFolder(tmp_path), WITH, ()) == ["float32"]


def test_sentences_come_from_a_file_or_the_training_or_the_vocabulary(tmp_path: Path) -> None:
    folder = ModelFolder.create(tmp_path / "model")
    found, origin = speed.sentences(folder, lambda: toy_tokenizer(PIECES), None)
    assert len(found) == 200
    assert "made up" in origin
    records.write(folder.validation, [["a cat", "un chat"], [" ", "x"]])
    assert speed.sentences(folder, lambda: toy_tokenizer(PIECES), None)[0] == ["a cat"]
    (tmp_path / "lines").write_text("one\n\ntwo\n", encoding="utf-8")
    assert speed.sentences(folder, lambda: toy_tokenizer(PIECES), tmp_path / "lines")[0] == ["one", "two"]
    (tmp_path / "lines").write_text("\n\n", encoding="utf-8")
    with pytest.raises(RequestError, match="no sentences"):
        speed.sentences(folder, lambda: toy_tokenizer(PIECES), tmp_path / "lines")


def test_made_up_sentences_are_lines_and_always_the_same() -> None:
    lines = speed.made_up(toy_tokenizer(PIECES), 50)
    assert lines == speed.made_up(toy_tokenizer(PIECES), 50)
    assert all(line.strip() == line and line and len(line.splitlines()) == 1 for line in lines)


def test_the_record_names_the_settings_and_the_machine(tmp_path: Path) -> None:
    path = speed.record(tmp_path, made("int8", 2, 32, 5, 123.456), WITH)
    assert path.name == "bench.json"
    assert records.read(path) == {
        "threads": 2,
        "precision": "int8",
        "batch": 32,
        "beam": 5,
        "sentences_per_second": 123.5,
        "processor": "a processor",
        "processors": 2,
        "isa": "avx2",
    }


def test_measuring_translates_batch_after_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = count()
    monkeypatch.setattr(speed_process.time, "perf_counter", lambda: next(clock))
    translator = load(write_model(tmp_path), "torch", 1)
    found = speed_process.measure(translator, ["a cat", "the mat", "a dog"], batch=2, beam=2, seconds=2.5)
    assert found["seconds"] == [1, 1, 1]
    assert found["tokens"] >= 6
    assert speed_process.measure(translator, ["a cat"], batch=1, beam=1, seconds=0.0)["seconds"] == [1]


def test_the_process_tells_of_its_start_then_answers(tmp_path: Path) -> None:
    asked = {"folder": str(write_model(tmp_path)), "precision": "torch", "threads": 1, "line": "a cat"}
    request = json.dumps({"lines": ["a cat"], "batch": 2, "beam": 1, "seconds": 0.0}) + "\n"
    with (tmp_path / "requests").open("w+", encoding="utf-8") as requests:
        requests.write(request)
        requests.seek(0)
        first, second = speed_process.answers(asked, requests)
    assert first["rss_mib"] > 10
    assert second.keys() == {"seconds", "tokens", "rss_mib"}


def test_what_goes_wrong_in_the_process_is_told(tmp_path: Path) -> None:
    asked = {"folder": str(tmp_path / "none"), "precision": "torch", "threads": 1, "line": "a cat"}
    with (tmp_path / "requests").open("w+", encoding="utf-8") as requests:
        (only,) = speed_process.answers(asked, requests)
    assert "is not a folder" in only["error"]


def test_a_model_that_cannot_be_loaded_is_one_error(tmp_path: Path) -> None:
    plan = Plan(("torch",), (1,), (1,), (1,))
    with pytest.raises(EngineError, match="torch, threads 1: .* is not a folder"):
        speed.bench(tmp_path / "none", ["a cat"], plan, lambda text: None)
