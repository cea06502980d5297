"""The values of all views on given data, by the reference interpreter: the oracle for rules, and exact sizes for small examples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import add
from typing import Any

from tempura.algebra import AggregateState, Minus, Op, Read, Scan
from tempura.algebra.incremental import part_column
from tempura.memo.memo import Source
from tempura.reference.interpreter import Bag, apply
from tempura.schema import Schema, names
from tempura.space import Group, GroupMember, Space

History = Mapping[str, Sequence[Bag]]
"""For each table, its rows at each point."""


class Evaluation:
    """The values of all groups of a plan space on given data."""

    def __init__(self, space: Space, history: History):
        self.space = space
        self.history = history
        self._snapshots: dict[tuple[int, int], Bag] = {}
        self._values: dict[int, Bag] = {}

    def table(self, table: str, point: int) -> Bag:
        return self.history[table][point]

    def snapshot(self, tvr: int, tick: int) -> Bag:
        """A TVR at a tick, by its first definition."""
        memo = self.space.memo
        record = memo.tvr(tvr)
        tick = self.space.ticks.seen(record.tables, tick)
        found = self._snapshots.get((record.id, tick))
        if found is None:
            member = next(iter(record.definitions))
            if member.op is Scan:
                found = self.table(member.payload[0], self.space.ticks.point_of(tick))
            else:
                inputs = [self.snapshot(i, tick) for i in member.inputs]
                found = _apply(
                    member.op, member.payload, inputs, [memo.tvr(i).schema for i in member.inputs], record.schema
                )
            self._snapshots[record.id, tick] = found
        return found

    def view(self, tvr: int, start: int, end: int) -> Bag:
        """A view by definition."""
        if start < 0:
            return self.snapshot(tvr, end)
        memo = self.space.memo
        record = memo.tvr(tvr)
        if record.additive:
            return minus(self.snapshot(tvr, end), self.snapshot(tvr, start))
        member = next(iter(record.definitions))
        if member.op is AggregateState:
            below = self.view(member.inputs[0], start, end)
            return _apply(member.op, member.payload, [below], [memo.tvr(member.inputs[0]).schema], record.schema)
        return _merged([self.view(i, start, end) for i in member.inputs], member.payload, record.schema)

    def value(self, group: int) -> Bag:
        """A group's value: a view's by definition, a term's by its first member."""
        group = self.space.find(group)
        found = self._values.get(group)
        if found is None:
            own = self.space.group(group)
            if own.tvr is not None and own.interval is not None:
                found = self.view(own.tvr, *own.interval)
                found = _reordered(found, self.space.memo.tvr(own.tvr).schema, own.schema)
            else:
                member, _ = self.space.members(group)[0]
                found = self.member(own, member)
            self._values[group] = found
        return found

    def member(self, group: Group, member: GroupMember) -> Bag:
        """What a member gives, with its columns in the group's order."""
        if member.op is Read:
            assert group.tvr is not None and group.interval is not None
            return self.view(group.tvr, *group.interval)
        inputs = [self.value(i) for i in member.inputs]
        schemas = [self.space.group(i).schema for i in member.inputs]
        return _apply(member.op, member.payload, inputs, schemas, group.schema)

    def size(self, group: int) -> float:
        """How many tuples a group lists."""
        return float(sum(abs(n) for n in self.value(group).values()))

    def disagreements(self) -> list[tuple[Group, GroupMember, Source, Bag, Bag]]:
        """The members that do not give their group's value."""
        found: list[tuple[Group, GroupMember, Source, Bag, Bag]] = []
        for group in self.space.all_groups():
            want = self.value(group.id)
            for member, source in self.space.members(group.id):
                got = self.member(group, member)
                if self._comparable(group, got) != self._comparable(group, want):
                    found.append((group, member, source, want, got))
        return found

    def _comparable(self, group: Group, bag: Bag) -> Bag:
        """Deltas of states may be given in pieces: they are compared merged."""
        memo = self.space.memo
        if group.tvr is None or memo.tvr(group.tvr).additive or group.interval is None or group.interval.start < 0:
            return bag
        first = next(iter(memo.tvr(group.tvr).definitions))
        return _merged([bag], first.payload, group.schema)


def _apply(
    op: type[Op], payload: tuple[Any, ...], inputs: Sequence[Bag], schemas: Sequence[Schema], wanted: Schema
) -> Bag:
    built = op.build(range(len(inputs)), payload)
    if op.variadic:
        inputs = [_reordered(bag, schema, schemas[0]) for bag, schema in zip(inputs, schemas, strict=True)]
        schemas = [schemas[0]] * len(inputs)
    elif len(inputs) == 2 and op is Minus:
        inputs = [inputs[0], _reordered(inputs[1], schemas[1], schemas[0])]
        schemas = [schemas[0], schemas[0]]
    return _reordered(apply(built, inputs, schemas), built.columns_from(schemas), wanted)


def _reordered(bag: Bag, schema: Schema, wanted: Schema) -> Bag:
    if names(schema) == names(wanted):
        return bag
    at = [names(schema).index(c) for c in names(wanted)]
    return {tuple(row[i] for i in at): n for row, n in bag.items()}


def _merged(bags: Sequence[Bag], payload: tuple[Any, ...], schema: Schema) -> Bag:
    """States of the same groups added up; groups in which every part is zero say nothing."""
    by, calls = payload[0], payload[1]
    extremes = {part_column(c, "m"): min if c.function in ("min", "bool_and") else max for c in calls}
    join = [extremes.get(c.name, add) for c in schema[len(by) :]]
    total: dict[tuple[Any, ...], list[Any]] = {}
    for bag in bags:
        for row, weight in bag.items():
            parts = total.setdefault(row[: len(by)], [None] * len(join))
            for i, value in enumerate(row[len(by) :]):
                if value is not None:
                    value = value * weight if join[i] is add else value
                    parts[i] = value if parts[i] is None else join[i](parts[i], value)
    return {(*group, *(p or 0 for p in parts)): 1 for group, parts in total.items() if any(parts)}


def minus(a: Bag, b: Bag) -> Bag:
    """The difference of two bags."""
    found = dict(a)
    for row, n in b.items():
        found[row] = found.get(row, 0) - n
    return {row: n for row, n in found.items() if n}
