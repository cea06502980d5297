"""Carries out readings on DuckDB, so that what a source describes can be compared with what it should be."""

from __future__ import annotations

from collections import Counter
from typing import Any

import duckdb
import sqlglot

from tempura.schema import WEIGHT
from tempura.sources import Files, Part, Reading

Bag = Counter[tuple[Any, ...]]


def bag(reading: Reading) -> Bag:
    """The rows of a reading with their weights; a row that nets to nothing is not there."""
    found: Bag = Counter()
    for part in reading.parts:
        for *row, weight in rows(part):
            found[tuple(row)] += weight
    if not reading.weighted:
        assert all(part.weight is None for part in reading.parts)
    return Counter({row: weight for row, weight in found.items() if weight})


def rows(part: Part) -> list[tuple[Any, ...]]:
    assert isinstance(part.origin, Files)
    columns = ", ".join(f"{text} AS `{name}`" for name, text in part.columns.items())
    where = f" WHERE {part.where}" if part.where else ""
    query = f"SELECT {columns}, {part.weight or 1} AS {WEIGHT} FROM origin{where}"
    text = sqlglot.transpile(query, read="spark", write="duckdb")[0]
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'America/New_York'")
        connection.execute(f"CREATE VIEW origin AS SELECT * FROM {scan(part.origin)}")
        table = connection.execute(text).to_arrow_table()
    return [tuple(row.values()) for row in table.to_pylist()]


def scan(files: Files) -> str:
    """The files as a table function of DuckDB."""
    paths = str(list(files.paths))
    if files.format == "parquet":
        return f"read_parquet({paths}, union_by_name = true, hive_partitioning = false)"
    types = {c.name: sqlglot.exp.DataType.build(c.type, dialect="spark").sql("duckdb") for c in files.columns}
    if files.format == "json":
        return f"read_json({paths}, format = 'newline_delimited', columns = {types})"
    header, separator = files.options.get("header", "false"), files.options.get("sep", ",")
    return f"read_csv({paths}, header = {header}, delim = '{separator}', columns = {types}, hive_partitioning = false)"
