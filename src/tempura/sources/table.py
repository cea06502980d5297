"""A table or view of the Spark session, which does not change."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import Field

from tempura.errors import JobError
from tempura.schema import Schema
from tempura.sources.source import (
    Change,
    Options,
    Part,
    Reading,
    Source,
    SparkTable,
    TableStatistics,
    Version,
    register,
)
from tempura.sources.sparktypes import quoted


class TableOptions(Options):
    """What a Spark table can be told."""

    name: str = Field(min_length=1)


@register
@dataclass(frozen=True, kw_only=True)
class TableSource(Source):
    """Any table or view that the Spark session knows, taken as static; the job declares its columns."""

    kind = "table"
    shape = TableOptions

    name: str

    def __post_init__(self) -> None:
        if self.columns is None:
            raise JobError(
                f"table {self.table!r}: what columns {self.name!r} has is only known when Spark runs",
                hint="give the table's `columns`",
            )

    @property
    def retracts(self) -> bool:
        return False

    @property
    def static(self) -> bool:
        return True

    def schema(self) -> Schema:
        return self.columns or ()

    def pin(self, since: Version | None, upto: str | None = None) -> Version:
        if since is not None and since["table"] != self.name:
            raise self.error(
                f"it was {since['table']!r} when it was read before, and is {self.name!r} now",
                "change it back, or forget the states and start again",
            )
        return {"table": self.name}

    def snapshot(self, version: Version) -> Reading:
        columns = {c.name: quoted(c.name) for c in self.schema()}
        return Reading(self.schema(), (Part(SparkTable(version["table"]), columns),))

    def delta(self, since: Version, version: Version) -> Reading:
        return Reading(self.schema(), ())

    def statistics(self, version: Version) -> TableStatistics:
        return TableStatistics(None, None)

    def change(self, since: Version | None, version: Version) -> Change:
        return Change(0, 0)

    def sketch(self) -> TableStatistics:
        return TableStatistics(None, None)
