"""What a group is, as a batch query over snapshots of base tables, whatever way it is computed.

It is the TVR's first definition over snapshots; a delta is the difference of two of those, the delta of a state the state of its input's delta. Tests compare
what was written with it, and two plans know by it that they mean the same state.
"""

from __future__ import annotations

import hashlib
from typing import Any
from uuid import uuid4

from tempura.algebra import AggregateState, Expand, Minus, Op, Plus, Read
from tempura.algebra.op import expressions
from tempura.algebra.physical import point_of, snapshot_name
from tempura.catalog import Catalog
from tempura.space import GroupMember, Space
from tempura.timeline import Interval
from tempura.volatile import volatile_function


class Definitions:
    """The definitions of the groups of a plan space."""

    def __init__(self, space: Space):
        self.space = space
        self._known: dict[tuple[int, int | None], Op] = {}

    def of(self, group: int) -> Op:
        """What the group is, as a batch query over snapshots of base tables."""
        own = self.space.group(group)
        if own.tvr is None or own.interval is None:
            member, _ = self.space.members(group)[0]
            return _over(member, [self.of(i) for i in member.inputs])
        return self._view_definition(own.tvr, own.interval)

    def _view_definition(self, tvr: int, interval: Interval) -> Op:
        space = self.space
        record = space.memo.tvr(tvr)
        first = next(iter(record.definitions))
        start, end = interval
        if start < 0:
            at = space.ticks.seen(record.tables, end)
            found = self._known.get((record.id, at))
            if found is None:
                if not first.inputs and first.op.__name__ == "Scan":
                    found = _base(space.catalog, first.payload, space.timeline.points[space.ticks.point_of(at)].name)
                else:
                    found = first.op.build(
                        [self._view_definition(i, Interval(-1, at)) for i in first.inputs], first.payload
                    )
                self._known[record.id, at] = found
            return found
        if record.additive:
            return Minus(self._view_definition(tvr, Interval(-1, end)), self._view_definition(tvr, Interval(-1, start)))
        if first.op is AggregateState:
            return AggregateState(self._view_definition(first.inputs[0], interval), *first.payload)
        return Plus(tuple(self._view_definition(i, interval) for i in first.inputs))


class Fingerprints:
    """Short texts that are equal for trees that give equal rows; what trees share is looked at once. A volatile tree is equal to none that was looked at before."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Op, str]] = {}

    def of(self, op: Op) -> str:
        known = self._known.get(id(op))
        if known is None:
            types = {c.name: c.type for i in op.inputs for c in i.schema}
            own = uuid4().hex if any(volatile_function(e.tree, types) for e in expressions(op.payload)) else ""
            # People are shown names without quotes, and sets without their order.
            exact = [e.text for e in expressions(op.payload)] + list(op.columns if isinstance(op, Expand) else ())
            said = "\n".join([op.show(), own, *exact, *(self.of(i) for i in op.inputs)])
            # The tree is kept as well, so that no other gets its id.
            known = self._known[id(op)] = (op, hashlib.sha256(said.encode()).hexdigest()[:32])
        return known[1]


def points(definition: Op) -> tuple[str, ...]:
    """The points at which the versions of tables came that a definition is over."""
    found: dict[str, None] = {}
    seen: set[int] = set()
    todo = [definition]
    while todo:
        op = todo.pop()
        if id(op) not in seen:
            seen.add(id(op))
            todo += op.inputs
            if isinstance(op, Read):
                found[point_of(op.name)] = None
    return tuple(sorted(found))


def _base(catalog: Catalog, payload: tuple[Any, ...], point: str) -> Read:
    table, schema, _ = payload
    return Read(snapshot_name(table, point), schema, False, catalog[table].keys)


def _over(member: GroupMember, inputs: list[Op]) -> Op:
    return member.op.build(inputs, member.payload)
