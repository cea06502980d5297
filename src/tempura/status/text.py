"""Where a job stands, and what its runs took, as people read it: what was estimated beside what was measured."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from tempura.explain import number, size
from tempura.explain.text import NAME, Row, cut, table
from tempura.status.status import PointStatus, Status, checking, estimated_work, measured
from tempura.workspace import RunFile, StepEntry
from tempura.workspace.runfile import Numbers

UNKNOWN = "–"
NOTHING = "nothing was worth doing yet"
HEAD: tuple[Row, Row] = (
    ("", "rows", "", "bytes", "", "work", "CPU", "clock", "rows read", "bytes read", "shuffled"),
    ("", "estimated", "measured", "estimated", "written", "estimated", "measured", "", "", "", ""),
)


def status_text(status: Status) -> str:
    """The status of a job, in short: points, states, results, and what else there is to know."""
    passed = any(p.status == "passed over" for p in status.points)
    over = "the last point is done" if passed else "all points are done"
    head = f"{status.job}: " + (f"next is {status.next}" if status.next else over)
    parts = [
        [head, f"  workspace {place(status.workspace)}"],
        _points(status.points),
        _states(status),
        _results(status),
        _notes(status),
    ]
    return "\n\n".join("\n".join(line.rstrip() for line in part) for part in parts if part)


def _points(points: Iterable[PointStatus]) -> list[str]:
    rows: list[Row] = [("point", "", "price", "finished", "estimated", "CPU", "on the clock", "delivers")]
    for p in points:
        took = p.measured or {}
        rows.append(
            (
                p.name,
                p.status,
                number(p.price),
                moment(p.finished) if p.finished else "",
                "" if p.estimated is None else f"{number(p.estimated)} s",
                _seconds(took.get("cpu_seconds")) if took else "",
                _seconds(took.get("wall_seconds")) if took else "",
                ", ".join(p.delivers),
            )
        )
    return table(rows, left=(0, 1, 3, 7))


def _states(status: Status) -> list[str]:
    if not status.states:
        return ["states: none"]
    rows: list[Row] = [("", "written", "age", "rows", "bytes", "read at", "distributed by")]
    for s in status.states:
        readers = ", ".join(s.read_at)
        if s.damage:
            readers = f"damaged: {s.damage[0]}"
        by = cut(", ".join(s.distributed_by), NAME) or UNKNOWN
        rows.append((cut(s.name, NAME), s.written_at, _age(s.age_seconds), _count(s.rows), _size(s.bytes), readers, by))
    held = sum(s.bytes or 0 for s in status.states)
    return [f"states: {len(status.states)}, {size(held)}", *table(rows, left=(0, 1, 5, 6))]


def _results(status: Status) -> list[str]:
    if not status.results:
        return ["results: none yet"]
    rows: list[Row] = [("", "of", "rows", "bytes", "place")]
    rows += [(cut(r.query, NAME), r.point, _count(r.rows), _size(r.bytes), place(r.latest)) for r in status.results]
    return ["results", *table(rows, left=(0, 1, 4))]


def _notes(status: Status) -> list[str]:
    notes: list[str] = []
    if status.holder:
        notes.append(f"in use by {status.holder}")
    if status.pending:
        done = len(status.pending.steps_done)
        notes.append(
            f"the run at {status.pending.point} was begun {moment(status.pending.started)} and has finished {done} "
            f"{'step' if done == 1 else 'steps'}" + ("" if status.holder else "; `tempura run` goes on with it")
        )
    if status.garbage_bytes:
        notes.append(f"garbage: {size(status.garbage_bytes)}; `tempura gc` frees it")
    return notes


def runs_text(runs: Iterable[RunFile]) -> str:
    """Every run with its steps."""
    return "\n\n".join(run_text(run) for run in runs) or "no run yet"


def run_text(run: RunFile) -> str:
    """A run: its steps with rows, bytes and work as estimated and as measured."""
    rows = [_step(step) for step in run.steps]
    if len(rows) > 1:
        rows.append(_total(run))
    checks = checking(run)
    if checks is not None:
        rows.append(("checks of what arrived", "", "", "", "", "", *_taken(checks)))
    steps = f"{len(run.steps)} {'step' if len(run.steps) == 1 else 'steps'}"
    lines = [f"run {run.number} at {run.point}, {moment(run.finished)}: {steps if run.steps else NOTHING}"]
    if rows:
        lines += table([*HEAD, *rows])
    return "\n".join(line.rstrip() for line in lines)


def _step(step: StepEntry) -> Row:
    took = step.measured or {}
    guess = step.estimated
    found = "found" if step.reused else _count(took.get("rows"))
    return (
        f"{step.kind} {cut(step.name, NAME)}",
        _count(guess.get("rows")),
        found,
        _size(guess.get("bytes")),
        _size(took.get("bytes_written")),
        _seconds(guess.get("cost")),
        *_taken(took),
    )


def _total(run: RunFile) -> Row:
    took = measured(run)
    written = _size(took.get("bytes_written"))
    return ("together", "", "", "", written, _seconds(estimated_work(run)), *_taken(took))


def _taken(took: Numbers) -> Row:
    return (
        _seconds(took.get("cpu_seconds")),
        _seconds(took.get("wall_seconds")),
        _count(took.get("rows_read")),
        _size(took.get("bytes_read")),
        _size(took.get("shuffle_written")),
    )


def moment(text: str) -> str:
    """A moment of a run file, in local time, to the second."""
    return datetime.fromisoformat(text).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def place(uri: str) -> str:
    """A place as people write it: one on the local disk without the scheme."""
    return uri.removeprefix("file://")


def _age(seconds: float | None) -> str:
    if seconds is None:
        return UNKNOWN
    for unit, length in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"


def _seconds(value: float | None) -> str:
    return UNKNOWN if value is None else f"{number(value)} s"


def _count(value: float | None) -> str:
    return UNKNOWN if value is None else number(value)


def _size(value: float | None) -> str:
    return UNKNOWN if value is None else size(value)
