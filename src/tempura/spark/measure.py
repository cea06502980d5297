"""What each step really took, from Spark's event log read while it is being written.

A step runs under a tag of its own, which Spark writes into the log with every job; the log's figures of the tasks of those jobs are the step's. That works
in local mode and on a cluster, with the UI off, and with steps in parallel. Where the log cannot be read, what is left is the number of rows and the time on
the clock, and the rest is None.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import threading
import time
import uuid
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from pyspark.sql import SparkSession

PATIENCE = 5.0
"""How many seconds to wait for the log of a job that has ended."""

_TAG = re.compile(r"tempura-[0-9a-f]{12}-\d+$")
_SQL = "org.apache.spark.sql.execution.ui.SparkListenerSQLExecution"


@dataclass(frozen=True)
class Measured:
    """What a step took; None is unknown. Bytes are as stored: compressed in files and shuffles."""

    rows: int | None
    wall_seconds: float
    jobs: int | None = None
    tasks: int | None = None
    cpu_seconds: float | None = None
    """Of tasks alone: without planning, garbage collection and compiling."""
    rows_read: int | None = None
    bytes_read: int | None = None
    bytes_written: int | None = None
    shuffle_read: int | None = None
    shuffle_written: int | None = None
    spilled: int | None = None


@dataclass
class Span:
    """The time under one tag: of a step while it runs, and after."""

    tag: str
    meter: Meter
    started: float = field(default_factory=time.perf_counter)
    wall_seconds: float = 0.0

    def measured(self, rows: int | None = None) -> Measured:
        """What was done under the tag; to be asked for when it has ended. The rows are counted by whoever writes them."""
        log = self.meter.log
        found = log.totals(self.tag) if log else None
        if found is None:
            return Measured(rows, self.wall_seconds)
        return Measured(
            rows,
            self.wall_seconds,
            jobs=found["jobs"],
            tasks=found["tasks"],
            cpu_seconds=found["cpu"] / 1e9,
            rows_read=found["rows_read"],
            bytes_read=found["bytes_read"],
            bytes_written=found["bytes_written"],
            shuffle_read=found["shuffle_read"],
            shuffle_written=found["shuffle_written"],
            spilled=found["spilled"],
        )


class Meter:
    """Measures steps in a session; steps in other threads too."""

    def __init__(self, spark: SparkSession, log: str | Path | None = None):
        """`log` is the event log of the application where the session's settings do not say, or not in a way that holds here."""
        self._spark = spark
        path = Path(log) if log is not None else event_log(spark)
        self.log = EventLog(path) if path is not None and path.exists() else None
        self._numbers = itertools.count(1)
        self._own = uuid.uuid4().hex[:12]

    @contextmanager
    def span(self) -> Generator[Span]:
        """What this thread has Spark do meanwhile is measured: one action that writes, at least."""
        span = Span(f"tempura-{self._own}-{next(self._numbers)}", self)
        self._spark.addTag(span.tag)
        try:
            yield span
        finally:
            span.wall_seconds = time.perf_counter() - span.started
            self._spark.removeTag(span.tag)


def event_log(spark: SparkSession) -> Path | None:
    """The file that the session writes its events to; None if it has none that can be read here.

    It must be a local file, neither compressed nor rolling.
    """
    if spark.conf.get("spark.eventLog.enabled", "false") != "true":
        return None
    place = urlsplit(str(spark.conf.get("spark.eventLog.dir", "")))
    if place.scheme not in ("", "file") or not place.path:
        return None
    name = str(spark.conf.get("spark.app.id", ""))
    files = [unquote(place.path) + f"/{name}{ending}" for ending in (".inprogress", "")]
    return next((Path(f) for f in files if name and os.path.isfile(f)), None)


class EventLog:
    """An event log that is being written, read as far as it goes, and what it says of each tag."""

    def __init__(self, path: Path):
        self._path = path
        self._offset = path.stat().st_size
        self._rest = b""
        self._lock = threading.Lock()
        self._totals: dict[str, Counter[str]] = {}
        self._stages: dict[int, str] = {}
        self._open: dict[tuple[str, int], str] = {}
        """Jobs and executions that have begun and not ended, with their tags."""

    def totals(self, tag: str) -> Counter[str] | None:
        """The sums over all tasks under a tag whose work has ended; None if the log does not tell in time."""
        deadline = time.perf_counter() + PATIENCE
        while True:
            with self._lock:
                self._read()
                found = self._totals.get(tag)
                # The execution that runs the jobs ends last.
                if found and found["jobs"] and found["executions"] and tag not in self._open.values():
                    return Counter(found)
            if time.perf_counter() > deadline:
                return None
            time.sleep(0.002)

    def _read(self) -> None:
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                new = file.read()
        except FileNotFoundError:
            return  # The application has ended, and its log bears another name.
        self._offset += len(new)
        *lines, self._rest = (self._rest + new).split(b"\n")
        for line in lines:
            kind = line[: line.find(b'"', 10) + 1].removeprefix(b'{"Event":"').removesuffix(b'"').decode()
            take = _EVENTS.get(kind)
            if take is not None:
                take(self, json.loads(line))

    def _tag(self, tags: list[str]) -> str | None:
        return next((m[0] for m in map(_TAG.search, tags) if m), None)

    def job_start(self, event: dict[str, Any]) -> None:
        tag = self._tag(event.get("Properties", {}).get("spark.job.tags", "").split(","))
        if tag is not None:
            self._totals.setdefault(tag, Counter())["jobs"] += 1
            self._open["job", event["Job ID"]] = tag
            for stage in event["Stage IDs"]:
                self._stages.setdefault(stage, tag)

    def job_end(self, event: dict[str, Any]) -> None:
        self._open.pop(("job", event["Job ID"]), None)

    def execution_start(self, event: dict[str, Any]) -> None:
        tag = self._tag(event.get("jobTags") or [])
        if tag is not None:
            self._totals.setdefault(tag, Counter())["executions"] += 1
            self._open["execution", event["executionId"]] = tag

    def execution_end(self, event: dict[str, Any]) -> None:
        self._open.pop(("execution", event["executionId"]), None)

    def task_end(self, event: dict[str, Any]) -> None:
        tag = self._stages.get(event["Stage ID"])
        found = event.get("Task Metrics")
        if tag is None or not found:
            return
        reads, writes = found["Shuffle Read Metrics"], found["Shuffle Write Metrics"]
        self._totals[tag].update(
            tasks=1,
            cpu=found["Executor CPU Time"] + found["Executor Deserialize CPU Time"],
            rows_read=found["Input Metrics"]["Records Read"],
            bytes_read=found["Input Metrics"]["Bytes Read"],
            bytes_written=found["Output Metrics"]["Bytes Written"],
            shuffle_read=reads["Local Bytes Read"] + reads["Remote Bytes Read"],
            shuffle_written=writes["Shuffle Bytes Written"],
            spilled=found["Disk Bytes Spilled"],
        )


_EVENTS = {
    "SparkListenerJobStart": EventLog.job_start,
    "SparkListenerJobEnd": EventLog.job_end,
    "SparkListenerTaskEnd": EventLog.task_end,
    f"{_SQL}Start": EventLog.execution_start,
    f"{_SQL}End": EventLog.execution_end,
}
"""The events that matter, and who takes them; other lines are not even parsed."""


def jvm_seconds() -> float | None:
    """The CPU time of the Java processes that this process has started, or else of the one that has started it, as `spark-submit` does: planning, garbage collection and compiling included.

    None where the system does not tell.
    """
    own, parent = os.getpid(), os.getppid()
    children: list[int] = []
    above: list[int] = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            pid, _, told = stat.read_text().partition(" (")
        except OSError:
            continue  # It has ended since it was listed.
        name, _, rest = told.rpartition(")")
        fields = rest.split()
        if name == "java" and (int(fields[1]) == own or int(pid) == parent):
            (above if int(pid) == parent else children).append(int(fields[11]) + int(fields[12]))
    ticks = children or above
    return sum(ticks) / os.sysconf("SC_CLK_TCK") if ticks else None
