"""How much is kept between runs: estimated bytes of states by method, with the part that is a shuffle kept for later (bucketed) shown apart.

    python -m bench states

The paper's figures 9e and 9f: five queries on delta-big, q10 on four arrival patterns, two points. A state counts if a later run reads it; results are
delivered anyway and do not. A state that is distributed by the key of a later join or aggregate is a shuffle that the later run does not repeat.
"""

from __future__ import annotations

from bench import _effect, _planned, tpcds
from bench._record import COMPARABLE, OUT, QUERIES, SF, Experiment, Figures, experiment, query_numbers
from tempura import IncrementalPlan, Timeline

SCENARIOS = {"refresh": _planned.refresh(), "warehouse": _planned.warehouse(2)}
METHODS = (_effect.ALL, *_effect.SINGLE)
COLUMNS = ("query", "pattern", "scenario", "all", "bucketed", "any alone", *_effect.SINGLE)


def run(queries: QUERIES = _effect.FIVE, sf: SF = _planned.VIRTUAL, out: OUT = None) -> None:
    """Estimated sizes of states by method."""
    found = experiment("states", sf, out)
    wanted = [(s, scenario) for scenario in SCENARIOS for s in _effect.settings(query_numbers(queries), list(tpcds.PATTERNS))]  # fmt: skip
    found.total = len(wanted) * len(METHODS)
    for s, scenario in wanted:
        for m in METHODS:
            found.cell(_key(s, scenario, m), lambda s=s, m=m, when=SCENARIOS[scenario]: sizes(s, sf, when, m))
    judge(found, wanted)
    rows = [_row(found, s, scenario) for s, scenario in wanted]
    title = f"Estimated megabytes of states that the last run reads; {', '.join(_effect.SINGLE)} throughout"
    found.finish(_planned.table_of(title, COLUMNS, rows, words=3))


def _key(setting: _effect.Setting, scenario: str, methods: str) -> str:
    return f"q{setting[0]} {setting[1]} {scenario} {methods}"


def sizes(setting: _effect.Setting, sf: float, when: Timeline, methods: str) -> Figures:
    """The bytes of states when the methods may recompute, and when they must not."""
    alone = kept(_effect.planned(setting, sf, when, methods, "auto"))
    throughout = kept(_effect.planned(setting, sf, when, methods, "incremental"))
    return {**alone, **{f"throughout_{name}": size for name, size in throughout.items()}}


def kept(found: IncrementalPlan) -> Figures:
    """The bytes that later runs read, and those of them that are distributed."""
    delivered = {step.name for _, step in found.results}
    states = [s for s in found.states if s.name not in delivered and any(p != s.written for p in s.read_at)]
    return {"bytes": sum(s.bytes for s in states), "bucketed": sum(s.bytes for s in states if s.partition), "states": len(states)}  # fmt: skip


def judge(found: Experiment, wanted: list[tuple[_effect.Setting, str]]) -> None:
    """The paper: for most queries smaller than or comparable to each method's own."""
    cells = [[found.cells[_key(s, scenario, m)] for m in METHODS] for s, scenario in wanted]
    for name, part in (("each method alone", "bytes"), ("each method throughout", "throughout_bytes")):
        small = sum(all(c[0]["bytes"] <= COMPARABLE * other[part] for other in c[1:]) for c in cells)
        text = f"states of all methods together at most {COMPARABLE:g}x of those of {name}, in most settings"
        found.expect(text, f"in {small} of {len(cells)} settings", small > len(cells) / 2)
    everything = sum(c[0]["bytes"] for c in cells)
    reused = sum(c[0]["bucketed"] for c in cells) / everything if everything else 0.0
    found.expect("part of the states that is a shuffle kept for later", f"{reused:.0%} of {everything / 1e9:,.1f} GB in all settings", None)  # fmt: skip


def _row(found: Experiment, setting: _effect.Setting, scenario: str) -> list[str]:
    cells = {m: found.cells[_key(setting, scenario, m)] for m in METHODS}
    alone = sorted({cells[m]["bytes"] for m in _effect.SINGLE})
    throughout = [_megabytes(cells[m]["throughout_bytes"]) for m in _effect.SINGLE]
    own = (_megabytes(cells[_effect.ALL][part]) for part in ("bytes", "bucketed"))
    any_alone = "–".join(dict.fromkeys(map(_megabytes, (alone[0], alone[-1]))))
    return [f"q{setting[0]}", setting[1], scenario, *own, any_alone, *throughout]


def _megabytes(size: float) -> str:
    return f"{size / 1e6:,.0f}" if size >= 1e7 else f"{size / 1e6:.2g}"
