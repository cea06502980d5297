"""Deciding between methods: the plan with all of them is never dearer than with any one, nor than recomputing.

The search shares greedily, and greed stops where no single step pays: with nothing kept, recomputing looks best, and no one state alone makes it otherwise.
So the search starts from several places: what the dynamic program would keep if nothing were known but how to recompute, if recomputing were to be
avoided wherever a rule can, and if there were only one method. Each costs one run of the dynamic program; only the best are improved.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tempura.choose.derivation import work_of
from tempura.choose.search import Alternative, Graph, Objective
from tempura.choose.share import Choice, Counters, Outline, choose, outline
from tempura.rules.lang import RuleSet

RECOMPUTED = frozenset({"query", "joins", "physical"})
"""The sources of what recomputing needs."""
COMMON = RECOMPUTED | {"monotone", "intra"}
"""The sources of what every method builds on."""

AVERSION = 1e6
"""What the policy `incremental` adds to the work of recomputing where something else is possible."""
OUTLINING = 150_000
"""How many alternatives may be priced before no further part of the graph is looked at."""
PLANTED = 2
"""How many of the parts' plans, the cheapest ones, are places to start from."""


def decide(graph: Graph, objective: Objective, budget: float | None, methods: RuleSet, *, forced: bool) -> Choice:
    """The best choice on the graph, starting also from what parts of it would keep."""
    if not methods.rules:
        return choose(graph, objective, budget)
    if forced:
        eager = choose(averse(graph), objective, budget)
        work = work_of(graph, eager.derivations)
        priced = [p * w for p, w in zip(graph.prices, work, strict=True)]
        return replace(eager, total=objective.total(graph, work), by_point=priced, work_by_point=work)
    batch = choose(restricted(graph, RECOMPUTED), objective, budget)
    found = [batch.seed]
    outlines: list[Outline] = []
    costings = 0
    for part, true in _parts(graph, [p.name for p in methods.parts if p.rules]):
        drawn = outline(part, objective, true)
        if drawn is not None:
            outlines.append(drawn)
            costings += drawn.costings
        if costings > OUTLINING:
            break
    outlines.sort(key=lambda o: objective.total(graph, o.work))
    found += [o.seed for o in outlines[:PLANTED]]
    choice = choose(graph, objective, budget, list(dict.fromkeys(found)))
    return replace(choice, counters=choice.counters + batch.counters + Counters(costings=costings))


def _parts(graph: Graph, methods: Sequence[str]) -> Iterator[tuple[Graph, Graph]]:
    """What each method has alone, and the same without recomputing where that can be avoided; each with the graph whose work counts."""
    yield averse(graph), graph
    seen = {_size(graph)}
    parts: list[Graph] = []
    for method in methods if len(methods) > 1 else ():
        part = restricted(graph, COMMON | {method})
        if _size(part) not in seen:
            seen.add(_size(part))
            parts.append(part)
            yield part, part
    for part in parts:
        yield averse(part), part


def _size(graph: Graph) -> tuple[int, ...]:
    """How many alternatives each node has: parts of one graph that agree on it are the same, or nearly so."""
    return tuple(map(len, graph.alternatives))


def restricted(graph: Graph, sources: frozenset[str]) -> Graph:
    """The graph with the alternatives of some sources only."""
    kept = [[a for a in found if a.tag.source.method in sources] for found in graph.alternatives]
    return replace(graph, alternatives=kept)


def averse(graph: Graph) -> Graph:
    """The graph in which computing a later snapshot from scratch is dear wherever a rule offers something else."""

    def weighed(found: list[Alternative]) -> list[Alternative]:
        if all(a.tag.recomputes for a in found):
            return found
        return [a._replace(work=a.work + AVERSION) if a.tag.recomputes else a for a in found]

    return replace(graph, alternatives=[weighed(found) for found in graph.alternatives])
