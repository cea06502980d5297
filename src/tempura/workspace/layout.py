"""Where things are in a workspace.

    workspace.json              its format and the job it belongs to
    lock/                       who holds it
    runs/<n>.json               what run n did, and all that can be read after it
    pending/<n>/                how far an unfinished run n has got: begin.json, what was checked (checks.json), the session's settings (settings.json), whether
                                it failed, and a file for each finished step
    states/<name>/<n>-<claim>/  the rows of a state, of a result, and of the change to a result, written by run n
    results/<query>/<n>-<claim>/
    deltas/<query>/<n>-<claim>/
    results/<query>/latest      the newest result, on a local disk; latest.json says the same everywhere
    collected.json              up to which run the results are known to hold no garbage

The number of the writer's claim to the lock is in the name of every folder of rows: what is left of a killed run, and may still be written to by a process that
has not noticed, is never in the way of the next attempt.
"""

from __future__ import annotations

import hashlib
import re
from typing import Literal

Rows = Literal["states", "results", "deltas"]
ROWS: tuple[Rows, ...] = ("states", "results", "deltas")
WORKSPACE = "workspace.json"
COLLECTED = "collected.json"
LATEST = "latest"
_LONGEST = 120


def run_file(number: int) -> str:
    return f"runs/{number}.json"


def pending(number: int) -> str:
    return f"pending/{number}"


def begin_file(number: int) -> str:
    return f"{pending(number)}/begin.json"


def step_file(number: int, step: str) -> str:
    return f"{pending(number)}/steps/{safe(step)}.json"


def rows(kind: Rows, name: str, number: int, claim: int) -> str:
    """The folder into which run `number` writes rows under its claim."""
    return f"{kind}/{safe(name)}/{number}-{claim}"


def run_of(folder: str) -> int | None:
    """The run that wrote a folder of rows, by its name."""
    number = folder.rpartition("/")[2].partition("-")[0]
    return int(number) if number.isdecimal() else None


def pointer(query: str) -> str:
    return f"results/{safe(query)}/{LATEST}.json"


def link(query: str) -> str:
    return f"results/{safe(query)}/{LATEST}"


def safe(name: str) -> str:
    """A name as part of a path: what has a meaning to a shell, a URI or Spark is written as its code, and no two names become one."""
    text = re.sub(r"^[._]|[^A-Za-z0-9_.-]", lambda found: f"~{ord(found[0]):x}~", name)
    if len(text) <= _LONGEST:
        return text
    return f"{text[:_LONGEST]}~{hashlib.sha256(name.encode()).hexdigest()[:12]}"
