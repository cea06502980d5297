"""The estimated size of aggregates, and of the states that they are kept as: how many groups there are, and how many rows each stands for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tempura.algebra import Affected, Aggregate, AggregateCall, AggregateState, FinalState, MergeState
from tempura.algebra.incremental import state_columns
from tempura.estimate.column import (
    AGGREGATE_DOMAINS,
    COMPUTED_DOMAIN,
    ROW,
    Columns,
    ColumnStats,
    computed_column,
    guess,
    united_distinct,
    unknown_column,
)
from tempura.estimate.relation import NOT_PADDED, Stats
from tempura.estimate.unions import united_column, united_sets, united_values
from tempura.schema import Schema


def _call_column(call: AggregateCall, columns: Columns) -> ColumnStats:
    if call.function in ("min", "max", "any_value", "single_value") and call.argument is not None:
        assumed = guess(call.column.type)
        return computed_column(call.argument.tree, columns)._replace(width=assumed.width, text=assumed.text, row="")
    return unknown_column(call.column, AGGREGATE_DOMAINS.get(call.function, COMPUTED_DOMAIN))


def _grouped(
    x: Stats, by: tuple[str, ...], made: Mapping[str, ColumnStats], rows: float, net: float, folded: float
) -> Stats:
    columns: dict[str, ColumnStats] = {}
    width = 0.0
    for name in by:
        stats = x.columns.get(name)
        if stats is not None:
            columns[name] = stats
            width += stats.width
            if stats.row in x.columns:
                columns[stats.row] = x.columns[stats.row]
    columns.update(made)
    width += sum(c.width for c in made.values())
    padded = {n: x.padded[n] for n in by if n in x.padded} if x.padded else NOT_PADDED
    sets = None
    if x.sets is not None and x.sets.tag in by:
        parts = x.groups_by_set(x.sets, by)
        sets = x.sets._replace(shares=tuple(part / max(sum(parts), 1.0) for part in parts))
    return Stats(
        rows, net, width, columns, lambda n: made[n].domain if n in made else x.distinct(n), padded, by, folded, sets
    )


def aggregate(op: Aggregate, inputs: Sequence[Stats], schemas: Sequence[Schema]) -> Stats:
    (x,) = inputs
    rows = x.groups(op.by) if op.by else 1.0
    made = {c.name: _call_column(c, x.columns) for c in op.calls}
    return _grouped(x, op.by, made, rows, rows, _folded(x, rows))


def _folded(x: Stats, groups: float) -> float:
    return max(1.0, x.rows * x.folded / groups) if groups > 0 else 1.0


_state_columns: dict[tuple[AggregateCall, ...], dict[str, ColumnStats]] = {}


def aggregate_state(op: AggregateState, inputs: Sequence[Stats], schemas: Sequence[Schema]) -> Stats:
    """A group all of whose rows are retracted takes itself away, which `net` counts; that is likely only for small groups."""
    (x,) = inputs
    made = _state_columns.get(op.calls)
    if made is None:
        made = _state_columns[op.calls] = {c.name: unknown_column(c) for c in state_columns(op.calls)}
    rows = x.groups(op.by)
    folded = _folded(x, rows)
    gone = (x.retracted / x.rows) ** folded if x.rows > 0 and x.retracted > 0 else 0.0
    return _grouped(x, op.by, made, rows, rows * (1 - 2 * gone), folded)


def merge_state(op: MergeState, inputs: Sequence[Stats], schemas: Sequence[Schema]) -> Stats:
    """The groups of all inputs: at least those of the largest, at most the sum, and no more than there can be."""
    first = inputs[0]
    most = first.possible(op.by)
    most += any(first.nulls(c) > 0 for c in op.by)
    arrived = [(i.rows + i.net) / 2 for i in inputs]
    united = united_distinct(most, [(a, i.folded) for a, i in zip(arrived, inputs, strict=True)])
    rows = max(0.0, min(united, sum(arrived)) - sum(i.retracted for i in inputs))
    made = {n: c for n, c in first.columns.items() if n not in op.by and not n.startswith(ROW)}
    # The merged state is of the rows of all inputs.
    spans = {
        n: united_column(inputs, [i.columns.get(n, c) for i in inputs])
        for n, c in first.columns.items()
        if n.startswith(ROW)
    }
    columns = {**first.columns, **spans}
    shared = united_values(inputs, columns, rows)
    total = sum(i.rows * i.folded for i in inputs)
    folded = max(1.0, total / rows) if rows > 0 else 1.0
    return Stats(
        rows,
        rows,
        first.width,
        columns,
        lambda n: rows if n in made else shared(n),
        first.padded,
        op.by,
        folded,
        united_sets(inputs),
    )


def final_state(op: FinalState, inputs: Sequence[Stats], schemas: Sequence[Schema]) -> Stats:
    (x,) = inputs
    rows = x.rows if op.by else 1.0
    made = {c.name: unknown_column(c.column, AGGREGATE_DOMAINS.get(c.function, COMPUTED_DOMAIN)) for c in op.calls}
    return _grouped(x, op.by, made, rows, rows, x.folded)


def affected(op: Affected, inputs: Sequence[Stats], schemas: Sequence[Schema]) -> Stats:
    (x,) = inputs
    rows = x.groups(op.columns)
    return _grouped(x, op.columns, {}, rows, rows, 1.0)
