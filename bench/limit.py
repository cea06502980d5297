"""How far is the last run from the least that any method could do on this Spark: scan what is new, write the result?

The data arrive in two parts, four fifths and one fifth (delta-small). The least is a job that reads the columns of the new rows that the query names and does
nothing with them, and one that writes the rows of the result, which lie in memory. It knows nothing of history, joins nothing and adds nothing up. Only a run that can tell early that no new row matters takes less.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from bench import _record
from bench._record import OUT, ROUNDS, SF, Figures, queries_of
from bench.growth import STAR

if TYPE_CHECKING:
    from bench._spark import Gauge, Workbench
    from tempura.job import Job

RESTS_ON = ("bench/growth.py",)
"""It has the query of the star."""


def run(
    sf: SF = 5.0,
    queries: Annotated[str, typer.Option(help="star, and TPC-DS queries such as q40.")] = "star,q40,q10,q35,q80,q93",
    rounds: ROUNDS = 3,
    out: OUT = None,
) -> None:
    """CPU of the last run of a refresh over the least that any method could do."""
    from bench._spark import WARM, Workbench

    found = _record.experiment("limit", sf, out, rounds=rounds, warm=WARM)
    bench = Workbench()
    wanted = queries_of(queries, STAR)
    found.total = len(wanted)
    for name, query in wanted.items():
        found.cell(name, partial(_measured, bench, name, query, sf, rounds))
    for name, cell in found.cells.items():
        told = f"{cell['last_cpu'] / cell['least_cpu']:.1f}x of task CPU, {cell['last_jvm'] / cell['least_jvm']:.1f}x of JVM CPU"
        found.expect(f"{name}: the last run over the least", told, None)
    found.finish(_shown(found.cells, f"The last run and the least, TPC-DS at scale factor {sf:g}, {rounds} rounds"))


def _measured(bench: Workbench, name: str, query: str | int, sf: float, rounds: int) -> Figures:
    from bench import _arrivals
    from bench._spark import WARM, course, folder, median
    from tempura.timeline import Timeline

    kept: list[Figures] = []
    for n in range(WARM + rounds):
        _record.say(f"{name}, round {n + 1} of {WARM + rounds}")
        with folder() as place:
            workspace = place / "workspace"
            job = _arrivals.job(query, sf, "delta-small", Timeline.refresh(), workspace, objective="latest-first")
            points, result = course(bench.gauge, job)
            least = _least(bench.gauge, job, result, place / "least")
        last = points["t2"]
        figures = {
            "last_cpu": last["task_cpu"],
            "least_cpu": least.task_cpu,
            "last_jvm": last["jvm_cpu"],
            "least_jvm": least.jvm_cpu,
            "last_rows_read": last["rows_read"],
            "least_rows_read": least.rows_read,
            "estimated": last["estimated"],
        }
        kept += [figures] if n >= WARM else []
    return median(kept)


def _least(gauge: Gauge, job: Job, result: Any, place: Path) -> Any:
    """What it takes to scan what is new and to write the result."""
    from tempura.spark.reading import read
    from tempura.spark.states import States

    text = job.queries["result"].lower()
    first, last = (point.upto for point in job.timeline.points)
    new = []
    for table, source in job.sources.items():
        since = source.pin(None, first)
        columns = [c.name for c in job.catalog[table].columns if re.search(rf"\b{c.name}\b", text)]
        if not source.static:
            new.append(read(gauge.spark, source.delta(since, source.pin(since, last))).select(*columns))
    rows = result.cache()
    rows.count()

    def work() -> None:
        for frame in new:
            frame.write.format("noop").mode("overwrite").save()
        States(gauge.spark).write(rows, str(place))

    spent, _ = gauge.spent(work)
    rows.unpersist()
    return spent


def _shown(cells: Mapping[str, Figures], title: str) -> Table:
    table = Table(title=title, caption="CPU seconds")
    for column in (
        "query",
        "last run: tasks",
        "least",
        "ratio",
        "last run: JVM",
        "least",
        "ratio",
        "rows read",
        "least",
    ):
        table.add_column(column, justify="left" if column == "query" else "right", no_wrap=True)
    for name, cell in cells.items():
        row = [name]
        for kind in ("cpu", "jvm"):
            last, least = cell[f"last_{kind}"], cell[f"least_{kind}"]
            row += [f"{last:.2f}", f"{least:.2f}", f"{last / least:.1f}"]
        table.add_row(*row, f"{cell['last_rows_read']:,.0f}", f"{cell['least_rows_read']:,.0f}")
    return table
