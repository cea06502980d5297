"""The share of returned orders decides between IM-1 and IM-2, at a million rows under the Spark cost model with steady coefficients as it does among seven.

The planner has both methods and must use one (`policy: incremental`). The prices are those of the running example; nine orders in ten are there at the first point, and most returns come at
the second. IM-1 takes back every early order that is returned late; IM-2 holds all orders back that have no return yet, which are the fewer the more are returned. Where more returns
than orders come late, the planner lets the orders go first within the step, and IM-2 gains by it: that alone can be what turns the choice.
Free to choose, the planner recomputes here: both methods read all orders again to find the ones just returned.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

import tempura
from tempura.estimate import DEFAULT, Profile
from tests.profiles import STEADY
from tests.running_example import SQL

ORDERS = 1_000_000
PROFILES = pytest.mark.parametrize("cluster", [DEFAULT, STEADY], ids=["as shipped", "steady"])


@cache
def shop(share: float, cluster: Profile) -> tempura.Job:
    """A million orders, of which a share is returned."""
    sales = {"columns": {"o_id": "string", "category": "string", "price": "double"}, "key": ["o_id"]}
    returns = {"columns": {"o_id": "string", "cost": "double"}, "key": ["o_id"]}
    returned = ORDERS * share
    tables = {
        "sales": {
            **sales,
            "arrives": {"t1": ORDERS * 0.9, "t2": ORDERS * 0.1},
            "statistics": {"category": {"distinct": 20}},
        },
        "returns": {**returns, "arrives": {"t1": returned * 0.25, "t2": returned * 0.75}},
    }
    timeline = [{"at": "t1", "price": 0.2}, {"at": "t2", "price": 1.0, "deliver": True}]
    return tempura.Job(query=SQL, tables=tables, timeline=timeline, policy="incremental", cluster=cluster)


def used(plan: tempura.IncrementalPlan) -> set[str]:
    return {method for run in plan.runs for step in run.steps for method in step.methods}


@cache
def alone(share: float, cluster: Profile, method: str) -> float:
    """The cost of a method used throughout."""
    plan = tempura.plan(shop(share, cluster), [method], baselines=False)
    assert used(plan) == {method}
    return plan.cost.total


def chosen(share: float, cluster: Profile) -> set[str]:
    """The method that the planner takes when it has both."""
    return used(tempura.plan(shop(share, cluster), tempura.IM1 | tempura.IM2, baselines=False))


def test_from_im1_to_im2_as_more_orders_are_returned():
    cluster = STEADY
    low, high = 0.01, 0.98
    assert (chosen(low, cluster), chosen(high, cluster)) == ({"IM1"}, {"IM2"})
    while high - low > 0.01:
        middle = (low + high) / 2
        low, high = (middle, high) if chosen(middle, cluster) == {"IM1"} else (low, middle)
    assert 0.03 < low < 0.9, "the crossover is inside, not at an end"
    below, above = low - 0.02, high + 0.05
    assert (chosen(below, cluster), chosen(above, cluster)) == ({"IM1"}, {"IM2"})
    assert alone(below, cluster, "IM1") < alone(below, cluster, "IM2")
    assert alone(above, cluster, "IM2") < alone(above, cluster, "IM1")


@PROFILES
@pytest.mark.parametrize("share", [0.01, 0.05, 0.4, 0.9])
def test_the_cheaper_of_two_methods_is_chosen(share: float, cluster: Profile):
    """Where the two cross is up to the profile: by the shipped one IM-2 is the cheaper throughout."""
    cheaper = min(("IM1", "IM2"), key=lambda method: alone(share, cluster, method))
    assert chosen(share, cluster) == {cheaper}


@PROFILES
@pytest.mark.parametrize("share", [0.05, 0.4, 0.9])
def test_free_to_choose_is_never_dearer(share: float, cluster: Profile):
    free = tempura.plan(replace(shop(share, cluster), policy="auto"), baselines=False)
    assert free.cost.total <= min(alone(share, cluster, "IM1"), alone(share, cluster, "IM2"))
