"""The join tree of a FROM clause, with the conjuncts of WHERE and ON at the lowest place that has their columns.

A region is a set of factors that are inner-joined, and conjuncts that may go anywhere inside it. A factor is a source, or an outer,
semi- or anti-join of two regions. Inside a region factors are joined left-deep in the order of the text, except that one
which no conjunct connects to what is there already waits until one does: a cross product remains only where the query asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from sqlglot import exp

from tempura.algebra import AntiJoin, Filter, FullOuterJoin, InnerJoin, LeftOuterJoin, Op, Project, Scan, SemiJoin
from tempura.schema import names
from tempura.sql.bind.predicates import columns_of, predicate, renamed
from tempura.sql.bind.projection import passed, projected
from tempura.sql.bind.scope import Offer, Source, Tree, refuse

Kind = Literal["left", "full", "semi", "anti"]
_JOINS = {"left": LeftOuterJoin, "full": FullOuterJoin, "semi": SemiJoin, "anti": AntiJoin}


@dataclass
class Joined:
    """A join that is not an inner one: two regions, and the conjuncts of its condition."""

    kind: Kind
    left: Region
    right: Region
    on: list[Tree]

    def names(self) -> set[str]:
        return self.left.names() | (self.right.names() if self.kind in ("left", "full") else set())


@dataclass
class Region:
    """Factors joined by inner joins, and the conjuncts over them."""

    factors: list[Source | Joined] = field(default_factory=list["Source | Joined"])
    conjuncts: list[Tree] = field(default_factory=list[Tree])
    offers: list[Offer] = field(default_factory=list[Offer])
    """The columns that it offers, those of `*` in their order."""

    def names(self) -> set[str]:
        return {name for factor in self.factors for name in _names(factor)}

    def sources(self) -> Iterable[Source]:
        for factor in self.factors:
            if isinstance(factor, Source):
                yield factor
            else:
                yield from factor.left.sources()
                yield from factor.right.sources()

    def trees(self) -> Iterable[Tree]:
        """All conjuncts, those inside other joins included."""
        yield from self.conjuncts
        for factor in self.factors:
            if isinstance(factor, Joined):
                yield from factor.on
                yield from factor.left.trees()
                yield from factor.right.trees()

    def with_(self, other: Region, conjuncts: Sequence[Tree] = ()) -> Region:
        return Region([*self.factors, *other.factors], [*self.conjuncts, *other.conjuncts, *conjuncts])


def _names(factor: Source | Joined) -> set[str]:
    return set(factor.internal.values()) if isinstance(factor, Source) else factor.names()


@dataclass
class _Part:
    """A piece of the join tree under construction."""

    op: Op
    names: set[str]


class JoinTree:
    """Builds the tree of a region; `restrict` applies a conjunct that holds sub-queries."""

    def __init__(self, region: Region, has_subquery: Callable[[Tree], bool], restrict: Callable[[Op, Tree], Op]):
        self._has_subquery = has_subquery
        self._restrict = restrict
        self._wanted: dict[str, set[str]] = {}
        for source in region.sources():
            if isinstance(source.op, Scan):
                self._wanted.setdefault(source.op.table, set()).update(source.used)

    def build(self, region: Region, given: Sequence[Tree] = ()) -> Op:
        """The tree of a region under its own conjuncts and those given."""
        pending: list[Tree] = []
        for tree in (*region.conjuncts, *given):
            if tree not in pending:
                pending.append(tree)
        parts: list[_Part] = []
        for factor in region.factors:
            own, pending = _within(pending, _names(factor))
            op = self._leaf(factor, own) if isinstance(factor, Source) else self._joined(factor, own)
            parts.append(_Part(op, _names(factor)))
        whole, pending = self._connected(parts, pending)
        return self._filtered(whole.op, pending)

    def _connected(self, parts: list[_Part], pending: list[Tree]) -> tuple[_Part, list[Tree]]:
        """The parts joined: what conjuncts connect first, then the components with one another."""
        components: list[_Part] = []
        while parts:
            current, *parts = parts
            while (chosen := _next(current, parts, pending)) is not None:
                parts = [p for p in parts if p is not chosen]
                current, pending = self._inner(current, chosen, pending)
            components.append(current)
        current, *rest = components
        for other in rest:
            current, pending = self._inner(current, other, pending)
        return current, pending

    def _inner(self, left: _Part, right: _Part, pending: list[Tree]) -> tuple[_Part, list[Tree]]:
        known = left.names | right.names
        usable, rest = _within(pending, known)
        plain = [t for t in usable if not self._has_subquery(t)]
        op = InnerJoin(left.op, right.op, predicate(plain))
        return _Part(self._filtered(op, [t for t in usable if self._has_subquery(t)]), known), rest

    def _filtered(self, op: Op, conjuncts: Sequence[Tree]) -> Op:
        plain = [t for t in conjuncts if not self._has_subquery(t)]
        if plain:
            op = Filter(op, predicate(plain))
        for tree in conjuncts:
            if self._has_subquery(tree):
                op = self._restrict(op, tree)
        return op

    def _leaf(self, source: Source, own: Sequence[Tree]) -> Op:
        """A source: its used columns, its conjuncts over the columns' own names, and only then the names it has in this block."""
        op = source.op
        internal = source.internal
        used = source.used
        if isinstance(op, Scan):
            wanted = self._wanted[op.table] or set(op.key[:1]) or {op.columns[0].name}
            lowered = {c.name: c.name.lower() for c in op.schema}
            internal = {lowered[c]: name for c, name in internal.items()}
            used = {lowered[c] for c in used}
            op = projected(op, [passed(c, lowered[c.name]) for c in op.schema if c.name in wanted])
        base = {name: c for c, name in internal.items()}
        plain = [t for t in own if not self._has_subquery(t)]
        if plain:
            op = Filter(op, predicate(renamed(t, base) for t in plain))
        if any(internal[c] != c for c in names(op.schema)):
            shown = [c for c in op.schema if c.name in used] or list(op.schema[:1])
            op = Project(op, tuple(passed(c, internal[c.name]) for c in shown))
        return self._filtered(op, [t for t in own if self._has_subquery(t)])

    def _joined(self, join: Joined, own: Sequence[Tree]) -> Op:
        """A join of regions. Only the side whose rows are all kept may be filtered early by what stands above the join."""
        left, right = join.left.names(), join.right.names()
        above, on = list(own), list(join.on)
        to_left: list[Tree] = []
        to_right: list[Tree] = []
        if join.kind != "full":
            to_left, above = _within(above, left)
            to_right, on = _within(on, right)
        if join.kind == "semi":
            more, on = _within(on, left)
            to_left += more
        for tree in on:
            if self._has_subquery(tree):
                refuse(
                    "a sub-query in the ON clause of this join is not supported",
                    tree,
                    "compute it in a derived table, and join that",
                )
        op = _JOINS[join.kind](self.build(join.left, to_left), self.build(join.right, to_right), predicate(on))
        return self._filtered(op, above)


def _within(trees: Sequence[Tree], known: set[str]) -> tuple[list[Tree], list[Tree]]:
    """The trees that speak of columns, and only of those known; and the others."""
    chosen = [t for t in trees if (columns := columns_of(t)) and columns <= known]
    return chosen, [t for t in trees if not any(t is c for c in chosen)]


def _next(current: _Part, parts: Sequence[_Part], pending: Sequence[Tree]) -> _Part | None:
    """The first part that a conjunct connects to the current one, by an equality if there is one."""
    spoken = [(t, columns_of(t)) for t in pending]
    for equal in (True, False):
        for part in parts:
            known = current.names | part.names
            for tree, columns in spoken:
                connects = columns <= known and columns & current.names and columns & part.names
                if connects and (not equal or isinstance(tree, (exp.EQ, exp.NullSafeEQ))):
                    return part
    return None
