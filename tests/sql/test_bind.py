"""The trees that the binder makes of each construct."""

from __future__ import annotations

from textwrap import dedent

import pytest

from tempura.algebra import InnerJoin, Scan, SortKey, TopK
from tempura.algebra.op import Op, show_tree
from tempura.catalog import Catalog, Table
from tempura.schema import Column
from tempura.sql.bind import bind

CATALOG = Catalog(
    Table("sales", (Column("o_id", "int", False), Column("day", "date"), Column("item", "int"), Column("price", "decimal(7,2)"), Column("note", "string")), key=("o_id",)),
    Table("returns", (Column("o_id", "int", False), Column("cost", "decimal(7,2)"))),
    Table("items", (Column("item", "int", False), Column("category", "string"), Column("Brand", "string")), key=("item",)),
)  # fmt: skip


def tree(text: str) -> str:
    return show_tree(bind(text, CATALOG).root)


def same(text: str, expected: str) -> None:
    assert tree(text) == dedent(expected).strip()


def test_only_used_columns_are_read():
    same("SELECT price FROM sales WHERE note = 'x'", """
        Project[price]
          Filter[note = 'x']
            Project[price, note]
              Scan[sales]
    """)  # fmt: skip


def test_all_columns_need_no_projection():
    same("SELECT * FROM returns", "Scan[returns]")


def test_what_is_drawn_for_a_group_is_drawn_once():
    drawn = tree("SELECT floor(rand() * 3) AS r, count(*) AS n FROM sales GROUP BY r HAVING r > 0.5 AND -r < 0")
    assert drawn.lower().count("rand()") == 1 and "Filter[-r < 0 AND r > 0.5]" in drawn


def test_counting_reads_the_key():
    same("SELECT count(*) AS n FROM sales", """
        Aggregate[count(*) as n]
          Project[o_id]
            Scan[sales]
    """)  # fmt: skip


def test_comma_joins_get_their_conditions_and_tables_their_filters():
    same("SELECT s.price, i.category FROM sales s, items i WHERE s.item = i.item AND i.category = 'c' AND s.price > 1", """
        Project[price, category]
          InnerJoin[item = item_1]
            Filter[price > 1]
              Project[item, price]
                Scan[sales]
            Project[item as item_1, category]
              Filter[category = 'c']
                Project[item, category]
                  Scan[items]
    """)  # fmt: skip


def test_a_table_that_nothing_connects_yet_waits():
    text = "SELECT r.cost FROM items i, returns r, sales s WHERE s.o_id = r.o_id AND s.item = i.item"
    joins = [op for op in bind(text, CATALOG).root.walk() if isinstance(op, InnerJoin)]
    assert [repr(j.on) for j in joins] == ["item_1 = item", "o_id_1 = o_id"]


def test_what_is_common_to_all_branches_of_an_or_joins():
    same("SELECT s.price FROM sales s, returns r WHERE (s.o_id = r.o_id AND s.price > 1) OR (s.o_id = r.o_id AND r.cost > 2)", """
        Project[price]
          InnerJoin[o_id = o_id_1 AND price > 1 OR cost > 2]
            Project[o_id, price]
              Scan[sales]
            Project[o_id as o_id_1, cost]
              Scan[returns]
    """.replace("AND price > 1 OR cost > 2", "AND (price > 1 OR cost > 2)"))  # fmt: skip


def test_filters_stay_above_the_padded_side():
    same("SELECT s.o_id, r.cost FROM sales s LEFT JOIN returns r ON s.o_id = r.o_id AND r.cost > 1 WHERE s.price > 2 AND r.cost < 9", """
        Project[o_id, cost]
          Filter[cost < 9]
            LeftOuterJoin[o_id = o_id_1]
              Filter[price > 2]
                Project[o_id, price]
                  Scan[sales]
              Project[o_id as o_id_1, cost]
                Filter[cost > 1]
                  Scan[returns]
    """)  # fmt: skip


def test_right_join_is_a_left_join_swapped():
    same("SELECT r.cost FROM sales s RIGHT JOIN returns r ON s.o_id = r.o_id", """
        Project[cost]
          LeftOuterJoin[o_id = o_id_1]
            Project[o_id as o_id_1, cost]
              Scan[returns]
            Project[o_id]
              Scan[sales]
    """)  # fmt: skip


def test_full_join_using_merges_the_column():
    assert "COALESCE(o_id, o_id_1) as o_id" in tree("SELECT o_id FROM sales FULL JOIN returns USING (o_id)")


LEFT, RIGHT = "(SELECT item, price, o_id FROM sales) l", "(SELECT cost, o_id FROM returns) r"


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        (f"SELECT * FROM {LEFT} JOIN {RIGHT} USING (o_id)", "o_id item price cost"),
        (f"SELECT l.* FROM {LEFT} JOIN {RIGHT} USING (o_id)", "o_id item price"),
        (f"SELECT r.* FROM {LEFT} LEFT JOIN {RIGHT} USING (o_id)", "o_id cost"),
        (f"SELECT l.* FROM {LEFT} NATURAL FULL JOIN {RIGHT}", "o_id item price"),
        (f"SELECT * FROM {LEFT} LEFT ANTI JOIN {RIGHT} USING (o_id)", "o_id item price"),
        (f"SELECT * FROM {RIGHT} RIGHT JOIN ({LEFT} JOIN items USING (item)) USING (o_id)", "o_id cost item price category Brand"),
        (f"SELECT * FROM items i JOIN ({LEFT} FULL JOIN {RIGHT} USING (o_id)) ON i.item > cost", "item category Brand o_id item_1 price cost"),
    ],
)  # fmt: skip
def test_stars_show_what_using_makes_equal_first(text: str, columns: str):
    assert [c.name for c in bind(text, CATALOG).root.schema] == columns.split()


def test_a_cte_is_bound_once_and_shared():
    text = """
        WITH q AS (SELECT item, sum(price) AS total FROM sales GROUP BY item)
        SELECT a.total FROM q a JOIN q b ON a.item = b.item
    """
    aggregates = [op for op in bind(text, CATALOG).root.walk() if type(op).__name__ == "Aggregate"]
    assert len(aggregates) == 2 and aggregates[0] is aggregates[1]


def test_two_uses_of_one_sub_query_are_equal_trees():
    text = """
        SELECT a.m, b.m AS n FROM (SELECT item, max(price) AS m FROM sales GROUP BY item) a
        JOIN (SELECT item, max(price) AS m FROM sales GROUP BY item) b ON a.item = b.item
    """
    join = next(op for op in bind(text, CATALOG).root.walk() if isinstance(op, InnerJoin))
    left, right = join.inputs
    assert right.inputs[0] == left


def test_uses_of_one_table_in_a_block_read_the_same_columns():
    text = "SELECT a.price, b.note FROM sales a, sales b WHERE a.o_id = b.item"
    reads = {show_tree(op) for op in bind(text, CATALOG).root.walk() if op.inputs and isinstance(op.inputs[0], Scan)}
    assert reads == {"Project[o_id, item, price, note]\n  Scan[sales]"}


def test_names_are_compared_without_case_and_shown_as_spelled():
    query = bind("SELECT S.O_ID AS Id, BRAND FROM Sales s, ITEMS WHERE s.item = items.item", CATALOG)
    assert [c.name for c in query.root.schema] == ["Id", "BRAND"]
    assert all(
        c.name == c.name.lower()
        for op in query.root.walk()
        if not isinstance(op, Scan) and op is not query.root
        for c in op.schema
    )


def test_equal_output_names_are_made_different():
    assert [c.name for c in bind("SELECT o_id, o_id, price AS O_ID FROM sales", CATALOG).root.schema] == [
        "o_id",
        "o_id_1",
        "O_ID_2",
    ]
    assert [c.name for c in bind("SELECT o_id AS İl FROM sales", CATALOG).root.schema] == ["İl"]


def test_computed_group_keys_are_projected_below():
    same("SELECT price * 2 AS twice, count(*) AS n FROM sales GROUP BY price * 2", """
        Aggregate[twice; count(*) as n]
          Project[price * 2 as twice]
            Project[price]
              Scan[sales]
    """)  # fmt: skip


def test_grouping_sets_expand_and_copy_what_is_also_aggregated():
    same("SELECT item, day, grouping(day) AS g, sum(item) AS n FROM sales GROUP BY ROLLUP (item, day)", """
        Project[item, day, CAST((grouping_id & 1) AS TINYINT) as g, n]
          Aggregate[item, day, grouping_id; sum(item_value) as n]
            Expand[(item,day) (item) () as grouping_id]
              Project[day, item, item as item_value]
                Project[day, item]
                  Scan[sales]
    """)  # fmt: skip


@pytest.mark.parametrize(
    ("clause", "sets"),
    [
        ("ROLLUP (item, day)", "(item,day) (item) ()"),
        ("CUBE (item, day)", "(item,day) (item) (day) ()"),
        ("item, ROLLUP (day)", "(item,day) (item)"),
        ("GROUPING SETS ((item), (day, item), ())", "(item) (item,day) ()"),
        ("ROLLUP ((item, day))", "(item,day) ()"),
        ("item, day WITH ROLLUP", "(item,day) (item) ()"),
        ("item, day WITH CUBE", "(item,day) (item) (day) ()"),
        ("item, day GROUPING SETS ((day), (item))", "(day) (item)"),
        ("GROUPING SETS ((item), ROLLUP (day))", "(item) (day) ()"),
        ("GROUPING SETS ((item), (item))", "(item) (item)"),
    ],
)
def test_grouping_sets(clause: str, sets: str):
    assert f"Expand[{sets} as grouping_id]" in tree(f"SELECT count(*) AS n FROM sales GROUP BY {clause}")


@pytest.mark.parametrize(
    ("call", "shown"),
    [
        ("count(*)", "count(*)"),
        ("count(1)", "count(*)"),
        ("count(price)", "count(price)"),
        ("count(DISTINCT price)", "count(distinct price)"),
        ("count(DISTINCT price, item)", "count(distinct IF(price IS NULL OR item IS NULL, NULL, STRUCT(price, item)))"),
        ("mean(price)", "avg(price)"),
        ("stddev(price)", "stddev_samp(price)"),
        ("std(price)", "stddev_samp(price)"),
        ("variance(price)", "var_samp(price)"),
        ("var_pop(price)", "var_pop(price)"),
        ("every(price > 1)", "bool_and(price > 1)"),
        ("some(price > 1)", "bool_or(price > 1)"),
        ("any_value(price)", "any_value(price)"),
        ("max(DISTINCT price)", "max(price)"),
        ("sum(price) FILTER (WHERE item > 1)", "sum(price) filter (item > 1)"),
        ("count_if(item > 1)", "count(*) filter (item > 1)"),
        ("count_if(item > 1) FILTER (WHERE price > 2)", "count(*) filter (item > 1 AND price > 2)"),
        ("collect_list(price)", "COLLECT_LIST(price)"),
        ("percentile(price, 0.5)", "PERCENTILE(price, 0.5)"),
        ("first(price)", "FIRST(price)"),
    ],
)
def test_aggregate_calls(call: str, shown: str):
    assert tree(f"SELECT {call} AS x FROM sales").splitlines()[0] == f"Aggregate[{shown} as x]"


def test_window_orders_are_completed_where_ties_would_decide():
    same("SELECT o_id, row_number() OVER (PARTITION BY item ORDER BY price DESC) AS r, rank() OVER (PARTITION BY item ORDER BY price) AS k FROM sales", """
        Project[o_id, r, k]
          Window[item; ROW_NUMBER() OVER (PARTITION BY item ORDER BY price DESC, o_id ASC) as r, RANK() OVER (PARTITION BY item ORDER BY price) as k]
            Project[o_id, item, price]
              Scan[sales]
    """)  # fmt: skip


def test_no_ties_are_broken_where_there_are_none():
    text = "SELECT item, day, sum(sum(price)) OVER (PARTITION BY item ORDER BY day ROWS UNBOUNDED PRECEDING) AS s FROM sales GROUP BY item, day"
    assert "ORDER BY day ROWS" in tree(text)
    assert "ORDER BY day, " in tree(text.replace("PARTITION BY item ", ""))


def test_windows_by_different_partitions_are_different_operators():
    text = "SELECT sum(price) OVER (PARTITION BY item) AS a, sum(price) OVER (PARTITION BY day + 1) AS b FROM sales"
    assert [op.partition for op in bind(text, CATALOG).root.walk() if type(op).__name__ == "Window"] == [
        ("item",),
        ("day_1",),
    ]  # type: ignore[attr-defined]


def test_limit_is_a_topk_with_all_columns_as_tie_breakers():
    query = bind("SELECT price, o_id, day FROM sales ORDER BY day DESC LIMIT 3 OFFSET 2", CATALOG)
    assert isinstance(query.root, TopK)
    assert query.root.order == (SortKey("day", True, False), SortKey("price"), SortKey("o_id"))
    assert (query.root.limit, query.root.offset) == (3, 2)
    assert query.order == (SortKey("day", True, False),)


def test_order_by_a_hidden_column_is_dropped_after_the_limit():
    same("SELECT o_id FROM sales ORDER BY price + 1, item LIMIT 2", """
        Project[o_id]
          TopK[price_1, item, o_id; 2; 0]
            Project[o_id, price + 1 as price_1, item]
              Project[o_id, item, price]
                Scan[sales]
    """)  # fmt: skip


def test_order_without_limit_is_kept_beside_the_tree():
    query = bind("SELECT o_id AS x, price FROM sales ORDER BY 2 DESC NULLS FIRST, x", CATALOG)
    assert query.order == (SortKey("price", True, True), SortKey("x"))
    assert "TopK" not in show_tree(query.root)


def test_order_by_a_hidden_column_is_sorted_by_before_it_is_dropped():
    text = "SELECT o_id FROM sales ORDER BY price + 1, o_id DESC"
    same(text, """
        Project[o_id]
          TopK[price_1, o_id desc; None; 0]
            Project[o_id, price + 1 as price_1]
              Project[o_id, price]
                Scan[sales]
    """)  # fmt: skip
    assert bind(text, CATALOG).order == (SortKey("price_1"), SortKey("o_id", True, False))
    assert "TopK[o_id_7, o_id; None; 0]" in tree(
        "SELECT o_id FROM sales UNION SELECT o_id FROM returns ORDER BY o_id % 7"
    )


def test_an_order_that_nobody_sees_is_left_out():
    for text in (
        "SELECT o_id FROM sales ORDER BY price",
        "SELECT o_id FROM sales UNION ALL SELECT 1 ORDER BY o_id % 7",
    ):
        inner = bind(f"SELECT count(*) FROM ({text})", CATALOG)
        assert "TopK" not in show_tree(inner.root) and inner.order == ()


def test_exists_and_in_are_semi_joins_on_the_table_they_speak_of():
    same("SELECT s.price FROM sales s, items i WHERE s.item = i.item AND EXISTS (SELECT 1 FROM returns r WHERE r.o_id = s.o_id AND r.cost > s.price)", """
        Project[price]
          InnerJoin[item = item_1]
            SemiJoin[cost > price AND o_id_1 = o_id]
              Project[o_id, item, price]
                Scan[sales]
              Project[o_id as o_id_1, cost]
                Scan[returns]
            Project[item as item_1]
              Project[item]
                Scan[items]
    """)  # fmt: skip


def test_not_in_of_columns_without_nulls_is_an_anti_join():
    same("SELECT price FROM sales WHERE o_id NOT IN (SELECT o_id FROM returns)", """
        Project[price]
          AntiJoin[o_id = o_id_1]
            Project[o_id, price]
              Scan[sales]
            Project[o_id as o_id_1]
              Project[o_id]
                Scan[returns]
    """)  # fmt: skip


def test_not_in_looks_for_nulls():
    assert "Filter[is_empty OR (NOT has_null AND NOT item IS NULL)]" in tree(
        "SELECT price FROM sales WHERE item NOT IN (SELECT cost FROM returns)"
    )


def test_scalar_sub_query_is_a_join_with_one_row():
    same("SELECT o_id FROM sales WHERE price > (SELECT avg(cost) FROM returns)", """
        Project[o_id]
          InnerJoin[price > avg_cost]
            Project[o_id, price]
              Scan[sales]
            Aggregate[avg(cost) as avg_cost]
              Project[cost]
                Scan[returns]
    """)  # fmt: skip


def test_scalar_sub_query_of_any_rows_checks_that_there_is_one():
    assert "Aggregate[single_value(cost) as cost]" in tree("SELECT o_id, (SELECT cost FROM returns) AS c FROM sales")


def test_correlated_count_is_zero_where_nothing_matches():
    same("SELECT o_id, (SELECT count(*) FROM returns r WHERE r.o_id = s.o_id) AS n FROM sales s", """
        Project[o_id, COALESCE(count, 0) as n]
          LeftOuterJoin[o_id_1 = o_id]
            Project[o_id]
              Scan[sales]
            Project[o_id as o_id_1, count]
              Aggregate[o_id; count(*) as count]
                Project[o_id]
                  Scan[returns]
    """)  # fmt: skip


def test_a_scalar_sub_query_by_key_needs_no_check():
    assert "single_value" not in tree("SELECT (SELECT category FROM items i WHERE i.item = s.item) AS c FROM sales s")


def test_other_correlation_is_evaluated_for_each_outer_value():
    text = tree("SELECT o_id, (SELECT count(*) FROM returns r WHERE r.cost < s.price) AS n FROM sales s")
    assert "Aggregate[outer_price; count(*) as count]" in text
    assert "LeftOuterJoin[outer_price IS NOT DISTINCT FROM price]" in text


def test_union_all_is_one_plus():
    same("SELECT o_id FROM sales UNION ALL SELECT o_id FROM returns UNION ALL SELECT item FROM items", """
        Plus
          Project[o_id]
            Scan[sales]
          Project[o_id]
            Scan[returns]
          Project[item as o_id]
            Project[item]
              Scan[items]
    """)  # fmt: skip


def test_sides_of_a_union_are_cast_to_their_common_type():
    query = bind("SELECT o_id AS x FROM sales UNION SELECT cost FROM returns", CATALOG)
    assert query.root.schema[0].type == "decimal(12,2)"
    assert "CAST(o_id AS DECIMAL(12, 2))" in show_tree(query.root)


def test_intersect_and_except():
    assert tree("SELECT o_id FROM sales INTERSECT SELECT o_id FROM returns").startswith(
        "SemiJoin[o_id IS NOT DISTINCT FROM o_id_1]\n  Aggregate[o_id]"
    )
    assert tree("SELECT o_id FROM sales MINUS SELECT o_id FROM returns").startswith(
        "AntiJoin[o_id IS NOT DISTINCT FROM o_id_1]\n  Aggregate[o_id]"
    )
    assert "Replicate[LEAST(n, m)]" in tree("SELECT o_id FROM sales INTERSECT ALL SELECT o_id FROM returns")
    less = tree("SELECT o_id FROM sales EXCEPT ALL SELECT o_id FROM returns")
    assert "Replicate[n - COALESCE(m, 0)]\n    Filter[n - COALESCE(m, 0) > 0]" in less


def test_struct_fields_and_lambdas_pass_through():
    catalog = Catalog(Table("t", (Column("s", "struct<f:int>"), Column("xs", "array<int>"))))
    query = bind("SELECT t.s.f AS f, s.f + 1 AS g, transform(xs, x -> x + s.f) AS ys FROM t", catalog)
    assert [repr(o.expr) for o in query.root.outputs] == ["s.f", "s.f + 1", "TRANSFORM(xs, __x_x -> __x_x + s.f)"]  # type: ignore[attr-defined]


def test_null_is_no_condition():
    assert (
        tree("SELECT s.o_id FROM sales s FULL JOIN returns r ON TRUE AND NULL").splitlines()[1]
        == "  FullOuterJoin[FALSE]"
    )
    found = tree("SELECT o_id FROM sales WHERE TRUE AND NULL GROUP BY o_id HAVING NULL AND count(*) > 1")
    assert "NULL" not in found and found.count("FALSE") == 2


def test_a_name_that_its_table_does_not_know_may_be_another():
    assert "STRUCT(item AS q).q as q" in tree("SELECT t.q FROM (SELECT struct(item AS q) AS t FROM sales) t")
    assert ".q as y" in tree("SELECT named_struct('p', price, 'q', item) AS t, t.q AS y FROM sales t")
    assert "price > cost" in tree(
        "SELECT 1 AS x FROM sales t WHERE EXISTS (SELECT 1 FROM returns t WHERE t.price > t.cost)"
    )


def test_non_deterministic_functions_are_bound_as_they_are():
    assert "Filter[RAND() < 0.5]" in tree("SELECT o_id FROM sales WHERE rand() < 0.5")


def test_no_placeholder_is_left_in_any_tree():
    text = """
        SELECT CASE WHEN EXISTS (SELECT 1 FROM returns r WHERE r.cost > s.price) THEN (SELECT max(cost) FROM returns r WHERE r.o_id = s.o_id) END AS x
        FROM sales s WHERE s.item IN (SELECT item FROM items) OR s.price > (SELECT avg(cost) FROM returns)
    """

    def texts(op: Op) -> str:
        return show_tree(op)

    found = texts(bind(text, CATALOG).root)
    assert "?" not in found and "^" not in found and "Hole" not in found


def test_a_window_of_time_is_a_column_of_rows_that_have_a_time():
    """Whether the column is used or not: what Spark drops for it is dropped above WHERE, and below all else."""
    same("SELECT count(*) AS n FROM (SELECT window(day, '1 day', '1 day', '1 hour') FROM sales WHERE item = 1)", """
        Aggregate[count(*) as n]
          Project[NAMED_STRUCT('start', TIMESTAMP_MICROS(UNIX_MICROS(CAST(day AS TIMESTAMP)) - PMOD(UNIX_MICROS(CAST(day AS TIMESTAMP)) - (3600000000), 86400000000)), 'end', TIMESTAMP_MICROS(UNIX_MICROS(CAST(day AS TIMESTAMP)) - PMOD(UNIX_MICROS(CAST(day AS TIMESTAMP)) - (3600000000), 86400000000) + 86400000000)) as window]
            Filter[item = 1 AND NOT CAST(day AS TIMESTAMP) IS NULL]
              Project[day, item]
                Scan[sales]
    """)  # fmt: skip


def test_rows_are_joined_with_the_windows_that_slide_over_them():
    """The last window around a time may be too short to be one of three: five hours that start every two."""
    shown = tree("SELECT window(day, '5 hours', '2 hours').start AS s FROM sales")
    assert "Values[slide bigint not null; 0, 7200000000, 14400000000]" in shown
    assert "InnerJoin[PMOD(UNIX_MICROS(CAST(day AS TIMESTAMP)), 7200000000) + slide < 18000000000]" in shown
    assert "InnerJoin[TRUE]" in tree("SELECT window(day, '4 hours', '2 hours').start AS s FROM sales")


WINDOWS = {
    "window(day, '1 day')": ("window", "struct<start:timestamp,end:timestamp>"),
    "window(day, '1 day').end": ("window.end", "timestamp"),
    "window(CAST(day AS TIMESTAMP_NTZ), '1 day')": ("window", "struct<start:timestamp_ntz,end:timestamp_ntz>"),
    "window(note, 86400000000).start AS s": ("s", "timestamp"),
}


@pytest.mark.parametrize(("text", "column"), WINDOWS.items(), ids=WINDOWS)
def test_windows_of_time_are_called_and_typed_as_by_spark(text: str, column: tuple[str, str]):
    (found,) = bind(f"SELECT {text} FROM sales", CATALOG).root.schema
    assert (found.name, found.type) == column
