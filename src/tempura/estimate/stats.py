"""The estimated size of a relation, and how each operator's follows from those of its inputs.

`derive` is a table from operator class to function; a user's own operator is added with `DERIVE[MyOperator] = ...`.

Rows are counted twice: `rows` are the tuples that a bag lists, whatever their weights, which is what work is proportional to; `net` counts
them with their sign. Filters and joins are linear in both, so for insert-only inputs the estimates of the terms of a delta add up
to the difference of the estimates of the snapshots (`column.py` says why).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tempura.algebra import (
    Affected,
    Aggregate,
    AggregateCall,
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
from tempura.algebra.incremental import state_columns
from tempura.errors import PlanError
from tempura.estimate import runs
from tempura.estimate.column import (
    AGGREGATE_DOMAINS,
    COMPUTED_DOMAIN,
    ROW,
    Columns,
    ColumnStats,
    computed_column,
    guess,
    sample_distinct,
    united_distinct,
    unknown_column,
)
from tempura.estimate.joins import anti_join, inner_join, outer_join, semi_join
from tempura.estimate.relation import NOT_PADDED, Sets, Stats, thin
from tempura.estimate.selectivity import narrowed, selectivity
from tempura.estimate.tables import delta_stats, table_stats
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


_FEW = 10.0
"""Up to so many values, two inputs of a union are taken to have different ones: they are mostly constants that name the branch."""


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
            stats = computed_column(expr.tree, given)._replace(width=guess(column.type).width)
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


# Aggregates.


def _call_column(call: AggregateCall, columns: Columns) -> ColumnStats:
    if call.function in ("min", "max", "any_value", "single_value") and call.argument is not None:
        return computed_column(call.argument.tree, columns)._replace(width=guess(call.column.type).width, row="")
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


def _aggregate(op: Aggregate, inputs: Sequence[Stats], schemas: Sequence[Schema]) -> Stats:
    (x,) = inputs
    rows = x.groups(op.by) if op.by else 1.0
    made = {c.name: _call_column(c, x.columns) for c in op.calls}
    return _grouped(x, op.by, made, rows, rows, _folded(x, rows))


def _folded(x: Stats, groups: float) -> float:
    return max(1.0, x.rows * x.folded / groups) if groups > 0 else 1.0


_state_columns: dict[tuple[AggregateCall, ...], dict[str, ColumnStats]] = {}


def _aggregate_state(op: AggregateState, inputs: Sequence[Stats], schemas: Sequence[Schema]) -> Stats:
    """A group all of whose rows are retracted takes itself away, which `net` counts; that is likely only for small groups."""
    (x,) = inputs
    made = _state_columns.get(op.calls)
    if made is None:
        made = _state_columns[op.calls] = {c.name: unknown_column(c) for c in state_columns(op.calls)}
    rows = x.groups(op.by)
    folded = _folded(x, rows)
    gone = (x.retracted / x.rows) ** folded if x.rows > 0 and x.retracted > 0 else 0.0
    return _grouped(x, op.by, made, rows, rows * (1 - 2 * gone), folded)


def _merge_state(op: MergeState, inputs: Sequence[Stats], schemas: Sequence[Schema]) -> Stats:
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
        n: _united_column(inputs, [i.columns.get(n, c) for i in inputs])
        for n, c in first.columns.items()
        if n.startswith(ROW)
    }
    columns = {**first.columns, **spans}
    shared = _united(inputs, columns, rows)
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
        _united_sets(inputs),
    )


def _final_state(op: FinalState, inputs: Sequence[Stats], schemas: Sequence[Schema]) -> Stats:
    (x,) = inputs
    rows = x.rows if op.by else 1.0
    made = {c.name: unknown_column(c.column, AGGREGATE_DOMAINS.get(c.function, COMPUTED_DOMAIN)) for c in op.calls}
    return _grouped(x, op.by, made, rows, rows, x.folded)


def _affected(op: Affected, inputs: Sequence[Stats], schemas: Sequence[Schema]) -> Stats:
    (x,) = inputs
    rows = x.groups(op.columns)
    return _grouped(x, op.columns, {}, rows, rows, 1.0)


# Unions and differences.


def _united(inputs: Sequence[Stats], columns: Columns, rows: float) -> Callable[[str], float]:
    """The values in any of the inputs. Retracted tuples bring no values that were not there."""

    def distinct(name: str) -> float:
        column = columns.get(name)
        domain = rows if column is None else column.domain
        if column is not None and domain >= sum(i.columns.get(name, column).domain for i in inputs):
            return sum(i.distinct(name) for i in inputs)
        parts: list[tuple[float, float]] = []
        for i in inputs:
            d = i.distinct(name) * (1 + (i.net / i.rows if i.rows > 0 else 1.0)) / 2
            parts.append((d, i.rows * i.folded / d if d > 0 else 1.0))
        return united_distinct(domain, parts)

    return distinct


def _united_columns(inputs: Sequence[Stats]) -> Columns:
    first = inputs[0].columns
    if all(i.columns is first for i in inputs):
        return first
    columns: dict[str, ColumnStats] = {}
    for name, column in first.items():
        same = True
        others: list[ColumnStats] = []
        for i in inputs[1:]:
            other = i.columns.get(name)
            if other is None:
                break
            others.append(other)
            same = same and other is column
        else:
            columns[name] = column if same else _united_column(inputs, (column, *others))
    return columns


def _united_column(inputs: Sequence[Stats], columns: Sequence[ColumnStats]) -> ColumnStats:
    first = columns[0]
    if all(c == first for c in columns):
        return first
    total = sum(i.rows for i in inputs)
    nulls = (
        sum(i.rows * c.null_share for i, c in zip(inputs, columns, strict=True)) / total
        if total > 0
        else first.null_share
    )
    least = [c.least for c in columns if c.least is not None]
    greatest = [c.greatest for c in columns if c.greatest is not None]
    domain = max(c.domain for c in columns)
    akin = all(c.row == first.row for c in columns)
    if not akin:
        domain = max(domain, min(_FEW, sum(c.domain for c in columns)))
    return ColumnStats(
        domain,
        nulls,
        min(least) if len(least) == len(columns) else None,
        max(greatest) if len(greatest) == len(columns) else None,
        max(c.width for c in columns),
        first.row if akin else "",
        all(c.guessed for c in columns),
        max(c.kept for c in columns),
    )


def _plus(op: Plus, inputs: Sequence[Stats], schemas: Sequence[Schema]) -> Stats:
    """All listed tuples, also those that cancel: nothing is netted before an operator needs it."""
    return _listed(inputs, sum(i.net for i in inputs))


def _minus(op: Minus, inputs: Sequence[Stats], schemas: Sequence[Schema]) -> Stats:
    """The tuples of both sides, the right ones with weights negated: what both have is listed twice, not left out."""
    return _listed(inputs, inputs[0].net - inputs[1].net)


def _listed(inputs: Sequence[Stats], net: float) -> Stats:
    rows = sum(i.rows for i in inputs)
    columns = _united_columns(inputs)
    padded = NOT_PADDED
    if any(i.padded for i in inputs):
        names = {n for i in inputs for n in i.padded}
        padded = (
            {n: sum(i.rows * i.padded.get(n, 0.0) for i in inputs) / rows for n in names}
            if rows > 0
            else inputs[0].padded
        )
    width = max(i.width for i in inputs)
    distinct = _united(inputs, columns, rows)
    return Stats(rows, net, width, columns, distinct, padded, sets=_united_sets(inputs), runs=runs.united(inputs))


def _united_sets(inputs: Sequence[Stats]) -> Sets | None:
    first = inputs[0].sets
    alike = first is not None and all(i.sets is not None and i.sets.kept == first.kept for i in inputs)
    return first if alike else None


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
    Aggregate: _aggregate,
    AggregateState: _aggregate_state,
    MergeState: _merge_state,
    FinalState: _final_state,
    Affected: _affected,
    Plus: _plus,
    Minus: _minus,
    InnerJoin: inner_join,
    LeftOuterJoin: outer_join,
    FullOuterJoin: outer_join,
    SemiJoin: semi_join,
    AntiJoin: anti_join,
}
"""How each operator's statistics follow from those of its inputs. Scan and Read have none: time is not in their payload."""
