"""Small jobs over real files, and the comparison of a run with the batch query and of its states with their definitions."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from tempura import course
from tempura.catalog import Table
from tempura.course import source_of
from tempura.job import Job
from tempura.schema import WEIGHT, Column
from tempura.spark.reading import read_rows
from tempura.spark.run import RunReport, run
from tempura.spark.states import States
from tempura.workspace import ResultEntry, StateEntry, Workspace
from tests.duckrun import unmatched
from tests.profiles import STEADY
from tests.spark import sparkrun

SALES = {"o_id": pa.string(), "category": pa.string(), "price": pa.decimal128(9, 2), "at": pa.int64()}
RETURNS = {"o_id": pa.string(), "cost": pa.decimal128(9, 2), "at": pa.int64()}
GROSS = "SELECT category, sum(CASE WHEN cost IS NULL THEN price ELSE -cost END) AS gross, count(*) AS n FROM sales LEFT JOIN returns ON sales.o_id = returns.o_id GROUP BY category"

SHOP = """\
name: shop
query: "{query}"
tables:
  sales:
    columns: {{o_id: string, category: string, price: 'decimal(9,2)'}}
    key: o_id
    source: {{kind: files, path: sales, format: parquet, arrival: {{at: bigint}}}}
  returns:
    columns: {{o_id: string, cost: 'decimal(9,2)'}}
    source: {{kind: files, path: returns, format: parquet, arrival: {{at: bigint}}}}
timeline: [{timeline}]
policy: {policy}
"""
QUICK = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1"}
"""For the environment of processes that start Java: none lives long enough for its second compiler to pay."""
Bag = Counter[tuple[Any, ...]]
THREE = "{at: t1, price: 0.2}, {at: t2, price: 0.5, deliver: true}, {at: t3, deliver: true}"


def shop(
    folder: Path, query: str = GROSS, timeline: str = THREE, policy: str = "incremental", changes: str = ""
) -> Job:
    """Sales and their returns, which come late, at costs that stay; `changes` is YAML to add."""
    return replace(
        Job.parse(SHOP.format(query=query, timeline=timeline, policy=policy) + changes, folder), cluster=STEADY
    )


def put(path: Path, types: Mapping[str, pa.DataType], rows: Sequence[Sequence[Any]]) -> Path:
    """A Parquet file with these rows."""
    path.parent.mkdir(parents=True, exist_ok=True)
    columns = [pa.array([row[i] for row in rows], kind) for i, kind in enumerate(types.values())]
    pq.write_table(pa.table(dict(zip(types, columns, strict=True))), path)
    return path


def arrive(folder: Path, at: int, count: int = 6, returned: Sequence[str] = ()) -> None:
    """At a time, `count` sales come, o<at>-0 and so on; of NULL category, of the same one, without a price; and returns of earlier ones."""
    prices = (Decimal("10.50"), None, Decimal("3.25"))
    sales = [(f"o{at}-{i}", ("a", "b", None, f"c{at}")[i % 4], prices[i % 3], at) for i in range(count)]
    put(folder / f"sales/{at:03}.parquet", SALES, sales)
    costs = [(o, Decimal(1 + i), at) for i, o in enumerate(returned)]
    put(folder / f"returns/{at:03}.parquet", RETURNS, costs)


class Standing:
    """A workspace's runs, and the frames of base tables as they stood at each."""

    def __init__(self, spark: SparkSession, job: Job):
        self.spark = spark
        self.job = job
        self.workspace = Workspace.open(job.workspace, job.name)
        self.runs = list(self.workspace.past())
        self.pins = {run.point: run.pins for run in self.runs}

    def __call__(self, name: str) -> DataFrame:
        """The rows that a name such as `sales@t1` stands for."""
        table, _, point = name.partition("@")
        reading = source_of(self.job, table).snapshot(self.pins[point][table.lower()])
        return read_rows(self.spark, reading, name, settled=True)

    def state(self, states: States, entry: StateEntry) -> DataFrame:
        uris = [self.workspace.storage.uri(f) for f in entry.folders]
        return states.read(
            uris,
            tuple(Column(*c) for c in entry.schema),
            partition=entry.partition,
            buckets=entry.buckets,
            ordered=entry.ordered,
        )

    def bag(self, folder: str) -> Bag:
        """The rows in a folder, read without Spark; those of a delta count as often as their weight says."""
        files = sorted(Path(self.workspace.storage.uri(folder).removeprefix("file://")).glob("*.parquet"))
        found: Bag = Counter()
        for row in (row for file in files for row in pq.read_table(file).to_pylist()):
            weight = row.pop(WEIGHT, 1)
            assert weight, "a row that is there zero times"
            found[tuple(row.values())] += weight
        return found


def verify(spark: SparkSession, job: Job, report: RunReport) -> None:
    """The run's results are what the batch query gives on the pinned data, its deltas lead to them, and its states are what they are by definition."""
    standing = Standing(spark, job)
    assert report.file == standing.runs[-1]
    problems: list[str] = []
    for entry in report.file.results.values():
        if entry.point == report.point:
            problems += _batch(standing, entry, report.point) + _change(standing, entry)
    with States(spark) as states:
        for step in report.plan.runs[0].steps if report.plan else ():
            if step.kind == "state" and step.name in report.file.states:
                found = standing.state(states, report.file.states[step.name])
                names = {name: standing(name) for name in sparkrun._definition(step).reads}
                expected = sparkrun.frame(spark, sparkrun._definition(step), names)
                problems += sparkrun._difference(spark, step, report.point, found, expected)
                problems += sparkrun._types(found, expected, step)
    assert not problems, "\n".join(problems)
    damaged = [d for entry in report.file.states.values() for d in standing.workspace.check_state(entry)]
    assert not damaged and standing.workspace.pending() is None and standing.workspace.holder() is None


def _batch(standing: Standing, entry: ResultEntry, point: str) -> list[str]:
    tables = [t.name for t in standing.job.catalog.values()]
    expected = sparkrun.run_batch(standing.spark, standing.job.queries[entry.query], tables, point, standing)
    columns = [(f.name, f.dataType.simpleString()) for f in expected.schema.fields]
    assert [(name, kind) for name, kind, _ in entry.schema] == columns
    rows = Counter(tuple(row) for row in expected.collect())
    return difference(standing.bag(entry.folder), rows, columns, f"{entry.query} at {point}")


def _change(standing: Standing, entry: ResultEntry) -> list[str]:
    """The result at its last delivery, and the change, are together the result."""
    runs = standing.runs
    before = runs[-2].results.get(entry.query) if len(runs) > 1 else None
    if before is None or tuple(before.schema) != tuple(entry.schema):
        return [f"{entry.query} has a delta, and nothing before it"] if entry.delta_folder else []
    together = standing.bag(before.folder)
    if entry.delta_folder is not None:
        together.update(standing.bag(entry.delta_folder))
    columns = [(name, kind) for name, kind, _ in entry.schema]
    return difference(standing.bag(entry.folder), together, columns, f"Δ{entry.query}")


def difference(found: Bag, expected: Bag, columns: Sequence[tuple[str, str]], what: str) -> list[str]:
    """The rows that one has more than the other; NULLs are equal, and so are numbers that differ by rounding."""
    rest = Counter(found)
    rest.subtract(expected)
    floats = [i for i, (_, kind) in enumerate(columns) if kind in ("double", "float")]
    left = unmatched([(row, weight) for row, weight in rest.items() if weight], floats)
    return [f"{what}: {len(left)} rows differ, as {left[:4]}"] if left else []


def ran(spark: SparkSession, job: Job, at: str | None = None) -> RunReport:
    """Run a point, and verify it."""
    report = run(job, at, spark=spark)
    assert report.status == "done"
    verify(spark, job, report)
    return report


def loaded(report: RunReport) -> set[str]:
    """The states of earlier runs that a run has read."""
    assert report.plan is not None and report.file is not None
    written = {step.name for step in report.plan.runs[0].steps}
    read = {name for step in report.plan.runs[0].steps for name in step.reads}
    return {name for name in read - written if "@" not in name or name.startswith("result@")}


def magnify(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs plan as for a hundred thousand times the rows, so that it is worth keeping states; these have as few files as for the rows there are."""
    counted = course._counted

    def many(table: Table, *rest: Any) -> Table:
        found = counted(table, *rest)
        return replace(found, arrives={p: 1e5 * n for p, n in found.arrives.items()}, statistics={})

    monkeypatch.setattr(course, "_counted", many)
    monkeypatch.setattr("tempura.spark.states.FILE_BYTES", math.inf)


@contextmanager
def interpreted(spark: SparkSession) -> Generator[None]:
    """Each query runs once, on few rows: compiling it would take longer than running it."""
    chosen = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
    for name, value in chosen.items():
        spark.conf.set(name, value)
    yield
    for name in chosen:
        spark.conf.unset(name)
