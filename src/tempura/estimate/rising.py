"""Columns of a table that rise together, as days, months and years of a calendar do: a filter of one narrows all.

Where a filter keeps a part of one column's range, the others keep about the same part of theirs. Without it a year's months would be taken to lie in every
year, groups by year and month for two hundred times as many, and days from 1990 on for days of any time.
"""

from __future__ import annotations

from collections.abc import Mapping

from tempura.estimate.column import Columns, ColumnStats


def risen(narrow: dict[str, ColumnStats], columns: Columns) -> dict[str, ColumnStats]:
    """The columns that a filter narrows, and those that rise with them."""
    parts = _parts(narrow, columns)
    if not parts:
        return narrow
    found = dict(narrow)
    for name, column in columns.items():
        if column.rises and column.row in parts and name not in narrow:
            found[name] = _part(column, *parts[column.row])
    return found


def _parts(narrow: Mapping[str, ColumnStats], columns: Columns) -> dict[str, tuple[float, float]]:
    """For each table the part of its rising columns' ranges that is left, from 0 to 1."""
    found: dict[str, tuple[float, float]] = {}
    for name, new in narrow.items():
        old = columns[name]
        if not old.rises or old.least is None or old.greatest is None or new.least is None or new.greatest is None:
            continue
        step = (old.greatest - old.least) / max(old.domain - 1, 1.0)
        whole = old.greatest - old.least + step
        if whole <= 0 or (new.least, new.greatest) == (old.least, old.greatest):
            continue
        start, end = (new.least - old.least) / whole, (new.greatest - old.least + step) / whole
        before = found.get(old.row, (0.0, 1.0))
        found[old.row] = (max(start, before[0]), min(max(start, end), before[1]))
    return {row: (start, end) for row, (start, end) in found.items() if 0 <= start < end <= 1}


def _part(column: ColumnStats, start: float, end: float) -> ColumnStats:
    domain = max(1.0, column.domain * (end - start))
    if column.least is None or column.greatest is None:
        return column._replace(domain=domain)
    width = column.greatest - column.least
    return column._replace(domain=domain, least=column.least + start * width, greatest=column.least + end * width)
