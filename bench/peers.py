"""Side by side with what one would pick instead: seven views, brought up to date with a fifth more rows, by Tempura and by others.

Recomputing with Spark and Structured Streaming run in the same warm session and take turns with Tempura; Flink, Pathway and pg_ivm run in processes of their own if it is
said where they are. CPU is that of all processes that take part: Java's, Python's and Node's. Each result is compared with that of the batch query. A system that does not
take a view says why. These others keep the view in memory and write nothing, read CSV, begin anew in each round, where the first four fifths of the rows warm them up, and tell each change of
the view to a Python or Node process that compares it; Spark and Tempura read Parquet and write the view as such.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from bench import _record
from bench._record import OUT, ROUNDS, SF, Figures

if TYPE_CHECKING:
    from bench._peers.views import View
    from bench._spark import Workbench

MISSING = {
    "flink": "not installed: `pip install apache-flink` into an environment of its own, then --flink-python PATH/bin/python",
    "pathway": "not installed: `pip install pathway[sql]` into an environment of its own, then --pathway-python PATH/bin/python",
    "pg_ivm": "not installed: `npm install @electric-sql/pglite @electric-sql/pglite-pg_ivm` in a folder of its own, then --pg-ivm FOLDER",
}
"""Why a system is not among those compared."""


def run(
    sf: SF = 1.0,
    views: Annotated[str, typer.Option("--queries", "--views", help="Names of views; all by default.")] = "",
    rounds: ROUNDS = 2,
    flink_python: Annotated[Path | None, typer.Option(help="A Python that has apache-flink.")] = None,
    pathway_python: Annotated[Path | None, typer.Option(help="A Python that has pathway[sql].")] = None,
    pg_ivm: Annotated[Path | None, typer.Option(help="A folder with @electric-sql/pglite-pg_ivm; needs node.")] = None,
    out: OUT = None,
) -> None:
    """Seven views by Tempura, recomputing, Structured Streaming and, if they are there, others."""
    from bench._peers import sparks
    from bench._peers.others import OTHERS
    from bench._peers.views import VIEWS
    from bench._spark import WARM, Workbench

    found = _record.experiment("peers", sf, out, rounds=rounds, warm=WARM)
    bench = Workbench()
    wanted = _record.names_of(views, [view.name for view in VIEWS])
    chosen = [view for view in VIEWS if view.name in wanted]
    places = {"flink": flink_python, "pathway": pathway_python, "pg_ivm": pg_ivm}
    others = {name: OTHERS[name](place) for name, place in places.items() if place}
    systems = [*sparks.SYSTEMS, *others]
    found.total = len(chosen) * len(systems)
    for view in chosen:
        _in_session(found, bench, view, sf, rounds)
        for name, peer in others.items():
            key = f"{view.name} {name}"
            if key in found.earlier and found.earlier[key]["figures"]["version"] != peer.version:
                del found.earlier[key]
            found.cell(key, partial(peer.refreshed, view, sf, rounds))
    _judge(found, [view.name for view in chosen], systems)
    for name, peer in others.items():
        versions = dict.fromkeys(found.cells[f"{view.name} {name}"]["version"] for view in chosen)
        found.expect(f"version of {peer.name}", ", ".join(versions), None)
    for system, why in MISSING.items():
        if system not in systems:
            found.expect(f"{system} beside them", why, None)
    found.finish(_shown(found.cells, chosen, systems, sf, rounds))


def _in_session(found: _record.Experiment, bench: Workbench, view: View, sf: float, rounds: int) -> None:
    """The cells of a view in Spark's session, all measured together if one is missing: they take turns."""
    from bench._peers import sparks
    from bench._spark import WARM, median

    def measure() -> list[Figures]:
        every: list[dict[str, Figures]] = []
        for n in range(WARM + rounds):
            _record.say(f"{view.name}, round {n + 1} of {WARM + rounds}")
            every.append(sparks.round_of(bench.gauge, view, sf, backwards=n % 2 > 0))
        return [median([each[system] for each in every[WARM:]]) for system in sparks.SYSTEMS]

    found.together([f"{view.name} {system}" for system in sparks.SYSTEMS], measure)


def _judge(found: _record.Experiment, views: Sequence[str], systems: Sequence[str]) -> None:
    cells = found.cells
    for system in systems:
        mine = {view: cells[f"{view} {system}"] for view in views}
        taken = [view for view, cell in mine.items() if not cell["refused"]]
        wrong = [view for view in taken if not mine[view]["right"]]
        told = f"{len(taken)} of {len(views)}" + (f", WRONG: {', '.join(wrong)}" if wrong else ", all right")
        otherwise = [view for view in taken if mine[view].get("note")]
        told += f"; {len(otherwise)} of them not as this SQL" if otherwise else ""
        expected = len(taken) == len(views) and not wrong if system == "tempura" else None
        found.expect(f"{system} takes every view and is right", told, expected)
        right = [view for view in taken if view not in wrong]
        if system != "tempura" and right:
            ratios = {v: cells[f"{v} tempura"]["cpu"] / mine[v]["cpu"] for v in right}
            told = ", ".join(f"{view} {ratio:.2f}" for view, ratio in ratios.items())
            found.expect(f"Tempura's CPU over {system}'s", told, None)


def _shown(
    cells: Mapping[str, Figures], views: Sequence[View], systems: Sequence[str], sf: float, rounds: int
) -> Table:
    table = Table(
        title=f"Bringing views up to date, TPC-DS at scale factor {sf:g}, {rounds} rounds: CPU seconds (on the clock)",
        caption="\n".join(dict.fromkeys(_remarks(cells))),
    )
    for column in ("view", *systems):
        table.add_column(column, justify="left" if column == "view" else "right")
    for view in views:
        table.add_row(view.name, *(_told(cells[f"{view.name} {system}"]) for system in systems))
    return table


def _remarks(cells: Mapping[str, Figures]) -> Iterator[str]:
    """Why systems refuse, and how else they were asked."""
    for key, cell in cells.items():
        system = key.rsplit(" ", 1)[1]
        if cell["refused"]:
            yield f"{system} refused: {cell['refused']}"
        elif cell.get("note"):
            yield f"{system}: {cell['note']}"


def _told(cell: Figures) -> str:
    if cell["refused"]:
        return "refused"
    return f"{cell['cpu']:.2f} ({cell['seconds']:.2f})" + ("" if cell["right"] else " WRONG")
