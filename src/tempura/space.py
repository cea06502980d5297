"""The plan space: what exploration found, laid out over the real timeline.

Exploration speaks of spans and TVRs; here every law is instantiated for the concrete times that the results need, and no others. A **group** is a
view at a time (`summary[t2]`, `sales[t1:t2]`) or a term of one; its members are operators over other groups. A key that gets two values
means that the two groups are the same, and they are unified. Deltas over intervals in which nothing changes are empty, and
what is empty is pruned before it costs anything.

A snapshot's members are the definitions of its TVR at that time, and, for each interval that ends there, what the rules said of `Q[u]`.
A delta's members are what the rules said of `Q[t:u]`, and the sum of the deltas across the single ticks of the interval.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from tempura.algebra import Empty, MergeState, Op, Plus, Project, Read, Scan
from tempura.algebra.empties import prune
from tempura.algebra.physical import delta_name, snapshot_name
from tempura.catalog import Catalog
from tempura.memo.memo import QUERY, Memo, Source, Term, ViewRef
from tempura.memo.unionfind import UnionFind
from tempura.rules.views import kept
from tempura.schema import Schema
from tempura.timeline import Interval, Ticks, Timeline

TICKS = Source("sum_of_ticks", "intra")
STEPS = Source("sum_of_steps", "intra")


class GroupMember(NamedTuple):
    """An operator over groups."""

    op: type[Op]
    inputs: tuple[int, ...]
    payload: tuple[Any, ...]


class Group:
    """A view at a time, or a term of one."""

    __slots__ = ("empty", "id", "interval", "members", "others", "schema", "tvr")

    def __init__(self, id: int, schema: Schema, tvr: int | None, interval: Interval | None):
        self.id = id
        self.schema = schema
        self.tvr = tvr
        self.interval = interval
        """For a view: (-1, t) for the snapshot at tick t, (a, b) for a delta."""
        self.others: list[tuple[int, Interval]] = []
        """Other views at other times that turned out to be the same."""
        self.members: dict[GroupMember, Source] = {}
        self.empty = False

    @property
    def views(self) -> list[tuple[int, Interval]]:
        """All views that it is, at their times; none if it is but a term."""
        return [] if self.tvr is None or self.interval is None else [(self.tvr, self.interval), *self.others]


FEW = 4
"""Up to this many points, deltas may jump over points at which nothing is done."""


def intervals(ticks: Ticks, delivering: Iterable[int], guided: bool) -> tuple[Interval, ...]:
    """The intervals over which deltas are considered: steps, single ticks, and with few points jumps to where results are due.

    Guided exploration (GE) merges a snapshot only with the delta that follows it, so longer deltas are only worth having as jumps over points
    at which nothing is done. Without it every pair of points is an interval.
    """
    ends = ticks.last_of_point
    found = [*ticks.steps]
    targets = range(len(ends)) if not guided else sorted(set(delivering)) if len(ends) <= FEW else ()
    found += [Interval(ends[i], ends[j]) for j in targets for i in range(j) if ends[i] < ends[j]]
    found += [Interval(i - 1, i) for i in range(1, len(ticks.ticks))]
    return tuple(dict.fromkeys(found))


class Space:
    """The groups that results need, and all ways to compute them."""

    def __init__(
        self,
        memo: Memo,
        ticks: Ticks,
        timeline: Timeline,
        catalog: Catalog,
        over: Sequence[Interval],
        guided: bool = True,
    ):
        self.memo = memo
        self.ticks = ticks
        self.timeline = timeline
        self.catalog = catalog
        self.over = over
        self.guided = guided
        self.groups: list[Group] = []
        self._sets = UnionFind()
        self._views: dict[tuple[int, int, int], int] = {}
        self._by_member: dict[tuple[GroupMember, bool], int] = {}
        self._empties: dict[tuple[tuple[str, str], ...], int] = {}
        self._pending: list[int] = []
        self._ending: dict[tuple[frozenset[str], int], tuple[Interval, ...]] = {}
        self._members: dict[int, list[tuple[GroupMember, Source]]] = {}
        self._available: dict[int, int] = {}

    # Asking.

    def find(self, group: int) -> int:
        return self._sets.find(group)

    def group(self, group: int) -> Group:
        return self.groups[self._sets.find(group)]

    def all_groups(self) -> list[Group]:
        return [g for g in self.groups if self._sets.find(g.id) == g.id]

    def members(self, group: int) -> list[tuple[GroupMember, Source]]:
        """The ways to compute a group, over representatives, without ways that need the group itself."""
        own = self._sets.find(group)
        known = self._members.get(own)
        if known is None:
            found: dict[GroupMember, Source] = {}
            find = self._sets.find
            for m, source in self.groups[own].members.items():
                inputs = tuple(find(i) for i in m.inputs)
                if own not in inputs:
                    _say(found, m if inputs == m.inputs else GroupMember(m.op, inputs, m.payload), source)
            known = self._members[own] = list(found.items())
        return known

    def available(self, group: Group) -> int:
        """The first point at which the group can be computed."""
        if group.views:
            return min(self.ticks.point_of(interval.end) for _, interval in group.views)
        found = self._available.get(group.id)
        if found is None:
            inputs = (i for m, _ in self.members(group.id)[:1] for i in m.inputs)
            found = self._available[group.id] = max((self.available(self.group(i)) for i in inputs), default=0)
        return found

    def until(self, group: Group) -> int:
        """The last point at which computing the group is considered: with many points, the first that knows something newer.

        There it may be what a delta starts from; later only if it was kept.
        """
        last = len(self.timeline.points) - 1
        if last < FEW:
            return last
        if not group.views:
            inputs = (i for m, _ in self.members(group.id)[:1] for i in m.inputs)
            return max(min((self.until(self.group(i)) for i in inputs), default=last), self.available(group))
        return max(self._outdated(tvr, interval.end) for tvr, interval in group.views)

    def _outdated(self, tvr: int, end: int) -> int:
        """The first point that knows something newer of a view, or the last one."""
        tables = self.memo.tvr(tvr).tables
        newer = (p for p, tick in enumerate(self.ticks.last_of_point) if self.ticks.seen(tables, tick) > end)
        return next(newer, len(self.timeline.points) - 1)

    def known(self, tvr: int, start: int, end: int) -> int | None:
        """The group of Q[u] (start -1) or Q[t:u], if something needs it."""
        record = self.memo.tvr(tvr)
        seen = self.ticks.seen(record.tables, end)
        if start < 0:
            found = self._views.get((record.id, -1, seen))
            return None if found is None else self.find(found)
        first = self.ticks.seen(record.tables, start)
        before = self._views.get((record.id, -1, first))
        if record.additive and before is not None and self.group(before).empty:
            first = -1
        found = self._views.get((record.id, first, seen))
        return None if found is None else self.find(found)

    # Building.

    def require(self, tvr: int, point: int) -> int:
        """The group of a result: the TVR's snapshot at a point."""
        found = self.snapshot(tvr, self.ticks.last_of_point[point])
        while self._pending:
            self._expand(self._pending.pop())
        self._members.clear()
        return self.find(found)

    def another(self, group: int) -> int:
        """A group of its own with the rows of another: two results may have the same, and each is delivered."""
        schema = self.group(group).schema
        found = self._new(schema, None, None)
        self.groups[found].members[GroupMember(Project, (group,), (kept(schema),))] = QUERY
        return found

    def snapshot(self, tvr: int, tick: int) -> int:
        """The group of Q[t]."""
        record = self.memo.tvr(tvr)
        return self._view(record.id, -1, self.ticks.seen(record.tables, tick))

    def delta(self, tvr: int, interval: Interval) -> int:
        """The group of Q[t:u]."""
        record = self.memo.tvr(tvr)
        start, end = self.ticks.seen(record.tables, interval.start), self.ticks.seen(record.tables, interval.end)
        if start == end:
            return self._empty(record.schema)
        if record.additive and self.groups[self.find(self._view(record.id, -1, start))].empty:
            return self._view(record.id, -1, end)
        return self._view(record.id, start, end)

    def _view(self, tvr: int, start: int, end: int) -> int:
        key = (tvr, start, end)
        found = self._views.get(key)
        if found is None:
            record = self.memo.tvr(tvr)
            if self._has_nothing(tvr, start, end):
                found = self._empty(record.schema)
            else:
                found = self._new(record.schema, tvr, Interval(start, end))
                self._pending.append(found)
            self._views[key] = found
        return self.find(found)

    def _has_nothing(self, tvr: int, start: int, end: int) -> bool:
        """Whether the view is known to be empty: an empty TVR, or a table of which nothing has arrived."""
        record = self.memo.tvr(tvr)
        first = next(iter(record.definitions))
        if any(m.op is Empty for m in record.definitions):
            return True
        if first.op is Scan and start < 0:
            return self.catalog[first.payload[0]].rows(self.timeline, self.ticks.point_of(end)) == 0
        return False

    def _new(self, schema: Schema, tvr: int | None, interval: Interval | None) -> int:
        group = self._sets.add()
        self.groups.append(Group(group, schema, tvr, interval))
        return group

    def _empty(self, schema: Schema) -> int:
        key = tuple((c.name, c.type) for c in schema)
        found = self._empties.get(key)
        if found is None:
            found = self._empties[key] = self._new(schema, None, None)
            self.groups[found].empty = True
            self.groups[found].members[GroupMember(Empty, (), (schema,))] = QUERY
        return self.find(found)

    def _expand(self, group: int) -> None:
        own = self.groups[group]
        assert own.tvr is not None and own.interval is not None
        start, end = own.interval
        record = self.memo.tvr(own.tvr)
        if start < 0:
            for member, source in list(record.definitions.items()):
                if member.op is Scan:
                    self._add(group, Read, (), self._read(member.payload, -1, end), source)
                else:
                    self._add(group, member.op, [self.snapshot(i, end) for i in member.inputs], member.payload, source)
            for interval in self._intervals_ending(record.tables, end):
                self._instantiate(group, record.news, interval)
        else:
            scan = next((m for m in record.definitions if m.op is Scan), None)
            if scan is not None:
                self._add(group, Read, (), self._read(scan.payload, start, end), QUERY)
                return
            self._instantiate(group, record.deltas, own.interval)
            self._sums(group, record.id, own.interval)

    def _read(self, payload: tuple[Any, ...], start: int, end: int) -> tuple[Any, ...]:
        table, schema, key = payload
        point = self.timeline.points[self.ticks.point_of(end)].name
        keys = frozenset([frozenset(key)]) if key else frozenset[frozenset[str]]()
        if start < 0:
            return snapshot_name(table, point), schema, False, keys
        before = self.timeline.points[self.ticks.point_of(start)].name
        return delta_name(table, before, point), schema, self.catalog[table].can_retract, frozenset[frozenset[str]]()

    def _intervals_ending(self, tables: frozenset[str], end: int) -> tuple[Interval, ...]:
        key = (tables, end)
        found = self._ending.get(key)
        if found is None:
            seen = self.ticks.seen
            ending = ((seen(tables, i.start), i) for i in self.over if seen(tables, i.end) == end)
            found = tuple(dict.fromkeys(Interval(start, end) for start, _ in ending if start < end))
            self._ending[key] = found
        return found

    def _instantiate(self, group: int, said: Any, interval: Interval) -> None:
        """What rules said of a view over a span, for an interval."""
        record = self.memo.tvr(self._tvr_of(group))
        span = self.memo.spans.signature(record.tables, interval)
        for term, source in list(said.get(span, {}).items()):
            if isinstance(term, ViewRef):
                self._same(group, self._ref(term, interval))
            else:
                inputs = [self._term(i, interval, source) for i in term.inputs]
                self._add(group, term.op, inputs, term.payload, source)

    def _tvr_of(self, group: int) -> int:
        tvr = self.groups[group].tvr
        assert tvr is not None
        return tvr

    def _sums(self, group: int, tvr: int, interval: Interval) -> None:
        """A delta is the sum of the deltas of its parts: of its ticks, and without GE of any two intervals that make it up.

        Not so the delta of a state, which has one row a group: added up, a group of two parts would have two.
        """
        record = self.memo.tvr(tvr)
        tables = record.tables
        if not record.additive:
            return
        cuts = [t for t in range(interval.start + 1, interval.end + 1) if self.ticks.ticks[t].tables & tables]
        if len(cuts) < 2:
            return
        points = {self.ticks.point_of(t) for t in cuts}
        if len(points) == 1:
            parts = [Interval(a, b) for a, b in zip([interval.start, *cuts], cuts, strict=False)]
            self._add(group, Plus, [self.delta(tvr, p) for p in parts], (), TICKS)
        elif not self.guided:
            for middle in sorted(points)[:-1]:
                cut = self.ticks.seen(tables, self.ticks.last_of_point[middle])
                parts = [Interval(interval.start, cut), Interval(cut, interval.end)]
                self._add(group, Plus, [self.delta(tvr, p) for p in parts], (), STEPS)

    def _ref(self, ref: ViewRef, interval: Interval) -> int:
        if ref.kind == "delta":
            return self.delta(ref.tvr, interval)
        return self.snapshot(ref.tvr, interval.end if ref.kind == "new" else interval.start)

    def _term(self, term: Term | ViewRef, interval: Interval, source: Source) -> int:
        if isinstance(term, ViewRef):
            return self._ref(term, interval)
        inputs = [self._term(i, interval, source) for i in term.inputs]
        return self._add(None, term.op, inputs, term.payload, source)

    def _add(
        self, group: int | None, op: type[Op], inputs: Sequence[int], payload: tuple[Any, ...], source: Source
    ) -> int:
        """Record a member of a group, or find the group that an operator over groups is."""
        inputs = [self.find(i) for i in inputs]
        empty = [self.groups[i].empty for i in inputs]
        if any(empty):
            kept = prune(op, payload, empty)
            if kept == ():
                nothing = self._empty(self._schema(op, inputs, payload))
                return nothing if group is None else self._same(group, nothing)
            # One state alone is still merged: it may be in pieces, several rows for a group.
            if kept is not None and len(kept) == 1 and op is not MergeState:
                return inputs[kept[0]] if group is None else self._same(group, inputs[kept[0]])
            if kept is not None:
                inputs = [inputs[i] for i in kept]
        member = GroupMember(op, tuple(inputs), payload)
        key = (member, group is not None and self._in_pieces(group))
        known = self._by_member.get(key)
        if known is not None:
            known = self.find(known)
            if group is not None and self.find(group) != known:
                self._unify(group, known)
            known = self.find(known)
            if not self.groups[known].empty:
                _say(self.groups[known].members, member, source)
            return known
        if group is None:
            group = self._new(self._schema(op, inputs, payload), None, None)
        group = self.find(group)
        self._by_member[key] = group
        self.groups[group].members[member] = source
        return group

    def _in_pieces(self, group: int) -> bool:
        """Whether a group may hold several rows for a group of an aggregate, as the delta of a state may. So it is never the same as a snapshot, not even from nothing."""
        own = self.groups[self.find(group)]
        if own.tvr is None or own.interval is None or own.interval.start < 0:
            return False
        return not self.memo.tvr(own.tvr).additive

    def _schema(self, op: type[Op], inputs: Sequence[int], payload: tuple[Any, ...]) -> Schema:
        return op.build(inputs, payload).columns_from([self.groups[self.find(i)].schema for i in inputs])

    def _same(self, group: int, other: int) -> int:
        """The group is another one."""
        if self.find(group) != self.find(other):
            self._unify(group, other)
        return self.find(other)

    def _unify(self, a: int, b: int) -> None:
        kept_id, gone_id = self._sets.union(a, b)
        own, gone = self.groups[kept_id], self.groups[gone_id]
        own.empty = own.empty or gone.empty
        if own.tvr is None:
            own.tvr, own.interval, own.others = gone.tvr, gone.interval, gone.others
        else:
            own.others += gone.views
        for member, source in gone.members.items():
            _say(own.members, member, source)
        if own.empty:
            own.members = {GroupMember(Empty, (), (own.schema,)): QUERY}


def _say(members: dict[GroupMember, Source], member: GroupMember, source: Source) -> None:
    """Record who said a member; what the query itself says is the query's, whoever found it first: a delta from nothing is the snapshot."""
    known = members.get(member)
    if known is None:
        members[member] = source
    elif source.rule == QUERY.rule:
        members[member] = source.joined(known)
    else:
        members[member] = known.joined(source)
