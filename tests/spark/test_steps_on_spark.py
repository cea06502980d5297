"""Plans on Spark: every run of the plan, states through disk, each result as the batch query gives it and each state as its definition says."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import tempura
from bench import tpcds
from tempura.algebra.physical import delta_name, snapshot_name
from tempura.catalog import Catalog
from tempura.job import Job
from tempura.reference import Bag
from tempura.reference.views import minus
from tempura.schema import WEIGHT, Column, Schema
from tempura.spark.names import declared
from tempura.testing import random_history
from tempura.timeline import MAIN, Point, Timeline
from tests.spark.runjobs import interpreted
from tests.spark.sparkrun import Report, execute
from tests.test_perturbation import Perturbed
from tests.test_soundness import catalog
from tests.tpcds_grid import Cell, job_of

POINTS = ("t1", "t2", "t3")
TIMELINE = Timeline((Point("t1", 0.3), Point("t2", 0.3, (MAIN,)), Point("t3", 1.0, (MAIN,))))

QUERIES = {
    "inner": "select s.c, n, sum(p * x) g from s join r on s.o = r.o join d on s.c = d.c group by s.c, n",
    "outer": "select c, sum(case when x is null then p else -x end) g from s left join r on s.o = r.o group by c",
    "outer by key": "select k.id, v, r.x from k left join m on k.o = m.id left join r on m.v = r.o",
    "full": "select k.id, k.o, v from k full join m on k.id = m.id",
    "anti": "select o, p from s where o not in (select o from r)",
    "scalar": "select c, sum(p) g from s group by c having sum(p) > (select avg(p) from s)",
    "aggregates": "select c, sum(p) g, count(*) n, count(p) np, avg(p) a, min(p) l, max(p) h, stddev_samp(o) sd from s group by c",
    "no groups": "select min(p) a, count(*) b, sum(p) c from s where o > 1",
    "distinct": "select distinct s.c, x from s join r on s.o = r.o",
    "sets": "select c, o, grouping(c) gc, count(distinct p) n from s group by grouping sets ((c), (o), ())",
    "window": "select c, p, sum(p) over (partition by c) sp, rank() over (partition by c order by o) rk from s",
    "limit": "select c, sum(p) g from s group by c order by g desc, c limit 2",
    "except": "select o from s except all select o from r",
    "hidden order": "select s.o, x from s join r on s.o = r.o order by p desc, x",
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def without_compiling(spark: SparkSession) -> Iterator[None]:
    with interpreted(spark):
        yield


class Histories:
    """The frames of tables whose rows at each point are given."""

    def __init__(self, spark: SparkSession, tables: Catalog, history: dict[str, list[Bag]]):
        self.frames: dict[str, DataFrame] = {}
        for table in tables.values():
            rows = history[table.name]
            for i, point in enumerate(POINTS):
                self.frames[snapshot_name(table.name, point)] = _frame(spark, table.columns, rows[i], False)
                for j in range(i):
                    change = minus(rows[i], rows[j])
                    self.frames[delta_name(table.name, POINTS[j], point)] = _frame(
                        spark, table.columns, change, table.can_retract
                    )

    def __call__(self, name: str) -> DataFrame:
        return self.frames[name]


def _frame(spark: SparkSession, columns: Schema, rows: Bag, weighted: bool) -> DataFrame:
    """The rows of a bag; a weighted one is left unconsolidated."""
    exact = [c.type.startswith("decimal") for c in columns]
    given: list[tuple[object, ...]] = []
    for values, weight in rows.items():
        row = tuple(Decimal(v) if e and v is not None else v for v, e in zip(values, exact, strict=True))
        if not weighted:
            given += [row] * weight
            continue
        given += [(*row, weight + 1), (*row, -1)]
    return spark.createDataFrame(given, declared((*columns, Column(WEIGHT, "bigint")) if weighted else columns))


@pytest.fixture(scope="module")
def histories(spark: SparkSession) -> dict[bool, Histories]:
    made = random.Random(11)
    found: dict[bool, Histories] = {}
    for retracts in (False, True):
        tables = catalog(retracts)
        found[retracts] = Histories(
            spark, tables, {t.name: random_history(t, 3, made, rows=9) for t in tables.values()}
        )
    return found


def check(spark: SparkSession, job: Job, plan: tempura.IncrementalPlan, base: object, folder: Path) -> Report:
    report = execute(spark, plan, base, job.queries, folder)  # type: ignore[arg-type]
    shown = "\n".join(f"{run.point} {step.name}: {step.sql}" for run in plan.runs for step in run.steps)
    assert not report.problems, "\n".join(report.problems) + "\n" + shown
    assert not report.state_types
    assert report.results == sum(len(p.deliver) for p in job.timeline.points)
    return report


def planned(query: str, retracts: bool, seed: int) -> tuple[Job, tempura.IncrementalPlan]:
    """A plan as for a million times the rows, so that it is worth keeping states, at random prices, so that they are of many kinds."""
    tables = [replace(t, arrives={p: 1e6 * n for p, n in t.arrives.items()}) for t in catalog(retracts).values()]
    objective = ("weighted", "latest-first")[seed % 2]
    job = Job(query=query, catalog=Catalog(*tables), timeline=TIMELINE, objective=objective, policy="incremental")
    return job, tempura.plan(job, cost=Perturbed(seed), baselines=False)


@pytest.mark.parametrize(("number", "name"), list(enumerate(QUERIES)), ids=list(QUERIES))
def test_every_run_gives_the_batch_answer(
    spark: SparkSession, histories: dict[bool, Histories], tmp_path: Path, number: int, name: str
):
    retracts = number % 3 != 0
    job, plan = planned(QUERIES[name], retracts, number)
    check(spark, job, plan, histories[retracts], tmp_path)


class Tpcds:
    """The frames of TPC-DS at scale factor 0.01, each row dealt to points by DuckDB."""

    def __init__(self, spark: SparkSession, pattern: str, folder: Path):
        self.spark = spark
        self.pattern = pattern
        self.folder = folder
        self.connection = duckdb.connect()
        tpcds.register(self.connection, 0.01, pattern, POINTS[:2])

    def __call__(self, name: str) -> DataFrame:
        table, _, when = name.partition("@")
        path = self.folder / f"{table}.parquet"
        if not path.exists():
            self.connection.execute(f"COPY (FROM \"{table}@\") TO '{path}' (FORMAT parquet)")
        rows = self.spark.read.parquet(str(path))
        start, _, end = when.partition(":")
        at = f"_in <= {POINTS.index(start)} AND _out > {POINTS.index(start)}"
        if not end:
            return rows.where(at).drop("_in", "_out")
        later = f"_in <= {POINTS.index(end)} AND _out > {POINTS.index(end)}"
        delta = rows.where(f"({at}) <> ({later})")
        if table in tpcds.PATTERNS[self.pattern].retracting:
            delta = delta.withColumn(WEIGHT, F.expr(f"IF({later}, 1L, -1L)"))
        return delta.drop("_in", "_out")


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Tpcds]:
    return {p: Tpcds(spark, p, tmp_path_factory.mktemp(p)) for p in ("delta-small", "delta-RS")}


CELLS = [
    Cell(40, "delta-RS", "refresh", "all"), Cell(93, "delta-RS", "warehouse", "all"), Cell(52, "delta-small", "refresh", "all"),
    Cell(3, "delta-small", "refresh", "all"), Cell(97, "delta-RS", "refresh", "all"), Cell(21, "delta-small", "warehouse", "all"),
]  # fmt: skip


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.key.replace(" ", "-"))
def test_tpcds(spark: SparkSession, tables: dict[str, Tpcds], tmp_path: Path, cell: Cell):
    job = job_of(cell, 0.01, points=2, virtual=True)
    plan = tempura.plan(job, baselines=False)
    report = check(spark, job, plan, tables[cell.pattern], tmp_path)
    assert report.rows > 0
