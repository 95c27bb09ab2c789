"""A lost line is found where it is lost, and nothing is found where nothing is."""

import random
from pathlib import Path

import numpy as np
import pytest

from dragoman.data.alignment import AlignmentWatch, Misalignment, first_suspicious_line
from dragoman.data.characters import characters

COUNT = 4000


def sides(seed: int, spread: int = 2) -> tuple[list[str], list[str]]:
    """Lines whose lengths go together as those of translations do (correlation about 0.9)."""
    rng = random.Random(seed)
    src = ["wo " * rng.randint(2, 24) + rng.choice(("end.", "end.", "end?", "end 1")) for _ in range(COUNT)]
    tgt = ["wor " * max(1, line.count(" ") + rng.randint(-spread, spread)) + line[-4:] for line in src]
    return src, tgt


def watched(src: list[str], tgt: list[str]) -> Misalignment | None:
    watch = AlignmentWatch()
    size = min(len(src), len(tgt))
    for start in range(0, size, 512):
        stop = min(size, start + 512)
        watch.add(characters(src[start:stop]), characters(tgt[start:stop]), np.arange(start + 1, stop + 1))
    watch.look()
    return watch.found


@pytest.mark.parametrize("seed", range(5))
def test_nothing_is_found_in_an_aligned_corpus(seed: int) -> None:
    assert watched(*sides(seed)) is None


@pytest.mark.parametrize("at", [300, 1777, 3600])
@pytest.mark.parametrize("lost", [1, 2, 40])
@pytest.mark.parametrize("side", ["src", "tgt"])
def test_lost_lines_are_found(at: int, lost: int, side: str) -> None:
    src, tgt = sides(at)
    del (src if side == "src" else tgt)[at : at + lost]
    found = watched(src, tgt)
    assert found is not None
    assert found.shift == (lost if side == "src" else -lost)
    assert at + 1 - 10 <= found.line <= at + 1 + lost + 10
    assert found.last_line > COUNT - lost - 30
    assert f"{lost} line" in found.tale


def test_a_shift_that_is_made_good_again_is_found_as_a_stretch() -> None:
    src, tgt = sides(3)
    del tgt[1000]
    tgt.insert(1500, "an extra line")
    found = watched(src, tgt)
    assert found is not None
    assert abs(found.line - 1001) <= 8
    assert abs(found.last_line - 1501) <= 8
    assert found.shift == -1


def test_a_side_in_another_order_is_found_without_a_shift() -> None:
    src, tgt = sides(4)
    tail = tgt[2000:]
    random.Random(1).shuffle(tail)
    found = watched(src, tgt[:2000] + tail)
    assert found is not None
    assert found.shift is None
    assert abs(found.line - 2001) <= 20
    assert "no longer go together" in found.tale


def test_passages_with_a_ratio_of_their_own_are_no_misalignment() -> None:
    src, tgt = sides(5)
    tgt[1000:1500] = [f"{line} with a long remark at the end of every line" for line in tgt[1000:1500]]
    assert watched(src, tgt) is None


def test_too_few_lines_and_lengths_that_tell_nothing_give_no_verdict() -> None:
    src, tgt = sides(6)
    assert watched(src[:100], tgt[1:101]) is None
    random.Random(2).shuffle(tgt)
    assert watched(src, tgt) is None
    assert watched(["same"] * 500, ["gleich"] * 500) is None


def test_a_gap_near_the_end_of_files_is_found(tmp_path: Path) -> None:
    src, tgt = sides(8)
    del tgt[3960]
    paths = (tmp_path / "a", tmp_path / "b")
    for path, lines in zip(paths, (src, tgt), strict=True):
        path.write_text("\n".join(lines) + "\n")
    found = first_suspicious_line(paths)
    assert found is not None
    assert abs(found.line - 3961) <= 8


@pytest.mark.parametrize("side", [0, 1])
def test_a_gap_too_near_the_end_to_be_sure_is_still_the_likeliest_place(tmp_path: Path, side: int) -> None:
    both = sides(9)
    del both[side][COUNT - 16]
    paths = (tmp_path / "a", tmp_path / "b")
    for path, lines in zip(paths, both, strict=True):
        path.write_text("\n".join(lines) + "\n")
    found = first_suspicious_line(paths)
    assert found is not None
    assert abs(found.line - (COUNT - 15)) <= 4
    assert found.shift == (1 if side == 0 else -1)


def test_files_with_empty_lines_are_compared(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a\n\nb\n")
    (tmp_path / "b").write_text("\n\n")
    assert first_suspicious_line((tmp_path / "a", tmp_path / "b")) is None
