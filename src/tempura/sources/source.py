"""A source says where a base table's rows come from.

It answers in descriptions, not in rows: a **version** is what was there when it was pinned, a **reading** is the files (or Spark
table) to open, with the rows and weights to take from them. So a source needs no engine, and any engine can carry a reading out.

A refresh costs what changed. Pinning looks at the names, sizes and times of all files and opens only those it has not seen; what the
others contain is remembered in the version.

A new kind is one class with a shape for its options:

    @register
    @dataclass(frozen=True, kw_only=True)
    class NightlySource(Source):
        kind = "nightly"
        shape = NightlyShape        # what the job file may say below `source`, as a pydantic model
        path: str                   # a field for every key of the shape
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, TypeVar, cast

from pydantic import BaseModel, ConfigDict
from pydantic_core import PydanticCustomError

from tempura.catalog import ColumnStatistics
from tempura.errors import SourceError
from tempura.schema import Schema

Version = Mapping[str, Any]
"""A JSON object that only its source can read; run files store it."""

Format = Literal["parquet", "csv", "json"]
_WHERE = ("table", "folder", "path", "ignore_new_columns")
"""Fields of sources that do not decide what their bytes mean."""


@dataclass(frozen=True)
class Files:
    """Files to open: their paths are names, not patterns, and are absolute or URIs that Spark can open."""

    format: Format
    paths: tuple[str, ...]
    columns: Schema
    """The schema to read them with; in CSV files the columns are in this order."""
    options: Mapping[str, str] = field(default_factory=dict[str, str])
    """Options of Spark's reader."""


@dataclass(frozen=True)
class SparkTable:
    """A table or view that the Spark session knows by name."""

    name: str


@dataclass(frozen=True)
class DeltaVersion:
    """A version of a Delta Lake table, or what changed since an earlier one, as Spark's own Delta reader tells it."""

    path: str
    version: int
    since: int | None = None


@dataclass(frozen=True)
class Part:
    """Rows of one origin; all its texts are Spark SQL over the origin's columns."""

    origin: Files | SparkTable | DeltaVersion
    columns: Mapping[str, str]
    """For every column of the reading, the expression that gives it."""
    where: str | None = None
    weight: str | None = None
    """An integer expression; None: every row counts once."""


@dataclass(frozen=True)
class Reading:
    """The rows of a snapshot or a delta: the union of its parts, or no rows where it has none."""

    schema: Schema
    """The columns as the query sees them, without the weight."""
    parts: tuple[Part, ...]
    weighted: bool = False
    """Whether the rows carry weights; then the column `tempura.schema.WEIGHT` comes last."""


@dataclass(frozen=True)
class TableStatistics:
    """What is known of a table at a version; None where the source cannot tell."""

    rows: float | None
    bytes: float | None
    columns: Mapping[str, ColumnStatistics] = field(default_factory=dict[str, ColumnStatistics])


@dataclass(frozen=True)
class Change:
    """How many rows a delta brings and takes back."""

    inserted: float
    deleted: float


def _said(value: Any) -> str:
    """A value as text that is the same for equal ones."""
    return str(sorted(cast("Mapping[str, Any]", value).items())) if isinstance(value, Mapping) else str(value)


class Options(BaseModel):
    """The shape of what a job file says below `source`, without `kind`."""

    model_config = ConfigDict(extra="forbid", strict=True)


def misfit(message: str, hint: str) -> PydanticCustomError:
    """A mistake in a source's options with its hint, in the form in which pydantic carries it to the reader of the job file."""
    return PydanticCustomError("tempura", "{said}", {"said": message, "hint": hint})


@dataclass(frozen=True, kw_only=True)
class Source(ABC):
    """Where a table's rows come from. `columns` are those that the job declares; a source that knows its own needs none."""

    kind: ClassVar[str]
    counts_exactly: ClassVar[bool] = False
    """Whether versions between which it tells no change have the same rows."""
    shape: ClassVar[type[Options]]

    table: str
    columns: Schema | None = None
    folder: Path = Path()
    """Relative paths are relative to this folder, that of the job file."""

    @classmethod
    def of(cls, table: str, columns: Schema | None, folder: Path, options: Options) -> Self:
        """The source that a job file describes."""
        fields = {name: getattr(options, name) for name in type(options).model_fields}
        return cls(table=table, columns=columns, folder=folder, **fields)

    @property
    @abstractmethod
    def retracts(self) -> bool:
        """Whether a delta can take rows back."""

    @property
    def logged(self) -> bool:
        """Whether a snapshot is the sum of all changes so far, and its reading therefore weighted."""
        return False

    @property
    def static(self) -> bool:
        """Whether the table never changes."""
        return False

    @abstractmethod
    def schema(self) -> Schema:
        """The columns as the query sees them."""

    @abstractmethod
    def pin(self, since: Version | None, upto: str | None = None) -> Version:
        """What is there now, at least what was there at `since`; rows that arrive later than `upto` are left for later."""

    def check(self, version: Version) -> None:
        """Raise an error if what was pinned cannot be had any more as it was."""
        self.snapshot(version)

    def read_as(self) -> dict[str, str]:
        """All that decides what the bytes of the source mean; where they lie does not."""
        columns = None if self.columns is None else [f"{c.name} {c.type}" for c in self.columns]
        told: dict[str, Any] = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in _WHERE}
        return {"kind": self.kind} | {name: _said(value) for name, value in (told | {"columns": columns}).items()}

    @abstractmethod
    def snapshot(self, version: Version) -> Reading:
        """All rows at a version."""

    @abstractmethod
    def delta(self, since: Version, version: Version) -> Reading:
        """What changed from one version to a later one."""

    @abstractmethod
    def statistics(self, version: Version) -> TableStatistics:
        """What pinning has learned of the rows at a version."""

    def visible(self, version: Version) -> Schema:
        """The columns as the query sees them at a version; there may be more by now."""
        return self.snapshot(version).schema

    def never_null(self, version: Version) -> frozenset[str]:
        """The columns that are known to have no NULL at a version."""
        return frozenset()

    @abstractmethod
    def change(self, since: Version | None, version: Version) -> Change:
        """The number of rows in the delta, or in the snapshot where there is nothing before it."""

    @abstractmethod
    def sketch(self) -> TableStatistics:
        """A rough idea of what is there now, from names, sizes and at most one file; for planning before the first run."""

    def error(self, message: str, hint: str) -> SourceError:
        """An error about this table's rows."""
        return SourceError(f"table {self.table!r}: {message}", hint=hint)


KINDS: dict[str, type[Source]] = {}
"""The kinds of source by the name that a job file gives them; `register` adds to them."""


_Kind = TypeVar("_Kind", bound=type[Source])


def register(kind: _Kind) -> _Kind:
    """Makes a kind of source known to job files."""
    KINDS[kind.kind] = kind
    return kind
