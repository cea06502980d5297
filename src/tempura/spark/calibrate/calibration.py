"""Calibration: run the trials on a session, see what they took, and fit the cost model's coefficients to that.

What is measured is CPU: of the whole Java process where Spark runs in it, so with planning, compiling and garbage collection, else of the tasks and of the driver. All trials are run twice
to warm up, since Java goes on compiling, then in rounds, so that what else happens on the machine meets all of them alike; the median of its rounds is what a run took. Each pays for its own garbage.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import statistics
import tempfile
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tempura.errors import TempuraError
from tempura.estimate.profile import DEFAULT, Profile
from tempura.job import Job
from tempura.spark.calibrate.charge import amounts, itemized, priced
from tempura.spark.calibrate.fit import Observation, disagreement, fitted
from tempura.spark.calibrate.tables import Shop
from tempura.spark.calibrate.trials import Trial, trials
from tempura.spark.measure import jvm_seconds
from tempura.spark.report import RunReport
from tempura.spark.run import run
from tempura.spark.session import parallelism, session
from tempura.spark.states import buckets
from tempura.timeline import MAIN, Point, Timeline
from tempura.workspace import Storage

SALES, WARM, ROUNDS = 2_000_000, 2, 3

_COPIES = ("spark.sql.autoBroadcastJoinThreshold", "spark.sql.adaptive.autoBroadcastJoinThreshold")

Told = Callable[[str, int, int], None]
"""Is told what is done next, and which part of how many that is."""


class CalibrationError(TempuraError):
    """What was run cannot be measured."""


@dataclass(frozen=True)
class Calibration:
    """A profile that was measured, and how well the model agrees under it with what was observed."""

    profile: Profile
    before: Profile
    observed: tuple[Observation, ...]
    versions: Mapping[str, str]
    rounds: int
    sales: int
    date: str

    @property
    def errors(self) -> tuple[float, float]:
        """The median relative error before and after."""
        return disagreement(self.observed, self.before), disagreement(self.observed, self.profile)

    def to_json(self) -> str:
        """The profile, with where and when it was measured, and how each trial came out."""
        before, after = self.errors
        measured: dict[str, Any] = {
            "date": self.date,
            "machine": platform.platform(),
            "cores": os.cpu_count(),
            "versions": dict(self.versions),
            "sales": self.sales,
            "rounds": self.rounds,
            "median_error": {"before": round(before, 3), "after": round(after, 3)},
            "trials": {
                o.name: {
                    "cpu_seconds": round(o.seconds, 4),
                    "before": round(priced(o.amounts, self.before), 4),
                    "after": round(priced(o.amounts, self.profile), 4),
                }
                for o in self.observed
            },
        }
        return self.profile.to_json(measured)


def calibrate(
    spark: SparkSession | None = None,
    *,
    sales: int = SALES,
    rounds: int = ROUNDS,
    folder: str | None = None,
    told: Told | None = None,
) -> Calibration:
    """Measure what the cost model needs to know of a session's cluster, with tables of so many rows, each trial so often.

    Without a session a tuned local one is started. `folder`, a path or URI that the driver and all executors reach, holds some hundred megabytes meanwhile.
    """
    tell = told or _silent
    todo = list(trials())
    total = len(todo) * (WARM + rounds) + 1
    spark = session(spark)
    if jvm_seconds() is None:
        raise _unknown()
    with _scratch(folder) as place:
        tell("making tables", 0, total)
        shop = Shop(place, sales)
        shop.write(spark)
        before = _session_profile(spark)
        laboratory = Laboratory(spark, shop, itemized(before))
        with _obedient(spark):
            for n in range(WARM + rounds):
                for i, trial in enumerate(todo):
                    tell(trial.name if n >= WARM else f"warming up: {trial.name}", 1 + n * len(todo) + i, total)
                    laboratory.carry_out(trial, f"{place}/workspace", counted=n >= WARM)
    observed = laboratory.observed()
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return Calibration(fitted(observed, before), before, observed, _versions(spark), rounds, sales, now)


def _unknown() -> CalibrationError:
    return CalibrationError(
        "the CPU time of the driver's Java process is not known here",
        hint="calibrate where the driver runs, on Linux, in a session that is not remote",
    )


def _java(spark: SparkSession, *call: str) -> str:
    """What a static method of `System` gives."""
    told = ", ".join(f"'{part}'" for part in ("java.lang.System", *call))
    return str(spark.sql(f"SELECT java_method({told})").collect()[0][0])


def _versions(spark: SparkSession) -> dict[str, str]:
    java = _java(spark, "getProperty", "java.version")
    return {"spark": spark.version, "java": java, "python": platform.python_version(), "tempura": version("tempura")}


def _silent(what: str, part: int, parts: int) -> None:
    """Nobody listens."""


def _session_profile(spark: SparkSession) -> Profile:
    """What is shipped, with what the session itself tells."""
    executors = spark.conf.get("spark.executor.instances", None)
    return replace(
        DEFAULT,
        cores=parallelism(spark),
        executors=int(executors) if executors and not _is_local(spark) else DEFAULT.executors,
        buckets=buckets(spark, 0.0),
    )


def _is_local(spark: SparkSession) -> bool:
    """Whether tasks run in the driver's process: in `local-cluster[…]` they do not."""
    return re.fullmatch(r"local(\[.*\])?", str(spark.conf.get("spark.master", ""))) is not None


@contextmanager
def _obedient(spark: SparkSession) -> Generator[None]:
    """Meanwhile Spark copies the side of a join where the plan says so, and nowhere else: what is measured is what was charged."""
    before = {name: spark.conf.get(name, None) for name in _COPIES}
    for name in _COPIES:
        spark.conf.set(name, "-1")
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, value)


@contextmanager
def _scratch(folder: str | None) -> Generator[str]:
    """A folder for tables and workspaces, empty again afterwards."""
    if folder is not None:
        storage = Storage.at(f"{folder}/tempura-calibration-{os.getpid()}")
        try:
            yield storage.uri()
        finally:
            storage.delete("")
        return
    made = Path(tempfile.mkdtemp(prefix="tempura-calibration-"))
    try:
        yield str(made)
    finally:
        shutil.rmtree(made, ignore_errors=True)


class Laboratory:
    """Carries trials out, and keeps what they took."""

    def __init__(self, spark: SparkSession, shop: Shop, profile: Profile):
        self._spark = spark
        self._shop = shop
        self._profile = profile
        """Itemized, so that every cost tells what it is made of."""
        self._seconds: dict[str, list[float]] = {}
        self._charged: dict[str, float] = {}

    def observed(self) -> tuple[Observation, ...]:
        return tuple(
            Observation(name, amounts(self._charged[name]), statistics.median(seconds))
            for name, seconds in self._seconds.items()
        )

    def carry_out(self, trial: Trial, workspace: str, counted: bool) -> None:
        """Run all points of a trial from nothing."""
        job = self._job(trial, workspace)
        points = [p.name for p in job.timeline.points]
        for point in points:
            _java(self._spark, "gc")
            before = jvm_seconds()
            report = run(job, point, spark=self._spark)
            after = jvm_seconds()
            name = trial.name if len(points) == 1 else f"{trial.name} at {point}"
            # Asked for each, so that what cannot be measured is told at once.
            took = self._took(report, before, after)
            if counted:
                self._seconds.setdefault(name, []).append(took)
            assert report.plan is not None
            # A plan begins with the point that was run.
            self._charged[name] = sum(step.cost for step in report.plan.runs[0].steps)
        Storage.at(workspace).delete("")

    def _job(self, trial: Trial, workspace: str) -> Job:
        names = {f"t{i}": batch for i, batch in enumerate(trial.batches, 1)}
        *early, last = (Point(name, 0.1, upto=batch) for name, batch in names.items())
        catalog = self._shop.catalog(names)
        return Job(
            name="calibration",
            query=trial.query,
            catalog=catalog,
            sources=self._shop.sources(catalog),
            timeline=Timeline((*early, replace(last, price=1.0, deliver=(MAIN,)))),
            policy=trial.policy,
            workspace=workspace,
            checks=False,
            cluster=self._profile if trial.copies else replace(self._profile, broadcast_limit=0.0),
        )

    def _took(self, report: RunReport, before: float | None, after: float | None) -> float:
        if before is None or after is None:
            raise _unknown()
        if _is_local(self._spark):
            return after - before
        tasks = [step.measured.get("cpu_seconds") if step.measured else None for step in report.steps]
        if None in tasks:
            raise CalibrationError(
                "Spark does not tell how much CPU its tasks take",
                hint="let the session write an event log that can be read here, neither compressed nor rolling",
            )
        return after - before + sum(float(seconds or 0.0) for seconds in tasks)
