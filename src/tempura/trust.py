"""Which declared keys a plan relies on, where looking them up is dear.

Whether a key is one has to be looked up among all rows whenever rows come, as no file has an index: with a fifth of TPC-DS new, that takes several times what the
refresh takes. A plan that does not rely on a key is right whether it is one or not. So where looking up is dear, the point is planned once more without the keys in
question; they are relied on, and looked up, only if what they save is more than that. Estimates believe a key all the same: they need not be right.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tempura.catalog import Catalog
from tempura.errors import PlanError
from tempura.job import Job
from tempura.optimizer import plan
from tempura.plans import IncrementalPlan
from tempura.standing import Standing

DEAR = 0.5
"""Looking up keys is not worth planning twice where it is estimated to take less, in core-seconds."""


def planned(job: Job, standing: Standing, lookups: Mapping[str, float]) -> tuple[Job, IncrementalPlan]:
    """The plan from here on, and the job with those keys doubted that it does not rely on; given what looking up the key of each table would take at this point."""
    believing = plan(job, standing=standing)
    dear = {table: work for table, work in lookups.items() if work > DEAR}
    if not dear:
        return job, believing
    tables = (replace(t, doubted=t.name.lower() in dear) for t in job.catalog.values())
    doubting_job = replace(job, catalog=Catalog(*tables))
    try:
        doubting = plan(doubting_job, standing=standing)
    except PlanError:
        # Without a key it cannot be done as the job's policy wants it.
        return job, believing
    if _cost(job, standing, believing, dear) < _cost(job, standing, doubting, {}):
        return job, believing
    told = f"{', '.join(dear)}: no plan relies on the key, so it is not looked up, which would take about {sum(dear.values()):.2g} s"
    return doubting_job, replace(doubting, notes=(*doubting.notes, told))


def _cost(job: Job, standing: Standing, found: IncrementalPlan, lookups: Mapping[str, float]) -> tuple[float, ...]:
    """What a plan costs under the job's objective, with looking up keys at each point at which their tables get rows, as at this one."""
    left = job.timeline.points[standing.done :]
    work = [
        found.cost.work[point.name]
        + sum(w for table, w in lookups.items() if point is left[0] or job.catalog[table].arrives.get(point.name, 0.0))
        for point in left
    ]
    if job.objective.kind == "latest-first":
        return tuple(reversed(work))
    return (sum(w * point.price for w, point in zip(work, left, strict=True)),)
