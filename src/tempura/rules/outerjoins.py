"""Laws of outer joins: what joins them later goes below, what throws padded rows away or keeps nothing else makes them simpler joins."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from tempura.algebra import AntiJoin, Filter, FullOuterJoin, InnerJoin, LeftOuterJoin, Op, Output, Project, SemiJoin
from tempura.expr import TRUE, Expr, rejects_nulls
from tempura.rules.laws import all_columns, columns_of, filtered, law, parts
from tempura.rules.views import null
from tempura.schema import UNKNOWN, names
from tempura.volatile import volatile


def _outer_join(op: Any) -> tuple[LeftOuterJoin, Expr] | None:
    """The left outer join that `op` is, or whose rows it filters or whose columns it picks without renaming them; and the filter."""
    if isinstance(op, Project) and all(o.expr.name == o.name for o in op.outputs):
        op = op.input
    predicate = TRUE
    if isinstance(op, Filter) and not volatile(op.predicate):
        op, predicate = op.input, op.predicate
    return (op, predicate) if isinstance(op, LeftOuterJoin) else None


def _below(op: Any, side: Any, other: Any, kind: type[Op]) -> Op | None:
    """A join of an outer join's rows as an outer join of the join."""
    found = _outer_join(side)
    if found is None or volatile(op.on):
        return None
    outer, predicate = found
    if columns_of(outer) & columns_of(other) or not op.on.columns <= columns_of(outer.left) | columns_of(other):
        return None
    below = LeftOuterJoin(kind.build((outer.left, other), (op.on,)), outer.right, outer.on)
    return Project(filtered(below, [predicate]), all_columns(op.schema))


@law(InnerJoin, over=(LeftOuterJoin, Project), depth=2)
def inner_join_below_outer_join(op: InnerJoin) -> Op | None:
    """(L ⟕ R) ⋈ S = (L ⋈ S) ⟕ R if the condition reads only L and S: what S filters out need not look for a partner.

    Galindo-Legaria and Rosenthal (TODS 1997). Where it reads R it does not hold: L = {1}, R = {}, S = {1} joined on r = s give nothing on the left side, and
    (1, NULL) joined with nothing on the right.
    """
    return _below(op, op.left, op.right, InnerJoin) or _below(op, op.right, op.left, InnerJoin)


@law(InnerJoin, over=(Filter,), depth=2)
def inner_join_below_filtered_outer_join(op: InnerJoin) -> Op | None:
    """σp(L ⟕ R) ⋈ S = σp((L ⋈ S) ⟕ R) if the condition reads only L and S."""
    for side, other in ((op.left, op.right), (op.right, op.left)):
        if isinstance(side, Filter) and (found := _below(op, side, other, InnerJoin)):
            return found
    return None


@law(SemiJoin, AntiJoin, over=(LeftOuterJoin, Project), depth=2)
def half_join_below_outer_join(op: SemiJoin | AntiJoin) -> Op | None:
    """(L ⟕ R) ⋉ S = (L ⋉ S) ⟕ R if the condition reads only L and S; likewise for ▷."""
    return _below(op, op.left, op.right, type(op))


@law(Filter, over=(LeftOuterJoin, FullOuterJoin))
def null_rejecting_filter(op: Filter) -> Op | None:
    """σp(L ⟕ R) = σp(L ⋈ R) if p cannot be true when all columns of R are NULL; for ⟗ likewise, from either side.

    Galindo-Legaria and Rosenthal, Outerjoin simplification and reordering (TODS 1997). Where p accepts NULLs it does not hold: L = {1}, R = {2}, on l = r, p: r IS NULL gives (1, NULL) on
    the left side and nothing on the right.
    """
    join = op.inputs[0]
    left, right = join.inputs
    rejects_right = rejects_nulls(op.predicate, columns_of(right))
    if isinstance(join, LeftOuterJoin):
        return Filter(InnerJoin(left, right, join.on), op.predicate) if rejects_right else None
    rejects_left = rejects_nulls(op.predicate, columns_of(left))
    if rejects_left and rejects_right:
        return Filter(InnerJoin(left, right, join.on), op.predicate)
    if rejects_left:
        return Filter(LeftOuterJoin(left, right, join.on), op.predicate)
    if rejects_right:
        swapped = LeftOuterJoin(right, left, join.on)
        given = {c.name: c for c in swapped.schema}
        return Filter(Project(swapped, all_columns(tuple(given[n] for n in names(join.schema)))), op.predicate)
    return None


@law(Filter, over=(LeftOuterJoin,))
def unmatched_rows(op: Filter) -> Op | None:
    """σ(r IS NULL)(L ⟕ R) = π(L ▷ R), with NULL for the columns of R, if r is not NULL in any row that has a partner.

    Where r may be NULL in a partner it does not hold: L = {1}, R = {(1, NULL)} on the first column gives (1, 1, NULL) on the left side and nothing on the right.
    """
    join = op.inputs[0]
    left, right = join.inputs
    asked = parts(op.predicate)
    if not any(_is_unmatched(p, join) for p in asked) or volatile(join.on):
        return None
    padding = tuple(Output(c, null(c.type)) for c in join.schema[len(left.schema) :])
    if any(o.expr == null(UNKNOWN) for o in padding):
        return None  # A column of NULLs alone would have no type.
    unmatched = Project(AntiJoin(left, right, join.on), (*all_columns(left.schema), *padding))
    return filtered(unmatched, (p for p in asked if not _is_unmatched(p, join)))


def _is_unmatched(predicate: Expr, join: Any) -> bool:
    """Whether a predicate is true of padded rows only."""
    tree = predicate.tree
    if not (isinstance(tree, exp.Is) and isinstance(tree.this, exp.Column) and isinstance(tree.expression, exp.Null)):
        return False
    column = next((c for c in join.right.schema if c.name == tree.this.name), None)
    return column is not None and (not column.nullable or rejects_nulls(join.on, [column.name]))
