"""The statistics of base tables: a snapshot as of a point, and the delta from one point to another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from weakref import ref

from tempura.catalog import Table
from tempura.estimate.column import ROW, ColumnStats, guess, sample_distinct
from tempura.estimate.relation import Stats
from tempura.schema import Column
from tempura.timeline import Timeline

Tables = Mapping[str, Table]


def table_stats(table: Table, timeline: Timeline, point: int, tables: Tables | None = None) -> Stats:
    """A table as of a point. `tables` lets foreign keys take the number of values of what they refer to."""
    rows = table.rows(timeline, point) if point >= 0 else 0.0
    return _stats(table, rows, rows, (0.0, _arrived(table, timeline, -1, point)), tables)


def delta_stats(
    table: Table, timeline: Timeline, start_point: int, end_point: int, tables: Tables | None = None
) -> Stats:
    """What a table changes by from after one point up to another; from nothing (-1) this is the snapshot.

    Every row that arrives and every row that is taken back is listed, also one that does both.
    """
    if start_point < 0:
        return table_stats(table, timeline, end_point, tables)
    arrived = _arrived(table, timeline, start_point, end_point)
    retracted = sum(table.retracted(timeline, p) for p in range(start_point + 1, end_point + 1))
    before = _arrived(table, timeline, -1, start_point)
    # What is taken back may be as old as the table.
    span = (0.0 if retracted else before, before + arrived)
    return _stats(table, arrived + retracted, arrived - retracted, span, tables)


def _arrived(table: Table, timeline: Timeline, start: int, end: int) -> float:
    return sum(table.arrives.get(timeline.points[p].name, 0.0) for p in range(start + 1, end + 1))


def _stats(table: Table, rows: float, net: float, span: tuple[float, float], tables: Tables | None) -> Stats:
    known, width = _known(table, tables)
    row = known[ROW + table.name]
    total = row.domain
    columns = {**known, ROW + table.name: row._replace(least=span[0], greatest=span[1])}
    # With retractions the old and the new row of a key may both be listed.
    unique = table.key if table.key and rows == net else None
    return Stats(rows, net, width, columns, _present(columns, total, rows), unique=unique, runs=_runs(columns))


def _present(columns: Mapping[str, ColumnStats], total: float, rows: float) -> Callable[[str], float]:
    return lambda name: sample_distinct(columns[name].domain, total, rows) if name in columns else rows


def _runs(columns: Mapping[str, ColumnStats]) -> Callable[[str], float]:
    return lambda name: columns[name].run if name in columns else 1.0


_cache: dict[tuple[int, int], tuple[ref[Table], Tables | None, dict[str, ColumnStats], float]] = {}


def _known(table: Table, tables: Tables | None) -> tuple[dict[str, ColumnStats], float]:
    """The columns, the same for all views of a table, and the width of a row.

    Tables hold mappings and cannot be hashed, so they are remembered by identity; a dead reference is another table's number.
    """
    found = _cache.get((id(table), id(tables)))
    if found is not None and found[0]() is table and found[1] is tables:
        return found[2], found[3]
    total = total_rows(table)
    referred = {fk.columns[0]: fk.table for fk in table.foreign_keys if len(fk.columns) == 1}
    columns: dict[str, ColumnStats] = {ROW + table.name: ColumnStats(total, width=0.0)}
    for column in table.columns:
        other = referred.get(column.name)
        most = total_rows(tables[other]) if tables is not None and other is not None and other in tables else None
        columns[column.name] = _column(table, column, total, most)
    width = sum(c.width for c in columns.values())
    if len(_cache) > 1000:
        _cache.clear()
    _cache[id(table), id(tables)] = (ref(table), tables, columns, width)
    return columns, width


def total_rows(table: Table) -> float:
    """All rows that ever arrive."""
    return max(1.0, sum(table.arrives.values()))


def _column(table: Table, column: Column, total: float, referred_rows: float | None) -> ColumnStats:
    """A column from what was declared, what keys and ranges imply, or else what its type suggests."""
    declared = table.statistics.get(column.name)
    assumed = guess(column.type)
    least, greatest = (declared.least, declared.greatest) if declared else (None, None)
    domain, guessed = min(assumed.most, total**assumed.power), True
    if table.key == (column.name,):
        domain, guessed = total, False
    elif declared is not None and declared.distinct is not None:
        domain, guessed = declared.distinct, False
    elif referred_rows is not None:
        domain, guessed = referred_rows, False
    if least is not None and greatest is not None and column.type in ("tinyint", "smallint", "int", "bigint", "date"):
        domain, guessed = min(total if guessed else domain, greatest - least + 1), False
    return ColumnStats(
        max(1.0, domain),
        declared.null_share if declared else 0.0,
        least,
        greatest,
        declared.width if declared and declared.width is not None else assumed.width,
        ROW + table.name,
        guessed,
        rises=declared is not None and declared.rises,
        text=assumed.text,
        run=declared.run or 1.0 if declared else 1.0,
    )
