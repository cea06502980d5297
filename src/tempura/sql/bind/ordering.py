"""ORDER BY, LIMIT and OFFSET: the keys of a `TopK`, completed so that which rows it takes is a function of the bag.

LIMIT without ORDER BY may take any rows; we order by all columns, which is one right answer and always the same one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.optimizer.simplify import simplify

from tempura.algebra import Filter, Op, SortKey, TopK, Window, WindowCall
from tempura.expr import Expr, column_tree
from tempura.schema import Column, fresh, names, orderable
from tempura.sql.bind.predicates import predicate
from tempura.sql.bind.projection import narrowed
from tempura.sql.bind.scope import Tree, refuse

_SUMS = (exp.Literal, exp.Paren, exp.Add, exp.Sub, exp.Mul)
"""What a number of rows may be computed with."""


@dataclass
class Key:
    """One key of ORDER BY: an expression, or the position of an output column."""

    tree: Tree
    item: int | None
    descending: bool
    nulls_first: bool

    def over(self, tree: Tree) -> Key:
        return Key(tree, self.item, self.descending, self.nulls_first)


@dataclass(frozen=True)
class Slice:
    """LIMIT and OFFSET."""

    limit: int | None
    offset: int

    @property
    def whole(self) -> bool:
        return self.limit is None and self.offset == 0


def slice_of(query: Tree) -> Slice:
    limit, offset = query.args.get("limit"), query.args.get("offset")
    if isinstance(limit, exp.Fetch):
        refuse("FETCH is not supported", limit, "write LIMIT")
    return Slice(_number(limit, "LIMIT"), _number(offset, "OFFSET") or 0)


def _number(clause: Tree, what: str) -> int | None:
    if clause is None:
        return None
    value = clause.expression
    if all(isinstance(part, _SUMS) for part in value.walk()):
        value = simplify(value.copy())
    if isinstance(value, exp.Var) and value.name.upper() == "ALL":
        return None
    if not isinstance(value, exp.Literal) or not value.name.isdigit():
        refuse(f"{what} must be a constant whole number, not {value.sql()!r}", clause, "write the number")
    return int(value.name)


def ordered_terms(query: Tree) -> list[Tree]:
    order = query.args.get("order")
    return order.expressions if order else []


def key_of(term: Tree, tree: Tree, item: int | None) -> Key:
    return Key(tree, item, bool(term.args.get("desc")), bool(term.args.get("nulls_first")))


def top(op: Op, keys: Sequence[SortKey], part: Slice) -> Op:
    """The first rows of `op` in the order of the keys and then of all other columns."""
    return TopK(op, completed(op, keys), part.limit, part.offset)


def completed(op: Op, keys: Sequence[SortKey]) -> tuple[SortKey, ...]:
    unique = {k.column: k for k in reversed(keys)}
    first = list(dict.fromkeys(k.column for k in keys))
    rest = [SortKey(c.name) for c in op.schema if c.name not in unique and orderable(c.type)]
    return (*(unique[c] for c in first), *rest)


def top_of_each(op: Op, keys: Sequence[SortKey], part: Slice, partition: Sequence[str]) -> Op:
    """The first rows for each value of `partition`: LIMIT inside a correlated sub-query."""
    name = fresh("row_number", names(op.schema))
    terms = [
        exp.Ordered(this=column_tree(k.column), desc=k.descending, nulls_first=k.nulls_first)
        for k in completed(op, keys)
        if k.column not in partition
    ]
    call = exp.Window(
        this=exp.RowNumber(),
        partition_by=[column_tree(p) for p in partition],
        order=exp.Order(expressions=terms or [exp.Ordered(this=column_tree(partition[0]), nulls_first=True)]),
        over="OVER",
    )
    numbered = Window(op, tuple(partition), (WindowCall(Column(name, "int", False), Expr(call)),))
    bounds: list[Tree] = []
    if part.limit is not None:
        bounds.append(exp.LTE(this=column_tree(name), expression=exp.Literal.number(part.limit + part.offset)))
    if part.offset:
        bounds.append(exp.GT(this=column_tree(name), expression=exp.Literal.number(part.offset)))
    return narrowed(Filter(numbered, predicate(bounds)), names(op.schema))


def each_of_all(terms: list[Tree], width: int) -> list[Tree]:
    """The terms of ORDER BY, of which ALL stands for each of so many columns."""
    if len(terms) != 1 or not isinstance(terms[0].this, exp.Var) or terms[0].this.name.upper() != "ALL":
        return terms
    given = {part: terms[0].args.get(part) for part in ("desc", "nulls_first")}
    return [exp.Ordered(this=exp.Literal.number(i + 1), **given) for i in range(width)]
