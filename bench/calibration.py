"""How well estimates agree with measurements, before calibration and after, on queries that no trial of `tempura calibrate` has.

    python -m bench calibration
    python -m bench calibration --profile profile.json      # what `tempura calibrate` wrote on this machine

Every query is refreshed at two points, once with what the plan chooses and once by recomputing. For each run: the CPU of the whole JVM, which is what estimates are of, and the
estimate of that very plan under the coefficients that were guessed before anything was measured, and under the profile given, or else the one that ships. A cost is a
sum of coefficients times amounts, so one run is held against both. Spark counts a step's tasks apart from others', but not what the JVM does beside them; so steps are held
against what estimates have for rows and bytes, without the fixed costs.
"""

from __future__ import annotations

import hashlib
import statistics
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bench import _planned, _record
from bench._record import OUT, QUERIES, SF, Experiment, Figures
from tempura.estimate import Profile
from tempura.estimate.profile import COEFFICIENTS, DEFAULT
from tempura.job.shapes import Policy

if TYPE_CHECKING:
    from bench._spark import Workbench

_GUESSES: dict[str, Any] = {
    "job": 0.3, "shuffle": 0.07, "broadcast": 0.035, "file": 0.004,
    "scan_byte": 1.25e-8, "scan_row": 3e-7, "load_byte": 1e-8, "load_row": 1e-7, "save_byte": 2e-8, "save_row": 3e-7,
    "exchange_byte": 1.5e-8, "exchange_row": 2e-7, "broadcast_byte": 3e-8, "broadcast_row": 2e-7, "memory_byte": 2e-10,
    "build_row": 4e-7, "probe_row": 2e-7, "output_row": 1e-7, "pair": 5e-8, "aggregate_row": 3e-7, "aggregate_call_row": 2e-8,
    "sort_row": 2e-8, "filter_row": 5e-8, "project_row": 3e-8, "expression_row": 2e-8, "union_row": 1e-8, "window_row": 3e-7,
}  # fmt: skip
GUESSED = Profile(**(dict.fromkeys(COEFFICIENTS, 0.0) | _GUESSES), cores=2, executors=1, buckets=8)
"""What was taken for true before anything was measured; what is not named here was not known to cost anything."""
HELD_OUT = "q3,q7,q10,q22,q40,q51,q65,q80,q88,q93"
"""Stars, EXISTS, ROLLUP, windows, outer joins, nested aggregates, unions, and aggregates without groups."""
POLICIES: tuple[Policy, ...] = ("auto", "full")
FIXED = ("job", "shuffle", "broadcast", "operator", "file")
"""Coefficients for what is done once, much of it beside tasks."""
COLUMNS = ("query", "policy", "point", "measured s", "guessed s", "calibrated s")


def run(
    sf: SF = 1.0,
    queries: QUERIES = HELD_OUT,
    profile: Annotated[Path | None, typer.Option(help="A profile that `tempura calibrate` wrote.")] = None,
    rounds: Annotated[int, typer.Option(help="How often each is measured, after one round to warm up.")] = 2,
    out: OUT = None,
) -> None:
    """Estimated against measured CPU of runs, under guessed and under measured coefficients."""
    from bench._spark import Workbench

    calibrated = Profile.load(profile) if profile else DEFAULT
    named = (
        f"{profile.name} {hashlib.sha256(profile.read_bytes()).hexdigest()[:8]}" if profile else "the one that ships"
    )
    found = _record.experiment("calibration", sf, out, rounds=rounds, profile=named)
    bench = Workbench()
    for query in _record.query_numbers(queries):
        for policy in POLICIES:
            found.cell(f"q{query} {policy}", partial(_measured, bench, query, policy, sf, rounds, calibrated))
    _judge(found)
    rows = [
        [*name.split(), point, *(f"{taken[part]:.2f}" for part in ("measured", "before", "after"))]
        for name, cell in found.cells.items()
        for point, taken in cell.items()
    ]
    found.finish(_planned.table_of(f"Estimates of runs at scale factor {sf:g}", COLUMNS, rows, words=3))


def _measured(bench: Workbench, query: int, policy: Policy, sf: float, rounds: int, calibrated: Profile) -> Figures:
    """By point: what the run took, and the two estimates of the plan that was run. Points without work are left out."""
    from bench import _arrivals
    from bench._spark import folder, run_point
    from tempura.spark.calibrate.charge import amounts, itemized
    from tempura.timeline import Timeline

    taken: dict[str, list[float]] = {}
    charged: dict[str, Mapping[str, float]] = {}
    by_step: dict[str, list[Figures]] = {}
    for n in range(rounds + 1):
        with folder() as place:
            job = _arrivals.job(query, sf, "delta-small", Timeline.refresh(), place / "workspace", policy=policy)
            job = replace(job, cluster=itemized(calibrated))
            for point in job.timeline.points:
                spent, report = bench.gauge.spent(partial(run_point, job, point.name, spark=bench.spark))
                assert report.plan is not None
                steps = report.plan.runs[0].steps
                if steps:
                    charged[point.name] = amounts(sum(step.cost for step in steps))
                    taken.setdefault(point.name, []).extend([spent.jvm_cpu] if n else [])
                    by_step[point.name] = [
                        {"step": step.name, "measured": (ran.measured or {}).get("cpu_seconds")}
                        | _estimates(variable, calibrated)
                        for step, ran in zip(steps, report.steps, strict=True)
                        if (variable := {k: v for k, v in amounts(step.cost).items() if k not in FIXED})
                    ]
    return {
        point: {
            "measured": statistics.median(seconds),
            **_estimates(charged[point], calibrated),
            "steps": by_step[point],
        }
        for point, seconds in taken.items()
    }


def _estimates(charged: Mapping[str, float], calibrated: Profile) -> Figures:
    from tempura.spark.calibrate.charge import priced

    return {"before": priced(charged, GUESSED), "after": priced(charged, calibrated)}


def _judge(found: Experiment) -> None:
    """The median of the errors, each as a share of what was measured."""
    runs = [taken for cell in found.cells.values() for taken in cell.values()]
    steps = [step for taken in runs for step in taken["steps"] if step["measured"]]
    for what, kind, ones in (("runs", "JVM CPU", runs), ("steps", "task CPU, without fixed costs", steps)):
        error = {p: statistics.median(abs(o[p] / o["measured"] - 1) for o in ones) for p in ("before", "after")}
        said = f"in the median of {len(ones)} {what} by {error['after']:.0%}, before by {error['before']:.0%}"
        found.expect(
            f"{kind}: estimates err less after calibration than before", said, error["after"] < error["before"]
        )
        ratios = [o["after"] / o["measured"] for o in ones]
        common = statistics.median(ratios)
        beside = statistics.median(abs(ratio / common - 1) for ratio in ratios)
        told = f"{common:.2f} times what was measured in the median, and but for that factor they err by {beside:.0%}"
        found.expect(f"{kind}: estimates after calibration", told, None)
        within = sum(0.5 <= o["after"] / o["measured"] <= 2 for o in ones)
        found.expect(f"{kind}: within a factor of two after calibration", f"{within} of {len(ones)} {what}", None)
