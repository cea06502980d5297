"""What is remembered of a table's columns: exact figures from Parquet footers, and what a sample shows.

Both are small whatever the table's size. Figures of new files are merged into those of older ones; the sample is drawn once, and what
it says of distinct values is scaled to the rows there are when it is asked.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from tempura.catalog import ColumnStatistics
from tempura.sources.arrow import pa, pc

SAMPLE = 20_000
"""Rows in a sample."""
PLACES = 8
"""A sample is drawn from so many places of a file, if it has them: rows that were written one after the other are often alike."""

ENOUGH = 20
"""In so many rows columns do not rise together by chance."""


@dataclass(frozen=True)
class Known:
    """Exact figures of a column: how many NULLs, and the least and greatest value as numbers where all files tell."""

    nulls: int
    least: float | None = None
    greatest: float | None = None

    def merged(self, other: Known) -> Known:
        return Known(
            self.nulls + other.nulls, _both(min, self.least, other.least), _both(max, self.greatest, other.greatest)
        )


def _both(choose: Any, a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else choose(a, b)


@dataclass(frozen=True)
class Sampled:
    """What a sample shows of a column: values that are not NULL, how many differ, how many were met once, and bytes per text."""

    rows: int
    values: int
    distinct: int
    once: int
    width: float | None = None
    seen: int = 0
    """How often a value was met: as often as there are values, or, in a sample of several places, once in each place that has it."""
    rises: bool = False
    """Whether it rises with other columns: see `ColumnStatistics`."""
    run: float = 1.0
    """How many values that lie together are the same, on average."""

    def distinct_of(self, total: float) -> float | None:
        """The distinct values to expect among `total` (Haas and Stokes, the estimator they call Duj1)."""
        if not self.values:
            return None
        seen = self.seen or self.values
        return seen * self.distinct / (seen - self.once + self.once * self.values / max(total, self.values))


@dataclass(frozen=True)
class Summary:
    """All that is remembered of a table's columns; `known` covers `rows` rows."""

    rows: int = 0
    known: Mapping[str, Known] = field(default_factory=dict[str, Known])
    sampled: Mapping[str, Sampled] = field(default_factory=dict[str, Sampled])

    def merged(self, other: Summary) -> Summary:
        """Both together: a column is known if both know it, and the older sample stays."""
        if not self.rows or not other.rows:
            known = self.known if self.rows else other.known
        else:
            known = {c: k.merged(other.known[c]) for c, k in self.known.items() if c in other.known}
        return Summary(self.rows + other.rows, known, self.sampled or other.sampled)

    def statistics(self, rows: float) -> dict[str, ColumnStatistics]:
        """What there is to say of the columns of a table of so many rows."""
        found: dict[str, ColumnStatistics] = {}
        for column in self.known.keys() | self.sampled.keys():
            known, sampled = self.known.get(column), self.sampled.get(column)
            share = 1 - sampled.values / sampled.rows if sampled and sampled.rows else 0.0
            if known and self.rows:
                share = known.nulls / self.rows
            distinct = sampled.distinct_of(rows * (1 - share)) if sampled else None
            least, greatest = (known.least, known.greatest) if known else (None, None)
            width, rises, run = (sampled.width, sampled.rises, sampled.run) if sampled else (None, False, None)
            found[column] = ColumnStatistics(distinct, share, least, greatest, width, rises, run)
        return dict(sorted(found.items()))

    def to_json(self) -> dict[str, Any]:
        known = {c: asdict(k) for c, k in self.known.items()}
        return {"rows": self.rows, "known": known, "sampled": {c: asdict(s) for c, s in self.sampled.items()}}

    @staticmethod
    def of_json(given: Mapping[str, Any]) -> Summary:
        known = {c: Known(**k) for c, k in given["known"].items()}
        return Summary(given["rows"], known, {c: Sampled(**s) for c, s in given["sampled"].items()})


def sampled(rows: Any) -> dict[str, Sampled]:
    """What a sample, an Arrow table with a chunk for each place, shows of each of its columns; nested ones are left out."""
    found: dict[str, Sampled] = {}
    for name in rows.column_names:
        column = rows.column(name)
        if pa.types.is_nested(column.type) or not len(column):
            continue
        values = column.drop_null()
        met = pa.chunked_array([place.unique() for place in values.chunks]) if values.num_chunks > 1 else values
        counts = pc.value_counts(met).field("counts")
        textual = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
        width = pc.mean(pc.binary_length(column)).as_py() if textual else None
        once = int(pc.sum(pc.equal(counts, 1)).as_py() or 0)
        found[name] = Sampled(
            len(column), len(values), len(counts), once, width, len(met), run=_run(values, len(counts))
        )
    return found | {name: replace(found[name], rises=True) for name in _rising(rows, found)}


def _run(values: Any, distinct: int) -> float:
    """How many values that lie together are the same, on average; 1 where so few differ that it may be chance."""
    places = [place for place in values.chunks if len(place)]
    changes = sum(len(place) - 1 - (pc.sum(pc.equal(place[1:], place[:-1])).as_py() or 0) for place in places)
    run = len(values) / max(1, changes + len(places))
    chance = distinct / max(1, distinct - 1)
    return run if run > 2 * chance else 1.0


def _rising(rows: Any, found: Mapping[str, Sampled]) -> list[str]:
    """The columns that rise together, if there are several: those by which the rows are sorted once they are by the one with most values."""
    numbers = [n for n, s in found.items() if s.distinct > 1 and _is_number(rows.schema.field(n).type)]
    if rows.num_rows < ENOUGH or not numbers:
        return []
    leader = max(numbers, key=lambda n: found[n].distinct)
    order = pc.sort_indices(rows, sort_keys=[(leader, "ascending")])
    rising = [n for n in numbers if n == leader or _is_sorted(rows.column(n).take(order))]
    return rising if len(rising) > 1 else []


def _is_number(kind: Any) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_date(kind) or pa.types.is_timestamp(kind)


def _is_sorted(column: Any) -> bool:
    values = column.drop_null().combine_chunks()
    return pc.all(pc.greater_equal(values[1:], values[:-1])).as_py() is not False


def as_number(value: Any) -> float | None:
    """A value on the scale that estimates use, times in days since 1970; None for what has no place there."""
    if isinstance(value, datetime):
        moment = value if value.tzinfo else value.replace(tzinfo=UTC)
        return (moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() / 86_400
    if isinstance(value, date):
        return float((value - date(1970, 1, 1)).days)
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    return float(value) if math.isfinite(value) else None
