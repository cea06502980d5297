"""Delta tables by a reader of Spark's own. Delta Lake's is a Java package; here a data source of the same name and options stands for it, which reads by `deltalake`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource

from tempura.errors import SourceError
from tempura.job import Job
from tempura.sources import DeltaVersion, Reading
from tempura.sources.source import Change, Part
from tempura.spark.reading import read
from tests.profiles import STEADY
from tests.spark.runjobs import loaded, magnify, ran

JOB = """\
name: lake
query: "SELECT cust, sum(amount) AS total, count(*) AS n FROM orders GROUP BY cust"
tables:
  orders: {source: {kind: delta, path: lake, reader: spark}}
timeline: [{at: a, price: 0.1, deliver: true}, {at: b, deliver: true}, {at: c, deliver: true}]
policy: incremental
"""


def delta_source() -> type[DataSource]:
    """A data source named delta; defined in a function, so that Spark's workers get it by value."""
    from pyspark.sql.datasource import DataSource, DataSourceReader

    class Reader(DataSourceReader):
        def __init__(self, options: dict[str, str]):
            self.options = options

        def read(self, partition: object):
            import pyarrow as pa
            from deltalake import DeltaTable

            o = self.options
            if "readchangefeed" in o:
                first, last = int(o["startingversion"]), int(o["endingversion"])
                rows = pa.table(DeltaTable(o["path"]).load_cdf(starting_version=first, ending_version=last))
                rows = rows.select(["id", "cust", "amount", "_change_type"])
            else:
                rows = DeltaTable(o["path"], version=int(o["versionasof"])).to_pyarrow_table()
            yield from (tuple(row.values()) for row in rows.to_pylist())

    class Delta(DataSource):
        @classmethod
        def name(cls) -> str:
            return "delta"

        def schema(self) -> str:
            changes = ", _change_type string" if "readChangeFeed" in self.options else ""
            return f"id bigint, cust bigint, amount double{changes}"

        def reader(self, schema: object) -> Reader:
            return Reader({name.lower(): value for name, value in self.options.items()})

    return Delta


def orders(first: int, count: int) -> pa.Table:
    ids = range(first, first + count)
    return pa.table({"id": ids, "cust": [i % 3 for i in ids], "amount": [i / 2 for i in ids]})


def test_a_session_without_a_delta_reader_is_told(spark: SparkSession, tmp_path: Path):
    missing = Reading((), (Part(DeltaVersion(str(tmp_path), 0), {}),))
    with pytest.raises(SourceError, match="no reader for Delta tables") as found:
        read(spark, missing)
    assert "leave `reader: spark` out" in found.value.hint


@pytest.mark.parametrize("feed", ["true", "false"])
def test_versions_and_changes(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, feed: str):
    magnify(monkeypatch)
    lake = str(tmp_path / "lake")
    write_deltalake(lake, orders(0, 9), configuration={"delta.enableChangeDataFeed": feed})
    spark.dataSource.register(delta_source())
    job = replace(Job.parse(JOB, tmp_path), cluster=STEADY)
    ran(spark, job)
    write_deltalake(lake, orders(20, 4), mode="append")
    DeltaTable(lake).update(predicate="id = 3", updates={"cust": "7"})
    second = ran(spark, job)
    DeltaTable(lake).delete("id < 2")
    third = ran(spark, job)
    assert loaded(second) | loaded(third), "states are added to"
    assert third.file is not None and third.file.pins["orders"]["version"] == 3


def test_what_can_be_told_of_a_change(tmp_path: Path):
    lake = str(tmp_path / "lake")
    append_only = {"delta.enableChangeDataFeed": "true", "delta.appendOnly": "true"}
    write_deltalake(lake, orders(0, 9), configuration=append_only)
    source = Job.parse(JOB, tmp_path).sources["orders"]
    first = source.pin(None)
    write_deltalake(lake, orders(20, 4), mode="append")
    second = source.pin(first)
    assert not source.retracts and not source.delta(first, second).weighted
    assert source.statistics(second).rows == 13 and source.change(first, second) == Change(4, 0)
    assert not source.delta(second, second).parts and source.change(second, second) == Change(0, 0)


def test_single_rows_of_a_table_that_was_empty(spark: SparkSession, tmp_path: Path):
    """How many rows change is only about known; a change is never taken for none."""
    lake = str(tmp_path / "lake")
    write_deltalake(lake, orders(0, 1).slice(0, 0), configuration={"delta.enableChangeDataFeed": "true"})
    spark.dataSource.register(delta_source())
    job = replace(Job.parse(JOB, tmp_path), cluster=STEADY)
    for rows in (0, 1, 2):
        if rows:
            write_deltalake(lake, orders(rows, 1), mode="append")
        done = ran(spark, job)
        assert done.result is not None and done.result.count() == rows
