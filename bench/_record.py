"""What a benchmark measured is kept cell by cell, so that one that was stopped goes on, and ends as one document with all that a reader must know.

    found = experiment("size", 1000, out, pattern=pattern)
    for query in query_numbers(queries):
        found.cell(f"q{query} 3", lambda: measured(query, 3))
    found.expect("sharing at most 4x", "2.9x", met=True)
    found.finish(table)

A cell is measured again when its settings or the code have changed (the planner and engine, what deals the data, and the benchmark itself), or the machine, Python, Java or Spark. What chooses
cells (`--queries`) is no setting.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

import psutil
import typer
from rich.console import Console
from rich.table import Table

from tempura.errors import JobError

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / ".cache" / "bench"

QUERIES = Annotated[str, typer.Option(help="TPC-DS queries: numbers and ranges such as q10,q40,q3-q7.")]
SF = Annotated[float, typer.Option(help="Scale factor; planning alone has statistics of 1000 without its data.")]
ROUNDS = Annotated[int, typer.Option(min=1, help="How often each is measured, after rounds to warm up.")]
REPEAT = Annotated[int, typer.Option(min=1, help="Times to plan each query; the quickest counts.")]
OUT = Annotated[Path | None, typer.Option(help="The folder for results; .cache/bench by default.")]

Figures = dict[str, Any]

ALL, PLAN, FULL = "all", "plan", "full"
"""All methods together; recomputing by Tempura's plan, and by Spark's."""

DEAREST = 1.05
"""Nothing may cost more than so many times what recomputing costs."""
COMPARABLE = 1.25
"""Up to this many times as large is about as large."""
CLOSE = 1.1
"""Within so much of the best is as good as the best: rounds differ by as much."""


def over(one: float, least: float) -> float:
    """How many times the least. Where both are nothing, as for a query of tables that never change, that is once."""
    return one / least if least else math.inf if one else 1.0


def query_numbers(text: str) -> list[int]:
    """`q1,q3-q7,20` as numbers."""
    found: list[int] = []
    for part in filter(None, re.split(r"[,\s]+", text.strip())):
        told = re.fullmatch(r"q?(\d+)(?:-q?(\d+))?", part.lower())
        first, last = (int(told[1]), int(told[2] or told[1])) if told else (0, 0)
        if not 1 <= first <= last <= 99:
            raise JobError(
                f"{part!r} is no query of TPC-DS", hint="give numbers from 1 to 99, and ranges: q10,q40,q3-q7"
            )
        found += range(first, last + 1)
    if not found:
        raise JobError("no query is named", hint="give numbers from 1 to 99, and ranges: q10,q40,q3-q7")
    return list(dict.fromkeys(found))


def names_of(text: str, known: Iterable[str]) -> list[str]:
    """`star,outer` as names, each of which is known; all that are known if there is none."""
    known = list(known)
    found = [part.strip() for part in text.split(",") if part.strip()] or known
    return list(dict.fromkeys(name_of(name, known) for name in found))


def queries_of(text: str, own: Mapping[str, str]) -> dict[str, str | int]:
    """`star,q3-q5` as queries by their names: those of a benchmark's own, as text, and those of TPC-DS, by number; all of its own if there is none."""
    found: dict[str, str | int] = {}
    for part in filter(None, map(str.strip, text.split(","))):
        if part in own:
            found[part] = own[part]
        elif re.match(r"[qQ]?\d", part):
            found |= {f"q{number}": number for number in query_numbers(part)}
        else:
            raise JobError(
                f"there is no {part!r}", hint=f"give some of {', '.join(own)}, or queries of TPC-DS such as q10"
            )
    return found or dict(own)


def name_of(name: str, known: Iterable[str]) -> str:
    """The name, if it is known."""
    known = list(known)
    if name not in known:
        raise JobError(f"there is no {name!r}", hint=f"give some of {', '.join(known)}")
    return name


SHARED = ("tpcds", "_arrivals", "_scale1000", "_effect", "_planned", "_real", "_spark", "_spark_planning", "_threads")
"""The modules of benchmarks that several measure by."""


def code_version(name: str) -> str:
    """A number for the code that plans and runs, for what deals the data, and for what a benchmark measures by: what all share, its own, and the files that its module names, `RESTS_ON`."""
    digest = hashlib.sha256()
    bench = ROOT / "bench"
    module = name.replace("-", "_")
    own = [bench / f"{part}.py" for part in (*SHARED, module)]
    parts = [
        *(ROOT / "src").rglob("*.py"),
        *filter(Path.exists, own),
        *(bench / f"_{name}").glob("*"),
        *(path for names in getattr(sys.modules.get(f"bench.{module}"), "RESTS_ON", ()) for path in ROOT.glob(names)),
        bench / "scale1.json",
    ]
    for path in sorted(filter(Path.is_file, parts)):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def say(what: str) -> None:
    """Tell what is done within a cell, at once: it may take minutes."""
    print(f"  {what}", flush=True)


def wide_console() -> Console:
    """A console that prints whole tables into files."""
    return Console(width=None if sys.stdout.isatty() else 160)


def results(out: Path | None) -> Path:
    """The folder for results, made if it is not there yet."""
    folder = out or RESULTS
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise JobError(f"{str(folder)!r} is no folder", hint="give another --out") from None
    except OSError as error:
        raise JobError(f"{str(folder)!r} cannot be made: {error.strerror}", hint="give another --out") from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise JobError(f"{str(folder)!r} may not be written into", hint="give another --out")
    return folder


def experiment(name: str, sf: float, out: Path | None, **settings: Any) -> Experiment:
    """An experiment with the cells that were measured before by the same code, in the same place and with the same settings; what failed is tried again."""
    commit()  # As it is now: files may be changed while it is measured.
    given = json.loads(json.dumps({"sf": sf, **settings}, default=str))
    found = Experiment(name.replace("_", "-"), sf, given, results(out), code_version(name), place())
    found.earlier.update(
        {line["key"]: line for line in found.lines() if found.same(line) and "error" not in line["figures"]}
    )
    return found


@dataclass
class Experiment:
    """The cells of one benchmark, and what was expected of them."""

    name: str
    sf: float
    settings: Figures
    folder: Path
    version: str
    place: str
    earlier: dict[str, Figures] = field(default_factory=dict[str, Figures])
    cells: dict[str, Figures] = field(default_factory=dict[str, Figures])
    """The figures of this run's cells, measured now or before."""
    dates: list[str] = field(default_factory=list[str])
    commits: list[str] = field(default_factory=list[str])
    """Where the cells were measured: the same code may have several."""
    expectations: list[Figures] = field(default_factory=list[Figures])
    total: int | None = None
    """How many cells there will be, if that is known."""
    console: Console = field(default_factory=wide_console)

    @property
    def path(self) -> Path:
        return self.folder / f"{self.name}.jsonl"

    def lines(self) -> Iterator[Figures]:
        """The lines of all cells ever measured."""
        for line in self.path.read_text().splitlines() if self.path.exists() else ():
            try:
                yield json.loads(line)
            except json.JSONDecodeError:
                continue  # The line that was being written when the process was ended.

    def same(self, line: Figures) -> bool:
        return (line["version"], line.get("place"), line["settings"]) == (self.version, self.place, self.settings)

    def cell(self, key: str, compute: Callable[[], Figures]) -> Figures:
        """The figures of a cell: those stored, or measured now and stored."""
        return self.together([key], lambda: [compute()])[0]

    def together(self, keys: Sequence[str], compute: Callable[[], Sequence[Figures]]) -> list[Figures]:
        """The figures of cells that are measured together, as they take turns: those stored, or all measured now if one is missing."""
        known = all(key in self.earlier for key in keys)
        lines = [self.earlier[key] for key in keys] if known else self._measured(keys, compute)
        for key, line in zip(keys, lines, strict=True):
            self.cells[key] = line["figures"]
            self.dates.append(line["date"])
            self.commits.append(line.get("commit", "unknown"))
            taken = "known" if known else f"{line['seconds']:.1f} s" + (f" for {len(keys)}" if len(keys) > 1 else "")
            self.console.print(
                f"{self.name} {self._numbered(len(self.cells))}: {key} ({taken})  {_brief(line['figures'])}",
                markup=False, highlight=False, overflow="ellipsis", no_wrap=True,
            )  # fmt: skip
        return [line["figures"] for line in lines]

    def _measured(self, keys: Sequence[str], compute: Callable[[], Sequence[Figures]]) -> list[Figures]:
        started = time.perf_counter()
        # On a terminal it says what it is at; a file has the line that follows.
        with self.console.status(f"{self.name} {self._numbered(len(self.cells) + 1)}: {', '.join(keys)}"):
            measured = compute()
        seconds = time.perf_counter() - started
        lines = [
            {
                "key": key, "version": self.version, "place": self.place, "settings": self.settings, "date": _now(), "commit": commit(),
                "seconds": seconds, "figures": json.loads(json.dumps(figures, default=str)),
            }
            for key, figures in zip(keys, measured, strict=True)
        ]  # fmt: skip
        with self.path.open("a+b") as log:
            if log.tell() and not _ends_whole(self.path):
                log.write(b"\n")
            log.write(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
            log.flush()
            os.fsync(log.fileno())
        self.earlier.update(zip(keys, lines, strict=True))
        return lines

    def _numbered(self, cell: int) -> str:
        return f"{cell} of {self.total}" if self.total else str(cell)

    def expect(self, text: str, figure: str, met: bool | None) -> None:
        """What was expected, what came out, and whether that is as expected (None: there is nothing to judge)."""
        self.expectations.append({"text": text, "figure": figure, "met": met})

    def finish(self, table: Table | None = None) -> None:
        """Print the table and the expectations, and write the document."""
        if table is not None:
            self.console.print(table)
        for e in self.expectations:
            verdict = {True: "met", False: "NOT MET", None: "not judged"}[e["met"]]
            self.console.print(f"{verdict:>10}  {e['text']}: {e['figure']}", markup=False, highlight=False)
        path = self.folder / f"{self.name}.json"
        self._put_aside(path)
        new = path.with_suffix(".new")
        new.write_text(json.dumps(self.document(table), indent=1))
        new.replace(path)
        self.console.print(f"written to {path}", markup=False, highlight=False, soft_wrap=True)

    def _put_aside(self, path: Path) -> None:
        """Keep a document that has other settings, or cells that this one has not, under another name: it may have taken hours."""
        older = document(path)
        if older is None or (older["settings"] == self.settings and older["cells"].keys() <= self.cells.keys()):
            return
        aside = path.with_stem(f"{path.stem}-{re.sub(r'[^0-9T]', '', older['date'][:19])}")
        path.replace(aside)
        self.console.print(
            f"what {path.name} had before, of other settings or cells, is in {aside.name}",
            markup=False, highlight=False, soft_wrap=True,
        )  # fmt: skip

    def document(self, table: Table | None) -> Figures:
        """All that a reader must know."""
        return {
            "name": self.name, "title": _title(self.name), "command": shlex.join(["python", "-m", "bench", *map(_told, sys.argv[1:])]),
            "date": _now(), "measured": [min(self.dates, default=None), max(self.dates, default=None)], "machine": machine(),
            "versions": versions() | {"code": self.version, "commit": ", ".join(dict.fromkeys(self.commits)) or commit()}, "sf": self.sf, "settings": self.settings, "cells": self.cells,
            "expectations": self.expectations, "table": None if table is None else _texts(table),
        }  # fmt: skip


def _told(argument: str) -> str:
    """An argument of the command, of a place on this machine what it is called there."""
    return Path(argument).name if Path(argument).is_absolute() else argument


def document(path: Path) -> Figures | None:
    """The document of a finished experiment; None if the file is none."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    whole = isinstance(found, dict) and found.keys() >= {"name", "cells", "expectations", "machine", "settings", "date"}
    return found if whole else None


def machine() -> Figures:
    """The machine that measures."""
    return {
        "cores": os.cpu_count(),
        "memory": f"{psutil.virtual_memory().total / 2**30:.0f} GiB",
        "platform": platform.platform(),
        "cpu": _cpu_model(),
    }


def versions() -> Figures:
    """The versions of what is measured."""
    packages = ("pyspark", "duckdb", "sqlglot", "pyarrow", "tempura")
    own = {p: metadata.version(p) for p in packages}
    return {"python": platform.python_version(), "java": _java(), **own}


def place() -> str:
    """A number for the machine and for the versions of what is measured there, but for our own."""
    where = machine() | {name: version for name, version in versions().items() if name != "tempura"}
    return hashlib.sha256(json.dumps(where).encode()).hexdigest()[:12]


def _java() -> str:
    """The version of the Java that Spark is started with."""
    from tempura.spark.java import JavaError, java_home

    try:
        home = java_home()
    except JavaError:
        return "none"
    told = subprocess.run([str(home / "bin" / "java"), "-version"], capture_output=True, text=True)
    return told.stderr.partition('"')[2].partition('"')[0] or "unknown"


def _cpu_model() -> str:
    described = Path("/proc/cpuinfo")
    for line in described.read_text().splitlines() if described.exists() else ():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()


@cache
def commit() -> str:
    """The commit; with a plus where code differs from it."""
    try:
        told = subprocess.run(["git", "describe", "--always"], cwd=ROOT, capture_output=True, text=True)
        changed = subprocess.run(
            ["git", "status", "--porcelain", "src", "bench", ":!bench/results", ":!*.md"],
            cwd=ROOT, capture_output=True, text=True,
        )  # fmt: skip
    except OSError:
        return "unknown"
    return f"{told.stdout.strip() or 'unknown'}{'+' if changed.stdout else ''}"


def _title(name: str) -> str:
    """What the benchmark shows: the first line of its module."""
    module = sys.modules.get(f"bench.{name.replace('-', '_')}")
    return ((module and module.__doc__) or name).strip().splitlines()[0]


def _texts(table: Table) -> Figures:
    """A table as the texts of its cells."""
    columns = [[str(cell) for cell in column.cells] for column in table.columns]
    return {
        "title": str(table.title or ""),
        "caption": str(table.caption or ""),
        "columns": [str(column.header) for column in table.columns],
        "right": [column.justify == "right" for column in table.columns],
        "rows": [list(row) for row in zip(*columns, strict=True)],
    }


def _brief(figures: Figures) -> str:
    """The figures that fit on a line."""
    told = (f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in figures.items())
    return ", ".join(told)


def _ends_whole(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
