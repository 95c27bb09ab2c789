"""What a person does with files of their own: check, train, translate, evaluate, score, average."""

import gzip
import itertools
import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

import dragoman
from command import PYTHON_M, call, done, settings, spawn, write_lines
from dragoman.store import tensors
from folders import write_model
from trainings import Digits

LINES = ["1 2 3", "", "4 5 6 7", "  ", "9 0 8"]
WANTED = ["3 2 1", "", "7 6 5 4", "  ", "8 0 9"]


def joined(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


# check and train -----------------------------------------------------------------------------------------------------


def test_check_tells_what_training_would_do(digits: Digits) -> None:
    train, valid, test = (digits.pair(name) for name in ("train", "valid", "test"))
    ran = done("check", *train, "--valid", *valid, "--test", *test, "--json")
    assert ran.err == ""
    [report] = ran.json
    assert report["train"]["pairs"] == len(digits.lines("train.src"))
    assert report["fit_to_train"]
    assert report["preset"] == "tiny"
    assert report["vocab_size"] > 256
    assert report["estimated_minutes"] > 0


def test_check_says_1_to_what_training_would_refuse(digits: Digits, tmp_path: Path) -> None:
    short = write_lines(tmp_path / "short", digits.lines("train.tgt")[:-1])
    count = len(digits.lines("train.src"))
    ran = call("check", digits.folder / "train.src", short, "--no-estimate")
    assert ran.code == 1
    said = " ".join(ran.out.split())
    assert f"{count:,} lines" in said
    assert f"{count - 1:,}" in said
    assert "training will refuse this" in said


def test_training_leaves_a_whole_folder(digits: Digits) -> None:
    names = {path.name for path in digits.model.iterdir()}
    assert names == {
        *("config.toml", "tokenizer.json", "model.safetensors", "README.md", "provenance.json"),
        *("report.json", "journal.jsonl", "curve.png", "training"),
    }
    assert (digits.model / "curve.png").read_bytes().startswith(b"\x89PNG")
    provenance = json.loads((digits.model / "provenance.json").read_text())
    assert provenance["pairs"]["kept"] == len(digits.lines("train.src"))
    assert [entry["path"] for entry in provenance["data"]["train"]] == list(map(str, digits.pair("train")))
    assert json.loads((digits.model / "report.json").read_text())["fit_to_train"]
    events = [json.loads(line) for line in (digits.model / "journal.jsonl").read_text().splitlines()]
    assert [event["step"] for event in events if event["event"] == "validation"] == [225, 450]
    weights = tensors.read_header(digits.model / "model.safetensors").specs
    parameters = sum(int(np.prod(shape)) for shape, _ in weights.values())
    assert f"| parameters | {parameters:,} |" in (digits.model / "README.md").read_text()


def test_training_tells_what_it_does(digits: Digits) -> None:
    said = digits.log
    assert "reading the corpus\n" in said
    assert "a model of 30,208 parameters (0.1 MB): 1 + 1 layers of width 32, 272 pieces\n" in said
    assert "update 450: validation loss" in said
    assert "dragoman translate --model" in said.splitlines()[-1]


def test_a_folder_without_training_translates_anywhere(digits: Digits, tmp_path: Path) -> None:
    copy = tmp_path / "eine Kopie – 副本"
    shutil.copytree(digits.model, copy, ignore=shutil.ignore_patterns("training"))
    bare = {"PATH": "/usr/bin:/bin", "LANG": "C", "PYTHONOPTIMIZE": "2"}  # no HOME, no locale, no assert
    command = [PYTHON_M[0], "-I", *PYTHON_M[1:], "translate", "--model", str(copy), "1 2 3"]
    ran = subprocess.run(command, capture_output=True, check=True, cwd="/", env=bare)
    assert (ran.stdout, ran.stderr) == (b"3 2 1\n", b"")


# translate: the ways in ----------------------------------------------------------------------------------------------


def test_lines_in_lines_out(digits: Digits) -> None:
    ran = done("translate", "--model", digits.model, stdin=joined(LINES))
    assert ran.lines == WANTED
    assert ran.err == ""


def test_the_last_line_needs_no_end(digits: Digits) -> None:
    assert done("translate", "--model", digits.model, stdin=b"1 2 3\n4 5").out == "3 2 1\n5 4\n"


def test_no_lines_in_no_lines_out(digits: Digits) -> None:
    assert done("translate", "--model", digits.model, stdin=b"").out == ""


def test_a_file_and_arguments(digits: Digits, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "in.txt", LINES)
    packed = tmp_path / "in.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    for given in (["--file", path], ["--file", packed], ["--", *LINES]):
        assert done("translate", "--model", digits.model, *given).lines == WANTED


def test_order_is_kept_whatever_the_lengths(digits: Digits) -> None:
    lines = digits.lines("test.src")[:60]
    got = done("translate", "--model", digits.model, "--beam", 1, stdin=joined(lines)).lines
    alone = dragoman.load(digits.model)
    alone.search = replace(alone.search, beam_size=1)
    assert got == alone.translate(lines)
    assert sorted(map(len, got)) != list(map(len, got))


def test_only_line_feeds_end_lines(digits: Digits) -> None:
    odd = ["1\u20282", "3\x0b4", "5\x856", "7\r8", "9"]
    ran = done("translate", "--model", digits.model, "--json", stdin=joined(odd))
    assert [line["source"] for line in ran.json] == odd
    assert ran.out.count("\n") == len(odd)


def test_an_answer_comes_before_the_next_question(digits: Digits) -> None:
    with spawn("translate", "--model", digits.model) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for line, wanted in zip(LINES, WANTED, strict=True):
            process.stdin.write(joined([line]))
            process.stdin.flush()
            assert process.stdout.readline() == joined([wanted])
        process.stdin.close()
        assert process.stderr is not None
        assert (process.stdout.read(), process.stderr.read(), process.wait()) == (b"", b"", 0)


def test_nobody_reads_the_rest(digits: Digits) -> None:
    with spawn("translate", "--model", digits.model, "--beam", 1) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(joined(LINES))
        process.stdin.flush()
        assert process.stdout.readline() == b"3 2 1\n"
        process.stdout.close()
        process.stdin.write(joined(LINES))
        process.stdin.close()
        assert (process.wait(), process.stderr.read()) == (141, b"")


def test_nobody_reads_the_report(digits: Digits) -> None:
    """Which is not the exit code of a corpus that is unfit."""
    with spawn("check", digits.folder / "train.src", digits.folder / "train.tgt", "--no-estimate") as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait() == 141


def test_faulty_bytes_end_it_after_the_sound_lines(digits: Digits) -> None:
    ran = call("translate", "--model", digits.model, stdin=b"1 2 3\n4 \xff 5\n")
    assert (ran.code, ran.out) == (2, "3 2 1\n")
    assert "line 2, byte 8" in ran.err


# translate: what it says ---------------------------------------------------------------------------------------------


def test_n_best(digits: Digits) -> None:
    ran = done("translate", "--model", digits.model, "--n-best", 3, stdin=joined(LINES[:3]))
    rows = [line.split("\t") for line in ran.lines]
    assert [row[0] for row in rows] == ["1"] * 3 + ["2"] + ["3"] * 3
    assert [rows[0][2], rows[3][2], rows[4][2]] == WANTED[:3]
    for number in ("1", "3"):
        scores = [float(row[1]) for row in rows if row[0] == number]
        assert scores == sorted(scores, reverse=True)
        assert len({row[2] for row in rows if row[0] == number}) == 3


def test_n_best_raises_the_beam(digits: Digits) -> None:
    assert len(done("translate", "--model", digits.model, "--n-best", 7, "1 2").lines) == 7


def test_json(digits: Digits) -> None:
    lines = done("translate", "--model", digits.model, "--n-best", 2, "--json", stdin=joined(LINES)).json
    assert [line["line"] for line in lines] == [1, 2, 3, 4, 5]
    assert [line["source"] for line in lines] == LINES
    assert [line["translations"][0]["text"] for line in lines] == WANTED
    translator = dragoman.load(digits.model)
    search = replace(translator.search, n_best=2)
    for line, found in zip(lines, translator.stream(LINES, search), strict=True):
        assert len(line["translations"]) == len(found)
        for told, one in zip(line["translations"], found, strict=True):
            assert told["score"] == pytest.approx(one.score)
            assert not told["cut"]
            log_prob = sum(part.hypothesis.log_prob for part in one.parts)
            assert sum(told["log_probs"]) == pytest.approx(log_prob)
            assert len(told["tokens"]) == len(told["log_probs"]) == len(told["alignment"])
            assert set(told["alignment"]) <= set(range(len(told["source_tokens"])))
            if one.parts:
                assert told["tokens"][-1] == told["source_tokens"][-1] == "<eos>"
                assert "".join(told["tokens"][:-1]).strip() == told["text"]
                assert told["score"] == pytest.approx(log_prob / len(told["tokens"]))


def test_prefix(digits: Digits) -> None:
    ran = done("translate", "--model", digits.model, "--prefix", "8 8", "--n-best", 3, "1 2 3")
    assert all(line.split("\t")[2].startswith("8 8") for line in ran.lines)


def test_settings_and_recipes_reach_the_search(digits: Digits, tmp_path: Path) -> None:
    recipe = tmp_path / "greedy.toml"
    recipe.write_text("[search]\nbeam_size = 2\nn_best = 2\n", encoding="utf-8")
    command = ("translate", "--model", digits.model, "--json", "1 2 3")
    assert len(done(*command, "--config", recipe).json[0]["translations"]) == 2
    one = done(*command, "--config", recipe, *settings(search__n_best=1)).json
    assert len(one[0]["translations"]) == 1


def test_samples_repeat_with_their_seed(digits: Digits) -> None:
    hot = [*settings(search__sample="true", search__temperature=2.0)]
    command = ("translate", "--model", digits.model, *hot)
    lines = digits.lines("test.src")[:8]
    first = done(*command, stdin=joined(lines)).lines
    assert done(*command, stdin=joined(lines[::-1])).lines == first[::-1]
    assert done(*command, *settings(search__seed=2), stdin=joined(lines)).lines != first


# translate: long and endless -----------------------------------------------------------------------------------------


def test_a_long_line_is_split_and_joined(digits: Digits) -> None:
    """The translator takes five pieces at once; nothing of the line is lost, nothing is said twice."""
    line = " ".join("0123456789" * 3)
    [told] = done("translate", "--model", digits.model, "--json", stdin=joined([line, "1"])).json[:1]
    [translation] = told["translations"]
    spoken = "".join(translation["source_tokens"]).replace("<eos>", " ").split()
    assert spoken == line.split()
    parts = [[*group] for ends, group in itertools.groupby(translation["source_tokens"], "<eos>".__eq__) if not ends]
    assert len(parts) > 5
    assert translation["text"].split() == [piece.strip() for part in parts for piece in reversed(part)]


def test_a_prefix_begins_a_long_line_once(digits: Digits) -> None:
    line = " ".join("0123456789" * 2)
    [text] = done("translate", "--model", digits.model, "--prefix", "7 7", line).lines
    plain = done("translate", "--model", digits.model, line).out.split()
    assert text.startswith("7 7")
    assert text.split()[-10:] == plain[-10:]


def test_what_is_cut_is_told(digits: Digits) -> None:
    short = settings(search__max_length_ratio=0.0, search__max_length_extra=2)
    ran = done("translate", "--model", digits.model, *short, stdin=joined(["1 2", "", "3 4 5"]))
    assert ran.lines == ["2 1", "", "5 4"]
    assert ran.err == (
        "2 translations reached the length limit before their end (lines 1, 3); raise search.max_length_ratio\n"
    )


# evaluate, score, average --------------------------------------------------------------------------------------------


def test_evaluate(digits: Digits, tmp_path: Path) -> None:
    out = tmp_path / "out.txt"
    ran = done("evaluate", "--model", digits.model, *digits.pair("test"), "--output", out, "--json")
    [scores] = ran.json
    assert out.read_text().splitlines() == dragoman.load(digits.model).translate(digits.lines("test.src"))
    assert scores["lines"] == len(digits.lines("test.src"))
    assert scores["exact"] >= 95
    assert scores["bleu"]["value"] > 90
    assert "tok:13a" in scores["bleu"]["signature"]
    assert {"chrf", "ter"} <= scores.keys()

    wrong = write_lines(tmp_path / "wrong.txt", digits.lines("test.src"))
    table = done("evaluate", "--model", digits.model, *digits.pair("test"), "--compare", wrong).out
    assert "paired bootstrap" in table
    assert "p = 0.0" in table


def test_evaluate_against_a_second_model(digits: Digits, tmp_path: Path) -> None:
    few = [write_lines(tmp_path / side, digits.lines(f"test.{side}")[:20]) for side in ("src", "tgt")]
    [scores] = done("evaluate", "--model", digits.model, *few, "--compare", digits.model, "--json").json
    assert scores["comparison"]["bleu"]["difference"] == 0


def test_score_is_the_search_s_own(digits: Digits, tmp_path: Path) -> None:
    sources = digits.lines("test.src")[:20]
    told = done("translate", "--model", digits.model, "--n-best", 3, "--json", stdin=joined(sources)).json
    found = [(line["source"], each["text"], each["score"]) for line in told for each in line["translations"]]
    files = [write_lines(tmp_path / f"{side}.txt", [row[side] for row in found]) for side in (0, 1)]
    scored = done("score", "--model", digits.model, *files, "--tokens", "--json").json
    assert [row["score"] for row in scored] == pytest.approx([score for _, _, score in found], abs=1e-4)
    assert [row["line"] for row in scored] == list(range(1, len(found) + 1))
    for row in scored:
        assert sum(row["log_probs"]) == pytest.approx(row["log_prob"])
        assert len(row["tokens"]) == len(row["log_probs"])
    plain = done("score", "--model", digits.model, *files).lines
    assert [float(line.split("\t")[0]) for line in plain] == pytest.approx([row["score"] for row in scored], abs=1e-5)


def test_score_counts_what_it_passes_over(digits: Digits, tmp_path: Path) -> None:
    files = [write_lines(tmp_path / "a", ["1 2", "", "3"]), write_lines(tmp_path / "b", ["2 1", "4", "3"])]
    ran = done("score", "--model", digits.model, *files, "--json")
    assert [row["line"] for row in ran.json] == [1, 3]
    assert "1 pair skipped (empty source 1)" in ran.err


def test_average_of_one_model_is_that_model(digits: Digits, tmp_path: Path) -> None:
    done("average", digits.model, digits.model, "--out", tmp_path / "mean")
    ours, mean = (tensors.read_arrays(Path(root) / "model.safetensors") for root in (digits.model, tmp_path / "mean"))
    assert all(np.array_equal(ours[name], mean[name]) for name in ours)
    assert done("translate", "--model", tmp_path / "mean", "1 2 3").out == "3 2 1\n"


def test_models_of_different_dropout_have_a_mean(tmp_path: Path) -> None:
    first, second = (write_model(tmp_path / str(seed), seed, model={"dropout": 0.1 * seed}) for seed in (1, 2))
    done("average", first, second, "--out", tmp_path / "mean")
    one, two, mean = (tensors.read_arrays(root / "model.safetensors") for root in (first, second, tmp_path / "mean"))
    assert all(np.allclose(mean[name], (one[name] + two[name]) / 2) for name in one)
