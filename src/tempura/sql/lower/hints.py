"""Which side of a join a plan copies to every core: said in the lines of a step, wanted where its tree is written as SQL."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from tempura.algebra import Op
from tempura.algebra.joins import JOINS

if TYPE_CHECKING:
    from tempura.plans import PlanLine, Step

Side = Literal["left", "right"]
_ENDINGS: dict[str, Side] = {" broadcast left": "left", " broadcast right": "right"}


def broadcasts(step: Step) -> dict[int, Side]:
    """The side that each join of the step's tree copies, by the join's `id`; none for a step whose lines tell of another tree."""
    joins = list(_joins(step.tree))
    lines = [line for line in step.lines if line.operator.startswith(tuple(j.__name__ for j in JOINS))]
    if [j.show() for j in joins] != [_plain(line) for line in lines]:
        return {}
    return {id(j): side for j, line in zip(joins, lines, strict=True) if (side := _side(line))}


def _joins(tree: Op) -> Iterator[Op]:
    """The joins in the order of a step's lines: each before its inputs."""
    if isinstance(tree, JOINS):
        yield tree
    for i in tree.inputs:
        yield from _joins(i)


def _side(line: PlanLine) -> Side | None:
    return next((side for ending, side in _ENDINGS.items() if line.operator.endswith(ending)), None)


def _plain(line: PlanLine) -> str:
    side = _side(line)
    return line.operator.removesuffix(f" broadcast {side}") if side else line.operator
