"""The three ways to speed up exploration, one by one: symmetry in time (TS), pruned differences (PNA), guided merging (GE).

    python -m bench ablation

Exploring is firing the rules and laying out what they said over the timeline. Seconds are CPU seconds; counts say how much there was to look at, and repeat exactly.
"""

from __future__ import annotations

import gc
import time
from typing import Annotated

import typer

from bench import _planned
from bench._record import OUT, QUERIES, REPEAT, SF, Experiment, Figures, experiment, query_numbers
from tempura import Job, Settings
from tempura.optimizer import explore

VARIANTS = {
    "baseline": Settings(symmetry=False, pruning=False, guided=False),
    "+TS": Settings(symmetry=True, pruning=False, guided=False),
    "+PNA": Settings(symmetry=False, pruning=True, guided=False),
    "+GE": Settings(symmetry=False, pruning=False, guided=True),
    "all": Settings(),
}
LONG = 9
"""Points of the longer timeline, on which exploring with all speed-ups is compared with none of them."""
LONGER = ("baseline", "all")
PAPER = {"+TS": 1.5, "+PNA": 5.0, "all": 10.0}
"""How many times as fast the paper's exploration became, at least."""


def run(
    queries: QUERIES = _planned.TEN,
    sf: SF = _planned.VIRTUAL,
    out: OUT = None,
    points: Annotated[int, typer.Option(min=2, help="Points of the timeline.")] = 3,
    repeat: REPEAT = 5,
) -> None:
    """Exploration with and without each of its speed-ups."""
    found = experiment("ablation", sf, out, points=points, repeat=repeat)
    numbers = query_numbers(queries)
    found.total = len(numbers) * (len(VARIANTS) + len(LONGER))
    for n in numbers:
        job = _planned.job_of(n, sf, "delta-small", _planned.warehouse(points))
        for name, settings in VARIANTS.items():
            found.cell(f"q{n} {name}", lambda job=job, settings=settings: explored(job, settings, repeat))
        longer = _planned.job_of(n, sf, "delta-small", _planned.warehouse(LONG))
        for name in LONGER:
            found.cell(_long(n, name), lambda job=longer, settings=VARIANTS[name]: explored(job, settings, 1))
    judge(found, numbers)
    columns = ("query", *(f"{w} {v}" for w in ("s", "firings") for v in VARIANTS), "baseline/all")
    rows = [_row(found, n) for n in numbers]
    found.finish(_planned.table_of(f"Exploration with |T| = {points}", columns, rows))


def _long(n: int, variant: str) -> str:
    return f"q{n} {variant} |T|={LONG}"


def explored(job: Job, settings: Settings, repeat: int) -> Figures:
    """What exploring took, the quickest of several times."""
    times: list[float] = []
    for _ in range(repeat):
        gc.collect()
        gc.disable()  # As planning does.
        started = time.thread_time()
        found = explore(job, settings=settings)
        times.append(time.thread_time() - started)
        gc.enable()
    return {
        "seconds": min(times), "facts": found.memo.facts, "firings": found.exploration.firings,
        "groups": len(found.space.all_groups()), "stopped": found.exploration.stop_reason,
    }  # fmt: skip


def judge(found: Experiment, numbers: list[int]) -> None:
    def total(variant: str, part: str) -> float:
        return sum(found.cells[f"q{n} {variant}"][part] for n in numbers)

    for variant, least in PAPER.items():
        times = total("baseline", "seconds") / total(variant, "seconds")
        said = f"{times:.2f}x in time, {total('baseline', 'firings') / total(variant, 'firings'):.1f}x in firings"
        name = "all three" if variant == "all" else variant.lstrip("+")
        found.expect(f"{name} at least {least:g}x faster than the baseline, as in the paper", said, times >= least)
    slow, quick = (sum(found.cells[_long(n, v)]["seconds"] for n in numbers) for v in LONGER)
    found.expect(f"all three with {LONG} points", f"{slow / quick:.1f}x in time", None)


def _row(found: Experiment, n: int) -> list[str]:
    cells = [found.cells[f"q{n} {v}"] for v in VARIANTS]
    return [
        f"q{n}", *(f"{c['seconds']:.3f}" for c in cells), *(f"{c['firings']:,}" for c in cells),
        f"{cells[0]['seconds'] / cells[-1]['seconds']:.1f}",
    ]  # fmt: skip
