"""The estimated size of a relation, and how each operator's follows from those of its inputs.

`derive` is a table from operator class to function; a user's own operator is added with `DERIVE[MyOperator] = ...`.

Rows are counted twice: `rows` are the tuples that a bag lists, whatever their weights, which is what work is proportional to; `net` counts
them with their sign. Filters and joins are linear in both, so for insert-only inputs the estimates of the terms of a delta add up
to the difference of the estimates of the snapshots (`column.py` says why).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tempura.algebra import (
    Affected,
    Aggregate,
    AggregateState,
    AntiJoin,
    Empty,
    Expand,
    Filter,
    FinalState,
    FullOuterJoin,
    InnerJoin,
    LeftOuterJoin,
    MergeState,
    Minus,
    Op,
    Plus,
    Project,
    Replicate,
    SemiJoin,
    TopK,
    Values,
    Window,
)
from tempura.errors import PlanError
from tempura.estimate import runs
from tempura.estimate.aggregates import affected, aggregate, aggregate_state, final_state, merge_state
from tempura.estimate.column import Columns, ColumnStats, computed_column, guess, sample_distinct, unknown_column
from tempura.estimate.joins import anti_join, inner_join, outer_join, semi_join
from tempura.estimate.relation import NOT_PADDED, Sets, Stats, thin
from tempura.estimate.selectivity import narrowed, selectivity
from tempura.estimate.tables import delta_stats, table_stats
from tempura.estimate.unions import minus, plus
from tempura.expr import Expr
from tempura.schema import Schema

__all__ = ["DERIVE", "Derivation", "Stats", "delta_stats", "derive", "table_stats"]


def derive(op: Op, inputs: Sequence[Stats], schemas: Sequence[Schema]) -> Stats:
    """What is estimated of an operator's output, from its payload and its inputs' statistics and schemas."""
    function = DERIVE.get(type(op))
    if function is None:
        name = type(op).__name__
        raise PlanError(
            f"there is no estimate for the operator {name}",
            hint="tables are estimated by table_stats and delta_stats; for an operator of your own add a function to tempura.estimate.DERIVE",
        )
    return function(op, inputs, schemas)


def _bounded_by_domain(columns: Columns, rows: float) -> Callable[[str], float]:
    return lambda name: columns[name].domain if name in columns else rows


def _with_columns(source: Stats, columns: Columns, rows: float) -> Callable[[str], float]:
    """As in the input, but not more than the columns' domains allow (which a filter has narrowed)."""

    def distinct(name: str) -> float:
        here = sample_distinct(source.distinct(name), source.rows, rows)
        column = columns.get(name)
        return here if column is None else min(here, column.domain)

    return distinct


# Operators of one input.


def _filter(op: Filter, inputs: Sequence[Stats], schemas: Sequence[Schema]) -> Stats:
    (x,) = inputs
    share = selectivity(op.predicate, x.columns, x.padded)
    narrow = narrowed(op.predicate, x.columns)
    tables = {x.columns[c].row for c in op.predicate.columns if c in x.columns}
    if len(tables) == 1 and (row := tables.pop()) in x.columns:
        narrow[row] = x.columns[row]._replace(kept=x.columns[row].kept * share)
    rows = x.rows * share
    kept = runs.filtered(x, share, tuple(op.predicate.columns))
    if not narrow:
        return Stats(rows, x.net * share, x.width, x.columns, thin(x, rows), x.padded, x.unique, x.folded, x.sets, kept)
    columns = {**x.columns, **narrow}
    padded = {n: p for n, p in x.padded.items() if n not in narrow} if x.padded else x.padded
    distinct = _with_columns(x, columns, rows)
    return Stats(rows, x.net * share, x.width, columns, distinct, padded, x.unique, x.folded, x.sets, kept)


def _project(op: Project, inputs: Sequence[Stats], schemas: Sequence[Schema]) -> Stats:
    (x,) = inputs
    given = x.columns
    columns: dict[str, ColumnStats] = {}
    origins: dict[str, str] = {}
    computed: dict[str, Expr] = {}
    padded: dict[str, float] = {}
    width = 0.0
    for column, expr in op.outputs:
        name, old = column.name, expr.name
        stats = given.get(old) if old is not None else None
        if stats is not None and old is not None:
            origins[name] = old
            if old in x.padded:
                padded[name] = x.padded[old]
        else:
            stats = computed_column(expr.tree, given)._replace(
                width=guess(column.type).width, text=guess(column.type).text
            )
            computed[name] = expr
        columns[name] = stats
        width += stats.width
        if stats.row and stats.row in given and stats.row not in columns:
            columns[stats.row] = given[stats.row]
            origins[stats.row] = stats.row

    def distinct(name: str) -> float:
        old = origins.get(name)
        if old is not None:
            return x.distinct(old)
        if name not in computed:
            return x.rows
        reads = sorted(c for c in computed[name].columns if c in given)
        return min(columns[name].domain, x.groups(reads) if reads else 1.0)

    def run(name: str) -> float:
        old = origins.get(name)
        return x.run([old] if old is not None else sorted(computed[name].columns) if name in computed else [])

    unique, sets = x.unique, x.sets
    if unique is not None or sets is not None:
        kept = {old: new for new, old in origins.items()}
        unique = tuple(kept[c] for c in unique) if unique is not None and all(c in kept for c in unique) else None
        sets = sets.renamed(kept) if sets else None
    return Stats(x.rows, x.net, width, columns, distinct, padded or NOT_PADDED, unique, x.folded, sets, run)


def _expand(op: Expand, inputs: Sequence[Stats], schemas: Sequence[Schema]) -> Stats:
    (x,) = inputs
    sets = float(len(op.sets))
    columns = {**x.columns, op.tag: ColumnStats(sets)}
    padded = dict(x.padded)
    for name in op.columns:
        missing = sum(name not in s for s in op.sets) / max(sets, 1.0)
        if missing:
            padded[name] = 1 - (1 - padded.get(name, 0.0)) * (1 - missing)
    unique = None
    if x.unique is not None and all(c in s for c in x.unique if c in op.columns for s in op.sets):
        unique = (*x.unique, op.tag)
    return Stats(
        x.rows * sets,
        x.net * sets,
        x.width + 8,
        columns,
        lambda n: sets if n == op.tag else x.distinct(n),
        padded,
        unique,
        sets=Sets(op.tag, frozenset(op.columns), tuple(map(frozenset, op.sets)), (1 / max(sets, 1.0),) * len(op.sets)),
        runs=lambda n: x.run([n]),
    )


def _replicate(op: Replicate, inputs: Sequence[Stats], schemas: Sequence[Schema]) -> Stats:
    (x,) = inputs
    times = max(1.0, x.folded)
    return Stats(x.rows * times, x.net * times, x.width, x.columns, x.distinct, x.padded)


def _window(op: Window, inputs: Sequence[Stats], schemas: Sequence[Schema]) -> Stats:
    (x,) = inputs
    made = {c.name: unknown_column(c.column) for c in op.calls}
    width = x.width + sum(c.width for c in made.values())
    columns = {**x.columns, **made}
    rows = x.rows
    return Stats(
        rows,
        x.net,
        width,
        columns,
        lambda n: min(made[n].domain, rows) if n in made else x.distinct(n),
        x.padded,
        x.unique,
        x.folded,
        x.sets,
        lambda n: x.run([n]),
    )


def _top_k(op: TopK, inputs: Sequence[Stats], schemas: Sequence[Schema]) -> Stats:
    (x,) = inputs
    rows = max(0.0, x.rows - op.offset)
    return x.thinned(rows if op.limit is None else min(rows, float(op.limit)))


# Constants.


def _constant_stats(schema: Schema, rows: float) -> Stats:
    columns = {c.name: unknown_column(c, max(rows, 1.0)) for c in schema}
    return Stats(rows, rows, sum(c.width for c in columns.values()), columns, _bounded_by_domain(columns, rows))


def _values(op: Values, inputs: Sequence[Stats], schemas: Sequence[Schema]) -> Stats:
    return _constant_stats(op.columns, float(len(op.rows)))


def _empty(op: Empty, inputs: Sequence[Stats], schemas: Sequence[Schema]) -> Stats:
    return _constant_stats(op.columns, 0.0)


Derivation = Callable[[Any, Sequence[Stats], Sequence[Schema]], Stats]

DERIVE: dict[type[Op], Derivation] = {
    Values: _values,
    Empty: _empty,
    Filter: _filter,
    Project: _project,
    Expand: _expand,
    Replicate: _replicate,
    Window: _window,
    TopK: _top_k,
    Aggregate: aggregate,
    AggregateState: aggregate_state,
    MergeState: merge_state,
    FinalState: final_state,
    Affected: affected,
    Plus: plus,
    Minus: minus,
    InnerJoin: inner_join,
    LeftOuterJoin: outer_join,
    FullOuterJoin: outer_join,
    SemiJoin: semi_join,
    AntiJoin: anti_join,
}
"""How each operator's statistics follow from those of its inputs. Scan and Read have none: time is not in their payload."""
