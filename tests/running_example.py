"""The paper's running example: its job, its rows on DuckDB, and a plan for it made by hand."""

from __future__ import annotations

from pathlib import Path

import duckdb

from tempura.algebra import (
    Aggregate,
    AggregateCall,
    AggregateState,
    FinalState,
    LeftOuterJoin,
    MergeState,
    Minus,
    Op,
    Output,
    Plus,
    Project,
    Read,
)
from tempura.algebra.physical import delta_name, snapshot_name
from tempura.expr import col, parse
from tempura.plans import Cost, IncrementalPlan, PlanLine, Planning, Reason, Run, State, Step
from tempura.schema import NO_KEYS, Column

JOB = Path(__file__).resolve().parent.parent / "examples/sales/job.yaml"
SQL = (JOB.parent / "summary.sql").read_text()

SALES = (Column("o_id", "string", False), Column("category", "string"), Column("price", "double"))
RETURNS = (Column("o_id", "string"), Column("cost", "double"))
ROWS = {
    "sales": {
        "t1": [("o1", "c1", 100), ("o2", "c2", 150), ("o3", "c1", 120), ("o4", "c1", 170)],
        "t2": [("o5", "c2", 300), ("o6", "c1", 150), ("o7", "c2", 220)],
    },
    "returns": {"t1": [("o1", 10)], "t2": [("o2", 20), ("o6", 15)]},
}


def connect() -> duckdb.DuckDBPyConnection:
    """DuckDB with both tables as of both points, and their changes between them."""
    connection = duckdb.connect()
    for table, columns in (("sales", SALES), ("returns", RETURNS)):
        names = ", ".join(f"{c.name} {'VARCHAR' if c.type == 'string' else 'DOUBLE'}" for c in columns)
        parts = {
            snapshot_name(table, "t1"): ROWS[table]["t1"],
            snapshot_name(table, "t2"): ROWS[table]["t1"] + ROWS[table]["t2"],
            delta_name(table, "t1", "t2"): ROWS[table]["t2"],
        }
        for name, rows in parts.items():
            connection.execute(f'CREATE TABLE "{name}" ({names})')
            connection.executemany(f'INSERT INTO "{name}" VALUES ({", ".join("?" * len(columns))})', rows)
    return connection


def sales(name: str) -> Op:
    return Read(name, SALES, False, frozenset([frozenset(["o_id"])]))


def returns(name: str) -> Op:
    read = Read(name, RETURNS, False, NO_KEYS)
    return Project(read, (Output(Column("r_id", "string"), col("o_id")), Output(RETURNS[1], col("cost"))))


def status(sales_name: str, returns_name: str) -> Op:
    return LeftOuterJoin(sales(sales_name), returns(returns_name), parse("o_id = r_id"))


def amounts(rows: Op) -> Op:
    amount = Output(Column("amount", "double"), parse("IF(cost IS NULL, price, -cost)"))
    return Project(rows, (Output(SALES[1], col("category")), amount))


CALLS = (AggregateCall(Column("gross", "double"), "sum", col("amount")),)
BY = ("category",)


def delta(old_returns: str = "returns@t1") -> Op:
    """The change of sales_status: new sales with all returns, and old sales with the returns that came later."""
    return Plus(
        (
            status("sales@t1:t2", "returns@t2"),
            Minus(status("sales@t1", "returns@t2"), status("sales@t1", old_returns)),
        )
    )


def hand_made_plan(old_returns: str = "returns@t1") -> IncrementalPlan:
    """At t1 the state of the aggregate; at t2 the change of the join, kept as a weighted bag, and the merged result."""
    early = AggregateState(amounts(status("sales@t1", "returns@t1")), BY, CALLS)
    change = Minus(status("sales@t2", "returns@t2"), status("sales@t1", "returns@t1"))
    read_early = Read("summary_t1", early.schema, False, early.keys)
    read_change = Read("status_t1_t2", change.schema, True, NO_KEYS)
    merged = MergeState((read_early, AggregateState(amounts(read_change), BY, CALLS)), BY, CALLS)
    lines = (
        PlanLine(0, "summary[t2]", "FinalState[category]", 2, 48, 2, "IM1", "final_of_state"),
        PlanLine(1, "state(summary)[t2]", "MergeState[category]", 2, 64, 4, "IM1", "merge_state"),
    )
    steps = (
        Step("summary_t1", "state", "state(summary)[t1]", early, False, early, BY, (), 2, 64, 9, ("IM1",)),
        Step("status_t1_t2", "state", "sales_status[t1:t2]", delta(old_returns), True, change, (), (), 5, 240, 5, ("IM1",)),
        Step(
            "result@t2", "result", "summary[t2]", FinalState(merged, BY, CALLS), False,
            Aggregate(amounts(status("sales@t2", "returns@t2")), BY, CALLS), (), (), 2, 48, 5, ("IM1",), lines,
        ),
    )  # fmt: skip
    return IncrementalPlan(
        "gross-revenue",
        "weighted",
        (Run("t1", steps[:1]), Run("t2", steps[1:])),
        (
            State(
                "summary_t1", "state(summary)[t1]", "t1", ("t2",), 2, 64, BY, "merged with the change of summary at t2"
            ),
            State("status_t1_t2", "sales_status[t1:t2]", "t2", ("t2",), 5, 240, (), "read once, within its run"),
        ),
        Cost(11.8, {"t1": 1.8, "t2": 10.0}, {"t1": 9.0, "t2": 10.0}),
        {"full": 21.0, "IM1": 11.8, "IM2": 12.2, "OJV": float("inf")},
        (
            Reason("LeftOuterJoin[o_id = r_id]", "IM2", "12.2 instead of 11.8"),
            Reason("LeftOuterJoin[o_id = r_id]", "OJV", "returns has no key"),
        ),
        ("a note",),
        Planning(0.01, 0.02, 30, 8, 90, 120, 44, "no more firings"),
    )
