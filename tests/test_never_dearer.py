"""With all methods a plan never costs more than with any one of them, and none costs more than recomputing."""

from __future__ import annotations

import dataclasses

import pytest

import tempura
from tempura.choose.graph import Graph
from tempura.implement import Implementation
from tempura.job import Job
from tempura.optimizer import cost_model, explore
from tempura.rules.methods import METHODS, NONE
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
