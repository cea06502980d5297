"""Tempura: the cheapest incremental plan for a Spark SQL query over a timeline.

job = tempura.Job.load("examples/sales/job.yaml")
plan = tempura.plan(job)
print(plan)

`tempura.run(job, at="14:00")` carries one point of it out on Spark, and `tempura.verify(job)` checks what was delivered. Spark is loaded by their first
use: planning needs none.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tempura.catalog import Catalog, ColumnStatistics, ForeignKey, Table
from tempura.errors import (
    JobError,
    LockedError,
    PlanError,
    RuleError,
    SourceError,
    SqlError,
    TempuraError,
    WorkspaceError,
)
from tempura.job import Job
from tempura.optimizer import Settings, plan
from tempura.plans import IncrementalPlan
from tempura.rules.methods import ALL, HOV, IM1, IM2, OJV, PART
from tempura.timeline import Point, Timeline

if TYPE_CHECKING:
    from tempura.spark.report import RunReport
    from tempura.spark.run import run
    from tempura.spark.verify import VerifyReport, verify

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
    "LockedError",
    "PlanError",
    "Point",
    "RuleError",
    "RunReport",
    "Settings",
    "SourceError",
    "SqlError",
    "Table",
    "TempuraError",
    "Timeline",
    "VerifyReport",
    "WorkspaceError",
    "plan",
    "run",
    "verify",
]

_ON_SPARK = {"run": "run", "RunReport": "report", "verify": "verify", "VerifyReport": "verify"}
"""What only those need who run plans, and the modules it is in."""


def __getattr__(name: str) -> Any:
    if name not in _ON_SPARK:
        raise AttributeError(f"module 'tempura' has no attribute {name!r}")
    return getattr(import_module(f"tempura.spark.{_ON_SPARK[name]}"), name)
