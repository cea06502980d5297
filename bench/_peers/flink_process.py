"""A continuous query in Flink, run by a Python that has it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench._peers.continuous import Kept, answer

SETTINGS = {
    "parallelism.default": str(os.cpu_count() or 1),
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "500 ms",
    "table.exec.mini-batch.size": "50000",
}


def started(asked: dict[str, Any], kept: Kept) -> Callable[[], None]:
    """Start the query; what is given follows its changes."""
    from pyflink.table import EnvironmentSettings, TableEnvironment  # pyright: ignore

    environment = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    for name, value in SETTINGS.items():
        environment.get_config().set(name, value)
    for table, told in asked["tables"].items():
        columns = ", ".join(f"`{c}` {'STRING' if kind == 'VARCHAR' else kind}" for c, kind in told["columns"].items())
        watched = ", 'source.monitor-interval' = '200 ms'" if told["growing"] else ""
        path = f"file://{asked['place']}/{table}"
        options = f"'connector' = 'filesystem', 'path' = '{path}', 'format' = 'csv'{watched}"
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


if __name__ == "__main__":
    answer(started, cpu_seconds)
