"""What a job really takes on Spark: every point of its course, and the batch query over the same files, in one warm session.

All that Spark does between two moments is counted, whoever asked for it: tasks from the event log, the Java process from the system. That takes in what no step
of a plan is billed for, such as the delta of a delivered result. Sides that are compared take turns, each course in a workspace of its own.
"""

from __future__ import annotations

import json
import math
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeVar

from pyspark.sql import DataFrame, SparkSession

from bench import _arrivals, _threads
from bench._record import FULL, Figures, say
from tempura.job import Job
from tempura.spark.measure import event_log, jvm_seconds
from tempura.spark.report import RunReport
from tempura.spark.run import run as run_point
from tempura.spark.session import session
from tempura.spark.states import States
from tempura.spark.verify import compare, completed, over, snapshots
from tempura.timeline import MAIN, Point, Timeline

T = TypeVar("T")
Place = Callable[[Path], Job]
"""Makes a job whose workspace is the given folder."""

WARM_UP = """
SELECT i_category, COUNT(*) AS items, SUM(ss_net_profit - COALESCE(sr_net_loss, 0)) AS profit
FROM store_sales LEFT JOIN store_returns ON ss_item_sk = sr_item_sk AND ss_ticket_number = sr_ticket_number JOIN item ON ss_item_sk = i_item_sk
GROUP BY i_category
"""
"""Has a bit of everything; run a few times on little data, it leaves Spark's own classes loaded and compiled."""
WARM = 2
"""Rounds that do not count. After one, the same plan still took 0.5 s of tasks where from the third on it takes 0.2 s: Java compiles what Spark generated while it runs."""
RACED = ("task_cpu", "jvm_cpu")
"""The kinds of CPU that plans are compared by."""
ALL_POINTS, BEFORE, LAST = slice(None), slice(-1), slice(-1, None)
"""Points of a timeline."""
TASK_END = b'{"Event":"SparkListenerTaskEnd"'
JOB_START = b'{"Event":"SparkListenerJobStart"'


@dataclass(frozen=True)
class Spent:
    """What was spent between two moments. Bytes are as stored: compressed in files and shuffles."""

    task_cpu: float
    """Seconds of tasks: without Spark's planning, garbage collection and compiling."""
    jvm_cpu: float
    """Seconds of the whole Java process."""
    compiling: float
    """Seconds of that in which Java compiled what is run often: Spark's own code, and what Spark generated."""
    garbage: float
    """Seconds of that in which Java collected garbage."""
    python_cpu: float
    """Seconds of the Python process: planning by Tempura, and looking at the files that arrived."""
    wall: float
    rows_read: int
    bytes_read: int
    bytes_written: int
    bytes_shuffled: int
    jobs: int


class Gauge:
    """Tells what a session spends while something is done. Nobody else may use the session meanwhile."""

    def __init__(self, spark: SparkSession):
        self.spark = spark
        self._pid = _threads.java_process()
        path = event_log(spark)
        assert path is not None, "the session has an event log"
        self._path = path

    def spent(self, work: Callable[[], T]) -> tuple[Spent, T]:
        """What doing it takes, and what it gives."""
        self.spark._jvm.System.gc()  # type: ignore[union-attr]  # Each pays for its own garbage.
        offset = self._settled()
        threads = _threads.by_kind(self._pid)
        jvm, python, began = _jvm(), time.process_time(), time.perf_counter()
        given = work()
        wall, python, jvm = time.perf_counter() - began, time.process_time() - python, _jvm() - jvm
        threads = _threads.by_kind(self._pid) - threads
        end = self._settled()
        with self._path.open("rb") as file:
            file.seek(offset)
            lines = file.read(end - offset).split(b"\n")
        tasks = [_task(line) for line in lines if line.startswith(TASK_END)]
        total = {name: sum(task[name] for task in tasks) for name in _task(None)}
        jobs = sum(line.startswith(JOB_START) for line in lines)
        kinds = {kind: threads[kind] for kind in _threads.KINDS}
        return Spent(jvm_cpu=jvm, python_cpu=python, wall=wall, jobs=jobs, **kinds, **total), given

    def _settled(self) -> int:
        """The length of the log when all that has happened is in it."""
        self.spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
        return self._path.stat().st_size


def _jvm() -> float:
    found = jvm_seconds()
    assert found is not None, "the system tells the CPU time of processes"
    return found


def _task(line: bytes | None) -> dict[str, Any]:
    """What the log says of a task; nothing of one that failed before it began."""
    told = json.loads(line).get("Task Metrics") if line else None
    if not told:
        return dict.fromkeys(("task_cpu", "rows_read", "bytes_read", "bytes_written", "bytes_shuffled"), 0)
    return {
        "task_cpu": (told["Executor CPU Time"] + told["Executor Deserialize CPU Time"]) / 1e9,
        "rows_read": told["Input Metrics"]["Records Read"],
        "bytes_read": told["Input Metrics"]["Bytes Read"],
        "bytes_written": told["Output Metrics"]["Bytes Written"],
        "bytes_shuffled": told["Shuffle Write Metrics"]["Shuffle Bytes Written"],
    }


@dataclass
class Workbench:
    """One local session, started and warmed up when something is first measured."""

    warm_ups: int = 3
    taken: int = 0
    """How often jobs have taken turns. Every other round goes backwards, and so does the first one of every other query: neither side always comes first."""

    @cached_property
    def spark(self) -> SparkSession:
        return session()

    @cached_property
    def gauge(self) -> Gauge:
        gauge = Gauge(self.spark)
        for n in range(self.warm_ups):
            say(f"Spark is warmed up, {n + 1} of {self.warm_ups}")
            with folder() as place:
                job = _arrivals.job(WARM_UP, 0.01, "delta-small", Timeline.refresh(), place / "workspace")
                course(gauge, job)
                recomputed(gauge, job, place / "batch")
        return gauge

    def begin(self, jobs: Mapping[str, Place], where: Path) -> Path:
        """Run all points but the last of each job, in workspaces below a folder."""
        for name, place in jobs.items():
            done(self.gauge, place(where / name), BEFORE)
        return where

    def turns(
        self,
        jobs: Mapping[str, Place],
        rounds: int,
        *,
        warm: int = WARM,
        at: Sequence[str] = (),
        race: float = math.inf,
        weigh: bool = False,
        begun: Path | None = None,
    ) -> dict[str, Figures]:
        """Let jobs of one query take turns with recomputing it (`full`), in `rounds` that count after some that do not.

        For each the medians by point, how many rounds they are of, and whether it delivered what recomputing gives, in the first round and in the last. Recomputing is done `at` some points, else at
        the last. Who in every round so far, also those that do not count, took more than `race` times the least that anyone did, by tasks and by the JVM, takes part in no further one, but for the
        first: more rounds are for telling apart what is close. What counts in a race is the last run, or, if told to `weigh`, all runs at their prices.
        Where jobs have `begun`, each round goes on from copies of their workspaces, and what counts is the last run alone.
        """
        found: dict[str, list[Figures]] = {name: [] for name in (*jobs, FULL)}
        right = dict.fromkeys(jobs, True)
        least = {name: dict.fromkeys(RACED, math.inf) for name in found}
        running = list(found)
        self.taken += 1
        with folder() as lasting:
            expected: DataFrame | None = None
            for n in range(warm + rounds):
                results: dict[str, DataFrame] = {}
                with folder() as place:
                    for name in running[:: 1 if (self.taken + n) % 2 else -1]:
                        # What the first round recomputes is what all rounds are held against.
                        points, results[name] = self._turn(name, jobs, place, place if n else lasting, at, begun)
                        found[name] += [points] if n >= warm else []
                        taken = raced(points, weigh)
                        least[name] = {kind: min(least[name][kind], taken[kind]) for kind in RACED}
                    expected = results[FULL] if expected is None else expected
                    for name in right if n in (0, warm + rounds - 1) else ():
                        right[name] &= name not in results or not compare(results[name], expected).differing
                running = close(least, race) if n >= warm else running
        return {
            name: {"points": median(each), "rounds": len(each), "right": right.get(name, True)}
            for name, each in found.items()
        }

    def _turn(
        self, name: str, jobs: Mapping[str, Place], place: Path, where: Path, at: Sequence[str], begun: Path | None
    ) -> tuple[Figures, DataFrame]:
        """A job once, in a workspace at a place, or recomputing once, into another: what its points took, and the last result."""
        workspace = place / f"{name}-workspace"
        if begun is not None and (begun / name).exists():
            shutil.copytree(begun / name, workspace, symlinks=True)
        job = jobs[name if name in jobs else next(iter(jobs))](workspace)
        if name == FULL:
            return recomputed(self.gauge, job, where / name, at)
        return course(self.gauge, job, ALL_POINTS if begun is None else LAST)


def raced(points: Mapping[str, Figures], weigh: bool) -> dict[str, float]:
    """What counts of a course, of each kind of CPU: its last run, or all at their prices."""
    return {kind: weighted(points, kind) if weigh else list(points.values())[-1][kind] for kind in RACED}


def close(taken: Mapping[str, Mapping[str, float]], race: float) -> list[str]:
    """The first, and those that took at most `race` times the least of some kind."""
    most = {kind: race * min(each[kind] for each in taken.values()) for kind in RACED}
    return [name for n, name in enumerate(taken) if not n or any(taken[name][kind] <= most[kind] for kind in RACED)]


@contextmanager
def folder() -> Generator[Path]:
    """A folder for a while."""
    place = Path(tempfile.mkdtemp(prefix="tempura-bench-"))
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def course(gauge: Gauge, job: Job, part: slice = ALL_POINTS) -> tuple[Figures, DataFrame]:
    """Run points of a job up to the last: what each was estimated to take and took, and the last result."""
    points, report = done(gauge, job, part)
    assert report is not None and report.result is not None
    return points, report.result


def done(gauge: Gauge, job: Job, part: slice) -> tuple[Figures, RunReport | None]:
    """Run some points of a job: what each was estimated to take and took, and the last report.

    A job that recomputes has nothing to do where no result is due.
    """
    points: Figures = {}
    report: RunReport | None = None
    for point in job.timeline.points[part]:
        if job.policy == "full" and not point.deliver:
            continue
        spent, report = gauge.spent(partial(run_point, job, point.name, spark=gauge.spark))
        assert report.plan is not None and report.file is not None
        kept = [state for state in report.file.states.values() if state.read_at]
        points[point.name] = asdict(spent) | {
            "price": point.price,
            "estimated": sum(step.cost for step in report.plan.runs[0].steps),
            "steps": len(report.steps),
            "states": len(report.file.states),
            "state_bytes": sum(state.bytes or 0 for state in kept),
            "bucketed_bytes": sum(state.bytes or 0 for state in kept if state.partition),
        }
    return points, report


def recomputed(gauge: Gauge, job: Job, place: Path, at: Sequence[str] = ()) -> tuple[Figures, DataFrame]:
    """Run the batch query at points, the last one unless told otherwise, and write its result: what each took, and the last result."""
    points: Figures = {}
    result: DataFrame | None = None
    for name in at or [job.timeline.points[-1].name]:
        point = job.timeline.points[job.timeline.index(name)]
        spent, result = gauge.spent(recomputing(gauge.spark, job, point, place))
        points[name] = asdict(spent) | {"price": point.price}
    assert result is not None
    return points, result


def recomputing(spark: SparkSession, job: Job, point: Point, place: Path) -> Callable[[], DataFrame]:
    """The work of running the batch query at a point and of writing its result below a folder. What is done to the query so that results can be compared is no part of it."""
    pins = {table: source.pin(None, point.upto) for table, source in job.sources.items()}
    query = job.queries[MAIN]
    text = completed(spark, query, snapshots(spark, job, query, pins))
    where = str(place / point.name.replace(":", ""))

    def work() -> DataFrame:
        states = States(spark)
        written = states.write(over(spark, text, snapshots(spark, job, query, pins)), where)
        return states.read([where], written.columns)

    return work


def median(rounds: Sequence[Any]) -> Any:
    """The median of each figure; whether all rounds say yes; of what is no number, the first. What one round does not know, none does."""
    first = rounds[0] if None not in rounds else None
    if isinstance(first, bool):
        return all(rounds)
    if isinstance(first, dict):
        return {key: median([r[key] for r in rounds]) for key in first}
    return statistics.median(rounds) if isinstance(first, int | float) else first


def weighted(points: Mapping[str, Figures], what: str) -> float:
    """A figure summed over points at their prices."""
    return sum(figures[what] * figures["price"] for figures in points.values())
