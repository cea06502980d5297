"""The memo: functional tables over one union-find of TVRs.

    (operator, TVRs)        → TVR       a definition: `Q[:] == InnerJoin(L[:], R[:], on)`, true at every time
    (TVR, link)             → TVR       an inter-TVR edge: `QP(Q)`
    (TVR, delta over span)  → members   an intra-TVR edge: the ways to compute `Q[t:u]`, as terms over views
    (TVR, end of span)      → members   the ways to compute `Q[u]` that use what was there at t

A key that gets two values means that the two are the same: TVRs are unified, and with them all that mentions them (congruence).
Views are named, not numbered: a term's leaves are `ViewRef`s. Snapshots need no members of their own, because every definition holds for them;
the concrete views, one per time, are laid out by `space.py`, where equal terms meet in one group.

Every fact remembers the rule that said it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from tempura.algebra import (
    Aggregate,
    AggregateState,
    AntiJoin,
    Empty,
    Expand,
    Filter,
    FinalState,
    InnerJoin,
    LeftOuterJoin,
    MergeState,
    Minus,
    Op,
    Plus,
    Project,
    Replicate,
    Scan,
    SemiJoin,
    Values,
)
from tempura.algebra.op import expressions
from tempura.memo.spans import Span, Spans
from tempura.memo.unionfind import UnionFind
from tempura.schema import Keys, Schema, names
from tempura.volatile import volatile_function

OF_ONE_DEFINITION = frozenset({"matches"})
"""Links that say something of one definition of a TVR: of two TVRs that turn out to be the same, they need not lead to the same."""


class Member(NamedTuple):
    """An operator over TVRs: one definition."""

    op: type[Op]
    inputs: tuple[int, ...]
    payload: tuple[Any, ...]


class ViewRef(NamedTuple):
    """A view of a TVR relative to the span of a rule: its snapshot before, its snapshot after, or its delta."""

    tvr: int
    kind: Literal["old", "new", "delta"]


class Term(NamedTuple):
    """An operator over views and other terms."""

    op: type[Op]
    inputs: tuple[Term | ViewRef, ...]
    payload: tuple[Any, ...]


class Source(NamedTuple):
    """Who said a fact: the rule, the method whose rule it is, and the rules that said it again."""

    rule: str
    method: str
    others: frozenset[str] = frozenset()

    def joined(self, other: Source) -> Source:
        """This source, knowing that another one said the same."""
        more = {other.rule, *other.others} - {self.rule, *self.others}
        return self if not more else self._replace(others=self.others | more)


QUERY = Source("query", "query")


@dataclass(slots=True)
class Tvr:
    """A time-varying relation: what is true of it at every time."""

    id: int
    schema: Schema
    keys: Keys
    tables: frozenset[str]
    additive: bool
    """Whether its deltas are bags that Plus adds up (the multiplicity perspective) or pieces of states that MergeState merges (the
    attribute one): so are those of whatever is made of states, until FinalState."""
    volatile: str | None
    definitions: dict[Member, Source] = field(default_factory=dict[Member, Source])
    uses: dict[tuple[int, Member], None] = field(default_factory=dict[tuple[int, Member], None])
    links: dict[str, int] = field(default_factory=dict[str, int])
    linked_from: dict[str, dict[int, None]] = field(default_factory=dict[str, dict[int, None]])
    deltas: dict[Span, dict[Term | ViewRef, Source]] = field(default_factory=dict[Span, "dict[Term | ViewRef, Source]"])
    news: dict[Span, dict[Term | ViewRef, Source]] = field(default_factory=dict[Span, "dict[Term | ViewRef, Source]"])


class Fact(NamedTuple):
    """Something new in the memo, which may complete matches of rules."""

    kind: Literal["tvr", "definition", "delta", "link"]
    tvr: int
    value: Any
    """The Member of a definition, the Span of a delta, the name of a link."""


class Memo:
    """All that is known. `on_fact` is told of each new fact."""

    def __init__(self, spans: Spans, can_retract: Callable[[str], bool]):
        self.spans = spans
        self.can_retract = can_retract
        self.sizes: Any = None
        """Estimates for rules that order by size (`rules.joins.Sizes`), if there are any."""
        self.on_fact: Callable[[Fact], None] = lambda fact: None
        self._sets = UnionFind()
        self._tvrs: list[Tvr] = []
        self._by_member: dict[Member, int] = {}
        self._retracts: dict[tuple[int, Span], bool] = {}
        self.facts = 0

    # Reading.

    def find(self, tvr: int) -> int:
        return self._sets.find(tvr)

    def tvr(self, tvr: int) -> Tvr:
        return self._tvrs[self._sets.find(tvr)]

    def tvrs(self) -> Iterator[Tvr]:
        return (t for t in self._tvrs if self._sets.find(t.id) == t.id)

    def spans_of(self, tvr: int) -> Any:
        return self.spans.of(self.tvr(tvr).tables)

    def restrict(self, tvr: int, span: Span) -> Span | None:
        return self.spans.restrict(self.tvr(tvr).tables, span)

    def has_delta(self, tvr: int, span: Span) -> bool:
        """Whether there is a way to compute the delta over the span, as the TVR sees it; an empty delta is there from the start."""
        record = self.tvr(tvr)
        seen = self.spans.restrict(record.tables, span)
        return seen is None or seen in record.deltas

    def definitions(self, tvr: int, op: type[Op]) -> list[Member]:
        return [m for m in self.tvr(tvr).definitions if m.op is op]

    def uses(self, tvr: int, op: type[Op]) -> list[tuple[int, Member]]:
        """The definitions by `op` that have the TVR as an input, with the TVR they define."""
        return [(self.find(out), m) for out, m in self.tvr(tvr).uses if m.op is op]

    def lookup(self, member: Member) -> int | None:
        """The TVR that an operator over TVRs defines, if it is known."""
        found = self._by_member.get(self._canonical(member))
        return None if found is None else self.find(found)

    def linked(self, tvr: int, link: str) -> int | None:
        found = self.tvr(tvr).links.get(link)
        return None if found is None else self.find(found)

    def linked_from(self, tvr: int, link: str) -> list[int]:
        """The TVRs whose link leads here."""
        return [self.find(o) for o in self.tvr(tvr).linked_from.get(link, ())]

    def is_empty(self, tvr: int) -> bool:
        return any(m.op is Empty for m in self.tvr(tvr).definitions)

    def retracts(self, tvr: int, span: Span) -> bool:
        """Whether the delta over the span may take rows back (safe to say yes)."""
        record = self.tvr(tvr)
        seen = self.spans.restrict(record.tables, span)
        if seen is None:
            return False
        found = self._retracts.get((record.id, seen))
        if found is None:
            self._retracts[record.id, seen] = True  # a definition that leads back to itself proves nothing
            found = all(self._definition_retracts(m, seen) for m in list(record.definitions)[:1])
            self._retracts[record.id, seen] = found
        return found

    def monotone(self, tvr: int) -> bool:
        """Whether the TVR never takes rows back."""
        return not any(self.retracts(tvr, s) for s in self.spans_of(tvr))

    def _definition_retracts(self, member: Member, span: Span) -> bool:
        if member.op is Scan:
            return self.can_retract(member.payload[0])
        rule = RETRACTION.get(member.op, changes)
        return rule(self, member, span)

    def members(self) -> int:
        """How many definitions and ways to compute views there are."""
        return sum(
            len(t.definitions) + sum(map(len, t.deltas.values())) + sum(map(len, t.news.values())) for t in self.tvrs()
        )

    # Writing.

    def insert(self, tree: Op) -> int:
        """The TVR of a tree; equal trees are one TVR."""
        return self.define(Member(type(tree), tuple(self.insert(i) for i in tree.inputs), tree.payload), QUERY)

    def define(self, member: Member, source: Source, tvr: int | None = None) -> int:
        """Record a definition, of `tvr` or of whatever TVR the operator over its inputs is."""
        member = self._canonical(member)
        known = self._by_member.get(member)
        if known is None:
            known = self._new(member) if tvr is None else self.find(tvr)
            self._by_member[member] = known
            record = self.tvr(known)
            record.definitions[member] = source
            for i in set(member.inputs):
                self.tvr(i).uses[known, member] = None
            self._announce(Fact("definition", known, member))
        else:
            said = self.tvr(known).definitions
            if member in said:
                said[member] = said[member].joined(source)
        known = self.find(known)
        if tvr is not None and self.find(tvr) != known:
            self.unify(tvr, known)
        return self.find(known)

    def link(self, tvr: int, link: str, to: int) -> None:
        """Record that `link(tvr)` is `to`."""
        record = self.tvr(tvr)
        known = record.links.get(link)
        if known is None:
            record.links[link] = self.find(to)
            self.tvr(to).linked_from.setdefault(link, {})[record.id] = None
            self._announce(Fact("link", record.id, link))
        elif self.find(known) != self.find(to):
            self.unify(known, to)

    def add_delta(self, tvr: int, span: Span, term: Term | ViewRef, source: Source) -> None:
        """Record a way to compute the delta over a span."""
        record = self.tvr(tvr)
        members = record.deltas.get(span)
        if members is None:
            record.deltas[span] = {term: source}
            self._announce(Fact("delta", record.id, span))
        elif term not in members:
            members[term] = source
            self.facts += 1
        else:
            members[term] = members[term].joined(source)

    def add_new(self, tvr: int, span: Span, term: Term | ViewRef, source: Source) -> None:
        """Record a way to compute the snapshot at the end of a span from what was there at its start."""
        members = self.tvr(tvr).news.setdefault(span, {})
        if term not in members:
            members[term] = source
            self.facts += 1
        else:
            members[term] = members[term].joined(source)

    def unify(self, a: int, b: int) -> None:
        """a and b are the same TVR: join what is known of them, and whatever is thereby the same."""
        pending = [(a, b)]
        while pending:
            a, b = pending.pop()
            if self.find(a) == self.find(b):
                continue
            kept_id, gone_id = self._sets.union(a, b)
            kept, gone = self._tvrs[kept_id], self._tvrs[gone_id]
            kept.keys |= gone.keys
            for member, source in gone.definitions.items():
                kept.definitions.setdefault(member, source)
            for link, to in gone.links.items():
                if link in kept.links:
                    if link not in OF_ONE_DEFINITION:
                        pending.append((kept.links[link], to))
                else:
                    kept.links[link] = to
                    self._announce(Fact("link", kept_id, link))
            for link, owners in gone.linked_from.items():
                kept.linked_from.setdefault(link, {}).update(owners)
            self._join_views(kept, gone)
            for out, member in list(gone.uses):
                canonical = self._canonical(member)
                owner = self.tvr(out)
                known = self._by_member.get(canonical)
                self._by_member.pop(member, None)
                if known is not None and self.find(known) != owner.id:
                    pending.append((known, owner.id))
                self._by_member[canonical] = owner.id
                # Each stays in its place: the first one says what the TVR is, and later ones may lead back to it.
                named = [(canonical if m == member else m, source) for m, source in owner.definitions.items()]
                owner.definitions.clear()
                for m, source in (*named, (canonical, QUERY)):
                    owner.definitions.setdefault(m, source)
                for i in set(canonical.inputs):
                    self.tvr(i).uses[owner.id, canonical] = None
            for member in list(kept.definitions):
                self._announce(Fact("definition", kept_id, member))

    def _join_views(self, kept: Tvr, gone: Tvr) -> None:
        for mine, theirs in ((kept.deltas, gone.deltas), (kept.news, gone.news)):
            for span, members in theirs.items():
                seen = self.spans.restrict(kept.tables, span)
                if seen is None:
                    continue
                fresh = seen not in mine
                mine.setdefault(seen, {}).update(members)
                if fresh and mine is kept.deltas:
                    self._announce(Fact("delta", kept.id, seen))

    def _canonical(self, member: Member) -> Member:
        inputs = tuple(self._sets.find(i) for i in member.inputs)
        return member if inputs == member.inputs else Member(member.op, inputs, member.payload)

    def _new(self, member: Member) -> int:
        inputs = [self.tvr(i) for i in member.inputs]
        op = member.op.build(member.inputs, member.payload)
        schemas = [i.schema for i in inputs]
        tables = (
            frozenset([member.payload[0]]) if member.op is Scan else frozenset[str]().union(*(i.tables for i in inputs))
        )
        types = {c.name: c.type for schema in schemas for c in schema}
        own = next((v for v in (volatile_function(e.tree, types) for e in expressions(member.payload)) if v), None)
        record = Tvr(
            id=self._sets.add(),
            schema=op.columns_from(schemas),
            keys=op.keys_from([i.keys for i in inputs], schemas),
            tables=tables,
            additive=member.op is FinalState
            or (member.op not in (AggregateState, MergeState) and all(i.additive for i in inputs)),
            volatile=own or next((i.volatile for i in inputs if i.volatile), None),
        )
        self._tvrs.append(record)
        self._announce(Fact("tvr", record.id, None))
        if member.op is Scan:
            for span in self.spans.of(tables):
                record.deltas[span] = {}
                self._announce(Fact("delta", record.id, span))
        return record.id

    def _announce(self, fact: Fact) -> None:
        self.facts += 1
        self.on_fact(fact)


# Which operators take rows back (theory: which operators retract). Safe to say yes.


def passes(memo: Memo, member: Member, span: Span) -> bool:
    """Linear operators and inner joins retract only what an input retracts."""
    return any(memo.retracts(i, span) for i in member.inputs)


def changes(memo: Memo, member: Member, span: Span) -> bool:
    """Whatever replaces rows retracts when anything changes."""
    return True


def left_passes(memo: Memo, member: Member, span: Span) -> bool:
    """Anti- and left outer joins retract what the left retracts, and when the right changes at all."""
    left, right = member.inputs
    return memo.retracts(left, span) or memo.restrict(right, span) is not None


def distinct_passes(memo: Memo, member: Member, span: Span) -> bool:
    """DISTINCT retracts only what its input retracts; an aggregate replaces the rows of its groups."""
    return bool(member.payload[1]) or memo.retracts(member.inputs[0], span)


RETRACTION: dict[type[Op], Callable[[Memo, Member, Span], bool]] = {
    **dict.fromkeys((Filter, Project, Expand, Replicate, Plus, InnerJoin, SemiJoin, Values, Empty), passes),
    **dict.fromkeys((AntiJoin, LeftOuterJoin, Minus), left_passes),
    Aggregate: distinct_passes,
}


def column_names(memo: Memo, tvr: int) -> tuple[str, ...]:
    return names(memo.tvr(tvr).schema)
