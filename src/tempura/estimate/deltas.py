"""The estimated size of a delta, from the definition of its TVR alone.

Each method has its own way to a delta, and ways differ in what they list: recomputing the groups that a delta touches lists old and new rows, a
difference only those that changed. Were a delta estimated by the way that was found first, it would have another size, and all that reads it
another cost, whenever another method is allowed; and a plan with more methods could seem dearer than one with fewer. So the size of a delta follows
from what defines its TVR and from the sizes of the inputs before, after and in between.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tempura.algebra import (
    Affected,
    Aggregate,
    AggregateState,
    AntiJoin,
    Expand,
    Filter,
    FullOuterJoin,
    InnerJoin,
    LeftOuterJoin,
    MergeState,
    Op,
    Output,
    Plus,
    Project,
    Replicate,
    SemiJoin,
    Window,
)
from tempura.estimate.relation import Stats
from tempura.estimate.stats import derive
from tempura.expr import TRUE, Expr, col, same_columns, split_condition
from tempura.schema import Column, Schema, names


class Change(NamedTuple):
    """An input of an operator over an interval."""

    schema: Schema
    before: Stats
    after: Stats
    delta: Stats | None
    """None if nothing changes."""


def derive_change(op: Op, inputs: Sequence[Change], before: Stats, after: Stats) -> Stats | None:
    """What is estimated of an operator's change while its own snapshots go from one to the other; None where only a way to compute it can tell."""
    function = CHANGES.get(type(op))
    return None if function is None else function(op, inputs, before, after)


def _linear(op: Op, inputs: Sequence[Change], before: Stats, after: Stats) -> Stats | None:
    changed = [(i.delta, i.schema) for i in inputs if i.delta is not None]
    if len(inputs) > 1 and len(changed) == 1:
        return changed[0][0]
    return derive(op, [delta for delta, _ in changed], [schema for _, schema in changed])


def _inner_join(op: InnerJoin, inputs: Sequence[Change], before: Stats, after: Stats) -> Stats | None:
    """ΔL ⋈ R + L' ⋈ ΔR."""
    left, right = inputs
    schemas = [left.schema, right.schema]
    terms: list[Stats] = []
    if left.delta is not None:
        terms.append(derive(op, [left.delta, right.before], schemas))
    if right.delta is not None:
        terms.append(derive(op, [left.after, right.delta], schemas))
    return terms[0] if len(terms) == 1 else derive(Plus((op, op)), terms, [])


def _aggregate(op: Aggregate, inputs: Sequence[Change], before: Stats, after: Stats) -> Stats | None:
    """The old and the new rows of the groups that change; of DISTINCT only the groups that come and go."""
    (x,) = inputs
    if not op.by or x.delta is None:
        return None
    state = AggregateState(op.input, op.by, ())
    came = derive(state, [x.delta], [x.schema])
    old = _touched(derive(state, [x.before], [x.schema]), came, op.by, x.schema)
    new = derive(MergeState((op, op), op.by, ()), [old, came], [])
    if op.calls:
        return after.thinned(new.rows + old.rows, new.rows - old.rows)
    gone = came.retracted
    return after.thinned(max(new.rows - old.rows, 0.0) + 2 * gone, new.rows - old.rows)


def _window(op: Window, inputs: Sequence[Change], before: Stats, after: Stats) -> Stats | None:
    """The old and the new rows of the partitions that change."""
    (x,) = inputs
    if not op.partition or x.delta is None:
        return None
    old, new = (_touched(s, x.delta, op.partition, x.schema) for s in (before, after))
    return after.thinned(new.rows + old.rows, new.rows - old.rows)


def _touched(x: Stats, delta: Stats, by: Sequence[str], schema: Schema) -> Stats:
    """The rows that agree on some columns with a row of the delta."""
    given = {c.name: c for c in schema}
    keys = tuple(Column(f"{c}__k", given[c].type, given[c].nullable) for c in by)
    groups = Affected(None, tuple(by))  # type: ignore[arg-type]
    named = Project(groups, tuple(Output(key, col(c)) for key, c in zip(keys, by, strict=True)))
    found = derive(named, [derive(groups, [delta], [schema])], [tuple(given[c] for c in by)])
    match = SemiJoin(groups, named, same_columns(by, [key.name for key in keys]))
    return derive(match, [x, found], [schema, keys])


def _one_sided(op: SemiJoin | AntiJoin, inputs: Sequence[Change], before: Stats, after: Stats) -> Stats | None:
    """ΔL ⋉ R, and the rows of L' for which there is a match now and was none, or the reverse."""
    left, right = inputs
    terms: list[Stats] = []
    if left.delta is not None:
        terms.append(derive(op, [left.delta, right.before], [left.schema, right.schema]))
    if right.delta is not None:
        terms.append(_flipped(op.on, left, right, right.delta, 1 if isinstance(op, SemiJoin) else -1))
    return terms[0] if len(terms) == 1 else derive(Plus((op, op)), terms, [])


def _outer_join(
    op: LeftOuterJoin | FullOuterJoin, inputs: Sequence[Change], before: Stats, after: Stats
) -> Stats | None:
    """ΔL ⟕ R + L' ⋈ ΔR, and the padded rows that come and go; of ⟗ those of the right side too."""
    left, right = inputs
    schemas = [left.schema, right.schema]
    full = isinstance(op, FullOuterJoin)
    terms: list[Stats] = []
    if left.delta is not None:
        terms.append(derive(LeftOuterJoin(op.left, op.right, op.on), [left.delta, right.before], schemas))
        if full:
            flips = _flipped(op.on, right, left, left.delta, -1)
            terms.append(after.thinned(flips.rows, flips.net))
    if right.delta is not None:
        joined = derive(InnerJoin(op.left, op.right, op.on), [left.after, right.delta], schemas)
        flips = _flipped(op.on, left, right, right.delta, -1)
        terms += [joined, after.thinned(flips.rows, flips.net)]
        if full and joined.rows < right.delta.rows:
            terms.append(after.thinned(right.delta.rows - joined.rows))
    return terms[0] if len(terms) == 1 else derive(Plus((op,) * len(terms)), terms, [])


def _flipped(on: Expr, left: Change, right: Change, delta: Stats, sign: int) -> Stats:
    """The rows of the left side that gain (by the sign, lose) their first match or lose their last, while the right side changes."""
    condition = split_condition(on, names(left.schema), names(right.schema))
    by = tuple(dict.fromkeys(e.right.name for e in condition.equi if e.right.name is not None))
    keys, net = delta, delta.net
    if by and len(by) == len(condition.equi) and condition.residual == TRUE:
        distinct = Aggregate(None, by, ())  # type: ignore[arg-type]
        whole = derive(distinct, [right.after], [right.schema])
        keys = _aggregate(distinct, [right], whole, whole) or delta
        net = keys.net
    rows = derive(SemiJoin(None, None, on), [left.after, keys], [left.schema, right.schema]).rows  # type: ignore[arg-type]
    return left.after.thinned(rows, sign * rows * (net / keys.rows if keys.rows > 0 else 0.0))


CHANGES: dict[type[Op], Callable[[Any, Sequence[Change], Stats, Stats], Stats | None]] = {
    **dict.fromkeys((Filter, Project, Expand, Replicate, Plus, AggregateState), _linear),
    **dict.fromkeys((SemiJoin, AntiJoin), _one_sided),
    **dict.fromkeys((LeftOuterJoin, FullOuterJoin), _outer_join),
    InnerJoin: _inner_join,
    Aggregate: _aggregate,
    Window: _window,
}
"""How each operator's change follows from those of its inputs."""
