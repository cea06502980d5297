"""Relational laws that always pay, applied to a query once, before the memo sees it.

    normalize(root)     filters go down to where their columns come from, outer joins whose padding is thrown away become inner ones,
                        columns that nobody reads are dropped, and what is idle disappears

What several others use (a CTE) is computed once, so it is not taken apart for the sake of one of them. What *all* of them ask for is another
matter: conjuncts that all filter by, NULLs that none lets pass, columns that only some or none read. These are stated as a Filter or Project
above the shared operator, and the same laws do the rest.

It ends: each law removes an operator, turns an outer join into a narrower one, or moves a predicate down, and none moves one up. Columns
are pruned when there is nothing else left to do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from sqlglot import exp

from tempura.algebra import (
    Aggregate,
    AntiJoin,
    Expand,
    Filter,
    FullOuterJoin,
    InnerJoin,
    LeftOuterJoin,
    Op,
    Plus,
    Project,
    Replicate,
    Scan,
    SemiJoin,
    Window,
)
from tempura.expr import TRUE, Expr, col, rejects_nulls
from tempura.rules.dag import Interned, over, parents_first, rebuilt, uses
from tempura.rules.fusion import fused_aggregates
from tempura.rules.implied import implied_filters
from tempura.rules.laws import (
    Law,
    all_of,
    any_of,
    distinct_of_key,
    empty_inputs,
    filter_below_aggregate,
    filter_below_expand,
    filter_below_plus,
    filter_below_project,
    filter_below_replicate,
    filter_below_window,
    filter_into_inner_join,
    filter_into_left_side,
    filtered,
    flattened_plus,
    half_join_without_distinct,
    identity_project,
    merged_filters,
    merged_projects,
    one_sided_condition,
    parts,
    pruned_columns,
    single_plus,
    trivial_filter,
)
from tempura.rules.outerjoins import (
    half_join_below_outer_join,
    inner_join_below_filtered_outer_join,
    inner_join_below_outer_join,
    null_rejecting_filter,
    unmatched_rows,
)
from tempura.rules.pruning import plain, pruned
from tempura.schema import names
from tempura.volatile import volatile

LAWS: tuple[Law, ...] = (
    trivial_filter,
    empty_inputs,
    null_rejecting_filter,
    unmatched_rows,
    merged_filters,
    filter_into_inner_join,
    one_sided_condition,
    inner_join_below_outer_join,
    inner_join_below_filtered_outer_join,
    half_join_below_outer_join,
    filter_into_left_side,
    filter_below_aggregate,
    filter_below_window,
    filter_below_plus,
    filter_below_expand,
    filter_below_replicate,
    filter_below_project,
    merged_projects,
    identity_project,
    distinct_of_key,
    single_plus,
    flattened_plus,
    half_join_without_distinct,
    fused_aggregates,
    pruned_columns,
)
"""All laws, in the order in which they are tried at an operator."""

DOWN = tuple(law for law in LAWS if law not in (pruned_columns, fused_aggregates))
"""The laws that are applied wherever they hold; columns are pruned by all uses of an operator at once."""

TIDY = (*(law for law in DOWN if law is not filter_below_project), fused_aggregates)
"""After pruning, a filter stays above the projection that fetches its columns, and aggregates are fused once their filters are where they belong."""


def normalize(root: Op, trace: list[str] | None = None) -> Op:
    """An equal query with the same columns, after all laws; the names of those applied are added to `trace`."""
    said: list[str] = [] if trace is None else trace
    interned = Interned()
    new = interned(root)
    carried: set[Expr] = set()
    implied: set[Expr] = set()
    while True:
        new = _laws_applied(new, DOWN, interned, said)
        changed = _common_filters(_demanded(new, interned, said), interned, said, carried)
        changed = implied_filters(changed, interned, said, implied)
        if changed is not new:
            new = changed
            continue
        narrow = pruned(new, interned)
        if narrow is not new:
            said.append(pruned_columns.name)
        narrow = _laws_applied(narrow, TIDY, interned, said)
        # A window that nobody reads is gone, and was in the way of filters; aggregates that were fused may need fewer columns.
        if all(_count(narrow, kind) == _count(new, kind) for kind in (Window, Aggregate)):
            return narrow
        new = narrow


def _count(root: Op, kind: type[Op]) -> int:
    return sum(isinstance(op, kind) for op in parents_first(root))


def _laws_applied(root: Op, laws: Sequence[Law], interned: Interned, trace: list[str]) -> Op:
    """The query after laws have been applied, from the top down, until none holds any more."""
    by_class: dict[type[Op], tuple[Law, ...]] = {}
    while True:
        before = len(trace)
        root = _one_pass(root, laws, by_class, interned, trace)
        if len(trace) == before:
            return root


def _one_pass(
    root: Op, laws: Sequence[Law], by_class: dict[type[Op], tuple[Law, ...]], interned: Interned, trace: list[str]
) -> Op:
    """Each operator once, after all that use it are done; inputs that come into being on the way are visited too."""
    several = {op_id for op_id, users in uses(parents_first(root)).items() if len(users) > 1}
    done: dict[int, Op] = {}

    def shared(op: Op) -> bool:
        return id(op) in several

    def taken_from_others(law: Law, op: Op) -> bool:
        """Whether the law would take apart what others use, too."""
        below: Sequence[Op] = op.inputs
        for _ in range(law.depth):
            below = [i for i in below if isinstance(i, law.over)]
            if any(shared(i) and not _nothing_to_share(law, i) for i in below):
                return True
            several.update(id(j) for i in below if shared(i) for j in i.inputs)
            below = [j for i in below for j in i.inputs]
        return False

    def first(op: Op) -> Op | None:
        """What the first law that holds makes of the operator."""
        kind = type(op)
        if kind not in by_class:
            by_class[kind] = tuple(law for law in laws if issubclass(kind, law.at))
        for law in by_class[kind]:
            found = None if law.over and taken_from_others(law, op) else law(op)
            if found is not None:
                trace.append(law.name)
                return interned(found)
        return None

    def visit(op: Op) -> Op:
        if id(op) not in done:
            new = op
            while id(new) not in done and (found := first(new)) is not None:
                new = found
            done[id(op)] = done.get(id(new)) or interned(over(new, tuple(map(visit, new.inputs))))
        return done[id(op)]

    return visit(root)


def _nothing_to_share(law: Law, op: Op) -> bool:
    """Whether the operator computes nothing that the law would have computed twice: what it is over stays shared."""
    if isinstance(op, Plus):
        return law is filter_below_plus
    if law is merged_projects:
        return isinstance(op, Project) and plain(op)
    return (
        law is filter_below_project
        and isinstance(op, Project)
        and all(o.expr.name or not o.expr.columns for o in op.outputs)
    )


# What all uses of an operator have in common.


def _base(op: Op) -> bool:
    """Whether the operator is a base table or some of its columns: nothing that a filter could be pushed into."""
    return not op.inputs or (isinstance(op, Project) and plain(op) and not op.inputs[0].inputs)


def _common_filters(root: Op, interned: Interned, trace: list[str], carried: set[Expr]) -> Op:
    """σ(p ∧ q)(X) and σ(p ∧ r)(X) are σq(X') and σr(X') with X' = σ(p ∧ (q ∨ r))(X): what no use of X wants is left out of what they share.

    Of q and r only what a filter can carry below X, and only once: `carried` has what was carried before.
    """
    common: dict[int, frozenset[Expr]] = {}
    for op_id, users in uses(parents_first(root)).items():
        filters = [u for u in users if isinstance(u, Filter) and not _base(u.inputs[0])]
        if len(users) > 1 and len(filters) == len(users):
            first, *others = asked = [frozenset(p for p in parts(u.predicate) if not volatile(p)) for u in filters]
            both = first.intersection(*others)
            lower = _lower(filters[0].inputs[0])
            own = [frozenset(p for p in a - both if p.columns <= lower) for a in asked]
            either = any_of(map(all_of, own)) if all(own) else TRUE
            found = both | (frozenset([either]) - {TRUE, *carried})
            if found:
                common[op_id] = found
    if not common:
        return root
    carried.update(*common.values())
    trace.append("common_filters")

    def change(op: Op, inputs: tuple[Op, ...]) -> Op:
        if isinstance(op, Filter) and id(op.inputs[0]) in common:
            both = common[id(op.inputs[0])]
            return filtered(filtered(inputs[0], both), frozenset(parts(op.predicate)) - both)
        return over(op, inputs)

    return rebuilt(root, interned, change)


def _lower(op: Op) -> frozenset[str]:
    """The columns by which a filter can be pushed below the operator."""
    match op:
        case Aggregate():
            return frozenset(op.by) & _lower(op.inputs[0])
        case Window():
            return frozenset(op.partition) & _lower(op.inputs[0])
        case Project():
            below = _lower(op.inputs[0])
            return frozenset(o.name for o in op.outputs if o.expr.columns <= below and not volatile(o.expr))
        case Plus():
            return _lower(op.inputs[0]).intersection(*map(_lower, op.inputs[1:]))
        case LeftOuterJoin() | SemiJoin() | AntiJoin():
            return _lower(op.inputs[0])
        case Filter() | Scan() | InnerJoin():
            return frozenset(names(op.schema))
        case _:
            return frozenset()


def _demanded(root: Op, interned: Interned, trace: list[str]) -> Op:
    """Outer joins whose padded rows fail a condition further up, in all uses, made inner by the law of filters above them."""
    order = parents_first(root)
    if not any(isinstance(op, (LeftOuterJoin, FullOuterJoin)) for op in order):
        return root
    never_null = _never_null(order)

    def change(op: Op, inputs: tuple[Op, ...]) -> Op:
        new = over(op, inputs)
        if isinstance(op, (LeftOuterJoin, FullOuterJoin)) and never_null[id(op)]:
            found = null_rejecting_filter(Filter(new, all_of(_not_null(c) for c in never_null[id(op)])))
            if found is not None:
                trace.append(null_rejecting_filter.name)
                return found.inputs[0]
        return new

    return rebuilt(root, interned, change)


@cache
def _not_null(column: str) -> Expr:
    return Expr(exp.Not(this=exp.Is(this=col(column).tree.copy(), expression=exp.Null())))


@cache
def _rejected(predicate: Expr) -> frozenset[str]:
    """The columns that are not NULL where the predicate is true."""
    return frozenset(c for c in predicate.columns if rejects_nulls(predicate, (c,)))


def _never_null(order: Sequence[Op]) -> dict[int, frozenset[str]]:
    """For each operator the columns whose NULLs make no difference to the query: a row that has one comes to nothing in all uses."""
    found: dict[int, frozenset[str]] = {id(order[0]): frozenset()}
    for op in order:
        demand = _DEMANDS.get(type(op))
        own = found[id(op)]
        for n, i in enumerate(op.inputs):
            asked = demand(op, own, n) & frozenset(names(i.schema)) if demand else frozenset[str]()
            found[id(i)] = found[id(i)] & asked if id(i) in found else asked
    return found


def _demand_same(op: Op, own: frozenset[str], side: int) -> frozenset[str]:
    return own


def _demand_filter(op: Filter, own: frozenset[str], side: int) -> frozenset[str]:
    return own | _rejected(op.predicate)


def _demand_project(op: Project, own: frozenset[str], side: int) -> frozenset[str]:
    return frozenset(o.expr.name for o in op.outputs if o.expr.name and o.name in own)


def _demand_join(op: Any, own: frozenset[str], side: int) -> frozenset[str]:
    return own | _rejected(op.on)


def _demand_one_sided(op: Any, own: frozenset[str], side: int) -> frozenset[str]:
    """A row of the left side counts even without a partner, unless its own columns are in demand; one of the right only as a partner."""
    return own | _rejected(op.on) if side else own


def _demand_groups(op: Aggregate, own: frozenset[str], side: int) -> frozenset[str]:
    return own & frozenset(op.by)


def _demand_partitions(op: Window, own: frozenset[str], side: int) -> frozenset[str]:
    return own & frozenset(op.partition)


def _demand_expand(op: Expand, own: frozenset[str], side: int) -> frozenset[str]:
    return own - {op.tag}


_DEMANDS: dict[type[Op], Callable[[Any, frozenset[str], int], frozenset[str]]] = {
    Filter: _demand_filter,
    Project: _demand_project,
    Replicate: _demand_same,
    Plus: _demand_same,
    InnerJoin: _demand_join,
    SemiJoin: _demand_join,
    LeftOuterJoin: _demand_one_sided,
    AntiJoin: _demand_one_sided,
    FullOuterJoin: _demand_same,
    Aggregate: _demand_groups,
    Window: _demand_partitions,
    Expand: _demand_expand,
}
"""An operator that is not here lets NULLs count: TopK may give another row in the place of the one that is gone."""
