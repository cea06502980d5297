"""Exploration and sharing as queries grow: the paper's ten queries, in the order of their joins, aggregates and sub-queries.

python -m bench complexity
"""

from __future__ import annotations

from typing import Annotated

import typer

from bench import _planned
from bench._record import OUT, QUERIES, REPEAT, SF, experiment, query_numbers


def run(
    queries: QUERIES = _planned.TEN,
    sf: SF = _planned.VIRTUAL,
    out: OUT = None,
    points: Annotated[int, typer.Option(min=2, help="Points of the timeline.")] = 3,
    repeat: REPEAT = 5,
) -> None:
    """Exploration and sharing time by query complexity."""
    found = experiment("complexity", sf, out, points=points, repeat=repeat)
    rows: list[list[str]] = []
    numbers = query_numbers(queries)
    found.total = len(numbers)
    for n in numbers:
        job = _planned.job_of(n, sf, "delta-small", _planned.warehouse(points))
        c = found.cell(f"q{n}", lambda job=job: _planned.quickest(job, None, repeat))
        counts = (c["tvrs"], c["groups"], c["facts"], c["firings"], c["costings"])
        rows.append([f"q{n}", f"{c['explore_seconds']:.3f}", f"{c['share_seconds']:.3f}", *(f"{x:,}" for x in counts)])
    cells = found.cells.values()
    explore, share = (sum(c[part] for c in cells) for part in ("explore_seconds", "share_seconds"))
    found.expect(
        "exploration takes less than sharing, as in the paper", f"{explore:.2f} s and {share:.2f} s in all", explore < share
    )  # fmt: skip
    columns = ("query", "exploration s", "sharing s", "TVRs", "groups", "facts", "firings", "costings")
    found.finish(_planned.table_of(f"Planning, CPU seconds, with |T| = {points}", columns, rows))
