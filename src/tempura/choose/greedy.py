"""Greedy sharing, as in the paper (Algorithm 1): add the states that lower the cost most, while one does.

It starts with what the dynamic program saves anyway. A candidate is a node at its earliest point (Theorem 2: enough when the price of work rises
from point to point), or at every point where the theorem does not hold; or a *group*, the nodes that one incremental operator needs together:
each alone may gain nothing. Theorem 2 takes all alternatives of a node to be possible from its earliest point on; where the plan at hand
computes a node later, that point is tried too.

Gains are estimated by lowering the tables in place and undoing it, kept in a heap, and estimated again only when they reach its top. Since gains
may also rise as states are added (complements), candidates without gain are looked at again after each acceptance. What is accepted was
evaluated exactly, so the cost falls with every step. At the end, states whose removal lowers the cost are removed, and those of which a next of kin
(what one operator makes of it, or what it is made of) is better kept are exchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from heapq import heapify, heappop, heappush, nsmallest
from itertools import pairwise

from tempura.choose.derivation import Key, kept_bytes, loads, occurrences
from tempura.choose.graph import Graph
from tempura.choose.ledger import Draft, Ledger, Member, Order, Solution
from tempura.choose.search import Trail

REPEATED = 32
"""How many nodes that the plan at hand computes repeatedly, those that would save most, are considered at a time."""
CANDIDATES = 64
"""How many other single nodes, those that promise most, are; the plan notes when there were more."""
GROUPS = 48
"""How many groups are."""
RECHECKED = 48
"""How many candidates without gain are looked at again after each acceptance."""
FAILURES = 2
"""How often a candidate may disappoint when it is evaluated exactly."""
FEW = 3
"""Up to so many points the search has all its patience."""
CLEANED = 2
"""How many plans, the cheapest, are cleaned up."""
MOST = 160_000
"""When this many alternatives have been priced, no further place to start from is tried, and no further plan cleaned up."""
EFFORT = 60_000
"""How many alternatives may be priced while adding states to one plan; the plan notes when that ended the search."""
CLEANING = 100_000
"""How many may be priced while cleaning one up, and again while exchanging its states."""

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
        self.patience = min(1.0, (FEW / self.problem.points) ** 2)
        """With many points there are more states to find and each is more work to judge, so fewer places to start from are tried."""
        self.started = self.problem.costings
        self.seen = 0
        self.accepted = 0
        self.notes: list[str] = []

    def take(self, others: Iterable[Greedy]) -> None:
        """Add the others' counts and notes to these."""
        for other in others:
            self.seen += other.seen
            self.accepted += other.accepted
            self.notes += [note for note in other.notes if note not in self.notes]

    def best(self, seeds: Sequence[Iterable[Key]], tried: int | None = None) -> Solution:
        """The best that is found from the seeds and from no states at all.

        States are added to several places to start from, while that is cheap; the cheapest of what comes of it are cleaned up. The last seed
        should be unlike what is found from nothing: both are tried. Where the seeds are known to be good, as many of them are `tried`, the cheapest, and nothing else.
        """
        ledger = self.ledger
        planted = [s for s in (ledger.settled(ledger.order_of(seed)) for seed in seeds) if self._fits(s)]
        nothing = [] if tried and planted else [ledger.settled(ledger.results)]
        ranked = sorted((*nothing, *planted), key=lambda s: s.total)
        unlike = [] if tried else [*nothing, *planted[-1:]]
        starts = list({s.total: s for s in (ranked[0], *unlike, *ranked)}.values())
        grown: dict[float, Solution] = {}
        for start in starts[:tried]:
            if not grown or self._has_patience():
                better = self.extended(start)
                grown.setdefault(better.total, better)
        found: list[Solution] = []
        for total in sorted(grown)[:CLEANED]:
            if not found or self._has_patience():
                found.append(self.improved(grown[total]))
        return min(found, key=lambda s: s.total)

    def _fits(self, solution: Solution) -> bool:
        return fits(self.graph, self.budget, solution)

    def _has_patience(self) -> bool:
        return self.problem.costings - self.started < MOST * self.patience

    def improved(self, solution: Solution) -> Solution:
        """Clean up, add again, and once more if that changed anything."""
        for _ in range(2):
            cleaned = self.exchanged(self.cleaned(solution))
            if not cleaned.total < solution.total:
                break
            solution = self.extended(cleaned)
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
        end = self.problem.costings + EFFORT
        while heap and self._has_effort_left(end):
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
            better = self.ledger.settled(exact[candidate].order, solution.slack)
            if not self._fits(better) or not self.gains(better.total, solution):
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

    def _has_effort_left(self, end: int) -> bool:
        if self.problem.costings < end:
            return True
        note = f"sharing stopped after pricing {EFFORT} alternatives; a longer search may find a cheaper plan"
        self.notes += [] if note in self.notes else [note]
        return False

    def rank(self, gain: float, candidate: Candidate) -> float:
        """The gain, or what it is per byte."""
        if not self.dense:
            return gain
        size = max(sum(self.graph.size[m.node] for m in candidate), 1.0)
        return gain / size if isinstance(gain, float) else gain // int(size)

    def absent(self, solution: Solution, candidate: Iterable[Member]) -> Candidate:
        """The candidate without those nodes that can be loaded at its point already."""
        first = solution.first
        return tuple(m for m in candidate if first.get(m.node, m.point + 1) > m.point)

    def draft(self, solution: Solution, candidate: Candidate) -> Draft | None:
        """The better order with the candidate and its cost, or nothing if neither lowers the cost."""
        candidate = self.absent(solution, candidate)
        if not candidate:
            return None
        since = min(m.point for m in candidate)
        orders = [self.ledger.inserted(solution, candidate)]
        if any(self.ledger.sources(solution, m.node, m.point) for m in candidate):
            orders.append(self.ledger.inserted(solution, candidate, early=True))
        drafts = [Draft(o, self.ledger.total(o, since, solution)) for o in orders]
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
        slack = solution.slack._replace(joint=max(solution.slack.joint, len(candidate)))
        spent, spent_early = ledger.nothing, ledger.nothing
        before = set[Key]().union(*(ledger.sources(solution, m.node, m.point) for m in candidate))
        trail: Trail = []
        for member in sorted(candidate, key=lambda m: (m.point, tables.best[m.point][m.node], m.node)):
            write = ledger.write(member)
            spent += tables.best[member.point][member.node] + write
            spent_early += solution.starts[member.point][0].best[member.point][member.node] + write
            problem.lower(tables, member.node, member.point, member.point, trail, slack)
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
                    problem.lower(turn, member.node, member.point, member.point, trail, slack)
            drop = solution.costs[key] - ledger.value(turn, Member(*key, result=key in ledger.required))
            turn.undo(trail)
            saved_early += drop
            saved += drop if key not in before else ledger.nothing
        return self.rank(max(saved - spent, saved_early - spent_early), candidate)

    def candidates(self, solution: Solution) -> list[Candidate]:
        """What the plan at hand computes more than once, single nodes that good plans would read, and groups."""
        slack, problem = solution.slack, self.problem
        least = 2 if self.budget is None else 1
        places: dict[int, dict[int, int]] = {}
        """Per node and point: how often the plan computes it."""
        for (_, point), tree in solution.trees.items():
            for node, count in occurrences(tree).items():
                at = places.setdefault(node, {})
                at[point] = at.get(point, 0) + count
        singles: list[Candidate] = []
        repeated: list[tuple[float, Candidate]] = []
        for node in dict.fromkeys((*slack.readers, *places)):
            first, here = self.graph.available[node], places.get(node, {})
            points = {first} if self.rising else set(range(first, problem.points))
            members = [Member(node, p) for p in sorted(points | here.keys()) if self.ledger.may_keep(node, p)]
            if slack.readers.get(node, 0) >= least:
                singles += [(m,) for m in members]
            repeated += [(-gain, (m,)) for m in members if (gain := self._saves(solution, m, here)) > 0]
        chosen = [candidate for _, candidate in sorted(repeated)[:REPEATED]]
        return [
            *chosen,
            *self._promising(solution, singles, CANDIDATES, "single nodes"),
            *self._promising(solution, self._groups(slack.readers), GROUPS, "groups"),
            *((m,) for m in self.wanted),
        ]

    def _saves(self, solution: Solution, member: Member, places: dict[int, int]) -> float:
        """What writing the member saves where the plan now computes it, if nothing else changes."""
        tables, problem, node = solution.tables, self.problem, member.node
        saved = -tables.best[member.point][node] - problem.save[member.point][node]
        for point, count in places.items():
            if point >= member.point:
                saved += count * (tables.best[point][node] - problem.load[point][node])
        return saved

    def _promising(self, solution: Solution, candidates: Iterable[Candidate], limit: int, what: str) -> list[Candidate]:
        """Those candidates that promise most, were each of a few readers to save all that a load can save it; and half as many whose
        readers need least of that to become part of the plan."""
        slack, tables, problem = solution.slack, solution.tables, self.problem
        scored: list[tuple[float, float, Candidate]] = []
        for candidate in dict.fromkeys(candidates):
            promise, lacking, saves = self.ledger.nothing, 0.0, False
            for node, point, _ in candidate:
                once, needed = -problem.infinite, 1.0
                for p in range(point, problem.points):
                    saved, gap = tables.have[p][node] - problem.load[p][node], slack.rows[p][node]
                    saves = saves or saved * slack.joint > gap
                    once = max(once, saved - gap)
                    needed = min(needed, gap / saved if gap < saved else 1.0)
                lacking += needed
                promise += once * min(slack.readers.get(node, 0), 4)
                promise -= tables.best[point][node] + problem.save[point][node]
            if saves:
                scored.append((-promise, lacking, candidate))
        if len(scored) > limit:
            note = f"sharing considered only the {limit} most promising {what} at a time; there were more"
            self.notes += [] if note in self.notes else [note]
        scored.sort()
        near = sorted(scored[limit:], key=lambda entry: entry[1])[: limit // 2]
        return [candidate for *_, candidate in (*scored[:limit], *near)]

    def _groups(self, readers: dict[int, int]) -> Iterable[Candidate]:
        """The groups at their earliest points (at later ones too, where work may be cheaper there)."""
        for group in self.graph.groups:
            nodes = sorted({n for n in group if n in readers and n not in self.graph.existing})
            for start in [0] if self.rising else range(self.problem.points):
                members = tuple(Member(n, max(start, self.graph.available[n])) for n in nodes)
                if members and all(self.ledger.may_keep(m.node, m.point) for m in members):
                    yield members

    def cleaned(self, solution: Solution) -> Solution:
        """Remove states, and move what others could be computed from, where that lowers the cost."""
        end = self.problem.costings + CLEANING
        changes: list[Callable[[Order, Member], list[Member] | None]] = [_without, _first, _last]
        for change in changes:
            for member in self._suspects(solution):
                if self.problem.costings > end:
                    return solution
                at = change(solution.order, member) if member in solution.order[member.point] else None
                if at is None or (change is not _without and member.key not in solution.turns and not member.result):
                    continue
                solution = self._with(at, member.point, solution)
        return solution

    def exchanged(self, solution: Solution) -> Solution:
        """Keep what one operator makes of a state, or what it is made of, instead of the state, where that lowers the cost."""
        end = self.problem.costings + CLEANING
        for member in self._suspects(solution):
            for node in () if member.result else self.kin.get(member.node, ()):
                if self.problem.costings > end or member not in solution.order[member.point]:
                    break
                other = Member(node, member.point)
                if other in solution.order[member.point] or not self.ledger.may_keep(node, member.point):
                    continue
                at = [other if m == member else m for m in solution.order[member.point]]
                solution = self._with(at, member.point, solution)
        return solution

    def _with(self, at: list[Member], point: int, solution: Solution) -> Solution:
        """The solution with other members at a point, if that is cheaper; else as it is."""
        order = [at if p == point else list(m) for p, m in enumerate(solution.order)]
        if self.gains(self.ledger.total(order, point, solution), solution):
            better = self.ledger.settled(order, solution.slack)
            if self._fits(better) and self.gains(better.total, solution):
                return better
        return solution

    @cached_property
    def kin(self) -> dict[int, list[int]]:
        """For each node, those that it is made of, or that are made of it, by an operator with one input."""
        found: dict[int, dict[int, None]] = {}
        for node, alternatives in enumerate(self.graph.alternatives):
            for alternative in alternatives:
                if len(alternative.inputs) == 1:
                    (below,) = alternative.inputs
                    found.setdefault(node, {})[below] = None
                    found.setdefault(below, {})[node] = None
        return {node: list(others) for node, others in found.items()}

    def _suspects(self, solution: Solution) -> list[Member]:
        """The members, first those that seem to cost more than they save their readers."""
        saved: dict[Key, float] = {}
        tables, problem = solution.tables, self.problem
        for tree in solution.trees.values():
            for load in loads(tree):
                if load.written >= 0:
                    otherwise = tables.best[load.point][load.node] - problem.load[load.point][load.node]
                    key = load.node, load.written
                    saved[key] = saved.get(key, self.ledger.nothing) + otherwise
        spent = {m: solution.costs[m.key] + self.ledger.write(m) for m in solution.members}
        return sorted(spent, key=lambda m: (saved.get(m.key, self.ledger.nothing) - spent[m], m))


def _without(order: Order, member: Member) -> list[Member] | None:
    return None if member.result else [m for m in order[member.point] if m != member]


def _first(order: Order, member: Member) -> list[Member] | None:
    at = order[member.point]
    return None if at[0] == member else [member, *(m for m in at if m != member)]


def _last(order: Order, member: Member) -> list[Member] | None:
    at = order[member.point]
    return None if at[-1] == member else [*(m for m in at if m != member), member]
