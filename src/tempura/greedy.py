"""Greedy sharing, as in the paper (Algorithm 1): add the states that lower the cost most, while one does.

It starts with what the dynamic program saves anyway. A candidate is a node at its earliest point (Theorem 2: enough when the price of work rises
from point to point), or at every point where the theorem does not hold; or a *group*, the nodes that one incremental operator needs together:
each alone may gain nothing. Theorem 2 takes all alternatives of a node to be possible from its earliest point on; where the plan at hand
computes a node later, that point is tried too.

Gains are estimated by lowering the tables in place and undoing it, kept in a heap, and estimated again only when they reach its top. Since gains
may also rise as states are added (complements), candidates without gain are looked at again after each acceptance. What is accepted was
evaluated exactly, so the cost falls with every step. At the end, states whose removal lowers the cost are removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from heapq import heapify, heappop, heappush, nsmallest
from itertools import pairwise

from tempura.derivation import Key, kept_bytes, operators
from tempura.search import COMPUTED, Graph, Trail
from tempura.states import Draft, Ledger, Member, Order, Solution

CANDIDATES = 300
"""How many candidates are considered at a time; the plan notes when there were more."""
GROUPS = 300
RECHECKED = 48
"""How many candidates without gain are looked at again after each acceptance."""
FAILURES = 2
"""How often a candidate may disappoint when it is evaluated exactly."""
GOOD = 4
"""An alternative is worth a look if it costs at most this many times the best one."""

Candidate = tuple[Member, ...]


def fits(graph: Graph, budget: float | None, solution: Solution) -> bool:
    """Whether the states kept from each point to later ones are within the budget."""
    return budget is None or all(kept <= budget for kept in kept_bytes(graph, solution.derivations()))


class Greedy:
    """Adds to an order what lowers its cost, and removes what does not."""

    def __init__(self, ledger: Ledger, budget: float | None = None, wanted: Sequence[Member] = (), dense: bool = False):
        self.ledger = ledger
        self.problem = ledger.problem
        self.graph = ledger.graph
        self.budget = budget
        self.wanted = wanted
        """Candidates to consider whatever the plan at hand looks like."""
        self.dense = dense
        """Whether gain per byte counts, rather than gain."""
        self.rising = all(a < b for a, b in pairwise(self.problem.factors))
        self.seen = 0
        self.accepted = 0
        self.notes: list[str] = []

    def take(self, others: Iterable[Greedy]) -> None:
        """Add the others' counts and notes to these."""
        for other in others:
            self.seen += other.seen
            self.accepted += other.accepted
            self.notes += [note for note in other.notes if note not in self.notes]

    def best(self, seeds: Sequence[Iterable[Key]]) -> Solution:
        """The best that is found from no states at all and from the best seed."""
        ledger = self.ledger
        solution = self.improved(ledger.settled(ledger.solution(ledger.results)))
        planted = [ledger.settled(ledger.solution(ledger.order_of(seed))) for seed in seeds]
        planted = [s for s in planted if s.total < solution.total and fits(self.graph, self.budget, s)]
        return self.improved(min(planted, key=lambda s: s.total)) if planted else solution

    def improved(self, solution: Solution) -> Solution:
        """Add, clean up, and once more if that changed anything."""
        for _ in range(2):
            cleaned = self.cleaned(self.extended(solution))
            if not cleaned.total < solution.total:
                break
            solution = cleaned
        return solution

    def gains(self, total: float, solution: Solution) -> bool:
        """Whether the total is lower by more than rounding."""
        margin = solution.total * 1e-12 if isinstance(solution.total, float) else 0
        return total < solution.total - margin

    def extended(self, solution: Solution) -> Solution:
        """Add candidates, best first, while one lowers the cost."""
        candidates: dict[Candidate, int] = {}
        heap: list[tuple[float, Candidate, int]] = []
        """Minus the gain, the candidate, and the turn in which the gain was estimated."""
        exact: dict[Candidate, Draft] = {}
        shelf: list[tuple[float, Candidate, int]] = []
        turn, rechecked = 0, 0

        def enter() -> None:
            for candidate in self.candidates(solution):
                if candidate not in candidates:
                    candidates[candidate] = 0
                    heappush(heap, (-self.estimate(solution, candidate), candidate, turn))

        enter()
        while heap:
            key, candidate, estimated = heappop(heap)
            if key >= 0:
                heappush(heap, (key, candidate, estimated))
                if rechecked == turn:
                    break
                rechecked = turn
                again = {c for _, c, _ in nsmallest(RECHECKED, heap)}
                heap = [(-self.estimate(solution, c), c, turn) if c in again else (k, c, t) for k, c, t in heap]
                heapify(heap)
                continue
            if estimated != turn:
                heappush(heap, (-self.estimate(solution, candidate), candidate, turn))
                continue
            if candidate not in exact:
                draft = self.draft(solution, candidate)
                if draft is None:
                    candidates[candidate] += 1
                    if candidates[candidate] < FAILURES:
                        shelf.append((key, candidate, turn))
                    continue
                exact[candidate] = draft
                gain = self.rank(solution.total - draft.total, candidate)
                if heap and -gain > heap[0][0]:
                    heappush(heap, (-gain, candidate, turn))
                    continue
            better = self.ledger.settled(self.ledger.solution(exact[candidate].order))
            if not fits(self.graph, self.budget, better) or not self.gains(better.total, solution):
                continue
            solution = better
            self.accepted += 1
            turn += 1
            exact.clear()
            for entry in shelf:
                heappush(heap, entry)
            shelf.clear()
            enter()
        self.seen += len(candidates)
        return solution

    def rank(self, gain: float, candidate: Candidate) -> float:
        """The gain, or what it is per byte."""
        if not self.dense:
            return gain
        size = max(sum(self.graph.size[m.node] for m in candidate), 1.0)
        return gain / size if isinstance(gain, float) else gain // int(size)

    def absent(self, solution: Solution, candidate: Iterable[Member]) -> Candidate:
        """The candidate without those nodes that can be loaded at its point already."""
        written: dict[int, int] = {}
        for member in solution.members:
            written[member.node] = min(written.get(member.node, member.point), member.point)
        return tuple(m for m in candidate if written.get(m.node, m.point + 1) > m.point)

    def draft(self, solution: Solution, candidate: Candidate) -> Draft | None:
        """The better order with the candidate and its cost, or nothing if neither lowers the cost."""
        candidate = self.absent(solution, candidate)
        if not candidate:
            return None
        since = min(m.point for m in candidate)
        orders = [self.ledger.inserted(solution, candidate)]
        if any(self.ledger.sources(solution, m.node, m.point) for m in candidate):
            orders.append(self.ledger.inserted(solution, candidate, early=True))
        drafts = [Draft(o, self.ledger.total(o, since, solution.starts[since], solution.total)) for o in orders]
        best = min(drafts, key=lambda d: d.total)
        return best if self.gains(best.total, solution) else None

    def estimate(self, solution: Solution, candidate: Candidate) -> float:
        """About how much the candidate would lower the cost, from the tables alone.

        Members that the candidate would be computed from cannot be computed from it; either they keep their cost, or the candidate is
        computed without them.
        """
        candidate = self.absent(solution, candidate)
        if not candidate:
            return self.ledger.nothing
        ledger, problem, tables = self.ledger, self.problem, solution.tables
        spent, spent_early = ledger.nothing, ledger.nothing
        before = set[Key]().union(*(ledger.sources(solution, m.node, m.point) for m in candidate))
        trail: Trail = []
        for member in sorted(candidate, key=lambda m: (m.point, tables.best[m.point][m.node], m.node)):
            write = ledger.write(member)
            spent += tables.best[member.point][member.node] + write
            spent_early += solution.starts[member.point][0].best[member.point][member.node] + write
            problem.lower(tables, member.node, member.point, member.point, trail)
        since = min(m.point for m in candidate)
        saved, saved_early = ledger.nothing, ledger.nothing
        plain = [m for m in solution.members if m.point >= since and m.key not in solution.turns]
        for member in plain:
            cost, now = solution.costs[member.key], tables.best[member.point][member.node]
            if now < cost:
                saved_early += cost - now
                saved += cost - now if member.key not in before else ledger.nothing
        tables.undo(trail)
        for key, turn in solution.turns.items():
            if key[1] < since:
                continue
            trail = []
            for member in candidate:
                if member.point <= key[1] and member.key != key:
                    problem.lower(turn, member.node, member.point, member.point, trail)
            drop = solution.costs[key] - ledger.value(turn, Member(*key, result=key in ledger.required))
            turn.undo(trail)
            saved_early += drop
            saved += drop if key not in before else ledger.nothing
        return self.rank(max(saved - spent, saved_early - spent_early), candidate)

    def candidates(self, solution: Solution) -> list[Candidate]:
        """The groups, and single nodes that good plans read at two places or more (any that they read, under a budget)."""
        readers, places = self._readers(solution)
        least = 2 if self.budget is None else 1
        tables, problem, ledger = solution.tables, self.problem, self.ledger
        scored: list[tuple[float, Member]] = []
        for node, count in readers.items():
            if count < least:
                continue
            points = (
                {self.graph.available[node]} if self.rising else set(range(self.graph.available[node], problem.points))
            )
            for point in sorted(points | places.get(node, set())):
                if ledger.may_keep(node, point):
                    later = range(point, problem.points)
                    worth = max(tables.have[p][node] - problem.load[p][node] for p in later)
                    if worth > 0:
                        scored.append((-worth * min(count, 4), Member(node, point)))
        scored.sort()
        self._note(len(scored), CANDIDATES, "single nodes")
        out: dict[Candidate, None] = dict.fromkeys((m,) for _, m in scored[:CANDIDATES])
        out |= dict.fromkeys((m,) for m in self.wanted)
        groups = list(dict.fromkeys(self._groups(readers)))
        self._note(len(groups), GROUPS, "groups")
        return [*out, *groups[:GROUPS]]

    def _note(self, found: int, limit: int, what: str) -> None:
        note = f"sharing considered only {limit} {what} at a time; there were more"
        if found > limit and note not in self.notes:
            self.notes.append(note)

    def _groups(self, readers: dict[int, int]) -> Iterable[Candidate]:
        """The groups at their earliest points (at later ones too, where work may be cheaper there)."""
        for group in self.graph.groups:
            nodes = sorted({n for n in group if n in readers and n not in self.graph.existing})
            for start in [0] if self.rising else range(self.problem.points):
                members = tuple(Member(n, max(start, self.graph.available[n])) for n in nodes)
                if members and all(self.ledger.may_keep(m.node, m.point) for m in members):
                    yield members

    def _readers(self, solution: Solution) -> tuple[dict[int, int], dict[int, set[int]]]:
        """How many places in good plans read each node; and at which points the plan at hand computes it."""
        problem, tables = self.problem, solution.tables
        todo = list(dict.fromkeys(m.key for m in solution.members))
        seen = set(todo)
        counts: dict[int, int] = {}
        for node, point in todo:  # grows while it is read
            have, priced = tables.have[point], problem.priced[point]
            limit = tables.best[point][node] * GOOD
            for a in problem.alternatives[node]:
                inputs = problem.inputs[a]
                if priced[a] + sum(have[i] for i in inputs) > limit:
                    continue
                for i in inputs:
                    counts[i] = counts.get(i, 0) + 1
                    source = tables.source[point][i]
                    key = (i, point if source == COMPUTED else max(source, 0))
                    if key not in seen:
                        seen.add(key)
                        todo.append(key)
        places: dict[int, set[int]] = {}
        for tree in solution.trees.values():
            for operator in operators(tree):
                places.setdefault(operator.node, set()).add(operator.point)
        return counts, places

    def cleaned(self, solution: Solution) -> Solution:
        """Remove states, and move what others could be computed from, where that lowers the cost."""
        changes: list[Callable[[Order, Member], list[Member] | None]] = [_without, _first, _last]
        for change in changes:
            for member in reversed(solution.members):
                at = change(solution.order, member) if member in solution.order[member.point] else None
                if at is None or (change is not _without and member.key not in solution.turns and not member.result):
                    continue
                order = [at if p == member.point else list(m) for p, m in enumerate(solution.order)]
                total = self.ledger.total(order, member.point, solution.starts[member.point], solution.total)
                if self.gains(total, solution):
                    better = self.ledger.settled(self.ledger.solution(order))
                    if fits(self.graph, self.budget, better) and self.gains(better.total, solution):
                        solution = better
        return solution


def _without(order: Order, member: Member) -> list[Member] | None:
    return None if member.result else [m for m in order[member.point] if m != member]


def _first(order: Order, member: Member) -> list[Member] | None:
    at = order[member.point]
    return None if at[0] == member else [member, *(m for m in at if m != member)]


def _last(order: Order, member: Member) -> list[Member] | None:
    at = order[member.point]
    return None if at[-1] == member else [*(m for m in at if m != member), member]
