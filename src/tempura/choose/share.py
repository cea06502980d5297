"""Choosing: the search, the sharing, and the objective that bounds the last run, behind one function."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import NamedTuple

from tempura.choose.derivation import Key, Written, work_of
from tempura.choose.graph import Graph
from tempura.choose.greedy import Greedy, fits
from tempura.choose.ledger import Ledger
from tempura.choose.objectives import LastRunAtMost, LatestFirst, Objective, Weighted
from tempura.choose.search import Problem
from tempura.errors import PlanError


@dataclass(frozen=True)
class Counters:
    """How much work the choice was."""

    costings: int = 0
    """How often an alternative was priced."""
    candidates: int = 0
    accepted: int = 0
    dp_seconds: float = 0.0
    share_seconds: float = 0.0

    def __add__(self, other: Counters) -> Counters:
        return Counters(
            self.costings + other.costings,
            self.candidates + other.candidates,
            self.accepted + other.accepted,
            self.dp_seconds + other.dp_seconds,
            self.share_seconds + other.share_seconds,
        )


@dataclass(frozen=True)
class Choice:
    """What to compute, write and load at each point, and what it costs.

    Costs are those of the derivations as they stand (`work_of`): an operator that occurs twice in a tree is counted twice, because Spark
    inlines common table expressions; only what is written is computed once.
    """

    total: float | tuple[float, ...]
    """Under the objective; for `LatestFirst` the unpriced work, last point first."""
    by_point: list[float]
    """Priced."""
    work_by_point: list[float]
    """Unpriced."""
    derivations: tuple[Written, ...]
    """In an order in which each finds what it loads."""
    counters: Counters = Counters()
    notes: tuple[str, ...] = ()

    @property
    def seed(self) -> tuple[Key, ...]:
        """What is written, in order: a starting point for choosing on a larger graph with the same nodes."""
        return tuple((w.node, w.point) for w in self.derivations)


def cost_of(graph: Graph, objective: Objective, derivations: Iterable[Written]) -> float | tuple[float, ...]:
    """The total of derivations under an objective, counted from the derivations alone."""
    return objective.total(graph, work_of(graph, derivations))


def choose(
    graph: Graph,
    objective: Objective,
    budget: float | None = None,
    seeds: Sequence[Iterable[Key]] = (),
    *,
    starts: int | None = None,
) -> Choice:
    """The cheapest derivations found for all results under the objective.

    `budget` bounds the bytes of states kept from any point to later ones. Each of `seeds` is a set of states (pairs of node and point, in order of
    writing; `Choice.seed` is one) to start from as well; the choice is never dearer than what any of them, or no sharing at all, gives.
    Where the seeds are known to be good, `starts` says how many of them, the cheapest, are tried, and nothing else is.
    """
    if isinstance(objective, LastRunAtMost):
        return _choose_last_run(graph, objective, budget, seeds, starts)
    started = perf_counter()
    ledger = Ledger(Problem(graph, objective.pricing(graph)))
    solved = perf_counter()
    greedy = Greedy(ledger)
    solution = greedy.best(seeds, starts)
    if budget is not None and not fits(graph, budget, solution):
        # The dynamic program must not save on its own where bytes are short: every state is now a candidate.
        free = solution
        costings = ledger.problem.costings
        ledger = Ledger(Problem(graph, objective.pricing(graph), carry=False))
        ledger.problem.costings += costings
        tight = [Greedy(ledger, budget, [m for m in free.members if not m.result], dense) for dense in (False, True)]
        solution = min((g.best(seeds, starts) for g in tight), key=lambda s: s.total)
        greedy.take(tight)
        if graph.held and not fits(graph, budget, solution):
            # What is there takes more than it may: whoever does not read it need not keep it.
            return choose(replace(graph, existing=graph.existing - graph.held, held=frozenset()), objective, budget)
    derivations = solution.derivations()
    work = work_of(graph, derivations)
    return Choice(
        objective.total(graph, work),
        [p * w for p, w in zip(graph.prices, work, strict=True)],
        work,
        derivations,
        Counters(ledger.problem.costings, greedy.seen, greedy.accepted, solved - started, perf_counter() - solved),
        tuple(greedy.notes),
    )


class Outline(NamedTuple):
    """What the dynamic program alone would write, each state once."""

    seed: tuple[Key, ...]
    work: list[float]
    """Unpriced, per point."""
    costings: int


def outline(graph: Graph, objective: Objective, true: Graph | None = None) -> Outline | None:
    """The outline of a graph, or of one with other work (`true` has the work that counts); None if a result cannot be computed."""
    ledger = Ledger(Problem(graph, objective.pricing(graph)))
    if any(ledger.tables.have[point][node] >= ledger.problem.infinite for node, point in ledger.required):
        return None
    solution = ledger.solution(ledger.results)
    derivations = solution.derivations()
    seed = tuple((w.node, w.point) for w in derivations)
    return Outline(seed, work_of(true or graph, derivations), ledger.problem.costings)


def _choose_last_run(
    graph: Graph, objective: LastRunAtMost, budget: float | None, seeds: Sequence[Iterable[Key]], starts: int | None
) -> Choice:
    """Raise the price of the last point until its run is short enough, and no further than needed."""
    limit = objective.limit * (1 + 1e-9)
    tries = [choose(graph, Weighted(), budget, seeds, starts=starts)]
    if tries[0].work_by_point[-1] > limit:
        tries.append(choose(graph, LatestFirst(), budget, [*seeds, tries[0].seed]))
        least = tries[1].work_by_point[-1]
        if least > limit:
            raise PlanError(
                f"no plan was found whose last run costs at most {objective.limit:g}; the least found is {least:g}",
                hint="raise the limit, add a point before the last one, or allow more methods",
            )
        low, high = 2.0**-8, 2.0**12
        unit = max(*graph.prices, 1e-9)
        for _ in range(10):
            middle = (low * high) ** 0.5
            choice = choose(graph, Weighted(last_extra=middle * unit), budget, [t.seed for t in tries[-2:]], starts=2)
            tries.append(choice)
            if choice.work_by_point[-1] > limit:
                low = middle
            else:
                high = middle
    best = min(
        (t for t in tries if t.work_by_point[-1] <= limit), key=lambda t: objective.total(graph, t.work_by_point)
    )
    counters = sum((t.counters for t in tries), Counters())
    notes = dict.fromkeys(note for t in tries for note in t.notes)
    return replace(best, total=objective.total(graph, best.work_by_point), counters=counters, notes=tuple(notes))
