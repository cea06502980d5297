"""How far greedy sharing is from the exact optimum, wherever that can be found.

    python -m bench exact                          # planner graphs of small queries, and random graphs
    python -m bench exact --queries q3,q42 --places 12

The exact optimum goes through every set of states in every order of writing, 2^n of them for n places (a view at a point) at which something may be
written. A planner graph has hundreds of places, so it is cut down: only the views that greedy sharing kept and those that most operators
read may be kept, and both searches see the same cut graph. What is still too large is named and left out. Random graphs are taken whole.
"""

from __future__ import annotations

import math
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from rich.console import Console
from rich.table import Table

from bench import tpcds
from tempura import Job, Timeline
from tempura.choose.decide import decide
from tempura.choose.exact import optimum
from tempura.choose.search import Alternative, Graph, LatestFirst, Objective, Weighted, without_sharing
from tempura.choose.share import Choice, choose
from tempura.errors import PlanError
from tempura.implement import Implementation
from tempura.optimizer import cost_model, explore, objective_of
from tempura.rules.methods import ALL
from tests.random_graphs import random_graph

SMALL = "q3,q6,q15,q37,q42,q43,q52,q55,q82,q93,q96"
EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "sales" / "job.yaml"


class Gap(NamedTuple):
    """Greedy sharing on one graph beside the exact optimum."""

    name: str
    alternatives: int
    places: int
    unshared: float
    greedy: float
    exact: float
    seconds: float

    @property
    def share(self) -> float:
        return max(self.greedy / self.exact - 1, 0.0) if self.exact else 0.0


def run(
    queries: Annotated[str, typer.Option(help="TPC-DS queries, such as q3,q42.")] = SMALL,
    places: Annotated[int, typer.Option(help="Places to write at that remain in a planner graph.")] = 9,
    largest: Annotated[int, typer.Option(help="Alternatives above which a planner graph is left out.")] = 900,
    graphs: Annotated[int, typer.Option(help="Random graphs per objective.")] = 200,
) -> None:
    """Compare greedy sharing with the exact optimum."""
    console = Console(width=None if sys.stdout.isatty() else 140)
    console.width = max(console.width, 100)
    gaps: list[Gap] = []
    skipped: list[str] = []
    jobs = [("running example", Job.load(EXAMPLE))]
    jobs += [(f"{q} {kind}", tpcds_job(q, kind)) for q in queries.split(",") if q for kind in ("warehouse", "refresh")]
    for name, job in jobs:
        found = planner_gap(name, job, places, largest)
        if isinstance(found, Gap):
            gaps.append(found)
        else:
            skipped.append(found)
    console.print(table(gaps))
    for line in skipped:
        console.print(f"left out: {line}")
    for objective in (Weighted(), LatestFirst()):
        console.print(random_line(objective, graphs))


def tpcds_job(query: str, kind: str) -> Job:
    """A query at two points under statistics of scale factor 1000."""
    timeline = Timeline.warehouse([0.2, 1.0]) if kind == "warehouse" else Timeline.refresh(["t1", "t2"])
    return Job(
        name=query,
        query=tpcds.queries()[int(query.strip().lower().lstrip("q"))],
        catalog=tpcds.catalog(0.01, "delta-small", timeline, virtual=True),
        timeline=timeline,
        objective="weighted" if kind == "warehouse" else "latest-first",
    )


def planner_gap(name: str, job: Job, places: int, largest: int) -> Gap | str:
    """The gap on a job's graph, cut down to some places; or why it is left out."""
    explored = explore(job, ALL)
    implementation = Implementation(explored.space, cost_model("spark"))
    graph = implementation.graph(explored.required, [p.price for p in job.timeline.points])
    objective = objective_of(job)
    cut = compact(keeping(graph, decide(graph, objective, None, ALL, forced=False), places))
    alternatives = sum(map(len, cut.alternatives))
    if alternatives > largest:
        return f"{name}, whose graph has {alternatives} alternatives"
    started = time.perf_counter()
    try:
        exact = optimum(cut, objective, limit=places)
    except PlanError as error:
        return f"{name}: {error}"
    seconds = time.perf_counter() - started
    greedy = decide(cut, objective, None, ALL, forced=False)
    unshared = without_sharing(cut, objective)
    used = len(set(cut.required)) + sum(
        len(cut.prices) - first for first, save in zip(cut.available, cut.save, strict=True) if math.isfinite(save)
    )
    scale = _scale(cut, objective)
    return Gap(
        name, alternatives, used, unshared / scale, number(cut, greedy, objective) / scale, exact / scale, seconds
    )


def _scale(graph: Graph, objective: Objective) -> float:
    """The number that stands for one unit of work at the last point."""
    pricing = objective.pricing(graph)
    return pricing.amount(1.0) * pricing.factors[-1] if isinstance(objective, LatestFirst) else 1.0


def number(graph: Graph, choice: Choice, objective: Objective) -> float:
    """The choice's total as the pricing's number, which the exact optimum is given in."""
    pricing = objective.pricing(graph)
    return sum(pricing.amount(w) * f for w, f in zip(choice.work_by_point, pricing.factors, strict=True))


def keeping(graph: Graph, choice: Choice, places: int) -> Graph:
    """The graph in which only what the choice keeps, and then what most operators read, may be kept, as far as the places go."""
    readers = [0] * len(graph.alternatives)
    for alternatives in graph.alternatives:
        for alternative in alternatives:
            for i in set(alternative.inputs):
                readers[i] += 1
    chosen = [w.node for w in choice.derivations if w.kind == "state"]
    by_readers = sorted(range(len(readers)), key=lambda n: (-readers[n], n))
    left = places - len(set(graph.required))
    kept: set[int] = set()
    for node in dict.fromkeys((*chosen, *by_readers)):
        needs = len(graph.prices) - graph.available[node]
        if math.isfinite(graph.save[node] + graph.load[node]) and needs <= left:
            kept.add(node)
            left -= needs
    return replace(graph, save=[s if n in kept else math.inf for n, s in enumerate(graph.save)])


def compact(graph: Graph) -> Graph:
    """The graph without what no result can use, numbered anew."""
    numbers: dict[int, int] = {}
    todo = [node for node, _ in graph.required]
    for node in todo:  # grows while it is read
        if node not in numbers:
            numbers[node] = len(numbers)
            todo += [i for a in graph.alternatives[node] for i in a.inputs]
    old = list(numbers)

    def renumbered(a: Alternative) -> Alternative:
        return a._replace(inputs=tuple(numbers[i] for i in a.inputs))

    return replace(
        graph,
        alternatives=[[renumbered(a) for a in graph.alternatives[n]] for n in old],
        available=[graph.available[n] for n in old],
        save=[graph.save[n] for n in old],
        load=[graph.load[n] for n in old],
        size=[graph.size[n] for n in old],
        required=[(numbers[n], point) for n, point in graph.required],
        deliver={numbers[n]: work for n, work in graph.deliver.items() if n in numbers},
        existing=frozenset(numbers[n] for n in graph.existing if n in numbers),
        groups=[tuple(numbers[n] for n in group) for group in graph.groups if all(n in numbers for n in group)],
    )


def table(gaps: list[Gap]) -> Table:
    shown = Table(title="Greedy sharing and the exact optimum on planner graphs cut down to few places")
    shown.add_column("graph", no_wrap=True)
    for column in ("alternatives", "places", "unshared", "greedy", "exact", "gap", "seconds"):
        shown.add_column(column, justify="right", no_wrap=True)
    for g in gaps:
        numbers = (f"{g.unshared:.5g}", f"{g.greedy:.5g}", f"{g.exact:.5g}", f"{g.share:.3%}", f"{g.seconds:.1f}")
        shown.add_row(g.name, str(g.alternatives), str(g.places), *numbers)
    worst = max((g.share for g in gaps), default=0.0)
    shown.caption = f"{sum(g.share < 1e-9 for g in gaps)} of {len(gaps)} optimal, worst gap {worst:.3%}"
    return shown


def random_line(objective: Objective, graphs: int) -> str:
    """The gaps on small random graphs, in one line."""
    gaps: list[float] = []
    for seed in range(graphs):
        prices = [0.3, 1.0] if seed % 2 else None
        graph = random_graph(seed, nodes=5, points=2, prices=prices, results=1 + seed % 2, fan=2)
        try:
            exact = optimum(graph, objective, limit=9)
        except PlanError:
            continue
        gaps.append(float(number(graph, choose(graph, objective), objective) / exact - 1))
    optimal, mean = sum(g < 1e-9 for g in gaps), sum(gaps) / max(len(gaps), 1)
    return f"random graphs, {type(objective).__name__}: {optimal} of {len(gaps)} optimal, mean gap {mean:.3%}, worst {max(gaps, default=0.0):.1%}"
