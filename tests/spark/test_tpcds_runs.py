"""A few TPC-DS queries through whole runs, three points each; `python -m tests.spark.tpcds_spark` (`make test-tpcds-spark`) runs all."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.spark.runjobs import interpreted
from tests.spark.tpcds_spark import run_query


@pytest.mark.parametrize(
    ("query", "pattern"), [(3, "delta-RS"), (40, "delta-small"), (93, "delta-RS"), (97, "delta-small")]
)
def test_runs_are_right_and_read_what_earlier_ones_kept(spark: SparkSession, query: int, pattern: str):
    with interpreted(spark):
        record = run_query(spark, query, 0.01, pattern, policy="incremental")
    assert not record["problems"]
    assert record["results"] == 1 and record["states"] > 0 and record["loaded"] > 0
