"""What a set of states costs: each is charged once, where it is written, and its readers pay only the load.

States and results are written in an order, point by point. Each is computed from what the dynamic program knows at its turn, and is loadable
from then on: by those after it in the same run, and by all later runs. The order is what keeps two states from being computed from each other
(Q[u] from ΔQ, and ΔQ from Q[u]); it belongs to the solution as much as the set does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from tempura.choose.derivation import Computed, Key, Loaded, Written, derive, loads, operators, same_run_reads
from tempura.choose.graph import Graph
from tempura.choose.search import COMPUTED, Pending, Problem, Slack, Tables, no_derivation


class Member(NamedTuple):
    """A node that is written at a point."""

    node: int
    point: int
    result: bool = False

    @property
    def key(self) -> Key:
        return self.node, self.point


Order = list[list[Member]]
"""Per point, what is written there, in the order of writing."""


class Draft(NamedTuple):
    """An order and its cost, before anything else is known about it."""

    order: Order
    total: float


@dataclass
class Solution:
    """An order, its cost, and what is needed to judge changes to it."""

    order: Order
    total: float
    tables: Tables
    """The tables when everything has been written."""
    problem: Problem
    costs: dict[Key, float] = field(default_factory=dict[Key, float])
    """What computing each member cost at its turn."""
    trees: dict[Key, Computed | Loaded] = field(default_factory=dict[Key, Computed | Loaded])
    carried: dict[Key, Computed | Loaded] = field(default_factory=dict[Key, Computed | Loaded])
    """What readers save for themselves, which is not (yet) a member."""
    feeds: dict[Key, set[Key]] = field(default_factory=dict[Key, set[Key]])
    """For each member, those of the same run that it is computed from, directly or not."""
    starts: list[tuple[Tables, float, Pending]] = field(default_factory=list[tuple[Tables, float, Pending]])
    """The tables and the cost so far at the beginning of each point, and what later points do not know yet."""
    turns: dict[Key, Tables] = field(default_factory=dict[Key, Tables])
    """The tables at a member's turn, where the final ones do not show what it costs: some later member is computed from it and could
    seem to make it cheaper, or it is a result that is itself loaded."""

    @cached_property
    def slack(self) -> Slack:
        """How much nodes must become cheaper before that matters to this order."""
        used: set[Key] = set()
        for tree in (*self.trees.values(), *self.carried.values()):
            for operator in operators(tree):
                used.add((operator.node, operator.point))
                used.update((i.node, i.point) for i in operator.inputs)
            used.add((tree.node, tree.point))
        return self.problem.slack(self.tables, self.costs, used)

    @cached_property
    def first(self) -> dict[int, int]:
        """For each node that is written, the first point at which it is."""
        return {m.node: m.point for at in reversed(self.order) for m in at}

    @property
    def members(self) -> list[Member]:
        return [m for members in self.order for m in members]

    def derivations(self) -> tuple[Written, ...]:
        """Everything written, in an order in which each finds what it loads."""
        out: list[Written] = []
        for point, members in enumerate(self.order):
            out += [Written(m.node, point, "result" if m.result else "state", self.trees[m.key]) for m in members]
            carried = sorted(key for key in self.carried if key[1] == point)
            out += [Written(key[0], point, "state", self.carried[key]) for key in carried]
        return tuple(out)


class Ledger:
    """Evaluates orders of states over one problem, starting from the tables in which nothing is written."""

    def __init__(self, problem: Problem):
        self.problem = problem
        self.graph: Graph = problem.graph
        self.tables = problem.solve()
        self.nothing: float = 0.0 if isinstance(problem.infinite, float) else 0
        required = dict.fromkeys(self.graph.required)
        self.required = frozenset(required)
        self.results: Order = [[] for _ in range(problem.points)]
        for node, point in sorted(required, key=lambda r: (r[1], self.tables.have[r[1]][r[0]], r[0])):
            self.results[point].append(Member(node, point, result=True))

    def write(self, member: Member) -> float:
        """The priced work of writing the member."""
        return self.problem.deliver[member.key] if member.result else self.problem.save[member.point][member.node]

    def value(self, tables: Tables, member: Member) -> float:
        """The cost of producing the member from these tables; a result may be loaded, a state must be computed."""
        row = tables.have if member.result else tables.best
        return row[member.point][member.node]

    def total(self, order: Order, since: int, solution: Solution) -> float:
        """The cost of an order that differs from a solution's from point `since` on, or infinite if it is not lower."""
        tables, total, waiting = solution.starts[since]
        tables = tables.fork(since)
        pending = [list(nodes) for nodes in waiting]
        for point in range(since, len(order)):
            self.problem.spread(tables, point, pending, slack=solution.slack)
            for member in order[point]:
                total += self.value(tables, member) + self.write(member)
                if total >= solution.total:
                    return self.problem.infinite
                self.problem.offer(tables, member.node, point, point, pending, slack=solution.slack)
                self.problem.spread(tables, point, pending, slack=solution.slack)
        return total

    def solution(self, order: Order, slack: Slack | None = None) -> Solution:
        """The order with its trees, and all else that the search for a better one asks about.

        The slack of a similar order saves work that is unlikely to matter; its cost is then still that of the trees.
        """
        tables = self.tables.fork()
        out = Solution(order, self.nothing, tables, self.problem)
        members = {m.key for at in order for m in at}
        pending: Pending = [[] for _ in order]
        for point, at in enumerate(order):
            self.problem.spread(tables, point, pending, slack=slack)
            out.starts.append((tables.fork(point), out.total, [list(nodes) for nodes in pending]))
            turns: list[tuple[Member, Tables]] = []
            for member in at:
                cost = self.value(tables, member)
                if cost >= self.problem.infinite:
                    raise no_derivation(member.node, member.point)
                out.costs[member.key] = cost
                out.total += cost + self.write(member)
                tree = derive(self.problem, tables, member.node, point, compute=not member.result)
                out.trees[member.key] = tree
                out.feeds[member.key] = self._closure(
                    out, {(i.node, point) for i in loads(tree) if i.written == point and i.node != member.node}
                )
                turns.append((member, tables.fork(point, point + 1)))
                self.problem.offer(tables, member.node, point, point, pending, slack=slack)
                self.problem.spread(tables, point, pending, slack=slack)
            for member, turn in turns:
                loaded = member.result and turn.source[point][member.node] != COMPUTED
                if loaded or tables.best[point][member.node] < out.costs[member.key]:
                    out.turns[member.key] = turn
        self._find_carried(out, members)
        return out

    def _find_carried(self, out: Solution, members: set[Key]) -> None:
        """Collect what the trees, and the trees of what they load, expect to be saved by no member."""
        todo = list(out.trees.values())
        for tree in todo:  # grows while it is read
            for i in loads(tree):
                key = (i.node, i.written)
                if i.written >= 0 and key not in members and key not in out.carried:
                    out.carried[key] = derive(self.problem, out.tables, i.node, i.written, compute=True)
                    todo.append(out.carried[key])

    def _closure(self, solution: Solution, keys: Iterable[Key]) -> set[Key]:
        """The members and all that they are computed from in the same run."""
        out: set[Key] = set()
        for key in keys:
            out.add(key)
            out |= solution.feeds[key]
        return out

    def sources(self, solution: Solution, node: int, point: int) -> set[Key]:
        """The members of the same run from which the node would now be computed, directly or not."""
        if solution.tables.best[point][node] >= self.problem.infinite:
            return set()
        return self._closure(solution, [(i, point) for i in same_run_reads(self.problem, solution.tables, node, point)])

    def inserted(self, solution: Solution, members: Sequence[Member], early: bool = False) -> Order:
        """The order with these members as well.

        A new member comes right after those that it is now computed from, so that all others may load it; with `early` it comes first in
        its run and is computed from none of them. Neither choice is always the better one.
        """
        order = [list(at) for at in solution.order]
        costs = solution.tables.best
        # The cheapest is put in last and so ends before the others, which may then be computed from it.
        for member in sorted(members, key=lambda m: (-costs[m.point][m.node], m)):
            before = set[Key]() if early else self.sources(solution, member.node, member.point)
            at = order[member.point]
            order[member.point] = [m for m in at if m.key in before] + [member] + [m for m in at if m.key not in before]
        return order

    def settled(self, order: Order, slack: Slack | None = None) -> Solution:
        """The order's solution with what readers save for themselves as members, and without members that nobody reads.

        Two readers that save the same node separately are thereby charged once; the cost never rises. The slack is that of a similar order.
        """
        solution = self.solution(order, slack)
        for _ in range(4):
            read = {(i.node, i.written) for tree in solution.trees.values() for i in loads(tree)}
            read |= {(i.node, i.written) for tree in solution.carried.values() for i in loads(tree)}
            unread = {m.key for m in solution.members if not m.result and m.key not in read}
            if not unread and not solution.carried:
                break
            fuller = self.inserted(solution, [Member(*key) for key in sorted(solution.carried)])
            better = self.solution([[m for m in at if m.key not in unread] for at in fuller], solution.slack)
            if not better.total <= solution.total:
                break
            solution = better
        return solution

    def order_of(self, seed: Iterable[Key]) -> Order:
        """An order from pairs of node and point; results are where the pairs name them, else last in their run."""
        order: Order = [[] for _ in range(self.problem.points)]
        for node, point in dict.fromkeys(seed):
            if (node, point) in self.required:
                order[point].append(Member(node, point, result=True))
            elif self.may_keep(node, point):
                order[point].append(Member(node, point))
        for at, results in zip(order, self.results, strict=True):
            at += [r for r in results if r not in at]
        return order

    def may_keep(self, node: int, point: int) -> bool:
        """Whether the node can be computed at the point and written as a state."""
        problem = self.problem
        return (
            max(self.tables.best[point][node], problem.save[point][node], problem.load[point][node]) < problem.infinite
            and node not in self.graph.existing
        )
