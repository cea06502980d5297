"""The dynamic program of the paper (equation 4), on a graph of alternatives.

It finds, for every node and every point, the least cost of computing it there and the least cost of having it there: computed,
loaded because somebody wrote it before, or computed at an earlier point, saved and loaded:

    best[n, τ] = min over alternatives a of n     price_τ · work_a + Σ have[i, τ] over the inputs i of a
    have[n, τ] = min(best[n, τ],  price_τ · load_n if n is written by τ,  min over τ' < τ of best[n, τ'] + price_τ' · save_n + price_τ · load_n)

The graph has cycles (Q[u] = Q[t] + ΔQ, ΔQ = Q[u] - Q[t]). Within a point the tables are filled in the order of their values, Knuth's
generalisation of Dijkstra's algorithm, so a value never rests on itself. When a node becomes loadable, `Problem.lower` carries the decrease to
the nodes above it and touches nothing else; values only fall and are only replaced by smaller ones, which keeps the recorded choices free of cycles.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import NamedTuple, TypeVar

from tempura.choose.graph import Graph
from tempura.choose.objectives import Objective, Pricing
from tempura.errors import PlanError

COMPUTED, EXISTING = -2, -1
"""Where a node comes from: computed at this point, written before the first point, or (0 and up) written at that point."""


Trail = list[tuple[int, int, float, int, float, int]]
"""What cells of the tables held before they were lowered: point, node, best, alternative, have, source."""

Pending = list[list[int]]
"""Per point: the nodes that have become cheaper to have, and whose readers do not know it yet."""

Parent = tuple[int, int, tuple[int, ...]]
"""An alternative that reads a node: its number, the node that it computes, and all that it reads."""

_Row = TypeVar("_Row", float, int)


def _copied(rows: list[list[_Row]], first: int, end: int | None) -> list[list[_Row]]:
    return [row if point < first else row.copy() for point, row in enumerate(rows[:end])]


@dataclass(slots=True)
class Tables:
    """Per point and node: the cost of computing it and by which alternative, the cost of having it and from where."""

    best: list[list[float]]
    alternative: list[list[int]]
    have: list[list[float]]
    source: list[list[int]]

    def fork(self, first: int = 0, end: int | None = None) -> Tables:
        """A copy for changes from point `first` on, without the points from `end` on; what is before `first` is common."""
        return Tables(
            _copied(self.best, first, end),
            _copied(self.alternative, first, end),
            _copied(self.have, first, end),
            _copied(self.source, first, end),
        )

    def undo(self, trail: Trail) -> None:
        """Put back what the trail remembers."""
        for point, node, best, alternative, have, source in reversed(trail):
            self.best[point][node] = best
            self.alternative[point][node] = alternative
            self.have[point][node] = have
            self.source[point][node] = source


class Slack(NamedTuple):
    """How much the cost of having a node must fall before something that is written becomes cheaper by another way."""

    rows: list[list[float]]
    """Per point and node; zero for what the plan at hand uses."""
    readers: dict[int, int]
    """Per node: how many alternatives at how many points would read it if it were cheap enough."""
    joint: int = 2
    """How many times the decrease of one node may count, because an operator may read it, or others made from it, more than once."""


class Problem:
    """A graph under a pricing, laid out for speed: alternatives are numbered, only what the results can reach is kept."""

    def __init__(self, graph: Graph, pricing: Pricing, carry: bool = True):
        """With `carry` the dynamic program may itself save a node at one point for one reader at a later one."""
        self.graph = graph
        self.points = len(graph.prices)
        self.factors = pricing.factors
        self.infinite = pricing.infinite
        self.costings = 0
        until = graph.until or [self.points] * len(graph.alternatives)
        span = list(zip(graph.available, until, strict=True))
        self.possible = [[first <= point <= last for first, last in span] for point in range(self.points)]
        """Per point and node: whether it can be computed there."""
        self.reach = _reach(graph)
        self.alternatives: list[range] = [range(0)] * len(graph.alternatives)
        """Per node: the numbers of its alternatives."""
        self.owner: list[int] = []
        self.inputs: list[tuple[int, ...]] = []
        self.parents: list[list[Parent]] = [[] for _ in graph.alternatives]
        """Per node: the alternatives that read it, once for each time they do."""
        amounts: list[float] = []
        for node in self.reach:
            start = len(self.owner)
            for alternative in graph.alternatives[node]:
                parent = (len(self.owner), node, alternative.inputs)
                for i in alternative.inputs:
                    self.parents[i].append(parent)
                self.owner.append(node)
                self.inputs.append(alternative.inputs)
                amounts.append(pricing.amount(alternative.work))
            self.alternatives[node] = range(start, len(self.owner))
        self.priced = [[w * f for w in amounts] for f in pricing.factors]
        """Per point and alternative: the priced work."""
        reached = set(self.reach)
        save = [pricing.amount(w) if n in reached else pricing.infinite for n, w in enumerate(graph.save)]
        load = [pricing.amount(w) if n in reached else pricing.infinite for n, w in enumerate(graph.load)]
        self.save = [[w * f for w in save] for f in pricing.factors]
        self.load = [[w * f for w in load] for f in pricing.factors]
        self.deliver = {
            (n, p): pricing.amount(graph.write(n, "result")) * pricing.factors[p] for n, p in graph.required
        }
        self.carries = [n for n in self.reach if carry and save[n] < pricing.infinite and load[n] < pricing.infinite]
        self.carried = [False] * len(graph.alternatives)
        for node in self.carries:
            self.carried[node] = True

    def solve(self) -> Tables:
        """The tables when nothing is written but what each reader saves for itself."""
        tables = Tables([], [], [], [])
        stored = [self.infinite] * len(self.parents)
        """The least cost of having the node in a state by now, and (`written`) from which point."""
        written = [COMPUTED] * len(self.parents)
        for point in range(self.points):
            have = [self.infinite] * len(self.parents)
            source = [COMPUTED] * len(self.parents)
            load = self.load[point]
            for node in self.carries:
                if (cost := stored[node] + load[node]) < self.infinite:
                    have[node] = cost
                    source[node] = written[node]
            for node in self.graph.existing:
                if load[node] < have[node]:
                    have[node] = load[node]
                    source[node] = EXISTING
            best, alternative = self._settle(point, have, source)
            save = self.save[point]
            for node in self.carries:
                if (cost := best[node] + save[node]) < stored[node]:
                    stored[node] = cost
                    written[node] = point
            tables.best.append(best)
            tables.alternative.append(alternative)
            tables.have.append(have)
            tables.source.append(source)
        return tables

    def _settle(self, point: int, have: list[float], source: list[int]) -> tuple[list[float], list[int]]:
        """Fill one point's tables in the order of the values; `have` holds what can be loaded, and is completed."""
        best = [self.infinite] * len(have)
        chosen = [-1] * len(have)
        owner, parents, possible = self.owner, self.parents, self.possible[point]
        costs = self.priced[point].copy()
        missing = [len(i) for i in self.inputs]
        settled = [False] * len(have)
        heap = [(cost, node) for node, cost in enumerate(have) if cost < self.infinite]
        ready = [a for a, arity in enumerate(missing) if not arity and possible[owner[a]]]
        heapify(heap)
        while ready or heap:
            if not ready:
                cost, node = heappop(heap)
                if settled[node]:
                    continue
                settled[node] = True
                for a, above, _ in parents[node]:
                    costs[a] += cost
                    missing[a] -= 1
                    if not missing[a] and possible[above]:
                        ready.append(a)
            for a in ready:
                node = owner[a]
                if (cost := costs[a]) < best[node]:
                    best[node] = cost
                    chosen[node] = a
                    if cost < have[node]:
                        have[node] = cost
                        source[node] = COMPUTED
                        heappush(heap, (cost, node))
            self.costings += len(ready)
            ready.clear()
        return best, chosen

    def lower(
        self,
        tables: Tables,
        node: int,
        written: int,
        first: int,
        trail: Trail | None = None,
        slack: Slack | None = None,
    ) -> None:
        """Let the node, written at a point, be loaded from point `first` on, and lower all that this makes cheaper.

        With a slack, a decrease is carried on only where it may matter; the tables are then upper bounds that their choices honour.
        """
        pending: Pending = [[] for _ in tables.best]
        self.offer(tables, node, written, first, pending, trail, slack)
        for point in range(first, len(pending)):
            self.spread(tables, point, pending, trail, slack)

    def offer(
        self,
        tables: Tables,
        node: int,
        written: int,
        first: int,
        pending: Pending,
        trail: Trail | None = None,
        slack: Slack | None = None,
    ) -> None:
        """Let the node be loaded from point `first` on; what that makes cheaper is pending, to be lowered by `spread`."""
        for point in range(first, len(pending)):
            cost, old = self.load[point][node], tables.have[point][node]
            if cost < old:
                if trail is not None:
                    trail.append(_cell(tables, point, node))
                tables.have[point][node] = cost
                tables.source[point][node] = written
                if slack is None or (old - cost) * slack.joint > slack.rows[point][node]:
                    pending[point].append(node)

    def spread(
        self, tables: Tables, point: int, pending: Pending, trail: Trail | None = None, slack: Slack | None = None
    ) -> None:
        """Lower all that has become cheaper at a point, cheapest first, so that hardly anything is lowered twice."""
        best, have, priced = tables.best[point], tables.have[point], self.priced[point]
        alternative, source = tables.alternative[point], tables.source[point]
        possible = self.possible[point]
        parents, carried = self.parents, self.carried
        gaps, joint = (slack.rows[point], slack.joint) if slack else (None, 1)
        heap = [(have[node], node) for node in pending[point]]
        pending[point] = []
        heapify(heap)
        last = point + 1 == len(pending)
        costings = 0
        while heap:
            value, below = heappop(heap)
            if value > have[below]:
                continue
            for a, above, inputs in parents[below]:
                if not possible[above]:
                    continue
                costings += 1
                cost = priced[a]
                for i in inputs:
                    cost += have[i]
                if cost >= best[above]:
                    continue
                old = have[above]
                if trail is not None:
                    trail.append((point, above, best[above], alternative[above], old, source[above]))
                best[above] = cost
                alternative[above] = a
                if cost < old:
                    have[above] = cost
                    source[above] = COMPUTED
                    if gaps is None or (old - cost) * joint > gaps[above]:
                        heappush(heap, (cost, above))
                if carried[above] and not last:
                    self._carry(tables, above, point, pending, trail)
        self.costings += costings

    def _carry(self, tables: Tables, node: int, point: int, pending: Pending, trail: Trail | None) -> None:
        """Let later points know that computing the node at this point, to save it, has become cheaper."""
        stored = tables.best[point][node] + self.save[point][node]
        for later in range(point + 1, len(pending)):
            if (cost := stored + self.load[later][node]) < tables.have[later][node]:
                if trail is not None:
                    trail.append(_cell(tables, later, node))
                tables.have[later][node] = cost
                tables.source[later][node] = point
                pending[later].append(node)

    def slack(self, tables: Tables, written: Mapping[tuple[int, int], float], used: Iterable[tuple[int, int]]) -> Slack:
        """How much each node must become cheaper before that matters, given what is written at which cost, and what the plan uses besides."""
        infinite, inputs = self.infinite, self.inputs
        rows = [[infinite] * len(self.parents) for _ in tables.best]
        readers: dict[int, int] = {}
        for node, point in (*written, *used):
            rows[point][node] = 0
        for point in reversed(range(len(rows))):
            row, have, best, priced = rows[point], tables.have[point], tables.best[point], self.priced[point]
            heap = [(gap, node) for node, gap in enumerate(row) if gap < infinite]
            heapify(heap)
            while heap:
                gap, node = heappop(heap)
                # What is written can be loaded, but what counts is the cost of making it.
                now = written.get((node, point), have[node])
                if gap > row[node] or gap >= now:
                    continue
                if self.carried[node]:
                    for before in range(point):
                        stored = tables.best[before][node] + self.save[before][node] + self.load[point][node]
                        rows[before][node] = min(rows[before][node], gap + stored - now)
                if best[node] >= infinite:
                    continue
                self.costings += len(self.alternatives[node])
                for a in self.alternatives[node]:
                    short = gap - now + priced[a]
                    if short >= 0:
                        continue
                    further = short
                    for i in inputs[a]:
                        further += have[i]
                    if further < 0:
                        further = 0
                    elif further >= infinite:
                        continue
                    for i in inputs[a]:
                        readers[i] = readers.get(i, 0) + 1
                        if further < row[i]:
                            row[i] = further
                            heappush(heap, (further, i))
        return Slack(rows, readers)


def _cell(tables: Tables, point: int, node: int) -> tuple[int, int, float, int, float, int]:
    return (
        point,
        node,
        tables.best[point][node],
        tables.alternative[point][node],
        tables.have[point][node],
        tables.source[point][node],
    )


def _reach(graph: Graph) -> list[int]:
    """The nodes that some derivation of a result may use, in ascending order."""
    seen = {node for node, _ in graph.required}
    todo = list(seen)
    for node in todo:  # grows while it is read
        for alternative in graph.alternatives[node]:
            for i in alternative.inputs:
                if i not in seen:
                    seen.add(i)
                    todo.append(i)
    return sorted(seen)


def without_sharing(graph: Graph, objective: Objective) -> float:
    """The least cost, as the pricing's number, when each reader pays for all that it reads except results of earlier points.

    This is the dynamic program alone; what sharing finds is measured against it.
    """
    problem = Problem(graph, objective.pricing(graph))
    tables = problem.solve()
    total = 0.0 if problem.infinite == math.inf else 0
    for node, point in sorted(graph.required, key=lambda r: (r[1], r[0])):
        if tables.have[point][node] >= problem.infinite:
            raise no_derivation(node, point)
        total += tables.have[point][node] + problem.deliver[node, point]
        problem.lower(tables, node, point, point + 1)
    return total


def no_derivation(node: int, point: int) -> PlanError:
    """The error for a result that nothing computes."""
    return PlanError(
        f"nothing computes the result (node {node}) at point {point}",
        hint="let it be due at a later point, or allow more methods",
    )
