"""Side by side with what one would pick instead: seven views, brought up to date with a fifth more rows, by Tempura and by others.

Recomputing with Spark and Structured Streaming run in the same warm session and take turns with Tempura; Flink runs in a process of its own if a Python that has it is
named. CPU is that of all processes that take part: Java's and Python's. Each result is compared with that of the batch query. A system that does not
take a view says why.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from bench import _record
from bench._record import OUT, SF, Figures

if TYPE_CHECKING:
    from bench._peers.views import View
    from bench._spark import Workbench

MISSING = {
    "flink": "not installed: `pip install apache-flink` into an environment of its own, then --flink-python PATH/bin/python",
    "pathway": "not run: its SQL takes no columns with NULLs, and all of these tables have some (0.33 was tried)",
    "pg_ivm": "not run: its package for Node (`npm install @electric-sql/pglite-pg_ivm`) has no runner here",
}
"""Why a system is not among those compared."""


def run(
    sf: SF = 1.0,
    views: Annotated[str, typer.Option(help="Names of views; all by default.")] = "",
    rounds: Annotated[int, typer.Option(help="How often each is measured, after one round to warm up.")] = 2,
    flink_python: Annotated[Path | None, typer.Option(help="A Python that has apache-flink.")] = None,
    out: OUT = None,
) -> None:
    """Seven views by Tempura, recomputing, Structured Streaming and, if they are there, others."""
    from bench._peers import flink, sparks
    from bench._peers.views import VIEWS
    from bench._spark import Workbench

    found = _record.experiment("peers", sf, out, rounds=rounds)
    bench = Workbench()
    chosen = [view for view in VIEWS if not views or view.name in views.split(",")]
    systems = [*sparks.SYSTEMS, *(["flink"] if flink_python else [])]
    for view in chosen:
        _in_session(found, bench, view, sf, rounds)
        if flink_python:
            found.cell(f"{view.name} flink", partial(flink.refreshed, flink_python, view, sf, rounds))
    _judge(found, [view.name for view in chosen], systems)
    for system, why in MISSING.items():
        if system not in systems:
            found.expect(f"{system} beside them", why, None)
    found.finish(_shown(found.cells, chosen, systems, sf, rounds))


def _in_session(found: _record.Experiment, bench: Workbench, view: View, sf: float, rounds: int) -> None:
    """The cells of a view in Spark's session, all measured together if one is missing: they take turns."""
    from bench._peers import sparks
    from bench._spark import median

    measured: list[dict[str, Figures]] = []

    def figures(system: str) -> Figures:
        if not measured:
            measured.extend([sparks.round_of(bench.gauge, view, sf) for _ in range(rounds + 1)][1:])
        return median([each[system] for each in measured])

    for system in sparks.SYSTEMS:
        found.cell(f"{view.name} {system}", partial(figures, system))


def _judge(found: _record.Experiment, views: Sequence[str], systems: Sequence[str]) -> None:
    cells = found.cells
    for system in systems:
        mine = {view: cells[f"{view} {system}"] for view in views}
        taken = [view for view, cell in mine.items() if not cell["refused"]]
        wrong = [view for view in taken if not mine[view]["right"]]
        told = f"{len(taken)} of {len(views)}" + (f", WRONG: {', '.join(wrong)}" if wrong else ", all right")
        expected = len(taken) == len(views) and not wrong if system == "tempura" else None
        found.expect(f"{system} takes every view and is right", told, expected)
        if system != "tempura" and taken:
            ratios = {v: cells[f"{v} tempura"]["cpu"] / mine[v]["cpu"] for v in taken}
            told = ", ".join(f"{view} {ratio:.2f}" for view, ratio in ratios.items())
            found.expect(f"Tempura's CPU over {system}'s", told, None)


def _shown(
    cells: Mapping[str, Figures], views: Sequence[View], systems: Sequence[str], sf: float, rounds: int
) -> Table:
    refusals = dict.fromkeys(cell["refused"] for cell in cells.values() if cell["refused"])
    table = Table(
        title=f"Bringing views up to date, TPC-DS at scale factor {sf:g}, {rounds} rounds: CPU seconds (on the clock)",
        caption="\n".join(f"refused: {text}" for text in refusals),
    )
    for column in ("view", *systems):
        table.add_column(column, justify="left" if column == "view" else "right")
    for view in views:
        table.add_row(view.name, *(_told(cells[f"{view.name} {system}"]) for system in systems))
    return table


def _told(cell: Figures) -> str:
    if cell["refused"]:
        return "refused"
    return f"{cell['cpu']:.2f} ({cell['seconds']:.2f})" + ("" if cell["right"] else " WRONG")
