"""Runs over change logs: deletes and updates, weights that must not round or overflow, and rows that are gone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tempura.job import Job
from tempura.schema import WEIGHT
from tempura.spark.run import run
from tempura.spark.steps import StepError
from tempura.spark.verify import verify as verified
from tests.profiles import STEADY
from tests.spark.runjobs import interpreted, loaded, magnify, put, ran


@pytest.fixture(scope="module", autouse=True)
def quick(spark: SparkSession) -> Iterator[None]:
    with interpreted(spark):
        yield


def changes(folder: Path, name: str, *rows: tuple[str, int | None, str | None, float | None]) -> None:
    types = {"op": pa.string(), "id": pa.int32(), "region": pa.string(), "amount": pa.float64()}
    put(folder / f"log/{name}.parquet", types, rows)


LEDGER = """\
name: ledger
query: "{query}"
tables:
  log:
    columns: {{id: int, region: string, amount: double}}
    {key}
    source: {{kind: changes, path: log, format: parquet, operation: op}}
  regions:
    columns: {{region: string, name: string}}
    source: {{kind: files, path: regions.csv, format: csv, options: {{header: true}}}}
timeline: [{{at: '1', deliver: true}}, {{at: '2', deliver: true}}, {{at: '3', deliver: true}}]
policy: incremental
"""


@pytest.mark.parametrize(
    ("query", "key"),
    [
        (
            "SELECT name, sum(amount) AS total, count(*) AS n, avg(amount) AS mean FROM log LEFT JOIN regions ON log.region = regions.region GROUP BY name",
            "key: id",
        ),
        ("SELECT DISTINCT log.region, name FROM log JOIN regions ON log.region = regions.region", ""),
    ],
    ids=["aggregate", "distinct"],
)
def test_change_logs(spark: SparkSession, tmp_path: Path, query: str, key: str, monkeypatch: pytest.MonkeyPatch):
    """Deletes and updates, as a change log has them."""
    magnify(monkeypatch)
    (tmp_path / "regions.csv").write_text("region,name\nn,North\ns,South\nx,\n")
    changes(tmp_path, "1", *(("I", i, ("n", "s", None, "x", "y")[i % 5], i * 0.5) for i in range(10)))
    job = replace(Job.parse(LEDGER.format(query=query, key=key), tmp_path), cluster=STEADY)
    first = ran(spark, job)
    changes(tmp_path, "2", ("D", 0, "n", 0.0), ("U-", 1, "s", 0.5), ("U+", 1, "n", None), ("I", 10, "n", 7.0))
    second = ran(spark, job)
    assert loaded(second) <= set(first.file.states) and loaded(second)  # type: ignore[union-attr]
    changes(tmp_path, "3", ("D", 3, "x", 1.5), ("D", 8, "x", 4.0), ("I", 0, "x", 1.0), ("D", 10, "n", 7.0))
    third = ran(spark, job)
    assert loaded(third)
    assert any(row[WEIGHT] < 0 for row in third.delta.collect()) == bool(key)


EXACT = """\
name: exact
query: "SELECT c, sum(amount) AS total, avg(amount) AS mean, avg(micros) AS at, avg(micros + 0) AS moved, sum(long) AS l, count(*) AS n FROM log GROUP BY c"
tables:
  log:
    columns: {c: string, amount: 'decimal(20,10)', micros: bigint, long: 'decimal(38,18)'}
    source: {kind: changes, path: log, format: parquet, operation: {count: n}}
timeline: [{at: '1', deliver: true}, {at: '2', deliver: true}, {at: '3', deliver: true}]
policy: incremental
"""


def test_long_decimals_and_means_of_large_numbers(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A product with a weight must not round, nor a sum of large numbers overflow where Spark's mean does not."""
    magnify(monkeypatch)
    types = {"c": pa.string(), "amount": pa.decimal128(20, 10), "micros": pa.int64()}
    types |= {"long": pa.decimal128(38, 18), "n": pa.int64()}
    long = Decimal("20000000000.5")  # no decimal(28,18)

    def logged(name: str, *rows: tuple[str, str, int, int]) -> None:
        put(tmp_path / f"log/{name}.parquet", types, [(c, Decimal(a), m, long, n) for c, a, m, n in rows])

    large = 2**62
    logged("1", *(("a", f"{i}.0123456789", large + i, 1 + i % 3) for i in range(9)), ("b", "0.0000000001", large, 1))
    job = replace(Job.parse(EXACT, tmp_path), cluster=STEADY)
    ran(spark, job)
    logged(
        "2", ("a", "4.0123456789", large + 4, -2), ("a", "7.0000000003", -large, 3), ("b", "0.0000000001", large, -1)
    )
    assert loaded(ran(spark, job))
    logged("3", ("a", "7.0000000003", -large, -1), ("c", "-9999999999.9999999999", large, 2))
    assert loaded(ran(spark, job))


def test_means_of_long_decimals(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Spark gives a mean more digits than it gives to the quotient of sum and count."""
    magnify(monkeypatch)
    query = "SELECT c, avg(long) AS mean FROM log GROUP BY c"
    columns = "columns: {c: string, long: 'decimal(38,18)'}"
    text = re.sub("query: .*", f'query: "{query}"', re.sub("columns: .*", columns, EXACT))
    types = {"c": pa.string(), "long": pa.decimal128(38, 18), "n": pa.int64()}
    job = replace(Job.parse(text, tmp_path), cluster=STEADY)
    for name, *rows in (("1", ("a", 1, 1)), ("2", ("a", 2, 2)), ("3", ("a", 2, -1), ("b", 4, 3))):
        put(tmp_path / f"log/{name}.parquet", types, [(c, Decimal(value), n) for c, value, n in rows])
        ran(spark, job)


def test_a_row_that_the_query_fails_for_may_be_taken_back(spark: SparkSession, tmp_path: Path):
    """A table that is kept as its changes is what is left of them, also for what fails."""
    (tmp_path / "regions.csv").write_text("region,name\nn,North\n")
    changes(tmp_path, "1", ("I", 0, "n", 1.0), ("I", 2, "n", 1.0), ("I", 5, None, 1.0), ("D", 0, "n", 1.0))
    query = "SELECT region, sum(10 div id) AS parts FROM log GROUP BY region"
    job = replace(Job.parse(LEDGER.format(query=query, key=""), tmp_path), policy="full")
    first = ran(spark, job)
    assert sorted(map(tuple, first.result.collect()), key=repr) == [("n", 5), (None, 2)]
    assert verified(job, spark=spark).same
    changes(tmp_path, "2", ("I", 0, "n", 1.0))
    with pytest.raises(StepError, match=r"(?i)division by zero"):
        run(job, spark=spark)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT id % 2 AS g, sum(CAST(region AS INT)) AS s, count(*) AS n FROM log GROUP BY id % 2",
        "SELECT max(CAST(region AS INT)) AS m FROM log",
        "SELECT CAST(region AS INT) AS r, count(*) AS n FROM log GROUP BY CAST(region AS INT)",
        "SELECT id, 100 / CAST(region AS INT) AS r FROM log",
        "SELECT id FROM log WHERE CAST(region AS INT) > 4",
        "SELECT id FROM (SELECT id, CAST(region AS INT) AS r FROM log) WHERE r > 4 AND r <> 6",
        "SELECT log.id, name FROM log JOIN regions ON CAST(log.region AS INT) = regions.region",
        "SELECT log.id, name FROM log LEFT JOIN regions ON CAST(log.region AS INT) > CAST(regions.region AS INT)",
        "SELECT name FROM regions LEFT JOIN log ON log.region = regions.region AND CAST(log.region AS INT) > 4",
        "SELECT id FROM log WHERE region > 4",
        "SELECT id FROM log WHERE region IN (5, 6)",
        "SELECT sum(region) AS s, sum(region + 1) AS t FROM log",
        "SELECT name, count(*) AS n FROM log JOIN regions ON CAST(log.region AS INT) = regions.region GROUP BY name",
        "SELECT name FROM regions r WHERE EXISTS (SELECT 1 FROM log WHERE CAST(log.region AS INT) = r.region AND log.amount < length(r.name))",
        "SELECT name, id FROM regions r LEFT JOIN log ON CAST(log.region AS INT) = r.region AND log.amount < length(r.name)",
        "SELECT name FROM regions WHERE NOT EXISTS (SELECT 1 FROM log WHERE log.region = regions.region AND CAST(log.region AS INT) > 5)",
    ],
)
def test_a_row_that_came_and_went_fails_nothing(
    spark: SparkSession, tmp_path: Path, query: str, monkeypatch: pytest.MonkeyPatch
):
    """It is in the change, but in no table that the query is ever asked of."""
    magnify(monkeypatch)
    (tmp_path / "regions.csv").write_text("region,name\n5,five\n6,six\n7,seven\n")
    changes(tmp_path, "1", ("I", 1, "5", 1.0), ("I", 2, "7", 1.0), ("I", 3, None, 1.0))
    job = replace(Job.parse(LEDGER.format(query=query, key=""), tmp_path), cluster=STEADY)
    ran(spark, job)
    changes(tmp_path, "2", ("I", 4, "none", 1.0), ("D", 4, "none", 1.0), ("I", 4, "6", 1.0))
    ran(spark, job)
    changes(tmp_path, "3", ("I", 4, "x", 1.0), ("D", 1, "5", 1.0), ("D", 4, "x", 1.0), ("I", 7, "5", 1.0))
    assert ran(spark, job).plan is not None
    assert verified(job, spark=spark).same


@pytest.mark.parametrize("method", ["IM1", "OJV"])
def test_a_row_that_is_padded_for_a_moment_fails_nothing(
    spark: SparkSession, tmp_path: Path, method: str, monkeypatch: pytest.MonkeyPatch
):
    """Where both sides of an outer join have something new, a padded row may come and go within the change."""
    magnify(monkeypatch)
    (tmp_path / "regions.csv").write_text("region,name\n")
    query = "SELECT a.id, 100 / coalesce(b.amount, 0) AS v FROM log a LEFT JOIN (SELECT id, amount FROM log WHERE region = 'r') b ON a.amount = b.id WHERE a.region = 'l'"
    job = replace(Job.parse(LEDGER.format(query=query, key=""), tmp_path), cluster=STEADY, methods=[method])
    changes(tmp_path, "1", ("I", 0, "l", 9.0), ("I", 9, "r", 5.0))
    ran(spark, job)
    changes(tmp_path, "2", ("I", 1, "l", 1.0), ("I", 1, "r", 4.0))
    ran(spark, job)


def test_of_a_log_only_the_number_of_rows(spark: SparkSession, tmp_path: Path):
    (tmp_path / "regions.csv").write_text("region,name\nn,North\n")
    changes(tmp_path, "1", ("I", 1, "n", 1.0), ("I", 2, "n", 1.0), ("I", 5, None, 1.0), ("D", 1, "n", 1.0))
    job = replace(Job.parse(LEDGER.format(query="SELECT count(*) AS n FROM log", key=""), tmp_path), policy="full")
    assert [tuple(row) for row in ran(spark, job).result.collect()] == [(2,)]
    assert verified(job, spark=spark).same
