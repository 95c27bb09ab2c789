"""What translates on this machine, and why: the processor, what it can do, and the instruction set the engine uses."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dragoman.engine import processor
from dragoman.engine.library import instruction_set, open_library
from dragoman.errors import EngineError

FLAGS = ("amx_int8", "avx512_bf16", "avx512_vnni", "avx512bw", "avx_vnni", "avx2", "fma", "i8mm", "asimddp", "asimd")
"""What the engine's instruction sets ask a processor for, as Linux spells it."""


@dataclass(frozen=True)
class Machine:
    """The facts that speed depends on."""

    processor: str
    processors: int
    "How many this process may use."
    has: tuple[str, ...]
    "Of ``FLAGS``."
    isa: str
    "Instruction set in use; empty where PyTorch translates."
    isas: tuple[str, ...]
    "All that this build and this processor have, the best first."
    wanted: str
    "What the environment variable DRAGOMAN_ISA says."
    problem: str
    "Why there is no engine; empty where there is one."
    refused: tuple[str, ...] = ()
    "Instruction sets that this build and this processor have, but that the system does not let this process use."

    @property
    def is_forced(self) -> bool:
        """Whether DRAGOMAN_ISA keeps the engine from the instruction set that it would take by itself."""
        return bool(self.wanted) and (self.isa,) != self.isas[:1]


def look_around(cpuinfo: Path = processor.CPUINFO, environment: Mapping[str, str] = os.environ) -> Machine:
    """The machine this runs on."""
    here = processor.look(cpuinfo)
    isa, isas, refused, problem = "", tuple[str, ...](), tuple[str, ...](), ""
    try:
        isa, library = instruction_set(), open_library()
        isas, refused = _names(library.dragoman_isas()), _names(library.dragoman_refused())
    except EngineError as error:
        problem = str(error)
    has = tuple(flag for flag in FLAGS if flag in here.flags)
    return Machine(here.name, here.usable, has, isa, isas, environment.get("DRAGOMAN_ISA", ""), problem, refused)


def explain(machine: Machine) -> str:
    """The instruction set in use and the reason, in a few lines."""
    lines = [f"processor: {machine.processor}, {machine.processors} usable; has {' '.join(machine.has) or 'none'}"]
    if machine.problem:
        return "\n".join([*lines, machine.problem])
    if machine.wanted:
        lines.append(f"instruction set: {machine.isa}, because DRAGOMAN_ISA says so")
    else:
        had = "this build and this processor have" + (" and the system allows" if machine.refused else "")
        lines.append(f"instruction set: {machine.isa}, the best of those that {had}")
    if machine.refused:
        refused = ", ".join(machine.refused)
        lines.append(f"refused by the system: {refused}; an older kernel, a container or a virtual machine may do so")
    others = ", ".join(name for name in machine.isas if name != machine.isa)
    return "\n".join([*lines, f"others to choose with DRAGOMAN_ISA: {others or 'none'}"])


def _names(told: bytes) -> tuple[str, ...]:
    return tuple(told.decode().split())
