"""Which declared keys a plan relies on, where looking them up is dear.

Whether a key is one has to be looked up among all rows whenever rows come, as no file has an index: with a fifth of TPC-DS new, that takes several times what the
refresh takes. A plan that does not rely on a key is right whether it is one or not. So where looking up is dear, the point is planned once more without the keys in
question; one is relied on, and looked up, only if what it saves is more than that. Estimates believe a key all the same: they need not be right.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import replace

from tempura.catalog import Catalog
from tempura.errors import PlanError
from tempura.job import Job
from tempura.optimizer import plan
from tempura.plans import IncrementalPlan
from tempura.standing import Standing

DEAR = 0.5
"""Looking up keys is not worth planning again where it is estimated to take less, in core-seconds."""

Planned = tuple[Job, IncrementalPlan]


def planned(job: Job, standing: Standing, lookups: Mapping[str, float]) -> Planned:
    """The plan from here on, and the job with those keys doubted that it does not rely on.

    `lookups` has what looking up the key of each table would take at this point: infinitely much where it can no more be told whether the key was one at the points before.
    """
    believing = job, plan(job, standing=standing)
    dear = {table: work for table, work in lookups.items() if work > DEAR}
    if not dear:
        return believing
    maintains = job.policy in ("incremental", "strict")
    doubting = _doubting(job, standing, dear)
    if doubting is not None:
        without, with_keys = _cost(doubting, standing, {}), _cost(believing, standing, {})
        # A plan that is to maintain may be cheaper without keys because it recomputes.
        if without == with_keys or (without < with_keys and not maintains):
            return _noted(doubting, dear)
    # Some key saves something: each is doubted by itself, the dearest first.
    found, doubted = believing, dict[str, float]()
    for table in sorted(dear, key=lambda table: -dear[table]):
        if maintains and math.isfinite(dear[table]):
            continue
        more = {**doubted, table: dear[table]}
        other = _doubting(job, standing, more)
        left = {t: work for t, work in dear.items() if t not in doubted and math.isfinite(work)}
        if other is None:
            if math.isinf(dear[table]):
                raise PlanError(
                    f"a plan of the policy {job.policy} relies on the key of {table}, and at the points before nobody looked whether it was one",
                    hint="forget the states and start again (`tempura reset`), or declare the table without the key",
                )
        elif math.isinf(dear[table]) or _cost(other, standing, _without(left, table)) < _cost(found, standing, left):
            found, doubted = other, more
    return _noted(found, doubted)


def _without(lookups: Mapping[str, float], table: str) -> dict[str, float]:
    return {name: work for name, work in lookups.items() if name != table}


def _doubting(job: Job, standing: Standing, doubted: Collection[str]) -> Planned | None:
    """The plan without some keys; None if without them it cannot be done as the job's policy wants it."""
    tables = (replace(table, doubted=table.name.lower() in doubted) for table in job.catalog.values())
    doubting = replace(job, catalog=Catalog(*tables))
    try:
        return doubting, plan(doubting, standing=standing)
    except PlanError:
        return None


def _noted(found: Planned, doubted: Mapping[str, float]) -> Planned:
    job, made = found
    work = sum(doubted.values())
    told = f"which would take about {work:.2g} s" if math.isfinite(work) else "as of points before it cannot be"
    note = f"{', '.join(doubted)}: no plan relies on the key, so it is not looked up, {told}"
    return (job, replace(made, notes=(*made.notes, note))) if doubted else found


def _cost(found: Planned, standing: Standing, lookups: Mapping[str, float]) -> tuple[float, ...]:
    """What a plan costs under the job's objective, with looking up keys at each point at which their tables get rows, as at this one."""
    job, made = found
    left = job.timeline.points[standing.done :]
    work = [
        made.cost.work[point.name]
        + sum(w for table, w in lookups.items() if point is left[0] or job.catalog[table].arrives.get(point.name, 0.0))
        for point in left
    ]
    if job.objective.kind == "latest-first":
        return tuple(reversed(work))
    total = sum(w * (point.price or 1e-9) for w, point in zip(work, left, strict=True))
    limit = math.inf if job.objective.limit is None else job.objective.limit
    return float(work[-1] > limit), total
