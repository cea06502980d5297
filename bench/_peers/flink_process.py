"""A continuous query in Flink, run as a script by a Python that has it: reads what is asked from a file, prints what it took as JSON.

It waits until the view is what it should be on the first part of the rows, lets the second part arrive, and waits again. A view that has not become right
while nothing has changed for long is wrong.
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
SETTINGS = {
    "parallelism.default": str(os.cpu_count() or 1),
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "500 ms",
    "table.exec.mini-batch.size": "50000",
}


def plain(row: Iterable[Any]) -> tuple[str, ...]:
    """A row as texts by which it can be compared."""
    return tuple(f"{v:.2f}" if isinstance(v, float | Decimal) else str(v) for v in row)


class Kept:
    """The view as its changes have made it so far."""

    def __init__(self, expected: Iterable[Iterable[Iterable[str]]]):
        self._bag: Counter[tuple[str, ...]] = Counter()
        self._expected = [Counter(map(tuple, rows)) for rows in expected]
        self._lock = threading.Lock()
        self._changed = time.perf_counter()

    def change(self, row: Iterable[Any], weight: int) -> None:
        key = plain(row)
        with self._lock:
            self._bag[key] += weight
            if not self._bag[key]:
                del self._bag[key]
            self._changed = time.perf_counter()

    def becomes(self, which: int) -> bool:
        """Wait until the view is as expected; False if it does not become so."""
        self._changed = time.perf_counter()
        while True:
            with self._lock:
                if self._bag == self._expected[which]:
                    return True
                if time.perf_counter() - self._changed > QUIET:
                    return False
            time.sleep(0.02)


def started(asked: dict[str, Any], place: Path, kept: Kept) -> Callable[[], None]:
    """Start the query; what is given follows its changes."""
    from pyflink.table import EnvironmentSettings, TableEnvironment  # pyright: ignore

    environment = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    for name, value in SETTINGS.items():
        environment.get_config().set(name, value)
    for table, told in asked["tables"].items():
        columns = ", ".join(f"`{c}` {'STRING' if kind == 'VARCHAR' else kind}" for c, kind in told["columns"].items())
        watched = ", 'source.monitor-interval' = '200 ms'" if told["growing"] else ""
        options = f"'connector' = 'filesystem', 'path' = 'file://{place / table}', 'format' = 'csv'{watched}"
        environment.execute_sql(f"CREATE TABLE {table} ({columns}) WITH ({options}, 'csv.null-literal' = '')")
    changes = environment.execute_sql(asked["query"]).collect()

    def follow() -> None:
        for row in changes:
            kept.change(row, 1 if row.get_row_kind().name in ("INSERT", "UPDATE_AFTER") else -1)

    return follow


def cpu_seconds() -> float:
    """Of this process, and of the Java process that it has started."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = stat.read_text().partition("(")[2].rpartition(")")
        except OSError:
            continue  # It has ended since it was listed.
        fields = rest.split()
        ticks += int(fields[11]) + int(fields[12]) if name == "java" and int(fields[1]) == os.getpid() else 0
    return ticks / os.sysconf("SC_CLK_TCK") + time.process_time()


def main(path: str) -> dict[str, Any]:
    """Run what is asked: seconds and CPU of the second part."""
    asked = json.loads(Path(path).read_text())
    place = Path(asked["place"])
    kept = Kept(asked["expected"])
    try:
        follow = started(asked, place, kept)
    except ImportError:
        raise
    except Exception as error:  # Whatever Flink says to a query that it does not take is the answer.
        said = [line for line in str(error).strip().splitlines() if line] or [type(error).__name__]
        return {"seconds": None, "cpu": None, "right": None, "refused": said[0]}
    threading.Thread(target=follow, daemon=True).start()
    first = kept.becomes(0)
    began, cpu = time.perf_counter(), cpu_seconds()
    for table, told in asked["tables"].items():
        if told["growing"]:
            os.rename(place / f"{table}.csv", place / table / "second.csv")
    right = kept.becomes(1) and first
    return {"seconds": time.perf_counter() - began, "cpu": cpu_seconds() - cpu, "right": right, "refused": None}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1])), flush=True)
    os._exit(0)  # The query never ends by itself.
