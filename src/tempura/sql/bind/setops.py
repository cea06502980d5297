"""UNION, INTERSECT and EXCEPT, with and without ALL.

The columns take their names from the left. Where the types of the sides differ and one of Spark's numeric or date widenings makes them equal,
the narrower side is cast, as Spark would; anything else is left to the engine.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from tempura.algebra import (
    Aggregate,
    AggregateCall,
    AntiJoin,
    Filter,
    InnerJoin,
    LeftOuterJoin,
    Op,
    Output,
    Replicate,
    SemiJoin,
    plus,
)
from tempura.expr import Expr, column_tree, same_columns
from tempura.schema import UNKNOWN, Column, fresh, names
from tempura.sql.bind.equalities import casts
from tempura.sql.bind.projection import apart, by_name, narrowed, passed, project
from tempura.sql.bind.scope import Shown, Tree, refuse
from tempura.sql.bind.sources import Bound
from tempura.sql.bind.types import NULL, widened


def combined(tree: Tree, sides: Sequence[Bound]) -> Bound:
    """The set operation of bound queries; only UNION ALL may have more than two."""
    first = sides[0]
    for side in sides[1:]:
        if len(side.shown) != len(first.shown):
            refuse(
                f"{operation(tree)} of {len(first.shown)} and {len(side.shown)} columns",
                tree.expression,
                "both sides need the same number of columns",
            )
    ops = _aligned(sides)
    columns = names(ops[0].schema)
    every = not tree.args.get("distinct")
    if isinstance(tree, exp.Union):
        whole = plus(*ops)
        op: Op = whole if every else Aggregate(whole, columns, ())
    elif every:
        op = _counted(ops[0], ops[1], isinstance(tree, exp.Intersect))
    else:
        right, called = apart(ops[1], ops[0])
        kind = SemiJoin if isinstance(tree, exp.Intersect) else AntiJoin
        op = kind(Aggregate(ops[0], columns, ()), right, same_columns(columns, [called[c] for c in columns]))
    return Bound(op, tuple(Shown(s.spelling, c) for s, c in zip(first.shown, columns, strict=True)))


def operation(tree: Tree) -> str:
    return type(tree).__name__.upper() + ("" if tree.args.get("distinct") else " ALL")


def _aligned(sides: Sequence[Bound]) -> list[Op]:
    """The sides with the left's column names, in order, and with equal types."""
    given = [[by_name(s.op)[shown.base] for shown in s.shown] for s in sides]
    called: list[str] = []
    for column in given[0]:
        called.append(fresh(column.name, called))
    for i, name in enumerate(called):
        _check_mixed(name, sorted({columns[i].type for columns in given}))
    kinds = [widened(columns[i].type for columns in given) for i in range(len(called))]
    return [_side(s.op, columns, called, kinds) for s, columns in zip(sides, given, strict=True)]


def _check_mixed(name: str, kinds: Sequence[str]) -> None:
    """Refuse texts beside other things: which of them are equal depends on the session, and on what the sides have at the time."""
    other = next((k for k in kinds if any(casts("string", k))), None)
    if other is not None and "string" in kinds:
        refuse(
            f"the column {name!r} is a string on one side of a set operation and {other} on another",
            hint="cast one of them, so that it is plain which values are the same",
        )


def _side(op: Op, columns: Sequence[Column], called: Sequence[str], kinds: Sequence[str]) -> Op:
    outputs: list[Output] = []
    for column, name, kind in zip(columns, called, kinds, strict=True):
        if kind in (UNKNOWN, NULL) or column.type in (kind, UNKNOWN):
            outputs.append(passed(column, name))
        else:
            cast = exp.cast(column_tree(column.name), kind, dialect="spark")
            outputs.append(Output(Column(name, kind, column.nullable), Expr(cast)))
    same = [o.expr.name for o in outputs] == list(called) == list(names(op.schema))
    return op if same else project(op, outputs)


def _counted(left: Op, right: Op, intersect: bool) -> Op:
    """INTERSECT ALL keeps a row as often as the side that has it less, EXCEPT ALL as often as the left has it more."""
    columns = names(left.schema)
    n, m = fresh("n", columns), fresh("m", columns)
    lefts = Aggregate(left, columns, (AggregateCall(Column(n, "bigint", False), "count", None),))
    rights, called = apart(
        Aggregate(right, columns, (AggregateCall(Column(m, "bigint", False), "count", None),)), lefts
    )
    on = same_columns(columns, [called[c] for c in columns])
    mine, theirs = column_tree(n), column_tree(called[m])
    if intersect:
        least = exp.Least(this=mine, expressions=[theirs], ignore_nulls=True)
        return narrowed(Replicate(InnerJoin(lefts, rights, on), Expr(least)), columns)
    more = exp.Sub(this=mine, expression=exp.Coalesce(this=theirs, expressions=[exp.Literal.number(0)]))
    some = exp.GT(this=more.copy(), expression=exp.Literal.number(0))
    return narrowed(Replicate(Filter(LeftOuterJoin(lefts, rights, on), Expr(some)), Expr(more)), columns)
