"""Exhaustive answers for small graphs: what the dynamic program and greedy sharing are measured against.

Nothing here uses the tables of `search`: `brute_force` lists every tree with every temporal assignment, `optimum` goes through all sets of states in all
orders of writing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import product

from tempura.choose.derivation import Key
from tempura.choose.graph import Graph
from tempura.choose.objectives import LastRunAtMost, Objective, Pricing
from tempura.choose.search import no_derivation
from tempura.errors import PlanError

Work = tuple[float, ...]
"""Unpriced work at each point."""


def brute_force(graph: Graph, objective: Objective) -> float | tuple[float, ...]:
    """The least total over all trees and temporal assignments, each reader paying for all that it reads.

    Of ways to have the same thing, those that cost no less than another at every point are dropped: no objective prefers them. Results of earlier points can be loaded, as in `search.without_sharing`.
    """
    sums: set[Work] = {(0.0,) * len(graph.prices)}
    for node, point in graph.required:
        ways = {
            _plus(w, _at(graph, point, graph.write(node, "result"))) for w in _ways(graph, node, point, frozenset())
        }
        if not ways:
            raise no_derivation(node, point)
        sums = _undominated(_plus(a, b) for a, b in product(sums, ways))
    if isinstance(objective, LastRunAtMost):
        sums = {s for s in sums if s[-1] <= objective.limit}
        if not sums:
            raise PlanError(f"no plan has a last run of at most {objective.limit:g}")
    return min(objective.total(graph, s) for s in sums)


def _at(graph: Graph, point: int, work: float) -> Work:
    return tuple(work if p == point else 0.0 for p in range(len(graph.prices)))


def _plus(a: Work, b: Work) -> Work:
    return tuple(x + y for x, y in zip(a, b, strict=True))


def _undominated(ways: Iterable[Work]) -> set[Work]:
    out: list[Work] = []
    for way in sorted(set(ways)):  # none is dominated by a later one
        if not any(all(a <= b for a, b in zip(other, way, strict=True)) for other in out):
            out.append(way)
    return set(out)


def _ways(graph: Graph, node: int, point: int, path: frozenset[Key]) -> set[Work]:
    """The work of every way to have the node at the point without computing anything on the path."""
    loaded = _at(graph, point, graph.load[node])
    written = any(n == node and p < point for n, p in graph.required)
    ways = {loaded} if (written or node in graph.existing) and math.isfinite(graph.load[node]) else set[Work]()
    ways |= _computed(graph, node, point, path)
    if math.isfinite(graph.save[node] + graph.load[node]):
        for earlier in range(point):
            kept = _plus(loaded, _at(graph, earlier, graph.save[node]))
            ways |= {_plus(w, kept) for w in _computed(graph, node, earlier, path)}
    return _undominated(ways)


def _computed(graph: Graph, node: int, point: int, path: frozenset[Key]) -> set[Work]:
    if (node, point) in path or graph.available[node] > point:
        return set()
    ways: set[Work] = set()
    for alternative in graph.alternatives[node]:
        sums = {_at(graph, point, alternative.work)}
        for i in alternative.inputs:
            below = _ways(graph, i, point, path | {(node, point)})
            sums = _undominated(_plus(a, b) for a, b in product(sums, below))
        ways |= sums
    return ways


def optimum(graph: Graph, objective: Objective, limit: int = 14, earliest: bool = False) -> float:
    """The least cost with sharing, as the pricing's number, over all sets of states and all orders of writing.

    A set of things written so far determines what everything costs next, so the search is over sets: 2^n of them for n places (node, point)
    where something can be written. More than `limit` places are refused. With `earliest`, states are written at their earliest point only.
    """
    if isinstance(objective, LastRunAtMost):
        raise PlanError("the exact optimum is defined for weighted and latest-first only")
    pricing = objective.pricing(graph)
    required = sorted(set(graph.required))
    places = [*required]
    for node, alternatives in enumerate(graph.alternatives):
        if alternatives and node not in graph.existing and math.isfinite(graph.save[node] + graph.load[node]):
            first = graph.available[node]
            later = range(first, first + 1 if earliest else len(graph.prices))
            places += [(node, point) for point in later if (node, point) not in required]
    if len(places) > limit:
        raise PlanError(f"{len(places)} places to write at are too many for the exact optimum", hint=f"at most {limit}")
    due = (1 << len(required)) - 1
    spent: dict[int, float] = {0: 0 if isinstance(pricing.infinite, int) else 0.0}
    least = pricing.infinite
    for mask in range(1 << len(places)):  # a set comes after all its subsets
        if mask not in spent:
            continue
        if mask & due == due:
            least = min(least, spent[mask])
        written = [place for bit, place in enumerate(places) if mask >> bit & 1]
        now = max((point for _, point in written), default=0)
        have, best = _values(graph, pricing, written)
        for bit, (node, point) in enumerate(places):
            if mask >> bit & 1 or point < now:
                continue
            result = bit < len(required)
            cost = (have if result else best)[point][node]
            cost += pricing.amount(graph.write(node, "result" if result else "state")) * pricing.factors[point]
            total = spent[mask] + cost
            if total < spent.get(mask | 1 << bit, least):
                spent[mask | 1 << bit] = total
    if least >= pricing.infinite:
        raise no_derivation(*required[0])
    return least


def _values(graph: Graph, pricing: Pricing, written: list[Key]) -> tuple[list[list[float]], list[list[float]]]:
    """The cost of having and of computing each node at each point when this is written: rounds until nothing falls."""
    nodes, points = range(len(graph.alternatives)), range(len(graph.prices))
    best = [[pricing.infinite for _ in nodes] for _ in points]
    have = [[pricing.infinite for _ in nodes] for _ in points]
    load = [[pricing.amount(graph.load[n]) * pricing.factors[p] for n in nodes] for p in points]
    for p in points:
        for n in graph.existing | {n for n, at in written if at <= p}:
            have[p][n] = min(have[p][n], load[p][n])
    falling = True
    while falling:
        falling = False
        for p, n in product(points, nodes):
            if graph.available[n] > p:
                continue
            for alternative in graph.alternatives[n]:
                cost = pricing.amount(alternative.work) * pricing.factors[p] + sum(
                    have[p][i] for i in alternative.inputs
                )
                if cost < best[p][n]:
                    best[p][n] = cost
                    have[p][n] = min(have[p][n], cost)
                    falling = True
    return have, best
