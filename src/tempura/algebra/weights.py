"""Which relations carry weights: derived, so that pipelines in which rows only come never pay for them; and what must not be asked of rows that are not there."""

from __future__ import annotations

from tempura.algebra.incremental import AggregateState, Minus
from tempura.algebra.op import Op, expressions
from tempura.algebra.physical import Read
from tempura.algebra.relational import (
    Aggregate,
    AggregateCall,
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
from tempura.expr import Expr
from tempura.failing import fails, fails_when_added
from tempura.schema import Schema, names

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
    """What an operator computes of the rows it is given and may fail."""
    given = tuple(column for i in op.inputs for column in i.schema)
    asked = [e for e in expressions(op.payload) if e.columns <= set(names(given))]
    calls = op.calls if isinstance(op, (Aggregate, AggregateState)) else ()
    return (
        *(e for e in asked if fails(e, given)),
        *(c.argument for c in calls if c.argument in asked and may_fail_added(c, given)),
    )


def may_fail_added(call: AggregateCall, schema: Schema) -> bool:
    """Whether an aggregate adds up texts, which Spark takes for numbers."""
    return call.argument is not None and call.function not in _OF_ANY and fails_when_added(call.argument, schema)


_OF_ANY = ("count", "min", "max", "any_value", "single_value", "approx_count_distinct")
"""Aggregates that take texts as they are."""
