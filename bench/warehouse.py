"""A day of recurring queries: runs at 14:00, 19:00 and 24:00 against recomputing at 24:00, all of TPC-DS on Spark.

Rows of the fact tables come evenly over the day; work costs 0.25 at 14:00, 0.3 at 19:00 and 1 at 24:00, when the result is due. For each query two ratios to recomputing: what
the day costs at these prices (weighted), and what is left to do at 24:00 (deadline). Each is given of the CPU of tasks; of the whole JVM with
Spark's planning and compiling, which at a small scale are most of it and do not grow with the rows; and of JVM and Python together, where Tempura plans and looks at files. Queries recur, so two rounds that do not count go
before: in the second Java still compiles what Spark generated in the first, and a day runs that code three times on few rows where recomputing runs it once on many. `--warm 1` and `--warm 0` tell of sessions that are younger.

Tempura orders joins, broadcasts what is small and fuses aggregates by statistics that this Spark does not have, and would gain by that even if it had to recompute. How much, is told by recomputing each query
by Tempura's plan as well, once, at 24:00. What arrives is not checked for keys that are there twice (`checks: false`), as recomputing does not check it either.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from bench import _record, tpcds
from bench._arrivals import DAY
from bench._record import ALL, DEAREST, FULL, OUT, PLAN, QUERIES, ROUNDS, SF, Experiment, Figures
from tempura.errors import TempuraError

if TYPE_CHECKING:
    from bench._spark import Workbench
    from tempura.job import Job
    from tempura.job.shapes import Policy

PRICES = {"14:00": 0.25, "19:00": 0.3, "24:00": 1.0}
KINDS = {"task CPU": ("task_cpu",), "JVM CPU": ("jvm_cpu",), "JVM and Python CPU": ("jvm_cpu", "python_cpu")}
"""Ways to count, and the figures that each is the sum of."""
SHOWN = 12
"""So many of the dearest and of the worst queries are shown."""


def run(
    sf: SF = 1.0,
    queries: QUERIES = "q1-q99",
    rounds: ROUNDS = 1,
    warm: Annotated[int, typer.Option(min=0, help="Rounds before those that count.")] = 2,
    by_plan: Annotated[bool, typer.Option(help="Recompute by Tempura's plan as well.")] = True,
    out: OUT = None,
) -> None:
    """Weighted and deadline CPU of a day, query by query, over that of recomputing at its end."""
    from bench._spark import Workbench

    found = _record.experiment("warehouse", sf, out, rounds=rounds, warm=warm, by_plan=by_plan)
    bench = Workbench()
    wanted = _record.query_numbers(queries)
    found.total = len(wanted)
    tpcds.generate(sf)  # What is wrong with the scale factor or the disk is no query's fault.
    for query in wanted:
        found.cell(f"q{query}", partial(_day, bench, query, sf, rounds, warm, by_plan))
    measured = {name: cell for name, cell in found.cells.items() if "weighted_ratio" in cell}
    _judge(found, measured)
    found.finish(_shown(measured, f"A day of TPC-DS at scale factor {sf:g}: {len(measured)} queries, {rounds} rounds"))


def _day(bench: Workbench, query: int, sf: float, rounds: int, warm: int, by_plan: bool) -> Figures:
    """A query's day and recomputing, by Spark's plan and by Tempura's, taking turns; or what went wrong."""
    from bench import _arrivals
    from bench._real import announced
    from bench._spark import weighted
    from tempura.timeline import Timeline

    def place(workspace: Path, policy: Policy) -> Job:
        return _arrivals.job(query, sf, DAY, Timeline.warehouse(PRICES), workspace, policy=policy)

    jobs = {ALL: partial(place, policy="auto")} | ({PLAN: partial(place, policy="full")} if by_plan else {})
    try:
        # What all queries share is compiled by the first one, which must not be charged for it.
        measured = bench.turns(announced(jobs, f"q{query}"), rounds, warm=max(warm, int(not bench.taken)))
    except TempuraError as error:
        return {"error": str(error)}
    points: Mapping[str, Figures] = measured[ALL]["points"]
    batch = measured[FULL]["points"]["24:00"]
    last = points["24:00"]
    return {
        "weighted_ratio": weighted(points, "task_cpu") / batch["task_cpu"],
        "deadline_ratio": last["task_cpu"] / batch["task_cpu"],
        "weighted_ratio_jvm": weighted(points, "jvm_cpu") / batch["jvm_cpu"],
        "deadline_ratio_jvm": last["jvm_cpu"] / batch["jvm_cpu"],
        "batch_cpu": batch["task_cpu"],
        "batch_jvm": batch["jvm_cpu"],
        "right": all(each["right"] for each in measured.values()),
        "points": points,
        "batch": batch,
        "by_plan": measured[PLAN]["points"]["24:00"] if by_plan else None,
    }


def _judge(found: Experiment, cells: Mapping[str, Figures]) -> None:
    """What the paper and the issue expect of the day, by each way to count."""
    failed = {name: cell["error"].splitlines()[0] for name, cell in found.cells.items() if "error" in cell}
    found.expect("every query can be run", "; ".join(f"{n}: {e}" for n, e in failed.items()) or "all", not failed)
    wrong = [name for name, cell in cells.items() if not cell["right"]]
    found.expect("every result is that of the batch query", ", ".join(wrong) or "all are", not wrong)
    if not cells:
        return
    for kind, parts in KINDS.items():
        _judge_kind(found, cells, kind, parts)
    each = [len(part) / DAY.parts for part in DAY.points]
    least = sum(share * price for share, price in zip(each, PRICES.values(), strict=True))
    found.expect(
        "were all work in proportion to new rows, and states free", f"the day would cost {_less(least, 1)}", None
    )


def _judge_kind(found: Experiment, cells: Mapping[str, Figures], kind: str, parts: Sequence[str]) -> None:
    """The expectations by one way to count."""
    batch = {name: _spent(cell["batch"], parts) for name, cell in cells.items()}
    day = {name: _at_prices(cell["points"], parts) for name, cell in cells.items()}
    less = _less(sum(day.values()), sum(batch.values()))
    met = sum(day.values()) <= 0.45 * sum(batch.values())
    found.expect(f"{kind}: the day costs 55 % less at its prices, or better", less, met)
    ratios = {name: ratios_of(cell, parts)[0] for name, cell in cells.items()}
    deadline = [ratios_of(cell, parts)[1] for cell in cells.values()]
    lower, much = _share(deadline, lambda r: r < 1), _share(deadline, lambda r: r <= 0.75)
    found.expect(f"{kind}: lower at 24:00 for 85 % of queries or more", f"{lower:.0%}", lower >= 0.85)
    found.expect(f"{kind}: by a quarter or more for 70 % or more", f"{much:.0%}", much >= 0.7)
    above = sorted((name for name in cells if ratios[name] > DEAREST), key=lambda name: -ratios[name])
    told = f"{len(above)} above" + "".join(f", {name} {ratios[name]:.2f}" for name in above[:SHOWN])
    found.expect(f"{kind}: no query above {DEAREST}x of recomputing at the day's prices", told, not above)
    found.expect(f"{kind}: the day of a query in the median", _less(statistics.median(ratios.values()), 1), None)
    if all(cell["by_plan"] for cell in cells.values()):
        again = sum(_spent(cell["by_plan"], parts) for cell in cells.values())
        told = f"{_less(again, sum(batch.values()))} than by Spark's; the day costs {_less(sum(day.values()), again)} than that"
        found.expect(f"{kind}: recomputing by Tempura's own plan", told, None)


def _spent(figures: Figures, parts: Sequence[str]) -> float:
    return sum(figures[part] for part in parts)


def ratios_of(cell: Figures, parts: Sequence[str]) -> tuple[float, float]:
    """What the day costs at its prices, and what is left to do at 24:00, over recomputing."""
    batch = _spent(cell["batch"], parts)
    return _at_prices(cell["points"], parts) / batch, _spent(cell["points"]["24:00"], parts) / batch


def _at_prices(points: Mapping[str, Figures], parts: Sequence[str]) -> float:
    return sum(price * _spent(points[name], parts) for name, price in PRICES.items())


def _less(cost: float, than: float) -> str:
    saved = 1 - cost / than
    return f"{abs(saved):.1%} {'less' if saved > 0 else 'more'}"


def _share(ratios: Sequence[float], like: Callable[[float], bool]) -> float:
    return sum(map(like, ratios)) / len(ratios)


def _shown(cells: Mapping[str, Figures], title: str) -> Table:
    """The totals, the dearest queries, and those with the worst ratio."""
    table = Table(title=title, caption="seconds of task CPU (of the whole JVM); ratios to recomputing")
    for column in ("query", *PRICES, "recomputing", "weighted", "deadline"):
        table.add_column(column, justify="left" if column == "query" else "right", no_wrap=True)
    if cells:
        table.add_row("together", *_row(list(cells.values())), end_section=True)
    dearest = sorted(cells, key=lambda name: -cells[name]["batch_cpu"])[:SHOWN]
    worst = sorted(set(cells) - set(dearest), key=lambda name: -cells[name]["weighted_ratio"])[:SHOWN]
    for part in (dearest, worst):
        for name in part:
            table.add_row(name, *_row([cells[name]]), end_section=name == part[-1])
    return table


def _row(cells: Sequence[Figures]) -> list[str]:
    seconds = [
        tuple(sum(cell["points"][point][cpu] for cell in cells) for cpu in ("task_cpu", "jvm_cpu")) for point in PRICES
    ]
    batch = tuple(sum(cell[cpu] for cell in cells) for cpu in ("batch_cpu", "batch_jvm"))
    day = [sum(s[i] * price for s, price in zip(seconds, PRICES.values(), strict=True)) / batch[i] for i in (0, 1)]
    last = [seconds[-1][i] / batch[i] for i in (0, 1)]
    return [f"{a:.2f} ({b:.1f})" for a, b in (*seconds, batch)] + [f"{a:.2f} ({b:.2f})" for a, b in (day, last)]
