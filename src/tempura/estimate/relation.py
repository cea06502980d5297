"""What is estimated of a relation: its rows, with and without sign, its width, and its columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from tempura.estimate.column import Columns, combinations, combined_domain, sample_distinct
from tempura.estimate.runs import Runs, filtered, none
from tempura.estimate.selectivity import Padded, null_share

MOST_ROWS = 1e30
"""More than anything has; keeps estimates of absurd products finite."""

NOT_PADDED: Padded = {}


class Sets(NamedTuple):
    """The grouping sets that a relation has copies of its rows for: in the copy for a set the columns that are not in it are NULL."""

    tag: str
    """The column that numbers the sets."""
    columns: frozenset[str]
    """Those that are in some set only."""
    kept: tuple[frozenset[str], ...]
    """Which of them each set has."""
    shares: tuple[float, ...]
    """Each set's share of the rows."""

    def of(self, by: Sequence[str]) -> list[list[str]]:
        """For each set those of some columns that are not NULL in its copy, without the tag."""
        return [[c for c in by if c != self.tag and (c not in self.columns or c in kept)] for kept in self.kept]

    def renamed(self, names: Mapping[str, str]) -> Sets | None:
        """The same under new names, if the tag has one."""
        if self.tag not in names:
            return None
        kept = tuple(frozenset(names[c] for c in each if c in names) for each in self.kept)
        return Sets(names[self.tag], frozenset(names[c] for c in self.columns if c in names), kept, self.shares)


class Stats:
    """What is estimated of a relation. Distinct values are worked out when first asked for: most never are."""

    __slots__ = (
        "_distinct",
        "_run",
        "_runs",
        "_source",
        "columns",
        "folded",
        "net",
        "padded",
        "rows",
        "sets",
        "unique",
        "width",
    )

    def __init__(
        self,
        rows: float,
        net: float,
        width: float,
        columns: Columns,
        source: Callable[[str], float],
        padded: Padded = NOT_PADDED,
        unique: tuple[str, ...] | None = None,
        folded: float = 1.0,
        sets: Sets | None = None,
        runs: Runs = none,
    ):
        self.rows = rows
        """The tuples it lists, whatever their weights."""
        self.net = net
        """The tuples counted with their sign."""
        self.width = width
        """Bytes per row."""
        self.columns = columns
        """Columns by name, among them one invented column per base table (`column.ROW`)."""
        self.padded = padded
        self.unique = unique
        """Columns by which no two listed rows agree, where that is known."""
        self.folded = folded
        """How many rows of its input one row of an aggregate stands for."""
        self.sets = sets
        self._source = source
        self._runs = runs
        self._run: dict[str, float] = {}
        self._distinct: dict[str, float] = {}

    @property
    def bytes(self) -> float:
        return self.rows * self.width

    @property
    def retracted(self) -> float:
        """The tuples with negative weight."""
        return (self.rows - self.net) / 2

    def distinct(self, name: str) -> float:
        """The distinct values of a column that are present, NULL aside."""
        found = self._distinct.get(name)
        if found is None:
            found = self._distinct[name] = max(0.0, min(self._source(name), self.rows))
        return found

    def nulls(self, name: str) -> float:
        """The share of rows in which a column is NULL."""
        return null_share(name, self.columns, self.padded)

    def run(self, by: Sequence[str]) -> float:
        """How many rows that came together agree on some columns, on average; constants say nothing."""
        known = (c for c in by if c in self.columns and self.columns[c].domain > 1)
        return min(map(self._run_of, known), default=1.0)

    def _run_of(self, name: str) -> float:
        found = self._run.get(name)
        if found is None:
            found = self._run[name] = max(1.0, self._runs(name))
        return found

    def groups(self, by: Sequence[str]) -> float:
        """The distinct combinations of some columns, NULLs counting as values."""
        if not by:
            return min(1.0, self.rows)
        if self.unique is not None and all(c in by for c in self.unique):
            return self.rows
        if self.sets is not None and self.sets.tag in by:
            return sum(self.groups_by_set(self.sets, by))
        return self._combinations(by, self.rows)

    def groups_by_set(self, sets: Sets, by: Sequence[str]) -> list[float]:
        """The same in the copy for each grouping set."""
        parts = zip(sets.of(by), sets.shares, strict=True)
        return [self._combinations(present, self.rows * share) for present, share in parts]

    def _combinations(self, by: Sequence[str], rows: float) -> float:
        known = [c for c in by if c in self.columns]
        if not known:
            return min(1.0, rows)
        if len(known) == 1 and len(by) == 1:
            return min(rows, self.distinct(by[0]) + (self.nulls(by[0]) > 0))
        most = combinations(self.columns, known, lambda c: self.distinct(c) + (self.nulls(c) > 0))
        tables = {self.columns[c].row for c in known if self.columns[c].domain > 1}
        # Columns of several tables meet at random: not all combinations that are possible need occur.
        met = min(rows, most) if len(tables) <= 1 else expected_distinct(most, rows)
        return min(met, max(rows / self.run(known), *map(self.distinct, known)))

    def possible(self, by: Sequence[str]) -> float:
        """The combinations of some columns that there may be at any time, NULLs aside."""
        sets = self.sets
        parts = sets.of(by) if sets is not None and sets.tag in by else [by]
        return sum(combined_domain(self.columns, [c for c in part if c in self.columns]) for part in parts)

    def thinned(self, rows: float, net: float | None = None) -> Stats:
        """The same columns with other rows, taken at random."""
        rows = max(0.0, rows)
        if net is None:
            net = rows * self.net / self.rows if self.rows > 0 else 0.0
        unique = self.unique if rows <= self.rows else None
        thin_runs = filtered(self, rows / self.rows if self.rows > 0 else 1.0, ())
        return Stats(
            rows,
            net,
            self.width,
            self.columns,
            thin(self, rows),
            self.padded,
            unique,
            self.folded,
            self.sets,
            thin_runs,
        )

    def __repr__(self) -> str:
        return f"Stats(rows={self.rows:.3g}, net={self.net:.3g}, width={self.width:.3g})"


def expected_distinct(domain: float, rows: float) -> float:
    """The values expected when `rows` times one of `domain` values is drawn."""
    return min(sample_distinct(domain, max(domain, 1.0) * 1e6, rows), rows, domain)


def thin(source: Stats, rows: float) -> Callable[[str], float]:
    return lambda name: sample_distinct(source.distinct(name), source.rows, rows)
