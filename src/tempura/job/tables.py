"""The tables of a job: their columns, what is said or expected of their arrival, and the sources of their rows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, cast

from tempura.catalog import Catalog, ColumnStatistics, ForeignKey, Table
from tempura.job.checks import repeated
from tempura.job.marks import Path
from tempura.job.problems import Problems
from tempura.job.shapes import STATIC, TableShape, column, nearest
from tempura.schema import Column, Schema, names, reserved
from tempura.timeline import Timeline

if TYPE_CHECKING:
    from tempura.sources import Source


class TableReader:
    """Turns the shapes of tables into tables and sources."""

    def __init__(self, problems: Problems, folder: FilePath, timeline: Timeline | None, sources: Mapping[str, Source]):
        self.problems = problems
        self.folder = folder
        self.timeline = timeline
        self.sources = {name.lower(): source for name, source in sources.items()}

    def catalog(self, given: Any) -> Catalog:
        entries = dict(cast("Mapping[str, Any]", given)) if isinstance(given, Mapping) else {}
        self.problems.report(repeated("table", entries, ("tables",)))
        tables: list[Table] = []
        for name, entry in entries.items():
            path: Path = ("tables", name)
            if not isinstance(entry, Table):
                shape = cast("TableShape | None", self.problems.fit(TableShape, entry, path))
                entry = None if shape is None else self._table(name, shape, path)
            if isinstance(entry, Table):
                tables.append(self._expected(entry, path))
        for name in sorted(self.sources.keys() - {name.lower() for name in entries}):
            said = f"a source is given for {name!r}, which is no table of the job"
            self.problems.problem(said, nearest(name, entries), ("tables",))
        return Catalog(*tables)

    def _table(self, name: str, shape: TableShape, path: Path) -> Table | None:
        before = len(self.problems.problems)
        columns = self._columns(shape, path)
        if len(self.problems.problems) == before:
            columns = self._with_source(name, shape, columns, path)
        known = set(names(columns or ()))
        for part, used in (("key", shape.key), ("statistics", list(shape.statistics))):
            for i, c in enumerate(used):
                if columns is not None and c not in known:
                    where = (*path, part, i if part == "key" else c)
                    self.problems.problem(f"table {name!r} has no column {c!r}", nearest(c, names(columns)), where)
        arrives = self._arrivals(shape, path)
        if columns is None or len(self.problems.problems) > before:
            return None
        statistics = {
            c: ColumnStatistics(s.distinct, s.nulls, s.min, s.max, s.width) for c, s in shape.statistics.items()
        }
        foreign = tuple(ForeignKey(tuple(f.columns), f.table, tuple(f.to)) for f in shape.foreign_keys)
        # All that is left for the table to refuse is statistics that contradict its key.
        where = (*path, "statistics", *shape.key[:1])
        make = lambda: Table(name, columns, tuple(shape.key), arrives, shape.retracts, statistics, foreign)  # noqa: E731
        return self.problems.attempt(where, make)

    def _columns(self, shape: TableShape, path: Path) -> Schema | None:
        if shape.columns is None:
            if shape.source is None:
                self.problems.problem("`columns` is missing", "add `columns: …`", (*path, "columns"))
            return None
        self.problems.report(repeated("column", shape.columns, (*path, "columns")))
        found: list[Column] = []
        for name, text in shape.columns.items():
            if reserved(name):
                said = f"the column {name!r} has a name that plans use themselves"
                self.problems.problem(said, "rename it", (*path, "columns", name))
            try:
                found.append(column(name, text, name in shape.key))
            except ValueError as error:
                self.problems.problem(
                    f"column {name!r}: {error}",
                    "write it as in CREATE TABLE: string, bigint, decimal(7,2) not null, …",
                    (*path, "columns", name),
                )
        return tuple(found)

    def _arrivals(self, shape: TableShape, path: Path) -> dict[str, float]:
        if shape.source is not None and shape.arrives is None and shape.static is None:
            return {}  # The source tells.
        if (shape.arrives is None) == (shape.static is None):
            hint = "give `arrives: {point: rows, …}`, or `static: rows` for a table that does not change"
            said = "either `arrives` or `static` says how many rows there are; not both, not neither"
            self.problems.problem(said, hint, path)
            return {}
        arrives = {STATIC: shape.static} if shape.static is not None else shape.arrives or {}
        if STATIC not in arrives:
            return arrives
        if shape.retracts:
            hint = "give `arrives` by point, or drop `retracts`"
            self.problems.problem("a static table retracts nothing", hint, (*path, "retracts"))
        return {self.timeline.points[0].name: arrives[STATIC]} if self.timeline else {}

    # Sources. Their module loads pyarrow, which jobs without sources need not wait for.

    def _with_source(self, name: str, shape: TableShape, columns: Schema | None, path: Path) -> Schema | None:
        """The table's columns, where its source tells them; the source is remembered."""
        if shape.source is None:
            return columns
        from tempura.sources import KINDS

        path = (*path, "source")
        options = dict(shape.source)
        kind = options.pop("kind", None)
        if not isinstance(kind, str) or kind not in KINDS:
            said = "`kind` is missing" if kind is None else f"unknown kind of source {kind!r}"
            self.problems.problem(said, nearest(str(kind or ""), KINDS), (*path, "kind"))
            return columns
        fitting = self.problems.fit(KINDS[kind].shape, options, path)
        if fitting is None:
            return columns
        source = self.problems.attempt(path, lambda: KINDS[kind].of(name, columns, self.folder, fitting))
        if source is None:
            return columns
        self.sources[name.lower()] = source
        found: Schema | None = self.problems.attempt(path, source.schema)
        return found and tuple(Column(c.name, c.type, c.nullable and c.name not in shape.key) for c in found)

    def _expected(self, table: Table, path: Path) -> Table:
        source = self.sources.get(table.name.lower())
        if source is None:
            return table
        from tempura.sources.expected import expected

        timeline = self.timeline
        if timeline is None:
            return table  # It is reported, and nothing is planned.
        return self.problems.attempt(path, lambda: expected(table, source, timeline)) or table
