"""Whether there is a row, not how many: where only that is asked, a join whose other side is not read is a half join.

    L ⋉ (A ⋈ B) = L ⋉ (A ⋉ B) if the condition reads only A; likewise ▷, DISTINCT, and sides in turn

A row of A that has a thousand partners in B comes a thousand times out of the join, once out of the half join. Where it has one at most the two are the same, and the join stays, since
joins can be reordered. A join that is kept for other uses may serve here too, so that both ways are told to the planner.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tempura.algebra import Aggregate, AntiJoin, Filter, InnerJoin, LeftOuterJoin, Op, Plus, Project, SemiJoin
from tempura.expr import split_condition
from tempura.rules.dag import Interned, over, parents_first
from tempura.rules.pruning import chosen
from tempura.rules.relational import normalize
from tempura.schema import names
from tempura.volatile import volatile

Columns = frozenset[str]


def by_existence(root: Op) -> Iterator[tuple[Op, Op]]:
    """The operators of a normalised query that ask only whether a row is there, each as it is, and over as few rows as can tell it."""
    for op in parents_first(Interned()(root)):
        if isinstance(op, SemiJoin | AntiJoin):
            left, right = op.inputs
            fewer = over(op, (left, _same_rows(right, op.on.columns & _columns(right))))
        elif isinstance(op, Aggregate) and op.by and not op.calls:
            fewer = over(op, (_same_rows(op.inputs[0], frozenset(op.by)),))
        else:
            continue
        if fewer is not op:
            yield op, normalize(fewer)


def _columns(op: Op) -> Columns:
    return frozenset(names(op.schema))


def _same_rows(op: Op, wanted: Columns) -> Op:
    """An operator with at least the wanted columns, and in these the same rows, if not as many of each; the operator itself if none with fewer is known."""
    function = _FEWER.get(type(op))
    return op if function is None else function(op, wanted)


def _project(op: Project, wanted: Columns) -> Op:
    outputs = tuple(o for o in op.outputs if o.name in wanted)
    below = op.inputs[0]
    if any(volatile(o.expr) for o in op.outputs):
        return op
    fewer = _same_rows(below, frozenset[str]().union(*(o.expr.columns for o in outputs)))
    return op if fewer is below else Project(fewer, outputs)


def _filter(op: Filter, wanted: Columns) -> Op:
    if volatile(op.predicate):
        return op
    return over(op, (_same_rows(op.inputs[0], wanted | op.predicate.columns),))


def _plus(op: Plus, wanted: Columns) -> Op:
    """The inputs must agree on their columns, so each gives exactly those wanted; one, if none is."""
    wanted = wanted or frozenset([op.schema[0].name])
    inputs = tuple(_same_rows(i, wanted) for i in op.inputs)
    if all(a is b for a, b in zip(inputs, op.inputs, strict=True)):
        return op
    return op.over([chosen(i, wanted) for i in inputs])


def _inner_join(op: InnerJoin, wanted: Columns) -> Op:
    left, right = op.inputs
    if volatile(op.on):
        return op
    read = wanted | op.on.columns
    sides = tuple(_same_rows(i, read & _columns(i)) for i in op.inputs)
    found = split_condition(op.on, names(left.schema), names(right.schema)).equi
    keys = ({e.left.name for e in found}, {e.right.name for e in found})
    for asked, other in ((0, 1), (1, 0)):
        single = any(key <= keys[other] for key in op.inputs[other].keys)
        if wanted <= _columns(op.inputs[asked]) and found and not single:
            return SemiJoin(sides[asked], sides[other], op.on)
    return over(op, sides)


def _left_outer_join(op: LeftOuterJoin, wanted: Columns) -> Op:
    """Each row of the left side comes out, with a partner or without."""
    left = op.inputs[0]
    return _same_rows(left, wanted) if wanted <= _columns(left) else op


def _half_join(op: Any, wanted: Columns) -> Op:
    left, right = op.inputs
    return over(op, (_same_rows(left, (wanted | op.on.columns) & _columns(left)), right))


_FEWER: dict[type[Op], Any] = {
    Project: _project,
    Filter: _filter,
    Plus: _plus,
    InnerJoin: _inner_join,
    LeftOuterJoin: _left_outer_join,
    SemiJoin: _half_join,
    AntiJoin: _half_join,
}
"""An operator that is not here is left as it is: what it gives depends on how often its rows come."""
