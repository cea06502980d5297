"""A query as a graph: equal sub-trees are one operator, and it is known who uses what.

Trees compare by value, all the way down, which is dear and hides how often a sub-tree is used. Interned, equal sub-trees are the same
object, so that they can be told apart by identity, looked at once, and rewritten for all of their uses alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tempura.algebra import Op, Plus


class Interned:
    """One object for all equal operators, as long as the query is being worked on."""

    def __init__(self) -> None:
        self._by_value: dict[tuple[Any, ...], Op] = {}
        self._by_id: dict[int, tuple[Op, Op]] = {}
        """For every operator seen, itself (so that its id is not given to another) and the one that stands for it."""

    def __call__(self, op: Op) -> Op:
        known = self._by_id.get(id(op))
        if known is not None:
            return known[1]
        inputs = tuple(map(self, op.inputs))
        value = (type(op), tuple(map(id, inputs)), op.payload)
        found = self._by_value.get(value)
        if found is None:
            found = self._by_value[value] = over(op, inputs)
            self._by_id[id(found)] = (found, found)
        self._by_id[id(op)] = (op, found)
        return found


def over(op: Op, inputs: tuple[Op, ...]) -> Op:
    """The operator over other inputs; itself, if they are the same."""
    return op if all(a is b for a, b in zip(op.inputs, inputs, strict=True)) else op.over(inputs)


def parents_first(root: Op) -> list[Op]:
    """The operators of an interned query, each once, and after all that use it."""
    done: set[int] = set()
    order: list[Op] = []

    def visit(op: Op) -> None:
        if id(op) not in done:
            done.add(id(op))
            for i in op.inputs:
                visit(i)
            order.append(op)

    visit(root)
    order.reverse()
    return order


def uses(order: Iterable[Op]) -> dict[int, list[Op]]:
    """Who uses each operator, by its id: an operator that reads it twice is there twice, but for Plus, whose inputs are all treated alike."""
    found: dict[int, list[Op]] = {}
    for op in order:
        inputs = {id(i): i for i in op.inputs}.values() if isinstance(op, Plus) else op.inputs
        for i in inputs:
            found.setdefault(id(i), []).append(op)
    return found


def rebuilt(root: Op, interned: Interned, change: Callable[[Op, tuple[Op, ...]], Op]) -> Op:
    """The query, inputs first, each operator replaced by what `change` makes of it and its new inputs."""
    new: dict[int, Op] = {}
    for op in reversed(parents_first(root)):
        new[id(op)] = interned(change(op, tuple(new[id(i)] for i in op.inputs)))
    return new[id(root)]
