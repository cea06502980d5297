"""Functions print as they were written, and mistakes are found where they are."""

from __future__ import annotations

import pytest
from sqlglot import exp

from tempura.errors import SqlError
from tempura.expr import parse
from tempura.sql.bind.query import parsed
from tempura.sqltext import read_expression, read_statements
from tempura.volatile import volatile_function

KINDS = {"s": "string", "d": "date", "m": "map<string,string>"}
WRITTEN = {
    "log10(x)": "LOG10(x)",
    "log2(x)": "LOG2(x)",
    "c * mod(a, b)": "c * MOD(a, b)",
    "date_sub(d, a - b)": "DATE_SUB(d, a - b)",
    "date_trunc(unit, ts)": "DATE_TRUNC(unit, ts)",
    "to_char(e, '999.99')": "TO_CHAR(e, '999.99')",
    "sequence(a, b, c)": "SEQUENCE(a, b, c)",
    "listagg(c)": "LISTAGG(c)",
    "percentile(a, 0.5, n)": "PERCENTILE(a, 0.5, n)",
    "percentile_cont(0.5) WITHIN GROUP (ORDER BY a DESC)": "PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY a DESC)",
    "ts - interval 1 day 2 hours": "ts - (INTERVAL '1' DAY + INTERVAL '2' HOURS)",
    "ts + interval 1 day": "ts + INTERVAL '1' DAY",
    "nvl(a, substr(b, 1, 2))": "COALESCE(a, SUBSTRING(b, 1, 2))",
    "a like any ('x%', 'y%')": "a LIKE ANY ('x%', 'y%')",
    "exists(xs, x -> x > 1)": "EXISTS(xs, x -> x > 1)",
    "concat('it''s', \"a\"\"b\", 'c' 'd')": r"""CONCAT('it\'s', 'a"b', CONCAT('c', 'd'))""",
    "concat('', '''')": r"CONCAT('', '\'')",
    "to_date(x)": "TO_DATE(x)",
    "to_date(f(x, 1), 'yyyy-MM-dd')": "TO_DATE(F(x, 1), 'yyyy-MM-dd')",
    "`ＩＤ` + `week`": "`ＩＤ` + `week`",
}


@pytest.mark.parametrize(("text", "printed"), WRITTEN.items(), ids=WRITTEN)
def test_functions_print_as_they_were_written(text: str, printed: str):
    tree = read_expression(f"SELECT {text}")
    assert tree.sql(dialect="spark") == f"SELECT {printed}"
    again = read_expression(tree.sql(dialect="spark"))
    assert again.sql(dialect="spark") == tree.sql(dialect="spark")


def test_comments_after_the_end_are_no_statement():
    assert len(read_statements("SELECT 1; -- monthly report")) == 1
    assert read_expression("SELECT 1;\n/* end */\n").sql() == "SELECT 1"


def test_windows_of_time_are_no_clause():
    """`GROUP BY window(…)` begins like WINDOW, which defines windows of rows."""
    grouped = read_expression("SELECT window.start AS window FROM t GROUP BY window(ts, '1 day') HAVING window.end > x")
    assert grouped.args["group"].sql("spark") == "GROUP BY WINDOW(ts, '1 day')"
    named = read_expression(
        "WITH window(a) AS (SELECT 1) SELECT sum(a) OVER w FROM window WINDOW w AS (PARTITION BY a)"
    )
    assert len(named.args["windows"]) == 1 and named.args["with_"].expressions[0].alias == "window"


def test_any_is_an_aggregate_unless_it_quantifies():
    assert isinstance(read_expression("SELECT any(b > 1)").expressions[0], exp.LogicalOr)
    assert read_expression("SELECT a = any (SELECT 1)").find(exp.LogicalOr) is None


def test_mistakes_are_found_where_they_are():
    with pytest.raises(SqlError) as failed:
        parsed("SELECT log10(x),\n  listagg(a FROM t")
    assert (failed.value.line, failed.value.column) == (2, 13)
    with pytest.raises(SqlError, match="near 'log10'"):
        parsed("SELECT a b log10(x) FROM t")


def test_several_statements_are_told_apart():
    assert len(read_statements("SELECT log10(1); SELECT 2;")) == 2


@pytest.mark.parametrize(
    "text", ["localtimestamp()", "shuffle(a)", "randstr(3)", "uniform(1, 2)", "unix_timestamp()", "now()", "curdate()", "input_file_name()", "date 'today'", "cast('now' as timestamp)",
             "d = 'today'", "d <=> ('Tomorrow')", "d <> ' yesterday Europe/Berlin '", "d NOT IN (s, 'now')", "d BETWEEN s AND 'today+01:00'", "unknown = 'now'", "date_sub('today', 7)", "datediff(d, 'today')",
             "'today' - interval 1 day", "coalesce(d, 'today')", "CASE WHEN s = 'x' THEN d ELSE 'today' END", "CASE d WHEN 'today' THEN 1 END", "if(s > 'x', 'today', d)", "to_timestamp(s) > 'now'"]
)  # fmt: skip
def test_what_another_evaluation_changes_is_known(text: str):
    assert volatile_function(parse(text).tree, KINDS)


@pytest.mark.parametrize(
    "text", ["'today'", "s = 'today'", "s <> 'now' OR s IS NULL", "s IN ('now', 'later')", "s < 'today'", "CASE WHEN d > s THEN 'today' WHEN d = s THEN 'yesterday' ELSE s END", "m['now']", "m['kind'] = 'now'",
             "lower(s) = 'now'", "string(d) = 'today'", "named_struct('x', s).x = 'today'", "coalesce(s, 'x') = 'now'", "s LIKE 'now'", "instr(s, 'now')", "concat(s, 'today')", "struct('now' AS at)", "d = 'epoch'", "d = 'todays'", "d = 'now UTC'"]
)  # fmt: skip
def test_words_for_days_are_texts_beside_texts(text: str):
    assert volatile_function(parse(text).tree, KINDS) is None


def test_the_time_of_a_value_is_not_the_time():
    assert volatile_function(parse("unix_timestamp(a)").tree) is None
    assert volatile_function(parse("date '2026-01-01'").tree) is None
