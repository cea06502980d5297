"""What planning expects of a table whose arrivals nobody has declared; the one place where such numbers are assumed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tempura.catalog import ColumnStatistics, Table
from tempura.errors import JobError, SourceError
from tempura.sources.source import Source, TableStatistics
from tempura.timeline import Timeline

GROWTH = 0.25
"""At each later point, so many rows arrive for each that is there now."""
RETRACTED = 0.01
"""At each later point, this share is taken back, if rows can be at all."""
UNSEEN = 1_000_000
"""The rows of a table of which nothing is there yet."""


def expected(table: Table, source: Source, timeline: Timeline) -> Table:
    """The table with what its source tells before any run.

    Without `arrives`: the rows that are there now come at the first point and, unless the table is static, a quarter as many at each later
    one. Without `retracts`: if the source can take rows back, a hundredth at each later point. What is declared stays.
    Whatever the numbers, a table whose source can retract is planned as one that may.
    """
    first, *later = (point.name for point in timeline.points)
    retracts = dict(table.retracts)
    if source.retracts and not retracts:
        retracts = dict.fromkeys(later, RETRACTED)
    may_retract = table.retractable or source.retracts
    table = replace(table, retractable=may_retract, retracts=retracts, logged=source.logged)
    if table.arrives:
        return table
    known = _sketch(source)
    if known.rows is None:
        raise JobError(
            f"table {table.name!r}: its source cannot tell how many rows there are",
            hint="add `static: rows` to the table",
        )
    rows = known.rows or (0 if source.static else UNSEEN)
    growth = {} if source.static else dict.fromkeys(later, rows * GROWTH)
    return replace(table, arrives={first: rows, **growth}, statistics=completed(table, table.statistics, known.columns))


def _sketch(source: Source) -> TableStatistics:
    try:
        return source.sketch()
    except SourceError:
        # Nothing to look at yet. Whoever runs the plan is told what is wrong; planning goes on.
        return TableStatistics(0, 0)


def completed(
    table: Table, declared: Mapping[str, ColumnStatistics], found: Mapping[str, ColumnStatistics]
) -> dict[str, ColumnStatistics]:
    """What is declared of a table's columns, and what was found of the rest."""
    columns = {c.name for c in table.columns}
    usable = {c: without_key(s, c in table.key) for c, s in found.items() if c in columns}
    return usable | {c: s.completed(usable[c]) if c in usable else s for c, s in declared.items()}


def without_key(known: ColumnStatistics, in_key: bool) -> ColumnStatistics:
    """A key is known to be distinct and never NULL; a sample can only contradict that."""
    return replace(known, distinct=None, null_share=0.0) if in_key else known
