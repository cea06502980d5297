"""Plans made for the wrong arrival pattern, on Spark: CPU of the last run where rows arrive otherwise than the job says.

The paper's figure 9g, as it was measured: q10 refreshed on delta-big by a job that says delta-small, and the other way round. The first point is planned for
what the job says will come; at the second Tempura sees what came, and plans anew with the states that it has. Beside it the job that says what comes, each method alone, and recomputing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from bench import _record
from bench._record import ALL, CLOSE, OUT, QUERIES, ROUNDS, SF, Figures, over
from bench.sensitivity import WRONG

if TYPE_CHECKING:
    from bench._spark import Place

RESTS_ON = ("bench/sensitivity.py",)
"""It says which pattern is taken for which."""
MISTOLD = "wrong"
"""The job with all methods that says the other pattern."""


def run(
    sf: SF = 5.0,
    queries: QUERIES = "q10",
    rounds: ROUNDS = 3,
    out: OUT = None,
) -> None:
    """Real CPU of the last run of plans that were made for another arrival pattern."""
    from bench import _real
    from bench._spark import WARM, Workbench
    from tempura.timeline import Timeline

    at = [point.name for point in Timeline.refresh().points]
    found = _record.experiment("real-sensitivity", sf, out, rounds=rounds, warm=WARM)
    bench = Workbench()
    wanted = [(query, is_, said) for is_, said in WRONG.items() for query in _record.query_numbers(queries)]
    found.total = len(wanted) * (len(_real.EACH) + 1)
    groups = {
        f"q{query} {is_}": _real.cells(found, bench, f"q{query} {is_}", _jobs(query, sf, is_, said), rounds, at)
        for query, is_, said in wanted
    }
    _judge(found, groups)
    title = f"TPC-DS at scale factor {sf:g}, where other rows come than was said: the last run, {rounds} rounds"
    found.finish(_real.table_of(title, groups, "last"))


def _jobs(query: int | str, sf: float, is_: str, said: str) -> dict[str, Place]:
    """The jobs of a query by method, and the one that expects other rows than come."""
    from bench import _real
    from tempura.job import Job
    from tempura.timeline import Timeline

    right, other = (_real.method_jobs(query, sf, p, Timeline.refresh(), "latest-first") for p in (is_, said))

    def mistold(workspace: Path) -> Job:
        return replace(right[ALL](workspace), catalog=other[ALL](workspace).catalog)

    return {ALL: right[ALL], MISTOLD: mistold, **{name: place for name, place in right.items() if name != ALL}}


def _judge(found: _record.Experiment, groups: Mapping[str, Mapping[str, Figures]]) -> None:
    """What the paper saw: planned wrong is still no dearer than a method alone; and no dearer than recomputing."""
    from bench._real import judge_results

    for cpu, kind in (("last_cpu", "task CPU"), ("last_jvm", "JVM CPU")):
        for name, group in groups.items():
            times = {m: over(group[MISTOLD][cpu], figures[cpu]) for m, figures in group.items() if m != MISTOLD}
            told = ", ".join(f"{t:.2f}x {m}" for m, t in times.items())
            text = f"{kind}, {name}: planned wrong at most {CLOSE:g}x of any method alone and of recomputing"
            found.expect(text, told, all(t <= CLOSE for m, t in times.items() if m != ALL))
    judge_results(found, groups)
