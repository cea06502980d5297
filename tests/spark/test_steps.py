"""Steps as frames: what they read is bound by name, whatever the names and the text; hints reach Spark; orders are left to the writer."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from tempura.algebra import Filter, InnerJoin, LeftOuterJoin, Minus, Op, Output, Project, Read, SemiJoin, SortKey, TopK
from tempura.expr import col, parse
from tempura.plans import Side, Step
from tempura.schema import NO_KEYS, WEIGHT, Column, Schema
from tempura.spark.states import States
from tempura.spark.steps import StepError, frame, order_left
from tests.spark.test_states import physical_plan

S: Schema = (Column("o", "bigint"), Column("c", "string"))
R: Schema = (Column("x", "bigint"),)
D: Schema = (Column("y", "bigint"),)


def reads(name: str, columns: Schema, weighted: bool = False) -> Read:
    return Read(name, columns, weighted, NO_KEYS)


def step(tree: Op, *broadcasts: Side | None, weighted: bool = False, order: tuple[SortKey, ...] = ()) -> Step:
    """A step; `broadcasts` has the side that each of its joins copies, inner joins first."""
    joins = [i for i, op in enumerate(tree.walk()) if isinstance(op, (InnerJoin, LeftOuterJoin, SemiJoin))]
    copied = tuple((i, b) for i, b in zip(joins, broadcasts, strict=False) if b)
    return Step("made", "state" if weighted else "result", "v", tree, weighted, tree, (), order, broadcasts=copied)


def values(frame: DataFrame) -> list[tuple[object, ...]]:
    return sorted(tuple(r) for r in frame.collect())


@pytest.fixture
def names(spark: SparkSession) -> dict[str, DataFrame]:
    s = spark.sql("SELECT id AS o, CAST(id % 3 AS STRING) AS c FROM range(6)")
    r = spark.sql("SELECT id * 2 AS x FROM range(4)")
    return {"s@14:00": s, "s@t{1}:t`2": s.where("o > 3"), "kept_r": r, "d@t1": r.selectExpr("x AS y")}


def test_names_and_braces_of_every_kind(spark: SparkSession, names: dict[str, DataFrame]):
    condition = parse("c <> '{c}' AND c <> '`s@14:00@0@`'")
    tree = Filter(InnerJoin(reads("s@t{1}:t`2", S), reads("kept_r", R), parse("o = x")), condition)
    assert values(frame(spark, step(tree), names)) == [(4, "1", 4)]
    again = Minus(reads("s@14:00", S), reads("s@t{1}:t`2", S))
    found = frame(spark, step(again, weighted=True), names)
    assert found.columns == ["o", "c", WEIGHT]
    assert [r[-1] for r in values(found)] == [1, 1, 1, 1, -1, 1, -1, 1]
    assert not [t for t in spark.catalog.listTables() if "pyspark" in t.name.lower()], "no view is left behind"


def test_many_threads(spark: SparkSession, names: dict[str, DataFrame]):
    found: list[list[tuple[object, ...]]] = []

    def run(limit: int) -> None:
        tree = Filter(reads("s@14:00", S), parse(f"o < {limit}"))
        found.append(values(frame(spark, step(tree), {"s@14:00": names["s@14:00"].where(f"o < {limit}")})))

    threads = [threading.Thread(target=run, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(len, found)) == [0, 1, 2, 3, 4, 5]


def test_what_is_not_there(spark: SparkSession, names: dict[str, DataFrame]):
    with pytest.raises(StepError, match="made reads gone@t1, which is not there"):
        frame(spark, step(reads("gone@t1", R)), names)


def test_sql_that_spark_refuses(spark: SparkSession, names: dict[str, DataFrame]):
    with pytest.raises(StepError, match=r"Spark cannot run made: \[UNRESOLVED_COLUMN") as found:
        frame(spark, step(Filter(reads("kept_r", R), parse("z > 1"))), names)
    assert "WHERE\n  z > 1" in found.value.hint


def joined(spark: SparkSession, tree: Op, names: dict[str, DataFrame], *broadcasts: Side | None) -> str:
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    try:
        return physical_plan(frame(spark, step(tree, *broadcasts), names))
    finally:
        spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")


def test_broadcasts_of_the_plan_reach_spark(spark: SparkSession, names: dict[str, DataFrame]):
    s, r, d = reads("s@14:00", S), reads("kept_r", R), reads("d@t1", D)
    one = InnerJoin(s, r, parse("o = x"))
    assert "SortMergeJoin" in joined(spark, one, names)
    assert "BroadcastHashJoin [o" in (found := joined(spark, one, names, "right")) and "BuildRight" in found
    assert "BuildLeft" in joined(spark, one, names, "left")
    assert "BuildRight" in joined(spark, LeftOuterJoin(s, r, parse("o = x")), names, "right")
    assert "BuildRight" in joined(spark, SemiJoin(s, r, parse("o = x")), names, "right")
    outer = InnerJoin(one, d, parse("o = y"))
    assert joined(spark, outer, names, None, "right").count("BroadcastHashJoin") == 1
    assert joined(spark, outer, names, "right").count("BroadcastHashJoin") == 1
    assert joined(spark, outer, names, "right", "right").count("BroadcastHashJoin") == 2
    # What is copied may be a join itself.
    assert "BuildLeft" in joined(spark, outer, names, None, "left")
    assert "BuildRight" in joined(spark, InnerJoin(d, one, parse("o = y")), names, None, "right")
    # A copy and a sort in one SELECT: both hints count.
    found = joined(spark, TopK(one, (SortKey("o"),), None, 0), names, "right")
    assert "BroadcastHashJoin" in found and "Exchange SinglePartition, REPARTITION_BY_NUM" in found
    assert "Exchange rangepartitioning" not in found


def test_hints_are_for_spark():
    tree = InnerJoin(reads("s@14:00", S), reads("kept_r", R), parse("o = x"))
    hinted = step(tree, "right")
    assert "SELECT /*+ BROADCAST(kept_r) */" in hinted.sql
    assert "BROADCAST" not in hinted.to_sql("duckdb")


def test_the_order_that_is_left():
    s = reads("s@14:00", S)
    by_c = (SortKey("c", descending=True),)
    top = TopK(s, (*by_c, SortKey("o")), 3, 0)
    shown = Project(top, (Output(Column("shown", "string"), col("c")),))
    assert order_left(step(s, order=by_c)) == by_c
    assert order_left(step(top, order=by_c)) == ()
    assert order_left(step(top, order=(SortKey("c"),))) == (SortKey("c"),)
    assert order_left(step(shown, order=(SortKey("shown", descending=True),))) == ()
    assert order_left(step(TopK(s, by_c, None, 2), order=by_c)) == by_c


def test_an_order_by_hidden_columns_survives_the_writing(spark: SparkSession, states: States, tmp_path: Path):
    """Sorted rows in several partitions, which a writer that wants fewer would mix."""
    many = spark.range(0, 30000, 1, 8).selectExpr("id AS o", "CAST(hash(id) AS STRING) AS c")
    top = TopK(reads("s@14:00", S), (SortKey("c", descending=True),), None, 0)
    made = frame(spark, step(Project(top, (Output(Column("o", "bigint"), col("o")),))), {"s@14:00": many})
    wanted = [r.o for r in many.orderBy("c", ascending=False).collect()]
    for setting in ("true", "false"):
        spark.conf.set("spark.sql.adaptive.enabled", setting)
        try:
            written = states.write(made, str(tmp_path / setting))
            found = states.read([str(tmp_path / setting)], written.columns)
            assert [r.o for r in found.collect()] == wanted
        finally:
            spark.conf.unset("spark.sql.adaptive.enabled")


def test_frames_are_not_sorted(spark: SparkSession, names: dict[str, DataFrame]):
    found = frame(spark, step(reads("s@14:00", S), order=(SortKey("o"),)), names)
    assert "Sort" not in physical_plan(found)
