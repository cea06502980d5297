"""Checks of the rows that arrived: a declared key is one, what is declared not null is not, and a change log takes away only what is there. Plans rely on all three.

A table without new rows is not looked at, and of one with new rows only those that share a key with them (or, where there is none, are equal to a row taken away) are counted, found
by a semi-join with the new ones on the columns that matter. Those columns are read of all rows, though, as no file has an index; what that would take (`lookups`) decides whether a plan
relies on the key at all (`tempura.trust`), and a key that is doubted is not looked at. What was checked before stays checked: the run file says under which key, and of which columns. All tables are looked at
in one query.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, cast

from pydantic import JsonValue
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.column import Column

from tempura.course import Course, Pins, source_of
from tempura.errors import SourceError
from tempura.job import Job
from tempura.schema import WEIGHT, names, orderable
from tempura.sources import Reading
from tempura.spark.names import quoted
from tempura.spark.reading import read
from tempura.workspace import RunFile

EXAMPLES = 3
"""How many rows of each table an error shows at most."""

BROADCAST = 1_000_000
"""Up to so many new rows are copied to every task, so that the rows before them are not shuffled."""

_COUNT, _LEAST, _LACKS, _HASH = "__n", "__least", "__lacks", "__hash"


class CheckError(SourceError):
    """Rows contradict what the job says of their table, or their table itself."""


@dataclass(frozen=True)
class Check:
    """What is to be looked at in one table."""

    table: str
    key: tuple[str, ...]
    """No two rows may share it; empty where there is none, it is doubted, or no row is new."""
    taken: bool
    """Whether rows were taken away that may not have been there."""
    rows: Reading
    """All rows there are, with what a change log says of each, not added up."""
    by: tuple[str, ...] = ()
    """What rows are looked up by: the declared key, whether it is one or not; empty where there is none."""
    arrived: Reading | None = None
    """Those that are new; None if all are, or none was checked before."""
    small: bool = True
    """Whether the new ones are few."""
    required: tuple[str, ...] = ()
    """Columns that are declared never to be NULL, and of which the source does not know that they are not."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that matter."""
        return names(self.rows.schema) if self.taken else self.key


def checked(job: Job) -> dict[str, JsonValue]:
    """What a run file says of the tables that have been checked: under which key, if any, and which columns are never NULL."""
    if not job.checks:
        return {}
    return {
        name: {"key": list(table.trusted), "not null": [c.name for c in table.columns if not c.nullable]}
        for name, table in job.catalog.items()
    }


def due(job: Job, before: RunFile | None, pins: Pins) -> tuple[Check, ...]:
    """What is to be checked at these versions, after the run before."""
    known = cast("Mapping[str, JsonValue]", before.plan.get("checked", {}) if before else {})
    found: list[Check] = []
    for name, what in checked(job).items():
        since = before.pins.get(name) if before and _covers(known.get(name), what) else None
        check = None if since == pins[name] else _check(job, name, since, pins)
        if check is not None and (check.key or check.taken or check.required):
            found.append(check)
    return tuple(found)


def _covers(known: Any, wanted: Any) -> bool:
    """Whether what was known of a table before is all that is wanted now. A key that is doubted now was one all the same."""
    if not isinstance(known, Mapping):
        return False
    told = cast("Mapping[str, Any]", known)
    return wanted["key"] in ([], told.get("key")) and set(wanted["not null"]) <= set(told.get("not null", ()))


def _check(job: Job, name: str, since: Mapping[str, Any] | None, pins: Pins) -> Check | None:
    table, source = job.catalog[name], source_of(job, name)
    key, log = table.trusted, source.logged
    never = source.never_null(pins[name])
    required = tuple(c.name for c in table.columns if not c.nullable and c.name not in (*key, *never))
    if not key and not log and not required:
        return None
    rows = source.snapshot(pins[name])
    if since is None:
        return Check(table.name, key, log, rows, table.key, required=required)
    change = source.change(since, pins[name])
    if not change.inserted and not change.deleted:
        return None
    return Check(
        table.name,
        key if change.inserted else (),
        log and change.deleted > 0,
        rows,
        table.key,
        source.delta(since, pins[name]),
        change.inserted + change.deleted <= BROADCAST,
        required if change.inserted else (),
    )


def lookups(course: Course, before: RunFile | None) -> dict[str, float]:
    """What looking up the keys of tables would take at a point, in core-seconds, but for those that are looked up anyhow, since rows were taken away.

    Infinitely much stands for a key that may not be relied on, as nobody looked whether it was one at the points before.
    """
    p, found = course.job.cluster, dict[str, float]()
    for check in due(course.job, before, course.pins[-1]):
        table = course.job.catalog[check.table]
        if not check.key or (check.taken and check.arrived is not None):
            continue
        if check.arrived is None and course.at and table.can_retract:
            # What was there twice may have gone, and states were made of it; that a key is one now does not tell.
            found[check.table.lower()] = math.inf
            continue
        rows = table.rows(course.job.timeline, course.at)
        new = rows if check.arrived is None else min(rows, table.arrives.get(course.point, 0.0))
        meeting = rows * p.probe_row if check.small else (rows + new) * (p.exchange_row + p.merge_row)
        reading = rows * (p.scan_row + len(check.key) * p.scan_value)
        found[check.table.lower()] = (
            reading + (0.0 if check.arrived is None else meeting) + new * (p.exchange_row + p.group_row)
        )
    return found


def carry_out(spark: SparkSession, checks: Sequence[Check]) -> None:
    """Look at all tables; CheckError names what is wrong."""
    counted = [_suspects(spark, check) for check in checks if check.key or check.taken]
    suspects = reduce(DataFrame.unionAll, counted + [_missing(spark, check) for check in checks if check.required])
    said: dict[tuple[str, str], list[str]] = {}
    for found in suspects.collect():
        table, kind, row, count = cast("tuple[str, str, str, int]", tuple(found))
        said.setdefault((table, kind), []).append(f"{row} {count} times" if kind == "repeated" else row)
    if said:
        first = min(said)
        told = "; ".join(f"table {table!r}: {_SAID[kind]}: {', '.join(rows)}" for (table, kind), rows in said.items())
        raise CheckError(told, hint=f"nothing was committed; {_HINTS[first[1]]}, then run again")


_SAID = {
    "absent": "a row that is not there is taken away",
    "null": "a key is NULL",
    "missing": "a column that is declared not null is NULL",
    "repeated": "a key is not one, as it is there more than once",
}
_HINTS = {
    "absent": "correct the change log: a row is logged when it comes, and taken away with the values that it has",
    "null": "correct the new rows, or give the table no `key`",
    "missing": "correct the new rows, or declare the column without `not null`",
    "repeated": "correct the new rows, or give the table no `key`",
}


def _suspects(spark: SparkSession, check: Check) -> DataFrame:
    """Some of what is wrong in a table: the table, the kind of mistake, the key or row as JSON, and how often it is there."""
    rows = _weighted(read(spark, check.rows)).select(*_named(check.columns), WEIGHT)
    if check.arrived is not None:
        rows = _touched(rows, _weighted(read(spark, check.arrived)), check)
    if check.taken:
        rows = rows.groupBy(*_named(check.columns)).agg(F.sum(WEIGHT).alias(WEIGHT))
    least = F.min(WEIGHT) if check.taken else F.lit(0)
    shown = check.key or check.columns
    counts = rows.groupBy(*_named(shown)).agg(F.sum(WEIGHT).alias(_COUNT), least.alias(_LEAST))
    absent, repeated = F.col(_LEAST) < 0, F.lit(bool(check.key)) & (F.col(_COUNT) > 1)
    empty = _any_null(check.key) & (F.col(_COUNT) > 0)
    kind = F.when(absent, "absent").when(empty, "null").otherwise("repeated")
    row = F.to_json(F.struct(*_named(shown)), {"ignoreNullFields": "false"})
    wrong = counts.where(absent | empty | repeated).limit(EXAMPLES)
    return wrong.select(F.lit(check.table), kind, row, F.col(_COUNT))


def _missing(spark: SparkSession, check: Check) -> DataFrame:
    """The columns that some new rows lack and must have."""
    lacks = F.filter(F.array(*(F.when(F.col(quoted(c)).isNull(), c) for c in check.required)), lambda c: c.isNotNull())
    rows = _weighted(read(spark, check.arrived or check.rows)).select(F.concat_ws(", ", lacks).alias(_LACKS), WEIGHT)
    counts = rows.where(F.col(_LACKS) != "").groupBy(_LACKS).agg(F.sum(WEIGHT).alias(_COUNT))
    wrong = counts.where(F.col(_COUNT) > 0).limit(EXAMPLES)
    return wrong.select(F.lit(check.table), F.lit("missing"), F.col(_LACKS), F.col(_COUNT))


def _touched(rows: DataFrame, arrived: DataFrame, check: Check) -> DataFrame:
    """The rows that share their key with a new one, or equal one that was taken away; and some others, which do no harm, as rows are counted by all of the key.

    They are found by a hash: one number is looked up in half the time that several columns take, of which any may be NULL. Maps have none.
    """
    maps = {c.name for c in check.rows.schema if not orderable(c.type)}
    by = [c for c in check.by or check.columns if c not in maps]
    if not by:
        return rows
    if not check.key:
        arrived = arrived.where(f"{WEIGHT} < 0")
    elif not check.taken:
        arrived = arrived.where(f"{WEIGHT} > 0")
    new = arrived.select(F.xxhash64(*_named(by)).alias(_HASH))
    same = F.xxhash64(*_named(by)) == F.col(_HASH)
    return rows.join(F.broadcast(new) if check.small else new, same, "left_semi")


def _weighted(rows: DataFrame) -> DataFrame:
    return rows if WEIGHT in rows.columns else rows.withColumn(WEIGHT, F.lit(1).cast("bigint"))


def _named(columns: Sequence[str]) -> list[Column]:
    return [F.col(quoted(c)) for c in columns]


def _any_null(columns: Sequence[str]) -> Column:
    return reduce(Column.__or__, [F.col(quoted(c)).isNull() for c in columns], F.lit(False))
