"""When rows arrive: the values of an arrival column, as they are stored, compared, and written in SQL.

A value is stored in a version as JSON: numbers as themselves, decimals, dates and times as text. Instants are stored in UTC; where a text
names no zone, UTC is meant.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import ROUND_FLOOR, Decimal, InvalidOperation
from typing import Any

from tempura.sources.arrow import pa, pc
from tempura.sources.sparktypes import quoted, text

Stored = int | float | str
"""An arrival as JSON has it."""

_WHOLE = ("tinyint", "smallint", "int", "bigint")
_EXAMPLES = {"date": "2026-11-15", "timestamp": "2026-11-15 14:00:00", "timestamp_ntz": "2026-11-15 14:00:00"}


@dataclass(frozen=True)
class Arrival:
    """An arrival column: its name and its Spark SQL type, which must have an order."""

    column: str
    type: str

    def __post_init__(self) -> None:
        if not re.fullmatch(
            r"(tiny|small|big)?int|float|double|decimal\(\d+,\d+\)|date|timestamp(_ntz)?|string", self.type
        ):
            raise ValueError(f"a {self.type} does not say when a row arrives")

    def parsed(self, given: str) -> Stored:
        """The arrival that a text names, as in `upto`; raises ValueError if it names none."""
        try:
            return self.stored(self._read(given.strip()))
        except (ValueError, InvalidOperation):
            example = _EXAMPLES.get(self.type, "a number")
            raise ValueError(f"{given!r} is no {self.type}, which {self.column!r} is; write it as {example}") from None

    def _read(self, given: str) -> Any:
        if self.type in _WHOLE:
            return int(given)
        if self.type in ("float", "double"):
            return float(given)
        if self.type.startswith("decimal"):
            scale = int(re.findall(r"\d+", self.type)[1])
            # A limit between two values admits the lower one only, so it may not be rounded up.
            return Decimal(given).quantize(Decimal(1).scaleb(-scale), ROUND_FLOOR)
        if self.type == "string":
            return given
        if self.type == "date":
            return datetime.fromisoformat(given).date()
        moment = datetime.fromisoformat(given)
        if self.type == "timestamp":
            return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
        if moment.tzinfo:
            raise ValueError("a time without a zone is needed")
        return moment

    def stored(self, value: Any) -> Stored:
        """A value as JSON has it; stored instants, dates and texts compare as texts."""
        if isinstance(value, datetime):
            return value.isoformat(sep=" ", timespec="microseconds")
        return str(value) if isinstance(value, date | Decimal) else value

    def key(self, stored: Stored) -> Any:
        """What orders stored values as Spark orders the column's."""
        return Decimal(stored) if self.type.startswith("decimal") else stored

    def literal(self, stored: Stored) -> str:
        """A stored value in Spark SQL."""
        return text(str(stored)) if self.type == "string" else f"CAST({text(str(stored))} AS {self.type})"

    def between(self, after: Stored | None, upto: Stored | None) -> str:
        """The condition that a row arrives later than the one and not later than the other."""
        column = quoted(self.column)
        parts = [f"{column} > {self.literal(after)}"] if after is not None else []
        return " AND ".join(parts + ([f"{column} <= {self.literal(upto)}"] if upto is not None else []))

    def mask(self, values: Any, after: Stored | None, upto: Stored | None) -> Any:
        """Of normal values, those that `between` takes."""
        taken = pa.array([True] * len(values)) if after is None and upto is None else None
        for limit, compare in ((after, pc.greater), (upto, pc.less_equal)):
            if limit is not None:
                found = compare(values, pa.scalar(self._read(str(limit)), self._arrow()))
                taken = found if taken is None else pc.and_(taken, found)
        return taken

    def normal(self, values: Any) -> Any:
        """A column of a file in the one Arrow type that stands for the Spark SQL type; texts are read as Spark reads them."""
        kind = self._arrow()
        if not (pa.types.is_string(values.type) and pa.types.is_timestamp(kind)):
            return values.cast(kind, safe=not pa.types.is_timestamp(kind))
        if kind.tz is None:
            return values.cast(kind)
        zoned = pc.match_substring_regex(values, r"\d:\d.*(Z|[+-]\d\d(:?\d\d)?)$")
        nothing = pa.scalar(None, pa.string())
        plain = pc.if_else(zoned, nothing, values).cast(pa.timestamp("us")).cast(kind)
        return pc.coalesce(pc.if_else(zoned, values, nothing).cast(kind), plain)

    def _arrow(self) -> Any:
        if self.type.startswith("decimal"):
            precision, scale = (int(n) for n in re.findall(r"\d+", self.type))
            return pa.decimal128(precision, scale)
        if self.type in _WHOLE:
            return pa.int64()
        kinds = {
            "date": pa.date32(),
            "timestamp": pa.timestamp("us", "UTC"),
            "timestamp_ntz": pa.timestamp("us"),
            "string": pa.string(),
        }
        return kinds.get(self.type, pa.float64())
