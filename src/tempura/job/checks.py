"""What must hold between the parts of a job, each of which is well formed by itself."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, cast

from tempura.catalog import Catalog, ForeignKey, Table
from tempura.job.marks import Path
from tempura.job.shapes import nearest
from tempura.schema import names
from tempura.timeline import Timeline

Problem = tuple[str, str, Path]
"""What is wrong, what to do, and where in the job file."""


def disorder(points: Sequence[str]) -> Iterator[Problem]:
    """Points whose names are times or dates but do not increase; other names mean nothing to us."""
    kinds: tuple[tuple[Callable[[str], Any], str], ...] = (
        (_time_of_day, "write dates as well, such as 2026-11-01T14:00, if the timeline passes midnight"),
        (datetime.fromisoformat, "list the points in order of time"),
    )
    for read, hint in kinds:
        try:
            times: list[Any] = [read(p) for p in points]
            late = [i for i in range(1, len(times)) if times[i] <= times[i - 1]]
        except (ValueError, TypeError):
            continue  # Not all of them are times of this kind, or only some have a zone.
        for i in late:
            yield f"times are out of order: {points[i]!r} is not after {points[i - 1]!r}", hint, ("timeline", i, "at")
        return


_CLOCK = re.compile(r"(\d\d?):(\d\d)(?::(\d\d(?:\.\d+)?))?")


def _time_of_day(text: str) -> float:
    """Seconds since midnight; a day ends at 24:00."""
    found = _CLOCK.fullmatch(text)
    hours, minutes, seconds = (float(part or 0) for part in found.groups()) if found else (math.inf, 0, 0)
    time = hours * 3600 + minutes * 60 + seconds
    if max(minutes, seconds) >= 60 or time > 86_400:
        raise ValueError(text)
    return time


def repeated(what: str, given: Iterable[str], path: Path) -> Iterator[Problem]:
    """Names that differ from another by case alone."""
    first: dict[str, str] = {}
    for name in given:
        other = first.setdefault(name.lower(), name)
        if other != name:
            said = f"the {what} {name!r} is there already, as {other!r}: in Spark SQL, case does not tell names apart"
            yield said, "give one of them another name", (*path, name)


_RESET = "reset"
"""What the history calls a reset, beside the points that were run."""


def contradictions(catalog: Catalog, timeline: Timeline, queries: Mapping[str, str]) -> Iterator[Problem]:
    """What the tables say about points that do not exist, or the timeline about queries that do not."""
    points = [p.name for p in timeline.points]
    for table in catalog.values():
        yield from _unknown_points(table, points)
        for i, foreign in enumerate(table.foreign_keys):
            yield from _foreign_key(table, foreign, catalog, ("tables", table.name, "foreign_keys", i))
    yield from _spelled_alike(points)
    due: set[str] = set()
    for i, point in enumerate(timeline.points):
        if "@" in point.name or point.name == _RESET:
            said = f"a point cannot be named {point.name!r}: `@` and `{_RESET}` have a meaning of their own"
            yield said, "give it another name", ("timeline", i)
        due.update(point.deliver)
        for query in point.deliver:
            if queries and query not in queries:
                yield (
                    f"{point.name!r} delivers {query!r}, which is no query of the job",
                    nearest(query, queries),
                    ("timeline", i, "deliver"),
                )
    yield from repeated("query", queries, ("queries",))
    tables = {table.name.lower() for table in catalog.values()}
    for query in queries:
        if query.lower() in tables or "@" in query:
            what = "contains `@`" if "@" in query else "is the name of a table, too"
            said = f"the name of the query {query!r} {what}, so that its result could not be told from others"
            yield said, "give the query another one: `queries: {name: …}`", ("queries", query)
        if query not in due:
            yield (
                f"the query {query!r} is due at no point",
                "name it in some `deliver`, or remove it",
                ("queries", query),
            )


def _spelled_alike(points: Sequence[str]) -> Iterator[Problem]:
    """Points between which a change would be called like the rows at another, or like another change: `1:2` beside `1` and `2`."""
    if not any(":" in point for point in points):
        return
    hint = "name points without `:`, or as times of day: 14:00"
    places = {point: i for i, point in enumerate(points)}
    spelled: dict[str, tuple[str, str]] = {}
    for end, later in enumerate(points):
        for earlier in points[:end]:
            change = f"{earlier}:{later}"
            told = f"the change from {earlier!r} to {later!r}"
            if change in places:
                yield f"the point {change!r} could not be told from {told}", hint, ("timeline", places[change])
            start, stop = spelled.setdefault(change, (earlier, later))
            if (start, stop) != (earlier, later):
                yield f"{told} could not be told from that from {start!r} to {stop!r}", hint, ("timeline", end)


def _unknown_points(table: Table, points: Sequence[str]) -> Iterator[Problem]:
    for part in ("arrives", "retracts"):
        for point in cast("Mapping[str, float]", getattr(table, part)):
            if point not in points:
                said = f"table {table.name!r} {part} at {point!r}, which is no point of the timeline"
                yield said, nearest(point, points), ("tables", table.name, part, point)
    if table.retracts.get(points[0], 0) > 0:
        said = f"table {table.name!r} retracts at the first point, where nothing has arrived before"
        yield said, "move it to a later point", ("tables", table.name, "retracts", points[0])


def _foreign_key(table: Table, foreign: ForeignKey, catalog: Catalog, path: Path) -> Iterator[Problem]:
    if foreign.table not in catalog:
        said = f"table {table.name!r}: a foreign key refers to {foreign.table!r}, which is no table of the job"
        yield said, nearest(foreign.table, catalog), (*path, "table")
        return
    if len(foreign.columns) != len(foreign.to):
        yield "a foreign key has different numbers of columns on its two sides", "list them pairwise", path
    for side, owner, columns in (("columns", table, foreign.columns), ("to", catalog[foreign.table], foreign.to)):
        for c in columns:
            if c not in names(owner.columns):
                yield f"table {owner.name!r} has no column {c!r}", nearest(c, names(owner.columns)), (*path, side)
