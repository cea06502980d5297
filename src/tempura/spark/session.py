"""A Spark session of one's own: local, on loopback, quiet, tuned for short jobs, and leaving nothing in the current folder."""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from tempura.errors import JobError
from tempura.sources.options import LOSSY
from tempura.spark.java import java_environment

SMALLEST_MEMORY = 1 << 30
LARGEST_MEMORY = 16 << 30

LOGGING = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
logger.python.name = org.apache.spark.api.python.PythonGatewayServer
logger.python.level = error
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{yyyy-MM-dd HH:mm:ss} %p %c{1}: %m%n%ex
appender.stderr.filter.told.type = RegexFilter
appender.stderr.filter.told.regex = (?s)(Exception in task |Task [0-9]+ in stage |Aborting (job|task)|Job:? .* aborted).*
appender.stderr.filter.told.onMatch = deny
appender.stderr.filter.told.onMismatch = neutral
"""
"""Errors only, from the first moment on: Spark's own setting for that comes after its first warnings. That tasks and jobs fail is not among them: who runs them is told the cause."""

PYTHON_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""To these PySpark writes every error that it raises."""


def session(spark: SparkSession | None = None, **conf: str) -> SparkSession:
    """The given session as it is, or else a tuned local one.

    `conf` are settings of Spark that come before ours: `session(**{"spark.master": "local[4]"})`. A session that is active already is
    returned with them; Spark has one per process.
    """
    if spark is not None:
        return spark
    active = SparkSession.getActiveSession()
    if active is not None:
        for name, value in conf.items():
            active.conf.set(name, value)
        return active
    folder = Path(tempfile.mkdtemp(prefix="tempura-spark-"))
    builder = SparkSession.builder.appName("tempura")
    for name, value in {**settings(folder), **conf}.items():
        builder = builder.config(name, value)
    # What runs in Python beside Spark (functions, data sources) finds the packages that are here.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with java_environment():
        started = builder.getOrCreate()
    for name in PYTHON_LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    atexit.register(_end, started, folder)
    return started


MEANING = (
    "spark.sql.session.timeZone",
    "spark.sql.ansi.enabled",
    "spark.sql.caseSensitive",
    "spark.sql.decimalOperations.allowPrecisionLoss",
    "spark.sql.timestampType",
    "spark.sql.legacy.timeParserPolicy",
    "spark.sql.legacy.sizeOfNull",
)
"""Settings by which the same query over the same rows gives something else."""
_LOSSY = tuple(f"spark.sql.files.{name}" for name in LOSSY)
_STAMPS = "spark.sql.parquet.outputTimestampType"


def meaning(spark: SparkSession, before: Mapping[str, str]) -> dict[str, str]:
    """The settings that decide what a query means; an error if they are not those `before`, under which states were written."""
    if spark.conf.get(_STAMPS) == "TIMESTAMP_MILLIS":
        raise JobError(
            f"the session cuts times that it writes to milliseconds ({_STAMPS})",
            hint="set it to TIMESTAMP_MICROS: states must keep what the query sees",
        )
    for name in _LOSSY:
        if str(spark.conf.get(name)).lower() == "true":
            raise JobError(
                f"the session leaves out files that it cannot read ({name})",
                hint="set it to false: rows of sources and states would be missing without a word",
            )
    now = {name: str(spark.conf.get(name)) for name in MEANING}
    for name, value in now.items():
        if before.get(name, value) != value:
            raise JobError(
                f"the session has {name} = {value}, and had {before[name]} when the job was run before: what is kept would mean something else",
                hint=f"set it to {before[name]} again, or forget the states and start anew with `tempura reset`",
            )
    return now


def _end(spark: SparkSession, folder: Path) -> None:
    """Stop a session and then delete its files, to which it writes until the end."""
    spark.stop()
    shutil.rmtree(folder, ignore_errors=True)


def settings(folder: Path) -> Mapping[str, str]:
    """What a local session is set to; its files are kept under a folder."""
    events, log = folder / "events", folder / "log4j2.properties"
    events.mkdir(parents=True, exist_ok=True)
    log.write_text(LOGGING)
    cores = os.cpu_count() or 1
    return {
        "spark.master": "local[*]",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": f"{_memory() >> 20}m",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # Collecting garbage in parallel, with all else halted, takes a fifth less CPU over a whole run than doing it on the side.
        "spark.driver.defaultJavaOptions": f"-Dlog4j2.configurationFile={log.as_uri()} -XX:+UseParallelGC",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": (folder / "warehouse").as_uri(),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.adaptive.enabled": "true",
        # Listing the files of a source is no reason for a job.
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "10000",
        "spark.sql.shuffle.partitions": str(2 * cores),
        "spark.default.parallelism": str(cores),
        # With one file per bucket a bucketed state that is sorted as well need not be sorted again to be joined.
        "spark.sql.legacy.bucketedTableScan.outputOrdering": "true",
        # Classes that Spark generates for queries; of the 100 that it keeps by itself, a few jobs in turns have none left when they come again.
        "spark.sql.codegen.cache.maxEntries": "1000",
        # Else Spark sorts what is written by the number of the bucket, of which each task has one.
        "spark.sql.maxConcurrentOutputFileWriters": "4",
        # Vectored reads of local files are not counted in the bytes that tasks have read.
        "spark.hadoop.parquet.hadoop.vectored.io.enabled": "false",
        # What is measured is read from the event log while it is being written.
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
    }


def parallelism(spark: SparkSession) -> int:
    """How many tasks the session runs at once, as far as its settings tell; else its number of shuffle partitions."""
    given = _setting(spark, "spark.default.parallelism")
    if given:
        return int(given)
    master = _setting(spark, "spark.master") or ""
    if master.startswith("local"):
        threads = master.partition("[")[2].partition("]")[0].partition(",")[0]
        return int(threads) if threads.isdigit() else (os.cpu_count() or 1 if threads == "*" else 1)
    most = _setting(spark, "spark.cores.max")
    executors, cores = _setting(spark, "spark.executor.instances"), _setting(spark, "spark.executor.cores")
    if most or executors:
        return int(most) if most else int(executors or 1) * int(cores or 1)
    return int(_setting(spark, "spark.sql.shuffle.partitions") or 200)


def _setting(spark: SparkSession, name: str) -> str | None:
    return spark.conf.get(name, None)


def _memory() -> int:
    """Half of the machine's memory, within limits."""
    try:
        physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return SMALLEST_MEMORY
    return min(max(physical // 2, SMALLEST_MEMORY), LARGEST_MEMORY)
