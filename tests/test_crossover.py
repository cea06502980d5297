"""The share of returned orders decides between IM-1 and IM-2, at a million rows under the Spark cost model as it does among seven.

The planner has both methods and must use one (`policy: incremental`); work costs the same at both points, and half of all rows is there at the first. IM-1 takes back every
order of the first half that is returned in the second; IM-2 holds all orders back that have no return yet, which are the fewer the more are returned.
Free to choose, the planner recomputes here: both methods read all orders again to find the ones just returned.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

import tempura
from tests.running_example import SQL

ORDERS = 1_000_000


@cache
def shop(share: float) -> tempura.Job:
    """A million orders, of which a share is returned."""
    half = {"t1": ORDERS / 2, "t2": ORDERS / 2}
    sales = {"columns": {"o_id": "string", "category": "string", "price": "double"}, "key": ["o_id"]}
    returns = {"columns": {"o_id": "string", "cost": "double"}, "key": ["o_id"]}
    tables = {
        "sales": {**sales, "arrives": half, "statistics": {"category": {"distinct": 20}}},
        "returns": {**returns, "arrives": {point: rows * share for point, rows in half.items()}},
    }
    timeline = [{"at": "t1"}, {"at": "t2", "deliver": True}]
    return tempura.Job(query=SQL, tables=tables, timeline=timeline, policy="incremental")


def used(plan: tempura.IncrementalPlan) -> set[str]:
    return {method for run in plan.runs for step in run.steps for method in step.methods}


@cache
def alone(share: float, method: str) -> float:
    """The cost of a method used throughout."""
    plan = tempura.plan(shop(share), [method], baselines=False)
    assert used(plan) == {method}
    return plan.cost.total


def chosen(share: float) -> set[str]:
    """The method that the planner takes when it has both."""
    return used(tempura.plan(shop(share), tempura.IM1 | tempura.IM2, baselines=False))


def test_from_im1_to_im2_as_more_orders_are_returned():
    low, high = 0.01, 0.98
    assert (chosen(low), chosen(high)) == ({"IM1"}, {"IM2"})
    while high - low > 0.01:
        middle = (low + high) / 2
        low, high = (middle, high) if chosen(middle) == {"IM1"} else (low, middle)
    assert 0.03 < low < 0.9, "the crossover is inside, not at an end"
    assert chosen(low - 0.02) == {"IM1"} and chosen(high + 0.05) == {"IM2"}
    assert alone(low - 0.02, "IM1") < alone(low - 0.02, "IM2") and alone(high + 0.05, "IM2") < alone(high + 0.05, "IM1")


@pytest.mark.parametrize("share", [0.05, 0.4, 0.9])
def test_free_to_choose_is_never_dearer(share: float):
    free = tempura.plan(replace(shop(share), policy="auto"), baselines=False)
    assert free.cost.total <= min(alone(share, "IM1"), alone(share, "IM2"))
