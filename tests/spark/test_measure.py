"""Measuring: what the event log says of each step, also of steps side by side, and what is left without a log."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession

from tempura.spark import measure
from tempura.spark.measure import Measured, Meter, event_log, jvm_seconds
from tempura.spark.states import States

GROUPED = "SELECT id % {0} AS k, sum(id) AS v FROM range(0, 200000, 1, 2) GROUP BY id % {0}"


def test_a_written_state(spark: SparkSession, states: States, tmp_path: Path):
    meter = Meter(spark)
    with meter.span() as first:
        written = states.write(spark.sql(GROUPED.format(1000)), str(tmp_path / "s"), partition=["k"], buckets=2)
    found = first.measured(written.rows)
    assert found.rows == 1000
    assert found.jobs and found.tasks and found.cpu_seconds
    assert 0 < found.cpu_seconds < 60 and 0 < found.wall_seconds < 60
    files = sum(f.stat().st_size for f in (tmp_path / "s").glob("*.parquet"))
    assert found.bytes_written == files
    assert found.shuffle_written and found.shuffle_written == found.shuffle_read
    assert (found.spilled, found.bytes_read) == (0, 0)
    with meter.span() as second:
        read = states.read([str(tmp_path / "s")], written.columns, partition=["k"], buckets=2)
        again = states.write(read, str(tmp_path / "t"), partition=["k"], buckets=2)
    copied = second.measured(again.rows)
    assert (copied.rows_read, copied.shuffle_written) == (1000, 0)
    assert copied.bytes_read


def test_spans_side_by_side_are_told_apart(spark: SparkSession, states: States, tmp_path: Path):
    meter = Meter(spark)
    found: dict[int, Measured] = {}

    def run(groups: int) -> None:
        with meter.span() as span:
            written = states.write(spark.sql(GROUPED.format(groups)), str(tmp_path / str(groups)))
        found[groups] = span.measured(written.rows)

    threads = [threading.Thread(target=run, args=(groups,)) for groups in (10, 5000)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for groups, measured in found.items():
        files = sum(f.stat().st_size for f in (tmp_path / str(groups)).glob("*.parquet"))
        assert (measured.rows, measured.bytes_written) == (groups, files)
    few, many = found[10].shuffle_written, found[5000].shuffle_written
    assert few and many and many > 10 * few


def test_a_failed_step_is_measured_too(spark: SparkSession, states: States, tmp_path: Path):
    meter = Meter(spark)
    with pytest.raises(Exception, match="on purpose"), meter.span() as span:
        states.write(spark.sql("SELECT raise_error('on purpose') AS x FROM range(2)"), str(tmp_path / "s"))
    assert span.measured().jobs == 1


def test_without_a_log_the_rest_is_unknown(
    spark: SparkSession, states: States, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(measure, "event_log", lambda _: None)
    meter = Meter(spark)
    with meter.span() as span:
        written = states.write(spark.range(5).toDF("x"), str(tmp_path / "s"))
    found = span.measured(written.rows)
    assert found == Measured(5, found.wall_seconds)
    assert found.wall_seconds > 0 and found.cpu_seconds is None


def test_a_log_that_does_not_tell_in_time(
    spark: SparkSession, states: States, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(measure, "PATIENCE", 0.05)
    (tmp_path / "log").write_text("")
    meter = Meter(spark, tmp_path / "log")
    with meter.span() as span:
        states.write(spark.range(5), str(tmp_path / "s"))
    assert span.measured(5).jobs is None


class Settings(dict[str, str]):
    """A session's settings and nothing else."""

    @property
    def conf(self) -> Settings:
        return self


@pytest.mark.parametrize("folder", ["{}", "file:{}", "file://{}"])
def test_where_the_log_is(tmp_path: Path, folder: str):
    log = tmp_path / "app-1.inprogress"
    log.write_text("")
    given = Settings(
        {"spark.eventLog.enabled": "true", "spark.eventLog.dir": folder.format(tmp_path), "spark.app.id": "app-1"}
    )
    assert event_log(given) == log  # type: ignore[arg-type]
    assert event_log(Settings(given | {"spark.app.id": "app-2"})) is None  # type: ignore[arg-type]
    assert event_log(Settings(given | {"spark.eventLog.enabled": "false"})) is None  # type: ignore[arg-type]
    assert event_log(Settings(given | {"spark.eventLog.dir": "hdfs://host/logs"})) is None  # type: ignore[arg-type]


def test_cpu_of_the_jvm(spark: SparkSession, monkeypatch: pytest.MonkeyPatch):
    before = jvm_seconds()
    spark.range(3_000_000).selectExpr("sum(hash(id))").collect()
    after = jvm_seconds()
    assert before is not None and after is not None and after > before
    java = [p for p in psutil.Process().children() if p.name() == "java"]
    assert after == pytest.approx(sum(sum(p.cpu_times()[:2]) for p in java), abs=1.0)
    # What is started by `spark-submit` has Java for a parent.
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert jvm_seconds() is None
    monkeypatch.setattr(os, "getppid", lambda: java[0].pid)
    submitted = jvm_seconds()
    assert submitted == pytest.approx(sum(java[0].cpu_times()[:2]), abs=1.0)
