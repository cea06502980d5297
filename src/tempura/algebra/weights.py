"""Which relations carry weights: derived, so that pipelines in which rows only come never pay for them; and what must not be asked of rows that are not there."""

from __future__ import annotations

from tempura.algebra.incremental import Minus
from tempura.algebra.op import Op, expressions
from tempura.algebra.physical import Read
from tempura.algebra.relational import (
    AntiJoin,
    Expand,
    Filter,
    FullOuterJoin,
    InnerJoin,
    LeftOuterJoin,
    Plus,
    Project,
    Replicate,
    SemiJoin,
)
from tempura.expr import Expr, may_fail
from tempura.schema import names, numeric

_PASS = (Filter, Project, Expand, InnerJoin, LeftOuterJoin, FullOuterJoin, Plus)


def is_weighted(op: Op) -> bool:
    """Whether the rows of an operator tree have a weight column."""
    if isinstance(op, Read):
        return op.weighted
    if isinstance(op, (Minus, Replicate)):
        return True
    if isinstance(op, (SemiJoin, AntiJoin)):
        return is_weighted(op.left)  # type: ignore[arg-type]
    return isinstance(op, _PASS) and any(is_weighted(i) for i in op.inputs)


def may_fail_in(op: Op) -> tuple[Expr, ...]:
    """What an operator computes of the rows it is given and may fail. Numbers and dates can be cast to whatever Spark lets them, but for an overflow."""
    given = tuple(column for i in op.inputs for column in i.schema)
    right = frozenset(c.name for c in given if numeric(c.type) or c.type in ("date", "timestamp", "timestamp_ntz"))
    return tuple(e for e in expressions(op.payload) if e.columns <= set(names(given)) and may_fail(e, right))
