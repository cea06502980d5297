"""What Java does of itself, beside what it is asked for: compiling and collecting garbage; told by the names of its threads (Linux)."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import psutil

KINDS = {"compiling": ("C1 Compiler", "C2 Compiler", "Sweeper"), "garbage": ("GC ", "G1 ")}
"""What the names of threads begin with."""


def java_process() -> int:
    """The process that Spark runs in, a child of this one."""
    return next(child.pid for child in psutil.Process().children(recursive=True) if "java" in child.name())


def by_kind(pid: int) -> Counter[str]:
    """Seconds of processor time of all such threads that live, by what they do."""
    found: Counter[str] = Counter()
    ticks = os.sysconf("SC_CLK_TCK")
    for thread in Path(f"/proc/{pid}/task").iterdir():
        try:
            told = (thread / "stat").read_text()
        except OSError:
            continue  # It has ended meanwhile.
        name = told[told.index("(") + 1 : told.rindex(")")]
        kind = next((kind for kind, starts in KINDS.items() if name.startswith(starts)), None)
        if kind is not None:
            user, system = told[told.rindex(")") + 2 :].split()[11:13]
            found[kind] += (int(user) + int(system)) / ticks
    return found
