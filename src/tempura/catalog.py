"""Tables: their columns, keys, how they arrive, and what is known of their values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass, field, replace

from tempura.errors import JobError, SqlError
from tempura.schema import NO_KEYS, Column, Keys, Schema, as_declared, names, reserved
from tempura.timeline import Ticks, Timeline


@dataclass(frozen=True)
class ColumnStatistics:
    """What is known of a column's values: distinct values, the share of NULLs, least and greatest, bytes per value."""

    distinct: float | None = None
    null_share: float = 0.0
    least: float | None = None
    greatest: float | None = None
    width: float | None = None
    rises: bool = False
    """Whether rows that are sorted by one column of its table of which this holds are sorted by all of them: days, months and years of a calendar."""
    run: float | None = None
    """How many rows that were written together agree on it, on average: the lines of a ticket on its customer."""

    def completed(self, found: ColumnStatistics) -> ColumnStatistics:
        """The same, with what was found where nothing was declared."""
        known = (theirs if mine is None else mine for mine, theirs in zip(astuple(self), astuple(found), strict=True))
        # NULLs and rising are not declared by leaving them out.
        return replace(
            ColumnStatistics(*known),
            null_share=self.null_share or found.null_share,
            rises=self.rises or found.rises,
        )


@dataclass(frozen=True)
class ForeignKey:
    columns: tuple[str, ...]
    table: str
    to: tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """A base table: a TVR that grows by what arrives, and shrinks by what is retracted, at each point."""

    name: str
    columns: Schema
    key: tuple[str, ...] = ()
    arrives: Mapping[str, float] = field(default_factory=dict[str, float])
    """Rows that arrive at each point. A static table has all of its rows at the first point."""
    retracts: Mapping[str, float] = field(default_factory=dict[str, float])
    """At each point, the share of the rows held until then that is taken back."""
    statistics: Mapping[str, ColumnStatistics] = field(default_factory=dict[str, ColumnStatistics])
    foreign_keys: tuple[ForeignKey, ...] = ()
    retractable: bool = False
    """Whether rows may be taken back even where no share is expected: then no plan may rely on the table only growing."""
    logged: bool = False
    """Whether the table is kept as the changes that made it, which have to be added up to read it as of a point."""
    cancelled: float = 0.0
    """Of a logged table, the rows that came and went between two points, or before the first."""
    doubted: bool = False
    """Whether no plan may rely on the key, since nobody looks whether it is one. Estimates believe it all the same."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(c._replace(type=as_declared(c.type)) for c in self.columns))
        own = next((c.name for c in self.columns if reserved(c.name)), None)
        if own is not None:
            raise JobError(
                f"table {self.name!r} has a column {own!r}, a name that plans use themselves",
                hint="rename it, or read the table through a view that does",
            )
        known = set(names(self.columns))
        for column in (*self.key, *self.statistics):
            if column not in known:
                raise JobError(
                    f"table {self.name!r} has no column {column!r}",
                    hint=f"its columns are {', '.join(names(self.columns))}",
                )
        for point, rows in self.arrives.items():
            if rows < 0:
                raise JobError(
                    f"table {self.name!r} receives {rows} rows at {point!r}",
                    hint="rows are zero or more; use `retracts` for deletions",
                )
        for point, share in self.retracts.items():
            if not 0 <= share <= 1:
                raise JobError(
                    f"table {self.name!r} retracts a share of {share} at {point!r}", hint="a share lies between 0 and 1"
                )
        self._check_statistics()

    def _check_statistics(self) -> None:
        total = sum(self.arrives.values())
        if len(self.key) == 1 and self.key[0] in self.statistics:
            distinct = self.statistics[self.key[0]].distinct
            if distinct is not None and distinct < total * 0.999:
                raise JobError(
                    f"table {self.name!r}: the key {self.key[0]!r} has {distinct:g} distinct values for {total:g} rows",
                    hint="a key has as many distinct values as the table has rows; correct the statistics or drop the key",
                )
            if self.statistics[self.key[0]].null_share > 0 and total > 1:
                raise JobError(
                    f"table {self.name!r}: the key {self.key[0]!r} is said to hold NULLs",
                    hint="a key column is never NULL",
                )
        for column, s in self.statistics.items():
            if not 0 <= s.null_share <= 1:
                raise JobError(
                    f"table {self.name!r}: column {column!r} has a share of NULLs of {s.null_share}",
                    hint="a share lies between 0 and 1",
                )

    @property
    def trusted(self) -> tuple[str, ...]:
        """The key that plans may rely on."""
        return () if self.doubted else self.key

    @property
    def keys(self) -> Keys:
        return frozenset([frozenset(self.trusted)]) if self.trusted else NO_KEYS

    @property
    def can_retract(self) -> bool:
        return self.retractable or any(share > 0 for share in self.retracts.values())

    def rows(self, timeline: Timeline, point: int) -> float:
        """The rows held at a point: what has arrived by then, less what was retracted."""
        held = 0.0
        for p in timeline.points[: point + 1]:
            held = held * (1 - self.retracts.get(p.name, 0.0)) + self.arrives.get(p.name, 0.0)
        return held

    def retracted(self, timeline: Timeline, point: int) -> float:
        """The rows taken back at a point."""
        return (
            0.0 if point == 0 else self.rows(timeline, point - 1) * self.retracts.get(timeline.points[point].name, 0.0)
        )

    def listed(self, timeline: Timeline, point: int) -> float:
        """The rows that the table's log has up to a point: those it holds, and all that came and went, both times."""
        gone = self.cancelled + sum(self.retracted(timeline, p) for p in range(point + 1))
        return self.rows(timeline, point) + 2 * gone

    def column(self, name: str) -> Column:
        for c in self.columns:
            if c.name == name:
                return c
        raise SqlError(f"table {self.name!r} has no column {name!r}")


class Catalog(Mapping[str, Table]):
    """The tables of a job by name; names are compared without regard to case, as in Spark SQL."""

    def __init__(self, *tables: Table):
        self._tables = {t.name.lower(): t for t in tables}

    def __getitem__(self, name: str) -> Table:
        return self._tables[name.lower()]

    def __iter__(self):
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)

    def ticks(self, timeline: Timeline) -> Ticks:
        """The fine timeline. Inside a step the table with the smaller change comes first: every term of a telescoped delta
        joins the change of one table with the new version of those before it, and what has grown least grows the terms least."""
        changed: list[list[str]] = []
        for i, point in enumerate(timeline.points):
            change = {
                t.name: t.arrives.get(point.name, 0.0) + t.retracted(timeline, i)
                for t in self._tables.values()
                if t.arrives.get(point.name, 0.0) > 0 or (i > 0 and t.retracts.get(point.name, 0.0) > 0)
            }
            changed.append(sorted(change, key=lambda name: (change[name], name)))
        return Ticks.of(len(timeline), changed)
