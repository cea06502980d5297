"""Jobs that are only planned, and what planning them took: TPC-DS under the statistics of a scale factor that need not be there as data."""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import SimpleNamespace
from unittest.mock import patch

from rich.table import Table

from bench import _scale1000, tpcds
from bench._record import Figures
from tempura import Job, Timeline, optimizer, plan
from tempura.job.shapes import Policy
from tempura.rules.lang import RuleSet

VIRTUAL = 1000.0
"""The scale factor whose statistics are known without its data."""
TEN = "q22,q20,q43,q67,q27,q99,q85,q91,q5,q33"
"""The paper's ten queries, in the order of their complexity."""
CPU = SimpleNamespace(perf_counter=time.thread_time)
"""The clock that the planner is given while it is timed."""


def warehouse(points: int, price: float = 0.3) -> Timeline:
    """Work at every point, early work at a lower price; one result at the end."""
    return Timeline.warehouse([price] * (points - 1) + [1.0])


def refresh(points: int = 2) -> Timeline:
    """A result at every point."""
    return Timeline.refresh([f"t{i}" for i in range(1, points + 1)])


def job_of(query: int, sf: float, pattern: str, when: Timeline, policy: Policy = "auto") -> Job:
    """A TPC-DS query over a timeline; if every point delivers, least work at the last one comes first."""
    delivers = sum(bool(p.deliver) for p in when.points)
    return Job(
        name=f"q{query}",
        query=tpcds.queries()[query],
        catalog=_scale1000.catalog(pattern, when) if sf == VIRTUAL else tpcds.catalog(sf, pattern, when),
        timeline=when,
        objective="latest-first" if delivers == len(when) > 1 else "weighted",
        policy=policy,
    )


def quickest(job: Job, methods: RuleSet | Sequence[str] | None, repeat: int) -> Figures:
    """What planning took, the whole and each part the quickest of several times; counts repeat exactly.

    The whole is all from the text of the query to a plan with its steps as SQL. Seconds are CPU seconds: planning is one thread that waits for nothing, so on a machine with nothing else to do they are those on the clock.
    """
    times = [_planned(job, methods) for _ in range(repeat)]
    parts = ("explore_seconds", "share_seconds", "clock_seconds", "seconds")
    return times[0] | {n: min(t[n] for t in times) for n in parts}


def _planned(job: Job, methods: RuleSet | Sequence[str] | None) -> Figures:
    started, began = time.perf_counter(), time.thread_time()
    with patch.object(optimizer, "time", CPU):
        found = plan(job, methods, baselines=False)
    took, clock = time.thread_time() - began, time.perf_counter() - started
    p = found.planning
    return {
        "explore_seconds": p.explore_seconds, "share_seconds": p.share_seconds, "seconds": took, "clock_seconds": clock,
        "tvrs": p.tvrs, "groups": p.groups, "facts": p.facts, "firings": p.firings, "costings": p.costings,
        "stopped": p.stop_reason, "cost": found.cost.total,
    }  # fmt: skip


def table_of(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], words: int = 1) -> Table:
    """A table whose first columns are words and the others numbers."""
    shown = Table(title=title)
    for n, column in enumerate(columns):
        shown.add_column(column, justify="left" if n < words else "right", no_wrap=True)
    for row in rows:
        shown.add_row(*row)
    return shown
