"""Filters that equalities carry from one side of a join to the other.

    σ(l = 5)(L) ⋈ R on l = r   is   σ(l = 5)(L) ⋈ σ(r = 5)(R)

Rows of R that fail have no partner. So it is for ⋉ and, towards the right side only, for ⟕ and ▷. Carried are comparisons with constants, between columns of the same type: equal values of different
types, and floating-point zeros, can be told apart.
"""

from __future__ import annotations

from typing import NamedTuple

from sqlglot import exp

from tempura.algebra import (
    Aggregate,
    AntiJoin,
    Filter,
    InnerJoin,
    LeftOuterJoin,
    Op,
    Plus,
    Project,
    Replicate,
    SemiJoin,
    TopK,
    Window,
)
from tempura.expr import Expr, col
from tempura.rules.dag import Interned, parents_first, rebuilt
from tempura.rules.laws import filtered, parts
from tempura.schema import names
from tempura.volatile import volatile

Predicates = frozenset[Expr]
"""Of one column each."""

_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between, exp.In)
_INEXACT = ("float", "double")


class _Sides(NamedTuple):
    """Predicates for the two sides of a join."""

    left: Predicates
    right: Predicates


def implied_filters(root: Op, interned: Interned, trace: list[str], carried: set[Expr]) -> Op:
    """The query with the filters that the equalities of its joins imply, each once: `carried` has those that were carried before."""
    known: dict[int, Predicates] = {}
    new: dict[int, _Sides] = {}
    for op in reversed(parents_first(root)):
        inputs = [known[id(i)] for i in op.inputs]
        known[id(op)] = _known(op, inputs)
        if isinstance(op, (InnerJoin, SemiJoin, LeftOuterJoin, AntiJoin)):
            found = _carried(op, *inputs)
            found = _Sides(found.left - carried, found.right - carried)
            if found.left or found.right:
                new[id(op)] = found
                carried.update(*found)
    if not new:
        return root
    trace.extend(["implied_filters"] * len(new))

    def told(op: Op, inputs: tuple[Op, ...]) -> Op:
        if id(op) not in new:
            return op.over(inputs)
        return op.over([filtered(i, predicates) for i, predicates in zip(inputs, new[id(op)], strict=True)])

    return rebuilt(root, interned, told)


def _known(op: Op, inputs: list[Predicates]) -> Predicates:
    """What is true of every row, by the filters below."""
    match op:
        case Filter():
            return inputs[0] | frozenset(p for p in parts(op.predicate) if _portable(p))
        case Project():
            given: dict[str, list[Expr]] = {}
            for output in op.outputs:
                if output.expr.name is not None:
                    given.setdefault(output.expr.name, []).append(col(output.name))
            return frozenset(
                p.substitute({name: new}) for p in inputs[0] for name in p.columns for new in given.get(name, ())
            )
        case InnerJoin():
            return inputs[0] | inputs[1]
        case Aggregate():
            return frozenset(p for p in inputs[0] if p.columns <= set(op.by))
        case Plus():
            return inputs[0].intersection(*inputs[1:])
        case SemiJoin() | AntiJoin() | LeftOuterJoin() | Window() | TopK() | Replicate():
            return inputs[0]
        case _:
            return frozenset()


def _portable(predicate: Expr) -> bool:
    """Whether a predicate compares one column with constants."""
    tree = predicate.tree
    if not isinstance(tree, _COMPARISONS) or len(predicate.columns) != 1 or volatile(predicate):
        return False
    others = [node for node in tree.find_all(exp.Column) if node is not tree.this]
    return isinstance(tree.this, exp.Column) and not others and tree.find(exp.Query) is None


def _carried(op: InnerJoin | SemiJoin | LeftOuterJoin | AntiJoin, left: Predicates, right: Predicates) -> _Sides:
    """What the equalities of a join imply of its sides and is not known yet."""
    types = {c.name: c.type for side in op.inputs for c in side.schema}
    mine = frozenset(names(op.inputs[0].schema))
    to_left: set[Expr] = set()
    to_right: set[Expr] = set()
    for part in parts(op.on):
        tree = part.tree
        if not (
            isinstance(tree, exp.EQ) and isinstance(tree.this, exp.Column) and isinstance(tree.expression, exp.Column)
        ):
            continue
        a, b = tree.this.name, tree.expression.name
        if (a in mine) == (b in mine) or types[a] != types[b] or types[a] in _INEXACT:
            continue
        one, other = (a, b) if a in mine else (b, a)
        to_right.update(p.substitute({one: col(other)}) for p in left if one in p.columns)
        if isinstance(op, (InnerJoin, SemiJoin)):
            to_left.update(p.substitute({other: col(one)}) for p in right if other in p.columns)
    return _Sides(frozenset(to_left) - left, frozenset(to_right) - right)
