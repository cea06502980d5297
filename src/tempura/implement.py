"""From the plan space to the graph that the search works on: physical choices and what they cost.

A node of the search graph is a group with a physical property: distributed anyhow, or by some columns. Joins are broadcast, or find both sides
distributed by their keys; aggregates and windows find their input distributed by their groups, or ship partial results. `Exchange` turns the one property
into the other. A state written distributed by a key is a shuffle that no later run repeats, so each property of a group is saved and loaded on its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

from tempura.algebra import (
    Affected,
    Aggregate,
    AggregateState,
    Expand,
    Filter,
    FinalState,
    FullOuterJoin,
    InnerJoin,
    MergeState,
    Minus,
    Op,
    Plus,
    Project,
    Read,
    Replicate,
    TopK,
    Window,
)
from tempura.algebra.joins import JOINS
from tempura.choose.graph import Alternative, Graph
from tempura.estimate import CostModel, Shape, Side, Stats
from tempura.estimate.knowledge import Knowledge
from tempura.expr import split_condition
from tempura.memo.memo import Source
from tempura.schema import names, orderable
from tempura.space import GroupMember, Space

Place = tuple[str, ...] | None
"""How rows lie: by the values of some columns, or anyhow."""

EPSILON = 1e-12
"""Work that even a free operator has, so that a derivation never goes in a circle."""

RECOMPUTING = (*JOINS, Aggregate, AggregateState, Window, TopK)
"""The operators that are worth avoiding; the others are carried out in passing."""

TINY = 4e6
"""A side below this many bytes is broadcast without looking at anything else."""


class Choice(NamedTuple):
    """What an alternative of the search graph stands for."""

    kind: Literal["operator", "exchange", "scan"]
    op: Op | None
    source: Source
    broadcast: Side | None = None
    recomputes: bool = False
    """Whether it computes a later snapshot from snapshots alone."""


EXCHANGE = Choice("exchange", None, Source("exchange", "physical"))


class Member(NamedTuple):
    """A member of a group with all that pricing it needs, the same for every property of its output."""

    kind: type[Op]
    op: Any
    inputs: tuple[int, ...]
    source: Source
    stats: list[Stats]
    output: Stats
    shape: Shape
    recomputes: bool


class Implementation:
    """The search graph of a plan space under a cost model."""

    def __init__(self, space: Space, cost: CostModel, exact: Callable[[int], float] | None = None):
        self.space = space
        self.cost = cost
        self.knowledge = Knowledge(space, exact)
        self.nodes: list[tuple[int, Place]] = []
        self.alternatives: list[list[Alternative]] = []
        self._ids: dict[tuple[int, Place], int] = {}
        self._pending: list[int] = []
        self._members: dict[int, list[Member]] = {}
        self._columns: dict[int, frozenset[str]] = {}

    def stats(self, group: int) -> Stats:
        return self.knowledge.stats(group)

    def columns(self, group: int) -> frozenset[str]:
        found = self._columns.get(group)
        if found is None:
            found = self._columns[group] = frozenset(names(self.space.group(group).schema))
        return found

    def graph(self, required: Sequence[tuple[int, int]], prices: Sequence[float], done: int = 0) -> Graph:
        """The search graph for results, given as (group, point), from point `done` of the timeline on; the graph counts points from there."""
        wanted = [(self.node(g, None), point - done) for g, point in required if point >= done]
        while self._pending:
            self._fill(self._pending.pop())
        wanted = self._numbered(wanted)
        save: list[float] = []
        load: list[float] = []
        size: list[float] = []
        for group, place in self.nodes:
            stats = self.stats(group)
            save.append(
                self.cost.save(stats, place is not None) + self.cost.job() if self._may_keep(group, place) else math.inf
            )
            load.append(self.cost.load(stats, place is not None) + EPSILON)
            size.append(stats.bytes)
        return Graph(
            alternatives=self.alternatives,
            available=[max(self.space.available(self.space.group(g)) - done, 0) for g, _ in self.nodes],
            save=save,
            load=load,
            required=wanted,
            deliver={n: self.cost.save(self.stats(self.nodes[n][0]), False) + self.cost.job() for n, _ in wanted},
            existing=frozenset(),
            size=size,
            prices=list(prices[done:]),
            groups=sorted(self._complements()),
            until=[self.space.until(self.space.group(g)) - done for g, _ in self.nodes],
        )

    def _numbered(self, wanted: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """Number the nodes anew by what they are, and give the results' new numbers.

        The order in which rules found them must not matter: a method's part of the graph is then searched as it would be alone.
        """

        def nature(node: int) -> tuple[Any, ...]:
            group, place = self.nodes[node]
            own, stats = self.space.group(group), self.stats(group)
            return own.interval or (-1, -1), stats.rows, stats.bytes, tuple(sorted(self.columns(group))), place or ()

        order = sorted(range(len(self.nodes)), key=nature)
        new = [0] * len(order)
        for number, node in enumerate(order):
            new[node] = number
        self.nodes = [self.nodes[node] for node in order]
        self._ids = {key: number for number, key in enumerate(self.nodes)}
        moved = [[a._replace(inputs=tuple(new[i] for i in a.inputs)) for a in self.alternatives[n]] for n in order]
        self.alternatives = [sorted(found, key=lambda a: (a.work, a.inputs)) for found in moved]
        return [(new[node], point) for node, point in wanted]

    def _may_keep(self, group: int, place: Place) -> bool:
        """Whether the group may be a state: it is what its definition says, whenever and however it is computed, and worth a copy."""
        own = self.space.group(group)
        if own.empty or self.knowledge.names_more(group):
            return False
        if own.tvr is not None:
            record = self.space.memo.tvr(own.tvr)
            delta = self.knowledge.is_delta(group)
            # Pieces of states can be cut in many ways; only those that one operator makes have a definition.
            loose = delta and not record.additive and next(iter(record.definitions)).op is not AggregateState
            if record.volatile or loose:
                return False
        # A copy of a base table is only worth keeping if it is distributed, or if keeping is free.
        return self.cost.holds or place is not None or not any(m.op is Read for m in own.members)

    def node(self, group: int, place: Place) -> int:
        key = (group, place)
        found = self._ids.get(key)
        if found is None:
            found = self._ids[key] = len(self.nodes)
            self.nodes.append(key)
            self.alternatives.append([])
            self._pending.append(found)
        return found

    def _fill(self, node: int) -> None:
        group, place = self.nodes[node]
        found = self.alternatives[node]
        if place is not None:
            moved = self.cost.exchange(self.stats(group))
            found.append(Alternative(moved + EPSILON, (self.node(group, None),), EXCHANGE))
        for member in self._prepared(group):
            IMPLEMENTATIONS.get(member.kind, Implementation.anyhow)(self, found, member, place)

    def _prepared(self, group: int) -> list[Member]:
        found = self._members.get(group)
        if found is None:
            output = self.stats(group)
            found = self._members[group] = [self._prepare(m, s, output) for m, s in self.space.members(group)]
        return found

    def _prepare(self, member: GroupMember, source: Source, output: Stats) -> Member:
        new = self.knowledge.new_inputs(member) if self.cost.holds else None
        again = issubclass(member.op, RECOMPUTING) and not any(self.knowledge.is_delta(i) for i in member.inputs)
        stats = [self.stats(i) for i in member.inputs]
        op = member.op.build(member.inputs, member.payload)
        return Member(member.op, op, member.inputs, source, stats, output, Shape(new=new), again)

    def _add(
        self,
        found: list[Alternative],
        member: Member,
        work: float,
        inputs: Sequence[int],
        broadcast: Side | None = None,
    ) -> None:
        choice = Choice("operator", member.op, member.source, broadcast, member.recomputes)
        found.append(Alternative(work + EPSILON, tuple(inputs), choice))

    def _work(self, member: Member) -> float:
        return self.cost.work(member.op, member.stats, member.output, member.shape)

    # The ways to carry out an operator so that its output lies as wanted.

    def anyhow(self, found: list[Alternative], member: Member, place: Place) -> None:
        """Wherever the inputs are, and nothing is known of where the output will be."""
        if place is None:
            self._add(found, member, self._work(member), [self.node(i, None) for i in member.inputs])

    def read(self, found: list[Alternative], member: Member, place: Place) -> None:
        """A base table is scanned."""
        if place is None:
            work = self._scan(member.op.name, member.output)
            found.append(Alternative(work, (), Choice("scan", member.op, member.source)))

    def _scan(self, name: str, stats: Stats) -> float:
        """What it costs to read some columns of a base table, or of its change."""
        table, _, when = name.partition("@")
        own, timeline = self.space.catalog[table], self.space.timeline
        points = [p.name for p in timeline.points]
        log = None
        if own.logged and when in points:
            log = stats.thinned(own.listed(timeline, points.index(when)))
        return self.cost.scan(stats, log) + EPSILON

    def in_passing(self, found: list[Alternative], member: Member, place: Place) -> None:
        """Operators that leave rows where they are."""
        if place is not None:
            changed = frozenset(member.op.columns) if isinstance(member.op, Expand) else frozenset[str]()
            if changed & set(place) or not all(set(place) <= self.columns(i) for i in member.inputs):
                return
        self._add(found, member, self._work(member), [self.node(i, place) for i in member.inputs])

    def project(self, found: list[Alternative], member: Member, place: Place) -> None:
        """Rows stay where they are; of a base table only the columns that are needed are read."""
        op: Project = member.op
        (below,) = member.inputs
        read = next((m for m, _ in self.space.members(below) if m.op is Read), None)
        if read is not None and place is None and all(o.expr.name for o in op.outputs):
            tree = op.over([read.op.build((), read.payload)])
            work = self._scan(read.payload[0], member.output)
            found.append(Alternative(work, (), Choice("scan", tree, member.source)))
            return
        if place is not None:
            came_from = {o.name: o.expr.name for o in op.outputs}
            origin = [came_from.get(c) for c in place]
            if any(c is None for c in origin):
                return
            place = tuple(c for c in origin if c is not None)
        self._add(found, member, self._work(member), [self.node(below, place)])

    def group(self, found: list[Alternative], member: Member, place: Place) -> None:
        """Aggregates ship what each core has aggregated, or find their groups together."""
        by = tuple(sorted(member.op.columns if isinstance(member.op, Affected) else member.op.by))
        if place is not None and place != by:
            return
        work = self._work(member)
        shipped = self.cost.exchange(self.cost.shipped(member.op, member.stats, member.output))
        self._add(found, member, work + shipped, [self.node(i, None) for i in member.inputs])
        maps = any(c.name in by and not orderable(c.type) for c in self.space.group(member.inputs[0]).schema)
        # Where a map lies is told by its order, which is none of its value.
        if by and not maps and sum(s.bytes for s in member.stats) > TINY:
            self._add(found, member, work, [self.node(i, by) for i in member.inputs])

    def window(self, found: list[Alternative], member: Member, place: Place) -> None:
        """Windows have their partitions brought together, or find them so."""
        by = tuple(sorted(member.op.partition))
        if place is not None and place != by:
            return
        work = self._work(member)
        self._add(found, member, work + self.cost.exchange(member.stats[0]), [self.node(member.inputs[0], None)])
        if by and member.stats[0].bytes > TINY:
            self._add(found, member, work, [self.node(member.inputs[0], by)])

    def join(self, found: list[Alternative], member: Member, place: Place) -> None:
        """Joins have a copy of a small side everywhere, or find both sides together by their keys."""
        left, right = member.inputs
        if self._broadcast(found, member, place):
            return
        equi = split_condition(member.op.on, self.columns(left), self.columns(right)).equi
        pairs = sorted((e.left.name, e.right.name) for e in equi if e.left.name and e.right.name)
        by_left, by_right = tuple(x for x, _ in pairs), tuple(y for _, y in pairs)
        distinct = len(set(by_left)) == len(set(by_right)) == len(pairs)
        if not pairs or len(pairs) < len(equi) or not distinct:
            if place is None:
                a, b = member.stats
                moved = self.cost.exchange(a) + self.cost.exchange(b) if equi else self.cost.broadcast(b)
                self._add(found, member, self._work(member) + moved, [self.node(left, None), self.node(right, None)])
            return
        lies = {None, by_left} if not isinstance(member.op, FullOuterJoin) else {None}
        if place in lies or (place == by_right and isinstance(member.op, InnerJoin)):
            self._add(found, member, self._work(member), [self.node(left, by_left), self.node(right, by_right)])

    def _broadcast(self, found: list[Alternative], member: Member, place: Place) -> bool:
        """Add a join with a copy of its smaller side everywhere; whether that side is so small that nothing else is worth a look."""
        left, right = member.inputs
        a, b = member.stats
        both: tuple[tuple[Side, Stats], ...] = (("right", b), ("left", a))
        sides: list[Side] = [s for s, stats in both if self.cost.may_broadcast(member.op, s, stats)]
        if not sides:
            return False
        side = sides[0] if len(sides) == 1 or b.bytes <= a.bytes else sides[1]
        small, large = (a, right) if side == "left" else (b, left)
        if place is None or set(place) <= self.columns(large):
            shape = Shape(side, member.shape.new)
            work = self.cost.work(member.op, [a, b], member.output, shape) + self.cost.broadcast(small)
            inputs = [
                self.node(left, place if side == "right" else None),
                self.node(right, place if side == "left" else None),
            ]
            self._add(found, member, work, inputs, side)
        return small.bytes < TINY

    def _complements(self) -> list[tuple[int, ...]]:
        """For each way to compute a delta, the earlier snapshots it needs: they may only pay together."""
        found: dict[tuple[int, ...], None] = {}
        for group in self.space.all_groups():
            if group.interval is None or group.interval.start < 0:
                continue
            for member, _ in self.space.members(group.id):
                needed: set[int] = set()
                self._earlier(member, group.interval.start, needed, 6)
                nodes = tuple(sorted(self._ids[g, None] for g in needed if (g, None) in self._ids))
                if 2 <= len(nodes) <= 5:
                    found[nodes] = None
        return list(found)

    def _earlier(self, member: GroupMember, start: int, needed: set[int], depth: int) -> None:
        for i in member.inputs:
            own = self.space.group(i)
            if own.interval is None and depth:
                for below, _ in self.space.members(i)[:1]:
                    self._earlier(below, start, needed, depth - 1)
            elif (
                own.interval is not None
                and own.interval.start < 0
                and own.interval.end <= start
                and self._may_keep(i, None)
            ):
                needed.add(own.id)


IMPLEMENTATIONS: dict[type[Op], Callable[[Implementation, list[Alternative], Member, Place], None]] = {
    Read: Implementation.read,
    Project: Implementation.project,
    Window: Implementation.window,
    **dict.fromkeys((Filter, Expand, Replicate, FinalState, Plus, Minus), Implementation.in_passing),
    **dict.fromkeys((Aggregate, AggregateState, MergeState, Affected), Implementation.group),
    **dict.fromkeys(JOINS, Implementation.join),
}
"""How an operator is carried out; one that is not here is carried out wherever its inputs are."""
