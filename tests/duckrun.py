"""Executes a plan on DuckDB run by run, and compares every result with the batch query and every state with its definition.

The connection has the relations that plans read, under the names of `tempura.algebra.physical`: `sales@t1`, `sales@t1:t2`.
Bags are compared exactly, row by row with their weights; only floating-point columns may differ, by one part in a million.
"""

from __future__ import annotations

import math
import time
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import duckdb
import sqlglot
from sqlglot import exp

from tempura.algebra import Op
from tempura.algebra.incremental import ROWS
from tempura.algebra.physical import delta_name, snapshot_name
from tempura.plans import IncrementalPlan, Run, Step
from tempura.schema import WEIGHT
from tempura.sql.lower import lower, to_sql

TOLERANCE = 1e-6
FLOATS = ("DOUBLE", "FLOAT")
EXPECTED = "expected"
"""The name of the table that holds what a step's target is compared with."""


class StepFailed(Exception):
    """DuckDB refuses a step, or a step reads what is not there yet."""


@dataclass(frozen=True)
class Mismatch:
    """A target that is not what it should be, with a few of the rows that differ and by how much."""

    point: str
    step: str
    against: str
    """`batch` or `definition`."""
    message: str
    rows: tuple[tuple[tuple[Any, ...], int], ...] = ()
    """Rows and weights: above zero, the step has them too often; below, too seldom."""

    def __str__(self) -> str:
        shown = "".join(f"\n    {weight:+d} {row}" for row, weight in self.rows[:5])
        return f"{self.step} at {self.point} against its {self.against}: {self.message}{shown}"


@dataclass
class RunReport:
    """What was executed and compared."""

    steps: int = 0
    results: int = 0
    empty_results: int = 0
    states: int = 0
    empty_states: int = 0
    rows: int = 0
    mismatches: list[Mismatch] = field(default_factory=list[Mismatch])
    type_differences: list[str] = field(default_factory=list[str])
    """Columns of results whose type is not that of the batch query."""
    seconds: float = 0.0

    @property
    def right(self) -> bool:
        return not self.mismatches

    def __str__(self) -> str:
        said = f"{self.steps} steps, {self.results} results ({self.empty_results} empty), {self.states} states, {self.rows} rows"
        return "\n  ".join([said, *map(str, self.mismatches), *self.type_differences])


def execute(
    plan: IncrementalPlan,
    connection: duckdb.DuckDBPyConnection,
    batch: Mapping[str, str] | None = None,
    check_states: bool = True,
) -> RunReport:
    """Run every step of every run, and compare. `batch` has the queries in Spark SQL by name; without it, results are compared with their definitions.

    States are dropped after the run that is said to read them last, so that a plan that says so wrongly fails.
    """
    started = time.perf_counter()
    report = RunReport()
    made: set[str] = set()
    points = [run.point for run in plan.runs]
    try:
        for i, run in enumerate(plan.runs):
            for step in run.steps:
                _check_reads(step, made, points[: i + 1])
                _create(connection, step.name, step.to_sql("duckdb"), f"{step.name} at {run.point}")
                made.add(step.name)
                report.steps += 1
                _compare(report, connection, run, step, batch, check_states)
            for state in plan.states:
                if state.until == run.point and state.name in made:
                    connection.execute(f"DROP TABLE {_quoted(state.name)}")
                    made.discard(state.name)
    finally:
        for name in (*made, EXPECTED):
            connection.execute(f"DROP TABLE IF EXISTS {_quoted(name)}")
    report.seconds = time.perf_counter() - started
    return report


def _compare(
    report: RunReport,
    connection: duckdb.DuckDBPyConnection,
    run: Run,
    step: Step,
    batch: Mapping[str, str] | None,
    check_states: bool,
) -> None:
    rows = connection.execute(f"SELECT count(*) FROM {_quoted(step.name)}").fetchall()[0][0]
    report.rows += rows
    if step.kind == "state":
        report.states += 1
        report.empty_states += rows == 0
        if check_states:
            report.mismatches += _against_definition(connection, run, step)
        return
    report.results += 1
    report.empty_results += rows == 0
    if batch is None:
        report.mismatches += _against_definition(connection, run, step)
        return
    found = _against_batch(report, connection, run, step, batch)
    if found:
        # Which half is wrong: what the query was taken to mean, or how the plan computes it?
        found += _against_definition(connection, run, step)
    report.mismatches += found


def _against_definition(connection: duckdb.DuckDBPyConnection, run: Run, step: Step) -> list[Mismatch]:
    """A state equals its definition. The delta of a state may be written in pieces: those are compared merged."""
    _create(connection, EXPECTED, definition_sql(step.definition), f"the definition of {step.name} at {run.point}")
    names = [name for name, _ in _columns(connection, step.name)]
    if ROWS not in names or WEIGHT in names:
        return _difference(connection, run, step, "definition")
    merged = (
        _merged(connection, step.name, f"{step.name} merged"),
        _merged(connection, EXPECTED, f"{EXPECTED} merged"),
    )
    found = _difference(connection, run, step, "definition", tables=merged)
    for table in merged:
        connection.execute(f"DROP TABLE {_quoted(table)}")
    return found


def _merged(connection: duckdb.DuckDBPyConnection, table: str, target: str) -> str:
    """A table of pieces of states added up per group, without groups that say nothing. NULL is the sum of nothing, as is 0."""
    columns = [name for name, _ in _columns(connection, table)]
    groups = [_quoted(c) for c in columns if not _is_part(c)]
    sums = {c: f"SUM(COALESCE({_quoted(c)}, 0))" for c in columns if _is_part(c) and not c.startswith("__m_")}
    ends = {c: f"LIST(DISTINCT {_quoted(c)})" for c in columns if c.startswith("__m_")}
    outputs = ", ".join([*groups, *(f"{tree} AS {_quoted(c)}" for c, tree in {**sums, **ends}.items())])
    group = f"GROUP BY {', '.join(groups)}" if groups else ""
    having = " OR ".join(f"{tree} <> 0" for tree in sums.values())
    query = f"SELECT {outputs} FROM {_quoted(table)} {group} HAVING {having}"
    _create(connection, target, query, f"the merged pieces of {table}")
    return target


def _is_part(name: str) -> bool:
    return name == ROWS or name.startswith(("__c_", "__s_", "__q_", "__m_"))


def definition_sql(definition: Op) -> str:
    """What a target equals by definition, as a query with a weight column if it has weights."""
    lowered = lower(definition, "duckdb")
    return lowered.select.sql(dialect="duckdb") if lowered.weighted else to_sql(definition, "duckdb")


def _against_batch(
    report: RunReport, connection: duckdb.DuckDBPyConnection, run: Run, step: Step, batch: Mapping[str, str]
) -> list[Mismatch]:
    text = query_of(step, batch)
    run_batch(connection, EXPECTED, text, run.point)
    mine, theirs = _columns(connection, step.name), _columns(connection, EXPECTED)
    for (name, kind), (_, expected) in zip(mine, theirs, strict=False):
        if kind != expected:
            report.type_differences.append(
                f"{step.name} at {run.point}: {name} is {kind}, in the batch query {expected}"
            )
    return _difference(connection, run, step, "batch", given_names(text))


def query_of(step: Step, batch: Mapping[str, str]) -> str:
    """The text of the query that a result is of: the only one, or the one that its view or target is named after."""
    if len(batch) == 1:
        return next(iter(batch.values()))
    for name in (step.view.partition("[")[0], step.name, step.name.partition("@")[0]):
        if name in batch:
            return batch[name]
    raise StepFailed(f"{step.name} ({step.view}) is named after none of the queries {', '.join(batch)}")


def run_batch(connection: duckdb.DuckDBPyConnection, target: str, text: str, point: str) -> None:
    """Run a query in Spark SQL over the tables as of a point.

    The tables of a point are put into a schema of their own, in which the text finds them under their plain names.
    """
    ending = f"@{point}"
    schema = _quoted(f"as of {point}")
    connection.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
    for (name,) in connection.execute(
        "SELECT view_name FROM duckdb_views() WHERE schema_name = 'main' AND ends_with(view_name, $1) UNION ALL "
        "SELECT table_name FROM duckdb_tables() WHERE schema_name = 'main' AND ends_with(table_name, $1)",
        [ending],
    ).fetchall():
        table = name.removesuffix(ending)
        if table and "@" not in table:
            connection.execute(f"CREATE OR REPLACE VIEW {schema}.{_quoted(table)} AS FROM main.{_quoted(name)}")
    connection.execute("SET search_path = " + _text(f"{schema},main"))
    try:
        sql = completed(sqlglot.parse_one(text, dialect="spark"), connection).sql(dialect="duckdb")
        _create(connection, f"main.{_quoted(target)}", sql, f"the batch query at {point}", quoted=True)
    finally:
        connection.execute("RESET search_path")


def completed(query: exp.Expression, connection: duckdb.DuckDBPyConnection) -> exp.Expression:
    """The query in which every LIMIT takes rows in an order without ties: its ORDER BY, then all of its columns.

    The binder does the same; without it, which of several equal rows are taken would be left open.
    """
    query = query.copy()
    for part in list(query.find_all(exp.Select, exp.SetOperation)):
        if not (part.args.get("limit") or part.args.get("offset")):
            continue
        width = len(part.named_selects)
        if any(isinstance(s, exp.Star) or s.is_star for s in part.selects):
            if part is not query:
                raise StepFailed("LIMIT in a sub-query with `*`: list its columns")
            width = len(connection.execute(f"DESCRIBE {part.sql(dialect='duckdb')}").fetchall())
        order = part.args.get("order")
        given = list(order.expressions) if order else []
        rest = [exp.Ordered(this=exp.Literal.number(i + 1), nulls_first=True) for i in range(width)]
        part.set("order", exp.Order(expressions=given + rest))
    return query


def given_names(text: str) -> list[bool] | None:
    """For each column of a query, whether the user named it: each engine has its own names for the others. None if `*` hides that."""
    query = sqlglot.parse_one(text, dialect="spark")
    assert isinstance(query, exp.Query)
    if any(s.is_star for s in query.selects):
        return None
    return [isinstance(s, exp.Alias | exp.Column) for s in query.selects]


def _difference(
    connection: duckdb.DuckDBPyConnection,
    run: Run,
    step: Step,
    against: str,
    named: list[bool] | None = None,
    tables: tuple[str, str] | None = None,
) -> list[Mismatch]:
    """What the table of a step, or one made of it, has more or less of than the one expected."""
    tables = tables or (step.name, EXPECTED)
    mine, theirs = _columns(connection, tables[0]), _columns(connection, tables[1])
    weighted = [step.weighted and step.kind == "state", any(name == WEIGHT for name, _ in theirs)]
    found = [[n for n, _ in columns if n != WEIGHT] for columns in (mine, theirs)]
    if step.kind == "state" and sorted(found[0]) == sorted(found[1]):
        # The order of a state's columns is that of the joins that made it; whoever reads it does so by name.
        found[1] = found[0]
    named = named or [True] * len(found[1])
    if len(found[0]) != len(found[1]) or any(
        a.lower() != b.lower() for a, b, by_user in zip(*found, named, strict=True) if by_user
    ):
        return [Mismatch(run.point, step.name, against, f"its columns are {found[0]}, expected {found[1]}")]
    if weighted[0] != any(name == WEIGHT for name, _ in mine):
        return [
            Mismatch(
                run.point,
                step.name,
                against,
                f"it is {'' if weighted[0] else 'not '}said to be weighted, but its columns are {mine}",
            )
        ]
    sides = [
        f"SELECT {', '.join(map(_quoted, columns))}, {sign}{WEIGHT if has_weight else '1'} AS {WEIGHT} FROM {_quoted(table)}"
        for table, columns, has_weight, sign in zip(tables, found, weighted, ("", "-"), strict=True)
    ]
    columns = ", ".join(map(_quoted, found[0]))
    group = f"GROUP BY {columns}" if columns else ""
    total = f"SUM({WEIGHT})::BIGINT"
    rows = connection.execute(
        f"SELECT {columns}{', ' if columns else ''}{total} FROM ({sides[0]} UNION ALL {sides[1]}) {group} HAVING {total} <> 0"
    ).fetchall()
    kinds = [a if a in FLOATS else b for (n, a), (_, b) in zip(mine, theirs, strict=False) if n != WEIGHT]
    left = unmatched([(row[:-1], row[-1]) for row in rows], [i for i, kind in enumerate(kinds) if kind in FLOATS])
    if not left:
        return []
    return [Mismatch(run.point, step.name, against, f"{len(left)} rows differ", tuple(left))]


def unmatched(rows: Sequence[tuple[tuple[Any, ...], int]], floats: Sequence[int]) -> list[tuple[tuple[Any, ...], int]]:
    """The rows that remain when those of opposite sign that differ only by rounding have been paired."""
    if not floats:
        return list(rows)
    alike: dict[Any, list[list[Any]]] = defaultdict(list)
    for row, weight in rows:
        rest = repr([v for i, v in enumerate(row) if i not in floats])
        alike[rest].append([row, weight])
    first = floats[0]
    for group in alike.values():
        # Sorted by one of the numbers, so that each row is tried with its neighbours only.
        negative = sorted((r for r in group if r[1] < 0), key=lambda r: _position(r[0][first]))
        positions = [_position(r[0][first]) for r in negative]
        for mine in (r for r in group if r[1] > 0):
            at = _position(mine[0][first])
            reach = 2 * TOLERANCE * max(1.0, abs(at)) if math.isfinite(at) else 0.0
            for other in negative[bisect_left(positions, at - reach) : bisect_right(positions, at + reach)]:
                if mine[1] and other[1] and all(_close(mine[0][i], other[0][i]) for i in floats):
                    paired = min(mine[1], -other[1])
                    mine[1] -= paired
                    other[1] += paired
    return [(row, weight) for group in alike.values() for row, weight in group if weight]


def _position(value: float | None) -> float:
    return math.inf if value is None or math.isnan(value) else value


def _close(a: float | None, b: float | None) -> bool:
    if a is None or b is None:
        return a is b
    return math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=TOLERANCE) or (math.isnan(a) and math.isnan(b))


def _check_reads(step: Step, made: set[str], so_far: Sequence[str]) -> None:
    """A step reads targets of earlier steps, and base tables as of points that have come."""
    for name in step.reads:
        if name in made:
            continue
        table = name.partition("@")[0]
        snapshots = {snapshot_name(table, p) for p in so_far}
        deltas = {delta_name(table, p, q) for i, q in enumerate(so_far) for p in so_far[:i]}
        if name not in snapshots | deltas:
            raise StepFailed(
                f"{step.name} at {so_far[-1]} reads {name!r}, which is not there then; there is {', '.join(sorted(made)) or 'no state'}"
            )


def _create(connection: duckdb.DuckDBPyConnection, target: str, sql: str, what: str, quoted: bool = False) -> None:
    try:
        connection.execute(f"CREATE OR REPLACE TABLE {target if quoted else _quoted(target)} AS {sql}")
    except duckdb.Error as error:
        raise StepFailed(f"{what}: {error}\n{sql}") from error


def _columns(connection: duckdb.DuckDBPyConnection, table: str) -> list[tuple[str, str]]:
    return [(name, kind) for name, kind, *_ in connection.execute(f"DESCRIBE {_quoted(table)}").fetchall()]


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
