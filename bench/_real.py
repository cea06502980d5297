"""Every method on Spark: the same query with all of them, with each one alone, and recomputed, taking turns.

With all methods the plan may recompute where that is cheaper. A single method must not where it can do otherwise, or there would be little to compare. Recomputing is
the batch query as Spark runs it.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from pathlib import Path

from rich.table import Table

from bench import _arrivals
from bench._record import ALL, CLOSE, COMPARABLE, FULL, Experiment, Figures, say
from bench._spark import WARM, Place, Spent, Workbench, folder, weighted
from tempura.job import Job
from tempura.job.shapes import METHODS
from tempura.spark.run import run as run_point
from tempura.timeline import Timeline

KEPT = ("state_bytes", "bucketed_bytes")
"""What is kept on disk for later points, at most, and what of it is a shuffle that these do not repeat."""
EACH = (ALL, *METHODS, FULL)
"""The cells of a query under a pattern."""
RACE = 1.5
"""A plan that took more than so many times the best in each of three rounds, two of them to warm up, by tasks and by the JVM, is not measured again, unless it is the chosen one."""


def method_jobs(query: int | str, sf: float, pattern: str, timeline: Timeline, objective: str) -> dict[str, Place]:
    """A query's job with all methods, free to recompute, and with each one alone, which must not where it can do otherwise."""

    def place(workspace: Path, methods: Sequence[str] | None, policy: str) -> Job:
        return _arrivals.job(
            query, sf, pattern, timeline, workspace, methods=methods, policy=policy, objective=objective
        )

    alone = {name: partial(place, methods=[name], policy="incremental") for name in METHODS}
    return {ALL: partial(place, methods=None, policy="auto"), **alone}


def by_plan(jobs: Mapping[str, Place]) -> dict[str, list[str]]:
    """The names of jobs that have the same plan, under the first of them: what is the same need not be measured twice."""
    found: dict[str, list[str]] = {}
    for name, place in jobs.items():
        with folder() as workspace:
            plan = run_point(place(workspace), dry_run=True).plan
        assert plan is not None
        said = [[r.point, [[s.name, s.sql, s.partition, s.broadcasts] for s in r.steps]] for r in plan.runs]
        found.setdefault(json.dumps(said), []).append(name)
    return {names[0]: names for names in found.values()}


def announced(jobs: Mapping[str, Place], what: str) -> dict[str, Place]:
    """The jobs, of which each says when it begins, and in which round; recomputing is begun as one of them, in a place of its own."""
    taken: Counter[str] = Counter()

    def begun(place: Place, workspace: Path) -> Job:
        name = workspace.name.removesuffix("-workspace")
        taken[name] += 1
        say(f"{what}, round {taken[name]}: {name}")
        return place(workspace)

    return {name: partial(begun, place) for name, place in jobs.items()}


def methods_measured(
    bench: Workbench,
    what: str,
    jobs: Mapping[str, Place],
    rounds: int,
    *,
    at: Sequence[str] = (),
    race: float = math.inf,
    weigh: bool = False,
    last: bool = False,
) -> dict[str, Figures]:
    """What each job takes at all points, or at the last one, with those before run only once; and recomputing. Jobs with the same plan are measured once."""
    say(f"{what}: {len(jobs)} jobs are planned")
    same = by_plan(jobs)
    distinct = {first: jobs[first] for first in same}
    say(f"{what}: {', '.join(distinct)} and {FULL} take turns, {WARM} rounds to warm up and {rounds} that count")
    with folder() as where:
        begun = bench.begin(distinct, where) if last else None
        found = bench.turns(announced(distinct, what), rounds, at=at, race=race, weigh=weigh, begun=begun)
    for point, work in recomputing_work(jobs[ALL]).items():
        if point in found[FULL]["points"]:
            found[FULL]["points"][point]["estimated"] = work
    told = {name: found[first] | {"same_plan_as": first} for first, names in same.items() for name in names}
    return {name: told[name] for name in jobs} | {FULL: found[FULL] | {"same_plan_as": FULL}}


def recomputing_work(place: Place) -> Mapping[str, float]:
    """What recomputing is estimated to take at each point."""
    with folder() as workspace:
        plan = run_point(replace(place(workspace), policy="full"), dry_run=True).plan
    assert plan is not None
    return plan.cost.work


def summed(measured: Figures, weigh: bool) -> Figures:
    """A cell's figures of a course: the whole, its last point, and all points at their prices, which `weigh` says the estimate is of, too."""
    points: Mapping[str, Figures] = measured["points"]
    last = list(points.values())[-1]
    whole = [f.name for f in fields(Spent)]
    return {
        "estimated": weighted(points, "estimated") if weigh else last["estimated"],
        **{name: sum(figures[name] for figures in points.values()) for name in whole},
        "weighted_cpu": weighted(points, "task_cpu"),
        "weighted_jvm": weighted(points, "jvm_cpu"),
        "last_cpu": last["task_cpu"],
        "last_jvm": last["jvm_cpu"],
        **{name: max(figures.get(name, 0) for figures in points.values()) for name in KEPT},
        "rounds": measured["rounds"],
        "right": measured["right"],
        "same_plan_as": measured["same_plan_as"],
    }


def cells(
    found: Experiment,
    bench: Workbench,
    what: str,
    jobs: Mapping[str, Place],
    rounds: int,
    at: Sequence[str] = (),
    race: float = math.inf,
    weigh: bool = False,
) -> dict[str, Figures]:
    """The cells of one query under one pattern, one per job and for recomputing: those stored, or all measured now, since they take turns."""

    def measure() -> list[Figures]:
        measured = methods_measured(bench, what, jobs, rounds, at=at, race=race, weigh=weigh)
        return [summed(figures, weigh) for figures in measured.values()]

    names = (*jobs, FULL)
    return dict(zip(names, found.together([f"{what} {name}" for name in names], measure), strict=True))


def judge(found: Experiment, groups: Mapping[str, Mapping[str, Figures]], what: str, paper: Sequence[str]) -> None:
    """Expect all methods together to take the least CPU of all, recomputing included, or within a tenth of it, and what the paper says of some groups."""
    for cpu, kind in ((what + "_cpu", "task CPU"), (what + "_jvm", "JVM CPU")):
        close = [name for name, g in groups.items() if g[ALL][cpu] <= CLOSE * min(g[m][cpu] for m in (*METHODS, FULL))]
        figure = f"{len(close)} of {len(groups)}" + _others(groups, close)
        found.expect(
            f"{kind}: all methods at most {CLOSE:g}x the best single one and recomputing",
            figure,
            len(close) == len(groups),
        )
    for name in filter(groups.__contains__, paper):
        cpu = {m: figures[what + "_cpu"] / groups[name][ALL][what + "_cpu"] for m, figures in groups[name].items()}
        told = ", ".join(f"{cpu[m]:.1f}x {m}" for m in METHODS)
        found.expect(
            f"{name}: all methods 5 to 10 times cheaper than others alone", told, min(cpu[m] for m in METHODS) >= 5
        )
    kept = {name: {m: figures["state_bytes"] for m, figures in g.items()} for name, g in groups.items()}
    small = [name for name, size in kept.items() if size[ALL] <= COMPARABLE * min(size[m] for m in METHODS)]
    figure = f"in {len(small)} of {len(groups)}" + _others(groups, small)
    text = f"states of all methods on disk at most {COMPARABLE:g}x of those of each one, in most settings"
    found.expect(text, figure, len(small) > len(groups) / 2)
    judge_results(found, groups)


def judge_results(found: Experiment, groups: Mapping[str, Mapping[str, Figures]]) -> None:
    """Expect that all delivered what the batch query gives."""
    wrong = [f"{name} {m}" for name, g in groups.items() for m in g if not g[m]["right"]]
    found.expect("every result is that of the batch query", ", ".join(wrong) or "all are", not wrong)


def _others(groups: Mapping[str, object], close: Sequence[str]) -> str:
    others = [name for name in groups if name not in close]
    return f"; not {', '.join(others)}" if others else ""


def table_of(title: str, groups: Mapping[str, Mapping[str, Figures]], what: str) -> Table:
    """CPU of each method's plan, and what its course read, wrote, shuffled and kept. A plan that several have stands once."""
    sizes = {"read": "bytes_read", "written": "bytes_written", "shuffled": "bytes_shuffled", "states": KEPT[0], "bucketed": KEPT[1]}  # fmt: skip
    shown = Table(title=title, caption="CPU seconds; rows, jobs and MB are of all points together")
    for column in ("query", "methods", "tasks", "JVM", "rows read", *sizes, "jobs"):
        shown.add_column(column, justify="left" if column in ("query", "methods") else "right", no_wrap=True)
    for name, figures in groups.items():
        plans = {first: [m for m, f in figures.items() if f["same_plan_as"] == first] for first in figures}
        for first, methods in plans.items():
            if methods:
                mine = figures[first]
                cpu = [f"{mine[what + kind]:.2f}" for kind in ("_cpu", "_jvm")]
                megabytes = [f"{mine[part] / 1e6:.1f}" for part in sizes.values()]
                counts = f"{mine['rows_read']:,.0f}", *megabytes, f"{mine['jobs']:.0f}"
                shown.add_row(name, ", ".join(methods), *cpu, *counts, end_section=first == FULL)
    return shown
