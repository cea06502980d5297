"""Half joins early or late: EXISTS may be asked of a table, or of what is left of it after other joins.

    (L ⋉ R) ⋈ S = (L ⋈ S) ⋉ R, and likewise ▷

A query is bound with EXISTS, IN and their negations as early as can be. Where the joins around keep few rows, asking those few is cheaper. Which it is depends on sizes, so that both ways are told to
the planner, for each block of inner joins: all half joins first, or all last.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tempura.algebra import AntiJoin, InnerJoin, Op, Output, Project, SemiJoin
from tempura.expr import col
from tempura.rules.dag import Interned, parents_first
from tempura.rules.relational import normalize
from tempura.schema import names


def late_half_joins(root: Op) -> Iterator[tuple[Op, Op]]:
    """Blocks of inner joins in a normalised query, each with its half joins first, as it is, and last."""
    blocks = [op for op in parents_first(Interned()(root)) if isinstance(_below(op), InnerJoin)]
    inner = {id(i) for op in blocks for i in op.inputs}
    for op in blocks:
        if id(op) in inner and isinstance(op, InnerJoin):
            continue
        found = _bare(_below(op))
        if found.halves and (late := _late(op, found)) is not None:
            yield op, late


def _below(op: Op) -> Op:
    """A join that columns are chosen from, or the operator itself."""
    chosen = isinstance(op, Project) and all(o.expr.name is not None for o in op.outputs)
    return op.inputs[0] if chosen else op


class _Bare(NamedTuple):
    """Inner joins without the half joins below them, and these, the innermost first."""

    op: Op
    halves: tuple[SemiJoin | AntiJoin, ...]


def _bare(op: Op) -> _Bare:
    if isinstance(op, InnerJoin):
        left, right = map(_bare, op.inputs)
        if _apart(left.op, right.op):
            return _Bare(InnerJoin(left.op, right.op, op.on), left.halves + right.halves)
        return _Bare(op, ())
    halves: list[SemiJoin | AntiJoin] = []
    core = op
    while True:
        if isinstance(core, SemiJoin | AntiJoin):
            halves.append(core)
            op = core = core.inputs[0]
        elif isinstance(core, Project) and all(o.expr.name == o.name for o in core.outputs):
            # Columns that a half join reads are dropped after it.
            core = core.inputs[0]
        else:
            return _Bare(op, tuple(reversed(halves)))


def _late(op: Op, found: _Bare) -> Op | None:
    """The same rows and columns with the half joins last; None if names would meet."""
    late = found.op
    for half in found.halves:
        if not _apart(late, half.inputs[1]):
            return None
        late = type(half)(late, half.inputs[1], half.on)
    outputs = op.outputs if isinstance(op, Project) else tuple(Output(c, col(c.name)) for c in op.schema)
    return normalize(Project(late, outputs))


def _apart(left: Op, right: Op) -> bool:
    return set(names(left.schema)).isdisjoint(names(right.schema))
