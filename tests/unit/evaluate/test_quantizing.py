"""Quantizing: what is measured, what is kept in float32, what is written, what is refused."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from command import call, done, write_lines
from dragoman.engine.library import instruction_set
from dragoman.engine.loading import load
from dragoman.engine.native_backend import NativeBackend
from dragoman.engine.native_loading import read_precise
from dragoman.errors import DataError, EngineError
from dragoman.evaluate import certificate as certificates
from dragoman.evaluate import quantizing
from dragoman.evaluate.certificate import Certificate, common_share
from dragoman.evaluate.description import describe
from dragoman.evaluate.quantizing import by_effect, quantize
from dragoman.store import records, tensors
from dragoman.store.folder import ModelFolder
from engines import needs_engine
from folders import write_model

SOURCES = ["the cat", "a dog is on the mat", "", "table", "12 dogs", "under", "le chat", "mat mat mat"]
SHORT = {"max_length_ratio": 1.0, "max_length_extra": 3, "beam_size": 2, "min_length": 4}
SIZES = {"d_model": 32, "num_heads": 4, "d_ff": 64}


def model_in(path: Path) -> ModelFolder:
    """It translates quickly, and says what its references say."""
    return ModelFolder(
        write_model(path / "model", model=SIZES, search=SHORT, text={"src_lang": "en", "tgt_lang": "fr"})
    )


def own_pairs(folder: ModelFolder) -> list[tuple[str, str]]:
    """Sentences with the model's own translations: chrF 100 for whoever changes nothing."""
    return list(zip(SOURCES, load(folder.root, "native").translate(SOURCES), strict=True))


@pytest.fixture
def folder(tmp_path: Path) -> ModelFolder:
    return model_in(tmp_path)


def some_certificate(**changes: Any) -> Certificate:
    given = {"dragoman": "1", "instruction_set": "portable", "weights_sha256": "", "engine_sha256": "", "precise": ()}
    counted = {"matrices": 9, "data": "", "sentences": 5, "places": 60, "agreement": 0.99, "largest_difference": 0.1}
    scores = {"translated_agreement": 0.9, "bleu_float32": 30.0, "bleu": 29.9, "chrf_float32": 50.0, "chrf": 50.0}
    return Certificate(**{**given, **counted, **scores, **changes})


def test_both_limits_count() -> None:
    assert some_certificate().is_passed
    assert some_certificate(bleu=29.81).is_passed
    assert not some_certificate(bleu=29.7).is_passed
    assert some_certificate(bleu=40.0).is_passed
    assert not some_certificate(agreement=0.9).is_passed
    assert "99.00% of 60 tokens agree, BLEU 30.00 -> 29.90" in some_certificate().summary()


@needs_engine
def test_what_is_written(folder: ModelFolder) -> None:
    told: list[str] = []
    made = quantize(folder, own_pairs(folder), "tests", True, told.append)
    stored = records.read(folder.certificate)
    assert stored == json.loads(json.dumps(made.to_json()))
    assert told[-1] == made.summary()
    assert made.chrf_float32 == pytest.approx(100.0)
    assert made.sentences == 7
    assert 0 < made.largest_difference < 5
    assert 0.5 < made.agreement <= 1.0
    assert made.engine_sha256 == tensors.read_header(folder.engine).sha256
    assert made.weights_sha256 == tensors.read_header(folder.weights).sha256
    assert read_precise(folder, tensors.read_header(folder.engine)) == made.precise
    backend = load(folder.root).backend
    assert isinstance(backend, NativeBackend)
    assert backend.model.is_int8


@needs_engine
def test_what_offends_most_stays_float32(folder: ModelFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits that no model keeps: three more attempts, each with more in float32, then refused or forced."""
    monkeypatch.setattr(quantizing, "KEPT", (0, 8, 2))
    strict = quantizing.measure
    monkeypatch.setattr(quantizing, "measure", lambda *given: replace(strict(*given), min_agreement=1.1))
    pairs, told = own_pairs(folder), list[str]()
    with pytest.raises(EngineError, match=r"changes too much \(.*nothing was written; --force"):
        quantize(folder, pairs, "tests", False, told.append)
    assert not folder.engine.exists()
    assert not folder.certificate.exists()
    assert [line.rpartition(", ")[2] for line in told] == [f"{n} of 19 matrices float32" for n in (0, 3, 10)]
    made = quantize(folder, pairs, "tests", True, told.append)
    assert not made.is_passed
    assert len(made.precise) == 10
    assert records.read(folder.certificate)["is_passed"] is False
    assert describe(folder)["precision"] == f"int8, but for {', '.join(made.precise)}"
    assert describe(folder)["certificate"]["summary"].endswith("FORCED: it changes more than is allowed")


@needs_engine
def test_the_effect_of_each_matrix(folder: ModelFolder) -> None:
    """A matrix with one huge weight in each row has lost all others once it is int8."""
    weights = tensors.read_tensors(folder.weights)
    weights["decoder.layers.1.feed_forward.outer.weight"][:, 0] = 500.0
    weights["decoder.layers.1.feed_forward.inner.weight"][0] = 0.0
    weights["decoder.layers.1.feed_forward.inner.bias"][0] = 0.0
    folder.write_weights(weights)
    subject = quantizing._subject(folder, [(text, text) for text in SOURCES if text], "tests")
    order = by_effect(subject)
    assert order[0] == "decoder.1.outer"
    assert sorted(order) == sorted(subject.sizes.matrices)


@needs_engine
def test_nothing_to_measure_with(folder: ModelFolder) -> None:
    with pytest.raises(DataError, match="tests has no sentence to measure with"):
        quantize(folder, [("", ""), (" ", "x")], "tests", True, print)


@needs_engine
def test_tokens_in_common(folder: ModelFolder) -> None:
    translator = load(folder.root, "native")
    one, other = (certificates.best_translations(translator, [text]) for text in ("the cat", "table"))
    assert common_share(one, one) == 1.0
    assert common_share([], []) == 1.0
    assert 0.0 <= common_share(one, other) < 1.0


# The commands --------------------------------------------------------------------------------------------------------


@needs_engine
def test_quantize_and_info(folder: ModelFolder, tmp_path: Path) -> None:
    before = done("info", folder.root, "--json").json[0]
    assert before["precision"] == "float32"
    assert before["certificate"] is None
    assert before["parameters"] == sum(array.size for array in tensors.read_arrays(folder.weights).values())
    files = [write_lines(tmp_path / f"test.{side}", [text for text in SOURCES if text]) for side in (0, 1)]
    ran = done("quantize", folder.root, *files, "--force", "--limit", 5, "--json")
    assert ran.json[0]["data"] == "test.0 test.1"
    assert ran.json[0]["sentences"] == 5
    assert "tokens agree" in ran.err
    after = done("info", folder.root, "--json").json[0]
    assert after["precision"].startswith("int8")
    assert after["certificate"]["agreement"] == ran.json[0]["agreement"]
    assert set(after["files"]) == {"model.safetensors", "engine.safetensors"}
    text = done("info", folder.root).out
    for shown in ("native", "en", "fr", "1 + 2", "engine.safetensors", "BLEU", "certificate"):
        assert shown in text
    write_model(folder.root, seed=2, model=SIZES, search=SHORT)
    stale = done("info", folder.root, "--json").json[0]
    assert stale["precision"] is None
    assert "made from other weights" in stale["problem"]


@needs_engine
def test_the_training_s_own_validation_pairs(folder: ModelFolder) -> None:
    ran = call("quantize", folder.root)
    assert (ran.code, ran.out) == (2, "")
    assert "holds no validation sentences to measure with; give files SOURCE and TARGET" in ran.err
    records.write(folder.validation, [list(pair) for pair in own_pairs(folder)])
    assert done("quantize", folder.root, "--force", "--json").json[0]["data"] == "validation pairs of the training"


@needs_engine
def test_measured_with_another_instruction_set(folder: ModelFolder) -> None:
    """What it says holds where it was measured: AVX2 rounds to fewer bits."""
    quantize(folder, own_pairs(folder), "tests", True, lambda message: None)
    assert "measured with" not in describe(folder)["certificate"]["summary"]
    stored = records.read(folder.certificate)
    records.write(folder.certificate, {**stored, "instruction_set": "other"})
    assert f"; measured with other, not with {instruction_set()}" in describe(folder)["certificate"]["summary"]


@needs_engine
def test_a_certificate_of_other_weights_is_not_shown(folder: ModelFolder) -> None:
    quantize(folder, own_pairs(folder), "tests", True, lambda message: None)
    stored = records.read(folder.certificate)
    records.write(folder.certificate, {**stored, "engine_sha256": "0" * 64})
    assert describe(folder)["certificate"] is None
    records.write(folder.certificate, {**stored, "bleu": "many"})
    ran = call("info", folder.root)
    assert ran.code == 2
    assert "certificate.json is damaged: run `dragoman quantize" in ran.err


def test_without_an_engine(folder: ModelFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise EngineError("there is none")

    monkeypatch.setattr(quantizing, "open_library", missing)
    monkeypatch.setattr("dragoman.evaluate.description.instruction_set", missing)
    with pytest.raises(EngineError, match="there is none"):
        quantize(folder, [("a", "b")], "tests", True, print)
    facts = describe(folder)
    assert (facts["backend"], facts["precision"], facts["problem"]) == ("torch", "float32", "there is none")
    assert "there is none" in done("info", folder.root).out
