"""The optimizer as a whole: the paper's figures, objectives, policies, budgets, several queries, and what users get wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tempura import IM1, IM2, Job, PlanError, Settings, Timeline, plan
from tempura.optimizer import explore, memo_text, trace_text, why_text
from tempura.reference import Bag
from tests.profiles import STEADY

SUMMARY = """
with sales_status as (
  select sales.o_id, category, price, cost from sales left outer join returns on sales.o_id = returns.o_id)
select category, sum(if(cost is null, price, -cost)) as gross from sales_status group by category
"""
SALES = [("o1", "c1", 100.0), ("o2", "c2", 150.0), ("o3", "c1", 120.0), ("o4", "c1", 170.0)]
LATER_SALES = [("o5", "c2", 300.0), ("o6", "c1", 150.0), ("o7", "c2", 220.0)]


def summary_job(scale: float = 1.0, **more: Any) -> Job:
    sales = {"columns": {"o_id": "string", "category": "string", "price": "double"}, "key": ["o_id"]}
    returns = {"columns": {"o_id": "string", "cost": "double"}}
    return Job(
        name="gross-revenue",
        query=SUMMARY,
        tables={
            "sales": {**sales, "arrives": {"t1": 4 * scale, "t2": 3 * scale}},
            "returns": {**returns, "arrives": {"t1": 1 * scale, "t2": 2 * scale}},
        },
        timeline=[{"at": "t1", "price": 0.2}, {"at": "t2", "price": 1.0, "deliver": True}],
        **more,
    )


def history(later_returns: list[str]) -> dict[str, list[Bag]]:
    returns = [("o1", 10.0)]
    later = [*returns, *((o, 20.0) for o in later_returns)]
    return {
        "sales": [dict.fromkeys(SALES, 1), dict.fromkeys(SALES + LATER_SALES, 1)],
        "returns": [dict.fromkeys(returns, 1), dict.fromkeys(later, 1)],
    }


@pytest.mark.parametrize(
    ("later", "im1", "im2"),
    [
        (["o2", "o6"], (9, 10, 11.8), (6, 11, 12.2)),
        (["o2", "o4"], (9, 12, 13.8), (6, 11, 12.2)),
        (["o2", "o4", "o6"], (9, 13, 14.8), (6, 12, 13.2)),
    ],
)
def test_the_running_example_costs_what_the_paper_says(
    later: list[str], im1: tuple[float, ...], im2: tuple[float, ...]
):
    forced = summary_job(policy="incremental")
    data = history(later)
    for methods, (first, second, total) in ((IM1, im1), (IM2, im2)):
        alone = plan(forced, methods, cost="unit", data=data)
        assert alone.cost.work == pytest.approx({"t1": first, "t2": second}, abs=1e-6)
        assert alone.cost.total == pytest.approx(total, abs=1e-6)
    together = plan(summary_job(), cost="unit", data=data)
    assert together.cost.total <= min(im1[2], im2[2]) + 1e-6


def test_all_methods_together_are_never_dearer_on_the_running_example():
    for scale in (1, 1e3, 1e6):
        together = plan(summary_job(scale))
        assert all(together.cost.total <= cost * (1 + 1e-9) for cost in together.baselines.values())
        assert set(together.baselines) == {"full", "IM1", "IM2", "OJV", "HOV", "PART"}


TABLES: dict[str, Any] = {
    "s": {
        "columns": {"o": "int", "c": "string", "p": "decimal(7,2)"},
        "arrives": {"t1": 1e6, "t2": 1e5, "t3": 1e5},
        "statistics": {"c": {"distinct": 20}, "o": {"distinct": 1e5}},
    },
    "r": {"columns": {"o": "int", "x": "int"}, "arrives": {"t1": 1e5, "t2": 1e4, "t3": 1e4}},
}
POINTS: list[dict[str, Any]] = [
    {"at": "t1", "price": 0.2},
    {"at": "t2", "price": 0.3},
    {"at": "t3", "price": 1.0, "deliver": True},
]
PER_CATEGORY = "select c, sum(p) as g from s group by c"


def job(query: str = PER_CATEGORY, **more: Any) -> Job:
    return Job(query=query, tables=TABLES, **{"timeline": POINTS, "cluster": STEADY, **more})


def test_work_moves_to_where_it_is_cheap():
    found = plan(job())
    assert found.cost.work["t3"] < 0.5 * found.baselines["full"]
    assert [s.view for s in found.runs[0].steps] == ["state(result)[t1]"]
    assert found.states[0].until == "t3" and "result@t3" in found.states[0].why


def test_latest_first_does_all_it_can_early():
    weighted, latest = plan(job()), plan(job(objective="latest-first"))
    assert latest.cost.work["t3"] <= weighted.cost.work["t3"]
    assert latest.cost.total == latest.cost.work["t3"]


def test_the_last_run_can_be_bounded():
    least = plan(job(objective="latest-first")).cost.work["t3"]
    bounded = plan(job(objective={"last-run-at-most": least * 1.05}))
    assert bounded.cost.work["t3"] <= least * 1.05
    assert bounded.cost.total >= plan(job()).cost.total
    with pytest.raises(PlanError, match="the least found is"):
        plan(job(objective={"last-run-at-most": least / 10}))


def test_states_stay_within_the_budget():
    query = "select s.o, c, p, x from s left join r on s.o = r.o"
    refresh = {"timeline": Timeline.refresh(["t1", "t2", "t3"]), "objective": "latest-first"}
    free = plan(job(query, **refresh))
    kept = sum(s.bytes for s in free.states if s.name not in {r.name for _, r in free.results})
    assert kept > 0
    tight = plan(job(query, **refresh, state_budget=kept / 4))
    results = {r.name for _, r in tight.results}
    for point in ("t1", "t2"):
        alive = [s for s in tight.states if s.name not in results and s.written <= point < s.until]
        assert sum(s.bytes for s in alive) <= kept / 4


def test_policies():
    auto, full = plan(job()), plan(job(policy="full"))
    assert auto.cost.total < full.cost.total == pytest.approx(auto.baselines["full"])
    assert [len(r.steps) for r in full.runs] == [0, 0, 1]
    small = replace(job(), catalog=summary_job().catalog, queries={"result": SUMMARY}, timeline=summary_job().timeline)
    assert plan(small).states == ()
    assert plan(replace(small, policy="incremental")).states != ()
    with pytest.raises(PlanError, match="strict"):
        plan(job("select c, sum(p) over () as q from s", policy="strict"))
    assert plan(job(policy="strict")).cost.total == auto.cost.total
    assert plan(replace(small, policy="strict")).states != (), "it maintains, though recomputing would be cheaper"


def test_recomputing_keeps_nothing_and_reads_nothing_that_was_kept():
    large = {"columns": {"k": "int", "v": "string"}, "statistics": {"v": {"width": 10}}}
    tables = {"d": large | {"static": 5e6}, "f": large | {"arrives": {"t1": 5e6, "t2": 5e6, "t3": 5e6}}}
    query = "select d.v, f.v as w from f join d on f.k = d.k"
    asked = Job(query=query, tables=tables, timeline=Timeline.refresh(["t1", "t2", "t3"]))
    assert any(s.partition for s in plan(asked).states), "there is something to keep"
    assert plan(replace(asked, policy="full")).states == ()


def test_a_key_that_occurs_twice_is_no_place():
    big = {"columns": {"o": "int", "x": "int", "v": "string"}, "statistics": {"v": {"width": 1000}}}
    tables = {"l": big | {"static": 5e6}, "r": big | {"arrives": {"t1": 5e6, "t2": 5e4}}}
    query = "select l.v, r.v as w from r join l on r.o = l.o and r.x = l.o"
    made = plan(Job(query=query, tables=tables, timeline=Timeline.refresh(["t1", "t2"]), policy="incremental"))
    assert all(len(set(s.partition)) == len(s.partition) for s in made.states)


def test_a_map_is_no_place():
    """Spark distributes rows by hashes, and has none of maps."""
    large = {"columns": {"k": "int", "m": "map<string,int>", "v": "string"}, "statistics": {"v": {"width": 10}}}
    tables = {"f": large | {"arrives": {"t1": 5e6, "t2": 5e6, "t3": 5e6}}}

    def places(by: str) -> set[tuple[str, ...]]:
        asked = Job(query=f"select {by}, count(distinct v) as n from f group by {by}", tables=tables, timeline=Timeline.refresh(["t1", "t2", "t3"]), policy="incremental")  # fmt: skip
        return {s.partition for s in plan(asked).states}

    assert ("k",) in places("k") and places("m") == {()}


def test_lists_are_not_taken_back_by_making_them_again():
    found = plan(job("select c, collect_list(p) as l from s group by c", policy="incremental"), methods=["IM1"])
    assert any("may differ from the one that was delivered" in reason.reason for reason in found.reasons)
    kept = plan(job("select c, collect_list(p) as l from s group by c", policy="incremental"), methods=["PART"])
    assert any("PART" in step.methods for run in kept.runs for step in run.steps)


def test_what_is_not_deterministic_is_recomputed_when_it_is_due():
    found = plan(job("select c, sum(p) as g from s where p > rand() group by c"))
    assert [s.kind for run in found.runs for s in run.steps] == ["result"]
    assert any("RAND()" in note for note in found.notes)
    assert any("RAND()" in reason.reason for reason in found.reasons)
    above = plan(job("select c, g, rand() as z from (select c, sum(p) as g from s group by c)"))
    assert [s.view for s in above.runs[0].steps] == ["state(γ(s))[t1]"]


def test_several_queries_share_states():
    both = Job(
        queries={"a": PER_CATEGORY, "b": "select sum(g) as total from (select c, sum(p) as g from s group by c)"},
        tables=TABLES,
        timeline=[{"at": "t1", "deliver": "a"}, {"at": "t2"}, {"at": "t3", "deliver": ["a", "b"]}],
    )
    found = plan(both)
    assert [(point, s.name) for point, s in found.results] == [("t1", "a@t1"), ("t3", "a@t3"), ("t3", "b@t3")]


def test_a_timeline_of_one_point_is_the_batch_query():
    tables = {"s": {**TABLES["s"], "arrives": {"t1": 1e6}}}
    found = plan(Job(query=PER_CATEGORY, tables=tables, timeline=Timeline.warehouse([1.0])))
    assert [s.kind for s in found.runs[0].steps] == ["result"]


@pytest.mark.parametrize("off", ["symmetry", "pruning", "guided"])
def test_speed_ups_change_the_work_and_not_the_plan(off: str):
    usual, slow = plan(summary_job(1e6)), plan(summary_job(1e6), settings=Settings(**{off: False}))
    assert slow.cost.total <= usual.cost.total * (1 + 1e-9)
    assert slow.planning.facts >= usual.planning.facts


def test_symmetry_makes_exploration_independent_of_the_number_of_points():
    def facts(points: int, symmetry: bool) -> int:
        names = [f"t{i}" for i in range(points)]
        tables = {t: {**TABLES[t], "arrives": dict.fromkeys(names, 1e5)} for t in TABLES}
        wide = Job(
            query="select s.c, sum(x) as g from s join r on s.o = r.o group by s.c",
            tables=tables,
            timeline=Timeline.refresh(names),
        )
        return explore(wide, settings=Settings(symmetry=symmetry)).memo.facts

    assert facts(3, True) == facts(6, True)
    assert facts(3, False) < facts(6, False)


def test_everything_can_be_asked_why():
    asked = summary_job(1e6)
    assert "positive_left_outer_join" in memo_text(asked)
    assert "delta_left_outer_join (IM1)" in trace_text(asked)
    told = why_text(asked, "result[t2]")
    assert "aggregate_state" in told and "->" in told
    with pytest.raises(PlanError, match="no view"):
        why_text(asked, "nonsense[t2]")


def test_every_unused_method_has_a_reason():
    found = plan(summary_job(1e6))
    for operator in ("result", "sales ⟕ returns"):
        assert {r.method for r in found.reasons if operator in r.operator} >= {"OJV", "HOV", "PART"}
    assert all(r.reason for r in found.reasons)
    retracting = replace(summary_job(1e6), catalog=_retracting(summary_job(1e6)))
    told = {r.reason for r in plan(retracting).reasons if "sales ⟕ returns" in r.operator and r.method == "IM2"}
    assert told == {"retractions in returns, sales"}


def _retracting(given: Job) -> Any:
    from tempura import Catalog

    return Catalog(*(replace(t, retracts={"t2": 0.1}) for t in given.catalog.values()))
