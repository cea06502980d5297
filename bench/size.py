"""Exploration and sharing as the timeline grows from three points to nine: symmetry in time keeps exploration constant.

python -m bench size
"""

from __future__ import annotations

from typing import Annotated

import typer

from bench import _planned
from bench._record import OUT, QUERIES, REPEAT, SF, Experiment, experiment, query_numbers
from tempura.errors import JobError

EXPLORATION, SHARING = 1.2, 4.0
"""What exploration and sharing may take at nine points over three."""


def run(
    queries: QUERIES = _planned.TEN,
    sf: SF = _planned.VIRTUAL,
    out: OUT = None,
    points: Annotated[str, typer.Option(help="Numbers of points; the last is judged against the first.")] = "3,5,7,9",
    repeat: REPEAT = 5,
) -> None:
    """Exploration and sharing time by the number of points."""
    found = experiment("size", sf, out, repeat=repeat)
    sizes = _sizes(points)
    numbers = query_numbers(queries)
    found.total = len(numbers) * len(sizes)
    for n in numbers:
        for t in sizes:
            job = _planned.job_of(n, sf, "delta-small", _planned.warehouse(t))
            found.cell(f"q{n} |T|={t}", lambda job=job: _planned.quickest(job, None, repeat))
    for part, word, most in (("explore_seconds", "exploration", EXPLORATION), ("share_seconds", "sharing", SHARING)):
        judge(found, numbers, sizes, part, word, most)
    columns = ("query", *(f"{w}, {t}" for w in ("explore s", "share s") for t in sizes), "explore x", "share x")
    found.finish(
        _planned.table_of(
            f"Planning, CPU seconds, with |T| = {', '.join(map(str, sizes))}",
            columns,
            [_row(found, n, sizes) for n in numbers],
        )
    )


def _sizes(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    found = list(dict.fromkeys(int(part) for part in parts if part.isdecimal()))
    if len(found) < 2 or len(parts) > len(found) or 0 in found:
        raise JobError(f"{text!r} are no numbers of points to compare", hint="give two or more different ones: 3,9")
    return found


def growth(found: Experiment, query: int, sizes: list[int], part: str) -> float:
    """A part's time at the most points over that at the fewest."""
    first, last = (found.cells[f"q{query} |T|={t}"][part] for t in (sizes[0], sizes[-1]))
    return last / first


def judge(found: Experiment, numbers: list[int], sizes: list[int], part: str, word: str, most: float) -> None:
    first, last = (sum(found.cells[f"q{n} |T|={t}"][part] for n in numbers) for t in (sizes[0], sizes[-1]))
    by_query = {n: growth(found, n, sizes, part) for n in numbers}
    worst = max(by_query, key=by_query.__getitem__)
    found.expect(
        f"{word} at most {most:g}x from {sizes[0]} to {sizes[-1]} points, all queries together",
        f"{last / first:.2f}x; worst q{worst} {by_query[worst]:.2f}x",
        last / first <= most,
    )


def _row(found: Experiment, n: int, sizes: list[int]) -> list[str]:
    parts = ("explore_seconds", "share_seconds")
    seconds = [f"{found.cells[f'q{n} |T|={t}'][part]:.3f}" for part in parts for t in sizes]
    return [f"q{n}", *seconds, *(f"{growth(found, n, sizes, part):.2f}" for part in parts)]
