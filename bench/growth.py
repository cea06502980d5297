"""Does a refresh stay cheap while history grows? The last run with always the same delta, after a history of 1 to 16 units.

A unit is four times the delta. Two linear queries: a star that is aggregated, and a join of few rows that pass a filter. And one that is not, an aggregate over
an outer join of sales with returns, both growing: a late return has to find its sale in all of history, which no file has an index of. Recomputing is measured beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from bench import _record
from bench._record import ALL, DEAREST, FULL, OUT, ROUNDS, SF, Figures, over

if TYPE_CHECKING:
    from bench._spark import Workbench
    from tempura.job import Job

STAR = {
    "star": """
SELECT d_year, i_category, s_state, SUM(ss_ext_sales_price) AS sales, COUNT(*) AS items
FROM store_sales JOIN date_dim ON ss_sold_date_sk = d_date_sk JOIN item ON ss_item_sk = i_item_sk JOIN store ON ss_store_sk = s_store_sk
GROUP BY d_year, i_category, s_state"""
}
VIEWS = STAR | {
    "filter": """
SELECT ss_ticket_number, i_product_name, s_store_name, ss_ext_sales_price
FROM store_sales JOIN item ON ss_item_sk = i_item_sk JOIN store ON ss_store_sk = s_store_sk
WHERE ss_ext_sales_price > 18000""",
    "outer": """
SELECT i_category, COUNT(*) AS orders, SUM(cs_net_profit - COALESCE(cr_net_loss, 0)) AS profit
FROM catalog_sales LEFT JOIN catalog_returns ON cs_order_number = cr_order_number AND cs_item_sk = cr_item_sk JOIN item ON cs_item_sk = i_item_sk
GROUP BY i_category""",
}
LINEAR = ("star", "filter")
"""Views of which a refresh may not grow with history; of others it is shown."""
HISTORY = (1, 2, 4, 8, 16)
MOST = 1.5


def run(
    sf: SF = 5.0,
    views: Annotated[
        str, typer.Option("--queries", "--views", help=f"{', '.join(VIEWS)}, and TPC-DS queries such as q40.")
    ] = ",".join(VIEWS),
    rounds: ROUNDS = 3,
    out: OUT = None,
) -> None:
    """CPU of a refresh with a fixed delta as history grows."""
    from bench._spark import WARM, Workbench

    found = _record.experiment("growth", sf, out, rounds=rounds, warm=WARM)
    bench = Workbench()
    wanted = _record.queries_of(views, VIEWS)
    found.total = len(wanted) * len(HISTORY)
    for name, query in wanted.items():
        _cells(found, bench, name, query, sf, rounds)
    for name in wanted:
        _judge(found, name)
    found.finish(
        _shown(found.cells, f"A fixed delta on a growing history, TPC-DS at scale factor {sf:g}, {rounds} rounds")
    )


def _cells(found: _record.Experiment, bench: Workbench, name: str, query: str | int, sf: float, rounds: int) -> None:
    """The cells of a view, all measured together if one is missing: histories take turns, so that none has a warmer session than others.

    What comes before the refresh is run once, and each round goes on from a copy of its workspace.
    """
    from bench import _arrivals
    from bench._spark import WARM, folder, median
    from tempura.timeline import Timeline

    def place(workspace: Path, times: int) -> Job:
        deal = _arrivals.growing(times)
        return _arrivals.job(query, sf, deal, Timeline.refresh(), workspace, objective="latest-first")

    def measure() -> list[Figures]:
        measured: dict[int, list[Figures]] = {times: [] for times in HISTORY}
        jobs = {times: {ALL: partial(place, times=times)} for times in HISTORY}
        with folder() as where:
            _record.say(f"{name}: what comes before the refresh")
            begun = {times: bench.begin(job, where / f"{times}x") for times, job in jobs.items()}
            for n in range(WARM + rounds):
                for times in HISTORY[:: -1 if n % 2 else 1]:
                    _record.say(f"{name} {times}x, round {n + 1} of {WARM + rounds}")
                    taken = _figures(bench.turns(jobs[times], 1, warm=0, begun=begun[times]))
                    measured[times] += [taken | {"history": times}] if n >= WARM else []
        return [median(measured[times]) for times in HISTORY]

    found.together([f"{name} {times}x" for times in HISTORY], measure)


def _figures(measured: Mapping[str, Figures]) -> Figures:
    """A refresh, and recomputing, once."""
    last, batch = measured[ALL]["points"]["t2"], measured[FULL]["points"]["t2"]
    return {
        "last_cpu": last["task_cpu"],
        "batch_cpu": batch["task_cpu"],
        "last_jvm": last["jvm_cpu"],
        "batch_jvm": batch["jvm_cpu"],
        "estimated": last["estimated"],
        "rows_read": last["rows_read"],
        "bytes_read": last["bytes_read"],
        "states": last["states"],
        "right": measured[ALL]["right"],
    }


def _judge(found: _record.Experiment, name: str) -> None:
    cells = [found.cells[f"{name} {times}x"] for times in HISTORY]
    for cpu, kind in (("last_jvm", "JVM CPU"), ("last_cpu", "task CPU")):
        recomputing = cpu.replace("last", "batch")
        ratio, batch = (over(cells[-1][each], cells[0][each]) for each in (cpu, recomputing))
        told = f"{ratio:.2f}x, where recomputing grows {batch:.1f}x"
        wanted = f"at most {MOST}x" if name in LINEAR else "growth"
        met = ratio <= MOST if name in LINEAR else None
        found.expect(f"{name}, {kind}: {wanted} over {HISTORY[-1]}x history", told, met)
        beside = [cell[cpu] / cell[recomputing] for cell in cells]
        told = f"{min(beside):.2f}x to {max(beside):.2f}x"
        found.expect(f"{name}, {kind}: never above {DEAREST}x of recomputing", told, max(beside) <= DEAREST)
    wrong = [f"{cell['history']}x" for cell in cells if not cell["right"]]
    found.expect(f"{name}: every result is that of the batch query", ", ".join(wrong) or "all are", not wrong)


def _shown(cells: Mapping[str, Figures], title: str) -> Table:
    table = Table(title=title, caption="CPU seconds")
    for column in ("view", "last run: tasks", "JVM", "recomputing: tasks", "JVM", "rows read", "MB read"):
        table.add_column(column, justify="left" if column == "view" else "right", no_wrap=True)
    for name, cell in cells.items():
        cpu = [f"{cell[c]:.2f}" for c in ("last_cpu", "last_jvm", "batch_cpu", "batch_jvm")]
        table.add_row(name, *cpu, f"{cell['rows_read']:,.0f}", f"{cell['bytes_read'] / 1e6:.1f}")
    return table
