"""With all methods a plan never costs more than with any one of them, and none costs more than recomputing."""

from __future__ import annotations

import dataclasses

import pytest

import tempura
from tempura.catalog import Catalog, ColumnStatistics, Table
from tempura.choose.graph import Graph
from tempura.implement import Implementation
from tempura.job import Job
from tempura.optimizer import cost_model, explore
from tempura.rules.methods import METHODS, NONE
from tempura.schema import Column
from tempura.timeline import Point, Timeline
from tests.tpcds_grid import Cell, job_of

QUERIES = (1, 3, 9, 15, 19, 37, 38, 50, 82, 85, 93, 97)
"""Aggregates, joins, DISTINCT, INTERSECT, outer joins, sub-queries; among them those on which the search once went astray."""


def cost(job: Job, method: str | None) -> tuple[float, ...]:
    """What a plan costs under the job's objective: one number, or the work of each run, the last one first."""
    found = tempura.plan(job, methods=None if method is None else [method], baselines=False)
    return tuple(reversed(list(found.cost.work.values()))) if "latest" in found.objective else (found.cost.total,)


def dearer(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    """Whether one cost is higher than another by more than rounding."""
    for a, b in zip(one, other, strict=True):
        if abs(a - b) > 1e-6 * max(abs(a), abs(b)):
            return a > b
    return False


@pytest.mark.parametrize("scenario", ["warehouse", "refresh"])
@pytest.mark.parametrize("pattern", ["delta-small", "delta-RS"])
@pytest.mark.parametrize("query", QUERIES, ids=lambda q: f"q{q}")
def test_all_methods_cost_no_more_than_any_one_and_none_more_than_recomputing(
    query: int, pattern: str, scenario: str
) -> None:
    job = job_of(Cell(query, pattern, scenario, "all"), 0.01, virtual=True)
    full = cost(dataclasses.replace(job, policy="full"), None)
    together = cost(job, None)
    assert not dearer(together, full), f"all {together}, full {full}"
    for method in METHODS:
        alone = cost(job, method)
        assert not dearer(together, alone), f"all {together}, {method} {alone}"
        assert not dearer(alone, full), f"{method} {alone}, full {full}"


def graph_of(job: Job, *methods: str) -> Graph:
    chosen = METHODS[methods[0]] if len(methods) == 1 else NONE
    for method in methods[1:]:
        chosen = METHODS[method] if chosen is NONE else chosen | METHODS[method]
    explored = explore(job, chosen)
    return Implementation(explored.space, cost_model("spark")).graph(
        explored.required, [p.price for p in job.timeline.points]
    )


def table(name: str, columns: str, rows: float, key: str = "", **distinct: float) -> Table:
    found = tuple(Column(c, "bigint", c != key) for c in columns.split())
    known = {column: ColumnStatistics(distinct=n) for column, n in distinct.items()}
    return Table(name, found, (key,) if key else (), {"t1": rows, "t2": rows / 10}, {}, known)


TWO = Timeline((Point("t1", 0.2, ("result",)), Point("t2", 1.0, ("result",))))


def test_a_block_of_joins_below_an_outer_join_has_its_orders():
    """With all columns shown there is nothing between the two, and OJV makes an inner join of the outer one."""
    tables = Catalog(
        table("o", "id x", 1e5, "id"),
        table("a", "bk ck oid", 1e6, bk=1e3, ck=1e4, oid=1e5),
        table("b", "bk2 y", 1e5, bk2=1e3),
        table("c", "ck2 flag", 1e4, "ck2", flag=100),
    )
    block = "SELECT * FROM a JOIN b ON a.bk = b.bk2 JOIN c ON a.ck = c.ck2 WHERE c.flag = 1"
    query = f"SELECT * FROM o LEFT JOIN ({block}) x ON o.id = x.oid"
    found = tempura.plan(Job(query=query, catalog=tables, timeline=TWO))
    assert not dearer((found.cost.total,), (found.baselines["full"],))


def test_what_a_result_is_does_not_lead_back_to_it():
    """That two blocks of joins are the same is found late, when a rule has already said the result by itself."""
    tables = Catalog(
        table("c", "ck cj ci cz", 1e6, ck=1e5, cj=1e4, ci=1e4),
        table("e", "ek ez", 1e4, "ek"),
        table("d", "dk dflag", 1e4, "dk", dflag=100),
        table("a", "ak av", 1e5, ak=1e5),
        table("b", "bk bv", 1e5, bk=1e5),
    )
    query = """SELECT ck, cz FROM c JOIN e ON cj = ek JOIN d ON ci = dk WHERE dflag = 1 UNION ALL SELECT ak, av FROM a LEFT JOIN b ON ak = bk
    WHERE EXISTS (SELECT 1 FROM c JOIN d ON ci = dk JOIN e ON cj = ek WHERE dflag = 1 AND ck = ak AND cz <> coalesce(bv, 0))"""
    found = tempura.plan(Job(query=query, catalog=tables, timeline=TWO))
    assert not dearer((found.cost.total,), (found.baselines["full"],))
