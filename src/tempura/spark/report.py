"""What a run did: its run file, and its results as frames."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from pydantic import JsonValue
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tempura.course import Course
from tempura.errors import JobError
from tempura.plans import IncrementalPlan
from tempura.schema import WEIGHT, Column, Schema
from tempura.spark.session import session
from tempura.spark.states import States
from tempura.workspace import ResultEntry, RunFile, StateEntry, StepEntry, Workspace
from tempura.workspace.runfile import Columns


def schema_of(columns: Columns) -> Schema:
    """The columns that a run file lists."""
    return tuple(Column(*c) for c in columns)


def as_state(result: ResultEntry, name: str, view: str, fingerprint: str) -> StateEntry:
    """A result as a state that later steps can read."""
    return StateEntry(
        name=name,
        view=view,
        fingerprint=fingerprint,
        folders=(result.folder,),
        schema=result.schema,
        weighted=False,
        written_run=result.run,
        written_at_point=result.point,
        rows=result.rows,
        bytes=result.bytes,
        checksum={f: sizes for f, sizes in result.checksum.items() if f == result.folder},
    )


def totals(steps: Iterable[StepEntry]) -> dict[str, JsonValue]:
    """What all steps took together; None where one is not known."""
    measured = [step.measured for step in steps if step.measured]
    found = {name: [m.get(name) for m in measured] for m in measured for name in m}
    return {n: None if None in values else sum(v for v in values if v is not None) for n, values in found.items()}


@dataclass(frozen=True)
class RunReport:
    """What a run did, or would do."""

    point: str
    status: Literal["done", "repeated", "dry"]
    """`repeated`: the point had been run before, and nothing was done; `dry`: nothing was done because nothing was to be."""
    plan: IncrementalPlan | None = None
    file: RunFile | None = None
    notes: tuple[str, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict[str, float])
    """On the clock: `planning`, `steps`, `rest`."""
    workspace: Workspace | None = None
    spark: SparkSession | None = None
    course: Course | None = None
    """What it started from: the job with what really arrived, the versions, the states that were there."""

    @property
    def steps(self) -> tuple[StepEntry, ...]:
        return self.file.steps if self.file else ()

    @property
    def result(self) -> DataFrame | None:
        """The result of the job's only query, if this point delivers it."""
        entry = self._delivered()
        return None if entry is None else self._rows(entry, entry.folder, False)

    @property
    def delta(self) -> DataFrame | None:
        """What the result has more (weight above zero) and less (below) than at its last delivery; all of it at the first."""
        entry = self._delivered()
        if entry is None:
            return None
        if entry.delta_folder is not None:
            return self._rows(entry, entry.delta_folder, True)
        whole = self._rows(entry, entry.folder, False).withColumn(WEIGHT, F.lit(1).cast("bigint"))
        assert self.file is not None and self.workspace is not None
        if entry.run != self.file.number:
            return whole.where("false")
        earlier = next((run for run in self.workspace.history() if run.number < entry.run), None)
        if earlier is not None and entry.query in earlier.results:
            raise JobError(
                f"how {entry.query} changed at {entry.point} is not known: what was delivered before was damaged or had other columns, or some cannot be compared",
                hint="take the whole of it: `.result`",
            )
        return whole

    def _delivered(self) -> ResultEntry | None:
        if self.file is None:
            return None
        due = self.file.delivered
        if len(due) > 1:
            raise JobError(
                f"{len(due)} results are due at {self.file.point}", hint="read them by their folders in `file.results`"
            )
        return due[0] if due else None

    def _rows(self, entry: ResultEntry, folder: str, weighted: bool) -> DataFrame:
        assert self.workspace is not None
        columns = schema_of(entry.schema) + ((Column(WEIGHT, "bigint"),) if weighted else ())
        # A run with nothing new may have needed no session.
        return States(session(self.spark)).read([self.workspace.storage.uri(folder)], columns)
