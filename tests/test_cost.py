"""Costs: monotone in rows, fixed costs where Spark has them, tuples under the unit model."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    FullOuterJoin,
    InnerJoin,
    LeftOuterJoin,
    MergeState,
    Minus,
    Op,
    Output,
    Plus,
    Project,
    Read,
    Replicate,
    Scan,
    SemiJoin,
    SortKey,
    TopK,
    Values,
    Window,
    WindowCall,
)
from tempura.catalog import ColumnStatistics, Table
from tempura.errors import JobError, PlanError
from tempura.estimate import DEFAULT, CostModel, Profile, Shape, SparkCost, Stats, UnitCost, derive, table_stats
from tempura.estimate.cost import PARTITIONED, WORK, partial_rows
from tempura.estimate.profile import COEFFICIENTS
from tempura.expr import TRUE, col, parse
from tempura.schema import NO_KEYS, Column
from tempura.timeline import Timeline
from tests.profiles import STEADY

TIMELINE = Timeline.warehouse([1.0])
SPARK: CostModel = SparkCost()
STEADILY: CostModel = SparkCost(STEADY)
UNIT: CostModel = UnitCost()
SUM = (AggregateCall(Column("total", "double"), "sum", col("price")),)
COLLECT = (AggregateCall(Column("all", "array<int>"), "collect_list", col("price")),)
COUNT_DISTINCT = (AggregateCall(Column("n", "bigint"), "count", col("price"), distinct=True),)
ON = parse("o_id = r_id")


def sales(rows: float) -> Stats:
    columns = (Column("o_id", "bigint"), Column("category", "string"), Column("price", "double"))
    statistics = {"category": ColumnStatistics(distinct=20)}
    return table_stats(Table("sales", columns, ("o_id",), {"t1": rows}, {}, statistics), TIMELINE, 0)


def returns(rows: float) -> Stats:
    return table_stats(
        Table("returns", (Column("r_id", "bigint"), Column("cost", "double")), (), {"t1": rows}), TIMELINE, 0
    )


def cost(model: CostModel, op: Op, *inputs: Stats, shape: Shape = Shape()) -> float:  # noqa: B008
    return model.work(op, inputs, derive(op, inputs, []), shape)


UNARY: list[Op] = [
    Filter(0, parse("price > 3")),
    Project(0, (Output(Column("o_id"), col("o_id")), Output(Column("y"), parse("price + 1")))),
    Expand(0, ("category",), (frozenset({"category"}), frozenset()), "tag"),
    Replicate(0, col("price")),
    Aggregate(0, ("category",), SUM),
    Aggregate(0, (), SUM),
    AggregateState(0, ("category",), SUM),
    MergeState((0,), ("category",), SUM),
    FinalState(0, ("category",), SUM),
    Affected(0, ("category",)),
    Window(0, ("category",), (WindowCall(Column("n", "int"), parse("row_number() over ()")),)),
    TopK(0, (SortKey("price"),), 10, 0),
    TopK(0, (SortKey("price"),), None, 5),
]
BINARY: list[Op] = [
    *(kind(0, 1, on) for kind in (InnerJoin, LeftOuterJoin, FullOuterJoin, SemiJoin, AntiJoin) for on in (ON, parse("price < cost"), TRUE)),
    Plus((0, 1)),
    Minus(0, 1),
]  # fmt: skip


def test_every_operator_has_work():
    kinds = {kind for kind in Op.__subclasses__() if kind.__module__.startswith("tempura.algebra")}
    assert kinds == set(WORK)
    tried = {type(op) for op in (*UNARY, *BINARY)} | {Scan, Read, Values, Empty}
    assert tried == kinds


def test_leaves_cost_what_they_read():
    stats = sales(1e6)
    scan = Scan("sales", (), ())
    read = Read("s", (), False, NO_KEYS)
    assert STEADILY.work(scan, [], stats, Shape()) == STEADILY.scan(stats) > 0
    assert STEADILY.work(read, [], stats, Shape()) == STEADILY.load(stats, False) > 0
    assert cost(STEADILY, Empty((Column("x", "int"),))) == 0
    assert cost(STEADILY, Values((Column("x", "int"),), ((parse("1"),),))) > 0


def test_adding_a_log_up_costs_more_than_reading_a_table():
    stats = sales(1e6)
    plain, short, long = (STEADILY.scan(stats, log) for log in (None, stats, sales(3e6)))
    assert plain < short < long
    assert short > STEADILY.exchange(stats), "rows that cancel have to meet"
    nothing = sales(0)
    planning = SparkCost(Profile(**{**dict.fromkeys(COEFFICIENTS, 0.0), "operator": 0.5, "column": 0.25}))
    assert (planning.scan(nothing), planning.scan(nothing, nothing)) == (0, 0.5 + 3 * 0.25)
    assert UNIT.scan(stats, sales(3e6)) == UNIT.scan(stats)


def test_an_operator_without_a_cost_is_named():
    class Sample(Op):
        share: float

    with pytest.raises(PlanError, match="Sample"):
        SPARK.work(Sample(0.5), [], sales(1), Shape())


@given(st.floats(0, 1e10), st.floats(0, 1e10), st.sampled_from(UNARY))
def test_more_rows_never_cost_less(a: float, b: float, op: Op):
    few, many = sorted((a, b))
    low, high = cost(SPARK, op, sales(few)), cost(SPARK, op, sales(many))
    assert 0 <= low <= high * (1 + 1e-9) < math.inf


@given(st.floats(0, 1e9), st.floats(0, 1e9), st.floats(0, 1e6), st.sampled_from(BINARY), st.booleans())
def test_more_rows_on_either_side_never_cost_less(a: float, b: float, other: float, op: Op, swap: bool):
    few, many = (sales(n) for n in sorted((a, b)))
    (low, high) = ((few, returns(other)), (many, returns(other)))
    if swap:
        low, high = (sales(other), returns(min(a, b))), (sales(other), returns(max(a, b)))
    # With the same output, so that only the inputs differ: an anti-join's output shrinks as its right side grows.
    output = derive(op, high, [])
    cheap, dear = (SPARK.work(op, inputs, output, Shape()) for inputs in (low, high))
    assert 0 <= cheap <= dear * (1 + 1e-9) < math.inf


@given(st.floats(0, 1e10), st.floats(0, 1e10))
def test_moving_and_keeping_more_never_costs_less(a: float, b: float):
    few, many = (sales(n) for n in sorted((a, b)))
    for price in (SPARK.scan, SPARK.exchange, SPARK.broadcast):
        assert 0 < price(few) <= price(many) * (1 + 1e-9) < math.inf
    for partitioned in (True, False):
        for price in (SPARK.save, SPARK.load):
            assert 0 < price(few, partitioned) <= price(many, partitioned) * (1 + 1e-9)


def test_fixed_costs_decide_small_steps():
    tiny = sales(10)
    assert SPARK.job() == DEFAULT.job > 0
    assert DEFAULT.shuffle <= SPARK.exchange(tiny) < DEFAULT.shuffle * 1.01
    assert SPARK.save(tiny, True) > SPARK.save(tiny, False)
    assert SPARK.load(tiny, True) > SPARK.load(tiny, False), "a bucket is a file"
    assert STEADILY.job() > 100 * cost(STEADILY, Aggregate(0, ("category",), SUM), tiny)


def test_operators_and_copies_cost_something_however_few_their_rows():
    nothing = sales(0)
    fixed = SparkCost(Profile(**{**dict.fromkeys(COEFFICIENTS, 0.0), "operator": 0.5, "broadcast": 0.25}))
    assert cost(fixed, Filter(0, parse("price > 1")), nothing) == 0.5
    assert fixed.vector(Filter(0, parse("price > 1")), [nothing], nothing).fixed == 0.5
    assert fixed.broadcast(nothing) == 0.25 and fixed.exchange(nothing) == 0


def test_columns_that_come_out_cost_something_however_few_the_rows():
    nothing = sales(0)
    fixed = SparkCost(Profile(**{**dict.fromkeys(COEFFICIENTS, 0.0), "column": 0.5}))
    assert cost(fixed, Filter(0, parse("price > 1")), nothing) == 1.5
    assert cost(fixed, Aggregate(0, ("category",), SUM), nothing) == 1.0


def test_without_keys_every_pair_is_compared():
    big, other = sales(1e5), returns(1e4)
    assert cost(SPARK, InnerJoin(0, 1, parse("price < cost")), big, other) >= 1e9 * DEFAULT.pair
    assert cost(SPARK, InnerJoin(0, 1, ON), big, other) < 1


def test_broadcast_saves_moving_the_large_side():
    big, small = sales(1e7), returns(1e3)
    join = InnerJoin(0, 1, ON)
    for model in (SPARK, STEADILY):
        shipped = cost(model, join, big, small, shape=Shape(broadcast="right")) + model.broadcast(small)
        exchanged = cost(model, join, big, small) + model.exchange(big) + model.exchange(small)
        assert shipped < exchanged
        assert cost(model, join, big, small, shape=Shape(broadcast="left")) + model.broadcast(big) > shipped
    assert cost(STEADILY, join, big, small, shape=Shape(broadcast="left")) > cost(STEADILY, join, big, small)


def test_what_may_be_broadcast():
    small, big = returns(1e3), returns(1e8)
    assert SPARK.may_broadcast(InnerJoin(0, 1, ON), "left", small)
    assert SPARK.may_broadcast(LeftOuterJoin(0, 1, ON), "right", small)
    assert not SPARK.may_broadcast(InnerJoin(0, 1, ON), "right", big)
    for kind in (LeftOuterJoin, SemiJoin, AntiJoin):
        assert not SPARK.may_broadcast(kind(0, 1, ON), "left", small)
    assert not SPARK.may_broadcast(FullOuterJoin(0, 1, ON), "right", small)
    assert not SPARK.may_broadcast(Plus((0, 1)), "right", small)
    roomy = SparkCost(Profile(broadcast_limit=1e12))
    assert roomy.may_broadcast(InnerJoin(0, 1, ON), "right", big)


def test_aggregates_ship_one_row_per_group_and_core():
    stats = sales(1e6)
    few, keys = Aggregate(0, ("category",), SUM), Aggregate(0, ("o_id",), SUM)
    assert partial_rows(few, [stats], derive(few, [stats], [])) == pytest.approx(20 * DEFAULT.cores)
    assert partial_rows(keys, [stats], derive(keys, [stats], [])) == pytest.approx(1e6)
    shipped = SPARK.shipped(few, [stats], derive(few, [stats], []))
    assert SPARK.exchange(shipped) < SPARK.exchange(stats) / 10
    for calls in (COLLECT, COUNT_DISTINCT):
        op = Aggregate(0, ("category",), calls)
        assert partial_rows(op, [stats], derive(op, [stats], [])) == 1e6


def test_a_row_that_is_grouped_costs_more_where_groups_are_many():
    def each(groups: float) -> float:
        op = Aggregate(0, ("category",), ())
        stats = sales(1e6)
        zero = dict.fromkeys(
            ("output_row", "memory_byte", "operator", "column", "aggregate_key_row", "aggregate_key_byte"), 0.0
        )
        free = SparkCost(replace(DEFAULT, **zero))
        return free.work(op, [stats], sales(groups)) / stats.rows

    few, middling, many = each(5), each(65_536), each(1e6)
    assert few == middling == pytest.approx(DEFAULT.aggregate_row)
    stats = sales(1e6)
    met = stats.rows / DEFAULT.cores
    assert many == pytest.approx(DEFAULT.aggregate_row + DEFAULT.group_row * (1 - 65_536 / met)), "those of a task"


def test_a_join_without_a_copy_sorts_and_dearer_so_by_several_keys_or_by_a_text():
    one = sales(1e6)
    other = table_stats(
        Table(
            "returns", (Column("r_id", "bigint"), Column("kind", "string"), Column("cost", "double")), (), {"t1": 2e6}
        ),
        TIMELINE,
        0,
    )

    def each(on: str, shape: Shape = PARTITIONED) -> float:
        work = SPARK.work(InnerJoin(0, 1, parse(on)), [one, other], one.thinned(0.0), shape)
        return (work - SPARK.work(InnerJoin(0, 1, ON), [one.thinned(0.0), other.thinned(0.0)], one.thinned(0.0))) / 3e6

    by_number, by_text, by_two = each("o_id = r_id"), each("category = kind"), each("o_id = r_id and price = cost")
    held = (one.bytes + other.bytes) * DEFAULT.memory_byte / 3e6
    assert by_number == pytest.approx(DEFAULT.merge_row + held)
    assert by_text == by_two == pytest.approx(by_number + DEFAULT.merge_compared_row)
    copied = Shape(broadcast="right")
    assert each("category = kind", copied) == each("o_id = r_id", copied), "a copy is hashed, not sorted"


def test_reading_costs_by_the_value_and_by_the_byte():
    def narrow(type: str) -> Stats:
        return table_stats(Table("t", (Column("a", type),), (), {"t1": 1e6}), TIMELINE, 0)

    one, wide = narrow("int"), narrow("bigint")
    assert SPARK.scan(wide) - SPARK.scan(one) == pytest.approx(4e6 * DEFAULT.scan_byte)
    free = SparkCost(replace(DEFAULT, scan_byte=0.0, scan_row=0.0, file=0.0))
    assert free.scan(sales(1e6)) == pytest.approx(3e6 * DEFAULT.scan_value), "of three columns"
    assert free.scan(one) == pytest.approx(1e6 * DEFAULT.scan_value)


def test_the_copies_for_grouping_sets_are_shipped_set_by_set():
    stats = sales(1e6)
    expand = Expand(0, ("o_id", "category"), (("o_id", "category"), ("category",), ()), "tag")
    copies = derive(expand, [stats], [])
    by = Aggregate(0, ("o_id", "category", "tag"), SUM)
    assert partial_rows(by, [copies], derive(by, [copies], [])) == pytest.approx(1e6 + 21 * DEFAULT.cores, rel=1e-3)


def test_rows_that_come_together_are_shipped_as_one():
    known = {"who": ColumnStatistics(1e5, run=8.0), "day": ColumnStatistics(1e4, run=16.0)}
    table = Table("lines", (Column("who", "int"), Column("day", "int")), (), {"t1": 1e6}, {}, known)
    lines = table_stats(table, Timeline.refresh(), 0)
    by = Aggregate(0, ("who", "day"), ())
    assert partial_rows(by, [lines], derive(by, [lines], [])) == pytest.approx(1e6 / 8)


def test_a_vector_adds_up_to_the_work():
    spark = SparkCost()
    inputs = [sales(1e6), returns(1e5)]
    op = InnerJoin(0, 1, ON)
    output = derive(op, inputs, [])
    vector = spark.vector(op, inputs, output)
    assert vector.cpu > 0 and vector.memory > 0 and vector.io == vector.network == 0
    assert sum(vector) == pytest.approx(spark.work(op, inputs, output))
    assert vector.plus(vector) == tuple(2 * v for v in vector)
    assert SparkCost(Profile(cpu=3.0, memory=0.0)).work(op, inputs, output) == pytest.approx(
        3 * vector.cpu + vector.fixed
    )


def test_a_profile_is_read_from_json(tmp_path):
    changed = Profile(job=1.5, cores=8)
    path = tmp_path / "profile.json"
    path.write_text(changed.to_json(), encoding="utf-8")
    assert Profile.load(path) == changed
    assert Profile.from_json('{"job": 1.5, "cores": 8}') == changed
    assert json.loads(changed.to_json())["job"] == 1.5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("[1]", "not a JSON object"),
        ('{"jobs": 1}', "no coefficient 'jobs'"),
        ('{"job": -1}', "'job' is -1"),
        ('{"job": "x"}', "'job' is 'x'"),
        ('{"job": true}', "'job' is True"),
        ('{"cores": 0}', "'cores' is 0"),
        ('{"cores": 2.5}', "'cores' is 2.5"),
        ('{"buckets": 0.5}', "'buckets' is 0.5"),
    ],
)
def test_a_wrong_profile_is_an_error(text: str, message: str):
    with pytest.raises(JobError, match=message):
        Profile.from_json(text)


# The unit model


def test_the_unit_model_counts_the_tuples_of_the_running_example():
    join, aggregate = LeftOuterJoin(0, 1, ON), Aggregate(0, ("category",), SUM)
    assert cost(UNIT, join, sales(4), returns(1)) == 5
    assert cost(UNIT, join, sales(3), returns(2)) == 5
    assert UNIT.work(aggregate, [sales(4)], sales(2), Shape()) == 4
    assert UNIT.work(AggregateState(0, ("category",), SUM), [sales(5)], sales(2), Shape()) == 5


def test_the_unit_model_counts_only_what_is_new():
    join = InnerJoin(0, 1, ON)
    for new, expected in [((True, True), 10), ((True, False), 7), ((False, True), 3), ((False, False), 0)]:
        assert cost(UNIT, join, sales(7), returns(3), shape=Shape(new=new)) == expected


@pytest.mark.parametrize("op", [op for op in (*UNARY, *BINARY) if not isinstance(op, (Aggregate, AggregateState))])
def test_the_unit_model_charges_nothing_else(op: Op):
    inputs = [sales(7), returns(3)][: 1 if op in UNARY else 2]
    # A difference compares all that it is given.
    counted = (InnerJoin, LeftOuterJoin, FullOuterJoin, SemiJoin, AntiJoin, Minus)
    assert cost(UNIT, op, *inputs) == (10 if isinstance(op, counted) else 0)


def test_in_the_unit_model_moving_and_keeping_is_free():
    stats = sales(1e6)
    assert UNIT.save(stats, True) == UNIT.load(stats, False) == UNIT.job() == 0
    assert UNIT.scan(stats) == 1e6  # a base tuple arrives where it is read
    assert UNIT.exchange(stats) == UNIT.broadcast(stats) == 0
    assert not UNIT.may_broadcast(InnerJoin(0, 1, ON), "right", stats)
    assert UNIT.shipped(Aggregate(0, (), ()), [stats], stats) is stats
