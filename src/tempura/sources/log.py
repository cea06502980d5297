"""What a file-based source remembers between pins: its version, decoded.

A version lists the files that were there, each with what tells whether it has changed and what was found inside, so that no file is opened
twice; the columns in the files; and how far rows had arrived.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, NamedTuple, cast

from tempura.sources.arrival import Stored
from tempura.sources.listing import Stamp
from tempura.sources.source import Version
from tempura.sources.summary import Summary


@dataclass(frozen=True)
class Entry:
    """A file that was opened once."""

    size: int
    mtime_ns: int
    rows: int
    """The rows it brings; in a change log, those it inserts."""
    deleted: int = 0
    """The rows it takes back."""
    least: Stored | None = None
    greatest: Stored | None = None
    """The first and the last arrival in it."""
    order: tuple[str, ...] | None = None
    """The columns of a CSV file, where they are not those of the version in their order."""

    @property
    def stamp(self) -> Stamp:
        return Stamp(self.size, self.mtime_ns)


class Slice(NamedTuple):
    """The rows of a file that arrive after the one and not after the other; None is no limit."""

    name: str
    after: Stored | None = None
    upto: Stored | None = None

    @property
    def whole(self) -> bool:
        return self.after is None and self.upto is None


@dataclass(frozen=True)
class Log:
    """A version of a file-based source."""

    files: Mapping[str, Entry] = field(default_factory=dict[str, Entry])
    columns: Mapping[str, str] = field(default_factory=dict[str, str])
    """The columns in the files with their Spark SQL types."""
    summary: Summary = field(default_factory=Summary)
    bound: Stored | None = None
    """The last arrival that counts as there."""

    def to_json(self) -> Version:
        defaults = {f.name: f.default for f in fields(Entry)}
        files = {
            name: {k: _listed(v) for k, v in asdict(entry).items() if v != defaults[k]}
            for name, entry in self.files.items()
        }
        return {"files": files, "columns": dict(self.columns), "arrival": self.bound, "summary": self.summary.to_json()}

    @staticmethod
    def of_json(version: Version) -> Log:
        files: Mapping[str, Any] = version["files"]
        entries = {name: Entry(**{**entry, "order": _tuple(entry.get("order"))}) for name, entry in files.items()}
        return Log(entries, version["columns"], Summary.of_json(version["summary"]), version["arrival"])


def _listed(value: Any) -> Any:
    """JSON knows no tuples."""
    return list(cast("tuple[Any, ...]", value)) if isinstance(value, tuple) else value


def _tuple(given: Any) -> Any:
    return None if given is None else tuple(given)
