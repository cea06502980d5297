"""The statistics of TPC-DS at scale factor 1000, without its data.

They are those of scale factor 1, which were measured once and are kept in `scale1.json`, for tables of the size that the specification gives. With a table grow its keys, the references to it
and what tells its rows apart: business keys (texts that end in `_id`: every other item has its own) and texts of which hardly two are the same. Other domains are taken to be complete at scale factor 1, as colours,
brands and prices are; those of the smallest tables are not quite, such as the states of twelve stores.

    python -m bench._scale1000              # measure them again, which takes a minute
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import duckdb

from bench import tpcds
from bench.tpcds import FACTS, KEYS
from tempura.catalog import Catalog
from tempura.timeline import Timeline

FILE = Path(__file__).with_name("scale1.json")

ROWS: dict[str, int] = {
    "call_center": 42, "catalog_page": 30_000, "catalog_returns": 143_996_756, "catalog_sales": 1_439_980_416, "customer": 12_000_000,
    "customer_address": 6_000_000, "customer_demographics": 1_920_800, "date_dim": 73_049, "household_demographics": 7_200,
    "income_band": 20, "inventory": 783_000_000, "item": 300_000, "promotion": 1_500, "reason": 65, "ship_mode": 20, "store": 1_002,
    "store_returns": 287_999_764, "store_sales": 2_879_987_999, "time_dim": 86_400, "warehouse": 20, "web_page": 3_000,
    "web_returns": 71_997_522, "web_sales": 720_000_376, "web_site": 54,
}  # fmt: skip
"""The sizes of the tables at scale factor 1000, as the benchmark's specification gives them."""
TOLD_APART = 0.5
"""A text tells the rows of a table of some size apart if so large a part of them has one of its own."""
SOME_SIZE = 1_000


def catalog(pattern: str, timeline: Timeline) -> Catalog:
    """The tables at scale factor 1000, arriving over the timeline."""
    return tpcds.catalog_of(statistics(), pattern, timeline)


@cache
def statistics() -> Mapping[str, Any]:
    """Rows and statistics of the columns of all tables."""
    at_1 = json.loads(FILE.read_text())
    growth = {table: ROWS[table] / at_1[table]["rows"] for table in KEYS}
    return {
        table: {
            "rows": float(ROWS[table]),
            "columns": {c: _grown(table, c, s, at_1[table]["rows"], growth) for c, s in at_1[table]["columns"].items()},
        }
        for table in KEYS
    }


def _grown(table: str, column: str, at_1: Mapping[str, Any], rows: int, growth: Mapping[str, float]) -> dict[str, Any]:
    """The statistics of a column as its table, or the one that it refers to, grows."""
    follows = at_1["refers_to"] or (table if column in KEYS[table] or _tells_apart(table, column, at_1, rows) else None)
    if follows is None:
        return dict(at_1)
    times, most = growth[follows], min(ROWS[table], ROWS[follows])
    greatest = at_1["max"] if at_1["max"] is None else at_1["max"] * times
    return {**at_1, "distinct": min(at_1["distinct"] * times, most), "max": greatest}


def _tells_apart(table: str, column: str, at_1: Mapping[str, Any], rows: int) -> bool:
    if table in FACTS or at_1["type"] != "string":
        return False
    return column.endswith("_id") or (rows >= SOME_SIZE and at_1["distinct"] >= TOLD_APART * rows)


def measure() -> None:
    """Measure scale factor 1 and keep what was found."""
    folder = tpcds.generate(1)
    found: dict[str, Any] = {}
    with duckdb.connect() as connection:
        for table in KEYS:
            connection.execute(f"CREATE VIEW {table} AS FROM '{folder / table}.parquet'")
        for table in KEYS:
            found[table] = tpcds.measure(connection, table, exactly=True)
            for name, column in found[table]["columns"].items():
                seen = tpcds.shown(1)[name]
                column |= {"rises": seen.rises, "run": seen.run if seen.run > 1 else None}
    FILE.write_text(_lines(found))


def _lines(found: Mapping[str, Any]) -> str:
    """As JSON with a line for every column."""
    tables = (
        f'"{table}": {{"rows": {s["rows"]}, "columns": {{\n'
        + ",\n".join(f'"{name}": {json.dumps(column)}' for name, column in s["columns"].items())
        + "}}"
        for table, s in found.items()
    )
    return "{" + ",\n".join(tables) + "}\n"


if __name__ == "__main__":
    measure()
