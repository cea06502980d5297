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
from tempura.rules.methods import rules
from tempura.space import STEPS, TICKS

RECOMPUTED = frozenset({"query", "joins", "physical"})
"""Where what recomputing needs comes from."""
LAID_OUT = frozenset({TICKS.rule, STEPS.rule})
"""What the plan space says without any rule."""

AVERSION = 1e6
"""What the policy `incremental` adds to the work of recomputing where something else is possible."""
OUTLINING = 150_000
"""How many alternatives may be priced before no further part of the graph is looked at."""


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
    drawn: dict[float | tuple[float, ...], Outline] = {}
    costings = 0
    for part, true in _parts(graph, [p for p in methods.parts if p.rules]):
        found = outline(part, objective, true)
        if found is not None:
            drawn.setdefault(objective.total(graph, found.work), found)
            costings += found.costings
        if costings > OUTLINING:
            break
    # What avoids recomputing comes first: it is most unlike what the search finds from nothing.
    first, *others = drawn
    seeds = [drawn[first].seed, batch.seed, *(drawn[total].seed for total in sorted(others))]
    choice = choose(graph, objective, budget, seeds)
    return replace(choice, counters=choice.counters + batch.counters + Counters(costings=costings))


def _parts(graph: Graph, methods: Sequence[RuleSet]) -> Iterator[tuple[Graph, Graph]]:
    """What each method has alone, and the same without recomputing where that can be avoided; each with the graph whose work counts."""
    yield averse(graph), graph
    seen = {_size(graph)}
    parts: list[Graph] = []
    for method in methods if len(methods) > 1 else ():
        part = restricted(graph, RECOMPUTED, LAID_OUT | {rule.name for rule in rules(method).rules})
        if _size(part) not in seen:
            seen.add(_size(part))
            parts.append(part)
            yield part, part
    for part in parts:
        yield averse(part), part


def _size(graph: Graph) -> tuple[int, ...]:
    """How many alternatives each node has: parts of one graph that agree on it are the same, or nearly so."""
    return tuple(map(len, graph.alternatives))


def restricted(graph: Graph, methods: frozenset[str], names: frozenset[str] = frozenset()) -> Graph:
    """The graph with the alternatives that come from some methods, or from some rules, only."""
    kept = [
        [a for a in found if a.tag.source.method in methods or a.tag.source.rule in names]
        for found in graph.alternatives
    ]
    return replace(graph, alternatives=kept)


def averse(graph: Graph) -> Graph:
    """The graph in which computing a later snapshot from scratch is dear wherever a rule offers something else."""

    def weighed(found: list[Alternative]) -> list[Alternative]:
        if all(a.tag.recomputes for a in found):
            return found
        return [a._replace(work=a.work + AVERSION) if a.tag.recomputes else a for a in found]

    return replace(graph, alternatives=[weighed(found) for found in graph.alternatives])
