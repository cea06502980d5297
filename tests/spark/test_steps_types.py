"""Types are inferred as Spark gives them: for wide decimals in every place that widens them, and for whole queries of TPC-DS."""

from __future__ import annotations

from itertools import product

import pytest
from pyspark.sql import DataFrame, SparkSession

import tempura
from bench import tpcds
from tempura.algebra import Read
from tempura.catalog import Catalog, Table
from tempura.schema import WEIGHT, Column
from tempura.spark.names import declared
from tempura.spark.steps import frame
from tempura.sql.bind import bind
from tests.tpcds_grid import Cell, job_of

TYPES = (
    "int",
    "bigint",
    "decimal(7,2)",
    "decimal(38,2)",
    "decimal(38,19)",
    "decimal(27,17)",
    "decimal(38,38)",
    "float",
)
PAIRS = (
    "SELECT coalesce(a, b) AS c FROM t", "SELECT CASE WHEN a > b THEN a ELSE b END AS c FROM t", "SELECT if(a > b, a, b) AS c FROM t",
    "SELECT greatest(a, b) AS c FROM t", "SELECT a + b AS c FROM t", "SELECT a * b AS c FROM t", "SELECT a / b AS c FROM t",
    "SELECT a % b AS c FROM t", "SELECT a AS c FROM t UNION ALL SELECT b FROM t", "SELECT a AS c FROM t EXCEPT SELECT b FROM t",
    "SELECT a AS c FROM t INTERSECT SELECT b FROM t", "SELECT a AS c FROM t UNION SELECT b FROM t",
)  # fmt: skip
SINGLE = (
    "sum(a)",
    "avg(a)",
    "round(a)",
    "round(a, 3)",
    "round(a, 30)",
    "round(a, -2)",
    "floor(a)",
    "ceil(a)",
    "abs(a)",
)


def types(frame: DataFrame) -> list[str]:
    return [f.dataType.simpleString() for f in frame.schema.fields]


def wrong(spark: SparkSession, columns: tuple[Column, ...], texts: list[str]) -> list[str]:
    """The queries over a table `t` of these columns whose type is inferred to be another one than Spark's."""
    catalog = Catalog(Table("t", columns))
    spark.createDataFrame([], declared(columns)).createOrReplaceTempView("t")
    found = [(text, bind(text, catalog).root.schema[0].type, types(spark.sql(text))[0]) for text in texts]
    return [f"{text} over {columns}: {mine}, in Spark {theirs}" for text, mine, theirs in found if mine != theirs]


def test_two_types_meet_as_in_spark(spark: SparkSession):
    found: list[str] = []
    for a, b in product(TYPES, TYPES):
        found += wrong(spark, (Column("a", a), Column("b", b)), list(PAIRS))
    assert not found, "\n".join(found)


def test_functions_of_one_type_as_in_spark(spark: SparkSession):
    found: list[str] = []
    for a in TYPES:
        found += wrong(spark, (Column("a", a),), [f"SELECT {call} AS c FROM t" for call in SINGLE])
    assert not found, "\n".join(found)


@pytest.mark.parametrize(("number", "pattern"), [(36, "delta-small"), (36, "delta-RS"), (80, "delta-RS")])
def test_results_have_the_types_of_the_batch_query(spark: SparkSession, number: int, pattern: str):
    """Through all states of the plan; nothing is run."""
    job = job_of(Cell(number, pattern, "refresh", "all"), 0.01, virtual=True)
    for table in job.catalog.values():
        spark.createDataFrame([], declared(table.columns)).createOrReplaceTempView(table.name)
    batch = types(spark.sql(tpcds.queries()[number]))
    frames: dict[str, DataFrame] = {}
    for run in tempura.plan(job, baselines=False).runs:
        for step in run.steps:
            for op in step.tree.walk():
                if isinstance(op, Read) and op.name not in frames:
                    columns = (*op.columns, Column(WEIGHT, "bigint")) if op.weighted else op.columns
                    frames[op.name] = spark.createDataFrame([], declared(columns))
            frames[step.name] = frame(spark, step, frames)
            assert step.kind == "state" or types(frames[step.name]) == batch
