"""Where the processor time of a Java process goes: tasks, compiling, garbage collection, and the driver; told by the names of its threads (Linux)."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import psutil

TASKS = "tasks"
KINDS = {"Executor task": TASKS, "C1 Compiler": "compiling", "C2 Compiler": "compiling", "Sweeper": "compiling", "GC ": "garbage", "G1 ": "garbage"}  # fmt: skip
"""What the names of threads begin with."""
DRIVER = "driver"
"""All the rest: planning, scheduling, broadcasts, committing files, listening to Python."""


def java_process() -> int:
    """The process that Spark runs in, a child of this one."""
    return next(child.pid for child in psutil.Process().children(recursive=True) if "java" in child.name())


def by_kind(pid: int) -> Counter[str]:
    """Seconds of processor time of all threads that live, by what they do."""
    found: Counter[str] = Counter()
    ticks = os.sysconf("SC_CLK_TCK")
    for thread in Path(f"/proc/{pid}/task").iterdir():
        try:
            told = (thread / "stat").read_text()
        except OSError:
            continue  # It has ended meanwhile.
        name = told[told.index("(") + 1 : told.rindex(")")]
        user, system = told[told.rindex(")") + 2 :].split()[11:13]
        kind = next((kind for start, kind in KINDS.items() if name.startswith(start)), DRIVER)
        found[kind] += (int(user) + int(system)) / ticks
    return found


def spent(before: Counter[str], after: Counter[str], total: float, tasks: float) -> dict[str, float]:
    """The difference of two moments. Threads that run tasks may have ended in between, so what `tasks` took is told by Spark; the driver has the rest."""
    known = {
        TASKS: tasks,
        **{kind: after[kind] - before[kind] for kind in dict.fromkeys(KINDS.values()) if kind != TASKS},
    }
    return {**known, DRIVER: max(total - sum(known.values()), 0.0)}
