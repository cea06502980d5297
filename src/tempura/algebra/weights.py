"""Which relations carry weights: derived, so that pipelines in which rows only come never pay for them."""

from __future__ import annotations

from tempura.algebra.incremental import Minus
from tempura.algebra.op import Op
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
