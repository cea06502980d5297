"""Flink, in a process of its own: the same SQL as a continuous query over files, which keeps the view while more files come.

Its package reads CSV, not Parquet, so that the columns that the view names are written as CSV first; reading them is part of what is measured. It keeps all it needs in memory
and need not end between the two parts. What is right is told by DuckDB, for the first part alone and for both.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import duckdb

from bench._peers import flink_process
from bench._peers.views import View, arrived
from bench._spark import folder, median
from tempura.errors import TempuraError

PATIENCE = 900
"""So many seconds for one view."""


class FlinkError(TempuraError):
    """The process that runs Flink ended in another way than it should."""


def refreshed(python: Path, view: View, sf: float, rounds: int) -> dict[str, Any]:
    """What bringing the view up to date with the second part takes, and whether it is right; or why Flink will not."""
    return median([_once(python, view, sf) for _ in range(rounds)])


def _once(python: Path, view: View, sf: float) -> dict[str, Any]:
    with folder() as place:
        asked = place / "asked.json"
        asked.write_text(json.dumps(_asked(view, sf, place)))
        command = [str(python), flink_process.__file__, str(asked)]
        try:
            ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            return {"seconds": None, "cpu": None, "right": None, "refused": f"not done within {PATIENCE} s"}
        if ended.returncode:
            raise FlinkError(
                f"Flink failed on {view.name}: {_last_error(ended.stderr)}",
                hint=f"check that `{python}` has apache-flink",
            )
        return json.loads(ended.stdout.strip().splitlines()[-1])


def _last_error(said: str) -> str:
    """The last line that names an error, or else the last one."""
    lines = said.strip().splitlines() or ["it said nothing"]
    return next((line for line in reversed(lines) if re.match(r"[\w.]+(Error|Exception)\b", line)), lines[-1])


def _asked(view: View, sf: float, place: Path) -> dict[str, Any]:
    """Tables as CSV, the query, and what it gives before and after the second part has come."""
    tables: dict[str, Any] = {}
    with duckdb.connect() as connection:
        for table in view.tables:
            files = arrived(sf, table)
            described = connection.execute(f"DESCRIBE SELECT * FROM read_parquet('{files[0]}')").fetchall()
            used = {name: kind for name, kind, *_ in described if re.search(rf"\b{name}\b", view.text)}
            (place / table).mkdir()
            for n, file in enumerate(files):
                rows = f"SELECT {', '.join(used)} FROM read_parquet('{file}')"
                # The second part waits beside its place.
                to = place / table / "first.csv" if n == 0 else place / f"{table}.csv"
                connection.execute(f"COPY ({rows}) TO '{to}' (FORMAT csv, HEADER false)")
            tables[table] = {"columns": used, "growing": len(files) > 1}
        expected: list[Any] = []
        for count in (1, 2):
            for table in view.tables:
                files = [str(f) for f in arrived(sf, table)[:count]]
                connection.execute(f"CREATE OR REPLACE VIEW {table} AS FROM read_parquet({files})")
            expected.append([flink_process.plain(row) for row in connection.execute(view.text).fetchall()])
    return {"place": str(place), "tables": tables, "query": view.text, "expected": expected}
