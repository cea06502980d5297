"""Deciding between methods: the plan with all of them should not be dearer than with any one, nor than recomputing.

The search shares greedily, and greed stops where no single step pays: with nothing kept, recomputing looks best, and no one state alone makes it otherwise.
So the search goes from small graphs to large ones: first what recomputing alone would share, then what all methods build on, then each method where its
graph is moderate, and at last everything; each starts from what was found before, and from what the dynamic program would keep if recomputing were to be
avoided. What was found on a part is itself a choice on the whole. In large graphs this is how the search is led, not a proof;
`tests/test_never_dearer.py` watches it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from tempura.choose.derivation import Computed, Loaded, operators, work_of
from tempura.choose.graph import Alternative, Graph
from tempura.choose.objectives import LastRunAtMost, Objective, Weighted
from tempura.choose.share import Choice, Counters, choose, outline
from tempura.errors import PlanError
from tempura.memo.memo import Source
from tempura.rules.lang import RuleSet
from tempura.rules.methods import COMMON, rules
from tempura.space import STEPS, TICKS

RECOMPUTED = frozenset({"query", "joins", "physical"})
"""Where what recomputing needs comes from."""
LAID_OUT = frozenset({TICKS.rule, STEPS.rule})
"""What the plan space says without any rule."""

AVERSION = 1e6
"""What the policy `incremental` adds to the work of recomputing where something else is possible."""
SMALL = 700
"""Graphs of at most this many alternatives are searched also as if recomputing were to be avoided."""
MODERATE = 1500
"""Where it has at most so many, what a method would keep alone is looked for as well; beyond, planning would take too long."""


def decide(graph: Graph, objective: Objective, budget: float | None, methods: RuleSet, *, forced: bool) -> Choice:
    """The best choice on the graph, starting from what its parts would keep: recomputing, what all methods build on, and each method."""
    if not methods.rules:
        return choose(graph, objective, budget)
    if forced:
        return _forced(graph, objective, budget, [part for part in methods.parts if part.rules])
    # The limit on the last run holds for the choice, not for what it starts from.
    towards = Weighted() if isinstance(objective, LastRunAtMost) else objective
    recomputing, core = restricted(graph, RECOMPUTED), _part(graph, _names(COMMON))
    batch = choose(recomputing, towards, budget)
    if _size(core) == _size(graph):
        choice = _searched(graph, objective, budget, [batch])
        found = [(batch, recomputing)]
    else:
        plain = _searched(core, towards, budget, [batch])
        parts = [part for part in _parts(graph, methods, core) if sum(_size(part)) <= MODERATE]
        alone = [_searched(part, towards, budget, [plain], starts=1) for part in parts]
        several = sum(1 for part in methods.parts if part.rules) > 1
        choice = _searched(graph, objective, budget, [plain, *alone], starts=2 if several else 1)
        found = [(batch, recomputing), (plain, core), *zip(alone, parts, strict=True)]
    best = choice
    for other, part in found:
        if _honours(objective, other) and _cheaper(other, best):
            best = _moved(other, part, graph)
    return _counted(best, [c for c in (choice, *(c for c, _ in found)) if c is not best])


def _cheaper(one: Choice, other: Choice) -> bool:
    """Whether one total is lower at the first place where the two differ by more than rounding."""
    totals = [c.total if isinstance(c.total, tuple) else (c.total,) for c in (one, other)]
    for mine, theirs in zip(*totals, strict=True):
        if not math.isclose(mine, theirs, rel_tol=1e-9):
            return mine < theirs
    return False


def _honours(objective: Objective, choice: Choice) -> bool:
    return not isinstance(objective, LastRunAtMost) or choice.work_by_point[-1] <= objective.limit


def _moved(choice: Choice, part: Graph, graph: Graph) -> Choice:
    """A choice on a part of the graph as one on the graph: the same alternatives, by the places that they have there."""
    done: dict[int, Computed] = {}

    def moved(tree: Computed | Loaded) -> Computed | Loaded:
        if isinstance(tree, Loaded):
            return tree
        if id(tree) not in done:
            chosen = part.alternatives[tree.node][tree.alternative]
            place = next(n for n, a in enumerate(graph.alternatives[tree.node]) if a is chosen)
            done[id(tree)] = replace(tree, alternative=place, inputs=tuple(moved(i) for i in tree.inputs))
        return done[id(tree)]

    return replace(choice, derivations=tuple(replace(w, tree=moved(w.tree)) for w in choice.derivations))


def _searched(
    graph: Graph, objective: Objective, budget: float | None, found: Sequence[Choice], starts: int | None = None
) -> Choice:
    """The best choice from what was found before, and from what avoids recomputing: that is most unlike what is found from nothing."""
    towards = Weighted() if isinstance(objective, LastRunAtMost) else objective
    avoiding = averse(graph)
    eager = outline(avoiding, towards, graph)
    seeds = [c.seed for c in found]
    tried: list[Choice] = []
    if eager is not None:
        seeds.append(eager.seed)
        if sum(_size(graph)) <= SMALL:
            tried.append(choose(avoiding, towards, budget, [eager.seed], starts=1))
            seeds.append(tried[0].seed)
    choice = _counted(choose(graph, objective, budget, seeds, starts=starts), tried)
    return replace(choice, counters=choice.counters + Counters(costings=eager.costings if eager else 0))


def _counted(choice: Choice, others: Sequence[Choice]) -> Choice:
    """The choice, with the work that the others were as well."""
    return replace(choice, counters=sum((c.counters for c in others), choice.counters))


def _forced(graph: Graph, objective: Objective, budget: float | None, methods: Sequence[RuleSet]) -> Choice:
    """The cheapest choice that avoids recomputing wherever a rule can, with all methods or with one of several."""
    several = [_without(graph, LAID_OUT | _names(method)) for method in methods] if len(methods) > 1 else []
    found: list[Choice] = []
    refusal = PlanError("no plan satisfies what was asked", hint="use the policy auto, or allow more methods")
    for part in (graph, *several):
        try:
            eager = choose(averse(part), objective, budget)
            work = work_of(graph, eager.derivations)
            priced = [p * w for p, w in zip(graph.prices, work, strict=True)]
            found.append(replace(eager, total=objective.total(graph, work), by_point=priced, work_by_point=work))
        except PlanError as error:
            refusal = error if part is graph else refusal
    if not found:
        raise refusal
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


def _parts(graph: Graph, methods: RuleSet, core: Graph) -> list[Graph]:
    """What each of several methods has alone, where that is more than what all have, and not the whole graph."""
    alone = [_part(graph, _names(method)) for method in methods.parts if method.rules]
    distinct = {_size(part): part for part in alone} if len(alone) > 1 else {}
    return [part for size, part in distinct.items() if size not in (_size(core), _size(graph))]


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
