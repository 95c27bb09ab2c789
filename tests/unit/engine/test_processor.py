"""The processor is described as the system describes it."""

import os
import sys
from pathlib import Path

import pytest

from dragoman.engine import processor

CPUINFO = """processor\t: 0
model name\t: Some Processor
flags\t\t: fpu avx2 fma avx512_vnni

processor\t: 1
model name\t: Some Processor
flags\t\t: fpu avx2 fma avx512_vnni
"""


def test_name_and_flags(tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text(CPUINFO, encoding="utf-8")
    found = processor.look(tmp_path / "cpuinfo")
    assert (found.name, found.flags) == ("Some Processor", {"fpu", "avx2", "fma", "avx512_vnni"})


def test_flags_as_arm_has_them(tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text("Features\t: fp asimd asimddp\n", encoding="utf-8")
    assert processor.look(tmp_path / "cpuinfo").flags == {"fp", "asimd", "asimddp"}


def test_a_system_that_tells_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "another")
    found = processor.look(tmp_path / "none")
    assert found.name
    assert not found.flags
    assert found.usable == os.cpu_count()


def test_it_is_the_same_each_time() -> None:
    assert processor.look() == processor.look()
    assert processor.look().usable >= 1
