"""The views that systems are compared by, from a selection to aggregates of aggregates, with the paper's running example in between.

They are over TPC-DS tables that arrive in two parts, and in SQL that Spark, Flink and PostgreSQL all understand.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from bench import _arrivals, tpcds

PATTERN, POINTS = "delta-small", 2


@dataclass(frozen=True)
class View:
    """A view: its name, its query, and the columns that tell its rows apart, if it has any such."""

    name: str
    text: str
    key: tuple[str, ...] = ()

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables that it reads."""
        return tuple(table for table in tpcds.KEYS if re.search(rf"\b{table}\b", self.text))

    @property
    def growing(self) -> tuple[str, ...]:
        """Those of them that arrive in parts."""
        return tuple(t for t in self.tables if t in tpcds.FACTS)


def arrived(sf: float, table: str) -> list[Path]:
    """The files of a table, one for each point at which something arrives."""
    if table not in tpcds.FACTS:
        return [tpcds.generate(sf) / f"{table}.parquet"]
    folder = _arrivals.files(sf, PATTERN, POINTS) / table
    return [folder / _arrivals.batch(point) / "part.parquet" for point in range(POINTS)]


VIEWS = (
    View(
        "selection",
        """
SELECT cs_order_number, cs_item_sk, cs_ext_sales_price
FROM catalog_sales
WHERE cs_ext_sales_price > 15000""",
    ),
    View(
        "totals",
        """
SELECT cs_warehouse_sk, SUM(cs_ext_sales_price) AS sales, COUNT(*) AS items
FROM catalog_sales
GROUP BY cs_warehouse_sk""",
        ("cs_warehouse_sk",),
    ),
    View(
        "star",
        """
SELECT d_year, i_category, SUM(cs_ext_sales_price) AS sales, COUNT(*) AS items
FROM catalog_sales JOIN date_dim ON cs_sold_date_sk = d_date_sk JOIN item ON cs_item_sk = i_item_sk
GROUP BY d_year, i_category""",
        ("d_year", "i_category"),
    ),
    View(
        "pairs",
        """
SELECT cr_reason_sk, SUM(cs_ext_sales_price) AS sold, SUM(cr_return_amount) AS returned
FROM catalog_sales JOIN catalog_returns ON cs_order_number = cr_order_number AND cs_item_sk = cr_item_sk
GROUP BY cr_reason_sk""",
        ("cr_reason_sk",),
    ),
    View(
        "running-example",
        """
WITH sales_status AS (
  SELECT cs_call_center_sk AS category, cs_ext_sales_price AS price, cr_return_amount AS cost
  FROM catalog_sales LEFT OUTER JOIN catalog_returns ON cs_order_number = cr_order_number AND cs_item_sk = cr_item_sk
)
SELECT category, SUM(CASE WHEN cost IS NULL THEN price ELSE -cost END) AS gross
FROM sales_status
GROUP BY category""",
        ("category",),
    ),
    View(
        "distinct",
        """
SELECT channel, COUNT(DISTINCT buyer) AS buyers, SUM(price) AS sales
FROM (
  SELECT 'catalog' AS channel, cs_bill_customer_sk AS buyer, cs_ext_sales_price AS price FROM catalog_sales
  UNION ALL
  SELECT 'web' AS channel, ws_bill_customer_sk AS buyer, ws_ext_sales_price AS price FROM web_sales
) AS sold
GROUP BY channel""",
        ("channel",),
    ),
    View(
        "nested",
        """
WITH totals AS (
  SELECT cr_returning_customer_sk AS buyer, cr_call_center_sk AS center, SUM(cr_return_amount) AS total
  FROM catalog_returns
  GROUP BY cr_returning_customer_sk, cr_call_center_sk
)
SELECT buyer, totals.center, total
FROM totals JOIN (SELECT center, AVG(total) * 3 AS bar FROM totals GROUP BY center) AS bars ON totals.center = bars.center
WHERE total > bar""",
        ("buyer", "center"),
    ),
)
