"""Predicates as trees: split into conjuncts, with what all branches of an OR have in common taken out.

    (a AND b) OR (a AND c)  =  a AND (b OR c)

Without this the join conditions of several TPC-DS queries stay hidden inside an OR, and only a cross product is left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from sqlglot import exp

from tempura.expr import Expr, conjunction, standing_in
from tempura.sql.bind.scope import Tree


def columns_of(tree: Tree) -> set[str]:
    """The names of the columns in a tree."""
    return {c.name for c in tree.find_all(exp.Column)}


def detached(tree: Tree) -> Tree:
    """The tree as a root of its own."""
    return tree.copy() if tree.parent is not None else tree


def conjuncts_of(tree: Tree) -> list[Tree]:
    """The conjuncts of a predicate, ORs factored; TRUE has none. NULL keeps no row, as FALSE does, but is no condition to Spark."""
    return [] if tree is None else [exp.false() if isinstance(t, exp.Null) else t for t in _conjuncts(tree)]


def _conjuncts(tree: Tree) -> Iterator[Tree]:
    tree = _bare(tree)
    if isinstance(tree, exp.And):
        yield from _conjuncts(tree.left)
        yield from _conjuncts(tree.right)
    elif isinstance(tree, exp.Or):
        yield from _factored(tree)
    elif not (isinstance(tree, exp.Boolean) and tree.this):
        yield detached(tree)


def _bare(tree: Tree) -> Tree:
    while isinstance(tree, exp.Paren):
        tree = tree.this
    return tree


def _disjuncts(tree: Tree) -> Iterator[Tree]:
    tree = _bare(tree)
    if isinstance(tree, exp.Or):
        yield from _disjuncts(tree.left)
        yield from _disjuncts(tree.right)
    else:
        yield tree


def _factored(tree: Tree) -> Iterator[Tree]:
    branches = [list(_conjuncts(d)) for d in _disjuncts(tree)]
    shared = [c for c in branches[0] if all(any(c == o for o in other) for other in branches[1:])]
    if not shared:
        yield detached(tree)
        return
    yield from shared
    rest = [[c for c in branch if not any(c == s for s in shared)] for branch in branches]
    if all(rest):
        yield exp.or_(*(_all(part) for part in rest), copy=True)


def _all(parts: Sequence[Tree]) -> Tree:
    return parts[0] if len(parts) == 1 else exp.paren(exp.and_(*parts, copy=True), copy=False)


def predicate(parts: Iterable[Tree]) -> Expr:
    """The conjunction as an expression, in canonical order."""
    return conjunction(Expr(p) for p in parts)


def renamed(tree: Tree, names: dict[str, str]) -> Tree:
    """The tree over renamed columns; the same tree if none of its columns is renamed."""
    if not any(names.get(c.name, c.name) != c.name for c in tree.find_all(exp.Column)):
        return tree
    tree = tree.copy()
    for column in tree.find_all(exp.Column):
        column.this.set("this", names.get(column.name, column.name))
    return tree


def substituted(tree: Tree, values: dict[str, Tree]) -> Tree:
    """The tree with columns replaced by expressions."""
    tree = tree.copy()
    for column in [c for c in tree.find_all(exp.Column) if c.name in values]:
        value = standing_in(values[column.name].copy(), column.parent)
        if column is tree:
            return value
        column.replace(value)
    return tree


def replaced(tree: Tree, rule: Callable[[Tree], Tree]) -> Tree:
    """The tree with every part for which the rule gives something replaced by it, outermost first, in place."""
    found = rule(tree)
    if found is not None:
        return found
    for child in list(tree.iter_expressions()):
        new = replaced(child, rule)
        if new is not child:
            child.replace(new)
    return tree
