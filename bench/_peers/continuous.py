"""A continuous query, in the process of a system that keeps a view while rows arrive: started, waited for, and measured while the second part comes.

It waits until the view is what it should be on the first part of the rows, lets the second part arrive, and waits again. A view that has not become right
while nothing has changed for long is wrong. Only what Python brings is imported here: the system's own Python runs this.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

QUIET = 60.0
"""After so many seconds without a change nothing more is expected."""
Figures = dict[str, Any]


def plain(row: Iterable[Any]) -> tuple[str, ...]:
    """A row as texts by which it can be compared."""
    return tuple(f"{v:.2f}" if isinstance(v, float | Decimal) else str(v) for v in row)


def refusal(why: Any) -> Figures:
    """The answer of a system that will not: the first line of what it says."""
    said = [line for line in str(why).strip().splitlines() if line] or [type(why).__name__]
    return {"seconds": None, "cpu": None, "right": None, "refused": said[0]}


class Kept:
    """The view as its changes have made it so far."""

    def __init__(self, expected: Iterable[Iterable[Iterable[str]]]):
        self._bag: Counter[tuple[str, ...]] = Counter()
        self._expected = [Counter(map(tuple, rows)) for rows in expected]
        self._lock = threading.Lock()
        self._changed = time.perf_counter()
        self._seen = False
        """Whether the view was looked at since it last changed."""
        self.failed: Exception | None = None
        """What ended the query, which never ends by itself."""
        self.note = ""
        """What a reader must know of how the view was asked for."""

    def change(self, row: Iterable[Any], weight: int) -> None:
        key = plain(row)
        with self._lock:
            self._bag[key] += weight
            if not self._bag[key]:
                del self._bag[key]
            self._changed, self._seen = time.perf_counter(), False

    def follow(self, changes: Callable[[], None]) -> None:
        """Let the changes come, in a thread of their own."""

        def come() -> None:
            try:
                changes()
            except Exception as error:
                self.failed = error

        threading.Thread(target=come, daemon=True).start()

    def becomes(self, which: int) -> bool:
        """Wait until the view is as expected; False if it does not become so."""
        self._changed, self._seen = time.perf_counter(), False
        while not self.failed:
            with self._lock:
                # Looking costs CPU, which is counted as the system's.
                if not self._seen and self._bag == self._expected[which]:
                    return True
                self._seen = True
                if time.perf_counter() - self._changed > QUIET:
                    return False
            time.sleep(0.02)
        return False


def measured(asked: Figures, start: Callable[[Figures, Kept], Callable[[], None]], cpu: Callable[[], float]) -> Figures:
    """Start the query and follow it: seconds and CPU of the second part, or why the system will not."""
    place, kept = Path(asked["place"]), Kept(asked["expected"])
    try:
        changes = start(asked, kept)
    except ImportError:
        raise
    except Exception as error:  # Whatever a system says to a query that it does not take is the answer.
        return refusal(error)
    kept.follow(changes)
    first = kept.becomes(0)
    began, spent = time.perf_counter(), cpu()
    for table, told in asked["tables"].items():
        if told["growing"]:
            os.rename(place / f"{table}.csv", place / table / "second.csv")
    right = kept.becomes(1) and first
    if kept.failed:
        return refusal(kept.failed)
    took = {"seconds": time.perf_counter() - began, "cpu": cpu() - spent}
    return {**took, "right": right, "refused": None, "note": kept.note}


def answer(start: Callable[[Figures, Kept], Callable[[], None]], cpu: Callable[[], float]) -> None:
    """Do what the file named on the command line asks, print the answer as JSON, and end, which the query would not."""
    asked = json.loads(Path(sys.argv[1]).read_text())
    print(json.dumps(measured(asked, start, cpu)), flush=True)
    os._exit(0)
