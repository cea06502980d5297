"""The types that expressions are inferred to have, as Spark gives them."""

from __future__ import annotations

import pytest

from tempura.algebra.op import show_tree
from tempura.catalog import Catalog, Table
from tempura.schema import Column
from tempura.sql.bind import bind
from tempura.sql.bind.types import common_decimal

CATALOG = Catalog(
    Table("t", (Column("i", "int", False), Column("n", "int"), Column("l", "bigint"), Column("d", "decimal(7,2)"), Column("p", "decimal(38,10)"), Column("w", "decimal(38,0)"), Column("f", "float"), Column("x", "double"), Column("s", "string"), Column("day", "date"), Column("st", "struct<f: string, g: struct<h: bigint>>"), Column("arr", "array<int>"), Column("mp", "map<string, decimal(7,2)>"))),
)  # fmt: skip

CASES = {
    "i": "int not null",
    "s || s": "string",
    "pow(i, 2)": "double",
    "st.f": "string",
    "st.g.h": "bigint",
    "arr[0]": "int",
    "mp['k']": "decimal(7,2)",
    "regexp_extract(s, 'x', 0)": "string",
    "my_function(s)": "unknown",
    "day + INTERVAL 1 DAY": "date",
    "day + INTERVAL 1 HOUR": "unknown",
    "try_cast(i AS tinyint)": "tinyint",
    "CAST(i AS decimal(20,2))": "decimal(20,2) not null",
    "CAST(i AS decimal(5,2))": "decimal(5,2)",
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
    "d * -1": "decimal(9,2)",
    "-1 * d": "decimal(9,2)",
    "d / -100": "decimal(11,6)",
    "d * -(1)": "decimal(18,2)",
    "from_json(s, 'a INT, `b c` STRUCT<D: MAP<STRING, INT>>')": "struct<a:int,`b c`:struct<D:map<string,int>>>",
    "from_json(s, 'a INT NOT NULL')": "unknown",
    "from_json(s, 'ARRAY<DATE>')": "array<date>",
    "from_json(s, 'nonsense!')": "unknown",
    "map_concat(str_to_map(s), str_to_map('a:1'))": "map<string,string>",
    "date_add(day, 1)": "date",
    "day - CAST(day AS timestamp_ntz)": "unknown",
    "CAST(n AS tinyint) << 2": "int",
    "coalesce(day, CAST(day AS timestamp_ntz))": "timestamp_ntz",
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
    "CASE WHEN n > 1 THEN p ELSE 1.123456789012 END": "decimal(38,10)",
    "coalesce(p, w)": "decimal(38,0)",
    "coalesce(p, l)": "decimal(38,10)",
    "if(n > 1, d * d, p)": "decimal(38,10)",
    "greatest(w, d)": "decimal(38,0)",
    "p + w": "decimal(38,6)",
    "coalesce(f, n)": "double",
    "coalesce(f, d)": "double",
    "coalesce(f, f)": "float",
    "coalesce(n, 0)": "int not null",
    "if(n > 1, l, i)": "bigint",
    "CAST(d AS BIGINT)": "bigint",
    "CAST(i AS DECIMAL(10, 2))": "decimal(10,2)",
    "CAST(s AS INT)": "int",
    "upper(s)": "string",
    "substr(s, 1, 2)": "string",
    "length(s)": "int",
    "year(day)": "int",
    "day + INTERVAL 3 DAYS": "date",
    "round(d, 1)": "decimal(7,1)",
    "round(p, 20)": "decimal(38,10)",
    "round(d, -2)": "decimal(6,0)",
    "round(d, n)": "unknown",
    "floor(d)": "decimal(6,0)",
    "floor(w)": "decimal(38,0)",
    "floor(d, 1)": "unknown",
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


# Past 38 digits, Spark 4 lets set operations, CASE and COALESCE give up scale, and arithmetic as well, but there six digits stay.
@pytest.mark.parametrize(
    ("a", "b", "common"),
    [
        ((7, 2), (10, 0), "decimal(12,2)"),
        ((38, 19), (38, 2), "decimal(38,2)"),
        ((38, 38), (7, 2), "decimal(38,33)"),
        ((38, 19), (20, 0), "decimal(38,18)"),
        ((27, 17), (38, 9), "decimal(38,9)"),
        ((38, 0), (5, 5), "decimal(38,0)"),
    ],
)
def test_the_decimal_for_two(a: tuple[int, int], b: tuple[int, int], common: str):
    assert common_decimal(a, b) == common_decimal(b, a) == common


def test_the_sides_of_a_union_are_cast_to_the_decimal_for_both():
    root = bind("SELECT p AS c FROM t UNION ALL SELECT w FROM t", CATALOG).root
    assert root.schema == (Column("c", "decimal(38,0)"),)
    assert "CAST(p AS DECIMAL(38, 0)) as p" in show_tree(root)


def test_long_chains_are_typed_in_no_time():
    """Each part is looked at once: twice would be forever."""
    (column,) = bind(f"SELECT {' || '.join(['s'] * 60)} AS x FROM t", CATALOG).root.schema
    assert column.type == "string"
