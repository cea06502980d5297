"""A run file says what one run read, wrote, cost and left: the newest one is the workspace.

It is JSON with a format number and a digest of all the rest, so that a file made by a newer version, cut short or edited by hand is refused instead of
being believed. An older format is brought up to date step by step by `MIGRATIONS`, or refused.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Literal, cast

from pydantic import ConfigDict, JsonValue, TypeAdapter, ValidationError
from pydantic_core import to_json

from tempura.errors import WorkspaceError

FORMAT = 3
"""The format of run files and workspaces that this version writes."""
RESET = "reset"
"""The point of a run file that forgets all states."""

Document = dict[str, Any]


def _without_lineage(document: Document) -> Document:
    """Format 3 has the points of states (format 2 mostly did), and of the runs behind; and not, for each state once more, what the whole run was pinned to."""
    states = {
        name: {key: value for key, value in entry.items() if key != "lineage"} | {"points": entry.get("points") or None}
        for name, entry in document["states"].items()
    }
    return document | {"version": 3, "states": states, "behind": None}


MIGRATIONS: dict[int, Callable[[Document], Document]] = {1: _without_lineage, 2: _without_lineage}
"""For each older format that can be read, the function that turns a document of it into one of the next."""

Version = Mapping[str, JsonValue]
"""What a source says it held at some time; nobody else looks inside."""
Numbers = Mapping[str, float | int | None]
Columns = tuple[tuple[str, str, bool], ...]
"""Name, Spark SQL type and nullability of each column."""
Checksum = Mapping[str, Mapping[str, int]]
"""For each folder the bytes of each of its files, by which one that is missing, cut short or foreign is noticed."""


class NewerError(WorkspaceError):
    """A file was made by a newer version than this one, which had better leave it alone."""


STRICT = ConfigDict(strict=True, extra="forbid")


@dataclass(frozen=True)
class StateEntry:
    """A state that later runs can read."""

    __pydantic_config__ = STRICT

    name: str
    view: str
    fingerprint: str
    """Equal for two states only if they hold the same view of the same versions."""
    folders: tuple[str, ...]
    """The base, then deltas to be added to it."""
    schema: Columns
    weighted: bool
    written_run: int
    written_at_point: str
    partition: tuple[str, ...] = ()
    buckets: int = 0
    ordered: bool = True
    """Whether each bucket is sorted by the columns of `partition`."""
    rows: int | None = None
    bytes: int | None = None
    read_at: tuple[str, ...] = ()
    """The points that are still to read it."""
    points: tuple[str, ...] | None = None
    """The points at which the versions of tables came that it is a view of; None in files that do not tell."""
    checksum: Checksum = field(default_factory=dict[str, Mapping[str, int]])


@dataclass(frozen=True)
class ResultEntry:
    """A delivered result: what the query gave at a point, and how that differs from the delivery before."""

    __pydantic_config__ = STRICT

    query: str
    folder: str
    schema: Columns
    run: int
    point: str
    delta_folder: str | None = None
    order: tuple[str, ...] = ()
    rows: int | None = None
    bytes: int | None = None
    checksum: Checksum = field(default_factory=dict[str, Mapping[str, int]])

    @property
    def folders(self) -> tuple[str, ...]:
        """The folders that hold it."""
        return (self.folder, *([self.delta_folder] if self.delta_folder else ()))


@dataclass(frozen=True)
class StepEntry:
    """A step that was carried out, what it was expected to cost and what it cost."""

    __pydantic_config__ = STRICT

    name: str
    kind: Literal["state", "result"]
    view: str
    sql: str
    estimated: Numbers = field(default_factory=dict[str, float | int | None])
    measured: Numbers | None = None
    reused: bool = False
    """Whether an earlier attempt had finished it."""


@dataclass(frozen=True)
class RunFile:
    """One committed run, and all that can be read after it."""

    __pydantic_config__ = STRICT

    job: str
    job_digest: str
    number: int
    point: str
    started: str
    finished: str
    pins: Mapping[str, Version]
    """The version of each table that was read."""
    states: Mapping[str, StateEntry]
    """All states that can be read after this run, those of earlier runs too."""
    results: Mapping[str, ResultEntry]
    """The newest result of each query, be it of this run or of an earlier one."""
    steps: tuple[StepEntry, ...] = ()
    plan: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    measured: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    """Settings of the Spark session that the meaning of states and results depends on."""
    previous: int | None = None
    origin: int = 1
    """The first run of this history: 1, or the newest reset."""
    behind: tuple[str, ...] | None = None
    """The points of the runs of this history before it, oldest first, without the reset; None in files that do not tell."""
    version: int = FORMAT
    digest: str = ""
    """SHA-256 of the rest, filled in when the file is written."""

    @property
    def delivered(self) -> tuple[ResultEntry, ...]:
        """The results that were due at its point: new ones, and those that stay as they were delivered before."""
        due = {step.name.rpartition("@")[0] for step in self.steps if step.kind == "result"}
        return tuple(entry for query, entry in self.results.items() if query in due)


_RUN_FILE = TypeAdapter(RunFile)


def write(run: RunFile) -> bytes:
    """The text of a run file, with its digest."""
    document = cast("Document", _RUN_FILE.dump_python(run, mode="json"))
    document["digest"] = digest(document)
    return pretty(document)


def pretty(document: Any) -> bytes:
    """A document as JSON that can be read, and compared line by line: Python's own is many times slower with line breaks than without."""
    return to_json(document, indent=1)


@lru_cache(maxsize=4)  # One command asks for the newest run again and again; what has the same bytes says the same.
def read(content: bytes, name: str) -> RunFile:
    """The run file with this text; `name` is for messages."""
    try:
        document = cast("Document", json.loads(content))
        version, signed = int(document["version"]), str(document["digest"])
    except (ValueError, TypeError, KeyError):
        raise _damaged(name, "it is not the JSON of a run file") from None
    if version > FORMAT:
        raise newer(name, version)
    if signed != digest(document):
        raise _damaged(name, "its digest does not fit its content, so it was cut short or edited by hand")
    try:
        return _RUN_FILE.validate_json(content if version == FORMAT else json.dumps(migrate(document, name)))
    except ValidationError as error:
        where = ".".join(map(str, error.errors()[0]["loc"]))
        raise _damaged(name, f"`{where}`: {error.errors()[0]['msg']}") from None


def migrate(document: Document, name: str) -> Document:
    """A document of an older format, brought to the present one."""
    while (version := int(document["version"])) < FORMAT:
        if version not in MIGRATIONS:
            raise WorkspaceError(
                f"{name} has format {version}, which this version of tempura (format {FORMAT}) no longer reads",
                hint="run `tempura reset` to start afresh, keeping the results",
            )
        document = MIGRATIONS[version](document)
    return document


def digest(document: Mapping[str, Any]) -> str:
    """SHA-256 of a document without its own digest, whatever the order of its keys."""
    rest = {key: value for key, value in document.items() if key != "digest"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def newer(name: str, version: int) -> NewerError:
    """The error for a file that this version is too old for."""
    return NewerError(
        f"{name} was made by a newer tempura: it has format {version}, and this version reads up to {FORMAT}",
        hint="upgrade tempura, or give the job another workspace",
    )


def now() -> str:
    """This moment, as run files write it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _damaged(name: str, why: str) -> WorkspaceError:
    return WorkspaceError(
        f"the run file {name} is damaged: {why}",
        hint="restore it from a backup, or run `tempura reset` to start afresh, keeping the results",
    )
