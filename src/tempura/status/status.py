"""What the workspace of a job says: which points are done and due, what is kept and for whom, what it cost, who is at work.

Nothing is changed by looking, but that what a killed run had committed is published; and no engine is needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from pydantic import JsonValue

from tempura.job import Job
from tempura.workspace import RunFile, StateEntry, Storage, Workspace, layout
from tempura.workspace.attempt import finished_steps
from tempura.workspace.pointers import latest as latest_place
from tempura.workspace.runfile import Numbers


@dataclass(frozen=True)
class PointStatus:
    """A point of the timeline, and the run at it if there was one."""

    name: str
    price: float
    delivers: tuple[str, ...]
    status: Literal["done", "passed over", "next", "due"]
    """`passed over`: a later point was run first, and took what had arrived by then."""
    run: int | None = None
    finished: str | None = None
    estimated: float | None = None
    """The work of its steps, in core-seconds."""
    measured: Numbers | None = None
    """What its steps took."""


@dataclass(frozen=True)
class StateStatus:
    """A state that later runs can read."""

    name: str
    view: str
    written_at: str
    age_seconds: float | None
    rows: int | None
    bytes: int | None
    read_at: tuple[str, ...]
    distributed_by: tuple[str, ...]
    damage: tuple[str, ...]
    """What is missing or wrong; then it is computed again."""


@dataclass(frozen=True)
class ResultStatus:
    """The newest result of a query."""

    query: str
    point: str
    run: int
    rows: int | None
    bytes: int | None
    place: str
    latest: str
    """A name that stays, for whoever reads the newest."""


@dataclass(frozen=True)
class PendingStatus:
    """A run that was begun and is not committed."""

    point: str
    started: str
    steps_done: tuple[str, ...]


@dataclass(frozen=True)
class Status:
    """Where a job stands."""

    job: str
    workspace: str
    points: tuple[PointStatus, ...]
    next: str | None
    states: tuple[StateStatus, ...] = ()
    results: tuple[ResultStatus, ...] = ()
    pending: PendingStatus | None = None
    holder: str | None = None
    """Who is changing the workspace now."""
    garbage_bytes: int | None = 0
    """What `tempura gc` would free; None while somebody is at work."""
    runs: tuple[RunFile, ...] = ()
    """All since the beginning or the last reset, oldest first."""


def status_of(job: Job) -> Status:
    """Where a job stands."""
    storage = Storage.at(job.workspace)
    if not storage.exists(layout.WORKSPACE):
        return Status(job.name, storage.uri(), *_points(job, ()))
    workspace = Workspace.open(storage, job.name)
    runs = tuple(workspace.past())
    latest = workspace.latest()
    holder = workspace.holder()
    delivered = {r.folder for r in latest.results.values()} if latest else set[str]()
    kept = [e for e in latest.states.values() if not delivered.issuperset(e.folders)] if latest else []
    return Status(
        job.name,
        storage.uri(),
        *_points(job, runs),
        states=tuple(_state(workspace, e, {r.number: r for r in runs}) for e in kept),
        results=_results(storage, latest),
        pending=_pending(workspace),
        holder=str(holder) if holder else None,
        garbage_bytes=None if holder else sum(storage.size_of(path).bytes for path in workspace.garbage()),
        runs=runs,
    )


def _points(job: Job, runs: tuple[RunFile, ...]) -> tuple[tuple[PointStatus, ...], str | None]:
    """The points, and which of them is next."""
    points = job.timeline.points
    done = {run.point: run for run in runs}
    last = max((i for i, p in enumerate(points) if p.name in done), default=-1)
    found: list[PointStatus] = []
    for i, point in enumerate(points):
        run = done.get(point.name)
        status = "done" if run else "passed over" if i < last else "next" if i == last + 1 else "due"
        if run is None:
            found.append(PointStatus(point.name, point.price, point.deliver, status))
        else:
            numbers = (point.name, point.price, point.deliver, status, run.number, run.finished)
            found.append(PointStatus(*numbers, estimated=estimated_work(run), measured=measured(run)))
    return tuple(found), points[last + 1].name if last + 1 < len(points) else None


def estimated_work(run: RunFile) -> float:
    """What the steps of a run were expected to cost, in core-seconds."""
    return sum(float(step.estimated.get("cost") or 0) for step in run.steps)


def measured(run: RunFile) -> Numbers:
    """What the steps of a run took together."""
    return _numbers(run.measured)


def checking(run: RunFile) -> Numbers | None:
    """What it took to check the rows that had arrived; None if there was nothing to check."""
    found = run.measured.get("checks")
    return _numbers(found) if isinstance(found, Mapping) else None


def _numbers(values: Mapping[str, JsonValue]) -> Numbers:
    return {name: value for name, value in values.items() if value is None or isinstance(value, int | float)}


def _state(workspace: Workspace, entry: StateEntry, runs: Mapping[int, RunFile]) -> StateStatus:
    written = runs.get(entry.written_run)
    age = (datetime.now(UTC) - datetime.fromisoformat(written.finished)).total_seconds() if written else None
    return StateStatus(
        entry.name,
        entry.view,
        entry.written_at_point,
        age,
        entry.rows,
        entry.bytes,
        entry.read_at,
        entry.partition,
        workspace.check_state(entry),
    )


def _results(storage: Storage, latest: RunFile | None) -> tuple[ResultStatus, ...]:
    entries = latest.results.values() if latest else ()
    return tuple(
        ResultStatus(e.query, e.point, e.run, e.rows, e.bytes, storage.uri(e.folder), latest_place(storage, e.query))
        for e in entries
    )


def _pending(workspace: Workspace) -> PendingStatus | None:
    begun = workspace.pending()
    if begun is None:
        return None
    done = finished_steps(workspace.storage, begun)
    return PendingStatus(begun.point, begun.started, tuple(f.step.name for f in done))
