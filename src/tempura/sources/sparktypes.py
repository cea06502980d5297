"""What Spark SQL calls the types of Arrow, so that a file's columns can be compared with declared ones."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from tempura.schema import part_name
from tempura.sources.arrow import pa

_SIMPLE: tuple[tuple[Callable[[Any], bool], str], ...] = (
    (pa.types.is_boolean, "boolean"), (pa.types.is_int8, "tinyint"), (pa.types.is_int16, "smallint"), (pa.types.is_int32, "int"),
    (pa.types.is_int64, "bigint"), (pa.types.is_uint8, "smallint"), (pa.types.is_uint16, "int"), (pa.types.is_uint32, "bigint"),
    (pa.types.is_uint64, "decimal(20,0)"), (pa.types.is_float32, "float"), (pa.types.is_float64, "double"), (pa.types.is_date32, "date"),
    (pa.types.is_string, "string"), (pa.types.is_large_string, "string"), (pa.types.is_string_view, "string"), (pa.types.is_binary, "binary"),
    (pa.types.is_large_binary, "binary"), (pa.types.is_binary_view, "binary"), (pa.types.is_fixed_size_binary, "binary"),
)  # fmt: skip

_ARROW = {
    "boolean": pa.bool_(), "tinyint": pa.int8(), "smallint": pa.int16(), "int": pa.int32(), "bigint": pa.int64(),
    "float": pa.float32(), "double": pa.float64(),
}  # fmt: skip


def spark_name(kind: Any, int96: bool = False) -> str:
    """The Spark SQL type in which Spark reads an Arrow type from Parquet; raises ValueError for one that it cannot read.

    Spark itself writes instants as INT96, which Arrow shows as nanoseconds without a zone; `int96` says that there are such columns.
    """
    for matches, name in _SIMPLE:
        if matches(kind):
            return name
    if pa.types.is_dictionary(kind):
        return spark_name(kind.value_type, int96)
    if pa.types.is_decimal128(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_timestamp(kind):
        return _timestamp(kind, int96)
    if pa.types.is_map(kind):
        return f"map<{spark_name(kind.key_type, int96)},{spark_name(kind.item_type, int96)}>"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"array<{spark_name(kind.value_type, int96)}>"
    if pa.types.is_struct(kind):
        fields = [kind.field(i) for i in range(kind.num_fields)]
        return f"struct<{','.join(f'{part_name(f.name)}: {spark_name(f.type, int96)}' for f in fields)}>"
    raise ValueError(f"Spark cannot read its type {kind}")


def _timestamp(kind: Any, int96: bool) -> str:
    if kind.unit == "ns":
        if int96 and kind.tz is None:
            return "timestamp"
        raise ValueError(f"Spark cannot read its type {kind}; write it in microseconds")
    return "timestamp_ntz" if kind.tz is None else "timestamp"


def arrow_type(name: str) -> Any:
    """The Arrow type in which a plain value of a text file can be checked; text for what has a notation of its own."""
    return _ARROW.get(name, pa.string())


def quoted(name: str) -> str:
    """A column's name as Spark SQL."""
    return "`" + name.replace("`", "``") + "`"


def text(value: str) -> str:
    """A text as a Spark SQL literal."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def same_type(declared: str, found: str) -> bool:
    """Whether two names mean one type to Spark's readers."""
    return _canonical(declared) == _canonical(found)


def _canonical(name: str) -> str:
    name = re.sub(r"(var)?char\(\d+\)", "string", re.sub("[ `]", "", name.lower()))
    name = re.sub(r"decimal\((\d+)\)", r"decimal(\1,0)", name)
    return re.sub(r"decimal(?!\()", "decimal(10,0)", name).replace("timestamp_ltz", "timestamp")


def constant(value: str | None, kind: str) -> str:
    """A value that is written as text, in the name of a folder or in a log, as Spark SQL; instants that name no zone are in UTC."""
    if value is None:
        return f"CAST(NULL AS {kind})"
    zone = "Z" if kind == "timestamp" and not re.search(r"(Z|[+-]\d\d:?\d\d)$", value) else ""
    return f"CAST({text(value + zone)} AS {kind})"
