"""Deciding between methods: the plan with all of them is never dearer than with any one, nor than recomputing.

The search shares greedily, and greed stops where no single step pays: with nothing kept, recomputing looks best, and no one state alone makes it otherwise.
So two extremes are searched first, recomputing everything and avoiding it wherever a rule can, and what they would keep is where the search proper may start.
"""

from __future__ import annotations

from dataclasses import replace

from tempura.choose.derivation import work_of
from tempura.choose.search import Alternative, Graph, LastRunAtMost, Objective, Weighted
from tempura.choose.share import Choice, choose
from tempura.rules.lang import RuleSet

RECOMPUTED = frozenset({"query", "joins", "physical"})
"""The sources of what recomputing needs."""

AVERSION = 1e6
"""What the policy `incremental` adds to the work of recomputing where something else is possible."""


def decide(graph: Graph, objective: Objective, budget: float | None, methods: RuleSet, *, forced: bool) -> Choice:
    """The best choice on the graph, starting also from what recomputing and what avoiding it would keep."""
    if not methods.rules:
        return choose(graph, objective, budget)
    # The limit on the last run holds for the choice, not for the extremes it starts from.
    towards = Weighted() if isinstance(objective, LastRunAtMost) and not forced else objective
    eager = choose(averse(graph), towards, budget)
    if forced:
        work = work_of(graph, eager.derivations)
        priced = [p * w for p, w in zip(graph.prices, work, strict=True)]
        return replace(eager, total=objective.total(graph, work), by_point=priced, work_by_point=work)
    batch = choose(restricted(graph, RECOMPUTED), towards, budget)
    choice = choose(graph, objective, budget, seeds=[batch.seed, eager.seed])
    return replace(choice, counters=choice.counters + eager.counters + batch.counters)


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
