"""What is known of a group: how many tuples it has, whether it is a delta, and which of an operator's inputs are new to it."""

from __future__ import annotations

from collections.abc import Callable

from tempura.algebra import Affected, Aggregate, AggregateState, Filter, Minus, Plus, Project, Read, Scan
from tempura.algebra.joins import JOINS
from tempura.estimate.deltas import CHANGES, Change, derive_change
from tempura.estimate.relation import Stats
from tempura.estimate.stats import derive
from tempura.estimate.tables import delta_stats, table_stats
from tempura.space import GroupMember, Space

Above = frozenset[int | tuple[int, int, int]]
"""What is being derived: groups, and views that are none."""


class Knowledge:
    """Estimates for the groups of a plan space."""

    def __init__(self, space: Space, exact: Callable[[int], float] | None = None):
        self.space = space
        self.exact = exact
        """The true number of tuples of a group, where the data are known."""
        written = (m for t in space.memo.tvrs() for m, source in t.definitions.items() if source.rule == "query")
        self._written = frozenset(m.payload for m in written if issubclass(m.op, (*JOINS, Aggregate)))
        self._stats: dict[int, Stats] = {}
        self._unneeded: dict[tuple[int, int, int], Stats] = {}
        self._deltas: dict[int, bool] = {}

    def stats(self, group: int) -> Stats:
        """The group's estimated statistics, derived once: a delta's by the definition of its TVR, others by the first member that does not lead back."""
        group = self.space.find(group)
        found = self._stats.get(group)
        if found is None:
            found = self._derive(group, frozenset())
            assert found is not None, "a group is derived only from itself"
        return found

    def _derive(self, group: int, above: Above) -> Stats | None:
        found = self._stats.get(group)
        if found is not None or group in above:
            return found
        above |= {group}
        own = self.space.group(group)
        if own.tvr is not None and own.interval is not None and own.interval.start >= 0:
            found = self._change(own.tvr, *own.interval, above)
        for member, _ in () if found is not None else self.space.members(group):
            if member.op is Read:
                assert own.interval is not None
                # Not by the TVR: with nothing to join yet, an outer join is the same group as the table that it preserves.
                found = self._base(str(member.payload[0]).partition("@")[0], *own.interval)
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

    def _change(self, tvr: int, start: int, end: int, above: Above) -> Stats | None:
        """A delta's statistics by its TVR's definition, whatever ways to compute it are known; None if the definition does not tell."""
        memo, ticks = self.space.memo, self.space.ticks
        member = next(iter(memo.tvr(tvr).definitions))
        if member.op not in CHANGES:
            return None
        inputs: list[Change] = []
        for i in member.inputs:
            old, new = self._view(i, -1, start, above), self._view(i, -1, end, above)
            tables = memo.tvr(i).tables
            changes = ticks.seen(tables, start) < ticks.seen(tables, end)
            delta = self._view(i, start, end, above) if changes else None
            if old is None or new is None or (changes and delta is None):
                return None
            inputs.append(Change(memo.tvr(i).schema, old, new, delta))
        before, after = self._view(tvr, -1, start, above), self._view(tvr, -1, end, above)
        if before is None or after is None or all(i.delta is None for i in inputs):
            return None
        return derive_change(member.op.build(member.inputs, member.payload), inputs, before, after)

    def _view(self, tvr: int, start: int, end: int, above: Above) -> Stats | None:
        """The statistics of a view; of one that no plan needs, by its TVR's definition."""
        group = self.space.known(tvr, start, end)
        if group is not None:
            return self._derive(group, above)
        record = self.space.memo.tvr(tvr)
        key = (record.id, start, self.space.ticks.seen(record.tables, end))
        if key in self._unneeded or key in above:
            return self._unneeded.get(key)
        above |= {key}
        found: Stats | None = None
        member = next(iter(record.definitions))
        if member.op is Scan:
            found = self._base(member.payload[0], start, end)
        elif start >= 0:
            found = self._change(record.id, start, end, above)
        else:
            inputs = [self._view(i, -1, end, above) for i in member.inputs]
            known = [i for i in inputs if i is not None]
            if known and len(known) == len(inputs):
                schemas = [self.space.memo.tvr(i).schema for i in member.inputs]
                found = derive(member.op.build(member.inputs, member.payload), known, schemas)
        if found is not None:
            self._unneeded[key] = found
        return found

    def _base(self, name: str, start: int, end: int) -> Stats:
        space = self.space
        table = space.catalog[name]
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

    def names_more(self, group: int) -> bool:
        """Whether the group is a term that depends on which keys a delta names beyond its net rows (`Affected`)."""
        own = self.space.group(group)
        if own.tvr is not None:
            return False
        return any(
            m.op is Affected or any(self.names_more(i) for i in m.inputs) for m, _ in self.space.members(group)[:1]
        )

    def new_inputs(self, member: GroupMember) -> tuple[bool, ...]:
        """Which inputs bring tuples that are new to an operator of the query: derived deltas, or all that is derived where there is no delta.

        Base tuples are counted where they are read. An operator that the query does not have, such as a look-up of flipped keys, counts nothing.
        """
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
