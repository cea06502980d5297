"""The log of a Delta Lake table, as far as the change between two versions needs it.

A commit adds and removes files, and a bag is the union of its files, so what the commits of a range add less what they remove is exactly
what changed, whatever the commits did. Actions that say they change no data (OPTIMIZE) cancel, and count nothing.

The change data feed would be smaller, but is not always exact: deltalake 1.6 leaves an updated row out of it where the new row equals one
that the table holds already.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from tempura.schema import part_name

Partition = tuple[tuple[str, str | None], ...]
"""The values of a file's partition columns, as texts."""

_NAMES = {"long": "bigint", "integer": "int", "short": "smallint", "byte": "tinyint"}


@dataclass(frozen=True)
class DataFile:
    """A file of the table, named relative to the table's folder."""

    path: str
    partition: Partition = ()
    rows: int | None = None
    """How many rows it has, where the log says so."""


class Unsupported(Exception):
    """The log says something that plain Parquet files cannot: what."""


def partition_of(values: Mapping[str, Any] | None) -> Partition:
    """Partition values in the order of their names. Of any type, an empty text is NULL."""
    return tuple(sorted((k, None if v in (None, "") else str(v)) for k, v in (values or {}).items()))


def net_change(commits: Iterable[str]) -> dict[DataFile, int]:
    """How often each file's rows come in (or, if negative, go) over some commits, each given as its text."""
    weights: dict[str, int] = {}
    files: dict[str, DataFile] = {}
    for commit in commits:
        for file, weight in _changes([json.loads(line) for line in commit.splitlines() if line.strip()]):
            weights[file.path] = weights.get(file.path, 0) + weight
            known = files.get(file.path, file)
            # Of a file that goes, the log need not tell all that it told when it came.
            rows = file.rows if known.rows is None else known.rows
            files[file.path] = DataFile(file.path, known.partition or file.partition, rows)
    return {files[path]: weight for path, weight in weights.items() if weight}


def _changes(actions: list[dict[str, Any]]) -> Iterator[tuple[DataFile, int]]:
    for kind, weight in (("add", 1), ("remove", -1)):
        for action in (a[kind] for a in actions if kind in a):
            if action.get("deletionVector"):
                raise Unsupported("deletion vectors")
            stats = json.loads(action.get("stats") or "{}")
            file = DataFile(
                unquote(action["path"]), partition_of(action.get("partitionValues")), stats.get("numRecords")
            )
            yield file, weight if action.get("dataChange", True) else 0


def spark_columns(schema: str) -> dict[str, str]:
    """The columns of a Delta schema, given as JSON, with their Spark SQL types."""
    return {field["name"]: _spark(field["type"]) for field in json.loads(schema)["fields"]}


def _spark(kind: Any) -> str:
    if isinstance(kind, str):
        return _NAMES.get(kind, kind).replace(" ", "")
    if kind["type"] == "array":
        return f"array<{_spark(kind['elementType'])}>"
    if kind["type"] == "map":
        return f"map<{_spark(kind['keyType'])},{_spark(kind['valueType'])}>"
    fields = (f"{part_name(field['name'])}: {_spark(field['type'])}" for field in kind["fields"])
    return f"struct<{','.join(fields)}>"
