"""Is what was published what the query gives? Each result is computed anew in one batch, over the versions that it was delivered for, and compared.

The comparison is one of bags: order does not matter, repetitions and NULLs do. Numbers in floating point are equal if they differ by no more than
rounding does. They are compared by their first ten digits, which Spark can do for any number of rows; the few left over on both sides of a rounding
boundary are paired here.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import Row as SparkRow
from sqlglot import exp

from tempura.course import Pins, check, query_digests, source_of
from tempura.errors import JobError, SourceError, WorkspaceError
from tempura.expr import Expr
from tempura.failing import fails
from tempura.job import Job
from tempura.schema import WEIGHT, Column, orderable
from tempura.spark.names import quoted
from tempura.spark.reading import read_rows
from tempura.spark.session import meaning, session
from tempura.spark.states import States
from tempura.spark.steps import StepError, driver, explained
from tempura.sqltext import read_expression
from tempura.workspace import ResultEntry, RunFile, Workspace

TOLERANCE = 1e-9
"""Two numbers in floating point are equal if they differ by no more than this share of the larger, or by no more than this."""
MOST = 10_000
"""So many differing rows are looked at one by one; where there are more, it is not rounding."""
SHOWN = 5


@dataclass(frozen=True)
class Difference:
    """A row that one side has more often than the other."""

    row: tuple[Any, ...]
    weight: int
    """How many more the published result has; below zero, how many fewer."""


@dataclass(frozen=True)
class Comparison:
    """How two bags of rows differ."""

    differing: int
    """How many rows one has and the other lacks."""
    more: int
    """How many rows the first has more than the other."""
    differences: tuple[Difference, ...]
    """A few of them."""


@dataclass(frozen=True)
class Verified:
    """A published result beside what its query gives in batch."""

    query: str
    point: str
    run: int
    rows: int
    """How many were published."""
    expected: int | None
    """How many the batch query gives; None where it has other columns, so that rows are not compared."""
    columns: tuple[str, ...]
    differing: int
    """How many rows one side has and the other lacks."""
    differences: tuple[Difference, ...]
    """A few of them."""
    types: tuple[str, ...]
    """Columns whose types differ, and how."""

    @property
    def same(self) -> bool:
        return not (self.differing or self.types)


@dataclass(frozen=True)
class VerifyReport:
    """What was compared."""

    results: tuple[Verified, ...]
    notes: tuple[str, ...] = ()
    """What was left out, and why."""

    @property
    def same(self) -> bool:
        return all(result.same for result in self.results)


def verify(job: Job, *, spark: SparkSession | None = None) -> VerifyReport:
    """Compute each published result anew and compare. Those of queries that the job does not have any more stay published, and are left out."""
    workspace = Workspace.open(job.workspace, job.name, create=False)
    latest = workspace.latest()
    published = list(latest.results.values()) if latest else []
    gone = [entry.query for entry in published if entry.query not in job.queries]
    if len(gone) == len(published):
        raise WorkspaceError(
            f"the job `{job.name}` has no published result yet"
            + (f", but of queries that it does not have any more: {', '.join(gone)}" if gone else ""),
            hint="`tempura run` a point that delivers one first",
        )
    runs = {run.number: run for run in workspace.history()}
    asked = [(_whole(workspace, e), _pins(job, runs, e)) for e in published if e.query in job.queries]
    with driver():
        started = session(spark)
        for entry, _ in asked:
            _check_settings(started, runs[entry.run], entry)
        results = tuple(_verified(started, job, workspace, *each) for each in asked)
    for result in results:
        if not result.same:
            _check_query(job, runs.values(), result)
    notes = tuple(f"{query}: left out, as the job does not have this query any more" for query in gone)
    return VerifyReport(results, notes)


def _whole(workspace: Workspace, entry: ResultEntry) -> ResultEntry:
    """The entry, if its files are whole."""
    if damage := workspace.check_result(entry):
        raise WorkspaceError(
            f"the result {entry.query} of {entry.point} is damaged: {'; '.join(damage)}",
            hint="restore it from a backup, or `tempura reset` and run its point again",
        )
    return entry


def _check_settings(spark: SparkSession, run: RunFile, entry: ResultEntry) -> None:
    """Raise an error if the session would understand the query otherwise than the one that made the result."""
    try:
        meaning(spark, run.settings)
    except JobError as error:
        raise JobError(
            f"the result {entry.query} of {entry.point} cannot be computed anew: {error.message}",
            hint="verify it in a session with the settings that it was made under",
        ) from error


def _pins(job: Job, runs: Mapping[int, RunFile], entry: ResultEntry) -> Pins:
    """The versions that a result was delivered for."""
    run = runs.get(entry.run)
    missing = [name for name in job.catalog if run is None or name not in run.pins]
    if run is None or missing:
        what = f"{', '.join(missing)} in run {entry.run}" if run else f"the tables: the file of run {entry.run} is gone"
        raise WorkspaceError(
            f"the result {entry.query} of {entry.point} cannot be computed anew: no version is known of {what}",
            hint="run the next point that delivers it, then verify that",
        )
    return run.pins


def _verified(spark: SparkSession, job: Job, workspace: Workspace, entry: ResultEntry, pins: Pins) -> Verified:
    columns = tuple(Column(*c) for c in entry.schema)
    names = tuple(c.name for c in columns)
    try:
        expected = batch(spark, job, job.queries[entry.query], pins)
        found = States(spark).read([workspace.storage.uri(entry.folder)], columns)
        if len(found.columns) != len(expected.columns):
            said = f"published are the columns {', '.join(names)}, the query gives {', '.join(expected.columns)}"
            return Verified(entry.query, entry.point, entry.run, entry.rows or 0, None, names, 0, (), (said,))
        result = compare(found, expected)
    except (StepError, SourceError):
        _check_tables(job, entry, pins)
        raise
    if result.differing:
        _check_tables(job, entry, pins)
    return Verified(
        entry.query,
        entry.point,
        entry.run,
        rows=entry.rows or 0,
        expected=(entry.rows or 0) - result.more,
        columns=names,
        differing=result.differing,
        differences=result.differences,
        types=_types(found, expected),
    )


def _check_tables(job: Job, entry: ResultEntry, pins: Pins) -> None:
    """Raise an error if the tables are no longer what the result was made of: that the query gives something else now does not make it wrong."""
    try:
        check(job, {name: version for name, version in pins.items() if name in job.catalog})
    except SourceError as error:
        raise WorkspaceError(
            f"the result {entry.query} of {entry.point} cannot be computed anew: {error.message}",
            hint="run the next point that delivers it, then verify that",
        ) from error


def _check_query(job: Job, runs: Iterable[RunFile], result: Verified) -> None:
    """Raise an error if the query is not what it was at the delivery: that it gives something else now does not make the result wrong."""
    run = next((run for run in runs if run.point == result.point), None)
    before = cast("Mapping[str, str]", run.plan.get("queries", {}) if run else {}).get(result.query)
    if before not in (None, query_digests(job)[result.query]):
        raise JobError(
            f"the result {result.query} of {result.point} cannot be compared: its query has changed since it was delivered",
            hint="run the next point that delivers it, then verify that; or put the query back as it was",
        )


def _types(found: DataFrame, expected: DataFrame) -> tuple[str, ...]:
    """Columns published in another type than the query gives; NULLs without a type are stored as texts."""
    pairs = zip(found.schema.fields, expected.schema.fields, strict=True)
    kinds = [(f.name, f.dataType.simpleString(), e.dataType.simpleString()) for f, e in pairs]
    return tuple(
        f"{name} is published as {mine}, the query gives {theirs}"
        for name, mine, theirs in kinds
        if mine != theirs and (mine, theirs) != ("string", "void")
    )


def batch(spark: SparkSession, job: Job, query: str, pins: Pins) -> DataFrame:
    """What a query gives over the tables as they were pinned. Its text is run as it stands, with the tables as names before it."""
    frames = snapshots(spark, job, query, pins, settled=True)
    return over(spark, completed(spark, query, frames), frames)


def snapshots(spark: SparkSession, job: Job, query: str, pins: Pins, settled: bool = False) -> dict[str, DataFrame]:
    """The tables of a job as they were pinned, by name; of tables that are kept as their changes, the columns that the query speaks of, and `settled` if it may fail for what was taken back."""
    columns = _spoken_of(query)
    every = tuple(column for table in job.catalog.values() for column in table.columns)
    settled = settled and fails(Expr(read_expression(query)), every)

    def rows(name: str) -> DataFrame:
        return read_rows(spark, source_of(job, name).snapshot(pins[name.lower()]), name, columns, settled)

    with explained("the query in batch"):
        return {table.name: rows(table.name) for table in job.catalog.values()}


class _Names(frozenset[str]):
    """Names without regard to case."""

    def __contains__(self, name: object) -> bool:
        return super().__contains__(str(name).lower())


def _spoken_of(query: str) -> _Names | None:
    """All names in a query, columns' among them; None where it may read columns without naming them."""
    tree = read_expression(query)
    stars = [star for star in tree.find_all(exp.Star) if not isinstance(star.parent, exp.Count) and not _exists(star)]
    natural = [join for join in tree.find_all(exp.Join) if join.args.get("method")]
    renamed = [table for table in tree.find_all(exp.Table, exp.Subquery) if table.alias_column_names]
    if stars or natural or renamed or tree.find(exp.Pivot):
        return None
    return _Names(part.name.lower() for part in tree.find_all(exp.Identifier))


def _exists(star: exp.Star) -> bool:
    """Whether it is the one in `EXISTS (SELECT * …)`, which reads no column."""
    select = star.parent
    above = select.parent if isinstance(select, exp.Select) else None
    return isinstance(above.parent if isinstance(above, exp.Subquery) else above, exp.Exists)


def over(spark: SparkSession, query: str, frames: Mapping[str, DataFrame]) -> DataFrame:
    """A query over frames that it finds under their names."""
    names = ", ".join(f"{quoted(name)} AS (SELECT * FROM {{frame_{i}}})" for i, name in enumerate(frames))
    text = query.strip().rstrip(";").replace("{", "{{").replace("}", "}}")
    given: dict[str, Any] = {f"frame_{i}": frame for i, frame in enumerate(frames.values())}
    with explained("the query in batch", "it is run as it stands in the job"):
        return spark.sql(f"WITH {names} SELECT * FROM (\n{text}\n)", **given)


def compare(found: DataFrame, expected: DataFrame) -> Comparison:
    """Two frames of as many columns as bags of rows, whatever the names of their columns."""
    names = [f"c{i}" for i in range(len(found.columns))]
    kinds = [field.dataType.simpleString() for field in found.schema.fields]
    floats = [i for i, kind in enumerate(kinds) if kind in ("double", "float")]
    keys = [_key(name, kind) for name, kind in zip(names, kinds, strict=True)]
    given: dict[str, Any] = {"found": found.toDF(*names), "expected": expected.toDF(*names)}
    text = (
        f"SELECT {', '.join([*(f'FIRST({n}) AS {n}' for n in names), f'SUM({WEIGHT}) AS {WEIGHT}'])} FROM ("
        f"SELECT *, 1L AS {WEIGHT} FROM {{found}} UNION ALL SELECT *, -1L AS {WEIGHT} FROM {{expected}}) "
        f"GROUP BY {', '.join(keys)} HAVING SUM({WEIGHT}) <> 0"
    )
    with explained("the comparison"):
        left = found.sparkSession.sql(text, **given)
        rows = left.limit(MOST + 1).collect()
        if len(rows) > MOST:
            total = left.selectExpr(f"SUM(ABS({WEIGHT})) AS differing", f"SUM({WEIGHT}) AS more").collect()[0]
            return Comparison(int(total["differing"]), int(total["more"]), _differences(rows[:SHOWN]))
    differences = _differences(rows)
    unmatched = _unmatched(differences, floats) if floats else differences
    more = sum(d.weight for d in differences)
    return Comparison(sum(abs(d.weight) for d in unmatched), more, tuple(unmatched[:SHOWN]))


def _differences(rows: Iterable[SparkRow]) -> tuple[Difference, ...]:
    return tuple(Difference(tuple(row[:-1]), int(row[WEIGHT])) for row in rows)


def _key(name: str, kind: str) -> str:
    """What a column is grouped by: numbers in floating point by ten digits, maps by their entries."""
    if kind in ("double", "float"):
        return f"IF(ABS({name}) < {TOLERANCE:.0e}D, '0', FORMAT_STRING('%.9e', {name}))"
    return f"SORT_ARRAY(MAP_ENTRIES({name}))" if kind.startswith("map<") else name


def _unmatched(differences: Iterable[Difference], floats: Sequence[int]) -> list[Difference]:
    """The differences that remain when rows of opposite sign that differ only by rounding have been paired."""
    alike: dict[str, list[Difference]] = defaultdict(list)
    for difference in differences:
        alike[repr([v for i, v in enumerate(difference.row) if i not in floats])].append(difference)
    left: list[Difference] = []
    for group in alike.values():
        fewer = sorted((d for d in group if d.weight < 0), key=lambda d: _position(d.row[floats[0]]))
        for more in sorted((d for d in group if d.weight > 0), key=lambda d: _position(d.row[floats[0]])):
            weight = more.weight
            for i, other in enumerate(fewer):
                if weight and other.weight and all(_close(more.row[f], other.row[f]) for f in floats):
                    paired = min(weight, -other.weight)
                    weight -= paired
                    fewer[i] = replace(other, weight=other.weight + paired)
            left += [replace(more, weight=weight)] if weight else []
        left += [d for d in fewer if d.weight]
    return left


def _position(value: float | None) -> float:
    return math.inf if value is None or math.isnan(value) else value


def _close(a: float | None, b: float | None) -> bool:
    if a is None or b is None:
        return a is b
    return math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=TOLERANCE) or (math.isnan(a) and math.isnan(b))


def completed(spark: SparkSession, query: str, frames: Mapping[str, DataFrame]) -> str:
    """The query over frames in which LIMIT takes rows as plans do: by its ORDER BY, then by all columns that can be sorted by. Which of equal rows it takes is left open by SQL."""
    tree = read_expression(query)
    limited = [part for part in tree.find_all(exp.Query) if part.args.get("limit") or part.args.get("offset")]
    for part in limited:
        if part is not tree and any(s.is_star for s in part.selects):
            continue
        kinds = [field.dataType.simpleString() for field in over(spark, query, frames).schema] if part is tree else []
        sortable = [orderable(kind) for kind in kinds] or [True] * len(part.named_selects)
        order = part.args.get("order")
        if order and isinstance(order.expressions[0].this, exp.Var):
            continue  # ORDER BY ALL is by all columns.
        rest = [exp.Ordered(this=exp.Literal.number(i), nulls_first=True) for i, able in enumerate(sortable, 1) if able]
        part.set("order", exp.Order(expressions=[*(order.expressions if order else ()), *rest]))
    return tree.sql(dialect="spark") if limited else query
