"""Equalities of values of different types, with the cast that Spark would make written out where it makes different values equal.

`code = 1` is true of '1' and of '01'. Keys, matches that are grouped and equalities that follow from others take what is equal for the same, so they must see
`CAST(code AS BIGINT) = 1`, and not the column.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from tempura.algebra import AntiJoin, Filter, FullOuterJoin, InnerJoin, LeftOuterJoin, Op, SemiJoin
from tempura.expr import Expr, conjunction, conjuncts
from tempura.schema import Column
from tempura.sql.bind.types import common_decimal, digits, infer
from tempura.sqltext import Tree

_WHOLE = ("tinyint", "smallint", "int", "bigint")
_FLOATS = ("float", "double")
_SHORT = ("tinyint", "smallint", "int", "float", "double")
"""Numbers that are all different as doubles."""


def casts(left: str, right: str) -> tuple[str, str]:
    """The types that values of two types are to be cast to before they are compared; empty where Spark's own cast keeps different values different."""
    if left == right:
        return "", ""
    if "string" in (left, right):
        other = left if right == "string" else right
        to = "bigint" if other in _WHOLE else "double" if other in _FLOATS or digits(other) else other
        if to not in ("bigint", "double", "date", "timestamp", "timestamp_ntz", "boolean"):
            return "", ""
        if to == "double":
            return _to_double(left), _to_double(right)
        return (to, "") if left == "string" else ("", to)
    if (left in _FLOATS and digits(right)) or (right in _FLOATS and digits(left)):
        return _to_double(left), _to_double(right)
    return _to_decimal(left, right)


def _to_decimal(left: str, right: str) -> tuple[str, str]:
    """Of two decimals (whole numbers count as such) the common type, if it has not room for all of their digits: then it rounds, and different values become equal."""
    a, b = digits(left), digits(right)
    if a is None or b is None or max(a[1], b[1]) + max(a[0] - a[1], b[0] - b[1]) <= 38:
        return "", ""
    common = common_decimal(a, b)
    return ("" if left == common else common), ("" if right == common else common)


def _to_double(name: str) -> str:
    return "" if name in _SHORT else "double"


def cast(tree: Tree, to: str) -> Tree:
    """The tree, cast if there is a type to cast to."""
    return exp.Cast(this=tree.copy(), to=exp.DataType.build(to, dialect="spark")) if to else tree.copy()


def aligned(tree: Tree, columns: Mapping[str, Column]) -> Tree:
    """A conjunct; if it is an equality of two expressions over columns, with the casts that it needs."""
    if not isinstance(tree, (exp.EQ, exp.NullSafeEQ)):
        return tree
    sides = (tree.this.unnest(), tree.expression.unnest())
    if not all(side.find(exp.Column) for side in sides):
        return tree
    to = casts(*(infer(side, columns).type for side in sides))
    if not any(to):
        return tree
    left, right = (cast(side, t) if t else part.copy() for side, t, part in zip(sides, to, (tree.this, tree.expression), strict=True))  # fmt: skip
    return type(tree)(this=left, expression=right)


def with_casts(op: Op, seen: dict[int, Op] | None = None) -> Op:
    """A bound tree in which the equalities of filters and joins have the casts that they need; what it has in common stays so."""
    seen = {} if seen is None else seen
    found = seen.get(id(op))
    if found is None:
        inputs = [with_casts(i, seen) for i in op.inputs]
        found = op if all(a is b for a, b in zip(inputs, op.inputs, strict=True)) else op.over(inputs)
        if isinstance(found, (Filter, InnerJoin, LeftOuterJoin, FullOuterJoin, SemiJoin, AntiJoin)):
            found = _with_casts(found)
        seen[id(op)] = found
    return found


def _with_casts(op: Op) -> Op:
    (given,) = op.payload
    columns = {c.name: c for i in op.inputs for c in i.schema}
    parts = conjuncts(given)
    cast_parts = [Expr(aligned(part.tree, columns)) for part in parts]
    if all(a is b for a, b in zip(parts, cast_parts, strict=True)):
        return op
    return type(op).build(op.inputs, [conjunction(cast_parts)])
