"""The TPC-DS grid: every query, arrival pattern, scenario and set of methods, planned, executed on DuckDB and compared.

    python -m tests.tpcds_grid --sf 0.1 --queries q1,q3-q7 --patterns delta-big --scenarios refresh --methods all,IM1

What is done is written to `.cache/grid/`, one line of JSON per cell, and not done again while the code stays the same. At the end
stands what was compared, what failed, and where a plan with all methods is dearer than one with fewer.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import duckdb
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from bench import _record, _scale1000, tpcds
from bench._record import query_numbers
from tempura.job import Job, parse_methods
from tempura.job.shapes import METHODS
from tempura.timeline import MAIN, Timeline
from tests.duckrun import execute

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".cache" / "grid"
SCENARIOS = ("warehouse", "refresh")
ALL = "all"
FULL = "full"
Record = dict[str, Any]


class Cell(NamedTuple):
    """One plan of the grid."""

    query: int
    pattern: str
    scenario: str
    methods: str
    """`all`, or names joined by `+`."""

    @property
    def key(self) -> str:
        return f"q{self.query} {self.pattern} {self.scenario} {self.methods}"


def timeline(scenario: str, points: int) -> Timeline:
    """Cheap work early and one result at the end, or a result at every point."""
    if scenario == "warehouse":
        return Timeline.warehouse([*(0.2 for _ in range(points - 1)), 1.0])
    return Timeline.refresh([f"t{i}" for i in range(1, points + 1)])


def job_of(cell: Cell, sf: float, points: int = 2, virtual: bool = False) -> Job:
    """The job of a cell."""
    when = timeline(cell.scenario, points)
    return Job(
        name=f"q{cell.query}",
        query=tpcds.queries()[cell.query],
        tables=_scale1000.catalog(cell.pattern, when) if virtual else tpcds.catalog(sf, cell.pattern, when),
        timeline=when,
        objective="weighted" if cell.scenario == "warehouse" else "latest-first",
    )


def method_names(text: str) -> tuple[str, ...] | None:
    """The methods of a cell; None stands for all of them."""
    return None if text == ALL else parse_methods(text.replace("+", ","))


@cache
def connection_for(sf: float, pattern: str, points: int, threads: int) -> duckdb.DuckDBPyConnection:
    """A connection with all relations of a pattern; a process keeps it for the cells to come."""
    connection = duckdb.connect(config={"threads": threads})
    tpcds.register(connection, sf, pattern, [f"t{i}" for i in range(1, points + 1)])
    return connection


class TookTooLong(Exception):
    """A cell did not end in time."""


@contextmanager
def time_limit(seconds: float, connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Ends what takes too long: planning by a signal, a statement of DuckDB by interrupting it."""

    def late(*_: object) -> None:
        raise TookTooLong(f"more than {seconds:g} s")

    previous = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    # A signal waits until DuckDB returns, so the statement must be ended first.
    watch = threading.Timer(seconds, connection.interrupt)
    watch.start()
    try:
        yield
    finally:
        watch.cancel()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


def run_cell(cell: Cell, sf: float, points: int = 2, limit: float = 300.0, threads: int = 1) -> Record:
    """Plan, execute and compare one cell. Never raises: what goes wrong is in the record."""
    import tempura

    record: Record = {"key": cell.key, **cell._asdict()}
    started = time.perf_counter()
    connection = connection_for(sf, cell.pattern, points, threads)
    try:
        with time_limit(limit, connection):
            job = job_of(cell, sf, points, virtual=True)
            begun = time.perf_counter()
            plan = tempura.plan(job, methods=method_names(cell.methods))  # type: ignore[attr-defined]
            record |= {
                "plan_seconds": time.perf_counter() - begun,
                "total": plan.cost.total,
                "work": list(plan.cost.work.values()),
                FULL: plan.baselines.get(FULL),
            }
            report = execute(plan, connection, {MAIN: job.queries[MAIN]})
        record |= {
            "steps": report.steps,
            "results": report.results,
            "empty_results": report.empty_results,
            "states": report.states,
            "empty_states": report.empty_states,
            "rows": report.rows,
            "types": report.type_differences,
            "error": "\n".join(str(m) for m in report.mismatches) or None,
        }
    except Exception as error:  # The grid is there to list whatever can go wrong.
        record["error"] = f"{type(error).__name__}: {error}"
    return record | {"seconds": time.perf_counter() - started}


def run_cells(cells: Sequence[Cell], sf: float, points: int, limit: float) -> list[Record]:
    return [run_cell(cell, sf, points, limit) for cell in cells]


# Records of earlier runs.


def code_version() -> str:
    """A number for the code that plans and judges."""
    return _record.code_version(ROOT / "tests" / "duckrun.py", Path(__file__))


def earlier(path: Path, version: str | None) -> dict[str, Record]:
    """The records in a file by key, the last of each; those of one version of the code, or of any."""
    found: dict[str, Record] = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            continue  # The line that was being written when the process was ended.
        if version is None or record["version"] == version:
            found[record["key"]] = record
    return found


# What the grid says.


def dearer(records: Iterable[Record]) -> list[str]:
    """Where a plan with all methods is dearer than one with fewer, or any plan than recomputing."""
    groups: dict[tuple[Any, ...], dict[str, Record]] = {}
    for r in records:
        if r.get("total") is not None:
            groups.setdefault((r["query"], r["pattern"], r["scenario"]), {})[r["methods"]] = r
    found: list[str] = []
    for (query, pattern, scenario), plans in groups.items():
        place = f"q{query} {pattern} {scenario}"
        for methods, r in plans.items():
            if r.get(FULL) is not None and exceeds([r["total"]], [r[FULL]]):
                found.append(f"{place}: {methods} costs {r['total']:.6g}, recomputing {r[FULL]:.6g}")
            if methods != ALL and ALL in plans and exceeds(_ranked(plans[ALL]), _ranked(r)):
                found.append(f"{place}: all methods cost {_ranked(plans[ALL])}, {methods} alone {_ranked(r)}")
    return found


def _ranked(record: Record) -> list[float]:
    """What the scenario's objective compares: the total, or the runs' work, the last first."""
    return [record["total"]] if record["scenario"] == "warehouse" else record["work"][::-1]


def exceeds(mine: Sequence[float], other: Sequence[float]) -> bool:
    """Whether `mine` is greater at the first place where the two differ by more than rounding."""
    for a, b in zip(mine, other, strict=False):
        if abs(a - b) > 1e-9 * max(abs(a), abs(b), 1e-9):
            return a > b
    return False


def summarise(records: Sequence[Record], console: Console) -> bool:
    """Print the summary; whether all is well."""
    executed = [r for r in records if "steps" in r]
    failures = [r for r in records if r["error"]]
    table = Table(
        "methods",
        "plans",
        "failed",
        "results",
        "empty",
        "states",
        "empty ",
        "rows",
        "planning s",
        "worst",
        title="TPC-DS grid",
    )
    for methods in dict.fromkeys(r["methods"] for r in records):
        of = [r for r in records if r["methods"] == methods]
        ran = [r for r in of if "steps" in r]
        planning = [r["plan_seconds"] for r in of if "plan_seconds" in r]
        counts = (sum(r[n] for r in ran) for n in ("results", "empty_results", "states", "empty_states", "rows"))
        table.add_row(
            methods, str(len(of)), str(sum(bool(r["error"]) for r in of)), *(f"{n:,}" for n in counts),
            f"{sum(planning):.1f}", f"{max(planning, default=0):.2f}",
        )  # fmt: skip
    console.print(table)
    for r in failures:
        console.print(f"FAILED {r['key']}: {_short(r['error'])}", markup=False, highlight=False)
    violations = dearer(records)
    for line in violations:
        console.print(f"DEARER {line}", markup=False, highlight=False)
    types = sum(bool(r["types"]) for r in executed)
    console.print(
        f"{len(records)} plans, {len(executed)} executed, {len(failures)} failures, {len(violations)} dearer than they should be; "
        f"{sum(r['results'] for r in executed):,} results compared, {sum(r['empty_results'] for r in executed):,} of them empty; "
        f"{sum(r['states'] for r in executed):,} states compared; {types} plans with columns of another type than the batch query's"
    )
    return not failures and not violations


def _short(error: str) -> str:
    lines = error.splitlines()
    return "\n    ".join(lines[:6] + ["…"] * (len(lines) > 6))


# The command.


def _listed(text: str, known: Sequence[str]) -> list[str]:
    chosen = [part.strip() for part in text.split(",") if part.strip()]
    for part in chosen:
        if part not in known:
            raise typer.BadParameter(f"{part!r} is none of {', '.join(known)}")
    return chosen


def run_grid(
    sf: Annotated[float, typer.Option(help="Scale factor of the data.")] = 0.1,
    queries: Annotated[str, typer.Option(help="Numbers and ranges: q1,q3-q7.")] = "q1-q99",
    patterns: Annotated[str, typer.Option(help="Arrival patterns.")] = ",".join(tpcds.PATTERNS),
    scenarios: Annotated[str, typer.Option(help="warehouse, refresh.")] = ",".join(SCENARIOS),
    methods: Annotated[str, typer.Option(help="Sets of methods: all,IM1,IM1+IM2.")] = ",".join([ALL, *METHODS]),
    points: Annotated[int, typer.Option(help="Points of the timeline.")] = 2,
    jobs: Annotated[int, typer.Option(help="Processes.")] = 2,
    limit: Annotated[float, typer.Option(help="Seconds for one plan.")] = 300.0,
    fresh: Annotated[bool, typer.Option("--fresh", help="Forget what was done before.")] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Count what was right under earlier code as done.")] = False,
    report: Annotated[bool, typer.Option("--report", help="Only print what is known.")] = False,
) -> None:
    """Run the grid, or go on with it."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"sf{sf:g}-{points}.jsonl"
    if fresh:
        path.unlink(missing_ok=True)
    version = code_version()
    cells = [
        Cell(q, p, s, m.strip())
        for p in _listed(patterns, list(tpcds.PATTERNS))
        for q in query_numbers(queries)
        for s in _listed(scenarios, SCENARIOS)
        for m in methods.split(",")
    ]
    for cell in cells:
        method_names(cell.methods)
    done = earlier(path, None if keep else version)
    if keep:
        done = {k: r for k, r in done.items() if not r["error"] or r["version"] == version}
    todo = [c for c in cells if c.key not in done]
    console = Console(width=None if sys.stdout.isatty() else 140)
    if todo and not report:
        tpcds.generate(sf)
        _run(todo, path, version, done, sf, points, limit, jobs, console)
    wanted = [done[c.key] for c in cells if c.key in done]
    if not summarise(wanted, console):
        raise typer.Exit(1)


def _run(
    todo: Sequence[Cell],
    path: Path,
    version: str,
    done: dict[str, Record],
    sf: float,
    points: int,
    limit: float,
    jobs: int,
    console: Console,
) -> None:
    # All cells of one query and pattern go to one process: they share its connection.
    batches: dict[tuple[str, int], list[Cell]] = {}
    for cell in todo:
        batches.setdefault((cell.pattern, cell.query), []).append(cell)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    context = multiprocessing.get_context("spawn")
    # A process is replaced now and then: what planning interns is never forgotten. (ProcessPoolExecutor's way to do that may never start the new one.)
    with (
        context.Pool(jobs, maxtasksperchild=25) as pool,
        Progress(*columns, console=console) as progress,
        path.open("a") as log,
    ):
        bar = progress.add_task("cells", total=len(todo))
        failed = 0
        work = partial(run_cells, sf=sf, points=points, limit=limit)
        for records in pool.imap_unordered(work, batches.values()):
            for record in records:
                record["version"] = version
                done[record["key"]] = record
                failed += bool(record["error"])
                log.write(json.dumps(record, default=str) + "\n")
            log.flush()
            os.fsync(log.fileno())
            last = records[-1]
            progress.update(
                bar, advance=len(records), description=f"q{last['query']} {last['pattern']}, {failed} failed"
            )


if __name__ == "__main__":
    typer.run(run_grid)
