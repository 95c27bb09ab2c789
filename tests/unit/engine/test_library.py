"""Where the engine's library is looked for, and what is said when it will not serve."""

import ctypes
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from numpy._core import _multiarray_umath

import dragoman
from dragoman.engine import library
from dragoman.engine.packing import LARGEST
from dragoman.errors import DragomanError, EngineError
from engines import needs_engine

HEADER = Path(__file__).parents[3] / "native" / "include" / "dragoman.h"


class Answers(dict[str, Callable[[], object]]):
    """A library's functions, by their names."""


@pytest.fixture
def unopened(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As if nobody had opened the library yet."""
    library.open_library.cache_clear()
    yield
    library.open_library.cache_clear()


def test_it_lies_in_the_package() -> None:
    assert library.library_path() == Path(dragoman.__file__).parent / "native" / "libdragoman.so"


def test_missing(unopened: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(library, "library_path", lambda: tmp_path / "libdragoman.so")
    with pytest.raises(
        EngineError, match=r"was not built \(.*libdragoman.so is missing\).*PyTorch.*compiler"
    ) as caught:
        library.open_library()
    assert "\n" not in str(caught.value)
    assert issubclass(EngineError, DragomanError)


def test_damaged(unopened: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "lib.so").write_bytes(b"\x7fELF not really")
    monkeypatch.setattr(library, "library_path", lambda: tmp_path / "lib.so")
    with pytest.raises(EngineError, match=r"cannot be loaded \(.*\).*reinstall"):
        library.open_library()


def test_another_library(unopened: None, monkeypatch: pytest.MonkeyPatch) -> None:
    other = Path(_multiarray_umath.__file__)
    monkeypatch.setattr(library, "library_path", lambda: other)
    with pytest.raises(EngineError, match="cannot be loaded"):
        library.open_library()


@needs_engine
def test_another_version(unopened: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "VERSION", 99)
    with pytest.raises(EngineError, match=r"has version \d+, not 99"):
        library.open_library()


@needs_engine
def test_an_instruction_set_that_is_not_there() -> None:
    script = (
        "from dragoman.engine.library import *\n"
        "from dragoman.errors import EngineError\n"
        "try: open_library()\n"
        "except EngineError as error: print(error)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script], env={"DRAGOMAN_ISA": "z80"}, capture_output=True, text=True, check=True
    )
    assert re.search(r"DRAGOMAN_ISA names no instruction set.*unset it or choose of: .*portable", ran.stdout)


def test_an_instruction_set_that_the_system_refuses(unopened: None, monkeypatch: pytest.MonkeyPatch) -> None:
    told: dict[str, object] = {"version": library.VERSION, "isa": None, "isas": b"avx2 portable", "refused": b"amx"}
    functions = {f"dragoman_{name}": partial(told.get, name) for name in library._SIGNATURES}
    monkeypatch.setattr(library, "library_path", lambda: HEADER)
    monkeypatch.setattr(ctypes, "CDLL", lambda path: Answers(functions))
    with pytest.raises(EngineError, match=r"that the system allows \(it refused amx\).*choose of: avx2 portable"):
        library.open_library()


@needs_engine
def test_what_it_says_of_itself() -> None:
    opened = library.open_library()
    assert opened is library.open_library()
    assert library.instruction_set() in opened.dragoman_isas().decode().split()
    assert opened.dragoman_processors() >= 1


def test_no_reason_is_a_reason_too() -> None:
    assert library.last_error(SimpleNamespace(dragoman_error=lambda: None)) == "no reason given"  # type: ignore[arg-type]


def test_the_signatures_are_those_of_the_header() -> None:
    text = re.sub(r"//.*", "", HEADER.read_text(encoding="utf-8"))
    declared = dict(re.findall(r"DRAGOMAN_API [^;]*?dragoman_(\w+)\(([^;]*?)\);", text, flags=re.S))
    counts = {name: 0 if told.strip() == "void" else len(told.split(",")) for name, told in declared.items()}
    assert counts == {name: len(arguments) for name, (_, arguments) in library._SIGNATURES.items()}
    assert f"#define DRAGOMAN_VERSION {library.VERSION}\n" in text
    assert f"#define DRAGOMAN_LARGEST_WEIGHT {LARGEST}\n" in text


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_structures_have_the_layout_of_the_header(tmp_path: Path) -> None:
    structures = {
        "dragoman_matrix": library.CMatrix,
        "dragoman_norm": library.CNorm,
        "dragoman_plan": library.CPlan,
        "dragoman_search": library.CSearch,
    }
    facts = [
        f'printf("{name}.{field} %zu\\n", offsetof({name}, {field}));'
        for name, structure in structures.items()
        for field, *_ in structure._fields_
    ] + [f'printf("{name} %zu\\n", sizeof({name}));' for name in structures]
    program = f'#include <stddef.h>\n#include <stdio.h>\n#include "{HEADER}"\nint main(void) {{ {"".join(facts)} }}'
    (tmp_path / "layout.c").write_text(program, encoding="utf-8")
    subprocess.run(["cc", str(tmp_path / "layout.c"), "-o", str(tmp_path / "layout")], check=True)
    told = subprocess.run([str(tmp_path / "layout")], capture_output=True, text=True, check=True).stdout
    for name, number in (line.split() for line in told.splitlines()):
        structure, _, field = name.partition(".")
        here = getattr(structures[structure], field).offset if field else ctypes.sizeof(structures[structure])
        assert here == int(number), name
