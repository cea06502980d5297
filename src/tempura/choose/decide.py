"""Deciding between methods: the plan with all of them is never dearer than with any one, nor than recomputing.

The search shares greedily, and greed stops where no single step pays: with nothing kept, recomputing looks best, and no one state alone makes it otherwise.
So the search starts from several places: what the dynamic program would keep if nothing were known but how to recompute, if recomputing were to be
avoided wherever a rule can, and if there were only one method. Each costs one run of the dynamic program; only the best are improved.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from tempura.choose.derivation import Key, operators, work_of
from tempura.choose.search import Alternative, Graph, LastRunAtMost, Objective, Weighted
from tempura.choose.share import Choice, Counters, Outline, choose, outline
from tempura.errors import PlanError
from tempura.rules.lang import RuleSet
from tempura.rules.methods import rules
from tempura.space import FEW, STEPS, TICKS

RECOMPUTED = frozenset({"query", "joins", "physical"})
"""Where what recomputing needs comes from."""
LAID_OUT = frozenset({TICKS.rule, STEPS.rule})
"""What the plan space says without any rule."""

AVERSION = 1e6
"""What the policy `incremental` adds to the work of recomputing where something else is possible."""
THOROUGH = 2_500
"""Graphs of at most this many alternatives are searched from every extreme."""
OUTLINING = 60_000
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
    seeds: list[tuple[Key, ...]] = []
    spent = Counters()
    if sum(map(len, graph.alternatives)) <= THOROUGH:
        # Small graphs are searched from every extreme; on larger ones the dynamic program alone draws them (`_searched`).
        for part, _ in _parts(graph, several):
            with suppress(PlanError):
                seeds.append(choose(part, towards, budget).seed)
    if len(several) > 1 and len(graph.prices) <= FEW:
        # What all methods have is the smallest graph in which anything is maintained, and searched most thoroughly.
        common = _names(several[0])
        for method in several[1:]:
            common &= _names(method)
        core = _part(graph, common)
        if _size(core) != _size(graph):
            choice = _searched(core, towards, budget, ())
            seeds.append(choice.seed)
            spent += choice.counters
    choice = _searched(graph, objective, budget, several, seeds)
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
        [a.tag.source.method in RECOMPUTED or a.tag.source.rule in names for a in found] for found in graph.alternatives
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


def _searched(
    graph: Graph,
    objective: Objective,
    budget: float | None,
    methods: Sequence[RuleSet],
    seeds: Sequence[tuple[Key, ...]] = (),
) -> Choice:
    """The best choice from the seeds, from recomputing, from avoiding that, and from what each of several methods would keep alone."""
    towards = Weighted() if isinstance(objective, LastRunAtMost) else objective
    batch = choose(restricted(graph, RECOMPUTED), towards, budget)
    drawn: dict[float | tuple[float, ...], Outline] = {}
    costings = 0
    for part, true in _parts(graph, methods):
        found = outline(part, towards, true)
        if found is not None:
            drawn.setdefault(towards.total(graph, found.work), found)
            costings += found.costings
        if costings > OUTLINING:
            break
    # What avoids recomputing comes first: it is most unlike what the search finds from nothing.
    first, *others = drawn
    rest = [drawn[total].seed for total in sorted(others)]
    choice = choose(graph, objective, budget, [drawn[first].seed, *seeds, batch.seed, *rest])
    return replace(choice, counters=choice.counters + batch.counters + Counters(costings=costings))


def _parts(graph: Graph, methods: Sequence[RuleSet]) -> Iterator[tuple[Graph, Graph]]:
    """The graph without recomputing where that can be avoided; what each of several methods has alone; and that without recomputing.

    Each comes with the graph whose work counts.
    """
    yield averse(graph), graph
    seen = {_size(graph)}
    parts: list[Graph] = []
    for method in methods if len(methods) > 1 else ():
        part = _part(graph, _names(method))
        if _size(part) not in seen:
            seen.add(_size(part))
            parts.append(part)
            yield part, part
    for part in parts:
        yield averse(part), part


def _names(method: RuleSet) -> frozenset[str]:
    """The names of the rules that a method is explored with when it is alone."""
    return frozenset(rule.name for rule in rules(method).rules)


def _part(graph: Graph, names: frozenset[str]) -> Graph:
    return restricted(graph, RECOMPUTED, LAID_OUT | names)


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
        if all(a.tag.recomputes or math.isinf(a.work) for a in found):
            return found
        return [a._replace(work=a.work + AVERSION) if a.tag.recomputes else a for a in found]

    return replace(graph, alternatives=[weighed(found) for found in graph.alternatives])
