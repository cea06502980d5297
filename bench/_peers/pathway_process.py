"""A view in Pathway, run by a Python that has it.

Its SQL adds up and compares no columns with NULLs (0.33 was tried). What it refuses is therefore written in its Python expressions, as its users would; the answer
then notes what was said to the SQL. It has no decimals: amounts are floats. Their sums may miss rows that are taken back
(seen with running-example and nested) unless they are `strict`, which keeps all values.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench._peers.continuous import Figures, Kept, answer, refusal

KINDS: dict[str, type] = {"BIGINT": int, "INTEGER": int, "VARCHAR": str}
"""Pathway's types of columns; the others are floats."""


def started(asked: Figures, kept: Kept) -> Callable[[], None]:
    """Declare the query; what is given runs it and follows its changes."""
    import pathway as pw  # pyright: ignore

    tables = {table: _read(pw, Path(asked["place"]) / table, told) for table, told in asked["tables"].items()}
    try:
        view = pw.sql(asked["query"], **tables)
    except ImportError:
        raise
    except Exception as error:  # Whatever it says to SQL that it does not take.
        kept.note = f"in Python expressions, as its SQL refuses: {refusal(error)['refused']}"
        view = EXPRESSIONS[asked["view"]](pw, **tables)

    def change(key: Any, row: Figures, time: int, is_addition: bool) -> None:
        kept.change((row[column] for column in asked["output"]), 1 if is_addition else -1)

    pw.io.subscribe(view, on_change=change)
    return lambda: pw.run(monitoring_level=pw.MonitoringLevel.NONE)


def _read(pw: Any, place: Path, told: Figures) -> Any:
    kinds = {column: KINDS.get(kind, float) for column, kind in told["columns"].items()}
    schema = pw.schema_from_types(**{c: kind | None if c in told["nullable"] else kind for c, kind in kinds.items()})
    mode = "streaming" if told["growing"] else "static"
    table = pw.io.csv.read(str(place), schema=schema, mode=mode, autocommit_duration_ms=100)
    # A number that is not there is None to it, but a text is empty.
    texts = {c: pw.if_else(table[c] == "", None, table[c]) for c in told["nullable"] if kinds[c] is str}
    return table.with_columns(**texts) if texts else table


def selection(pw: Any, catalog_sales: Any) -> Any:
    known = catalog_sales.filter(pw.this.cs_ext_sales_price.is_not_none())
    return known.filter(pw.this.cs_ext_sales_price > 15000)


def totals(pw: Any, catalog_sales: Any) -> Any:
    return catalog_sales.groupby(pw.this.cs_warehouse_sk).reduce(
        pw.this.cs_warehouse_sk, sales=_sum(pw, pw.this.cs_ext_sales_price), items=pw.reducers.count()
    )


def star(pw: Any, catalog_sales: Any, date_dim: Any, item: Any) -> Any:
    dated = catalog_sales.join(date_dim, catalog_sales.cs_sold_date_sk == date_dim.d_date_sk)
    sold = dated.join(item, catalog_sales.cs_item_sk == item.i_item_sk).select(
        date_dim.d_year, item.i_category, catalog_sales.cs_ext_sales_price
    )
    return sold.groupby(pw.this.d_year, pw.this.i_category).reduce(
        pw.this.d_year, pw.this.i_category, sales=_sum(pw, pw.this.cs_ext_sales_price), items=pw.reducers.count()
    )


def pairs(pw: Any, catalog_sales: Any, catalog_returns: Any) -> Any:
    joined = catalog_sales.join(catalog_returns, *_same_item(catalog_sales, catalog_returns)).select(
        catalog_returns.cr_reason_sk, catalog_sales.cs_ext_sales_price, catalog_returns.cr_return_amount
    )
    return joined.groupby(pw.this.cr_reason_sk).reduce(
        pw.this.cr_reason_sk, sold=_sum(pw, pw.this.cs_ext_sales_price), returned=_sum(pw, pw.this.cr_return_amount)
    )


def running_example(pw: Any, catalog_sales: Any, catalog_returns: Any) -> Any:
    status = catalog_sales.join_left(catalog_returns, *_same_item(catalog_sales, catalog_returns)).select(
        category=catalog_sales.cs_call_center_sk,
        price=pw.coalesce(catalog_sales.cs_ext_sales_price, 0.0),
        cost=catalog_returns.cr_return_amount,
    )
    gross = pw.if_else(pw.this.cost.is_none(), pw.this.price, -pw.coalesce(pw.this.cost, 0.0))
    return status.groupby(pw.this.category).reduce(pw.this.category, gross=pw.reducers.sum(gross, strict=True))


def distinct(pw: Any, catalog_sales: Any, web_sales: Any) -> Any:
    catalog = catalog_sales.select(
        channel="catalog", buyer=catalog_sales.cs_bill_customer_sk, price=catalog_sales.cs_ext_sales_price
    )
    web = web_sales.select(channel="web", buyer=web_sales.ws_bill_customer_sk, price=web_sales.ws_ext_sales_price)
    unknown = pw.reducers.max(pw.if_else(pw.this.buyer.is_none(), 1, 0))  # It counts None as a value.
    return (
        pw.Table.concat_reindex(catalog, web)
        .groupby(pw.this.channel)
        .reduce(
            pw.this.channel,
            buyers=pw.reducers.count_distinct(pw.this.buyer) - unknown,
            sales=_sum(pw, pw.this.price),
        )
    )


def nested(pw: Any, catalog_returns: Any) -> Any:
    known = catalog_returns.filter(pw.this.cr_return_amount.is_not_none()).filter(
        pw.this.cr_call_center_sk.is_not_none()  # It joins None with None.
    )
    totals = known.groupby(pw.this.cr_returning_customer_sk, pw.this.cr_call_center_sk).reduce(
        buyer=pw.this.cr_returning_customer_sk,
        center=pw.this.cr_call_center_sk,
        total=pw.reducers.sum(pw.this.cr_return_amount),
    )
    average = pw.reducers.sum(pw.this.total, strict=True) / pw.reducers.count()
    bars = totals.groupby(pw.this.center).reduce(pw.this.center, bar=average * 3)
    compared = totals.join(bars, totals.center == bars.center).select(*totals, bars.bar)
    return compared.filter(pw.this.total > pw.this.bar)


def _sum(pw: Any, column: Any) -> Any:
    """SUM, but 0 where all are NULL, which no group of these views is."""
    return pw.reducers.sum(pw.coalesce(column, 0.0))


def _same_item(sales: Any, returns: Any) -> tuple[Any, ...]:
    return sales.cs_order_number == returns.cr_order_number, sales.cs_item_sk == returns.cr_item_sk


EXPRESSIONS: dict[str, Callable[..., Any]] = {
    "selection": selection, "totals": totals, "star": star, "pairs": pairs, "running-example": running_example,
    "distinct": distinct, "nested": nested,
}  # fmt: skip
"""The views by name."""


if __name__ == "__main__":
    answer(started, time.process_time)
