"""Tempura: the cheapest incremental plan for a Spark SQL query over a timeline.

job = tempura.Job.load("examples/sales/job.yaml")
plan = tempura.plan(job)
print(plan)
"""

from tempura.catalog import Catalog, ColumnStatistics, ForeignKey, Table
from tempura.errors import JobError, PlanError, RuleError, SqlError, TempuraError
from tempura.job import Job
from tempura.optimizer import Settings, plan
from tempura.plans import IncrementalPlan
from tempura.rules.methods import ALL, HOV, IM1, IM2, OJV, PART
from tempura.timeline import Point, Timeline

__all__ = [
    "ALL",
    "HOV",
    "IM1",
    "IM2",
    "OJV",
    "PART",
    "Catalog",
    "ColumnStatistics",
    "ForeignKey",
    "IncrementalPlan",
    "Job",
    "JobError",
    "PlanError",
    "Point",
    "RuleError",
    "Settings",
    "SqlError",
    "Table",
    "TempuraError",
    "Timeline",
    "plan",
]
