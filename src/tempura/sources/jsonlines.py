"""JSON line by line, as Spark reads it: for files of which Arrow, to which a column has values of one kind, says that they are broken.

To Spark a number in a column of texts is a text, a decimal may be written either way, and "NaN" is a number. What Spark refuses is refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from io import TextIOWrapper
from typing import Any, cast

from tempura.sources.arrow import pa
from tempura.sources.contents import Layout
from tempura.sources.sparktypes import arrow_type
from tempura.sources.summary import SAMPLE

_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_NUMBERS = ("NaN", "Infinity", "+Infinity", "-Infinity", "+INF", "-INF")
"""Texts that Spark takes for numbers, as Python does."""
_FLOATS = ("float", "double")
_TEXTS = ("string", "char", "varchar")
_NESTED = ("array", "map", "struct", "binary", "variant")


def read_lines(stream: Any, layout: Layout) -> tuple[list[str], Any, Any]:
    """The names that lines have, and as Arrow tables the columns to keep and the first rows; raises ValueError for what Spark does not read.

    A text or time that is kept must be written as a text: what else Spark makes one of, only Spark knows.
    """
    types = {name: kind for name, kind in layout.types.items() if not kind.startswith(_NESTED)}
    found: dict[str, None] = {}
    kept: dict[str, list[Any]] = {name: [] for name in layout.keep if name in types}
    first: dict[str, list[Any]] = {name: [] for name in types}
    rows = 0
    for number, line in enumerate(TextIOWrapper(stream, "utf-8-sig"), 1):
        if line.isspace():
            continue
        row = _object(line, number)
        found |= dict.fromkeys(row)
        for name, kind in types.items():
            value = row.get(name)
            if value is not None and not _fits(kind, value, name in kept):
                said = repr(value) if isinstance(value, str) else str(value)
                raise ValueError(f"in line {number:,} the column {name!r} is {said:.60}, which is no {kind}")
            for columns in (kept, first) if rows < SAMPLE else (kept,):
                if name in columns:
                    columns[name].append(_stored(kind, value))
        rows += 1
    tables = _table({n: v for n, v in kept.items() if n in found}, types), _table(first, types)
    return [*found], tables[0] if tables[0].num_columns else pa.table({"": pa.nulls(rows)}), tables[1]


def _table(columns: Mapping[str, list[Any]], types: Mapping[str, str]) -> Any:
    return pa.table({name: pa.array(values, arrow_type(types[name])) for name, values in columns.items()})


def _object(line: str, number: int) -> dict[str, Any]:
    try:
        row: Any = json.loads(line, parse_float=Decimal)
    except json.JSONDecodeError as error:
        raise ValueError(f"line {number:,}, at character {error.colno:,}: {error.msg}") from None
    except RecursionError:
        raise ValueError(f"line {number:,} is nested too deeply") from None
    if not isinstance(row, dict):
        raise ValueError(f"line {number:,} is not one object")
    return cast("dict[str, Any]", row)


def _fits(kind: str, value: Any, kept: bool) -> bool:
    """Whether Spark takes a value for one of a type."""
    whole, text = isinstance(value, int) and not isinstance(value, bool), isinstance(value, str)
    if kind in _BITS:
        return whole and -(1 << _BITS[kind] - 1) <= value < 1 << _BITS[kind] - 1
    if kind in _FLOATS:
        return whole or isinstance(value, Decimal | float) or (text and value in _NUMBERS)
    if kind == "boolean":
        return isinstance(value, bool)
    if kind.startswith("decimal"):
        return whole or text or isinstance(value, Decimal)
    return text or (not kept and (kind.startswith(_TEXTS) or (kind == "timestamp" and whole)))


def _stored(kind: str, value: Any) -> Any:
    """A value that fits as Arrow has it."""
    if value is None or kind in _BITS or kind == "boolean":
        return value
    return float(value) if kind in _FLOATS else str(value)
