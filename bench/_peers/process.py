"""A system that runs in a process of its own: it is given tables and a query, and answers what bringing the view up to date took, or why it will not.

It gets the columns that the view names as CSV; reading the second part of them is in what is measured. All it needs it keeps in memory, and it need not end between the two
parts. What is right is told by DuckDB, for the first part alone and for both.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from bench._peers.continuous import plain, refusal
from bench._peers.views import View, arrived
from bench._record import ROOT
from bench._spark import folder, median
from tempura.errors import TempuraError

PATIENCE = 900
"""So many seconds for one view."""
Figures = dict[str, Any]


class PeerError(TempuraError):
    """The process that runs a system ended in another way than it should."""


@dataclass(frozen=True)
class Peer:
    """A system: its name, the command that is given the path of what is asked, and what it needs to run."""

    name: str
    command: Sequence[str]
    needs: str
    version: str = "unknown"
    header: bool = False
    """Whether its CSV files begin with the names of columns."""

    def refreshed(self, view: View, sf: float, rounds: int) -> Figures:
        """What bringing the view up to date with the second part takes, and whether it is right; or why the system will not."""
        answers: list[Figures] = []
        for _ in range(rounds):
            answers.append(self._once(view, sf))
            if answers[-1]["refused"]:
                break
        return (answers[-1] if answers[-1]["refused"] else median(answers)) | {"version": self.version}

    def _once(self, view: View, sf: float) -> Figures:
        with folder() as place:
            asked = what_is_asked(view, sf, place, self.header)
            path = place / "asked.json"
            path.write_text(json.dumps(asked))
            try:
                said = self._said(view, path)
            except subprocess.TimeoutExpired:
                # An error, too, so that it is tried again: the machine may have been busy.
                return refusal(said := f"not done within {PATIENCE} s") | {"error": said}
            answer = json.loads(said.strip().splitlines()[-1])
            if "views" in answer:
                answer["right"] = [_bag(rows) for rows in answer.pop("views")] == [_bag(r) for r in asked["expected"]]
            return answer

    def _said(self, view: View, path: Path) -> str:
        try:
            ended = subprocess.run(
                [*self.command, str(path)], capture_output=True, text=True, timeout=PATIENCE, cwd=ROOT
            )
        except OSError as error:
            raise PeerError(f"{self.name} cannot be started: {error}", hint=self.needs) from error
        if ended.returncode:
            raise PeerError(f"{self.name} failed on {view.name}: {_last_error(ended.stderr)}", hint=self.needs)
        return ended.stdout


def _bag(rows: Iterable[Iterable[str]]) -> Counter[tuple[str, ...]]:
    return Counter(map(tuple, rows))


def _last_error(said: str) -> str:
    """The last line that names an error, or else the last one."""
    lines = said.strip().splitlines() or ["it said nothing"]
    return next((line for line in reversed(lines) if re.match(r"[\w.]*(Error|Exception)\b", line)), lines[-1])


def what_is_asked(view: View, sf: float, place: Path, header: bool) -> Figures:
    """Tables as CSV, the query, and what it gives before and after the second part has come."""
    tables: Figures = {}
    with duckdb.connect() as connection:
        for table in view.tables:
            files = [str(file) for file in arrived(sf, table)]
            described = connection.execute(f"DESCRIBE FROM read_parquet({files})").fetchall()
            used = {name: kind for name, kind, *_ in described if re.search(rf"\b{name}\b", view.text)}
            counts = ", ".join(f"COUNT(*) > COUNT({name})" for name in used)
            nulls = connection.execute(f"SELECT {counts} FROM read_parquet({files})").fetchall()[0]
            (place / table).mkdir()
            for n, file in enumerate(files):
                # The second part waits beside its place.
                to = place / table / "first.csv" if n == 0 else place / f"{table}.csv"
                rows = f"SELECT {', '.join(used)} FROM read_parquet('{file}')"
                connection.execute(f"COPY ({rows}) TO '{to}' (FORMAT csv, HEADER {header})")
            nullable = [name for name, some in zip(used, nulls, strict=True) if some]
            tables[table] = {"columns": used, "nullable": nullable, "growing": len(files) > 1}
        expected: list[Any] = []
        for count in (1, 2):
            for table in view.tables:
                files = [str(f) for f in arrived(sf, table)[:count]]
                connection.execute(f"CREATE OR REPLACE VIEW {table} AS FROM read_parquet({files})")
            expected.append([plain(row) for row in connection.execute(view.text).fetchall()])
        output = [name for name, *_ in connection.description or ()]
    return {
        "place": str(place), "view": view.name, "query": view.text, "tables": tables, "output": output, "expected": expected,
    }  # fmt: skip
