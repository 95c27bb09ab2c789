"""Before the first update, and the checks when a training goes on."""

import importlib.util
import json
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from command import write_lines
from dragoman.config import Config
from dragoman.errors import ConfigError, DataError, FolderError, RequestError
from dragoman.store import files
from dragoman.store.folder import ModelFolder
from dragoman.text.tokenizer import Tokenizer
from dragoman.train import prepare
from dragoman.train.loop import Loop
from dragoman.train.prepare import Prepared, held_out, longest_side, reopen
from trainings import Silent, corpus, digit_lines, prepared_in


def trained_on(prepared: Prepared) -> list[str]:
    """The source texts in the token file."""
    return [prepared.src.decode(prepared.tokens.pair(index)[0]) for index in range(len(prepared.tokens))]


def content(root: Path) -> dict[str, bytes]:
    """Everything in a folder, but when its data were last touched."""
    paths = [path for path in sorted(root.rglob("*")) if path.is_file()]
    return {str(path.relative_to(root)): path.read_bytes() for path in paths}


def test_what_is_put_aside_depends_on_the_line_alone() -> None:
    aside = [line for line in range(1, 20_001) if held_out(line, 20)]
    assert 0.9 * 1000 < len(aside) < 1.1 * 1000
    assert not any(held_out(line, 0) for line in range(100))


def test_pairs_are_put_aside(tmp_path: Path) -> None:
    watcher = Silent()
    prepared = prepared_in(tmp_path / "m", corpus(tmp_path, 60), watcher=watcher, train__validate_limit=50)
    assert "no --valid given: one pair in 20 is put aside for validation" in watcher.messages
    assert sorted([*trained_on(prepared), *prepared.validation.sources]) == sorted(digit_lines(60))
    assert prepared.validation.sources
    assert [source[::-1] for source in prepared.validation.sources] == list(prepared.validation.references)


@pytest.mark.parametrize("count", [1, 2, 19])
def test_a_handful_is_trained_on_and_validated_on(tmp_path: Path, count: int) -> None:
    watcher = Silent()
    prepared = prepared_in(tmp_path / "m", corpus(tmp_path, count), watcher=watcher)
    assert "no --valid given: the first pair is used for validation" in watcher.messages
    assert trained_on(prepared) == digit_lines(count)
    assert list(prepared.validation.sources) == digit_lines(count)[:1]


def test_one_pair_can_be_learned(tmp_path: Path) -> None:
    prepared = prepared_in(tmp_path / "m", corpus(tmp_path, 1), train__steps=3, train__accumulate=2)
    watcher = Silent()
    assert Loop(prepared, watcher).run(lambda: 0).counters.step == 3
    assert prepared.folder.weights.exists()


def test_one_pair_far_down_its_file(tmp_path: Path) -> None:
    """Its line would be one of those put aside."""
    line = next(line for line in range(1, 1000) if held_out(line, 20))
    pair = [write_lines(tmp_path / side, [""] * (line - 1) + ["1 2"]) for side in ("src", "tgt")]
    watcher = Silent()
    prepared = prepared_in(tmp_path / "m", pair, watcher=watcher)
    assert len(prepared.tokens) == 1
    assert f"skipped in the training data: {line - 1} pairs skipped (both sides empty {line - 1})" in watcher.messages


def test_ids_that_were_deleted_are_written_again(tmp_path: Path) -> None:
    """With the same bytes, for a training that has begun and for the data it was begun with; not for others."""
    train, values = corpus(tmp_path, 60), {"data__drop_duplicates": "true", "train__save_every": 2}
    prepared = prepared_in(tmp_path / "m", train, **values)
    shutil.move(prepared.folder.corpus / "train", tmp_path / "ids")
    with pytest.raises(FolderError, match="without its training/ part"):
        prepared_in(tmp_path / "m", train, **values)
    shutil.move(tmp_path / "ids", prepared.folder.corpus / "train")
    Loop(prepared, Silent()).run(lambda: 0)
    ids = content(prepared.folder.corpus / "train")
    shutil.rmtree(prepared.folder.corpus / "train")
    watcher = Silent()
    again = prepared_in(tmp_path / "m", train, watcher=watcher, **values)
    assert "writing the ids again" in watcher.messages
    assert content(again.folder.corpus / "train") == ids
    assert again.identity == prepared.identity
    shutil.rmtree(prepared.folder.corpus / "train")
    train[0].write_text(train[0].read_text().replace("1", "2"))
    with pytest.raises(DataError, match="is gone, and the data are not those it was made of"):
        prepared_in(tmp_path / "m", train, **values)


@pytest.mark.parametrize(
    ("search", "said"),
    [
        ({"search__min_length": 60000}, "search.min_length is 60000 pieces, but this model writes fewer than 1024"),
        ({"search__suppress": "[2, 99999]"}, "suppress=99999 is not an id of this vocabulary"),
    ],
)
def test_a_search_that_no_validation_could_make(tmp_path: Path, search: dict[str, Any], said: str) -> None:
    """It is refused before the ids are written, and when a training goes on."""
    watcher = Silent()
    with pytest.raises((ConfigError, RequestError), match=said):
        prepared_in(tmp_path / "m", corpus(tmp_path, 60), watcher=watcher, **search)
    assert "writing the ids" not in watcher.messages
    prepared_in(tmp_path / "m", corpus(tmp_path, 60))
    with pytest.raises((ConfigError, RequestError), match=said):
        prepared_in(tmp_path / "m", corpus(tmp_path, 60), **search)


def test_a_later_version_may_know_more_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Checkpoints are told apart by what differs from the defaults."""
    one, other = (
        prepared_in(tmp_path / name, corpus(tmp_path, 60), train__seed=seed).identity["configuration"]
        for name, seed in (("one", 1), ("other", 2))
    )
    assert one != other
    real = Config.to_dict

    def to_dict(self: Config) -> dict[str, dict[str, Any]]:
        known = real(self)
        return {**known, "train": {**known["train"], "new": 7}}

    monkeypatch.setattr(Config, "to_dict", to_dict)
    assert reopen(ModelFolder(tmp_path / "one")).identity["configuration"] == one


def test_the_report_is_kept_and_its_warnings_told(tmp_path: Path) -> None:
    train, watcher = corpus(tmp_path, 60), Silent()
    prepared = prepared_in(tmp_path / "m", train, train, watcher)
    report = json.loads(prepared.folder.report.read_text())
    assert report["fit_to_train"]
    assert report["train"]["pairs"] == report["valid"]["pairs"] == 60
    warnings = [text for text in watcher.messages if text.startswith("warning: ")]
    assert any("valid and train" in text and "60 of" in text for text in warnings)
    told = [f"warning: {each['where']}: {each['what']}" for each in report["findings"] if each["level"] == "warning"]
    assert all(wanted in got for wanted, got in zip(told, warnings, strict=True))


def test_errors_refuse_and_the_mended_corpus_is_taken(tmp_path: Path) -> None:
    train = corpus(tmp_path, 20)
    sound = train[1].read_bytes()
    train[1].write_bytes(b"\xff" + sound)
    with pytest.raises(DataError, match=r"train: 1 pair will be refused .*line 1.*skip_invalid"):
        prepared_in(tmp_path / "m", train)
    assert not ModelFolder(tmp_path / "m").config.exists()
    train[1].write_bytes(sound)
    assert len(prepared_in(tmp_path / "m", train, train).tokens) == 20


def test_prepared_again_after_every_interruption(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train = corpus(tmp_path, 30)
    prepared_in(tmp_path / "whole", train)
    real = files.write_atomic
    for at in range(1, 6):
        with monkeypatch.context() as patch:
            patch.setattr(files, "write_atomic", _dies(real, at))
            with pytest.raises(KeyboardInterrupt):
                prepared_in(tmp_path / str(at), train)
        prepared_in(tmp_path / str(at), train)
        assert content(tmp_path / str(at)) == content(tmp_path / "whole")


def _dies(real: Callable[..., None], at: int) -> Callable[..., None]:
    calls = iter(range(1, 100))

    def write(*arguments: Any) -> None:
        if next(calls) == at:
            raise KeyboardInterrupt
        real(*arguments)

    return write


def test_prepared_once(tmp_path: Path) -> None:
    train = corpus(tmp_path, 30)
    first, watcher = prepared_in(tmp_path / "m", train), Silent()
    before = content(tmp_path / "m")
    again = prepared_in(tmp_path / "m", train, watcher=watcher)
    assert content(tmp_path / "m") == before
    assert (again.identity, again.config) == (first.identity, first.config)
    assert watcher.messages == []


def test_what_may_change_does_not_change_who_it_is(tmp_path: Path) -> None:
    train = corpus(tmp_path, 30)
    first = prepared_in(tmp_path / "m", train)
    again = prepared_in(tmp_path / "m", train, train__steps=9, train__save_every=7, search__beam_size=2)
    assert again.identity == first.identity
    assert (again.config.train.steps, again.config.train.save_every, again.config.search.beam_size) == (9, 7, 2)
    assert prepared_in(tmp_path / "m", train, train__steps=9).config.train.save_every == 7


def test_validation_pairs_can_become_fewer_and_not_more(tmp_path: Path) -> None:
    train, counts = corpus(tmp_path, 30), []
    for limit in (5, 2, 9):
        counts.append(len(prepared_in(tmp_path / "m", train, train, train__validate_limit=limit).validation.sources))
    assert counts == [5, 2, 5]


def test_a_vocabulary_is_learned_from_all_over_a_large_corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train, learned = corpus(tmp_path, 60), list[str]()
    real = Tokenizer.learn
    monkeypatch.setattr(prepare, "SAMPLE_PIECES", 25)
    monkeypatch.setattr(Tokenizer, "learn", lambda lines, size: real(tee(lines, learned), size))
    prepared_in(tmp_path / "m", train, train)
    lines = digit_lines(60)
    places = sorted(lines.index(line) for line in learned if line in lines)
    assert 10 <= len(learned) <= 40
    assert places[0] < 10
    assert places[-1] >= 45


def tee(lines: Iterable[str], into: list[str]) -> Iterator[str]:
    """``lines``, each of which is also put into a list."""
    for line in lines:
        into.append(line)
        yield line


def test_what_is_too_long_is_dropped_and_told(tmp_path: Path) -> None:
    lines = ["1 2", "3 4 5 6 7 8", "9"]
    train = [write_lines(tmp_path / side, lines) for side in ("src", "tgt")]
    watcher = Silent()
    prepared = prepared_in(tmp_path / "m", train, watcher=watcher, data__max_length=4)
    assert trained_on(prepared) == ["1 2", "9"]
    assert "dropped 1 pairs: too long" in watcher.messages


def test_learned_positions_drop_what_they_cannot_reach(tmp_path: Path) -> None:
    train = corpus(tmp_path, 30)
    learned: dict[str, Any] = {"model__positions": "learned", "model__max_positions": 6}
    prepared = prepared_in(tmp_path / "m", train, train, **learned)
    assert longest_side(prepared.config) == 5
    assert max(len(text.split()) for text in digit_lines(30)) > 5
    assert max(len(text.split()) for text in trained_on(prepared)) == 5
    assert Loop(prepared, Silent()).run(lambda: 0).counters.step == 4


def test_two_vocabularies(tmp_path: Path) -> None:
    prepared = prepared_in(tmp_path / "m", corpus(tmp_path, 30), text__shared="false", model__tied="output")
    assert {"tokenizer.src.json", "tokenizer.tgt.json"} <= {path.name for path in (tmp_path / "m").iterdir()}
    assert prepared.src is not prepared.tgt


def test_a_missing_board_is_told_before_anything_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=r"pip install dragoman\[tensorboard\]"):
        prepared_in(tmp_path / "m", corpus(tmp_path, 30), train__tensorboard="true")
    assert not (tmp_path / "m" / "report.json").exists()
