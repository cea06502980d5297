"""Planning as methods are added one by one: what each new method costs the planner, and what it takes off the plan.

python -m bench methods
"""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated

import typer

from bench import _planned
from bench._record import OUT, QUERIES, REPEAT, SF, Experiment, experiment, query_numbers

ORDER = ("IM1", "IM2", "HOV", "OJV", "PART")
SETS = ["+".join(ORDER[: n + 1]) for n in range(len(ORDER))]
ROUNDING = 1e-6


def run(
    queries: QUERIES = _planned.TEN,
    sf: SF = _planned.VIRTUAL,
    out: OUT = None,
    points: Annotated[int, typer.Option(min=2, help="Points of the timeline.")] = 3,
    repeat: REPEAT = 5,
) -> None:
    """Exploration and sharing time by the methods known."""
    found = experiment("methods", sf, out, points=points, repeat=repeat)
    numbers = query_numbers(queries)
    found.total = len(numbers) * len(SETS)
    for n in numbers:
        job = _planned.job_of(n, sf, "delta-small", _planned.warehouse(points))
        for names in SETS:
            found.cell(f"q{n} {names}", lambda job=job, names=names: _planned.quickest(job, names.split("+"), repeat))
    judge(found, numbers)
    added = [SETS[0], *(f"+{name}" for name in ORDER[1:])]
    columns = ("query", *(f"{w} {a}" for w in ("explore", "share") for a in added), "cost/IM1")
    found.finish(
        _planned.table_of(
            f"Planning, CPU seconds, with |T| = {points} as methods are added",
            columns,
            [_row(found, n) for n in numbers],
        )
    )


def judge(found: Experiment, numbers: list[int]) -> None:
    dearer = [
        f"q{n} {more}"
        for n in numbers
        for fewer, more in pairwise(SETS)
        if found.cells[f"q{n} {more}"]["cost"] > found.cells[f"q{n} {fewer}"]["cost"] * (1 + ROUNDING)
    ]
    found.expect("no plan is dearer for one method more", ", ".join(dearer) or "none", not dearer)
    for part, word in (("explore_seconds", "exploration"), ("share_seconds", "sharing")):
        first, last = (sum(found.cells[f"q{n} {names}"][part] for n in numbers) for names in (SETS[0], SETS[-1]))
        text = f"{word} with all five methods over IM1 alone grows less than five-fold"
        found.expect(text, f"{last / first:.2f}x", last / first < len(ORDER))


def _row(found: Experiment, n: int) -> list[str]:
    parts = ("explore_seconds", "share_seconds")
    seconds = [f"{found.cells[f'q{n} {names}'][part]:.3f}" for part in parts for names in SETS]
    last, first = (found.cells[f"q{n} {names}"]["cost"] for names in (SETS[-1], SETS[0]))
    return [f"q{n}", *seconds, f"{last / first:.3f}"]
