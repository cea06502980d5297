"""Files whose rows say when they arrive; without an arrival column, a static table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, cast

from pydantic import BeforeValidator

from tempura.sources.filebased import FileBased, FileOptions
from tempura.sources.order import ByArrival, Order, Still
from tempura.sources.source import misfit, register


def column_option(given: str | Mapping[str, str] | None) -> Mapping[str, str]:
    """A column may be given with its type, as `{arrived: timestamp}`; the type of one that is not is empty."""
    found = {given: ""} if isinstance(given, str) else given or {}
    return {name: kind.lower().replace(" ", "") for name, kind in found.items()}


def _column(given: Any) -> Any:
    """The option as a mapping of one column."""
    found: Any = {given: ""} if isinstance(given, str) else given
    if isinstance(found, dict) and len(cast("dict[Any, Any]", found)) != 1:
        raise misfit("one column is needed", "give its name, or `{name: type}`")
    return cast("Any", found)


ColumnOption = Annotated[dict[str, str] | None, BeforeValidator(_column)]
"""A column by its name, or `{name: type}` where nothing else tells its type."""


class FilesOptions(FileOptions):
    """What a source of files with arrivals can be told."""

    arrival: ColumnOption = None


@register
@dataclass(frozen=True, kw_only=True)
class FilesSource(FileBased):
    """Parquet, CSV or JSON files below a path, new files for new rows.

    The version reaches to the greatest arrival there is, and the delta is what arrived since. Rows may not arrive
    in the past: a new file begins after all that was read before.
    """

    kind = "files"
    shape = FilesOptions

    arrival: str | Mapping[str, str] | None = None
    """The column that says when a row arrives, with its type where the files and the table's columns do not tell."""

    @property
    def order(self) -> Order:
        return ByArrival(self.hidden[0]) if self.hidden else Still()

    @property
    def hidden(self) -> tuple[str, ...]:
        return tuple(column_option(self.arrival))

    @property
    def hidden_types(self) -> Mapping[str, str]:
        return {n: t for n, t in column_option(self.arrival).items() if t}
