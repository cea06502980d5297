"""The course of a job: which points have been run and on which versions of its tables, and what the next run starts from.

Every run plans anew for the points that are left. It knows what has arrived by now, exactly; which states are there, from the newest run file; and what is still to
come, as far as the job says. A point at which nothing was run is left out of the timeline: what arrived there belongs to the next point that is run.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import JsonValue

from tempura.algebra.physical import delta_name, snapshot_name
from tempura.catalog import Catalog, ColumnStatistics, Table
from tempura.errors import JobError, SourceError
from tempura.job import Job
from tempura.sources import Change, Reading, Source, Version
from tempura.sources.expected import completed, without_key
from tempura.standing import Kept, Standing
from tempura.timeline import Point, Timeline
from tempura.workspace import Past, RunFile, StateEntry, Workspace, layout

Pins = Mapping[str, Version]
"""The version of each table."""


@dataclass(frozen=True)
class Course:
    """A job at the point that is to be run next."""

    job: Job
    """Without the points that nothing was run at, and with the numbers of rows that really came."""
    at: int
    """Which of its points that is."""
    pins: tuple[Pins, ...]
    """For each point up to this one."""
    standing: Standing
    entries: Mapping[str, StateEntry]
    """What is known of each state that is there."""
    notes: tuple[str, ...] = ()

    @property
    def point(self) -> str:
        return self.job.timeline.points[self.at].name

    def readings(self, wanted: Iterable[str]) -> dict[str, Reading]:
        """What the names of base relations (`sales@t1`, `sales@t1:t2`) stand for, of those wanted."""
        names = [p.name for p in self.job.timeline.points[: self.at + 1]]
        wanted = set(wanted)
        found: dict[str, Reading] = {}
        for table in self.job.catalog.values():
            source = source_of(self.job, table.name)
            versions = [pins[table.name.lower()] for pins in self.pins]
            versions = _alike(versions) if source.counts_exactly else versions
            for end, version in enumerate(versions):
                if (name := snapshot_name(table.name, names[end])) in wanted:
                    found[name] = source.snapshot(version)
                for start in range(end):
                    if (name := delta_name(table.name, names[start], names[end])) in wanted:
                        found[name] = source.delta(versions[start], version)
        return found


def _alike(versions: Sequence[Version]) -> list[Version]:
    """For each version the newest with the same rows: files of older ones may be gone, though nothing came or went."""
    newest = {json.dumps(version[_CAME], sort_keys=True): version for version in versions if _CAME in version}
    return [newest.get(json.dumps(version.get(_CAME), sort_keys=True), version) for version in versions]


def source_of(job: Job, table: str) -> Source:
    """Where a table's rows come from."""
    source = job.sources.get(table.lower())
    if source is None:
        raise JobError(
            f"table {table!r} has no source, so its rows cannot be read",
            hint="add `source: {kind: files, path: …}` to the table in the job file",
        )
    return source


def next_point(job: Job, past: Past, at: str | None) -> int | None:
    """The point to run: `at`, or the first one after the last that was run; None if that has been done already."""
    names = [p.name for p in job.timeline.points]
    done = past.points
    last = max((names.index(p) for p in done if p in names), default=-1)
    if at is None:
        return last + 1 if last + 1 < len(names) else None
    wanted = job.timeline.index(at)
    if at in done:
        return None
    if wanted < last:
        raise JobError(
            f"the point {at!r} is in the past: {names[last]!r} has been run already",
            hint=f"the next point is {names[last + 1]!r}"
            if last + 1 < len(names)
            else "all points are done: add others to the timeline to go on",
        )
    due = [p.name for p in job.timeline.points if p.deliver]
    if not any(name in done or names.index(name) >= wanted for name in due):
        raise JobError(
            f"nothing is due at {at!r} or later, so there is nothing to run",
            hint=f"run {due[-1]!r}, the last point at which a result is due",
        )
    return wanted


def pin(job: Job, since: Pins, point: int) -> dict[str, Version]:
    """What the sources hold now."""
    upto = job.timeline.points[point].upto
    return {name: _pinned(source_of(job, name), since.get(name), upto) for name in job.catalog}


_READ_AS = "read_as"
"""Where a version notes how the source was read."""
_CAME = "came"
"""Where a version notes how many rows have come and gone since the first one: of versions long past a source may not be able to tell any more."""


def _pinned(source: Source, since: Version | None, upto: str | None) -> Version:
    """What a source holds now, if it is still read as it was: states of what was read before would not go together with what is new."""
    before: Mapping[str, str] = (since or {}).get(_READ_AS) or source.read_as()
    now = source.read_as()
    version: Version = source.pin(since, upto) if before["kind"] == now["kind"] else {}
    for name in ("kind", *sorted(before.keys() | now.keys())):
        if not _means_the_same(name, before.get(name), now.get(name), now):
            raise source.error(
                f"`{name}` was {before.get(name, 'not there')} when it was read before, and is {now.get(name, 'not there')} now",
                "change it back, or forget the states and start again (`tempura reset`)",
            )
    step, so_far = source.change(since, version), _came(source, since)
    total = {"inserted": so_far.inserted + step.inserted, "deleted": so_far.deleted + step.deleted}
    return {**version, _READ_AS: now, _CAME: total}


def _came(source: Source, version: Version | None) -> Change:
    """The rows that came and went until a version, as it notes, or, if it does not, as the source can tell."""
    if version is None:
        return Change(0.0, 0.0)
    return Change(**version[_CAME]) if _CAME in version else source.change(None, version)


def _means_the_same(name: str, before: str | None, now: str | None, reading: Mapping[str, str]) -> bool:
    """Whether what decides how a source is read is as it was. Only in JSON does case tell names apart; where they were written without it, they mean what they meant."""
    if name == "columns" and reading.get("format") != "json" and before and now:
        return before.lower().replace("`", "") == now.lower().replace("`", "")
    return before == now


def check(job: Job, pins: Pins) -> None:
    """Raise an error if what was pinned is not there any more as it was."""
    for name, version in pins.items():
        source_of(job, name).check(version)


def pins(job: Job, workspace: Workspace, past: Past, point: int) -> Pins:
    """The versions that a killed attempt at the point had pinned, if they can still be had, or those that are there now.

    An attempt that failed has pinned what may have made it fail, so that the next one looks again.
    """
    since: Pins = {}
    for run in reversed(past):
        since = {**run.pins, **since}
        if set(job.catalog) <= set(since):
            break
    begun = workspace.pending()
    if (
        begun is None
        or (begun.point, begun.upto) != (job.timeline.points[point].name, job.timeline.points[point].upto)
        or set(begun.pins) != set(job.catalog)
        or workspace.storage.exists(_failed(begun.number))
    ):
        return pin(job, since, point)
    try:
        pin(job, begun.pins, point)
        for name, version in begun.pins.items():
            source_of(job, name).snapshot(version)
    except SourceError:
        return pin(job, since, point)
    return begun.pins


def mark_failed(workspace: Workspace, run: int) -> None:
    """Note that the attempt at a run failed, and was not killed."""
    workspace.storage.replace(_failed(run), b"")


def unmark_failed(workspace: Workspace, run: int) -> None:
    """The run is attempted again."""
    workspace.storage.delete(_failed(run))


def _failed(run: int) -> str:
    return f"{layout.pending(run)}/failed"


def lay(
    job: Job,
    workspace: Workspace,
    past: Past,
    point: int,
    pins: Pins,
    unreadable: Mapping[str, str] = {},
) -> Course:
    """The course at a point, with the versions that the tables have there; states that turned out to be unreadable are left out."""
    entries, notes = _whole(workspace, past[-1].states if past else {}, unreadable)
    told = _told(job, past, point, entries.values())
    known = {p.name: p for p in job.timeline.points}
    behind = (known.get(r.point, Point(r.point)) for r in told)
    timeline = Timeline((*behind, *job.timeline.points[point:]))
    at = len(told)
    all_pins = (*(r.pins for r in told), pins)
    tables = [
        _counted(t, source_of(job, t.name), timeline, [p[t.name.lower()] for p in all_pins])
        for t in job.catalog.values()
    ]
    course_job = replace(job, timeline=timeline, catalog=Catalog(*tables))
    standing = Standing(at, tuple(_kept(entry) for entry in entries.values()))
    return Course(course_job, at, all_pins, standing, entries, notes)


def _told(job: Job, past: Past, point: int, entries: Collection[StateEntry]) -> list[RunFile]:
    """The runs behind, also at points that the job has no longer, that a plan has to know: the last, and those with the versions of which the states are views.

    So a plan is as quick to make after a thousand runs as after a few.
    """
    ahead = {p.name for p in job.timeline.points[point:]}
    behind = [i for i, name in enumerate(past.points) if name not in ahead]

    def tells(run: int) -> bool:
        """Of a table that the job had not got then, a run cannot tell the version."""
        return set(job.catalog) <= set(past[run].pins)

    if any(p.deliver for p in job.timeline.points[point:]):
        needed = {p for entry in entries for p in entry.points or ()}
        untold = [entry for entry in entries if entry.points is None]
        if untold:
            # Those who wrote what does not tell knew the points of the job.
            needed |= {p.name for p in job.timeline.points} | {entry.written_at_point for entry in untold}
        last = next(filter(tells, reversed(behind)), None)
        behind = [i for i in behind if past.points[i] in needed or i == last]
    return [past[i] for i in behind if tells(i)]


def _whole(
    workspace: Workspace, states: Mapping[str, StateEntry], unreadable: Mapping[str, str]
) -> tuple[dict[str, StateEntry], tuple[str, ...]]:
    """The states that can be read, and what is wrong with the others."""
    whole: dict[str, StateEntry] = {}
    notes: list[str] = []
    for name, entry in states.items():
        damage = workspace.check_state(entry) or ((unreadable[name],) if name in unreadable else ())
        if damage:
            notes.append(
                f"the state {name} is damaged, and is not used but computed again if need be: {'; '.join(damage)}"
            )
        else:
            whole[name] = entry
    return whole, tuple(notes)


def _kept(entry: StateEntry) -> Kept:
    return Kept(
        entry.name,
        entry.view,
        entry.fingerprint,
        entry.weighted,
        entry.written_at_point,
        entry.partition,
        float(entry.rows or 0),
        float(entry.bytes or 0),
        result=entry.folders[0].startswith("results/"),
    )


def _counted(table: Table, source: Source, timeline: Timeline, versions: Sequence[Version]) -> Table:
    """The table with the rows that really came at the points behind, and what its source knows of its columns."""
    seen = {c.name.lower() for c in source.visible(versions[-1])}
    if seen and not all(c.name.lower() in seen for c in table.columns):
        # Columns that came later and are to be ignored.
        statistics = {c: s for c, s in table.statistics.items() if c.lower() in seen}
        table = replace(table, columns=tuple(c for c in table.columns if c.name.lower() in seen), statistics=statistics)
    known = source.statistics(versions[-1])
    if known.rows is None:
        # The source cannot tell; what the job declares is all there is to go by.
        rows = max(1.0, sum(table.arrives.values()))  # None at all would be more than a guess: it would not be read.
        return replace(table, arrives={timeline.points[0].name: rows}, retracts={})
    arrives: dict[str, float] = dict(table.arrives)
    retracts: dict[str, float] = dict(table.retracts)
    held = cancelled = 0.0
    for i, version in enumerate(versions):
        name = timeline.points[i].name
        change = _change(source, versions[i - 1] if i else None, version)
        # What is taken back may have come in the same step.
        taken = min(change.deleted, held)
        came_and_went = change.deleted - taken
        retracts.pop(name, None)
        if taken:
            retracts[name] = taken / held
        arrives[name] = max(change.inserted - came_and_went, 0.0)
        if not arrives[name] and not taken and change.inserted:
            arrives[name] = 1.0  # A source that counts roughly may mean another row.
        cancelled += came_and_went
        held = max(held + change.inserted - change.deleted, 0.0)
    names = {p.name for p in timeline.points}
    return replace(
        table,
        arrives={n: rows for n, rows in arrives.items() if n in names},
        retracts={n: share for n, share in retracts.items() if n in names},
        statistics=completed(table, _usable(table), known.columns),
        cancelled=cancelled,
    )


def _change(source: Source, since: Version | None, version: Version) -> Change:
    """The rows that came and went from one version to another, as noted, or else as the source can tell."""
    if _CAME not in version or (since is not None and _CAME not in since):
        return source.change(since, version)
    now, before = _came(source, version), _came(source, since)
    return Change(now.inserted - before.inserted, now.deleted - before.deleted)


def _usable(table: Table) -> dict[str, ColumnStatistics]:
    """What was declared, but for the number of distinct keys: that is the number of rows."""
    return {c: without_key(s, c in table.key) for c, s in table.statistics.items()}


def query_digests(job: Job) -> dict[str, JsonValue]:
    """What a run file says of the queries, by which one that has changed is noticed."""
    return {name: hashlib.sha256(text.encode()).hexdigest() for name, text in job.queries.items()}


def summary(job: Job) -> dict[str, Any]:
    """What a job asks for, for the digest that tells whether it has changed."""
    return {
        "queries": dict(job.queries),
        "timeline": [[p.name, p.price, list(p.deliver)] for p in job.timeline.points],
        "methods": list(job.methods or ()),
        "policy": job.policy,
        "objective": str(job.objective),
    }
