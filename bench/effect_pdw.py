"""The warehouse: the estimated weighted cost with each method alone and with all, relative to IM-1, early work priced 0.3 and 0.7.

    python -m bench effect-pdw

The paper's figures 8c and 8d: five queries on delta-big, and q10 on four arrival patterns, two points, one result at the last. Numbers in brackets are for
the method throughout, that is, without recomputing what it has a rule for.
"""

from __future__ import annotations

from bench import _effect, _planned, tpcds
from bench._record import OUT, QUERIES, SF, Experiment, experiment, query_numbers

PRICES = (0.3, 0.7)
"""What a unit of early work costs."""
COLUMNS = ("query", "pattern", "price", "IM1 cost", *(f"{m}/IM1" for m in _effect.EVERY), "reading")


def run(queries: QUERIES = _effect.FIVE, sf: SF = _planned.VIRTUAL, out: OUT = None) -> None:
    """Estimated weighted cost of the warehouse by method, relative to IM-1."""
    found = experiment("effect-pdw", sf, out)
    wanted = [(s, price) for price in PRICES for s in _effect.settings(query_numbers(queries), list(tpcds.PATTERNS))]
    found.total = len(wanted) * len(_effect.EVERY)
    for s, price in wanted:
        when = _planned.warehouse(2, price)
        for m in _effect.EVERY:
            found.cell(_effect.key(s, m, price), lambda s=s, m=m, when=when: _effect.cost(s, sf, when, m))
    _effect.never_dearer(found, wanted)
    _effect.rules_used(found, wanted)
    _moves(found, [s for s, price in wanted if price == PRICES[0]])
    rows = [_effect.row(found, s, price) for s, price in wanted]
    found.finish(_planned.table_of("Estimated weighted cost of two runs, relative to IM-1", COLUMNS, rows, words=2))


def _moves(found: Experiment, wanted: list[_effect.Setting]) -> None:
    """Dearer early work is moved to the last run, or stays where it was."""
    early = {s: [found.cells[_effect.key(s, _effect.ALL, p)]["work"][0] for p in PRICES] for s in wanted}
    more = [f"q{q} {pattern}" for (q, pattern), (low, high) in early.items() if high > low * (1 + _effect.ROUNDING)]
    moved = sum(high < low * (1 - _effect.ROUNDING) for low, high in early.values())
    said = f"moved in {moved} of {len(early)}" + (f", the other way in {', '.join(more)}" if more else "")
    found.expect(f"no more early work at a price of {PRICES[1]} than at {PRICES[0]}, as in the paper", said, not more)
