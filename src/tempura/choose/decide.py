"""Deciding between methods: the plan with all of them should never be dearer than with any one, nor than recomputing.

The search shares greedily, and greed stops where no single step pays: with nothing kept, recomputing looks best, and no one state alone makes it otherwise.
So the search starts from several places: what would be kept if nothing were known but how to recompute, if there were only one method, and, where that is
not much work, if recomputing were to be avoided wherever a rule can. All of it is bounded by counts of work, not by a clock, so a plan is the same every time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from tempura.choose.derivation import Key, operators, work_of
from tempura.choose.search import Alternative, Graph, LastRunAtMost, Objective, Weighted
from tempura.choose.share import Choice, Counters, choose
from tempura.errors import PlanError
from tempura.memo.memo import Source
from tempura.rules.lang import RuleSet
from tempura.rules.methods import rules
from tempura.space import STEPS, TICKS

RECOMPUTED = frozenset({"query", "joins", "physical"})
"""Where what recomputing needs comes from."""
LAID_OUT = frozenset({TICKS.rule, STEPS.rule})
"""What the plan space says without any rule."""

AVERSION = 1e6
"""What the policy `incremental` adds to the work of recomputing where something else is possible."""
THOROUGH = 2_600
"""Graphs of at most this many alternatives are also searched without recomputing."""
EFFORT = 200_000
"""How many alternatives may be priced before no further part of the graph is looked at."""


def decide(graph: Graph, objective: Objective, budget: float | None, methods: RuleSet, *, forced: bool) -> Choice:
    """The best choice on the graph, starting also from what parts of it would keep."""
    if not methods.rules:
        return choose(graph, objective, budget)
    several = [part for part in methods.parts if part.rules]
    if forced:
        return _forced(graph, objective, budget, several)
    # The limit on the last run holds for the choice, not for what it starts from.
    towards = Weighted() if isinstance(objective, LastRunAtMost) else objective
    starts: dict[float | tuple[float, ...], tuple[Key, ...]] = {}
    spent = Counters()
    for part, true in _parts(graph, several):
        with suppress(PlanError):
            alone = choose(part, towards, budget)
            starts.setdefault(towards.total(graph, work_of(true, alone.derivations)), alone.seed)
            spent += alone.counters
        if spent.costings > EFFORT:
            break
    choice = choose(graph, objective, budget, [starts[total] for total in sorted(starts)])
    return replace(choice, counters=choice.counters + spent)


def _forced(graph: Graph, objective: Objective, budget: float | None, methods: Sequence[RuleSet]) -> Choice:
    """The cheapest choice that avoids recomputing wherever a rule can, with all methods or with one of several."""
    several = [_without(graph, LAID_OUT | _names(method)) for method in methods] if len(methods) > 1 else []
    found: list[Choice] = []
    for part in (graph, *several):
        with suppress(PlanError):
            eager = choose(averse(part), objective, budget)
            work = work_of(graph, eager.derivations)
            priced = [p * w for p, w in zip(graph.prices, work, strict=True)]
            found.append(replace(eager, total=objective.total(graph, work), by_point=priced, work_by_point=work))
    if not found:
        raise PlanError("no plan satisfies what was asked", hint="use the policy auto, or allow more methods")
    return min(found, key=lambda choice: (not _maintains(graph, choice), not _continues(choice), choice.total))


def _continues(choice: Choice) -> bool:
    """Whether some run reads what an earlier one kept."""
    return any(load.written < load.point for written in choice.derivations for load in written.reads)


def _maintains(graph: Graph, choice: Choice) -> bool:
    """Whether the choice uses a rule at all: where a method does not apply, avoiding to recompute is in vain."""
    chosen = (graph.alternatives[o.node][o.alternative].tag for w in choice.derivations for o in operators(w.tree))
    return any(tag.source.method not in RECOMPUTED for tag in chosen)


def _without(graph: Graph, names: frozenset[str]) -> Graph:
    """The graph in which all but some rules, and whatever then cannot be computed, are out of reach; alternatives keep their places."""
    allowed = [
        [a.tag.source.method in RECOMPUTED or said_by(a.tag.source, names) for a in found]
        for found in graph.alternatives
    ]
    reached: set[int] = set(graph.existing)
    grown = True
    while grown:
        fresh = {
            node
            for node, found in enumerate(graph.alternatives)
            if node not in reached
            and any(ok and reached.issuperset(a.inputs) for a, ok in zip(found, allowed[node], strict=True))
        }
        reached |= fresh
        grown = bool(fresh)
    kept = [
        [
            a if ok and reached.issuperset(a.inputs) else a._replace(work=math.inf)
            for a, ok in zip(found, allowed[node], strict=True)
        ]
        for node, found in enumerate(graph.alternatives)
    ]
    return replace(graph, alternatives=kept)


def _parts(graph: Graph, methods: Sequence[RuleSet]) -> Iterator[tuple[Graph, Graph]]:
    """What recomputing needs, what each of several methods has alone, and where that is not much, all of it without recomputing.

    Each comes with the graph whose work counts.
    """
    batch = restricted(graph, RECOMPUTED)
    yield batch, batch
    parts = [graph]
    for method in methods if len(methods) > 1 else ():
        part = restricted(graph, RECOMPUTED, LAID_OUT | _names(method))
        if all(_size(part) != _size(other) for other in parts):
            parts.append(part)
    yield from ((part, part) for part in parts[1:])
    if sum(map(len, graph.alternatives)) <= THOROUGH:
        # The smallest first: there the search misses least.
        yield from ((averse(p), p) for p in sorted(parts, key=lambda p: sum(map(len, p.alternatives))))


def said_by(source: Source, names: frozenset[str]) -> bool:
    """Whether one of some rules says it."""
    return source.rule in names or not names.isdisjoint(source.others)


def _names(method: RuleSet) -> frozenset[str]:
    """The names of the rules that a method is explored with when it is alone."""
    return frozenset(rule.name for rule in rules(method).rules)


def _size(graph: Graph) -> tuple[int, ...]:
    """How many alternatives each node has: parts of one graph that agree on it are the same, or nearly so."""
    return tuple(map(len, graph.alternatives))


def restricted(graph: Graph, methods: frozenset[str], names: frozenset[str] = frozenset()) -> Graph:
    """The graph with the alternatives that come from some methods, or from some rules, only."""
    kept = [
        [a for a in found if a.tag.source.method in methods or said_by(a.tag.source, names)]
        for found in graph.alternatives
    ]
    return replace(graph, alternatives=kept)


def averse(graph: Graph) -> Graph:
    """The graph in which computing a later snapshot from scratch is dear wherever a rule offers something else."""

    def weighed(found: list[Alternative]) -> list[Alternative]:
        if all(a.tag.recomputes or math.isinf(a.work) for a in found):
            return found
        return [a._replace(work=a.work + AVERSION) if a.tag.recomputes else a for a in found]

    return replace(graph, alternatives=[weighed(found) for found in graph.alternatives])
