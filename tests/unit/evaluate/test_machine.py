from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from dragoman.errors import EngineError
from dragoman.evaluate import machine
from dragoman.evaluate.machine import Machine, explain, look_around

CPUINFO = "model name\t: Some Processor\nflags\t\t: fpu avx2 fma avx512_vnni\n"


def refuse() -> str:
    raise EngineError("no CPU engine: it was not built")


def test_the_processor_says_what_it_can(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "instruction_set", refuse)
    (tmp_path / "cpuinfo").write_text(CPUINFO, encoding="utf-8")
    found = look_around(tmp_path / "cpuinfo", {"DRAGOMAN_ISA": "avx2"})
    assert (found.processor, found.has, found.wanted) == ("Some Processor", ("avx512_vnni", "avx2", "fma"), "avx2")
    assert (found.isa, found.isas, found.problem) == ("", (), "no CPU engine: it was not built")
    assert found.processors >= 1


def test_a_system_that_tells_nothing(tmp_path: Path) -> None:
    found = look_around(tmp_path / "none", {})
    assert found.processor
    assert found.has == ()


def test_the_reason_is_the_variable_or_the_best() -> None:
    best = Machine("P", 2, ("avx2",), "avx2", ("avx2", "portable"), "", "")
    assert "instruction set: avx2, the best of those that this build and this processor have\n" in explain(best)
    assert explain(best).endswith("others to choose with DRAGOMAN_ISA: portable")
    forced = Machine("P", 2, ("avx2",), "portable", ("avx2", "portable"), "portable", "")
    assert "instruction set: portable, because DRAGOMAN_ISA says so" in explain(forced)
    assert [one.is_forced for one in (best, forced)] == [False, True]
    assert not replace(best, wanted="avx2").is_forced, "it is what would be taken anyway"
    without = Machine("P", 2, (), "", (), "", "no CPU engine: it was not built")
    assert not without.is_forced
    assert replace(without, wanted="z80").is_forced
    assert explain(without) == "processor: P, 2 usable; has none\nno CPU engine: it was not built"


def test_what_the_system_refuses_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = SimpleNamespace(dragoman_isas=lambda: b"avx512bf16 portable", dragoman_refused=lambda: b"amx")
    monkeypatch.setattr(machine, "open_library", lambda: library)
    monkeypatch.setattr(machine, "instruction_set", lambda: "avx512bf16")
    found = look_around(tmp_path / "none", {})
    assert (found.isa, found.isas, found.refused) == ("avx512bf16", ("avx512bf16", "portable"), ("amx",))
    assert explain(found).splitlines()[1:] == [
        "instruction set: avx512bf16, the best of those that this build and this processor have and the system allows",
        "refused by the system: amx; an older kernel, a container or a virtual machine may do so",
        "others to choose with DRAGOMAN_ISA: portable",
    ]
