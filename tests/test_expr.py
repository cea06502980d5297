"""What an expression may do, told from its text."""

from __future__ import annotations

import pytest

from tempura.expr import may_fail, parse
from tempura.failing import fails
from tempura.schema import Column

SAFE = ("a + b", "(a + b) / 2", "a % (7)", "a div 10", "cast('1' AS int)", "CASE WHEN a = 1 THEN 2 END")
FAILING = ("a / b", "a % 0", "a / (b - 1)", "xs[a]", "my_function(a)", "cast(code AS int)", "code / 2", "a / '2'")


@pytest.mark.parametrize("text", SAFE)
def test_what_cannot_fail(text: str):
    assert not may_fail(parse(text), frozenset("ab"))


@pytest.mark.parametrize("text", FAILING)
def test_what_may_fail(text: str):
    assert may_fail(parse(text), frozenset("ab"))


SCHEMA = (Column("s", "string"), Column("u", "string"), Column("n", "int"), Column("d", "date"))


@pytest.mark.parametrize(
    "text",
    ["s = 'x'", "s IN ('a', 'b') OR u LIKE 'b%'", "s IS NULL", "NOT s <=> u", "coalesce(s, 'x')", "if(n = 1, s, u)", "CASE WHEN s = 'a' THEN n END",
     "CASE WHEN n > 1 THEN s ELSE 'z' END = u", "substring(s, 1, 2) IN ('a')", "s BETWEEN 'a' AND 'b'", "concat(s, ', ', u)", "length(s) > 3", "year(d)",
     "CAST(d AS STRING) = s", "d > CAST('2020-01-01' AS DATE)", "n / 2"],
)  # fmt: skip
def test_texts_that_stay_texts_do_not_fail(text: str):
    assert not fails(parse(text), SCHEMA)


@pytest.mark.parametrize(
    "text",
    ["s = 5", "s > n", "s + 1", "-s", "year(s)", "to_date(s)", "coalesce(s, 0)", "s IN (4, 5)", "CASE s WHEN 1 THEN 2 END", "if(n = 1, s, 0) > 1", "CAST(s AS INT)", "n / n", "d < s",
     "substring(s, 2) > 100", "to_date(substring(s, 1, 10))", "concat('20', s) >= 2024", "replace(s, ',', '') * 1.0"],
)  # fmt: skip
def test_texts_that_spark_casts_may_fail(text: str):
    assert fails(parse(text), SCHEMA)
