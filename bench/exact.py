"""How far greedy sharing is from the exact optimum, wherever that can be found.

    python -m bench exact                          # planner graphs of small queries, and random graphs
    python -m bench exact --queries q3,q42 --places 12

The exact optimum goes through every set of states in every order of writing, 2^n of them for n places (a view at a point) at which something may be
written. A planner graph has hundreds of places, so it is cut down: only the views that greedy sharing kept and those that most operators
read may be kept, and both searches see the same cut graph. What is still too large is named and left out. Random graphs are taken whole.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from bench import _planned
from bench._record import OUT, QUERIES, SF, Experiment, Figures, experiment, over, query_numbers
from tempura import Job
from tempura.choose.decide import decide
from tempura.choose.exact import optimum
from tempura.choose.graph import Alternative, Graph
from tempura.choose.objectives import LatestFirst, Objective, Weighted
from tempura.choose.search import without_sharing
from tempura.choose.share import Choice, choose
from tempura.errors import PlanError
from tempura.implement import Implementation
from tempura.optimizer import cost_model, explore, objective_of
from tempura.rules.methods import ALL
from tests.random_graphs import random_graph

SMALL = "q3,q6,q15,q37,q42,q43,q52,q55,q82,q93,q96"
EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "sales" / "job.yaml"
RESTS_ON = ("tests/random_graphs.py", "examples/sales/*")
"""They have graphs that are searched."""
RUNNING = "running example"
"""Its cell: it is always there, and alone says nothing of the queries that were asked for."""
NONE = 1e-9
"""A gap that is but rounding."""
ABOUT = 0.01
COLUMNS = ("graph", "alternatives", "places", "unshared", "greedy", "exact", "gap", "seconds")


def run(
    queries: QUERIES = SMALL,
    sf: SF = _planned.VIRTUAL,
    out: OUT = None,
    places: Annotated[int, typer.Option(help="Places to write at that remain in a planner graph.")] = 9,
    largest: Annotated[int, typer.Option(help="Alternatives above which a planner graph is left out.")] = 900,
    graphs: Annotated[int, typer.Option(help="Random graphs per objective.")] = 200,
) -> None:
    """Compare greedy sharing with the exact optimum."""
    found = experiment("exact", sf, out, places=places, largest=largest, graphs=graphs)
    numbers, kinds, objectives = query_numbers(queries), ("warehouse", "refresh"), (Weighted(), LatestFirst())
    found.total = 1 + len(numbers) * len(kinds) + len(objectives)
    found.cell(RUNNING, lambda: planner_gap(Job.load(EXAMPLE), places, largest))
    for q in numbers:
        for kind in kinds:
            job = _planned.job_of(
                q, sf, "delta-small", _planned.warehouse(2, 0.2) if kind == "warehouse" else _planned.refresh()
            )
            found.cell(f"q{q} {kind}", lambda job=job: planner_gap(job, places, largest))
    for objective in objectives:
        found.cell(f"random, {type(objective).__name__}", lambda objective=objective: random_gaps(objective, graphs))
    finish(found)


def finish(found: Experiment) -> None:
    """The table, and how often greedy sharing found the optimum."""
    planner = {key: c for key, c in found.cells.items() if "exact" in c}
    left_out = [f"{key}: {c['left_out']}" for key, c in found.cells.items() if "left_out" in c]
    optimal = sum(c["gap"] < NONE for c in planner.values())
    worst = max((c["gap"] for c in planner.values()), default=0.0)
    saved = sum(c["exact"] < c["unshared"] * (1 - NONE) for c in planner.values())
    said = f"optimal on {optimal} of {len(planner)}, worst gap {worst:.3%}; sharing saves something on {saved}, {len(left_out)} were left out"
    text = f"greedy sharing within {ABOUT:.0%} of the optimum wherever that is found, on planner graphs"
    found.expect(text, said, worst <= ABOUT if planner.keys() - {RUNNING} else None)
    for key, c in found.cells.items():
        if "graphs" in c:
            said = f"optimal on {c['optimal']} of {c['graphs']}, mean gap {c['mean']:.3%}, worst {c['worst']:.1%}; {c['too_large']} more were too large for an optimum"
            text = f"greedy sharing within {ABOUT:.0%} of the optimum on average, {key}"
            found.expect(text, said, c["mean"] <= ABOUT if c["graphs"] else None)
    rows = [
        [key, f"{c['alternatives']:,}", str(c["places"]), *(f"{c[n]:.5g}" for n in ("unshared", "greedy", "exact")), f"{c['gap']:.3%}", f"{c['seconds']:.1f}"]
        for key, c in planner.items()
    ]  # fmt: skip
    shown = _planned.table_of(
        "Greedy sharing and the exact optimum on planner graphs cut down to few places", COLUMNS, rows
    )
    shown.caption = f"left out: {'; '.join(left_out)}" if left_out else None
    found.finish(shown)


def planner_gap(job: Job, places: int, largest: int) -> Figures:
    """Greedy sharing beside the optimum on a job's graph, cut down to some places; or why it is left out."""
    explored = explore(job, ALL)
    implementation = Implementation(explored.space, cost_model("spark"))
    graph = implementation.graph(explored.required, [p.price for p in job.timeline.points])
    objective = objective_of(job)
    cut = compact(keeping(graph, decide(graph, objective, None, ALL, forced=False), places))
    alternatives = sum(map(len, cut.alternatives))
    if alternatives > largest:
        return {"left_out": f"{alternatives} alternatives"}
    started = time.perf_counter()
    try:
        exact = optimum(cut, objective, limit=places)
    except PlanError as error:
        return {"left_out": error.message}
    seconds = time.perf_counter() - started
    greedy = number(cut, decide(cut, objective, None, ALL, forced=False), objective)
    assert greedy >= exact * (1 - NONE), "nothing is better than the optimum"
    writable = (f for f, save in zip(cut.available, cut.save, strict=True) if math.isfinite(save))
    scale = _scale(cut, objective)
    return {
        "alternatives": alternatives,
        "places": len(set(cut.required)) + sum(len(cut.prices) - first for first in writable),
        "unshared": without_sharing(cut, objective) / scale,
        "greedy": greedy / scale,
        "exact": exact / scale,
        "gap": gap(cut, greedy, exact, objective),
        "seconds": seconds,
    }


def _scale(graph: Graph, objective: Objective) -> float:
    """The number that stands for one unit of work at the last point."""
    pricing = objective.pricing(graph)
    return pricing.amount(1.0) * pricing.factors[-1] if isinstance(objective, LatestFirst) else 1.0


def number(graph: Graph, choice: Choice, objective: Objective) -> float:
    """The choice's total as the pricing's number, which the exact optimum is given in."""
    pricing = objective.pricing(graph)
    return sum(pricing.amount(w) * f for w, f in zip(choice.work_by_point, pricing.factors, strict=True))


def gap(graph: Graph, greedy: float, exact: float, objective: Objective) -> float:
    """By how much of the optimum greedy sharing is above it; where points count one before the other, at the first of these at which it is."""
    if not isinstance(objective, LatestFirst):
        return max(over(greedy, exact) - 1, 0.0)
    fields = [objective.FIELD * point for point in reversed(range(len(graph.prices)))]
    each = ([int(number) >> field & ((1 << objective.FIELD) - 1) for field in fields] for number in (greedy, exact))
    above = (over(mine, least) - 1 for mine, least in zip(*each, strict=True))
    return next((by for by in above if by > NONE), 0.0)


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


def random_gaps(objective: Objective, graphs: int) -> Figures:
    """The gaps on small random graphs."""
    gaps: list[float] = []
    for seed in range(graphs):
        prices = [0.3, 1.0] if seed % 2 else None
        graph = random_graph(seed, nodes=5, points=2, prices=prices, results=1 + seed % 2, fan=2)
        try:
            exact = optimum(graph, objective, limit=9)
        except PlanError:
            continue
        gaps.append(gap(graph, number(graph, choose(graph, objective), objective), exact, objective))
    optimal = sum(g < NONE for g in gaps)
    return {
        "graphs": len(gaps),
        "too_large": graphs - len(gaps),
        "optimal": optimal,
        "mean": sum(gaps) / max(len(gaps), 1),
        "worst": max(gaps, default=0.0),
    }
