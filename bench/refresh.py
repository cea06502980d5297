"""Is it really cheaper? The last run of a refresh against recomputing, on Spark, in one warm session, the two taking turns.

The data arrive in two parts, four fifths and one fifth (delta-small). The first point is run once; each round takes a copy of its workspace, runs the last point there, and the batch
query over the same files, which writes its result as well; and, apart, the last run as a job does it by itself, checking what arrived, which recomputing does not: keys are looked up among all others where the plan relies on them. Every other round goes backwards. CPU is that of the whole Java process: tasks, planning, compiling and garbage collection, and the table
tells them apart. Rounds before those that count let the compiler finish with both.
"""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from bench._record import DEAREST, OUT, ROUNDS, Figures, experiment, queries_of, say
from bench.growth import STAR

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from bench._spark import Workbench
    from tempura.job import Job

RESTS_ON = ("bench/growth.py",)
"""It has the query of the star."""
AIM = 0.35
SIDES = {"last": False, "checked": True}
"""The last run as it is compared, and as a job does it by itself: whether what arrived is checked."""
BATCH = "batch"
"""Recomputing, the third side."""


def run(
    sf: Annotated[float, typer.Option(help="Scale factor; claims need 5 or more.")] = 5.0,
    queries: Annotated[str, typer.Option(help="star, and TPC-DS queries such as q40.")] = "star,q40,q10,q35,q80,q93",
    rounds: ROUNDS = 3,
    warm: Annotated[int, typer.Option(min=0, help="Rounds before that.")] = 3,
    policy: Annotated[str, typer.Option(help="auto, incremental, full.")] = "auto",
    out: OUT = None,
) -> None:
    """CPU of the last run of a refresh over CPU of recomputing."""
    from bench._spark import Workbench

    found = experiment("refresh", sf, out, rounds=rounds, warm=warm, policy=policy)
    bench = Workbench()
    wanted = queries_of(queries, STAR)
    found.total = len(wanted)
    for name, query in wanted.items():
        found.cell(name, partial(_measured, bench, name, query, sf, policy, warm, rounds))
    ratios = {name: cell["ratio"] for name, cell in found.cells.items()}
    worst = max(ratios, key=lambda name: ratios[name])
    met = sum(ratio <= AIM for ratio in ratios.values())
    found.expect(
        f"the last run takes at most {AIM} of recomputing", f"{met} of {len(ratios)} queries", met == len(ratios)
    )
    found.expect(f"never above {DEAREST}", f"{worst}: {ratios[worst]:.2f}", ratios[worst] <= DEAREST)
    checked = {name: cell["checked_ratio"] for name, cell in found.cells.items()}
    told = ", ".join(f"{name} {ratio:.2f} (unchecked {ratios[name]:.2f})" for name, ratio in checked.items())
    found.expect("with checks of what arrived, which recomputing does not have", told, None)
    wrong = [name for name, cell in found.cells.items() if not cell["right"]]
    found.expect("every result is what recomputing gives", ", ".join(wrong) or "all are", not wrong)
    found.finish(_table(found.cells, sf, policy))


def _measured(bench: Workbench, name: str, query: str | int, sf: float, policy: str, warm: int, rounds: int) -> Figures:
    from bench import _arrivals
    from bench._spark import folder, recomputing
    from tempura.spark.run import run as run_point
    from tempura.spark.verify import compare
    from tempura.timeline import Timeline

    taken: dict[str, list[Figures]] = {side: [] for side in (*SIDES, BATCH)}
    right = True
    with folder() as place:

        def job(workspace: str, checks: bool) -> Job:
            return _arrivals.job(
                query, sf, "delta-small", Timeline.refresh(), place / workspace, policy=policy, objective="latest-first", checks=checks
            )  # fmt: skip

        for side in SIDES:
            run_point(job(f"{side} first", SIDES[side]), "t1", spark=bench.spark)
        for n in range(warm + rounds):
            say(f"{name}, round {n + 1} of {warm + rounds}")
            results: dict[str, DataFrame] = {}
            for side in list(taken)[:: -1 if n % 2 else 1]:
                now = place / f"{side} now"
                if side == BATCH:
                    batch_job = job(BATCH, False)
                    work = recomputing(bench.spark, batch_job, batch_job.timeline.points[-1], now)
                    figures, results[side] = _spent(bench, work)
                else:
                    shutil.copytree(place / f"{side} first", now, symlinks=True)
                    work = partial(run_point, job(now.name, SIDES[side]), "t2", spark=bench.spark)
                    figures, report = _spent(bench, work)
                    around = report.seconds["planning"] + report.seconds["rest"]
                    figures |= {"around": around, "steps": len(report.steps)}
                    assert report.result is not None
                    results[side] = report.result
                taken[side] += [figures] if n >= warm else []
            right = right and not any(compare(results[side], results[BATCH]).differing for side in SIDES)
            for side in taken:
                shutil.rmtree(place / f"{side} now")
    last, checked, batch = (_medians(each) for each in taken.values())
    return {
        "ratio": last["cpu"] / batch["cpu"],
        "checked_ratio": checked["cpu"] / batch["cpu"],
        "right": right,
        "last": last,
        "checked": checked,
        "batch": batch,
    }


def _spent(bench: Workbench, work: Callable[[], Any]) -> tuple[Figures, Any]:
    """The processor time of the Java process while something is done, by kind."""
    spent, given = bench.gauge.spent(work)
    driver = spent.jvm_cpu - spent.task_cpu - spent.compiling - spent.garbage
    return {
        "cpu": spent.jvm_cpu,
        "tasks": spent.task_cpu,
        "compiling": spent.compiling,
        "garbage": spent.garbage,
        "driver": max(driver, 0.0),
        "jobs": spent.jobs,
        "rows_read": spent.rows_read,
        "bytes_read": spent.bytes_read,
    }, given


def _medians(rounds: list[Figures]) -> Figures:
    return {name: statistics.median(r[name] for r in rounds) for name in rounds[0]}


def _table(cells: Figures, sf: float, policy: str) -> Table:
    shown = Table(
        title=f"TPC-DS at scale factor {sf:g}, delta-small, two points, policy {policy}: CPU seconds, of the last run / of recomputing"
    )
    for column in (
        "query",
        "all",
        "ratio",
        "tasks",
        "compiling",
        "garbage",
        "driver",
        "jobs",
        "rows read",
        "around jobs s",
        "with checks",
        f"aim {AIM}",
    ):
        shown.add_column(column, justify="left" if column == "query" else "right")
    for name, cell in cells.items():
        mine, theirs = cell["last"], cell["batch"]
        pairs = [f"{mine[k]:.2f} / {theirs[k]:.2f}" for k in ("tasks", "compiling", "garbage", "driver")]
        shown.add_row(
            name, f"{mine['cpu']:.2f} / {theirs['cpu']:.2f}", f"{cell['ratio']:.2f}", *pairs, f"{mine['jobs']:g} / {theirs['jobs']:g}",
            f"{mine['rows_read']:,.0f} / {theirs['rows_read']:,.0f}", f"{mine['around']:.2f}", f"{cell['checked']['cpu']:.2f}",
            "met" if cell["ratio"] <= AIM else "not met" if cell["ratio"] <= DEAREST else "NOT KEPT",
        )  # fmt: skip
    return shown
