"""A key that is dear to look up is relied on only if it saves more than that; the plan that does not rely on it does not use it anywhere."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tempura import Job
from tempura.catalog import Catalog, ColumnStatistics, Table
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
    found, plan = planned(job(TOTALS, objective), BEGINNING, {"sales": 8.0})
    assert found.catalog["sales"].doubted and not found.catalog["sales"].keys
    assert [n for n in plan.notes if n.startswith("sales: no plan relies on the key, so it is not looked up")]
    believing, same = planned(job(TOTALS, objective), BEGINNING, {})
    assert not believing.catalog["sales"].doubted and not same.notes
    assert same.cost.work == plan.cost.work, "estimates believe the key all the same"


def test_a_key_that_saves_more_than_looking_it_up_is_relied_on():
    """Rows with a key of their own differ already; to find out without it takes more than looking up the key."""
    trusting, with_key = planned(job(DISTINCT), BEGINNING, {"sales": 0.6})
    doubting, without = planned(job(DISTINCT), BEGINNING, {"sales": 500.0})
    assert not trusting.catalog["sales"].doubted and doubting.catalog["sales"].doubted
    assert 1.2 < without.cost.total - with_key.cost.total < 1000


def test_what_is_cheap_is_looked_up():
    found, plan = planned(job(TOTALS), BEGINNING, {"sales": 0.4})
    assert not found.catalog["sales"].doubted and not plan.notes


def test_a_policy_that_needs_the_key_gets_it():
    """Without the key of the shops, which of two rows a window takes first would be open, and it could only be recomputed."""
    strict = replace(job("SELECT id, price FROM sales ORDER BY price DESC LIMIT 3"), policy="strict")
    found, _ = planned(strict, BEGINNING, {"sales": 8.0})
    assert found.catalog["sales"].doubted, "ties are broken by all columns, so this needs no key"
