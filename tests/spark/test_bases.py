"""A snapshot kept as a base and its deltas: planned so where that is cheaper than merging, and read without an exchange."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tempura import IncrementalPlan, Job, plan
from tempura.algebra import (
    Aggregate,
    AggregateCall,
    AggregateState,
    Filter,
    InnerJoin,
    LeftOuterJoin,
    MergeState,
    Op,
    Plus,
    Read,
)
from tempura.estimate import SparkCost
from tempura.expr import col, parse
from tempura.plans import Spread, Step
from tempura.schema import NO_KEYS, WEIGHT, Column
from tempura.spark.bases import Gathered, gather
from tempura.spark.states import States
from tempura.spark.steps import frame
from tempura.workspace import StateEntry
from tests.profiles import STEADY
from tests.spark.runjobs import interpreted, magnify, put, ran
from tests.spark.test_states import BUCKETS, exchanges, no_broadcast, physical_plan, rows

__all__ = ["no_broadcast"]
POINTS = ("t1", "t2", "t3", "t4")
JOB = """
name: parts
query: select o.customer, sum(l.price * l.quantity) s from orders o join lines l on o.id = l.order where l.price > 10 and o.customer > 5 group by o.customer
tables:
  orders: {{columns: {{id: bigint, customer: bigint, day: date}}, arrives: {{t1: 10000000, t2: 2000000, t3: 2000000, t4: 2000000}}}}
  lines: {{columns: {{order: bigint, quantity: int, price: double}}, arrives: {{t1: 40000000, t2: 8000000, t3: 8000000, t4: 8000000}}}}
timeline: [{timeline}]
"""

FILES = """
name: parts
query: select o.customer, sum(l.price * l.quantity) s from orders o join lines l on o.id = l.order where l.price > 10 and o.customer > 1 group by o.customer
tables:
  orders: {columns: {id: bigint, customer: bigint}, source: {kind: folders, path: orders, format: parquet}}
  lines: {columns: {order: bigint, quantity: int, price: double}, source: {kind: folders, path: lines, format: parquet}}
timeline: [{at: t1, deliver: true}, {at: t2, deliver: true}, {at: t3, deliver: true}, {at: t4, deliver: true}]
"""
ORDERS = {"id": pa.int64(), "customer": pa.int64()}
LINES = {"order": pa.int64(), "quantity": pa.int32(), "price": pa.float64()}


def planned(file: float) -> IncrementalPlan:
    """The plan where creating or opening a file takes so long."""
    timeline = ", ".join(f"{{at: {p}, deliver: true}}" for p in POINTS)
    return plan(Job.parse(JOB.format(timeline=timeline)), cost=SparkCost(replace(STEADY, file=file)))


def sums(found: IncrementalPlan) -> set[tuple[str, ...]]:
    """The sums of states that steps read."""
    written = {s.name for s in found.states}
    return {
        tuple(i.show() for i in op.inputs)
        for run in found.runs
        for step in run.steps
        for op in step.tree.walk()
        if isinstance(op, Plus) and all(isinstance(i, Read) and i.name in written for i in op.inputs)
    }


def test_deltas_are_kept_beside_their_base_until_reading_them_is_dearer_than_merging():
    apart, merged = planned(file=0.004), planned(file=1.0)
    assert any(len(parts) > 1 for parts in sums(apart))
    assert not sums(merged)
    kept = {s.name: s for s in apart.states}
    for parts in sums(apart):
        assert len({kept[p[5:-1]].partition for p in parts}) == 1, "parts lie alike"


COLUMNS = (Column("k", "bigint"), Column("v", "bigint"))


class Parts:
    """A base, a delta without and one with weights, and something to join them with."""

    def __init__(self, spark: SparkSession, states: States, folder: Path):
        self.spark, self.states = spark, states
        self.entries: dict[str, StateEntry] = {}
        for name, text in {
            "base": "SELECT IF(id % 10 = 0, NULL, id % 100) AS k, id AS v FROM range(1000)",
            "more": "SELECT id % 100 AS k, id AS v FROM range(50)",
            "less": f"SELECT id % 100 AS k, id AS v, IF(id < 20, -1L, 2L) AS {WEIGHT} FROM range(11, 40)",
            "other": "SELECT id % 100 AS k2, id AS w FROM range(500)",
        }.items():
            by = "k2" if name == "other" else "k"
            written = states.write(spark.sql(text), str(folder / name), partition=[by], buckets=BUCKETS)
            self.entries[name] = StateEntry(
                name=name, view=name, fingerprint=name, folders=(str(folder / name),), schema=tuple(tuple(c) for c in written.columns),
                weighted=name == "less", written_run=1, written_at_point="t1", partition=(by,), buckets=BUCKETS,
            )  # fmt: skip

    def reads(self, *names: str) -> list[Read]:
        return [Read(n, COLUMNS, self.entries[n].weighted, NO_KEYS) for n in names]

    def frame(self, step: Step, entries: dict[str, StateEntry]) -> Any:
        names = {name: self.read(entries[name]) for name in step.reads}
        return frame(self.spark, step, names)

    def read(self, entry: StateEntry) -> Any:
        columns = tuple(Column(*c) for c in entry.schema)
        return self.states.read(entry.folders, columns, partition=entry.partition, buckets=entry.buckets)


@pytest.fixture
def parts(spark: SparkSession, states: States, tmp_path: Path, no_broadcast: None) -> Parts:
    return Parts(spark, states, tmp_path)


def joined(parts: Parts, *names: str) -> Step:
    """The sum of states, joined with another one by the key that both are distributed by."""
    first, *rest = parts.reads(*names)
    total: Op = first
    for part in rest:
        total = Plus((total, part))
    other = Read("other", (Column("k2", "bigint"), Column("w", "bigint")), False, NO_KEYS)
    tree = InnerJoin(Filter(total, parse("v > 5")), other, parse("k = k2"))
    weighted = any(parts.entries[n].weighted for n in names)
    return Step("joined", "state", "joined", tree, weighted, tree)


@pytest.mark.parametrize("names", [("base", "more"), ("base", "less"), ("base", "more", "less")])
def test_base_and_deltas_are_read_as_one(parts: Parts, names: tuple[str, ...]):
    step = joined(parts, *names)
    found = gather(step, parts.entries)
    assert found.step.reads == ("+".join(names), "other")
    as_one = parts.frame(found.step, {**parts.entries, **found.entries})
    apart = parts.frame(step, parts.entries)
    assert (exchanges(as_one), exchanges(apart) > 0) == (0, True)
    assert rows(as_one) == rows(apart) != []


def test_what_does_not_lie_alike_is_added_up_as_it_is(parts: Parts):
    entries = parts.entries | {"more": parts.entries["base"]}
    step = joined(parts, "base", "more")
    base = Read("base", COLUMNS, False, NO_KEYS)
    for name, entry in {"tables": {}, "another key": entries | {"more": parts.entries["other"]}}.items():
        assert gather(step, entry).step is step, name
    single = Step("s", "state", "s", Filter(base, parse("v > 5")), False, base)
    assert gather(single, entries).step is single


def test_hints_stay_with_their_joins(parts: Parts):
    tree = joined(parts, "base", "more").tree
    step = Step("s", "state", "s", tree, False, tree, broadcasts=((len(list(tree.walk())) - 1, "right"),))
    found = gather(step, parts.entries).step
    ((place, side),) = found.broadcasts
    assert side == "right" and isinstance(list(found.tree.walk())[place], InnerJoin)
    assert "BROADCAST" in found.sql


def summed(parts: Parts, *states: str) -> Op:
    """Rows that are in no state, added to states."""
    fresh = Filter(Read("fresh", COLUMNS, False, NO_KEYS), parse("v > 1"))
    total: Op = parts.reads(*states)[0]
    for read in parts.reads(*states)[1:]:
        total = Plus((total, read))
    return Plus((total, fresh))


OTHER = Read("other", (Column("k2", "bigint"), Column("w", "bigint")), False, NO_KEYS)
CONSUMERS: dict[str, Callable[[Op], Op]] = {
    "aggregate": lambda total: Aggregate(total, ("k",), (AggregateCall(Column("n", "bigint"), "count", None),)),
    "distinct": lambda total: Aggregate(total, ("v", "k"), ()),
    "join": lambda total: InnerJoin(total, OTHER, parse("k = k2")),
    "outer join": lambda total: LeftOuterJoin(total, OTHER, parse("k = k2")),
}


@pytest.mark.parametrize("held", [("base",), ("base", "more")], ids="+".join)
@pytest.mark.parametrize("consumer", CONSUMERS)
def test_only_what_is_added_to_states_is_moved(
    spark: SparkSession, parts: Parts, consumer: str, held: tuple[str, ...], tmp_path: Path
):
    tree = CONSUMERS[consumer](summed(parts, *held))
    (place,) = (n for n, op in enumerate(tree.walk()) if isinstance(op, Filter))
    plain = Step("s", "state", "s", tree, False, tree)
    told = gather(replace(plain, spreads=(Spread(place, ("k",)),)), parts.entries)
    spark.sql("SELECT id % 70 AS k, id AS v FROM range(200)").write.parquet(str(tmp_path / "fresh"))
    fresh = spark.read.parquet(str(tmp_path / "fresh"))
    with_states = {**parts.entries, **told.entries}
    moved, all_moved = (
        frame(spark, s, {n: fresh if n == "fresh" else parts.read(e[n]) for n in s.reads})
        for s, e in ((told.step, with_states), (plain, parts.entries))
    )
    assert f"REPARTITION({BUCKETS}, k__moved)" in told.step.sql
    assert (exchanges(moved), exchanges(all_moved) >= 1) == (1, True)
    assert rows(moved) == rows(all_moved) != []


def test_rows_with_weights_are_moved_with_them(spark: SparkSession, parts: Parts):
    """A state of which rows are taken back, and new rows: the sum is the same wherever they lie."""
    tree = CONSUMERS["aggregate"](summed(parts, "base", "less"))
    (place,) = (n for n, op in enumerate(tree.walk()) if isinstance(op, Filter))
    plain = Step("s", "state", "s", tree, False, tree)
    told = gather(replace(plain, spreads=(Spread(place, ("k",)),)), parts.entries)
    fresh = spark.sql("SELECT id % 70 AS k, id AS v FROM range(200)")
    found = [
        rows(frame(spark, s, {n: fresh if n == "fresh" else parts.read(e[n]) for n in s.reads}))
        for s, e in ((told.step, {**parts.entries, **told.entries}), (plain, parts.entries))
    ]
    assert "k__moved" in told.step.sql and WEIGHT in told.step.sql
    assert found[0] == found[1] != []


def test_states_are_merged_where_the_larger_one_lies(spark: SparkSession, states: States, tmp_path: Path):
    text = "SELECT id % 100 AS k, count(*) AS __n, count(id) AS __c_n FROM range(1000) GROUP BY 1"
    written = states.write(spark.sql(text), str(tmp_path / "kept"), partition=["k"], buckets=BUCKETS)
    kept = states.read([str(tmp_path / "kept")], written.columns, partition=["k"], buckets=BUCKETS)
    spark.sql("SELECT id % 170 AS k, id AS v FROM range(200)").write.parquet(str(tmp_path / "fresh"))
    fresh = spark.read.parquet(str(tmp_path / "fresh"))
    calls = (AggregateCall(Column("n", "bigint"), "count", col("v")),)
    new = AggregateState(Read("fresh", COLUMNS, False, NO_KEYS), ("k",), calls)
    tree = MergeState((Read("kept", new.schema, False, NO_KEYS), new), ("k",), calls)
    (place,) = (n for n, op in enumerate(tree.walk()) if isinstance(op, AggregateState))
    plain = Step("s", "state", "s", tree, False, tree)
    told = replace(plain, spreads=(Spread(place, ("k",), BUCKETS),))
    merged, apart = (frame(spark, s, {"kept": kept, "fresh": fresh}) for s in (told, plain))
    # What is new is summed up, and perhaps moved once more; what is kept stays where it is, below the union.
    above, below = physical_plan(merged).split("Union")
    assert "Exchange" not in above and "Exchange" in below
    assert "Exchange" in physical_plan(apart).split("Union")[0]
    assert rows(merged) == rows(apart) != []


def test_a_run_reads_base_and_deltas_as_one(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Through whole runs: later ones find the base and what was added to it in one read, and are right."""
    gathered: list[str] = []

    def watched(step: Step, entries: Mapping[str, StateEntry]) -> Gathered:
        found = gather(step, entries)
        gathered.extend(found.entries)
        return found

    monkeypatch.setattr("tempura.spark.point.gather", watched)
    magnify(monkeypatch)
    job = replace(Job.parse(FILES, tmp_path), cluster=STEADY)
    for n in range(len(POINTS)):
        orders = range(0, 100) if n == 0 else range(80 + 20 * n, 100 + 20 * n)
        put(tmp_path / f"orders/{n}/part.parquet", ORDERS, [(i, i % 7 or None) for i in orders])
        lines = [
            (o - (7 * n if o % 3 else 0), o % 4, None if o % 11 == 0 else 5.0 + (o * k) % 13)
            for o in orders
            for k in range(4)
        ]
        put(tmp_path / f"lines/{n}/part.parquet", LINES, lines)
        with interpreted(spark):
            ran(spark, job)
    assert any(name.count("+") for name in gathered)
