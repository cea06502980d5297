"""How long planning takes: every TPC-DS query, with all methods, and how that grows with the number of points.

    python -m bench planning                       # the 99 queries at |T| = 3, beside |T| = 1
    python -m bench planning --queries q5,q33
    python -m bench planning --points 3,9          # exploration and sharing at 9 points against 3

Statistics are those of scale factor 1000 (no data are needed but those of the smallest scale, for the shape of columns). Counts say how much work
planning was and repeat exactly; seconds are those of this machine, best of `--repeat`.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

from bench import tpcds
from tempura import IncrementalPlan, Job, Timeline, plan


def run(
    queries: Annotated[str, typer.Option(help="Such as q5,q33; all 99 by default.")] = "",
    points: Annotated[str, typer.Option(help="Numbers of points to compare, such as 1,3 or 3,9.")] = "1,3",
    pattern: Annotated[str, typer.Option(help="How data arrive: " + ", ".join(tpcds.PATTERNS))] = "delta-small",
    repeat: Annotated[int, typer.Option(help="Times to plan each query; the quickest counts.")] = 1,
) -> None:
    """Plan TPC-DS queries and print what it took."""
    numbers = [int(q.strip().lower().lstrip("q")) for q in queries.split(",") if q.strip()] or sorted(tpcds.queries())
    few, many = (int(p) for p in points.split(","))
    rows = [
        (n, planned(n, few, pattern, repeat), planned(n, many, pattern, repeat)) for n in track(numbers, "planning")
    ]
    console = Console(width=None if sys.stdout.isatty() else 140)
    console.print(table(rows, few, many))
    for line in summary(rows, few, many):
        console.print(line)


def planned(number: int, points: int, pattern: str, repeat: int) -> IncrementalPlan:
    """The quickest of several plannings."""
    prices = [0.3] * (points - 1) + [1.0]
    timeline = Timeline.warehouse(prices)
    catalog = tpcds.catalog(0.01, pattern, timeline, virtual=True)
    job = Job(name=f"q{number}", query=tpcds.queries()[number], catalog=catalog, timeline=timeline)
    return min((plan(job, baselines=False) for _ in range(repeat)), key=seconds)


def seconds(found: IncrementalPlan) -> float:
    return found.planning.explore_seconds + found.planning.share_seconds


Row = tuple[int, IncrementalPlan, IncrementalPlan]


def table(rows: list[Row], few: int, many: int) -> Table:
    shown = Table(title=f"Planning with |T| = {many}, and the ratio to |T| = {few}")
    for column in (
        "query",
        "explore s",
        "share s",
        "total s",
        "TVRs",
        "groups",
        "facts",
        "firings",
        "costings",
        f"/ |T|={few}",
        "stopped",
    ):
        shown.add_column(column, justify="left" if column in ("query", "stopped") else "right")
    for number, small, large in sorted(rows, key=lambda r: -seconds(r[2])):
        p = large.planning
        shown.add_row(
            f"q{number}", f"{p.explore_seconds:.3f}", f"{p.share_seconds:.3f}", f"{seconds(large):.3f}", str(p.tvrs), str(p.groups),
            str(p.facts), str(p.firings), str(p.costings), f"{seconds(large) / seconds(small):.1f}", p.stop_reason,
        )  # fmt: skip
    return shown


def summary(rows: list[Row], few: int, many: int) -> list[str]:
    """The figures that matter: quantiles, and growth with the number of points."""
    totals = sorted(seconds(large) for _, _, large in rows)
    at = totals[min(len(totals) - 1, int(0.8 * len(totals)))]

    def growth(part: str) -> float:
        return sum(getattr(b.planning, part) for _, _, b in rows) / sum(getattr(a.planning, part) for _, a, _ in rows)

    return [
        f"|T| = {many}: half within {totals[len(totals) // 2]:.2f} s, 80 % within {at:.2f} s, all within {totals[-1]:.2f} s",
        f"|T| {few} to {many}: exploration {growth('explore_seconds'):.2f}x, sharing {growth('share_seconds'):.2f}x, "
        f"facts {growth('facts'):.2f}x, firings {growth('firings'):.2f}x" if few > 1 else
        f"|T| = {many} against |T| = {few}: exploration {growth('explore_seconds'):.1f}x",
    ]  # fmt: skip
