"""Join orders from the join graph, in one rule.

A block of inner joins is a graph: its leaves and the conjuncts between them. Its snapshots are best joined in one order, the delta of
each changed leaf in another: the delta first, the rest by cost. So there is one left-deep order per changed leaf and one for
snapshots, each found greedily by the estimated size of what has been joined so far; the snapshots' order tries every leaf as the first. Blocks
of more than `FULL` leaves only try the largest as the first, and the trace says so.
"""

# Conditions are lambdas over the names of the pattern, whose types are those of the body below.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from tempura.algebra import InnerJoin
from tempura.explore import TvrRef
from tempura.expr import Expr, conjunction, conjuncts
from tempura.memo.memo import Member, Memo
from tempura.rules.deltas import L, Q, R, on
from tempura.rules.lang import Link, rule, rule_set
from tempura.schema import Schema, names
from tempura.volatile import volatile

FULL = 8
"""Up to this many leaves, every leaf is tried as the first of the snapshots' order."""

CHANGING = 4
"""Up to this many changing leaves each gets an order of its own."""

MADE_HERE = frozenset({"join_orders", "higher_order_views"})
MADE_OF_OUTER = frozenset({"directly_affected", "directly_affected_full"})
"""Inner joins of the sides of an outer one: what is joined below that is a block of its own, whose orders need not occur in this one's."""

M = Link("M")
"""HOV's higher-order view: what is left of a join when an updated leaf is taken out, one per connected component."""


class Sizes(Protocol):
    """What ordering needs to know: statistics of TVRs when all has arrived, and of joins of them."""

    def final(self, memo: Memo, tvr: int) -> Any: ...
    def change(self, memo: Memo, tvr: int) -> Any: ...
    def join(self, left: Any, right: Any, on: Expr, schemas: Sequence[Schema]) -> Any: ...
    def rows(self, stats: Any) -> float: ...


class Block(NamedTuple):
    """A block of inner joins: its leaves and the conjuncts between them."""

    leaves: tuple[int, ...]
    predicates: tuple[Expr, ...]


def block(memo: Memo, tvr: int) -> Block:
    """The inner-join block below a TVR, by the first definition of each join in it."""
    leaves: list[int] = []
    predicates: list[Expr] = []

    def collect(x: int, root: bool) -> None:
        record = memo.tvr(x)
        member = next(iter(record.definitions))
        if root:
            member = next(m for m in record.definitions if m.op is InnerJoin)
        if member.op is InnerJoin:
            collect(member.inputs[0], False)
            collect(member.inputs[1], False)
            predicates.extend(conjuncts(member.payload[0]))
        else:
            leaves.append(memo.find(x))

    collect(tvr, True)
    return Block(tuple(leaves), tuple(dict.fromkeys(predicates)))


def is_root(memo: Memo, tvr: int, member: Member) -> bool:
    """Whether a join is the top of its block and not a piece of an order made here."""
    record = memo.tvr(tvr)
    if record.definitions[member].rule in MADE_HERE and not any(link.startswith("M[") for link in record.linked_from):
        return False
    return not any(
        m.op is InnerJoin and memo.tvr(out).definitions[m].rule not in MADE_HERE | MADE_OF_OUTER
        for out, m in record.uses
        if m in memo.tvr(out).definitions
    )


class Graph:
    """A block ready for ordering."""

    def __init__(self, memo: Memo, found: Block, sizes: Sizes | None):
        self.memo = memo
        self.leaves = found.leaves
        self.predicates = found.predicates
        self.sizes = sizes
        self.columns = [frozenset(names(memo.tvr(x).schema)) for x in found.leaves]

    def changing(self) -> list[int]:
        """The leaves that change, if they are few enough for an order each: where all change, joining deltas one by one is recomputing."""
        found = [i for i, leaf in enumerate(self.leaves) if self.memo.spans_of(leaf)]
        return found if len(found) <= CHANGING else []

    def connected(self, done: frozenset[str], leaf: int) -> bool:
        own = self.columns[leaf]
        return any(p.columns & own and p.columns & done and p.columns <= own | done for p in self.predicates)

    def condition(self, before: frozenset[str], leaf: frozenset[str]) -> Expr:
        """What can be checked once the leaf is there, and could not before."""
        after = before | leaf
        return conjunction(p for p in self.predicates if p.columns <= after and not p.columns <= before)

    def components(self, without: int) -> list[list[int]]:
        """The connected components of the rest of the graph when a leaf is taken out."""
        left = [i for i in range(len(self.leaves)) if i != without]
        found: list[list[int]] = []
        while left:
            component = [left.pop(0)]
            grown = True
            while grown:
                reach = frozenset[str]().union(*(self.columns[i] for i in component))
                near = [i for i in left if self.connected(reach, i)]
                component += near
                left = [i for i in left if i not in near]
                grown = bool(near)
            found.append(sorted(component))
        return found

    def order(self, first: int, leaves: Sequence[int], stats: Any = None) -> tuple[list[int], float]:
        """Greedy: next comes whatever keeps the result smallest; and the sum of the sizes on the way."""
        sizes = self.sizes
        order = [first]
        left = [i for i in leaves if i != first]
        done = self.columns[first]
        schema = self.memo.tvr(self.leaves[first]).schema
        if sizes is not None and stats is None:
            stats = sizes.final(self.memo, self.leaves[first])
        total = 0.0
        while left:
            near = [i for i in left if self.connected(done, i)] or left
            if sizes is None:
                best, joined = near[0], None
            else:
                options = [(self._joined(stats, schema, done, i), i) for i in near]
                joined, best = min(options, key=lambda o: (sizes.rows(o[0]), o[1]))
                total += sizes.rows(joined)
            order.append(best)
            left.remove(best)
            done |= self.columns[best]
            schema = (*schema, *self.memo.tvr(self.leaves[best]).schema)
            stats = joined
        return order, total

    def _joined(self, stats: Any, schema: Schema, done: frozenset[str], leaf: int) -> Any:
        assert self.sizes is not None
        tvr = self.leaves[leaf]
        on = self.condition(done, self.columns[leaf])
        return self.sizes.join(stats, self.sizes.final(self.memo, tvr), on, (schema, self.memo.tvr(tvr).schema))

    def best(self, leaves: Sequence[int]) -> list[int]:
        """The order for snapshots of some leaves."""
        sizes = self.sizes
        if sizes is None or len(leaves) == 1:
            return self.order(leaves[0], leaves)[0]
        starts = (
            leaves
            if len(leaves) <= FULL
            else [max(leaves, key=lambda i: sizes.rows(sizes.final(self.memo, self.leaves[i])))]
        )
        return min((self.order(i, leaves) for i in starts), key=lambda found: found[1])[0]

    def tree(self, order: Sequence[Any], ref: Any) -> Any:
        """The left-deep tree of an order; an entry that is a list is a sub-join of its own."""
        first, *rest = order
        tree, done, checked = self._part(first, ref)
        for entry in rest:
            part, columns, inside = self._part(entry, ref)
            done |= columns
            checked |= inside
            # Also what reads one leaf only: in an outer join's condition it is no filter, and so it is not one below what is made of that.
            now = [p for p in self.predicates if p not in checked and p.columns <= done]
            tree = InnerJoin(tree, part, conjunction(now))
            checked |= set(now)
        return tree

    def _part(self, entry: Any, ref: Any) -> tuple[Any, frozenset[str], set[Expr]]:
        """An entry of an order, its columns, and what is checked inside it."""
        if isinstance(entry, int):
            return ref(self.leaves[entry])[:], self.columns[entry], set()
        leaves: list[int] = entry
        columns = frozenset[str]().union(*(self.columns[i] for i in leaves))
        return self.tree(leaves, ref), columns, {p for p in self.predicates if p.columns <= columns}


def graph_of(Q: TvrRef, L: TvrRef, R: TvrRef, on: Expr) -> Graph | None:
    """The join graph of a block that is worth ordering."""
    memo = Q.memo
    member = Member(InnerJoin, (L.id, R.id), (on,))
    if member not in memo.tvr(Q.id).definitions or not is_root(memo, Q.id, member):
        return None
    found = block(memo, Q.id)
    if len(found.leaves) < 3 or len(set(found.leaves)) < len(found.leaves) or any(map(volatile, found.predicates)):
        return None
    return Graph(memo, found, memo.sizes)


@rule(Q[:] == InnerJoin(L[:], R[:], on))
def join_orders(Q: TvrRef, L: TvrRef, R: TvrRef, on: Expr):
    """One order for snapshots, and one that begins with each leaf that changes."""
    graph = graph_of(Q, L, R, on)
    if graph is None:
        return
    everything = range(len(graph.leaves))
    orders = [graph.best(everything)]
    for i in graph.changing():
        start = graph.sizes.change(graph.memo, graph.leaves[i]) if graph.sizes else None
        orders.append(graph.order(i, everything, start)[0])
    for order in orders:
        Q[:] = graph.tree(order, Q.ref)


@rule(Q[:] == InnerJoin(L[:], R[:], on))
def higher_order_views(Q: TvrRef, L: TvrRef, R: TvrRef, on: Expr):
    """ΔQ = ΔX ⋈ M1 ⋈ … : for each changed leaf X, the components of the rest are views of their own, kept and maintained in turn."""
    graph = graph_of(Q, L, R, on)
    if graph is None:
        return
    for i in graph.changing():
        leaf = graph.leaves[i]
        components = [graph.best(c) for c in graph.components(i)]
        if all(len(c) == 1 for c in components):
            continue
        for component in components:
            if len(component) > 1:
                # Named by what it joins: another block may turn out to be the same, and to count its components otherwise.
                joined = ".".join(str(x) for x in sorted(graph.leaves[c] for c in component))
                M.of(f"{leaf}:{joined}")(Q)[:] = graph.tree(component, Q.ref)
        Q[:] = graph.tree([i, *(c if len(c) > 1 else c[0] for c in components)], Q.ref)


JOINS = rule_set("joins", (join_orders,))
HOV = rule_set("HOV", (higher_order_views,))
