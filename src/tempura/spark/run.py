"""Running a job, one point after another: lock, pin, plan from here, carry out this point's steps, commit, publish, collect.

Whatever is killed in between is found again: pins and finished steps stand in the workspace's journal, and a run counts only when its run file is there. Running
a point again says that it is done; running it again after a kill goes on where it was.
"""

from __future__ import annotations

from contextlib import suppress

from pyspark.sql import SparkSession

import tempura.course as courses
from tempura.errors import TempuraError, WorkspaceError
from tempura.job import Job
from tempura.spark.checks import lookups
from tempura.spark.point import PointRun, Told
from tempura.spark.report import RunReport
from tempura.spark.steps import StepError
from tempura.trust import planned
from tempura.workspace import Past, Workspace


def run(
    job: Job,
    at: str | None = None,
    *,
    spark: SparkSession | None = None,
    dry_run: bool = False,
    told: Told | None = None,
) -> RunReport:
    """Run one point of a job: `at`, or the next one. It is safe to repeat, and safe to kill.

    Without a session a tuned local one is started, if there is anything to compute.
    """
    tell = told or _silent
    workspace = Workspace.open(job.workspace, job.name, create=not dry_run)
    if dry_run:
        return _dry(job, workspace, at)
    with workspace.lock(f"tempura run {job.name}" + (f" --at {at}" if at else "")):
        past = workspace.past()
        point = courses.next_point(job, past, at)
        if point is None:
            return _repeated(workspace, past, at, spark)
        return _carried_out(job, workspace, past, point, spark, tell)


def _repeated(workspace: Workspace, past: Past, at: str | None, spark: SparkSession | None = None) -> RunReport:
    """The report of the point's own run, or of the last one."""
    file = past[past.points.index(at) if at in past.points else -1]
    return RunReport(file.point, "repeated", file=file, workspace=workspace, spark=spark)


def _carried_out(
    job: Job, workspace: Workspace, past: Past, point: int, spark: SparkSession | None, tell: Told
) -> RunReport:
    """Run a point; where Spark fails and states cannot be read, once more without these."""
    unreadable: dict[str, str] = {}
    while True:
        going = PointRun(job, workspace, past, point, spark, tell, unreadable)
        try:
            return going.carried_out()
        except TempuraError as error:
            # Looking at every byte of the states takes long, so Spark has to have had trouble with a file.
            found = going.unreadable() if isinstance(error, StepError) and "READ_FILE" in error.message else {}
            if not found:
                with suppress(WorkspaceError):  # On a full disk, what went wrong is the thing to tell.
                    courses.mark_failed(workspace, going.attempt.number)
                raise
            unreadable |= found


def _silent(line: str) -> None:
    """Nobody listens."""


def _dry(job: Job, workspace: Workspace, at: str | None) -> RunReport:
    past = workspace.past()
    point = courses.next_point(job, past, at)
    if point is None:
        return _repeated(workspace, past, at)
    course = courses.lay(job, workspace, past, point, courses.pins(job, workspace, past, point))
    _, found = planned(course.job, course.standing, lookups(course, past[-1] if past else None))
    return RunReport(course.point, "dry", plan=found, notes=course.notes, workspace=workspace, course=course)
