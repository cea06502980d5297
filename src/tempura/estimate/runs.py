"""Rows that come together and agree, as the lines of a ticket agree on its customer and its day: a **run**.

Columns of several tables are taken to meet at random, so that customers and days would have about as many combinations as there are rows. Rows that came
in runs have one combination for each run. `Stats.run` is how many rows agree on a column, on average; runs of several columns are
taken to lie in each other, so that the shortest counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tempura.estimate.relation import Stats

Runs = Callable[[str], float]


def none(name: str) -> float:
    """Every row by itself."""
    return 1.0


def thinned(run: float, share: float) -> float:
    """The rows left of a run, if any are, when a share of all rows is taken at random; all of them many times over when it is above 1."""
    if share >= 1:
        return run * share
    some = 1 - (1 - share) ** run
    return run * share / some if some > 0 else 1.0


def filtered(x: Stats, share: float, by: Sequence[str]) -> Runs:
    """The runs of a relation of which a share is kept by what some columns say: runs within theirs are kept whole or not at all."""
    if share >= 1:
        return lambda name: x.run([name]) * share

    def run(name: str) -> float:
        mine = x.run([name])
        return mine if mine <= 1 or (by and x.run(by) >= mine) else thinned(mine, share)

    return run


def joined(one: Stats, keys: Sequence[str], other: Stats, rows: float) -> Runs:
    """The runs of rows that each find at most one row of the other side: all its columns follow the keys."""
    runs = filtered(one, rows / one.rows if one.rows > 0 else 1.0, keys)

    def run(name: str) -> float:
        if name in one.columns:
            return runs(name)
        return min(map(runs, keys), default=1.0) if name in other.columns else 1.0

    return run


def united(inputs: Sequence[Stats]) -> Runs:
    """Each input has its own."""

    def run(name: str) -> float:
        rows = sum(i.rows for i in inputs)
        return rows / sum(i.rows / i.run([name]) for i in inputs) if rows > 0 else 1.0

    return run
