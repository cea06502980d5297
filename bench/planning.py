"""How long planning takes: every TPC-DS query with three points, beside one point, and beside Spark's own planning of the same query.

    python -m bench planning
    python -m bench planning --queries q5,q33 --no-spark

One point is traditional planning: the same planner with nothing to be incremental about. Spark's planning is parsing, analysis, optimization and the physical plan in a
warm session over the smallest tables. All are CPU seconds of the one thread that plans, the quickest of `--repeat`.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from bench import _planned, tpcds
from bench._record import OUT, QUERIES, REPEAT, SF, Experiment, experiment, name_of, query_numbers

MOST, MOST_FOR_ALL = 0.5, 3.0
"""Seconds within which 80 % of the queries, and all of them, are to be planned."""
TRADITIONAL = 24.0
"""How many times as long as traditional planning the paper took for 80 % of the queries."""

COLUMNS = (
    "query",
    "explore",
    "share",
    "total",
    "|T|=1",
    "Spark",
    "/ |T|=1",
    "/ Spark",
    "groups",
    "facts",
    "costings",
    "stopped",
)


def run(
    queries: QUERIES = "q1-q99",
    sf: SF = _planned.VIRTUAL,
    out: OUT = None,
    points: Annotated[int, typer.Option(min=2, help="Points of the timeline.")] = 3,
    pattern: Annotated[str, typer.Option(help="How data arrive: " + ", ".join(tpcds.PATTERNS))] = "delta-small",
    repeat: REPEAT = 3,
    spark: Annotated[bool, typer.Option(help="Measure Spark's own planning as well.")] = True,
) -> None:
    """Plan TPC-DS queries, and time it."""
    name_of(pattern, tpcds.PATTERNS)
    found = experiment("planning", sf, out, points=points, pattern=pattern, repeat=repeat)
    numbers = query_numbers(queries)
    found.total = len(numbers) * (2 + spark)
    for n in numbers:
        for t in (1, points):
            job = _planned.job_of(n, sf, pattern, _planned.warehouse(t))
            found.cell(f"q{n} |T|={t}", lambda job=job: _planned.quickest(job, None, repeat))
    if spark:
        from bench import _spark_planning

        planner = _spark_planning.Planner(repeat)
        for n in numbers:
            found.cell(f"q{n} spark", lambda n=n: planner.planned(n))
    judge(found, numbers, points, spark)
    slowest_first = sorted(numbers, key=lambda n: -found.cells[f"q{n} |T|={points}"]["seconds"])
    title = f"Planning with |T| = {points}, |T| = 1, and Spark's own planning: CPU seconds"
    found.finish(_planned.table_of(title, COLUMNS, [_row(found, n, points) for n in slowest_first]))


def _row(found: Experiment, n: int, points: int) -> list[str]:
    p, one = found.cells[f"q{n} |T|={points}"], found.cells[f"q{n} |T|=1"]
    own: dict[str, Any] | None = found.cells.get(f"q{n} spark")
    total = p["seconds"]
    return [
        f"q{n}", f"{p['explore_seconds']:.3f}", f"{p['share_seconds']:.3f}", f"{total:.3f}", f"{one['seconds']:.3f}",
        f"{own['seconds']:.3f}" if own else "–", f"{total / one['seconds']:.1f}", f"{total / own['seconds']:.1f}" if own else "–",
        f"{p['groups']:,}", f"{p['facts']:,}", f"{p['costings']:,}", p["stopped"],
    ]  # fmt: skip


def judge(found: Experiment, numbers: list[int], points: int, spark: bool) -> None:
    """The figures that matter: quantiles, and ratios to traditional planning."""
    totals = sorted(found.cells[f"q{n} |T|={points}"]["seconds"] for n in numbers)
    found.expect(f"80 % planned within {MOST} CPU seconds", f"{_share(totals, 0.8):.2f} s", _share(totals, 0.8) <= MOST)
    found.expect(f"all planned within {MOST_FOR_ALL:g} CPU seconds", f"{totals[-1]:.2f} s", totals[-1] <= MOST_FOR_ALL)
    clock = sorted(found.cells[f"q{n} |T|={points}"]["clock_seconds"] for n in numbers)
    found.expect("the same on the clock, beside whatever else the machine did", f"80 % within {_share(clock, 0.8):.2f} s, all within {clock[-1]:.2f} s", None)  # fmt: skip
    for name, other in (("one point", "|T|=1"), ("Spark's own planning", "spark")):
        if other == "spark" and not spark:
            continue
        ratios = sorted(
            found.cells[f"q{n} |T|={points}"]["seconds"] / found.cells[f"q{n} {other}"]["seconds"] for n in numbers
        )
        at = _share(ratios, 0.8)
        text = f"80 % within {TRADITIONAL:g}x of {name} (the paper's figure for traditional planning)"
        found.expect(text, f"{at:.1f}x; half within {_share(ratios, 0.5):.1f}x", at <= TRADITIONAL)


def _share(ordered: list[float], share: float) -> float:
    """The value that a share of them does not exceed."""
    return ordered[max(0, -int(-share * len(ordered) // 1) - 1)]
