"""Fusing: several aggregates of the same joins, each over rows of its own, are one aggregate with FILTER clauses.

    γ[f](σ[p] X) × γ[g](σ[q] X)  =  γ[f filter (p), g filter (q)](σ[p or q] X)

A query that counts each half hour of the day, or each range of quantities, by a sub-query of its own then reads its tables once, and keeps one state instead of many. The filters may
lie anywhere below inner joins: what they ask is asked again by the FILTER clauses, for which the joins and projections between pass the columns on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from typing import NamedTuple

from tempura.algebra import Aggregate, AggregateCall, Filter, InnerJoin, Op, Output, Project
from tempura.algebra.incremental import parts
from tempura.algebra.weights import may_fail_added
from tempura.expr import TRUE, Expr, col, conjunction, conjuncts
from tempura.failing import fails
from tempura.rules.laws import any_of, law
from tempura.rules.pruning import chosen
from tempura.schema import names
from tempura.volatile import volatile

Conditions = frozenset[Expr]
"""Predicates that all hold."""
NOTHING: Conditions = frozenset()


@law(InnerJoin)
def fused_aggregates(op: InnerJoin) -> Op | None:
    """γ[f](σ[p] X) × γ[g](σ[q] X) = γ[f filter (p), g filter (q)](σ[p or q] X) without GROUP BY, where there is always one row.

    Not for DISTINCT calls, which Spark answers by a copy of the rows for each, nor for functions whose states nobody knows; sums not with least values.
    """
    factors = _factors(op)
    alike: dict[Hashable, list[int]] = defaultdict(list)
    for place, factor in enumerate(factors):
        if (found := _global(factor)) is not None:
            # A least value cannot forget: what can be maintained under retractions is not to depend on it.
            forgets = not any("m" in (parts(c) or ()) for c in found.calls)
            alike[forgets, _shape(found.inputs[0])].append(place)
    changed = False
    for places in alike.values():
        together = _fused([factors[p] for p in places]) if len(places) > 1 else None
        if together is not None:
            factors[places[0]] = together
            for place in places[1:]:
                factors[place] = None
            changed = True
    if not changed:
        return None
    left, *rest = [f for f in factors if f is not None]
    for right in rest:
        left = InnerJoin(left, right, TRUE)
    return left if left.schema == op.schema else Project(left, tuple(Output(c, col(c.name)) for c in op.schema))


def _factors(op: Op) -> list[Op | None]:
    """What a cross join multiplies, from left to right."""
    if isinstance(op, InnerJoin) and op.on is TRUE:
        return [factor for i in op.inputs for factor in _factors(i)]
    return [op]


def _global(op: Op | None) -> Aggregate | None:
    """An aggregate without GROUP BY that may be fused, below renaming or not."""
    if isinstance(op, Project) and all(o.expr.name is not None for o in op.outputs):
        op = op.inputs[0]
    if not isinstance(op, Aggregate) or op.by or not op.calls:
        return None
    return op if all(parts(c) and c.function != "single_value" for c in op.calls) else None


def _shape(op: Op) -> Hashable:
    """What inputs that can be merged have in common: all but filters and which columns are kept."""
    core = _rows(op).core
    match core:
        case Project():
            return Project, _shape(core.inputs[0])
        case InnerJoin():
            return core.on, _shape(core.inputs[0]), _shape(core.inputs[1])
        case _:
            return core


def _fused(factors: Sequence[Op | None]) -> Op | None:
    """One aggregate with the calls of all, under the names that they had."""
    aggregates = [found for f in factors if (found := _global(f)) is not None]
    below = _merged([a.inputs[0] for a in aggregates])
    if below is None:
        return None
    asked = [
        any(fails(e, a.inputs[0].schema) for e in (c.argument, c.where) if e is not None)
        or may_fail_added(c, a.inputs[0].schema)
        for a in aggregates
        for c in a.calls
    ]
    if any(below.own) and any(asked):
        return None  # A condition of rows need not be asked before an argument, if it is one of the call.
    calls: list[AggregateCall] = []
    for factor, aggregate, own in zip(factors, aggregates, below.own, strict=True):
        named = {c.name: c._replace(where=conjunction((c.where, *own))) for c in aggregate.calls}
        if isinstance(factor, Project):
            calls += [named[o.expr.name]._replace(column=o.column) for o in factor.outputs if o.expr.name]
        else:
            calls += named.values()
    return Aggregate(below.op, (), tuple(calls))


class _Rows(NamedTuple):
    """Some rows and columns of what is neither a filter nor a choice of columns."""

    core: Op
    conditions: Conditions
    columns: frozenset[str]


def _rows(op: Op) -> _Rows:
    conditions, columns = NOTHING, frozenset(names(op.schema))
    while True:
        if isinstance(op, Filter):
            conditions |= frozenset(conjuncts(op.predicate))
        elif not isinstance(op, Project) or any(o.expr.name != o.name for o in op.outputs):
            return _Rows(op, conditions, columns)
        op = op.inputs[0]


class _Merged(NamedTuple):
    """The rows that any of several inputs has, and the conditions by which each of them knows its own."""

    op: Op
    own: tuple[Conditions, ...]


def _merged(ops: Sequence[Op]) -> _Merged | None:
    """σ[p] X and σ[q] X are in σ[p or q] X; conditions that all have are asked once."""
    if all(op == ops[0] for op in ops):
        return _Merged(ops[0], (NOTHING,) * len(ops))
    rows = [_rows(op) for op in ops]
    below = _merged_cores([r.core for r in rows])
    if below is None or any(volatile(p) for r in rows for p in r.conditions):
        return None
    common = rows[0].conditions.intersection(*(r.conditions for r in rows))
    rest = [r.conditions - common for r in rows]
    asked = conjunction((*common, any_of(map(conjunction, rest))) if all(rest) else common)
    own = tuple(a | b for a, b in zip(below.own, rest, strict=True))
    kept = frozenset[str]().union(*(r.columns for r in rows), *(p.columns for conditions in own for p in conditions))
    op = chosen(below.op, kept | asked.columns)
    return _Merged(chosen(op if asked is TRUE else Filter(op, asked), kept), own)


def _merged_cores(ops: Sequence[Op]) -> _Merged | None:
    if all(op == ops[0] for op in ops):
        return _Merged(ops[0], (NOTHING,) * len(ops))
    projects = [op for op in ops if isinstance(op, Project)]
    joins = [op for op in ops if isinstance(op, InnerJoin)]
    if len(projects) == len(ops):
        return _projects(projects)
    return _joins(joins) if len(joins) == len(ops) else None


def _projects(ops: Sequence[Project]) -> _Merged | None:
    """All columns that any of them has, and those that are asked for again."""
    below = _merged([op.inputs[0] for op in ops])
    if below is None:
        return None
    given = {c.name: c for c in below.op.schema}
    again = sorted({c for conditions in below.own for p in conditions for c in p.columns})
    outputs: dict[str, Output] = {}
    for output in (*(o for op in ops for o in op.outputs), *(Output(given[c], col(c)) for c in again)):
        if outputs.setdefault(output.name, output).expr != output.expr:
            return None
    return _Merged(Project(below.op, tuple(outputs.values())), below.own)


def _joins(ops: Sequence[InnerJoin]) -> _Merged | None:
    left, right = (_merged([op.inputs[side] for op in ops]) for side in (0, 1))
    if left is None or right is None or not set(names(left.op.schema)).isdisjoint(names(right.op.schema)):
        return None
    own = tuple(a | b for a, b in zip(left.own, right.own, strict=True))
    return _Merged(InnerJoin(left.op, right.op, ops[0].on), own)
