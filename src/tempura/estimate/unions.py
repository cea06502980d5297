"""The estimated size of unions and differences: all tuples are listed, and columns have the values of any input."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tempura.algebra import Minus, Plus
from tempura.estimate import runs
from tempura.estimate.column import Columns, ColumnStats, united_distinct
from tempura.estimate.relation import NOT_PADDED, Sets, Stats
from tempura.schema import Schema

_FEW = 10.0
"""Up to so many values, two inputs of a union are taken to have different ones: they are mostly constants that name the branch."""


def united_values(inputs: Sequence[Stats], columns: Columns, rows: float) -> Callable[[str], float]:
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


def united_columns(inputs: Sequence[Stats]) -> Columns:
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
            columns[name] = column if same else united_column(inputs, (column, *others))
    return columns


def united_column(inputs: Sequence[Stats], columns: Sequence[ColumnStats]) -> ColumnStats:
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
        text=any(c.text for c in columns),
    )


def plus(op: Plus, inputs: Sequence[Stats], schemas: Sequence[Schema]) -> Stats:
    """All listed tuples, also those that cancel: nothing is netted before an operator needs it."""
    return _listed(inputs, sum(i.net for i in inputs))


def minus(op: Minus, inputs: Sequence[Stats], schemas: Sequence[Schema]) -> Stats:
    """The tuples of both sides, the right ones with weights negated: what both have is listed twice, not left out."""
    return _listed(inputs, inputs[0].net - inputs[1].net)


def _listed(inputs: Sequence[Stats], net: float) -> Stats:
    rows = sum(i.rows for i in inputs)
    columns = united_columns(inputs)
    padded = NOT_PADDED
    if any(i.padded for i in inputs):
        names = {n for i in inputs for n in i.padded}
        padded = (
            {n: sum(i.rows * i.padded.get(n, 0.0) for i in inputs) / rows for n in names}
            if rows > 0
            else inputs[0].padded
        )
    width = max(i.width for i in inputs)
    distinct = united_values(inputs, columns, rows)
    return Stats(rows, net, width, columns, distinct, padded, sets=united_sets(inputs), runs=runs.united(inputs))


def united_sets(inputs: Sequence[Stats]) -> Sets | None:
    first = inputs[0].sets
    alike = first is not None and all(i.sets is not None and i.sets.kept == first.kept for i in inputs)
    return first if alike else None
