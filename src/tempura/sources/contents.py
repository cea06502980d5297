"""What is inside one file, of whatever format: its columns, how many rows, and the values of the few columns that matter to pinning."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tempura.sources.arrival import Arrival, Stored
from tempura.sources.arrow import pc
from tempura.sources.summary import Known


@dataclass(frozen=True)
class Layout:
    """What must be known to read a file that does not describe itself."""

    types: Mapping[str, str] = field(default_factory=dict[str, str])
    """The expected columns, in order, with their Spark SQL types."""
    keep: tuple[str, ...] = ()
    """The columns whose values will be asked for."""
    options: Mapping[str, str] = field(default_factory=dict[str, str])
    """Options of Spark's reader, as `options.spelled` names them."""

    def on(self, option: str) -> bool:
        """Whether an option of Spark's reader is switched on."""
        return self.options.get(option, "false").lower() == "true"


class Contents(ABC):
    """An opened file."""

    columns: Mapping[str, str]
    """The names of its columns, in order, with their Spark SQL types."""
    rows: int
    unreadable: Mapping[str, str] = {}
    """The columns that Spark cannot read, and why."""

    @abstractmethod
    def values(self, columns: Sequence[str]) -> Any:
        """An Arrow table of some columns."""

    @abstractmethod
    def sample(self) -> Any:
        """An Arrow table of the first rows."""

    def known(self) -> Mapping[str, Known]:
        """Exact figures of the columns that have them."""
        return {}

    def bounds(self, arrival: Arrival) -> tuple[Stored, Stored] | None:
        """The least and greatest arrival; None where there are no rows. Raises ValueError if a row has none."""
        if not self.rows:
            return None
        values = arrival.normal(self.values([arrival.column]).column(0))
        missing = values.null_count + (
            pc.sum(pc.invert(pc.is_finite(values))).as_py() or 0 if arrival.type in ("float", "double") else 0
        )
        if missing:
            raise ValueError(
                f"{missing:,} rows have no value in the arrival column {arrival.column!r}, or no finite one"
            )
        both = pc.min_max(values)
        return arrival.stored(both["min"].as_py()), arrival.stored(both["max"].as_py())
