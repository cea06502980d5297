"""What cannot be bound says so: the construct, its place, and what to do."""

from __future__ import annotations

import pytest

from tempura.errors import SqlError
from tempura.sql.bind import bind
from tests.sql.test_bind import CATALOG

# The text; where the message points (line, column); words of the message; words of the hint.
CASES: list[tuple[str, tuple[int | None, int | None], str, str]] = [
    ("SELECT prise FROM sales", (1, 8), "unknown column 'prise'", "did you mean 'price'?"),
    ("SELECT s.prise\nFROM sales s", (1, 8), "'s' has no column 'prise'", "did you mean 'price'?"),
    ("SELECT item.kind FROM items item", (1, 8), "'item' has no column 'kind'", "known here: item, category"),
    ("SELECT 1 FROM sales s WHERE EXISTS (SELECT 1 FROM returns WHERE s.prise > cost)", (1, 65), "'s' has no column 'prise'", "did you mean 'price'?"),
    ("SELECT x.price FROM sales s", (1, 8), "no table 'x'", "known here: s"),
    ("SELECT price\nFROM sails", (2, 6), "unknown table 'sails'", "did you mean 'sales'?"),
    ("SELECT o_id\nFROM sales, returns", (1, 8), "column 'o_id' is ambiguous: sales.o_id, returns.o_id", "alias"),
    ("SELECT a.price FROM sales a, sales a", (1, 8), "'a' names more than one table", "alias"),
    ("SELECT o_id FROM sales WHERE sum(price) > 1", (1, 30), "an aggregate in WHERE: sum(price)", "HAVING"),
    ("SELECT x.o_id FROM sales s JOIN returns x ON s.o_id = x.o_id WHERE sum(x.o_id) > 1", (1, 68), "an aggregate in WHERE: sum(x.o_id)", "HAVING"),
    ("SELECT o_id FROM sales s GROUP BY o_id HAVING EXISTS (SELECT 1 FROM returns r WHERE r.cost > max(s.price))", (1, 94), "an aggregate of the query around is not supported in a sub-query: max(s.price)", "derived table"),
    ("SELECT o_id FROM sales WHERE rank() OVER (ORDER BY o_id) = 1", (1, 30), "a window function in WHERE", "QUALIFY"),
    ("SELECT o_id,\n  price FROM sales GROUP BY o_id", (2, 3), "column 'price' is neither grouped nor aggregated", "GROUP BY"),
    ("SELECT o_id,\n  price, sum(price) AS price FROM sales GROUP BY o_id", (2, 3), "column 'price' is neither grouped nor aggregated", "GROUP BY"),
    ("SELECT o_id, (SELECT max(cost) FROM returns) AS m, sum(price) AS n FROM sales GROUP BY ALL", (1, 22), "a sub-query in GROUP BY is not supported", "derived table"),
    ("SELECT o_id FROM sales GROUP BY o_id HAVING price > 1", (1, 45), "column 'price' is neither grouped", "GROUP BY"),
    ("SELECT o_id, price AS __w FROM sales", (None, None), "'__w', a name that plans use themselves", "another alias"),
    ("SELECT o_id AS x__K FROM sales", (None, None), "'x__K', a name that plans use themselves", "another alias"),
    ("SELECT note FROM sales UNION SELECT 1", (None, None), "'note' is a string on one side of a set operation and int on another", "cast"),
    ("SELECT sum(max(price)) FROM sales", (1, 8), "an aggregate inside an aggregate", "derived table"),
    ("SELECT count(*) FROM sales GROUP BY sum(price)", (1, 37), "an aggregate in GROUP BY", ""),
    ("SELECT * EXCEPT (prise) FROM sales", (1, 8), "EXCEPT names 'prise', which `*` does not have", "did you mean 'price'?"),
    ("SELECT o_id FROM sales GROUP BY 2", (1, 33), "position 2 is not in the select list", ""),
    ("SELECT o_id FROM sales ORDER BY 2", (1, 33), "position 2 is not in the select list", ""),
    ("SELECT o_id FROM sales\nUNION SELECT o_id, cost FROM returns", (2, 14), "UNION of 1 and 2 columns", "same number"),
    ("SELECT DISTINCT o_id FROM sales ORDER BY price", (1, 42), "ORDER BY of SELECT DISTINCT", "select list"),
    ("SELECT grouping(o_id) FROM sales GROUP BY o_id", (1, 8), "grouping() and grouping_id() need ROLLUP", ""),
    ("SELECT o_id FROM sales LIMIT 1 + rand()", (1, 30), "LIMIT must be a constant", "number"),
    ("SELECT o_id FROM sales LIMIT 1 - 2", (1, 30), "LIMIT must be a constant", "number"),
    ("SELECT o_id FROM sales LATERAL VIEW explode(note) e AS x", (1, 37), "LATERAL VIEW is not supported", "explode"),
    ("SELECT o_id FROM sales, LATERAL (SELECT 1) q", (1, 41), "LATERAL in FROM is not supported", ""),
    ("SELECT * FROM sales PIVOT (sum(price) FOR item IN (1, 2))", (1, 15), "PIVOT and UNPIVOT are not supported", ""),
    ("SELECT * FROM sales s JOIN returns r ON s.o_id = r.o_id PIVOT (sum(price) FOR item IN (1, 2))", (1, 28), "PIVOT and UNPIVOT are not supported", ""),
    ("SELECT * FROM sales s JOIN returns r USING (o_id) UNPIVOT (v FOR n IN (price, cost))", (1, 28), "PIVOT and UNPIVOT are not supported", ""),
    ("FROM sales\n|> LIMIT 10 |> WHERE price > 1", (2, 1), "the pipe syntax, `|>`, is not supported", "sub-queries"),
    ("SELECT o_id FROM sales WHERE to_json(struct(*)) = note", (1, 38), "`*` is not supported here", "name the columns"),
    ("SELECT coalesce(*) FROM sales", (1, 8), "`*` is not supported here", "name the columns"),
    ("SELECT o_id FROM sales s WHERE price >= ALL (SELECT avg(cost) FROM returns r WHERE r.o_id = s.o_id)", (1, 32), "ANY or ALL of a correlated aggregate", "one value"),
    ("SELECT note.* FROM sales", (1, 8), "'note' is a column, and `*` is of tables", "note.a, note.b"),
    (f"SELECT o_id FROM sales WHERE {' OR '.join(f'o_id = {i}' for i in range(20_000))}", (None, None), "nested too deeply", "IN (…)"),
    ("SELECT o_id FROM sales TABLESAMPLE (10 PERCENT)", (1, 18), "TABLESAMPLE is not supported", ""),
    ("SELECT o_id FROM sales VERSION AS OF 3", (1, 18), "time travel is not supported", ""),
    ("WITH RECURSIVE r AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM r) SELECT * FROM r", (1, 16), "recursive CTE 'r'", "unroll"),
    ("SELECT id FROM range(10)", (1, 16), "table function RANGE(10)", "table"),
    ("SELECT explode(note) FROM sales", (1, 8), "EXPLODE gives several rows", "table"),
    ("SELECT stack(2, o_id, item) FROM sales", (1, 8), "STACK gives several rows", "table"),
    ("SELECT DISTINCT ON (o_id) price FROM sales", (1, 21), "DISTINCT ON is not supported", "QUALIFY"),
    ("SELECT (SELECT o_id, cost FROM returns) AS x FROM sales", (1, 16), "a scalar sub-query gives one column", ""),
    ("SELECT o_id FROM sales WHERE o_id IN (SELECT o_id, cost FROM returns)", (1, 30), "1 value(s) are compared", ""),
    ("SELECT o_id FROM sales s WHERE EXISTS (SELECT 1 FROM (SELECT * FROM returns r WHERE r.o_id = s.o_id) q)", (1, 94), "'s.o_id' belongs to the query around", "LATERAL"),
    ("SELECT price FROM sales JOIN returns USING (cost)", (1, 45), "column 'cost' of USING does not exist", ""),
    ("SELECT o_id FROM sales QUALIFY price > 1", (1, 32), "QUALIFY needs a window function", "WHERE"),
    ("SELECT sum(price) OVER w FROM sales", (1, 8), "no window 'w'", "WINDOW"),
    ("VALUES (1, 2), (3)", (1, 17), "a row of VALUES has 1 values, the first has 2", ""),
    ("SELECT s.o_id FROM sales s ASOF JOIN returns r ON s.o_id = r.o_id", (1, 38), "ASOF JOIN is not supported", ""),
    ("SELECT s.o_id FROM sales s LEFT JOIN returns r ON s.o_id = r.o_id AND s.item IN (SELECT item FROM items)", (1, 71), "a sub-query in the ON clause", "derived table"),
    ("SELECT o_id FROM sales s WHERE o_id > 5 OR price > ALL (SELECT cost FROM returns)", (1, 44), "ALL inside an expression", "EXISTS"),
    ("SELECT NOT (item IN (SELECT o_id FROM returns r WHERE r.cost > s.price)) AS x FROM sales s", (1, 13), "its NULLs matter", "EXISTS"),
    ("SELECT session_window(day, '1 day') FROM sales", (1, 8), "session_window() is not supported", "use window()"),
    ("SELECT o_id FROM sales WHERE window(day, '1 day').start > day", (1, 30), "window() is supported in the select list and in GROUP BY only", "derived table"),
    ("SELECT s.o_id FROM sales s JOIN items ON window(s.day, '1 day').start = s.day", (1, 42), "window() is supported in the select list", "derived table"),
    ("SELECT window(day, '1 day') AS w FROM sales ORDER BY window(day, '1 day')", (1, 54), "window() is supported in the select list", "called `window`"),
    ("SELECT count(*) FROM sales GROUP BY window(day, '1 day') HAVING window(day, '1 day').start > now()", (1, 65), "window() is supported in the select list", "called `window`"),
    ("SELECT window(day, '1 day') AS a, window(day, '2 days') AS b FROM sales", (1, 35), "two different windows of time", "derived table"),
    ("SELECT window(day) FROM sales", (1, 8), "window() takes a time, a size", "'1 hour'"),
    ("SELECT window(day, '1 month') FROM sales", (1, 20), "'1 month' is no duration of a window", "'1 day 12 hours'"),
    ("SELECT window(day, INTERVAL '1' DAY) FROM sales", (1, 29), "INTERVAL '1' DAY is no duration of a window", "write a text"),
    ("SELECT window(day, note) FROM sales", (1, 20), "note is no duration of a window", "write a text"),
    ("SELECT window(day, '1 day', '2 days') FROM sales", (1, 8), "slides by no more than its size", "0 < slide <= size"),
    ("SELECT window(day, '1 day', '1 day', '-1 day') FROM sales", (1, 8), "starts less than that from 1970", "abs(start) < slide"),
    ("SELECT window(day, '0 days') FROM sales", (1, 8), "a window slides", "0 < slide"),
    ("SELECT window(item, '1 day') FROM sales", (1, 8), "window() of a value of type int is not supported", "CAST(… AS TIMESTAMP)"),
    ("SELECT window(my_time(note), '1 day') FROM sales", (1, 8), "window() of a value of type unknown is not supported", "CAST(… AS TIMESTAMP)"),
    ("SELECT window(w, '2 days') FROM (SELECT window(day, '1 day') AS w FROM sales)", (1, 8), "window() of a window is not supported", "w.end - INTERVAL 1 MICROSECOND"),
    ("SELECT window_time(w) FROM (SELECT window(day, '1 day') AS w FROM sales)", (1, 8), "window_time() is not supported", "w.end - INTERVAL 1 MICROSECOND"),
    ("SELECT window((SELECT max(day) FROM sales), '1 day') FROM sales", (1, 8), "window() of a sub-query is not supported", "derived table"),
    ("SELECT window(max(day), '1 day') FROM sales", (1, 8), "window() of an aggregate is not supported", "derived table"),
    ("SELECT o_id FROM sales s WHERE EXISTS (SELECT count(*) FROM items GROUP BY window(s.day, '1 day'))", (1, 76), "window() of a column of the query around is not supported", "derived table"),
    ("SELECT o_id FROM sales WHERE", (1, 24), "cannot be read: something is missing", "Spark SQL"),
    ("SELECT o_id FROM sales; SELECT 1", (None, None), "2 statements", "one SELECT"),
    ("DELETE FROM sales", (1, 13), "DELETE is not a query", "SELECT"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "place", "message", "hint"), CASES, ids=[c[0][:60] for c in CASES])
def test_errors(text: str, place: tuple[int | None, int | None], message: str, hint: str):
    with pytest.raises(SqlError) as caught:
        bind(text, CATALOG)
    assert message in caught.value.message
    assert hint in caught.value.hint
    assert (caught.value.line, caught.value.column) == place
