"""Deciding between methods: the plan with all of them should not be dearer than with any one, nor than recomputing.

The search shares greedily, and greed stops where no single step pays: with nothing kept, recomputing looks best, and no one state alone makes it otherwise.
So the search starts from several places: what the dynamic program would keep if nothing were known but how to recompute, if recomputing were to be
avoided wherever a rule can, and if there were only one method. Each costs one run of the dynamic program; only the best are
improved. Effort is bounded by counts, so this is how the search is led, not a proof; `tests/test_never_dearer.py` watches it.
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
from tempura.memo.memo import Source
from tempura.rules.lang import RuleSet
from tempura.rules.methods import rules
from tempura.space import FEW, STEPS, TICKS

RECOMPUTED = frozenset({"query", "joins", "physical"})
"""Where what recomputing needs comes from."""
LAID_OUT = frozenset({TICKS.rule, STEPS.rule})
"""What the plan space says without any rule."""

AVERSION = 1e6
"""What the policy `incremental` adds to the work of recomputing where something else is possible."""
THOROUGH = 700
"""Graphs of at most this many alternatives are searched also without recomputing, and parts of that size by themselves."""
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
    alone: list[Choice] = []
    if len(several) > 1:
        parts = list(_parts(graph, several))
        alone += [_alone(part, towards, budget) for part in parts if sum(_size(part)) <= THOROUGH]
        # What all methods have is the smallest graph in which anything is maintained, and searched whatever its size.
        common = _names(several[0]).intersection(*map(_names, several[1:]))
        core = _part(graph, common)
        if len(graph.prices) <= FEW and THOROUGH < sum(_size(core)) < sum(_size(graph)):
            alone.append(_searched(core, towards, budget, ()))
    seeds = [choice.seed for choice in sorted(alone, key=lambda c: c.total)]
    choice = _alone(graph, objective, budget, several, seeds)
    return replace(choice, counters=sum((c.counters for c in alone), choice.counters))


def _alone(
    graph: Graph,
    objective: Objective,
    budget: float | None,
    methods: Sequence[RuleSet] = (),
    seeds: Sequence[tuple[Key, ...]] = (),
) -> Choice:
    """The best choice on the graph; where it is small, from what a search that avoids recomputing would keep as well."""
    if sum(_size(graph)) > THOROUGH:
        return _searched(graph, objective, budget, methods, seeds)
    towards = Weighted() if isinstance(objective, LastRunAtMost) else objective
    eager = choose(averse(graph), towards, budget)
    choice = _searched(graph, objective, budget, methods, [eager.seed, *seeds])
    return replace(choice, counters=choice.counters + eager.counters)


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
    for part, true in _extremes(graph, methods):
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


def _parts(graph: Graph, methods: Sequence[RuleSet]) -> Iterator[Graph]:
    """What each method has alone, where that is not what the graph or another method has."""
    seen = {_size(graph)}
    for method in methods:
        part = _part(graph, _names(method))
        if _size(part) not in seen and any(part.alternatives[node] for node, _ in graph.required):
            seen.add(_size(part))
            yield part


def _extremes(graph: Graph, methods: Sequence[RuleSet]) -> Iterator[tuple[Graph, Graph]]:
    """The graph without recomputing where that can be avoided; what each of several methods has alone; and that without recomputing.

    Each comes with the graph whose work counts.
    """
    yield averse(graph), graph
    parts = list(_parts(graph, methods)) if len(methods) > 1 else []
    yield from zip(parts, parts, strict=True)
    yield from ((averse(part), part) for part in parts)


def said_by(source: Source, names: frozenset[str]) -> bool:
    """Whether one of some rules says it."""
    return source.rule in names or not names.isdisjoint(source.others)


def _names(method: RuleSet) -> frozenset[str]:
    """The names of the rules that a method is explored with when it is alone."""
    return frozenset(rule.name for rule in rules(method).rules)


def _part(graph: Graph, names: frozenset[str]) -> Graph:
    """What recomputing and some rules give, without what then cannot be computed or no result can use."""
    return _trimmed(restricted(graph, RECOMPUTED, LAID_OUT | names))


def _trimmed(graph: Graph) -> Graph:
    """The graph without alternatives that lack an input, and without nodes that no result can use."""
    missing = [[len(set(a.inputs)) for a in found] for found in graph.alternatives]
    readers: dict[int, list[tuple[int, int]]] = {}
    for node, found in enumerate(graph.alternatives):
        for n, alternative in enumerate(found):
            for i in set(alternative.inputs):
                readers.setdefault(i, []).append((node, n))
    known = set(graph.existing) | {node for node, found in enumerate(missing) if 0 in found}
    todo = list(known)
    for node in todo:  # grows while it is read
        for reader, n in readers.get(node, ()):
            missing[reader][n] -= 1
            if not missing[reader][n] and reader not in known:
                known.add(reader)
                todo.append(reader)
    kept: list[list[Alternative]] = [[] for _ in graph.alternatives]
    todo = list(dict.fromkeys(node for node, _ in graph.required))
    used = set(todo)
    for node in todo:  # grows while it is read
        kept[node] = [a for a, lacking in zip(graph.alternatives[node], missing[node], strict=True) if not lacking]
        fresh = dict.fromkeys(i for a in kept[node] for i in a.inputs if i not in used)
        used.update(fresh)
        todo += fresh
    return replace(graph, alternatives=kept)


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
