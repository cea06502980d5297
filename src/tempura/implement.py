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
    AntiJoin,
    Empty,
    Expand,
    Filter,
    FinalState,
    FullOuterJoin,
    InnerJoin,
    LeftOuterJoin,
    MergeState,
    Minus,
    Op,
    Plus,
    Project,
    Read,
    Replicate,
    Scan,
    SemiJoin,
    TopK,
    Window,
)
from tempura.choose.search import Alternative, Graph
from tempura.estimate import CostModel, Shape, Side, Stats, delta_stats, derive, table_stats
from tempura.estimate.deltas import CHANGES, Change, derive_change
from tempura.expr import split_condition
from tempura.memo.memo import Source
from tempura.schema import names
from tempura.space import Group, GroupMember, Space

Property = tuple[str, ...] | None
EPSILON = 1e-12
"""Work that even a free operator has, so that a derivation never goes in a circle."""

JOINS = (InnerJoin, LeftOuterJoin, FullOuterJoin, SemiJoin, AntiJoin)
RECOMPUTING = (*JOINS, Aggregate, AggregateState, Window, TopK)
"""The operators that are worth avoiding; the others are carried out in passing."""
TINY = 4e6
"""A side below this many bytes is broadcast without looking at anything else."""


class Choice(NamedTuple):
    """What an alternative of the search graph stands for."""

    kind: Literal["operator", "exchange", "scan"]
    op: Op | None
    source: Source
    broadcast: str | None = None
    recomputes: bool = False
    """Whether it computes a later snapshot from snapshots alone."""


EXCHANGE = Choice("exchange", None, Source("exchange", "physical"))


class Implementation:
    """The search graph of a plan space under a cost model."""

    def __init__(self, space: Space, cost: CostModel, exact: Callable[[int], float] | None = None):
        self.space = space
        self.cost = cost
        self.exact = exact
        """The true number of tuples of a group, where the data are known."""
        self._written = self._as_written()
        self.nodes: list[tuple[int, Property]] = []
        self.alternatives: list[list[Alternative]] = []
        self._ids: dict[tuple[int, Property], int] = {}
        self._stats: dict[int, Stats] = {}
        self._deltas: dict[int, bool] = {}
        self._pending: list[int] = []
        self.costings = 0

    # What is known of groups.

    def stats(self, group: int) -> Stats:
        """The group's estimated statistics, derived once, by the first of its members that does not lead back to it."""
        group = self.space.find(group)
        found = self._stats.get(group)
        if found is None:
            found = self._derive(group, frozenset())
            assert found is not None, "a group is derived only from itself"
        return found

    def _derive(self, group: int, above: frozenset[int]) -> Stats | None:
        found = self._stats.get(group)
        if found is not None or group in above:
            return found
        above |= {group}
        found = self._change(self.space.group(group), above)
        for member, _ in () if found is not None else self.space.members(group):
            if member.op is Read:
                found = self._base(self.space.group(group))
                break
            inputs = [self._derive(i, above) for i in member.inputs]
            known = [i for i in inputs if i is not None]
            if len(known) == len(inputs):
                schemas = [self.space.group(i).schema for i in member.inputs]
                found = derive(member.op.build(member.inputs, member.payload), known, schemas)
                break
        if found is not None:
            found = found if self.exact is None else found.thinned(self.exact(group))
            self._stats[group] = found
        return found

    def _change(self, group: Group, above: frozenset[int]) -> Stats | None:
        """A delta's statistics by its TVR's definition, whatever ways to compute it are known; None if the definition does not tell."""
        if group.tvr is None or group.interval is None or group.interval.start < 0:
            return None
        start, end = group.interval
        member = next(iter(self.space.memo.tvr(group.tvr).definitions))
        if member.op not in CHANGES:
            return None
        before, after = self._view(group.tvr, -1, start, above), self._view(group.tvr, -1, end, above)
        inputs: list[Change] = []
        for i in member.inputs:
            old, new = self._view(i, -1, start, above), self._view(i, -1, end, above)
            tables = self.space.memo.tvr(i).tables
            changes = self.space.ticks.seen(tables, start) < self.space.ticks.seen(tables, end)
            delta = self._view(i, start, end, above) if changes else None
            if old is None or new is None or (changes and delta is None):
                return None
            inputs.append(Change(self.space.memo.tvr(i).schema, old, new, delta))
        if before is None or after is None or all(i.delta is None for i in inputs):
            return None
        return derive_change(member.op.build(member.inputs, member.payload), inputs, before, after)

    def _view(self, tvr: int, start: int, end: int, above: frozenset[int]) -> Stats | None:
        """The statistics of a view, if the plan space has it."""
        found = self.space.known(tvr, start, end)
        return None if found is None else self._derive(found, above)

    def _base(self, group: Group) -> Stats:
        space = self.space
        assert group.tvr is not None and group.interval is not None
        scan = next(m for m in space.memo.tvr(group.tvr).definitions if m.op is Scan)
        table = space.catalog[scan.payload[0]]
        start, end = group.interval
        if start < 0:
            return table_stats(table, space.timeline, space.ticks.point_of(end), space.catalog)
        return delta_stats(table, space.timeline, space.ticks.point_of(start), space.ticks.point_of(end), space.catalog)

    def is_delta(self, group: int) -> bool:
        """Whether the group is a delta or a term of one."""
        found = self._deltas.get(group)
        if found is None:
            own = self.space.group(group)
            if own.interval is not None:
                found = own.interval.start >= 0
            else:
                self._deltas[group] = False
                found = any(self.is_delta(i) for m, _ in self.space.members(group)[:1] for i in m.inputs)
            self._deltas[group] = found
        return found

    # The graph.

    def graph(
        self, required: Sequence[tuple[int, int]], prices: Sequence[float], existing: Sequence[int] = ()
    ) -> Graph:
        """The search graph for results, given as (group, point)."""
        wanted = [(self.node(g, None), point) for g, point in required]
        while self._pending:
            self._fill(self._pending.pop())
        save: list[float] = []
        load: list[float] = []
        size: list[float] = []
        for group, place in self.nodes:
            stats = self.stats(group)
            save.append(
                self.cost.save(stats, place is not None) + self.cost.job() if self._may_keep(group, place) else math.inf
            )
            load.append(self.cost.load(stats) + EPSILON)
            size.append(stats.bytes)
        return Graph(
            alternatives=self.alternatives,
            available=[self.space.available(self.space.group(g)) for g, _ in self.nodes],
            save=save,
            load=load,
            required=wanted,
            deliver={n: self.cost.save(self.stats(self.nodes[n][0]), False) + self.cost.job() for n, _ in wanted},
            existing=frozenset(existing),
            size=size,
            prices=list(prices),
            groups=self._complements(),
        )

    def _may_keep(self, group: int, place: Property) -> bool:
        """A copy of a base table is only worth keeping if it is distributed; what is not deterministic must be computed when it is due."""
        own = self.space.group(group)
        if own.empty:
            return False
        if own.tvr is not None:
            record = self.space.memo.tvr(own.tvr)
            # Pieces of states are as many ways as there are to cut them: only those that one operator makes have a definition.
            loose = (
                not record.additive and self.is_delta(group) and next(iter(record.definitions)).op is not AggregateState
            )
            if record.volatile or loose:
                return False
        return self.cost.holds or place is not None or not any(m.op is Read for m in own.members)

    def node(self, group: int, place: Property) -> int:
        key = (self.space.find(group), place)
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
            found.append(
                Alternative(self.cost.exchange(self.stats(group)) + EPSILON, (self.node(group, None),), EXCHANGE)
            )
        output = self.stats(group)
        for member, source in self.space.members(group):
            op = member.op.build(member.inputs, member.payload)
            self._implement(found, op, member, source, output, place)

    def _add(
        self,
        found: list[Alternative],
        op: Op,
        source: Source,
        work: float,
        inputs: Sequence[int],
        broadcast: str | None = None,
    ) -> None:
        self.costings += 1
        again = isinstance(op, RECOMPUTING) and not any(self.is_delta(self.nodes[i][0]) for i in inputs)
        found.append(Alternative(work + EPSILON, tuple(inputs), Choice("operator", op, source, broadcast, again)))

    def _implement(
        self, found: list[Alternative], op: Op, member: GroupMember, source: Source, output: Stats, place: Property
    ) -> None:
        """Add the ways to carry out an operator so that its output has the property."""
        inputs = [self.stats(i) for i in member.inputs]
        shape = Shape(new=self._new(member) or None)
        match op:
            case Read():
                if place is None:
                    found.append(Alternative(self.cost.scan(output) + EPSILON, (), Choice("scan", op, source)))
            case Project():
                self._project(found, op, source, output, place, member, shape)
            case Filter() | Expand() | Replicate() | FinalState() | Plus() | Minus():
                keeps = (
                    place is None
                    or isinstance(op, (Filter, Replicate, FinalState, Plus, Minus))
                    or not set(place) & set(op.columns)
                )
                if keeps and (
                    place is None or all(set(place) <= set(names(self.space.group(i).schema)) for i in member.inputs)
                ):
                    work = self.cost.work(op, inputs, output, shape)
                    self._add(found, op, source, work, [self.node(i, place) for i in member.inputs])
            case Aggregate() | AggregateState() | MergeState() | Affected():
                self._group(found, op, source, output, place, member, shape)
            case Window():
                if place is None or place == _place(op.partition):
                    self._window(found, op, source, output, member, shape)
            case InnerJoin() | LeftOuterJoin() | FullOuterJoin() | SemiJoin() | AntiJoin():
                self._join(found, op, source, output, place, member, shape)
            case Empty():
                self._add(found, op, source, 0.0, ())
            case _:
                if place is None:
                    work = self.cost.work(op, inputs, output, shape)
                    self._add(found, op, source, work, [self.node(i, None) for i in member.inputs])

    def _as_written(self) -> frozenset[tuple[Any, ...]]:
        """The conditions of the joins and the lists of the aggregates that stand in the query as bound."""
        written = (m for t in self.space.memo.tvrs() for m, source in t.definitions.items() if source.rule == "query")
        return frozenset(m.payload for m in written if issubclass(m.op, (*JOINS, Aggregate)))

    def _new(self, member: GroupMember) -> tuple[bool, ...]:
        """Which inputs bring tuples that are new to an operator of the query: derived deltas, or all that is derived where there is no delta.

        Base tuples are counted where they are read. An operator that the query does not have, such as a look-up of flipped keys, counts nothing.
        """
        if not self.cost.holds:
            return ()
        if member.op is Minus:
            return tuple(not self.is_delta(i) for i in member.inputs)
        if member.payload not in self._written:
            return tuple(False for _ in member.inputs)
        deltas = tuple(self.is_delta(i) for i in member.inputs)
        return tuple(
            (delta or not any(deltas)) and self._counts(i, member)
            for i, delta in zip(member.inputs, deltas, strict=True)
        )

    def _counts(self, group: int, member: GroupMember) -> bool:
        return issubclass(member.op, (Aggregate, AggregateState)) or not self._is_base(group)

    def _is_base(self, group: int) -> bool:
        """Whether the group is rows of one base table, filtered or projected."""
        members = self.space.members(group)
        if not members:
            return False
        first = members[0][0]
        return first.op is Read or (first.op in (Filter, Project, Plus) and all(self._is_base(i) for i in first.inputs))

    def _project(
        self,
        found: list[Alternative],
        op: Project,
        source: Source,
        output: Stats,
        place: Property,
        member: GroupMember,
        shape: Shape,
    ) -> None:
        (below,) = member.inputs
        read = next((m for m, _ in self.space.members(below) if m.op is Read), None)
        if read is not None and place is None and all(o.expr.name for o in op.outputs):
            # A columnar file is read by column: what is not needed is not read.
            tree = op.over([read.op.build((), read.payload)])
            self.costings += 1
            found.append(Alternative(self.cost.scan(output) + EPSILON, (), Choice("scan", tree, source)))
            return
        if place is not None:
            came_from = {o.name: o.expr.name for o in op.outputs}
            origin = tuple(came_from.get(c) for c in place)
            if any(c is None for c in origin):
                return
            place = _place([c for c in origin if c is not None])
        work = self.cost.work(op, [self.stats(below)], output, shape)
        self._add(found, op, source, work, [self.node(below, place)])

    def _group(
        self,
        found: list[Alternative],
        op: Any,
        source: Source,
        output: Stats,
        place: Property,
        member: GroupMember,
        shape: Shape,
    ) -> None:
        by = op.columns if isinstance(op, Affected) else op.by
        if place is not None and place != _place(by):
            return
        inputs = [self.stats(i) for i in member.inputs]
        work = self.cost.work(op, inputs, output, shape)
        shipped = self.cost.exchange(self.cost.shipped(op, inputs, output))
        self._add(found, op, source, work + shipped, [self.node(i, None) for i in member.inputs])
        if by and sum(i.bytes for i in inputs) > TINY:
            self._add(found, op, source, work, [self.node(i, _place(by)) for i in member.inputs])

    def _window(
        self, found: list[Alternative], op: Window, source: Source, output: Stats, member: GroupMember, shape: Shape
    ) -> None:
        (below,) = member.inputs
        stats = self.stats(below)
        work = self.cost.work(op, [stats], output, shape)
        self._add(found, op, source, work + self.cost.exchange(stats), [self.node(below, None)])
        if op.partition and stats.bytes > TINY:
            self._add(found, op, source, work, [self.node(below, _place(op.partition))])

    def _join(
        self,
        found: list[Alternative],
        op: Any,
        source: Source,
        output: Stats,
        place: Property,
        member: GroupMember,
        shape: Shape,
    ) -> None:
        left, right = member.inputs
        a, b = self.stats(left), self.stats(right)
        both: tuple[tuple[Side, Stats], ...] = (("right", b), ("left", a))
        sides: list[Side] = [s for s, stats in both if self.cost.may_broadcast(op, s, stats)]
        if len(sides) == 2:
            sides = sides[1:] if a.bytes < b.bytes else sides[:1]
        for side in sides:
            small = a if side == "left" else b
            if place is not None and (side == "left" or not set(place) <= set(names(self.space.group(left).schema))):
                continue
            work = self.cost.work(op, [a, b], output, Shape(side, shape.new)) + self.cost.broadcast(small)
            self._add(
                found,
                op,
                source,
                work,
                [self.node(left, place if side == "right" else None), self.node(right, None)],
                side,
            )
            if small.bytes < TINY:
                return
        equi = split_condition(op.on, names(self.space.group(left).schema), names(self.space.group(right).schema)).equi
        work = self.cost.work(op, [a, b], output, shape)
        keys = [(e.left.name, e.right.name) for e in equi]
        if not keys or any(x is None or y is None for x, y in keys):
            if place is None:
                moved = self.cost.exchange(a) + self.cost.exchange(b) if equi else self.cost.broadcast(b)
                self._add(found, op, source, work + moved, [self.node(left, None), self.node(right, None)])
            return
        pairs = sorted((x, y) for x, y in keys if x is not None and y is not None)
        by_left, by_right = tuple(x for x, _ in pairs), tuple(y for _, y in pairs)
        if (
            place is None
            or (place == by_left and not isinstance(op, FullOuterJoin))
            or (place == by_right and isinstance(op, InnerJoin))
        ):
            self._add(found, op, source, work, [self.node(left, by_left), self.node(right, by_right)])

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


def _place(columns: Sequence[str]) -> tuple[str, ...]:
    return tuple(sorted(columns))
