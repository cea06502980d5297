"""The executor that judges plans: it accepts right ones, and finds what is wrong with others."""

from __future__ import annotations

import dataclasses

import duckdb
import pytest
import sqlglot

from tempura.algebra import Filter
from tempura.expr import parse
from tempura.plans import IncrementalPlan, Step
from tempura.timeline import MAIN
from tests.duckrun import StepFailed, completed, execute, run_batch, unmatched
from tests.running_example import SQL, hand_made_plan

BATCH = {MAIN: SQL}


def with_step(plan: IncrementalPlan, name: str, **changes: object) -> IncrementalPlan:
    def changed(step: Step) -> Step:
        return dataclasses.replace(step, **changes) if step.name == name else step  # type: ignore[arg-type]

    runs = tuple(dataclasses.replace(r, steps=tuple(map(changed, r.steps))) for r in plan.runs)
    return dataclasses.replace(plan, runs=runs)


def test_right_plan(sales_connection: duckdb.DuckDBPyConnection):
    report = execute(hand_made_plan(), sales_connection, BATCH)
    assert report.right, str(report)
    assert (report.steps, report.results, report.empty_results, report.states) == (3, 1, 0, 2)
    assert report.rows == 2 + (3 + 4 + 4) + 2, "the state, the change with rows that cancel, the result"
    assert not report.type_differences
    left = sales_connection.execute("SELECT table_name FROM duckdb_tables() WHERE schema_name = 'main'").fetchall()
    assert all("@" in name for (name,) in left), "targets are dropped when the plan is done"


def test_result_of_the_running_example(sales_connection: duckdb.DuckDBPyConnection):
    run_batch(sales_connection, "answer", SQL, "t2")
    assert sales_connection.execute("SELECT * FROM answer ORDER BY 1").fetchall() == [("c1", 265.0), ("c2", 500.0)]


def test_wrong_delta_is_found_in_state_and_result(sales_connection: duckdb.DuckDBPyConnection):
    """Old sales are taken back with the new returns instead of the old ones: the late return of o2 is lost."""
    report = execute(hand_made_plan(old_returns="returns@t2"), sales_connection, BATCH)
    assert {(m.step, m.against) for m in report.mismatches} == {
        ("status_t1_t2", "definition"), ("result@t2", "batch"), ("result@t2", "definition"),
    }  # fmt: skip
    state = next(m for m in report.mismatches if m.step == "status_t1_t2")
    assert sorted(w for _, w in state.rows) == [-1, 1]
    assert {row[0] for row, _ in state.rows} == {"o2"}
    unchecked = execute(hand_made_plan(old_returns="returns@t2"), sales_connection, BATCH, check_states=False)
    assert {m.step for m in unchecked.mismatches} == {"result@t2"}


def test_wrong_definition_is_told_from_wrong_plan(sales_connection: duckdb.DuckDBPyConnection):
    """The result agrees with its definition and not with the batch text: the query was misread, not misplanned."""
    plan = hand_made_plan()
    step = plan.results[0][1]
    wrong = parse("category <> 'c2'")
    plan = with_step(plan, step.name, tree=Filter(step.tree, wrong), definition=Filter(step.definition, wrong))
    report = execute(plan, sales_connection, BATCH)
    assert [m.against for m in report.mismatches] == ["batch"]
    assert report.mismatches[0].rows == ((("c2", 500.0), -1),)


def test_other_column_names_are_found(sales_connection: duckdb.DuckDBPyConnection):
    report = execute(hand_made_plan(), sales_connection, {MAIN: SQL.replace("AS gross", "AS net")})
    assert "its columns are" in report.mismatches[0].message


def test_names_that_engines_make_up_do_not_matter(sales_connection: duckdb.DuckDBPyConnection):
    assert execute(hand_made_plan(), sales_connection, {MAIN: SQL.replace(" AS gross", "")}).right
    fewer = execute(hand_made_plan(), sales_connection, {MAIN: "SELECT DISTINCT category FROM sales"})
    assert "its columns are" in fewer.mismatches[0].message


def test_other_types_are_reported(sales_connection: duckdb.DuckDBPyConnection):
    report = execute(hand_made_plan(), sales_connection, {MAIN: SQL.replace("SUM(", "CAST(1 AS DECIMAL(9,2)) * SUM(")})
    assert report.right
    casted = SQL.replace(
        "SUM(IF(cost IS NULL, price, -cost))", "CAST(SUM(IF(cost IS NULL, price, -cost)) AS DECIMAL(9,2))"
    )
    report = execute(hand_made_plan(), sales_connection, {MAIN: casted})
    assert report.right
    assert "gross is DOUBLE" in report.type_differences[0]


def test_reading_the_future_fails(sales_connection: duckdb.DuckDBPyConnection):
    plan = hand_made_plan()
    late = dataclasses.replace(plan, runs=(dataclasses.replace(plan.runs[0], steps=plan.runs[1].steps),))
    with pytest.raises(StepFailed, match="not there then"):
        execute(late, sales_connection)


def test_reading_a_dropped_state_fails(sales_connection: duckdb.DuckDBPyConnection):
    plan = hand_made_plan()
    states = tuple(dataclasses.replace(s, read_at=()) for s in plan.states)
    with pytest.raises(StepFailed, match="'summary_t1'"):
        execute(dataclasses.replace(plan, states=states), sales_connection)


def test_without_batch_results_are_compared_with_their_definition(sales_connection: duckdb.DuckDBPyConnection):
    assert execute(hand_made_plan(), sales_connection).right
    assert not execute(hand_made_plan(old_returns="returns@t2"), sales_connection).right


def test_several_queries_are_told_apart(sales_connection: duckdb.DuckDBPyConnection):
    assert execute(hand_made_plan(), sales_connection, {"other": "SELECT 1 AS x", "summary": SQL}).right
    with pytest.raises(StepFailed, match="none of the queries"):
        execute(hand_made_plan(), sales_connection, {"a": SQL, "b": SQL})


def test_rounding_is_forgiven_and_nothing_else():
    assert unmatched([(("a", 1.0), 1), (("a", 1.0 + 1e-9), -1)], [1]) == []
    assert len(unmatched([(("a", 1.0), 1), (("b", 1.0), -1)], [1])) == 2
    assert len(unmatched([(("a", 1.0), 1), (("a", 1.1), -1)], [1])) == 2
    assert unmatched([(("a", 1.0), 2), (("a", 1.0 + 1e-9), -1)], [1]) == [(("a", 1.0), 1)]
    assert unmatched([(("a", None), 1), (("a", 0.0), -1)], [1]) == [(("a", None), 1), (("a", 0.0), -1)]
    assert unmatched([(("a", 1), 1), (("a", 2), -1)], []) == [(("a", 1), 1), (("a", 2), -1)]


def test_ties_are_broken_by_all_columns():
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE t AS SELECT * FROM (VALUES (1, 3), (1, 2), (1, 1), (1, NULL)) v(a, b)")
        for text in ("SELECT a, b FROM t ORDER BY a LIMIT 2", "SELECT * FROM t LIMIT 2"):
            query = completed(sqlglot.parse_one(text, dialect="spark"), connection).sql(dialect="duckdb")
            assert connection.execute(query).fetchall() == [(1, None), (1, 1)]
