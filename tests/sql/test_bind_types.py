"""The types that expressions are inferred to have, as Spark gives them."""

from __future__ import annotations

import pytest

from tempura.catalog import Catalog, Table
from tempura.schema import Column
from tempura.sql.bind import bind

CATALOG = Catalog(
    Table("t", (Column("i", "int", False), Column("n", "int"), Column("l", "bigint"), Column("d", "decimal(7,2)"), Column("p", "decimal(38,10)"), Column("x", "double"), Column("s", "string"), Column("day", "date"))),
)  # fmt: skip

CASES = {
    "i": "int not null",
    "n": "int",
    "1": "int not null",
    "3000000000": "bigint not null",
    "1.25": "decimal(3,2) not null",
    "0.5": "decimal(1,1) not null",
    "1e3": "double not null",
    "'x'": "string not null",
    "NULL": "void",
    "i + 1": "int not null",
    "i + l": "bigint",
    "i / 2": "double",
    "i + x": "double",
    "d + d": "decimal(8,2)",
    "d + i": "decimal(13,2)",
    "d * d": "decimal(15,4)",
    "d / d": "decimal(17,10)",
    "d * 2": "decimal(9,2)",
    "p * p": "decimal(38,6)",
    "d % d": "decimal(7,2)",
    "-d": "decimal(7,2)",
    "i > 1": "boolean not null",
    "n > 1": "boolean",
    "n IS NULL": "boolean not null",
    "n <=> 1": "boolean not null",
    "n > 1 AND s = 'x'": "boolean",
    "CASE WHEN n > 1 THEN d ELSE 0 END": "decimal(12,2)",
    "CASE WHEN n > 1 THEN d END": "decimal(7,2)",
    "coalesce(n, 0)": "int not null",
    "if(n > 1, l, i)": "bigint",
    "CAST(d AS BIGINT)": "bigint",
    "CAST(i AS DECIMAL(10, 2))": "decimal(10,2) not null",
    "CAST(s AS INT)": "int",
    "upper(s)": "string",
    "substr(s, 1, 2)": "string",
    "length(s)": "int",
    "year(day)": "int",
    "day + INTERVAL 3 DAYS": "date",
    "round(d, 1)": "decimal(7,1)",
    "abs(d)": "decimal(7,2)",
    "unheard_of(d)": "unknown",
    "count(*)": "bigint not null",
    "sum(i)": "bigint",
    "sum(d)": "decimal(17,2)",
    "sum(x)": "double",
    "avg(d)": "decimal(11,6)",
    "avg(i)": "double",
    "min(d)": "decimal(7,2)",
    "stddev_samp(i)": "double",
    "rank() OVER (ORDER BY i)": "int",
    "sum(d) OVER (ORDER BY i)": "decimal(17,2)",
    "lag(s) OVER (ORDER BY i)": "string",
}


@pytest.mark.parametrize("expression", CASES)
def test_inferred_type(expression: str):
    column = bind(f"SELECT {expression} AS c FROM t", CATALOG).root.schema[0]
    assert str(column._replace(name="c")) == f"c {CASES[expression]}"


def test_the_padded_side_of_an_outer_join_is_nullable():
    assert bind("SELECT b.i AS c FROM t a LEFT JOIN t b ON a.i = b.i", CATALOG).root.schema[0].nullable


def test_a_grouped_sum_of_not_null_is_not_null():
    assert not bind("SELECT n, sum(i) AS c FROM t GROUP BY n", CATALOG).root.schema[1].nullable
