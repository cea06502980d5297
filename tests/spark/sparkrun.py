"""Executes a plan on Spark run by run, every state and result through its folder, and compares as `tests.duckrun` does on DuckDB."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from sqlglot import exp

from tempura.algebra.incremental import ROWS
from tempura.algebra.physical import snapshot_name
from tempura.algebra.weights import is_weighted
from tempura.plans import IncrementalPlan, Step
from tempura.schema import WEIGHT
from tempura.spark.names import quoted
from tempura.spark.states import States
from tempura.spark.steps import frame, order_left
from tempura.sqltext import read_expression
from tests.duckrun import completed, query_of, unmatched

BUCKETS = 2
Base = Callable[[str], DataFrame]
"""From a name that plans read (`sales@t1`, `sales@t1:t2`) to its rows."""


@dataclass
class Report:
    """What was executed, and what is not as it should be."""

    results: int = 0
    empty_results: int = 0
    states: int = 0
    bucketed: int = 0
    weighted: int = 0
    rows: int = 0
    problems: list[str] = field(default_factory=list[str])
    state_types: list[str] = field(default_factory=list[str])
    """Columns of states that have another type than their definition gives them."""


def execute(spark: SparkSession, plan: IncrementalPlan, base: Base, batch: Mapping[str, str], folder: Path) -> Report:
    """Run every step of every run, and compare results with the batch query and states with their definitions."""
    report = Report()
    names = _Names(base)
    tables = sorted({n.partition("@")[0] for r in plan.runs for s in r.steps for n in _base_reads(s)})
    with States(spark) as states:
        for run in plan.runs:
            for number, step in enumerate(run.steps):
                path = str(folder / run.point / f"step{number}")
                order = order_left(step) if step.kind == "result" else ()
                written = states.write(
                    frame(spark, step, names),
                    path,
                    partition=step.partition,
                    buckets=BUCKETS,
                    ordered=step.ordered,
                    order=order,
                )
                found = states.read(
                    [path], written.columns, partition=step.partition, buckets=BUCKETS, ordered=step.ordered
                )
                names[step.name] = found
                report.rows += written.rows
                if step.kind == "result":
                    report.results += 1
                    report.empty_results += written.rows == 0
                    expected = run_batch(spark, query_of(step, batch), tables, run.point, base)
                    _compare_types(report, step, found, expected)
                else:
                    report.states += 1
                    report.bucketed += bool(step.partition)
                    report.weighted += step.weighted
                    expected = frame(spark, _definition(step), names)
                    report.state_types += _types(found, expected, step)
                report.problems += _difference(spark, step, run.point, found, expected)
    return report


class _Names(dict[str, DataFrame]):
    """Frames by name; those of base tables are made when they are asked for."""

    def __init__(self, base: Base):
        self._base = base

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or "@" in str(name)

    def __missing__(self, name: str) -> DataFrame:
        return self._base(name)


def _base_reads(step: Step) -> list[str]:
    return list(_definition(step).reads)


def _definition(step: Step) -> Step:
    return replace(
        step,
        kind="state",
        tree=step.definition,
        weighted=is_weighted(step.definition),
        order=(),
        lines=(),
        partition=(),
        broadcasts=(),
    )


def run_batch(spark: SparkSession, text: str, tables: list[str], point: str, base: Base) -> DataFrame:
    """The query over the tables as of a point, which it finds under their plain names."""
    for table in tables:
        base(snapshot_name(table, point)).createOrReplaceTempView(table)
    tree = read_expression(text)
    if tree.find(exp.Limit, exp.Offset, exp.Fetch) is None:
        return spark.sql(text)
    query = completed(tree, _Described(spark, text))  # type: ignore[arg-type]
    return spark.sql(query.sql(dialect="spark"))


@dataclass(frozen=True)
class _Described:
    """Answers, in place of DuckDB, how many columns a query with `*` has."""

    spark: SparkSession
    text: str

    def execute(self, _: str) -> _Described:
        return self

    def fetchall(self) -> list[str]:
        return self.spark.sql(self.text).columns


def _types(found: DataFrame, expected: DataFrame, step: Step) -> list[str]:
    theirs = {f.name: f.dataType.simpleString() for f in expected.schema.fields}
    return [
        f"{step.name}: {f.name} is {f.dataType.simpleString()}, by definition {theirs[f.name]}"
        for f in found.schema.fields
        if f.name in theirs and f.name != WEIGHT and f.dataType.simpleString() != theirs[f.name]
    ]


def _compare_types(report: Report, step: Step, found: DataFrame, expected: DataFrame) -> None:
    mine = [f.dataType.simpleString() for f in found.schema.fields]
    theirs = [f.dataType.simpleString().replace("void", "string") for f in expected.schema.fields]
    if mine != theirs:
        report.problems.append(f"{step.name} has the types {mine}, the batch query {theirs}")


def _difference(spark: SparkSession, step: Step, point: str, found: DataFrame, expected: DataFrame) -> list[str]:
    if ROWS in found.columns and WEIGHT not in found.columns:
        found, expected = _merged(spark, found), _merged(spark, expected)
    columns = [c for c in found.columns if c != WEIGHT]
    theirs = [c for c in expected.columns if c != WEIGHT]
    if len(columns) != len(theirs):
        return [f"{step.name} at {point} has the columns {columns}, expected {theirs}"]
    if step.kind == "state" and set(columns) == set(theirs):
        theirs = columns
    shown = ", ".join(map(quoted, columns))
    # Renaming k columns of a filter takes Spark's optimizer 2^k steps, so columns that have their names already keep them.
    sides = [
        f"SELECT {', '.join(quoted(c) if c == n else f'{quoted(c)} AS {quoted(n)}' for c, n in zip(own, columns, strict=True))}{', ' if own else ''}"
        f"{sign}{WEIGHT if WEIGHT in side.columns else '1L'} AS {WEIGHT} FROM {name}"
        for own, side, sign, name in ((columns, found, "", "{found}"), (theirs, expected, "-", "{expected}"))
    ]
    group = f"GROUP BY {shown}" if columns else ""
    text = f"SELECT {shown}{', ' if columns else ''}SUM({WEIGHT}) AS {WEIGHT} FROM ({sides[0]} UNION ALL {sides[1]}) {group} HAVING SUM({WEIGHT}) <> 0"
    given: dict[str, Any] = {"found": found, "expected": expected}
    rows = spark.sql(text, **given).collect()
    floats = [i for i, c in enumerate(columns) if found.schema[c].dataType.simpleString() in ("double", "float")]
    left = unmatched([(tuple(r[:-1]), r[-1]) for r in rows], floats)
    return [f"{step.name} at {point}: {len(left)} rows differ, as {left[:4]}"] if left else []


def _merged(spark: SparkSession, states: DataFrame) -> DataFrame:
    """Pieces of states added up per group, without groups that say nothing; NULL is the sum of nothing, as is 0."""
    parts = [c for c in states.columns if c == ROWS or c.startswith(("__c_", "__s_", "__q_", "__m_"))]
    groups = [quoted(c) for c in states.columns if c not in parts]
    sums = {c: f"SUM(COALESCE({quoted(c)}, 0))" for c in parts if not c.startswith("__m_")}
    ends = {c: f"SORT_ARRAY(COLLECT_SET({quoted(c)}))" for c in parts if c.startswith("__m_")}
    outputs = ", ".join([*groups, *(f"{tree} AS {quoted(c)}" for c, tree in {**sums, **ends}.items())])
    having = " OR ".join(f"{tree} <> 0" for tree in sums.values())
    group = f"GROUP BY {', '.join(groups)}" if groups else ""
    given: dict[str, Any] = {"states": states}
    return spark.sql(f"SELECT {outputs} FROM {{states}} {group} HAVING {having}", **given)
