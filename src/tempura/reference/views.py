"""The values of all views on given data, by the reference interpreter: the oracle for rules, and exact sizes for small examples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import add
from typing import Any

from tempura.algebra import AggregateCall, AggregateState, Minus, Op, Read, Scan
from tempura.algebra.incremental import ROWS, part_column
from tempura.errors import TempuraError
from tempura.memo.memo import Member, Source, Term, ViewRef
from tempura.reference.interpreter import Bag, apply
from tempura.schema import Schema, names
from tempura.space import Group, GroupMember, Space
from tempura.timeline import Interval

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
        if member.op is AggregateState and memo.tvr(member.inputs[0]).additive:
            below = self.view(member.inputs[0], start, end)
            return _apply(member.op, member.payload, [below], [memo.tvr(member.inputs[0]).schema], record.schema)
        return minus(self.snapshot(tvr, end), self.snapshot(tvr, start))

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

    def first_wrong(self) -> Source | None:
        """Who first said something that is not so, of what rules said and before groups were unified by it; None if nobody did."""
        memo, space = self.space.memo, self.space
        for record in memo.tvrs():
            for member, source in record.definitions.items():
                ends = {space.ticks.seen(record.tables, tick) for tick in range(len(space.ticks.ticks))}
                if member.op is not Scan and any(
                    self._denies(record.id, -1, end, member, Interval(-1, end)) for end in ends
                ):
                    return source
            for interval in space.over:
                start, end = (space.ticks.seen(record.tables, tick) for tick in interval)
                span = memo.spans.signature(record.tables, interval)
                if span is None:
                    continue
                for begin, said in ((start, record.deltas.get(span, {})), (-1, record.news.get(span, {}))):
                    for term, source in said.items():
                        if self._denies(record.id, begin, end, term, interval):
                            return source
        return None

    def _denies(self, tvr: int, start: int, end: int, said: Member | Term | ViewRef, over: Interval) -> bool:
        """Whether a view is not what it is said to be, or what is said cannot be computed."""
        record = self.space.memo.tvr(tvr)
        try:
            want = self.view(tvr, start, end)
            if isinstance(said, Member):
                schemas = [self.space.memo.tvr(i).schema for i in said.inputs]
                got = _apply(
                    said.op, said.payload, [self.snapshot(i, end) for i in said.inputs], schemas, record.schema
                )
            else:
                got, given = self._term(said, over)
                got = _reordered(got, given, record.schema)
        except TempuraError:
            return True
        want, got = (self._merged(tvr, start, record.schema, bag) for bag in (want, got))
        return got != want

    def _term(self, term: Term | ViewRef, interval: Interval) -> tuple[Bag, Schema]:
        """A term over an interval as it was said, and its columns."""
        if isinstance(term, ViewRef):
            start = interval.start if term.kind == "delta" else -1
            tick = interval.start if term.kind == "old" else interval.end
            return self.view(term.tvr, start, tick), self.space.memo.tvr(term.tvr).schema
        inputs, schemas = zip(*(self._term(i, interval) for i in term.inputs), strict=True)
        given = term.op.build(range(len(inputs)), term.payload).columns_from(schemas)
        return _apply(term.op, term.payload, inputs, schemas, given), given

    def _comparable(self, group: Group, bag: Bag) -> Bag:
        if group.tvr is None or group.interval is None:
            return bag
        return self._merged(group.tvr, group.interval.start, group.schema, bag)

    def _merged(self, tvr: int, start: int, schema: Schema, bag: Bag) -> Bag:
        """Deltas of states may be given in pieces: they are compared merged."""
        record = self.space.memo.tvr(tvr)
        if record.additive or start < 0:
            return bag
        first = next(iter(record.definitions))
        return merged(bag, schema, first.payload[1] if first.op is AggregateState else ())


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


def merged(bag: Bag, schema: Schema, calls: Sequence[AggregateCall] = ()) -> Bag:
    """Pieces of states added up per group; groups in which every part is zero say nothing."""
    extremes = {part_column(c, "m"): min if c.function in ("min", "bool_and") else max for c in calls}
    is_part = [c.name == ROWS or c.name.startswith(("__c_", "__s_", "__q_", "__m_")) for c in schema]
    join = [extremes.get(c.name, add) for c, p in zip(schema, is_part, strict=True) if p]
    total: dict[tuple[Any, ...], list[Any]] = {}
    for row, weight in bag.items():
        parts = total.setdefault(tuple(v for v, p in zip(row, is_part, strict=True) if not p), [None] * len(join))
        for i, value in enumerate(v for v, p in zip(row, is_part, strict=True) if p):
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
