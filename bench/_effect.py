"""What each method alone, and all together, are estimated to cost: shared by the experiments on refreshing and on the warehouse.

A method alone is what planning with that method gives: it keeps what every method builds on (deltas of linear operators, join orders, sharing), and may recompute where that
is cheaper. `throughout` is the method as its inventors have it: nothing is recomputed that it has a rule for. Costs are core-seconds of the cost model.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from bench import _planned
from bench._record import ALL, FULL, Experiment, Figures
from tempura import IncrementalPlan, Timeline, plan
from tempura.plans import PlanLine, Step
from tempura.rules.methods import METHODS, NONE

FIVE = "q10,q35,q40,q80,q93"
"""The paper's five queries: inner, outer and semi-joins, and aggregates."""
SINGLE = tuple(METHODS)
EVERY = (ALL, *SINGLE, FULL)
ROUNDING = 1e-6
Setting = tuple[int, str]
"""A query and an arrival pattern."""


def settings(queries: Sequence[int], patterns: Sequence[str]) -> list[Setting]:
    """Each query on delta-big, and q10, if it is among them, on the other patterns as well."""
    return [(q, p) for p in patterns for q in queries if p == "delta-big" or q == 10]


def planned(setting: Setting, sf: float, when: Timeline, methods: str, policy: str) -> IncrementalPlan:
    """The plan of one cell."""
    query, pattern = setting
    chosen = {ALL: None, FULL: NONE}.get(methods, [methods])
    return plan(_planned.job_of(query, sf, pattern, when, policy), chosen, baselines=False)


def cost(setting: Setting, sf: float, when: Timeline, methods: str) -> Figures:
    """The cost of a plan under its objective, with a method alone and throughout, and what reading the tables is of it."""
    alone = planned(setting, sf, when, methods, "auto")
    figures: Figures = {
        "cost": alone.cost.total,
        "work": list(alone.cost.work.values()),
        "used": sorted({m for run in alone.runs for step in run.steps for m in step.methods}),
        "reading": reading(alone, when),
    }
    if methods != FULL:
        figures["throughout"] = planned(setting, sf, when, methods, "incremental").cost.total
    return figures


def reading(found: IncrementalPlan, when: Timeline) -> float:
    """What of the cost is reading base tables, each part once."""
    delivers = sum(bool(p.deliver) for p in when.points)
    points = when.points[-1:] if delivers > 1 else when.points
    prices = {p.name: p.price for p in points}
    scans = {
        (run.point, line.view, line.operator): line.cost * prices[run.point]
        for run in found.runs
        if run.point in prices
        for step in run.steps
        for line in leaves(step)
    }
    return math.fsum(scans.values())


def leaves(step: Step) -> list[PlanLine]:
    """The lines of a step that read base tables."""
    after = [line.depth for line in step.lines[1:]] + [0]
    return [
        line
        for line, following in zip(step.lines, after, strict=True)
        if following <= line.depth and line.rule != "load"
    ]


def key(setting: Setting, methods: str, price: float | None = None) -> str:
    query, pattern = setting
    return f"q{query} {pattern} " + (f"{price:g} " if price is not None else "") + methods


def row(found: Experiment, setting: Setting, price: float | None = None) -> list[str]:
    """Costs relative to IM-1 alone; where the method throughout differs, that beside it."""
    cells = {m: found.cells[key(setting, m, price)] for m in EVERY}
    unit = cells["IM1"]["cost"]
    shown = [f"{cells[m]['cost'] / unit:.2f}" + _throughout(cells[m], unit) for m in EVERY]
    share = cells[ALL]["reading"] / cells[ALL]["cost"]
    return [f"q{setting[0]}", setting[1], *([f"{price:g}"] if price is not None else []), f"{unit:,.0f}", *shown, f"{share:.0%}"]  # fmt: skip


def _throughout(cell: Figures, unit: float) -> str:
    return f" ({cell['throughout'] / unit:.2f})" if "throughout" in cell else ""


def never_dearer(found: Experiment, wanted: Sequence[tuple[Setting, float | None]]) -> None:
    """All methods together are never dearer than one alone or recomputing, nor than one throughout."""
    for others, part, what in (((*SINGLE, FULL), "cost", "alone or recomputing"), (SINGLE, "throughout", "throughout")):
        dearer: list[str] = []
        same = 0
        for setting, price in wanted:
            mine = found.cells[key(setting, ALL, price)]["cost"]
            theirs = {key(setting, m, price): found.cells[key(setting, m, price)][part] for m in others}
            dearer += [
                f"{name} by {mine / cost - 1:.1%}" for name, cost in theirs.items() if mine > cost * (1 + ROUNDING)
            ]
            same += mine >= min(theirs.values()) * (1 - ROUNDING)
        # One alone may recompute, too, and often finds the very plan, so that it could hardly be cheaper.
        said = f"never in {len(wanted)} settings, cheaper than each in {len(wanted) - same}"
        found.expect(f"all methods together never dearer than any {what}", ", ".join(dearer) or said, not dearer)


def times_better(found: Experiment, setting: Setting, least: float, price: float | None = None) -> None:
    """All together against the best of the others, as the paper compares, and how much better anything could be."""
    cells = {m: found.cells[key(setting, m, price)] for m in EVERY}
    everything = cells[ALL]["cost"]
    throughout = [cells[m]["throughout"] / everything for m in SINGLE]
    said = (
        f"the best alone costs {min(cells[m]['cost'] for m in SINGLE) / everything:.2f}x of it, methods throughout "
        f"{min(throughout):.2f}–{max(throughout):.2f}x, recomputing {cells[FULL]['cost'] / everything:.2f}x; "
        f"{cells[ALL]['reading'] / everything:.0%} of it is reading tables"
    )
    met = min(cells[m]["cost"] for m in SINGLE) / everything >= least
    found.expect(f"{least:g}–{2 * least:g}x better than the others on {key(setting, '', price).strip()}, as in the paper", said, met)  # fmt: skip


def rules_used(found: Experiment, wanted: Sequence[tuple[Setting, float | None]]) -> None:
    """Whose own rules the plans with all methods use; where none, what every method builds on is the cheapest."""
    used = [found.cells[key(setting, ALL, price)]["used"] for setting, price in wanted]
    counts = {m: sum(m in names for names in used) for m in SINGLE}
    told = ", ".join(f"{m} in {n}" for m, n in counts.items() if n)
    without = f"none in {sum(not names for names in used)} of {len(used)}"
    found.expect("methods whose own rules the plan with all uses, beside what all build on", ", ".join(filter(None, (told, without))), None)  # fmt: skip
