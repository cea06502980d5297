"""Refreshing: the estimated cost of the last run with each method alone and with all, relative to IM-1.

    python -m bench effect-ivm

The paper's figures 8a and 8b: five queries on delta-big, and q10 on four arrival patterns, two points, a result at each. Numbers in brackets are for the
method throughout, that is, without recomputing what it has a rule for.
"""

from __future__ import annotations

from bench import _effect, _planned, tpcds
from bench._record import OUT, QUERIES, SF, experiment, query_numbers

COLUMNS = ("query", "pattern", "IM1 cost", *(f"{m}/IM1" for m in _effect.EVERY), "reading")


def run(queries: QUERIES = _effect.FIVE, sf: SF = _planned.VIRTUAL, out: OUT = None) -> None:
    """Estimated cost of refreshing by method, relative to IM-1."""
    found = experiment("effect-ivm", sf, out)
    when = _planned.refresh()
    wanted = _effect.settings(query_numbers(queries), list(tpcds.PATTERNS))
    found.total = len(wanted) * len(_effect.EVERY)
    for s in wanted:
        for m in _effect.EVERY:
            found.cell(_effect.key(s, m), lambda s=s, m=m: _effect.cost(s, sf, when, m))
    _effect.never_dearer(found, [(s, None) for s in wanted])
    _effect.rules_used(found, [(s, None) for s in wanted])
    for setting in ((40, "delta-big"), (10, "delta-small")):
        if setting in wanted:
            _effect.times_better(found, setting, 5)
    rows = [_effect.row(found, s) for s in wanted]
    found.finish(_planned.table_of("Estimated cost of the last run of two, relative to IM-1", COLUMNS, rows, words=2))
