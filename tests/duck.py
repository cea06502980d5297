"""Running lowered SQL on DuckDB: bags in as tables, rows out as bags."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import duckdb
import sqlglot

from tempura.algebra import Op, Read, Scan
from tempura.algebra.physical import delta_name, snapshot_name
from tempura.catalog import Catalog
from tempura.reference import Bag, bag
from tempura.reference.views import minus
from tempura.schema import UNKNOWN, WEIGHT, Schema
from tempura.sql.lower import lower, to_sql


def duck_type(spark_type: str) -> str:
    if spark_type == UNKNOWN:
        return "INTEGER"
    return sqlglot.exp.DataType.build(spark_type, dialect="spark").sql(dialect="duckdb")


def register(
    connection: duckdb.DuckDBPyConnection, name: str, schema: Schema, rows: Bag, weighted: bool = False
) -> None:
    """Makes a bag a table; a weighted one is left unconsolidated: every third row comes in two parts, and rows that cancel are added."""
    columns = [f'"{c.name}" {duck_type(c.type)}' for c in schema] + ([f"{WEIGHT} BIGINT"] if weighted else [])
    connection.execute(f'CREATE OR REPLACE TABLE "{name}" ({", ".join(columns)})')
    given: list[tuple[Any, ...]] = []
    for i, (row, weight) in enumerate(rows.items()):
        if not weighted:
            assert weight > 0, "an unweighted table cannot hold a negative weight"
            given += [row] * weight
        elif i % 3:
            given.append((*row, weight))
        else:
            given += [(*row, weight + 2), (*row, -2)]
    if weighted and rows:
        # A row that is not in the bag, though it shares all but one value with one that is.
        row = next(iter(rows))
        gone = (*row[:-1], None)
        given += [(*gone, 1), (*gone, -1)]
    if given:
        marks = "(" + ", ".join("?" for _ in given[0]) + ")"
        connection.execute(
            f'INSERT INTO "{name}" VALUES {", ".join(marks for _ in given)}', [v for g in given for v in g]
        )


def register_all(connection: duckdb.DuckDBPyConnection, tree: Op, tables: Mapping[str, Bag]) -> None:
    """Makes a table of every relation that the tree reads."""
    for op in tree.walk():
        if isinstance(op, Read):
            register(connection, op.name, op.columns, tables[op.name], op.weighted)
        elif isinstance(op, Scan):
            register(connection, op.table, op.columns, tables[op.table])


def register_history(
    connection: duckdb.DuckDBPyConnection, catalog: Catalog, points: Sequence[str], history: Mapping[str, Sequence[Bag]]
) -> None:
    """Makes tables of every table at every point, and of its change between any two, under the names that plans read."""
    for table in catalog.values():
        rows = history[table.name]
        for i, point in enumerate(points):
            register(connection, snapshot_name(table.name, point), table.columns, rows[i])
            for j in range(i):
                change = minus(rows[i], rows[j])
                register(connection, delta_name(table.name, points[j], point), table.columns, change, table.can_retract)


def bag_of(connection: duckdb.DuckDBPyConnection, sql: str, columns: Iterable[str]) -> Bag:
    """The bag that a query gives, with these columns; a column `__w` is taken as the weight."""
    cursor = connection.execute(sql)
    found = [d[0] for d in cursor.description or ()]
    places = [found.index(c) for c in columns]
    weight = found.index(WEIGHT) if WEIGHT in found else None
    return bag((tuple(row[i] for i in places), 1 if weight is None else row[weight]) for row in cursor.fetchall())


def run(connection: duckdb.DuckDBPyConnection, tree: Op, *, rows: bool = True) -> Bag:
    """The bag of a tree on DuckDB: as plain rows, or with the weights of its lowering."""
    lowered = lower(tree, "duckdb")
    sql = to_sql(tree, "duckdb") if rows else lowered.select.sql(dialect="duckdb")
    return bag_of(connection, sql, lowered.columns)


def comparable(given: Bag) -> Bag:
    """The bag with numbers that engines may type or round differently made alike."""
    return bag((tuple(_alike(v) for v in row), weight) for row, weight in given.items())


def _alike(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(sorted(value))
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        return value
    number = float(value)
    return number if math.isnan(number) or math.isinf(number) else float(f"{number:.9g}") + 0.0
