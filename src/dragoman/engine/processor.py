"""The processor this runs on, as far as speed depends on it."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")


@dataclass(frozen=True)
class Processor:
    """The facts."""

    name: str
    usable: int
    "How many this process may use."
    flags: frozenset[str]
    "What it can do, as Linux spells it; empty where the system does not tell."


def look(cpuinfo: Path = CPUINFO) -> Processor:
    """The processor this runs on."""
    try:
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    facts = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in reversed(lines))}
    flags = facts.get("flags", facts.get("Features", ""))
    return Processor(facts.get("model name") or _machine(), _usable(), frozenset(flags.split()))


def _machine() -> str:
    import platform

    return platform.processor() or platform.machine()


def _usable() -> int:
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
