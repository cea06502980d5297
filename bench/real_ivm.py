"""Refreshing by each method, on Spark: CPU, rows, bytes and shuffles of the last run with all methods, with each one alone, and recomputed.

Five queries with equal parts at two points (delta-big), and q10 under all four patterns of arrival: the paper's figures of real CPU cost for view
maintenance. What counts is the last run; rows, bytes and jobs are those of the whole course. Where rows are taken back, recomputing has to net the changes first.
"""

from __future__ import annotations

from bench import _effect, _record, tpcds
from bench._record import OUT, QUERIES, ROUNDS, SF


def run(
    sf: SF = 1.0,
    queries: QUERIES = _effect.FIVE,
    rounds: ROUNDS = 3,
    out: OUT = None,
) -> None:
    """Real CPU of the last run of a refresh, method by method."""
    from bench import _real
    from bench._spark import WARM, Workbench
    from tempura.timeline import Timeline

    found = _record.experiment("real-ivm", sf, out, rounds=rounds, warm=WARM, race=_real.RACE)
    bench = Workbench()
    timeline = Timeline.refresh()
    wanted = _effect.settings(_record.query_numbers(queries), list(tpcds.PATTERNS))
    groups = {}
    found.total = len(wanted) * len(_real.EACH)
    for query, pattern in wanted:
        jobs = _real.method_jobs(query, sf, pattern, timeline, "latest-first")
        name = f"q{query} {pattern}"
        groups[name] = _real.cells(
            found, bench, name, jobs, rounds, at=[p.name for p in timeline.points], race=_real.RACE
        )
    _real.judge(found, groups, "last", ["q40 delta-big", "q10 delta-small"])
    found.finish(
        _real.table_of(f"Refreshing TPC-DS at scale factor {sf:g}: the last run, {rounds} rounds", groups, "last")
    )
