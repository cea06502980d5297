"""Plans made in the middle of a timeline: every run is planned anew with the states that the runs before it left, executed, and compared."""

from __future__ import annotations

import dataclasses

import pytest

import tempura
from tempura.catalog import Catalog, Table
from tempura.definitions import Fingerprints
from tempura.plans import IncrementalPlan, Step
from tempura.schema import Column
from tempura.sql.bind import bind
from tempura.standing import Kept, Standing
from tempura.timeline import MAIN
from tests.duckrun import RunReport, _compare, _create, _quoted  # pyright: ignore[reportPrivateUsage]
from tests.profiles import STEADY
from tests.tpcds_grid import Cell, connection_for, job_of

SF, POINTS = 0.01, 3


def steady(cell: Cell) -> tempura.Job:
    """A cell's job where it is worth keeping states, whatever is measured."""
    return dataclasses.replace(job_of(cell, SF, POINTS, virtual=True), cluster=STEADY)


def kept(step: Step, point: str, prints: Fingerprints) -> Kept:
    return Kept(step.name, step.view, prints.of(step.definition), step.weighted, point, step.partition)


def loaded(plan: IncrementalPlan, names: set[str]) -> set[str]:
    return {name for step in plan.runs[0].steps for name in step.reads if name in names}


@pytest.mark.parametrize("scenario", ["warehouse", "refresh"])
@pytest.mark.parametrize("query", [3, 10, 40, 51, 93], ids=lambda q: f"q{q}")
def test_each_run_planned_anew_is_right_and_reads_what_is_there(query: int, scenario: str) -> None:
    connection = connection_for(SF, "delta-RS", POINTS, 1)
    job = dataclasses.replace(steady(Cell(query, "delta-RS", scenario, "all")), policy="incremental")
    report, states, read = RunReport(), dict[str, Kept](), set[str]()
    try:
        for done in range(POINTS):
            plan = tempura.plan(job, standing=Standing(done, tuple(states.values())), baselines=False)
            run = plan.runs[0]
            assert run.point == job.timeline.points[done].name
            read |= loaded(plan, set(states))
            prints = Fingerprints()
            for step in run.steps:
                assert step.name not in states
                _create(connection, step.name, step.to_sql("duckdb"), step.name)
                _compare(report, connection, run, step, {MAIN: job.queries[MAIN]}, check_states=True)
                states[step.name] = kept(step, run.point, prints)
            needed = {s.name for s in plan.states if any(p != run.point for p in s.read_at)}
            for name in set(states) - needed:
                connection.execute(f"DROP TABLE {_quoted(name)}")
                del states[name]
    finally:
        for name in states:
            connection.execute(f"DROP TABLE IF EXISTS {_quoted(name)}")
    assert report.right, str(report)
    assert read, "no run read what an earlier one had kept"


def test_what_is_there_is_not_paid_for_again() -> None:
    job = steady(Cell(3, "delta-small", "warehouse", "all"))
    first = tempura.plan(job, baselines=False)
    prints = Fingerprints()
    left = tuple(kept(step, first.runs[0].point, prints) for step in first.runs[0].steps)
    assert left
    with_states = tempura.plan(job, standing=Standing(1, left), baselines=False)
    without = tempura.plan(job, standing=Standing(1), baselines=False)
    later = sum(cost for point, cost in first.cost.by_point.items() if point != first.runs[0].point)
    assert with_states.cost.total == pytest.approx(later, rel=1e-6)
    assert with_states.cost.total < without.cost.total
    told = str(with_states)
    assert all(
        f"{state.name} (from {first.runs[0].point})" in told.replace("\n        ", " ")
        for state in with_states.states
        if state.written == first.runs[0].point
    )
    assert "●" not in next(
        line for line in told.splitlines() if line.strip().startswith(left[0].name[:20]) and "kept from" in line
    )


def test_a_state_of_another_view_is_of_no_use() -> None:
    job = steady(Cell(3, "delta-small", "warehouse", "all"))
    stranger = Kept("stranger", "x[t1]", "0" * 32, False, "t1")
    plan = tempura.plan(job, standing=Standing(1, (stranger,)), baselines=False)
    assert plan.cost.total == tempura.plan(job, standing=Standing(1), baselines=False).cost.total
    assert not loaded(plan, {"stranger"})


@pytest.mark.parametrize("policy", ["auto", "incremental"])
@pytest.mark.parametrize("join", ["LEFT", "RIGHT", "FULL"])
def test_a_table_that_is_empty_at_first(join: str, policy: str) -> None:
    """With nothing to join yet, an outer join is the same group as the table that it preserves."""
    job = tempura.Job.parse(
        f"""
        query: SELECT category, sum(cost) AS cost FROM sales {join} JOIN returns ON o_id = r_id GROUP BY category
        tables:
          sales: {{columns: {{o_id: bigint, category: string}}, key: [o_id], arrives: {{t1: 1000000, t2: 10000}}}}
          returns: {{columns: {{r_id: bigint, cost: bigint}}, arrives: {{t1: 0, t2: 1000}}}}
        timeline: [{{at: t1, deliver: true}}, {{at: t2, deliver: true}}]
        policy: {policy}
        """
    )
    assert [run.point for run in tempura.plan(job, baselines=False).runs] == ["t1", "t2"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("SELECT n FROM s WHERE c = '`a`'", "SELECT n FROM s WHERE c = 'a'"),
        ("SELECT `a - n` AS z FROM s", "SELECT a - n AS z FROM s"),
        ("SELECT c, grouping_id() AS z FROM s GROUP BY c, n GROUPING SETS ((c), (n))", "SELECT c, grouping_id() AS z FROM s GROUP BY n, c GROUPING SETS ((c), (n))"),
    ],
)  # fmt: skip
def test_other_queries_have_other_fingerprints(one: str, other: str) -> None:
    columns = tuple(Column(*c) for c in (("c", "string"), ("n", "int"), ("a", "int"), ("a - n", "int")))
    catalog = Catalog(Table("s", columns, (), {"t1": 1}))
    prints = Fingerprints()
    first, again, second = (prints.of(bind(text, catalog).root) for text in (one, one, other))
    assert first == again != second
