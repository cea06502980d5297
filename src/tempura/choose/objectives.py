"""What a plan should minimise: weighted work, the work of the last run first, or weighted work with a limit on the last run.

Every objective is turned into one number per amount of work and point (`Pricing`), so that one dynamic program serves all of them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tempura.choose.graph import Graph


class Pricing(NamedTuple):
    """How an objective turns work at a point into one number: `amount(work) * factors[point]`."""

    factors: list[float]
    amount: Callable[[float], float]
    infinite: float


class Objective(ABC):
    """What a plan should minimise, given the unpriced work at each point."""

    @abstractmethod
    def pricing(self, graph: Graph) -> Pricing:
        """How work is priced while choosing."""

    @abstractmethod
    def total(self, graph: Graph, work: Sequence[float]) -> float | tuple[float, ...]:
        """What is reported, and compared, of finished plans."""


@dataclass(frozen=True)
class Weighted(Objective):
    """The sum over the points of price times work (the paper's c̃w)."""

    last_extra: float = 0.0
    """Added to the last point's price while choosing, not when reporting."""

    def pricing(self, graph: Graph) -> Pricing:
        # Free work would make useless work free as well: a price of zero is a very small one while choosing.
        least = max(graph.prices, default=0.0) * 1e-9 or 1.0
        factors = [max(p, least) for p in graph.prices]
        factors[-1] += self.last_extra
        return Pricing(factors, float, math.inf)

    def total(self, graph: Graph, work: Sequence[float]) -> float:
        return sum(p * w for p, w in zip(graph.prices, work, strict=True))


@dataclass(frozen=True)
class LatestFirst(Objective):
    """Least work at the last point, then at the one before, and so on (the paper's c̃v); prices play no part.

    The vector becomes one integer with a field of bits per point, the last point's highest, so that adding adds and comparing compares from
    the last point backwards. A total is the tuple of unpriced work, last point first, which Python compares in the same order.
    """

    FIELD = 160
    """Bits per point: 90 for one operator's work, the rest for how often a tree without sharing repeats it."""
    MOST = 1 << 90
    """More work than any plan needs."""

    def pricing(self, graph: Graph) -> Pricing:
        works = [a.work for alternatives in graph.alternatives for a in alternatives]
        finite = sorted(w for w in (*works, *graph.save, *graph.load, *graph.deliver.values()) if math.isfinite(w))
        # A power of two, so that whole numbers of work stay exact. The middle one says what is usual: there may be absurd products, and
        # the digits are for telling plans apart that make sense.
        shift = 44 - math.frexp(finite[len(finite) // 2] if finite else 1.0)[1]
        infinite = 1 << (self.FIELD * (len(graph.prices) + 1))

        def amount(work: float) -> float:
            if math.isinf(work):
                return infinite
            return min(max(round(math.ldexp(work, shift)), 1 if work else 0), self.MOST)

        return Pricing([1 << (self.FIELD * point) for point in range(len(graph.prices))], amount, infinite)

    def total(self, graph: Graph, work: Sequence[float]) -> tuple[float, ...]:
        return tuple(reversed(work))


@dataclass(frozen=True)
class LastRunAtMost(Objective):
    """Least weighted work such that the unpriced work at the last point is at most `limit`."""

    limit: float

    def pricing(self, graph: Graph) -> Pricing:
        return Weighted().pricing(graph)

    def total(self, graph: Graph, work: Sequence[float]) -> float:
        return Weighted().total(graph, work)
