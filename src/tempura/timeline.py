"""Time: the points at which work may be done, and the ticks at which single tables change.

A timeline has points t1..tk. Between two points the changed tables arrive one after another in a fixed order, so the fine
timeline is a chain of **ticks**, numbered from 0: tick 0 is the first point, with all that arrived by then; every later tick is one
(point, table). A joint update (IM-1, IM-2) is a delta from the last tick of one point to the last tick of another; a
one-table-at-a-time update (OJV, HOV; the paper's virtual time point) is a delta across one tick.

A relation only sees the ticks of its own tables: `Ticks.seen` gives the canonical tick, so that a static table has one version, an
unchanged sub-query is the same view at every time, and an empty delta is recognised before it costs anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from tempura.errors import JobError

MAIN = "result"
"""The name of a job's only query where the user gave it none."""


@dataclass(frozen=True)
class Point:
    """A point in time: its name, the price of a unit of work there, and the queries whose results are due."""

    name: str
    price: float = 1.0
    deliver: tuple[str, ...] = ()
    upto: str | None = None
    """Rows that arrive later than this are left for later points; None takes whatever is there."""


@dataclass(frozen=True)
class Timeline:
    """The points, in order of time."""

    points: tuple[Point, ...]

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for point in self.points:
            if point.name in seen:
                raise JobError(
                    f"time {point.name!r} appears twice in the timeline", hint="give each point its own name"
                )
            seen.add(point.name)
            if point.price < 0:
                raise JobError(
                    f"the price at {point.name!r} is {point.price}, below zero", hint="prices are zero or more"
                )
        if not self.points:
            raise JobError("the timeline has no points", hint="give at least one point, and let it deliver")
        if not any(p.deliver for p in self.points):
            raise JobError(
                "no point of the timeline delivers a result",
                hint="add `deliver: true` to the points where the result is due",
            )

    @staticmethod
    def warehouse(prices: Sequence[float] | Mapping[str, float]) -> Timeline:
        """The progressive warehouse (PDW-PD): work at every point, at its price; the result is due at the last."""
        named = dict(prices) if isinstance(prices, Mapping) else {f"t{i}": p for i, p in enumerate(prices, 1)}
        last = len(named) - 1
        return Timeline(tuple(Point(n, p, (MAIN,) if i == last else ()) for i, (n, p) in enumerate(named.items())))

    @staticmethod
    def refresh(points: Sequence[str] = ("t1", "t2")) -> Timeline:
        """View maintenance (IVM-PD): the result is due at every point (plan it with the objective `latest-first`)."""
        return Timeline(tuple(Point(n, 1.0, (MAIN,)) for n in points))

    def index(self, name: str) -> int:
        for i, point in enumerate(self.points):
            if point.name == name:
                return i
        known = ", ".join(p.name for p in self.points)
        raise JobError(f"the timeline has no point {name!r}", hint=f"its points are {known}")

    def __len__(self) -> int:
        return len(self.points)


class Tick(NamedTuple):
    """One instant of the fine timeline: at `point`, `tables` have just changed."""

    point: int
    tables: frozenset[str]


class Interval(NamedTuple):
    """The time from tick `start` to tick `end`, over which a delta is taken."""

    start: int
    end: int


@dataclass(frozen=True)
class Ticks:
    """The fine timeline of a job: which tables change at which instant."""

    ticks: tuple[Tick, ...]
    points: int

    @staticmethod
    def of(points: int, changed: Sequence[Sequence[str]]) -> Ticks:
        """From the tables that change at each point, in the order in which they are to be taken inside a step."""
        ticks = [Tick(0, frozenset(changed[0]))]
        for point in range(1, points):
            ticks += [Tick(point, frozenset([table])) for table in changed[point]]
        return Ticks(tuple(ticks), points)

    @cached_property
    def last_of_point(self) -> tuple[int, ...]:
        """For each point, its last tick (that of an earlier point if nothing changes there)."""
        return tuple(max(i for i, tick in enumerate(self.ticks) if tick.point <= p) for p in range(self.points))

    def point_of(self, tick: int) -> int:
        return self.ticks[tick].point

    def seen(self, tables: frozenset[str], tick: int) -> int:
        """The last tick up to `tick` at which one of `tables` changes; 0 if none did."""
        for i in range(tick, 0, -1):
            if self.ticks[i].tables & tables:
                return i
        return 0

    def changed(self, interval: Interval) -> frozenset[str]:
        """The tables that change after the interval's start, up to its end."""
        return frozenset[str]().union(*(t.tables for t in self.ticks[interval.start + 1 : interval.end + 1]))

    def within(self, interval: Interval) -> Iterable[Interval]:
        """The single ticks that the interval consists of."""
        return (Interval(i - 1, i) for i in range(interval.start + 1, interval.end + 1))

    @cached_property
    def steps(self) -> tuple[Interval, ...]:
        """The intervals from one point to the next, where something changes."""
        ends = self.last_of_point
        return tuple(Interval(a, b) for a, b in pairwise(ends) if a < b)
