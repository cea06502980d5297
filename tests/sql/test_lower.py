"""The SQL of steps: its text for Spark, its types and answers on DuckDB."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import dedent

import duckdb
import pytest
import sqlglot
from hypothesis import HealthCheck, Phase, given, settings

from tempura.algebra import (
    Affected,
    Aggregate,
    AggregateCall,
    AggregateState,
    AntiJoin,
    Empty,
    Expand,
    Filter,
    FinalState,
    InnerJoin,
    LeftOuterJoin,
    MergeState,
    Minus,
    Op,
    Output,
    Plus,
    Project,
    Read,
    Rel,
    Scan,
    SemiJoin,
    SortKey,
    TopK,
    Values,
    Window,
    WindowCall,
)  # fmt: skip
from tempura.errors import PlanError
from tempura.expr import TRUE, col, parse
from tempura.plans import Step
from tempura.reference import Bag, evaluate
from tempura.schema import NO_KEYS, WEIGHT, Column, Schema
from tempura.sql.lower import LOWERINGS, expanded, lower, to_sql
from tests.duck import bag_of, comparable, register, register_all, run
from tests.trees import (
    EXTREMES,
    LEFT,
    LINEAR,
    PRESENT,
    SPREADS,
    STATES,
    SUMS,
    Make,
    call,
    inputs,
    left,
    output,
    right,
    signed,
)

EVERY = {**LINEAR, **PRESENT, **STATES}

SALES = (Column("o_id", "string", False), Column("category", "string"), Column("price", "decimal(7,2)"))
RETURNS = (Column("r_id", "string"), Column("cost", "decimal(7,2)"))
sales = Scan("sales", SALES, ("o_id",))
returns = Scan("returns", RETURNS, ())
old = Read("sales@t1", SALES, False, NO_KEYS)
delta = Read("sales@t1:t2", SALES, True, NO_KEYS)
TOTAL = (
    AggregateCall(Column("gross", "decimal(17,2)"), "sum", col("price")),
    AggregateCall(Column("mean", "decimal(11,6)"), "avg", col("price")),
)
COUNT = (AggregateCall(Column("n", "bigint", False), "count", None),)


def spark(tree: Op) -> str:
    return lower(tree).select.sql(dialect="spark")


GOLDEN: dict[str, tuple[Op, str]] = {
    "one select": (
        Aggregate(
            Project(
                LeftOuterJoin(Filter(sales, parse("price > 3")), Filter(returns, parse("cost > 0")), parse("o_id = r_id")),
                (Output(Column("category"), col("category")), output("gross", "price - coalesce(cost, 0)")),
            ),
            ("category",),
            (call("total", "sum", "gross"),),
        ),
        "SELECT sales.category, SUM(sales.price - COALESCE(returns.cost, 0)) AS total FROM sales LEFT JOIN returns "
        "ON sales.o_id = returns.r_id AND returns.cost > 0 WHERE sales.price > 3 GROUP BY sales.category",
    ),
    "distinct": (Aggregate(sales, ("category",), ()), "SELECT DISTINCT category FROM sales"),
    "names that need quotes": (
        Project(Read("sales@t1", (Column("order"), Column("a b")), False, NO_KEYS), (Output(Column("x"), col("order")), Output(Column("a b"), col("a b")))),
        "SELECT `order` AS x, `a b` FROM `sales@t1`",
    ),
    "semi and anti": (
        AntiJoin(SemiJoin(sales, returns, parse("o_id <=> r_id")), Project(returns, (output("r2", "r_id"),)), parse("o_id = r2")),
        "SELECT sales.o_id, sales.category, sales.price FROM sales LEFT SEMI JOIN returns ON sales.o_id IS NOT DISTINCT FROM returns.r_id "
        "LEFT ANTI JOIN returns AS returns_1 ON sales.o_id = returns_1.r_id",
    ),
    "weights multiply": (
        InnerJoin(delta, Read("returns@t1:t2", RETURNS, True, NO_KEYS), parse("o_id = r_id")),
        "SELECT sales.o_id, sales.category, sales.price, returns.r_id, returns.cost, sales.__w * returns.__w AS __w "
        "FROM `sales@t1:t2` AS sales JOIN `returns@t1:t2` AS returns ON sales.o_id = returns.r_id",
    ),
    "minus": (
        Minus(Project(old, (output("o_id", "o_id"),)), Project(delta, (output("o_id", "o_id"),))),
        "SELECT o_id, CAST(1 AS BIGINT) AS __w FROM `sales@t1` UNION ALL SELECT o_id, -__w AS __w FROM `sales@t1:t2`",
    ),
    "consolidated look-up": (
        AntiJoin(returns, delta, parse("r_id = o_id")),
        "WITH net AS (SELECT o_id, SUM(__w) AS __w FROM `sales@t1:t2` AS sales GROUP BY o_id HAVING SUM(sales.__w) <> 0) "
        "SELECT returns.r_id, returns.cost FROM returns LEFT ANTI JOIN net ON returns.r_id = net.o_id",
    ),
    "weighted sums of exact numbers need no consolidation": (
        Aggregate(delta, ("category",), (*COUNT, *TOTAL[:1])),
        "SELECT category, COALESCE(SUM(__w), 0) AS n, CASE WHEN COALESCE(SUM(__w) FILTER(WHERE NOT price IS NULL), 0) > 0 "
        "THEN CAST(SUM(price * __w) AS DECIMAL(17, 2)) END AS gross FROM `sales@t1:t2` AS sales GROUP BY category HAVING SUM(sales.__w) <> 0",
    ),
    "state": (
        AggregateState(old, ("category",), TOTAL),
        "SELECT category, COUNT(*) AS __n, COUNT(price) AS __c_gross, SUM(price) AS __s_gross, COUNT(price) AS __c_mean, SUM(price) AS __s_mean "
        "FROM `sales@t1` GROUP BY category",
    ),
    "a delta's state keeps groups that cancel out, since a filter over many sums is too much for Spark's optimizer": (
        AggregateState(delta, ("category",), COUNT),
        "SELECT category, SUM(__w) AS __n, COALESCE(SUM(__w), 0) AS __c_n FROM `sales@t1:t2` GROUP BY category",
    ),
    "merge keeps the types of the sums": (
        MergeState((Read("s1", AggregateState(old, (), TOTAL).schema, False, NO_KEYS), Read("s2", AggregateState(old, (), TOTAL).schema, False, NO_KEYS)), (), TOTAL),
        "WITH states AS (SELECT __n, __c_gross, __s_gross, __c_mean, __s_mean FROM s1 UNION ALL SELECT __n, __c_gross, __s_gross, __c_mean, __s_mean FROM s2) "
        "SELECT SUM(__n) AS __n, SUM(__c_gross) AS __c_gross, CASE WHEN SUM(__c_gross) <> 0 THEN CAST(SUM(__s_gross) AS DECIMAL(17, 2)) END AS __s_gross, "
        "SUM(__c_mean) AS __c_mean, CASE WHEN SUM(__c_mean) <> 0 THEN CAST(SUM(__s_mean) AS DECIMAL(17, 2)) END AS __s_mean "
        "FROM states HAVING SUM(states.__n) <> 0",
    ),
    "final": (
        FinalState(Read("s1", AggregateState(old, ("category",), TOTAL).schema, False, NO_KEYS), ("category",), TOTAL),
        "SELECT category, CASE WHEN __c_gross > 0 THEN __s_gross END AS gross, "
        "CASE WHEN __c_mean > 0 THEN CAST(__s_mean / __c_mean AS DECIMAL(11, 6)) END AS mean FROM s1 WHERE __n <> 0",
    ),
    "affected": (Affected(delta, ("category",)), "SELECT DISTINCT category FROM `sales@t1:t2`"),
    "top": (
        TopK(sales, (SortKey("price", True, False),), 2, 1),
        "SELECT o_id, category, price FROM sales ORDER BY price DESC, o_id ASC, category ASC LIMIT 2 OFFSET 1",
    ),
    "grouping sets": (
        Expand(Project(sales, (output("category", "category"),)), ("category",), (frozenset(["category"]), frozenset()), "tag"),
        "SELECT CASE WHEN grouping_sets.id IN (0) THEN sales.category END AS category, CAST(grouping_sets.id AS BIGINT) AS tag "
        "FROM sales CROSS JOIN VALUES (0), (1) AS grouping_sets(id)",
    ),
    "empty": (Empty(RETURNS), "SELECT CAST(NULL AS STRING) AS r_id, CAST(NULL AS DECIMAL(7, 2)) AS cost WHERE FALSE"),
}  # fmt: skip


@pytest.mark.parametrize(("tree", "text"), GOLDEN.values(), ids=GOLDEN.keys())
def test_spark_text(tree: Op, text: str) -> None:
    assert spark(tree) == text


def test_weighted_rows_are_written_out() -> None:
    assert to_sql(Project(delta, (output("o_id", "o_id"),)), "spark", ("o_id DESC",)) == dedent("""\
        WITH net AS (
          SELECT
            o_id,
            SUM(__w) AS __w
          FROM `sales@t1:t2` AS sales
          GROUP BY
            o_id
          HAVING
            SUM(sales.__w) <> 0
        )
        SELECT
          net.o_id
        FROM net
        LATERAL VIEW
        EXPLODE(
          SEQUENCE(
            1,
            CASE
              WHEN net.__w < 0
              THEN RAISE_ERROR('a row that is not there was taken away: the inputs contradict each other')
              ELSE net.__w
            END
          )
        ) copies AS `copy`
        ORDER BY
          o_id DESC""")


@pytest.mark.parametrize("make", EVERY.values(), ids=EVERY.keys())
def test_spark_text_reads_back(make: Make) -> None:
    """What is printed for Spark is Spark SQL to a parser, and the same again when printed."""
    for weighted in (False, True):
        text = to_sql(make(left(weighted), right(weighted)), "spark")
        again = sqlglot.parse_one(text, dialect="spark")
        assert sqlglot.parse_one(again.sql(dialect="spark"), dialect="spark") == again


def test_a_shared_part_is_one_cte() -> None:
    part = Aggregate(sales, ("category",), TOTAL)
    other = Project(
        Aggregate(Scan("sales", SALES, ("o_id",)), ("category",), TOTAL),
        (output("c2", "category"), output("g2", "gross")),
    )
    lowered = lower(InnerJoin(part, other, parse("gross = g2")))
    ctes = [c.alias for c in lowered.select.ctes]
    assert ctes == ["aggregate"]
    assert spark(InnerJoin(part, other, parse("gross = g2"))).count("GROUP BY") == 1


def test_a_cte_never_hides_a_table() -> None:
    table = Scan("aggregate", SALES, ())
    text = spark(Filter(Aggregate(table, ("category",), TOTAL), parse("gross > 1")))
    assert text.startswith("WITH aggregate_1 AS (") and "FROM aggregate GROUP BY" in text


def test_deep_sharing_does_not_grow() -> None:
    """Twenty unions of a part with itself are twenty CTEs, not a million reads."""
    tree: Op = Filter(sales, parse("price > 1"))
    for _ in range(20):
        tree = Filter(Plus((tree, tree)), parse("price > 1"))
    assert len(to_sql(tree, "spark")) < 20_000


@pytest.fixture(scope="module")
def connection():
    with duckdb.connect() as opened:
        yield opened


CALM = settings(
    max_examples=6,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
PLAIN = {
    n: m for n, m in {**LINEAR, **PRESENT}.items() if n not in ("affected", "no columns", "minus", "minus of joins")
}


@pytest.mark.parametrize("make", PLAIN.values(), ids=PLAIN.keys())
@CALM
@given(tables=inputs())
def test_rows_of_weighted_relations(connection: duckdb.DuckDBPyConnection, make: Make, tables: dict[str, Bag]) -> None:
    """`to_sql` gives plain rows, also by way of `expanded`."""
    tree = make(left(True), right(True))
    register_all(connection, tree, tables)
    expected = comparable(evaluate(tree, tables))
    rows = connection.execute(to_sql(tree, "duckdb"))
    assert WEIGHT not in [d[0] for d in rows.description or ()]
    assert comparable(run(connection, tree)) == expected
    found = expanded(lower(tree, "duckdb"), "duckdb")
    assert not found.weighted
    assert comparable(bag_of(connection, found.select.sql(dialect="duckdb"), found.columns)) == expected


def test_a_row_that_was_never_there_fails_the_query(connection: duckdb.DuckDBPyConnection) -> None:
    tree = Minus(left(), Plus((left(), left())))
    register_all(connection, tree, {"l@t1": {(1, 1, "x", None): 1}})
    with pytest.raises(duckdb.Error, match="taken away"):
        connection.execute(to_sql(tree, "duckdb")).fetchall()


@pytest.mark.parametrize("by", [("a",), ()])
def test_a_group_whose_rows_cancel_out_is_gone_when_its_state_is_finished(
    connection: duckdb.DuckDBPyConnection, by: tuple[str, ...]
) -> None:
    rows = {"l@t1": {(1, 1, "x", None): 1, (None, 2, "y", None): 2}}
    for rest in (Minus(left(), left()), Minus(Plus((left(), left())), left())):
        state = AggregateState(rest, by, SUMS)
        for tree in (FinalState(state, by, SUMS), FinalState(MergeState((state, state), by, SUMS), by, SUMS)):
            register_all(connection, tree, rows)
            assert comparable(run(connection, tree)) == comparable(evaluate(tree, rows))


def test_a_scalar_sub_query_with_two_rows_fails_the_query(connection: duckdb.DuckDBPyConnection) -> None:
    value = (call("v", "single_value", "a", "int"),)
    for weighted in (False, True):
        for tree in (
            Aggregate(left(weighted), (), value),
            FinalState(AggregateState(left(weighted), (), value), (), value),
        ):
            register_all(connection, tree, {"l@t1": {(1, 1, "x", None): 2}})
            with pytest.raises(duckdb.Error, match="more than one row"):
                connection.execute(to_sql(tree, "duckdb")).fetchall()
            for rows in ({(1, 1, "x", None): 1}, {(None, 1, "x", None): 1}, {}):
                register_all(connection, tree, {"l@t1": rows})
                assert run(connection, tree) == evaluate(tree, {"l@t1": rows})


def types_of(connection: duckdb.DuckDBPyConnection, sql: str) -> list[tuple[str, str]]:
    return [(row[0], row[1]) for row in connection.execute(f"DESCRIBE {sql}").fetchall()]


@pytest.mark.parametrize("by", [("a",), ()])
def test_incremental_results_have_the_types_of_the_batch_query(
    connection: duckdb.DuckDBPyConnection, by: tuple[str, ...]
) -> None:
    calls = (*SUMS, *SPREADS, *EXTREMES)
    keys = "a, " if by else ""
    batch = (
        f"SELECT {keys}count(*) AS n, count(b) AS nb, sum(b) AS sb, sum(d) AS sd, avg(b) AS ab, avg(d) AS ad, sum(d) FILTER (WHERE b > 1) AS fd, "
        "count(*) FILTER (WHERE b > 1) AS fn, var_pop(d) AS var_pop, var_samp(d) AS var_samp, stddev_pop(d) AS stddev_pop, stddev_samp(d) AS stddev_samp, "
        'min(s) AS least, max(d) AS most, bool_and(b > 0) AS every, bool_or(b > 0) AS "some" FROM "l@t1"'
        + (" GROUP BY a" if by else "")
    )
    state = AggregateState(left(), by, calls)
    trees = {
        "batch": Aggregate(left(), by, calls),
        "merged": FinalState(MergeState((state, MergeState((state, state), by, calls)), by, calls), by, calls),
    }
    register(connection, "l@t1", LEFT, {(1, 2, "x", None): 1})
    for name, tree in trees.items():
        assert types_of(connection, to_sql(tree, "duckdb")) == types_of(connection, batch), name
    register(connection, "l@t1", LEFT, {(1, 2, "x", None): 1}, weighted=True)
    weighted = AggregateState(left(True), by, calls)
    for tree in (Aggregate(left(True), by, calls), FinalState(MergeState((weighted, weighted), by, calls), by, calls)):
        assert types_of(connection, to_sql(tree, "duckdb")) == types_of(connection, batch)


def test_weights_are_bigint(connection: duckdb.DuckDBPyConnection) -> None:
    for tree in (
        Minus(left(), left()),
        Minus(left(True), left(True)),
        PRESENT["full outer join"](left(True), right(True)),
        LINEAR["replicate"](left(), right()),
    ):
        register_all(connection, tree, {"l@t1": {}, "r@t1": {}})
        lowered = lower(tree, "duckdb")
        assert lowered.weighted
        assert types_of(connection, lowered.select.sql(dialect="duckdb"))[-1] == (WEIGHT, "BIGINT")


def step(tree: Op, kind: str = "state", *, weighted: bool = False, order: tuple[SortKey, ...] = ()) -> Step:
    return Step("s", kind, "s[t1]", tree, weighted, tree, order=order)  # type: ignore[arg-type]


@CALM
@given(tables=inputs(signed))
def test_a_weighted_state_has_the_weight_column(connection: duckdb.DuckDBPyConnection, tables: dict[str, Bag]) -> None:
    tree = Filter(left(True), parse("a > 0"))
    register_all(connection, tree, tables)
    assert bag_of(connection, step(tree, weighted=True).to_sql("duckdb"), [c.name for c in LEFT]) == evaluate(
        tree, tables
    )


def test_steps_get_the_columns_they_promise(connection: duckdb.DuckDBPyConnection) -> None:
    tables = {"l@t1": {(1, 1, "x", None): 2, (2, None, None, None): 1}}
    for read in (left(), left(True)):
        register_all(connection, read, tables)
        for made, weight in (
            (step(read, weighted=True), True),
            (step(read), False),
            (step(read, "result", weighted=True), False),
        ):
            sql = made.to_sql("duckdb")
            assert (WEIGHT in [d[0] for d in connection.execute(sql).description or ()]) is weight
            assert bag_of(connection, sql, [c.name for c in LEFT]) == tables["l@t1"]


def test_a_result_is_ordered(connection: duckdb.DuckDBPyConnection) -> None:
    register(connection, "l@t1", LEFT, {(a, None, None, None): 1 for a in (2, None, 1, 3)})
    ascending = step(Project(left(), (output("a", "a"),)), "result", order=(SortKey("a"),)).to_sql("duckdb")
    assert connection.execute(ascending).fetchall() == [(None,), (1,), (2,), (3,)]
    top = TopK(Project(left(), (output("a", "a"),)), (SortKey("a", True, False),), 2, 0)
    assert connection.execute(step(top, "result", order=(SortKey("a", True, False),)).to_sql("duckdb")).fetchall() == [
        (3,),
        (2,),
    ]
    assert "chosen" not in step(top, "result", order=(SortKey("a", True, False),)).sql
    assert connection.execute(step(top, "result", order=(SortKey("a"),)).to_sql("duckdb")).fetchall() == [(2,), (3,)]


def test_a_result_is_ordered_by_what_it_does_not_show(connection: duckdb.DuckDBPyConnection) -> None:
    register(connection, "l@t1", LEFT, {(a, -a, None, None): 1 for a in (2, 1, 3)})
    top = TopK(Project(left(), (output("a", "a"), output("b", "b"))), (SortKey("b"),), None, 0)
    made = step(Project(top, (output("a", "a"),)), "result")
    assert connection.execute(made.to_sql("duckdb")).fetchall() == [(3,), (2,), (1,)]
    assert "/*+ REPARTITION(1) */" in made.sql and "REPARTITION" not in made.to_sql("duckdb")


def test_values_and_windows_over_constants(connection: duckdb.DuckDBPyConnection) -> None:
    one = Values((Column("x", "int"),), ((parse("1"),),))
    nothing = Values((), ((),))
    trees: list[Op] = [
        one,
        Filter(one, parse("x > 1")),
        InnerJoin(one, Values((Column("y", "int"),), ((parse("2"),), (parse("3"),))), TRUE),
        Project(nothing, (output("k", "1"),)),
        Aggregate(nothing, (), COUNT),
        Aggregate(Values((Column("x", "int"),), ()), (), COUNT),
        Window(one, (), (WindowCall(Column("r"), parse("row_number() over (order by x)")),)),
        LeftOuterJoin(one, Project(nothing, (output("k", "1"),)), parse("x = k + 1")),
    ]
    for tree in trees:
        assert run(connection, tree) == evaluate(tree, {})


def test_what_cannot_be_written_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Twice(Op):
        input: Rel

        def columns_from(self, inputs: Sequence[Schema]) -> Schema:
            return inputs[0]

    with pytest.raises(PlanError, match="Twice"):
        lower(Twice(sales))
    monkeypatch.setitem(LOWERINGS, Twice, lambda lowering, op: lowering.relation(Plus((op.input, op.input))))
    assert spark(Project(Twice(sales), ())).count("FROM sales") == 2
    with pytest.raises(PlanError, match="both sides"):
        lower(SemiJoin(sales, sales, parse("o_id = o_id")))
    with pytest.raises(PlanError, match="weights"):
        state = AggregateState(sales, ("category",), TOTAL)
        lower(FinalState(Minus(state, state), ("category",), TOTAL))
