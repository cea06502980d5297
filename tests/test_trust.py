"""A key that is dear to look up is relied on only if it saves more than that; the plan that does not rely on it does not use it anywhere."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from tempura import Job, plan
from tempura.catalog import Catalog, ColumnStatistics, Table
from tempura.job import Objective
from tempura.job.shapes import Policy
from tempura.plans import IncrementalPlan
from tempura.schema import Column
from tempura.standing import BEGINNING
from tempura.timeline import Point, Timeline
from tempura.trust import planned

SALES = Table(
    "sales",
    (Column("id", "bigint", False), Column("shop", "bigint"), Column("price", "decimal(9,2)")),
    ("id",),
    {"t1": 1e7, "t2": 1e6},
    {},
    {"shop": ColumnStatistics(distinct=50)},
)
ONE = Timeline((Point("t1", 1.0, ("result",)), Point("t2", 1.0, ("result",))))
TOTALS = "SELECT shop, sum(price) AS total FROM sales GROUP BY shop"
DISTINCT = "SELECT DISTINCT id, price FROM sales"


def job(query: str, objective: str = "weighted") -> Job:
    return Job(query=query, catalog=Catalog(SALES), timeline=ONE, objective=objective)


@pytest.mark.parametrize("objective", ["weighted", "latest-first"])
def test_a_key_that_saves_nothing_is_doubted(objective: str):
    found, made = planned(job(TOTALS, objective), BEGINNING, {"sales": 8.0})
    assert found.catalog["sales"].doubted and not found.catalog["sales"].keys
    assert [n for n in made.notes if n.startswith("sales: no plan relies on the key, so it is not looked up")]
    believing, same = planned(job(TOTALS, objective), BEGINNING, {})
    assert not believing.catalog["sales"].doubted and not same.notes
    assert same.cost.work == made.cost.work, "estimates believe the key all the same"


def test_a_key_that_saves_more_than_looking_it_up_is_relied_on():
    """Rows with a key of their own differ already; to find out without it takes more than looking up the key."""
    trusting, with_key = planned(job(DISTINCT), BEGINNING, {"sales": 0.6})
    doubting, without = planned(job(DISTINCT), BEGINNING, {"sales": 500.0})
    assert not trusting.catalog["sales"].doubted and doubting.catalog["sales"].doubted
    assert 1.2 < without.cost.total - with_key.cost.total < 1000


def test_what_is_cheap_is_looked_up():
    found, made = planned(job(TOTALS), BEGINNING, {"sales": 0.4})
    assert not found.catalog["sales"].doubted and not made.notes


def test_each_key_is_doubted_by_itself():
    """What one saves does not speak for another."""
    shops = Table(
        "shops", (Column("shop", "bigint", False), Column("city", "string")), ("shop",), {"t1": 1e6, "t2": 1e5}
    )
    query = "SELECT DISTINCT id, price FROM sales UNION ALL SELECT count(*), max(shop) FROM shops"
    found, made = planned(replace(job(query), catalog=Catalog(SALES, shops)), BEGINNING, {"sales": 0.6, "shops": 0.7})
    assert {t.name: t.doubted for t in found.catalog.values()} == {"sales": False, "shops": True}
    assert [n.partition(":")[0] for n in made.notes if "no plan relies" in n] == ["shops"]


@pytest.mark.parametrize("policy", ["auto", "incremental"])
def test_a_key_that_can_no_more_be_looked_up_is_never_relied_on(policy: Policy):
    found, made = planned(replace(job(DISTINCT), policy=policy), BEGINNING, {"sales": math.inf})
    assert found.catalog["sales"].doubted
    assert [n for n in made.notes if n.endswith("so it is not looked up, as of points before it cannot be")]


def test_several_keys_that_can_no_more_be_looked_up_are_all_doubted():
    others = replace(SALES, name="others")
    query = f"{DISTINCT} UNION ALL SELECT DISTINCT id, price FROM others"
    infinite = {"sales": math.inf, "others": math.inf}
    found, _ = planned(replace(job(query), catalog=Catalog(SALES, others)), BEGINNING, infinite)
    assert all(table.doubted for table in found.catalog.values())


def test_a_limit_on_the_last_run_counts_looking_up():
    cheap_before = Timeline((Point("t1", 0.01), Point("t2", 1.0, ("result",))))
    _, free = planned(replace(job(DISTINCT), timeline=cheap_before), BEGINNING, {})
    without, _ = planned(replace(job(DISTINCT), timeline=cheap_before), BEGINNING, {"sales": math.inf})
    limit = plan(without).cost.work["t2"] + 0.1
    assert free.cost.work["t2"] < limit
    limited = replace(job(DISTINCT), timeline=cheap_before, objective=Objective.parse(f"last-run-at-most:{limit}"))
    found, _ = planned(limited, BEGINNING, {"sales": limit})
    assert found.catalog["sales"].doubted


@pytest.mark.parametrize(("policy", "doubted"), [("auto", True), ("incremental", False)])
def test_what_is_to_be_maintained_is_not_recomputed_for_want_of_a_key(
    policy: Policy, doubted: bool, monkeypatch: pytest.MonkeyPatch
):
    """As if recomputing were cheaper, which is all that is left without the key."""

    def cheaper(given: Job, **options: Any) -> IncrementalPlan:
        made = plan(given, **options)
        share = 0.5 if given.catalog["sales"].doubted else 1.0
        return replace(made, cost=replace(made.cost, work={p: w * share for p, w in made.cost.work.items()}))

    monkeypatch.setattr("tempura.trust.plan", cheaper)
    found, _ = planned(replace(job(DISTINCT), policy=policy), BEGINNING, {"sales": 8.0})
    assert found.catalog["sales"].doubted == doubted


def test_what_must_be_maintained_may_do_without():
    """Ties are broken by all columns, so that nothing is open without the key."""
    strict = replace(job("SELECT id, price FROM sales ORDER BY price DESC LIMIT 3"), policy="strict")
    found, _ = planned(strict, BEGINNING, {"sales": 8.0})
    assert found.catalog["sales"].doubted
