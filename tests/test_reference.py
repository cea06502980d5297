"""The reference interpreter agrees with DuckDB, and says no where an operator is not defined."""

from __future__ import annotations

from decimal import Decimal

import duckdb
import pytest
from hypothesis import HealthCheck, Phase, given, settings

from tempura.algebra import (
    Aggregate,
    AggregateState,
    FinalState,
    InnerJoin,
    MergeState,
    Minus,
    Op,
    Output,
    Plus,
    Project,
    Read,
    Rel,
    Window,
    WindowCall,
)  # fmt: skip
from tempura.algebra.relational import expand_tags
from tempura.errors import PlanError, SqlError, TempuraError
from tempura.expr import TRUE, col, parse
from tempura.reference import EVALUATORS, Bag, apply, bag_of_rows, evaluate
from tempura.reference.scalar import compile_expr
from tempura.schema import NO_KEYS, Column
from tests.duck import comparable, register_all, run
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
    right,
    signed,
)  # fmt: skip

CALM = settings(
    max_examples=8,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
EVERY = {**LINEAR, **PRESENT, **STATES}


@pytest.fixture(scope="module")
def connection():
    with duckdb.connect() as opened:
        yield opened


def agree(connection: duckdb.DuckDBPyConnection, tree: Op, tables: dict[str, Bag]) -> None:
    register_all(connection, tree, tables)
    assert comparable(run(connection, tree, rows=False)) == comparable(evaluate(tree, tables))


@pytest.mark.parametrize("make", EVERY.values(), ids=EVERY.keys())
@CALM
@given(tables=inputs())
def test_rows_agree_with_duckdb(connection: duckdb.DuckDBPyConnection, make: Make, tables: dict[str, Bag]) -> None:
    agree(connection, make(left(), right()), tables)


# Affected is a superset on bags that are not consolidated.
@pytest.mark.parametrize(
    "make", [m for n, m in EVERY.items() if n != "affected"], ids=[n for n in EVERY if n != "affected"]
)
@CALM
@given(tables=inputs())
def test_weighted_rows_agree_with_duckdb(
    connection: duckdb.DuckDBPyConnection, make: Make, tables: dict[str, Bag]
) -> None:
    for weighted in ((True, False), (False, True), (True, True)):
        agree(connection, make(left(weighted[0]), right(weighted[1])), tables)


LINEAR_STATES = {**LINEAR, **{n: m for n, m in STATES.items() if n.startswith("state")}}


@pytest.mark.parametrize("make", LINEAR_STATES.values(), ids=LINEAR_STATES.keys())
@CALM
@given(tables=inputs(signed))
def test_linear_operators_agree_on_any_weights(
    connection: duckdb.DuckDBPyConnection, make: Make, tables: dict[str, Bag]
) -> None:
    agree(connection, make(left(True), right(True)), tables)


LINEAR_IN_THE_LEFT = {n: m for n, m in PRESENT.items() if n.startswith(("semi", "anti", "left outer"))}


@pytest.mark.parametrize("make", LINEAR_IN_THE_LEFT.values(), ids=LINEAR_IN_THE_LEFT.keys())
@CALM
@given(change=inputs(signed), held=inputs())
def test_look_ups_agree_on_any_weights_of_the_left(
    connection: duckdb.DuckDBPyConnection, make: Make, change: dict[str, Bag], held: dict[str, Bag]
) -> None:
    tables = {"l@t1": change["l@t1"], "r@t1": held["r@t1"]}
    for weighted in (False, True):
        agree(connection, make(left(True), right(weighted)), tables)


@CALM
@given(tables=inputs())
def test_affected_names_at_least_what_is_there(connection: duckdb.DuckDBPyConnection, tables: dict[str, Bag]) -> None:
    tree = PRESENT["affected"](left(True), right(True))
    register_all(connection, tree, tables)
    assert run(connection, tree).keys() >= evaluate(tree, tables).keys()


STATE_OF = tuple(c for c in (*SUMS, *SPREADS))


@CALM
@given(old=inputs(), new=inputs())
def test_a_state_moves_from_one_snapshot_to_the_next(
    connection: duckdb.DuckDBPyConnection, old: dict[str, Bag], new: dict[str, Bag]
) -> None:
    """MergeState(state of the old, state of the difference) is the state of the new, in the interpreter and in DuckDB."""
    before, after = (Read(f"l@{t}", LEFT, False, NO_KEYS) for t in ("old", "new"))
    tables = {"l@old": old["l@t1"], "l@new": new["l@t1"]}
    for by in (("a",), ()):
        moved = MergeState(
            (AggregateState(before, by, STATE_OF), AggregateState(Minus(after, before), by, STATE_OF)), by, STATE_OF
        )
        direct = AggregateState(after, by, STATE_OF)
        assert comparable(evaluate(moved, tables)) == comparable(evaluate(direct, tables))
        agree(connection, FinalState(moved, by, STATE_OF), tables)
        assert comparable(run(connection, FinalState(moved, by, STATE_OF))) == comparable(
            evaluate(Aggregate(after, by, STATE_OF), tables)
        )


def test_what_is_not_defined_is_refused() -> None:
    gone = {(1, 1, "x", Decimal(1)): -1}
    there = {(1, 1, 0.5): 1}
    for name in ("full outer join", "sums", "ranks", "top", "distinct"):
        with pytest.raises(TempuraError, match="times"):
            evaluate(PRESENT[name](left(True), right()), {"l@t1": gone, "r@t1": there})
    for name in ("left outer join null-safe", "full outer join"):
        with pytest.raises(TempuraError, match="right side of an outer join"):
            evaluate(PRESENT[name](left(), right(True)), {"l@t1": {}, "r@t1": {(1, 1, 0.5): -1}})
    with pytest.raises(TempuraError, match="semi-join"):
        evaluate(
            PRESENT["semi join"](left(), right(True)), {"l@t1": {(1, 1, "x", Decimal(1)): 1}, "r@t1": {(1, 1, 0.5): -1}}
        )
    with pytest.raises(TempuraError, match="forget"):
        evaluate(AggregateState(left(True), ("a",), EXTREMES), {"l@t1": gone})
    with pytest.raises(TempuraError, match="more than one row"):
        evaluate(Aggregate(left(), (), (call("v", "single_value", "a"),)), {"l@t1": {(1, 1, "x", None): 2}})
    with pytest.raises(PlanError, match="no relation 'l@t1'"):
        evaluate(left(), {})
    with pytest.raises(PlanError, match="both sides"):
        evaluate(InnerJoin(left(), left(), parse("a = a")), {"l@t1": {(1, 1, "x", None): 1}})


def test_one_operator_is_applied_without_its_inputs() -> None:
    assert apply(Plus(()), [{(1,): 1}, {(1,): -1, (2,): 3}], [(Column("a"),)] * 2) == {(2,): 3}


def test_users_register_their_own_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    class Twice(Op):
        input: Rel

    with pytest.raises(PlanError, match="Twice"):
        apply(Twice(left()), [{(1,): 2}], [(Column("a"),)])
    monkeypatch.setitem(EVALUATORS, Twice, lambda op, inputs, schemas: {row: 2 * w for row, w in inputs[0].items()})
    assert apply(Twice(left()), [{(1,): 2}], [(Column("a"),)]) == {(1,): 4}


def test_inputs_of_a_sum_may_have_their_columns_in_any_order() -> None:
    one = Read("one", (Column("a", "int", False), Column("b", "unknown", False)), False, NO_KEYS)
    other = Read("other", (Column("b", "int", True), Column("a", "int", False)), False, NO_KEYS)
    assert Plus((one, other)).schema == (Column("a", "int", False), Column("b", "int", True))
    assert Minus(one, other).schema == (Column("a", "int", False), Column("b", "int", True)), (
        "what is taken away may be padded"
    )


def test_the_numbers_of_grouping_sets() -> None:
    """Bit 1 says that the column is rolled away, the first column leads, and repetitions are told apart above the bits."""
    sets = (frozenset("ab"), frozenset("a"), frozenset("b"), frozenset[str](), frozenset("a"), frozenset("a"))
    assert expand_tags(("a", "b"), sets) == (0, 1, 2, 3, 5, 9)


SCALARS = [
    "a + b * 2 - 1", "a / b", "a % 2", "a div 2", "-a", "d + a", "d * d", "d / 2", "a = b", "a <> b", "a < d", "a >= 1 and b > 0", "a > 1 or s = 'x'",
    "not (a > 1)", "a is null", "s is not null", "a <=> b", "not a <=> b", "a in (1, 2)", "a in (1, null)", "a not in (1, null)",
    "a between 1 and b", "s like 'x%'", "s like '_y'", "case when a > 1 then 'big' when a is null then 'none' else s end",
    "case a when 1 then 10 when 2 then 20 end", "if(a > 1, b, d)", "coalesce(a, b, 7)", "nullif(a, b)", "ifnull(a, 0)", "nvl(b, -1)",
    "greatest(a, b, 1)", "least(a, b)", "cast(a as string)", "cast(d as double)", "cast(a as decimal(10,3))", "cast('2020-02-03' as date)",
    "cast(a as boolean)", "cast('12' as int)", "cast(d as string)", "abs(d)", "round(d, 1)", "upper(s)", "lower(upper(s))", "substring(s, 1, 1)", "substr(s, 2)",
    "concat(s, '-', s)", "s || 'z'", "length(s)", "year(date '2020-02-03')", "month(date '2020-02-03')", "date '2020-02-03' < date '2020-03-01'",
    "cast(date_add(date '2020-02-28', a) as date)", "1.5 + a", "1e1 * a", "true", "null",
]  # fmt: skip


@pytest.mark.parametrize("text", SCALARS)
def test_scalar_expressions_agree_with_duckdb(connection: duckdb.DuckDBPyConnection, text: str) -> None:
    rows = [
        (a, b, s, d)
        for a in (None, 0, 2)
        for b in (None, 0, 2)
        for s in (None, "x", "xy")
        for d in (None, Decimal("-1.25"))
    ]
    tree = Project(left(), (*(Output(c, col(c.name)) for c in LEFT), Output(Column("out"), parse(text))))
    agree(connection, tree, {"l@t1": bag_of_rows(rows)})


@pytest.mark.parametrize("text", ["sha2(s, 256)", "a rlike 'b'", "cast(a as timestamp)", "missing + 1"])
def test_unknown_expressions_are_named(text: str) -> None:
    with pytest.raises(SqlError, match=r"cannot|no column"):
        compile_expr(parse(text), LEFT)


def test_unknown_functions_are_named() -> None:
    with pytest.raises(SqlError, match="kurtosis"):
        evaluate(Aggregate(left(), (), (call("k", "kurtosis", "a"),)), {"l@t1": {}})
    with pytest.raises(SqlError, match="NTILE"):
        evaluate(
            Window(left(), (), (WindowCall(Column("k"), parse("ntile(2) over (order by a)")),)),
            {"l@t1": {(1, 1, "x", None): 1}},
        )


def test_nan_is_one_value_and_sums_do_not_depend_on_order() -> None:
    nan = float("nan")
    schema = (Column("f", "double"),)
    read = Read("f", schema, False, NO_KEYS)
    assert len(evaluate(Aggregate(read, ("f",), ()), {"f": bag_of_rows([(nan,), (float("nan"),), (1.0,)])})) == 2
    total = Aggregate(read, (), (call("t", "sum", "f", "double"),))
    tenths = bag_of_rows([(x / 10,) for x in range(1, 8)])
    assert evaluate(total, {"f": tenths}) == evaluate(total, {"f": dict(reversed(tenths.items()))})


def test_cross_join_condition_is_true() -> None:
    assert evaluate(InnerJoin(left(), right(), TRUE), {"l@t1": {(1, 1, "x", None): 2}, "r@t1": {(1, 1, 0.5): -1}}) == {
        (1, 1, "x", None, 1, 1, 0.5): -2
    }
