"""A warehouse by each method, on Spark: CPU at the prices of two points, with all methods, with each one alone, and recomputed at the end.

Early work costs 0.3 of late work, or 0.7. Five queries with equal parts at both points (delta-big), and q10 under all four patterns of arrival: the
paper's figures of real CPU cost for the progressive warehouse. A cell's name has the price after the pattern: `q10 delta-RS 0.7 HOV`.
"""

from __future__ import annotations

from bench import _effect, _record, tpcds
from bench._record import OUT, QUERIES, ROUNDS, SF

PRICES = (0.3, 0.7)
"""What early work costs, late work costing 1."""


def run(
    sf: SF = 1.0,
    queries: QUERIES = _effect.FIVE,
    rounds: ROUNDS = 3,
    out: OUT = None,
) -> None:
    """Real CPU of a warehouse's two runs at their prices, method by method."""
    from bench import _real
    from bench._spark import WARM, Workbench
    from tempura.timeline import Timeline

    found = _record.experiment("real-pdw", sf, out, rounds=rounds, warm=WARM, race=_real.RACE)
    bench = Workbench()
    settings = _effect.settings(_record.query_numbers(queries), list(tpcds.PATTERNS))
    wanted = [(setting, price) for price in PRICES for setting in settings]
    groups = {}
    found.total = len(wanted) * len(_real.EACH)
    for (query, pattern), price in wanted:
        jobs = _real.method_jobs(query, sf, pattern, Timeline.warehouse([price, 1.0]), "weighted")
        name = f"q{query} {pattern} {price:g}"
        groups[name] = _real.cells(found, bench, name, jobs, rounds, race=_real.RACE, weigh=True)
    _real.judge(found, groups, "weighted", [])
    title = f"A warehouse of TPC-DS at scale factor {sf:g}: two runs at their prices, {rounds} rounds"
    found.finish(_real.table_of(title, groups, "weighted"))
