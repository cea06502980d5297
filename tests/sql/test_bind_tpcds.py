"""All 99 TPC-DS queries bind, and mean what their text means: both are run on DuckDB at scale factor 0.01."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from functools import cache
from typing import Any

import duckdb
import pytest
import sqlglot
from sqlglot import exp

from bench import tpcds
from tempura.algebra import InnerJoin
from tempura.catalog import Catalog
from tempura.expr import TRUE
from tempura.sql.bind import bind
from tempura.sql.bind.subqueries import one_row
from tempura.sql.lower import to_sql
from tempura.timeline import Timeline

SCALE = 0.01
NUMBERS = range(1, 100)


@cache
def catalog() -> Catalog:
    return tpcds.catalog(SCALE, "delta-big", Timeline.warehouse([1.0]))


@pytest.fixture(scope="module")
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    folder = tpcds.generate(SCALE)
    with duckdb.connect(config={"threads": 1}) as connection:
        for table in tpcds.KEYS:
            connection.execute(f"CREATE VIEW {table} AS SELECT * FROM '{folder / table}.parquet'")
        yield connection


def rows(database: duckdb.DuckDBPyConnection, text: str) -> list[tuple[Any, ...]]:
    """The rows in an order of their own, numbers as floats of few digits."""

    def plain(value: Any) -> Any:
        return (
            float(f"{float(value):.5g}")
            if isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)
            else value
        )

    found = [tuple(plain(v) for v in row) for row in database.execute(text).fetchall()]
    return sorted(found, key=lambda row: [(v is not None, str(v)) for v in row])


def equal(ours: list[tuple[Any, ...]], theirs: list[tuple[Any, ...]]) -> bool:
    def close(a: Any, b: Any) -> bool:
        return a == b or (isinstance(a, float) and isinstance(b, float) and abs(a - b) <= 1e-4 * max(abs(a), abs(b)))

    return len(ours) == len(theirs) and all(
        close(a, b) for x, y in zip(ours, theirs, strict=True) for a, b in zip(x, y, strict=True)
    )


def by_all_columns(query: exp.Query) -> exp.Query:
    """The query with every output column added to its order, as the binder completes it."""
    query = query.copy()
    order = query.args.get("order") or exp.Order(expressions=[])
    for i in range(len(query.selects)):
        order.append("expressions", exp.Ordered(this=exp.Literal.number(i + 1), desc=False, nulls_first=True))
    query.set("order", order)
    return query


@pytest.mark.parametrize("number", NUMBERS)
def test_same_rows_as_the_text(number: int, database: duckdb.DuckDBPyConnection):
    text = tpcds.queries()[number]
    tree = sqlglot.parse_one(text, dialect="spark")
    assert isinstance(tree, exp.Query)
    # With its LIMIT, all ties broken by the output columns on both sides.
    ours = rows(database, to_sql(bind(text, catalog()).root, "duckdb"))
    assert equal(ours, rows(database, by_all_columns(tree).sql(dialect="duckdb")))
    # And without, which compares more rows.
    tree.set("order", None)
    tree.set("limit", None)
    ours = rows(database, to_sql(bind(tree.sql(dialect="spark"), catalog()).root, "duckdb"))
    assert equal(ours, rows(database, tree.sql(dialect="duckdb")))


@pytest.mark.parametrize("number", NUMBERS)
def test_no_cross_product_of_tables_is_left(number: int):
    """A join without condition is with a relation of one row; only q77 asks for more, of two aggregates by different keys."""
    for op in bind(tpcds.queries()[number], catalog()).root.walk():
        if isinstance(op, InnerJoin) and op.on is TRUE and not any(one_row(i) for i in op.inputs):
            assert number == 77


@pytest.mark.parametrize("number", [4, 11, 23, 31, 39, 47, 57, 59, 64, 74, 95])
def test_uses_of_a_cte_share_their_tree(number: int):
    root = bind(tpcds.queries()[number], catalog()).root
    seen: dict[int, int] = {}
    for op in root.walk():
        if op.inputs and op.inputs[0].inputs:
            seen[id(op)] = seen.get(id(op), 0) + 1
    assert max(seen.values()) > 1
