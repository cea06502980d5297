"""One point of a job while it is run: what is found done, what is computed, and the run file that says so."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, replace
from typing import Any, cast

from pydantic import JsonValue
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import tempura.course as courses
from tempura.algebra import Op, Project, Read
from tempura.algebra.weights import may_fail_in
from tempura.course import Course
from tempura.definitions import Fingerprints, points
from tempura.errors import LockedError, WorkspaceError
from tempura.job import Job
from tempura.plans import Step
from tempura.schema import WEIGHT, orderable
from tempura.spark.bases import Gathered, gather
from tempura.spark.checks import carry_out, checked, due, lookups
from tempura.spark.execute import run_steps
from tempura.spark.measure import Meter
from tempura.spark.names import quoted
from tempura.spark.reading import read, read_rows
from tempura.spark.report import RunReport, as_state, schema_of, totals
from tempura.spark.session import meaning, session
from tempura.spark.states import States, buckets
from tempura.spark.steps import driver, explained, frame, order_left
from tempura.trust import planned
from tempura.workspace import Attempt, Past, ResultEntry, RunFile, StateEntry, StepEntry, Workspace, fault, layout
from tempura.workspace.attempt import finished_steps
from tempura.workspace.change import write_change
from tempura.workspace.damage import unreadable
from tempura.workspace.runfile import Columns, now

Told = Callable[[str], None]
"""Is told what happens, in one line."""
Output = StateEntry | ResultEntry


class PointRun:
    """A run while it goes on."""

    def __init__(
        self,
        job: Job,
        workspace: Workspace,
        past: Past,
        point: int,
        spark: SparkSession | None,
        tell: Told,
        unreadable: Mapping[str, str],
    ):
        self.workspace = workspace
        self.before = past[-1] if past else None
        latest = workspace.latest()
        self.delivered: Mapping[str, ResultEntry] = latest.results if latest else {}
        """The newest result of each query; a reset forgets states, not results."""
        self.tell = tell
        self.started = now()
        self.began = time.perf_counter()
        pins = courses.pins(job, workspace, past, point)
        self.course: Course = courses.lay(job, workspace, past, point, pins, unreadable)
        for note in self.course.notes:
            tell(note)
        self.job, self.plan = planned(self.course.job, self.course.standing, lookups(self.course, self.before))
        self.planned = time.perf_counter()
        self.steps = self.plan.runs[0].steps
        prints = Fingerprints()
        self.prints = {step.name: prints.of(step.definition) for step in self.steps}
        upto = job.timeline.points[point].upto
        self.attempt: Attempt = workspace.begin(self.course.point, self.course.pins[-1], self._digest(), upto)
        courses.unmark_failed(workspace, self.attempt.number)
        self._given = spark
        self._spark: SparkSession | None = None
        self._states: States | None = None
        self._meter: Meter | None = None
        self.outputs: dict[str, Output] = {}
        self.entries: dict[str, StateEntry] = dict(self.course.entries)
        """Every state that can be read by now, under its name."""
        self.done: dict[str, StepEntry] = {}
        self.buckets = 0
        self.checks: dict[str, JsonValue] = {}
        """What checking took."""
        self.settings: Mapping[str, str] = {**(self.before.settings if self.before else {}), **self._settings_begun()}
        """What a query's meaning depends on in the session, as it was and, once there is a session, is."""
        self.lost = {f for name in unreadable if past for f in past[-1].states[name].folders}
        """Folders that cannot be read."""

    def _digest(self) -> str:
        """Equal for two plans of this point that do the same."""
        said = [[s.name, s.kind, self.prints[s.name], list(s.partition), s.sql] for s in self.steps]
        return hashlib.sha256(json.dumps(said).encode()).hexdigest()

    def carried_out(self) -> RunReport:
        if self.attempt.resumed:
            self.tell(f"going on with the run at {self.course.point} that was begun {self.attempt.begun.started}")
        todo = [step for step in self.steps if not self._found(step)]
        steps_from = time.perf_counter()
        with driver():
            self._check()
            if todo:
                self._prepare()
                with self._open_states():
                    run_steps(todo, self._work, progress=lambda s, what: self.tell(f"{what} {s.kind} {s.name}"))
        steps_to = time.perf_counter()
        stored, notes = self._committed()
        ended = time.perf_counter()
        seconds = {
            "planning": self.planned - self.began,
            "steps": steps_to - steps_from,
            "rest": ended - self.planned - (steps_to - steps_from),
        }
        return RunReport(
            self.course.point,
            "done",
            self.plan,
            stored,
            (*self.course.notes, *notes),
            seconds,
            self.workspace,
            self._spark or self._given,
            self.course,
        )

    # What is there already.

    def _found(self, step: Step) -> bool:
        """Whether the step needs no job: an earlier attempt finished it, or nothing has changed since the result was delivered."""
        finished = self.attempt.done(step.name)
        if finished is not None:
            self._take(step, finished.step, finished.output)
            self.tell(f"found {step.kind} {step.name}")
            return True
        if step.kind != "result" or self.job.policy == "full":
            return False
        query = _query(step)
        before = self.delivered.get(query)
        same = [e for e in self.course.entries.values() if e.fingerprint == self.prints[step.name]]
        if before is None or before.order != _order(step) or not any(e.folders == (before.folder,) for e in same):
            return False
        entry = StepEntry(step.name, step.kind, step.view, step.sql, _estimated(step), reused=True)
        delivered = replace(before, point=self.course.point, delta_folder=None)
        self._take(step, entry, delivered)
        self.tell(f"nothing new for {query}: it stays as it was delivered at {before.point}")
        return True

    def _take(self, step: Step, entry: StepEntry, output: Output) -> None:
        """Remember what a step wrote; a result can be read as a state, too."""
        self.done[step.name] = entry
        self.outputs[step.name] = output
        if isinstance(output, StateEntry):
            self.entries[step.name] = output
        else:
            state = as_state(output, step.name, step.view, self.prints[step.name])
            self.entries[step.name] = replace(state, points=points(step.definition))

    def unreadable(self) -> dict[str, str]:
        """The states that steps were to read and that have other bytes than were written."""
        wanted = {name for step in self.steps for name in step.reads}
        old = [e for e in self.course.entries.values() if e.name in wanted or e.folders[0].startswith("results/")]
        return unreadable(self.workspace.storage, old)

    # Computing.

    def _check(self) -> None:
        """Check what arrived, unless an earlier attempt has."""
        place = f"{layout.pending(self.attempt.number)}/checks.json"
        noted = _remembered(self.workspace.storage.read(place))
        if noted.get("checked") == checked(self.job):
            self.checks = noted["measured"]
            return
        todo = due(self.job, self.before, self.course.pins[-1])
        if not todo:
            return
        self.tell(f"checking {', '.join(check.table for check in todo)}")
        self._open()
        assert self._spark is not None and self._meter is not None
        fault("before the checks")
        with self._meter.span() as span, explained("the checks", "correct the rows that Spark cannot read"):
            carry_out(self._spark, todo)
        fault("after the checks")
        self._confirm(check.table for check in todo)
        self.checks = asdict(span.measured())
        self.workspace.storage.replace(
            place, json.dumps({"checked": checked(self.job), "measured": self.checks}).encode()
        )

    def _open(self) -> None:
        if self._spark is None:
            if self._given is None:
                self.tell("started Spark")
            self._spark = session(self._given)
            self.settings = meaning(self._spark, self.settings)
            # Steps that are done now may be found by an attempt in another session.
            self.workspace.storage.replace(self._settings_file, json.dumps(self.settings).encode())
            if self._given is None:
                self.tell("done Spark")
            self._meter = Meter(self._spark)

    @property
    def _settings_file(self) -> str:
        return f"{layout.pending(self.attempt.number)}/settings.json"

    def _settings_begun(self) -> dict[str, str]:
        """The settings under which an earlier attempt at the run did steps; where it did none, others may be tried."""
        done = self.attempt.resumed and finished_steps(self.workspace.storage, self.attempt.begun)
        told = self.workspace.storage.read(self._settings_file) if done else None
        return _remembered(told)

    def _prepare(self) -> None:
        self._open()
        assert self._spark is not None
        known = [e.buckets for e in self.course.entries.values() if e.buckets]
        largest = max((s.bytes for s in self.plan.states if s.partition), default=0.0)
        self.buckets = known[0] if known else buckets(self._spark, largest)
        wanted = {name for step in self.steps for name in step.reads}
        self._readings = self.course.readings(wanted)

    def _open_states(self) -> States:
        assert self._spark is not None
        self._states = States(self._spark)
        return self._states

    def _work(self, step: Step) -> None:
        """Compute a step, write it, and note that it is done."""
        assert self._spark is not None and self._states is not None and self._meter is not None
        where = (
            self.attempt.folder_for_state(step.name)
            if step.kind == "state"
            else self.attempt.folder_for_result(_query(step))
        )
        fault(f"before {step.name}")
        with self._meter.span() as span, explained(step.name, "`tempura plan --sql` shows its SQL"):
            gathered = gather(step, self.entries)
            rows = frame(self._spark, gathered.step, {n: self._frame(gathered, n) for n in gathered.step.reads})
            written = self._states.write(
                rows,
                self.workspace.storage.uri(where),
                bytes=step.bytes,
                partition=step.partition,
                buckets=self.buckets if step.partition else 0,
                ordered=step.ordered,
                order=order_left(step) if step.kind == "result" else (),
            )
        fault(f"after {step.name}")
        # What is noted as done is not done again, also if what was pinned is there again by then.
        self._confirm(name.rpartition("@")[0] for name in step.reads)
        entry = StepEntry(
            step.name, step.kind, step.view, step.sql, _estimated(step), asdict(span.measured(written.rows))
        )
        columns = tuple((c.name, c.type, c.nullable) for c in written.columns)
        finished = self.attempt.record(entry, self._output(step, where, columns, written.rows))
        self._take(step, finished.step, finished.output)

    def _confirm(self, tables: Iterable[str]) -> None:
        """Those of these names that are tables are still as they were pinned, so that this is what was read of them."""
        pins, read = self.course.pins[-1], {table.lower() for table in tables}
        courses.check(self.job, {table: version for table, version in pins.items() if table in read})

    def _output(self, step: Step, where: str, columns: Columns, rows: int) -> Output:
        if step.kind == "state":
            return StateEntry(
                name=step.name,
                view=step.view,
                fingerprint=self.prints[step.name],
                folders=(where,),
                schema=columns,
                weighted=step.weighted,
                written_run=self.attempt.number,
                written_at_point=self.course.point,
                partition=step.partition,
                buckets=self.buckets if step.partition else 0,
                ordered=step.ordered,
                rows=rows,
                points=points(step.definition),
            )
        query = _query(step)
        return ResultEntry(
            query=query,
            folder=where,
            schema=columns,
            run=self.attempt.number,
            point=self.course.point,
            delta_folder=self._delta(query, where, columns),
            order=_order(step),
            rows=rows,
        )

    def _delta(self, query: str, where: str, columns: Columns) -> str | None:
        """Write how the result differs from its last delivery; the folder, or None if it is the first or that cannot be told."""
        before = self.delivered.get(query)
        if before is None or tuple(before.schema) != columns or not all(orderable(kind) for _, kind, _ in columns):
            return None
        if self.workspace.check_result(replace(before, delta_folder=None)) or before.folder in self.lost:
            self.tell(f"what was delivered of {query} before is damaged, so that its change cannot be told")
            return None
        folder = self.attempt.folder_for_delta(query)
        fault(f"before the delta of {query}")
        if not write_change(self.workspace.storage, where, before.folder, columns, folder):
            self._delta_by_job(query, where, before.folder, columns, folder)
        fault(f"after the delta of {query}")
        return folder

    def _delta_by_job(self, query: str, where: str, before: str, columns: Columns, folder: str) -> None:
        assert self._states is not None
        uri = self.workspace.storage.uri
        new, old = (self._states.read([uri(f)], schema_of(columns)) for f in (where, before))
        weight = F.lit(1).cast("bigint")
        both = new.withColumn(WEIGHT, weight).unionAll(old.withColumn(WEIGHT, -weight))
        names = [F.col(quoted(name)) for name, _, _ in columns]
        difference = both.groupBy(*names).agg(F.sum(WEIGHT).alias(WEIGHT)).where(f"{WEIGHT} <> 0")
        with explained(f"the delta of {query}"):
            self._states.write(difference, uri(folder))

    def _frame(self, gathered: Gathered, name: str) -> DataFrame:
        """What a name in a step's SQL stands for."""
        assert self._spark is not None and self._states is not None
        entry = gathered.entries.get(name) or self.entries.get(name)
        if entry is not None:
            folders = [self.workspace.storage.uri(f) for f in entry.folders]
            return self._states.read(
                folders,
                schema_of(entry.schema),
                partition=entry.partition,
                buckets=entry.buckets,
                ordered=entry.ordered,
            )
        reading = self._readings[name]
        weighted = any(isinstance(op, Read) and op.name == name and op.weighted for op in gathered.step.tree.walk())
        if weighted and reading.weighted:
            return read(self._spark, reading)
        tree = gathered.step.tree
        settled = any(may_fail_in(op) for op in tree.walk())
        rows = read_rows(self._spark, reading, name, _columns_read(tree, name), settled)
        return rows.withColumn(WEIGHT, F.lit(1).cast("bigint")) if weighted else rows

    # Committing.

    def _committed(self) -> tuple[RunFile, tuple[str, ...]]:
        """The run file as it is stored, and what went wrong after it was: the next run makes up for that."""
        try:
            stored = self.attempt.commit(self._run_file())
        except WorkspaceError as error:
            latest = None if isinstance(error, LockedError) else self.workspace.latest()
            if latest is None or not self.attempt.is_of(latest):
                raise
            return latest, (self._noted(error),)
        try:
            self.workspace.collect()
        except WorkspaceError as error:
            return stored, (self._noted(error),)
        return stored, ()

    def _noted(self, error: WorkspaceError) -> str:
        note = f"the run is committed, but not all was done after it: {error.message}"
        self.tell(note)
        return note

    def _run_file(self) -> RunFile:
        later = {p.name for p in self.job.timeline.points[self.course.at + 1 :]}
        states: dict[str, StateEntry] = {}
        for state in self.plan.states:
            still = tuple(p for p in state.read_at if p in later)
            if still and state.name in self.entries:
                states[state.name] = replace(self.entries[state.name], read_at=still)
        results = dict(self.delivered)
        for step in self.steps:
            output = self.outputs[step.name]
            if isinstance(output, ResultEntry):
                results[output.query] = output
                # The newest result stays readable, so that a run with nothing new can tell.
                states.setdefault(step.name, self.entries[step.name])
        held = {e.folders for e in states.values()}
        for entry in self.course.entries.values():
            if any(entry.folders == (r.folder,) for r in results.values()) and entry.folders not in held:
                states[entry.name] = entry
        return RunFile(
            job=self.job.name,
            job_digest=hashlib.sha256(json.dumps(courses.summary(self.job)).encode()).hexdigest(),
            number=self.attempt.number,
            point=self.course.point,
            started=self.attempt.begun.started,
            finished=now(),
            pins=dict(self.course.pins[-1]),
            states=states,
            results=results,
            steps=tuple(self.done[s.name] for s in self.steps),
            plan={
                "cost": dict(self.plan.cost.by_point),
                "work": dict(self.plan.cost.work),
                "total": self.plan.cost.total,
                "notes": [*self.plan.notes, *self.course.notes],
                "checked": checked(self.job),
                "queries": courses.query_digests(self.job),
            },
            measured=totals(self.done.values()) | ({"checks": self.checks} if self.checks else {}),
            settings=self.settings,
        )


def _remembered(content: bytes | None) -> dict[str, Any]:
    """What an earlier attempt noted; nothing, if the machine crashed before it was on the disk."""
    try:
        found: object = json.loads(content or b"{}")
    except ValueError:
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _estimated(step: Step) -> dict[str, float | int | None]:
    return {"rows": step.rows, "bytes": step.bytes, "cost": step.cost}


def _columns_read(tree: Op, name: str) -> frozenset[str] | None:
    """The columns of a relation that a tree uses, if it projects to them wherever it reads it; else None."""
    above = [op for op in tree.walk() if any(isinstance(i, Read) and i.name == name for i in op.inputs)]
    if not above or not all(isinstance(op, Project) for op in above):
        return None
    return frozenset(c for op in above if isinstance(op, Project) for o in op.outputs for c in o.expr.columns)


def _order(step: Step) -> tuple[str, ...]:
    return tuple(str(key) for key in step.order)


def _query(step: Step) -> str:
    """The query whose result a step is: its name stands before the point's."""
    return step.name.rpartition("@")[0]
