"""Sub-queries inside expressions, turned into joins.

While names are resolved, every sub-query of a block is bound and replaced by a call `?n(operands, outer columns)`; the call carries the
outer columns that the sub-query speaks of, so that placement and grouping treat them like any other argument. When
the block's tree is built, the calls are replaced again, by columns of what is joined to the tree:

    x IN (…), EXISTS (…)        as a conjunct: SemiJoin; under NOT: AntiJoin, null-aware for IN
                                elsewhere: LeftOuterJoin with the distinct matches and a mark
    (scalar)                    InnerJoin with one row; correlated: LeftOuterJoin with one row per value of the correlation
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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
    Project,
    SemiJoin,
    Values,
)
from tempura.expr import TRUE, Expr, col, column_tree, comparand, conjunction, is_operand, rejects_nulls
from tempura.schema import Column, Schema, fresh, names
from tempura.sql.bind.equalities import cast, casts
from tempura.sql.bind.predicates import columns_of, predicate, renamed, substituted
from tempura.sql.bind.projection import apart, by_name, computed, named_columns, narrowed, passed, project
from tempura.sql.bind.scope import Tree, refuse
from tempura.sql.bind.types import infer


class Hole(Op):
    """The place of the outer values that a sub-query is evaluated for, filled when the outer tree is known."""

    columns: Schema

    def columns_from(self, inputs: Sequence[Schema]) -> Schema:
        return self.columns


@dataclass(frozen=True)
class Nested:
    """A bound sub-query: its tree, and what ties it to the row of the outer query."""

    op: Op
    outputs: tuple[str, ...]
    """The columns of `op` that are the sub-query's own."""
    on: tuple[Tree, ...] = ()
    """Conditions over columns of `op` and outer ones."""
    outside: tuple[str, ...] = ()
    """Names of the outer columns, as `on` and `value` write them."""
    hole: bool = False
    """Whether `op` contains a Hole for the outer values."""
    equal: bool = True
    """Whether all of `on` are equalities of an expression of `op` with an outer one."""
    value: Tree = None
    """For an aggregate without GROUP BY: its value over the columns of `op` and outer ones, right also where `op` has no row."""


@dataclass(frozen=True)
class Sub:
    """A sub-query in an expression. Of the call's arguments the first `operands` are left operands, the others outer columns."""

    kind: str
    """scalar, exists, in, any or all"""
    query: Nested
    operands: int = 0
    comparison: type[Any] | None = None


Subs = Mapping[str, Sub]


def is_call(tree: Tree) -> bool:
    return isinstance(tree, exp.Anonymous) and tree.name.startswith("?")


def has_subquery(tree: Tree) -> bool:
    return any(is_call(t) for t in tree.find_all(exp.Anonymous))


class Tied:
    """A sub-query tied to an outer tree: names made apart, outer columns replaced by what the outer tree calls them."""

    def __init__(self, op: Op, sub: Sub, call: Tree):
        self.outer = op
        self.query = sub.query
        self.operands: list[Tree] = [a.copy() for a in call.expressions[: sub.operands]]
        self.given: dict[str, Tree] = {
            name: a.copy() for name, a in zip(sub.query.outside, call.expressions[sub.operands :], strict=True)
        }
        right = filled(sub.query.op, op, self.given) if sub.query.hole else sub.query.op
        outputs = list(sub.query.outputs)
        if sub.kind == "in" and outputs:
            right, outputs = self._comparable(right, outputs)
        self.right, self.called = apart(right, op)
        self.outputs = [self.called[o] for o in outputs]

    def _comparable(self, right: Op, outputs: list[str]) -> tuple[Op, list[str]]:
        """The right side with columns that the operands can be compared with, and the operands so that they can be."""
        mine, theirs = by_name(self.outer), by_name(right)
        kinds = [(infer(a, mine).type, theirs[b].type) for a, b in zip(self.operands, outputs, strict=True)]
        to = [casts(*pair) for pair in kinds]
        self.operands = [cast(a, t) for a, (t, _) in zip(self.operands, to, strict=True)]
        return named_columns(right, [(cast(column_tree(b), t), "") for b, (_, t) in zip(outputs, to, strict=True)])

    def over_both(self, tree: Tree) -> Tree:
        """A tree of the sub-query over the columns of both sides."""
        return substituted(renamed(tree, self.called), self.given)

    @property
    def on(self) -> list[Tree]:
        return [self.over_both(t) for t in self.query.on]

    def keys(self) -> tuple[Op, list[str], list[Tree]]:
        """The right side with a column per correlated equality, these columns, and the equalities over them."""
        sides = [_inner_side(t, self.query.outside) for t in self.query.on]
        inner = [(renamed(side, self.called), "") for side, _, _ in sides]
        right, found = named_columns(self.right, inner, names(self.outer.schema))
        conditions: list[Tree] = [
            (exp.NullSafeEQ if safe else exp.EQ)(
                this=column_tree(key), expression=comparand(substituted(outer, self.given))
            )
            for key, (_, outer, safe) in zip(found, sides, strict=True)
        ]
        unique = list(dict.fromkeys(found))
        return right, unique, conditions


def equal_sides(tree: Tree, outside: Sequence[str]) -> tuple[Tree, Tree, bool] | None:
    """The inner and the outer side of a correlated equality, and whether NULLs are equal; None if it is not one."""
    if not isinstance(tree, (exp.EQ, exp.NullSafeEQ)):
        return None
    a, b = tree.this.unnest(), tree.expression.unnest()
    ca, cb = columns_of(a), columns_of(b)
    known = set(outside)
    safe = isinstance(tree, exp.NullSafeEQ)
    if ca and cb and not ca & known and cb <= known:
        return a, b, safe
    if ca and cb and not cb & known and ca <= known:
        return b, a, safe
    return None


def _inner_side(tree: Tree, outside: Sequence[str]) -> tuple[Tree, Tree, bool]:
    found = equal_sides(tree, outside)
    assert found is not None, "only correlated equalities are asked for their sides"
    return found


def filled(op: Op, outer: Op, given: Mapping[str, Tree]) -> Op:
    """`op` with the Hole filled by the distinct outer values."""
    if isinstance(op, Hole):
        columns = by_name(outer)
        outputs = tuple(
            Output(c, computed(c.name, tree, columns).expr) for c, tree in zip(op.columns, given.values(), strict=True)
        )
        return Aggregate(project(outer, outputs), names(op.columns), ())
    return op.over([filled(i, outer, given) for i in op.inputs]) if op.inputs else op


def restrict(op: Op, conjunct: Tree, subs: Subs) -> Op:
    """The rows of `op` for which a conjunct with sub-queries is true."""
    negated, tree = False, conjunct
    while isinstance(tree, (exp.Not, exp.Paren)):
        negated ^= isinstance(tree, exp.Not)
        tree = tree.this
    if is_call(tree) and not any(has_subquery(a) for a in tree.expressions):
        sub = subs[tree.name]
        if sub.kind == "all":
            return _all(op, sub, tree, negated)
        if sub.kind == "any":
            tied = Tied(op, sub, tree)
            if negated:
                refuse(
                    "NOT around a comparison with ANY is not supported", tree, "write the opposite comparison with ALL"
                )
            return SemiJoin(op, tied.right, predicate([*tied.on, _compared(tied, sub, tree)]))
        if sub.kind == "exists" and sub.query.value is None:
            tied = Tied(op, sub, tree)
            return (AntiJoin if negated else SemiJoin)(op, tied.right, predicate(tied.on))
        if sub.kind == "in" and sub.query.value is None:
            return _not_in(op, sub, tree) if negated else _in(op, sub, tree)
    joined, value = attach(op, conjunct, subs, kept=True)
    return narrowed(_joined_where(op, joined, Expr(value)), names(op.schema))


def _joined_where(op: Op, joined: Op, true: Expr) -> Op:
    """A filter over the join with one sub-query, made its condition where that says the same."""
    if isinstance(joined, InnerJoin) and joined.left is op:
        return InnerJoin(op, joined.right, conjunction([joined.on, true]))
    if isinstance(joined, LeftOuterJoin) and joined.left is op and rejects_nulls(true, names(joined.inputs[1].schema)):
        return InnerJoin(op, joined.right, conjunction([joined.on, true]))
    return Filter(joined, true)


def _pairs(tied: Tied) -> list[Tree]:
    return [
        exp.EQ(this=_operand(a), expression=column_tree(b)) for a, b in zip(tied.operands, tied.outputs, strict=True)
    ]


def _operand(tree: Tree) -> Tree:
    return tree if is_operand(tree) else exp.Paren(this=tree)


def _in(op: Op, sub: Sub, call: Tree) -> Op:
    tied = Tied(op, sub, call)
    return SemiJoin(op, tied.right, predicate([*tied.on, *_pairs(tied)]))


def _not_in(op: Op, sub: Sub, call: Tree) -> Op:
    """x NOT IN (y…): true if there is no y at all, or if x is not NULL, no y is, and none equals x."""
    tied = Tied(op, sub, call)
    right = by_name(tied.right)
    left = by_name(op)
    operands = [computed("x", t, left).column for t in tied.operands]
    if not any(c.nullable for c in operands) and not any(right[o].nullable for o in tied.outputs):
        return AntiJoin(op, tied.right, predicate([*tied.on, *_pairs(tied)]))
    if tied.query.on or len(operands) > 1:
        unknown = [exp.paren(exp.or_(pair, _is_null(a), _is_null(column_tree(b))), copy=False)
                   for pair, a, b in zip(_pairs(tied), tied.operands, tied.outputs, strict=True)]  # fmt: skip
        return AntiJoin(op, tied.right, predicate([*tied.on, *unknown]))
    x, y = tied.operands[0], tied.outputs[0]
    kept = AntiJoin(op, tied.right, predicate(_pairs(tied)))
    taken = set(names(op.schema))
    empty, null = fresh("is_empty", taken), fresh("has_null", taken)
    flags = Project(
        Aggregate(tied.right, (), (_count("n"), _count("nn", y))),
        (
            Output(Column(empty, "boolean", False), Expr(_compare(exp.EQ, "n", 0))),
            Output(Column(null, "boolean", False), Expr(exp.LT(this=column_tree("nn"), expression=column_tree("n")))),
        ),
    )
    known = exp.paren(exp.and_(exp.not_(column_tree(null)), exp.not_(_is_null(x))), copy=False)
    true: Tree = exp.or_(column_tree(empty), known)
    return narrowed(Filter(InnerJoin(kept, flags, TRUE), Expr(true)), names(op.schema))


def _compared(tied: Tied, sub: Sub, call: Tree) -> Tree:
    assert sub.comparison is not None
    if not tied.outputs:
        refuse("ANY or ALL of a correlated aggregate is not supported", call, "it is one value: compare with that")
    return sub.comparison(this=_operand(tied.operands[0]), expression=column_tree(tied.outputs[0]))


def _all(op: Op, sub: Sub, call: Tree, negated: bool) -> Op:
    """x > ALL (y…): no y for which the comparison is false or NULL."""
    if negated:
        refuse("NOT around a comparison with ALL is not supported", call, "write the opposite comparison with ANY")
    tied = Tied(op, sub, call)
    compared = exp.paren(_compared(tied, sub, call), copy=False)
    failed = exp.Not(this=exp.func("COALESCE", compared, exp.false(), copy=False))
    return AntiJoin(op, tied.right, predicate([*tied.on, failed]))


def _is_null(tree: Tree) -> Tree:
    return exp.Is(this=_operand(tree.copy()), expression=exp.Null())


def _compare(kind: type[Any], name: str, number: int) -> Tree:
    return kind(this=column_tree(name), expression=exp.Literal.number(number))


def _count(name: str, argument: str | None = None) -> AggregateCall:
    return AggregateCall(Column(name, "bigint", False), "count", None if argument is None else col(argument))


def attach(op: Op, tree: Tree, subs: Subs, *, kept: bool = False) -> tuple[Op, Tree]:
    """`op` joined with the sub-queries of an expression, and the expression over the result's columns; if rows are `kept` by it, NULL is as good as false."""
    while True:
        call = next((t for t in tree.find_all(exp.Anonymous) if is_call(t) and not _inner_calls(t)), None)
        if call is None:
            return op, tree
        sub = subs[call.name]
        if sub.kind == "scalar" or sub.query.value is not None:
            op, value = _scalar(op, sub, call)
            if sub.kind == "exists":
                value = exp.Not(this=_is_null(value))
            elif sub.kind == "in" and not (kept and call is tree):
                # As a value, neither IN nor NOT IN is ever NULL in Spark.
                value = exp.func("COALESCE", value, exp.true() if _negated(call) else exp.false(), copy=False)
        elif sub.kind == "exists":
            op, value = _mark(op, sub, call)
        elif sub.kind == "in":
            op, value = _possible(op, sub, call) if _negated(call) else _mark(op, sub, call)
        else:
            refuse(
                f"a comparison with {sub.kind.upper()} inside an expression is not supported",
                call,
                "write it as a conjunct of WHERE, or use EXISTS",
            )
        if not is_operand(value):
            value = exp.Paren(this=value)
        if call is tree:
            tree = value
        else:
            call.replace(value)


def _inner_calls(call: Tree) -> bool:
    return any(has_subquery(a) for a in call.expressions)


def _negated(call: Tree) -> bool:
    """Whether what is asked of a predicate is that it be false: the NOTs above it, through AND and OR, are odd in number; to Spark `= FALSE` is one."""
    negated, tree = False, call
    while isinstance(tree.parent, (exp.And, exp.Or, exp.Not, exp.Paren, exp.EQ, exp.NEQ)):
        parent = tree.parent
        if isinstance(parent, (exp.EQ, exp.NEQ)):
            other = parent.expression if tree is parent.this else parent.this
            if not isinstance(other, exp.Boolean):
                break
            negated ^= isinstance(parent, exp.EQ) != bool(other.this)
        negated ^= isinstance(parent, exp.Not)
        tree = parent
    return negated


def _scalar(op: Op, sub: Sub, call: Tree) -> tuple[Op, Tree]:
    tied = Tied(op, sub, call)
    if tied.query.value is not None:
        joined = LeftOuterJoin(op, tied.right, predicate(tied.on)) if tied.query.on else InnerJoin(op, tied.right, TRUE)
        value = tied.over_both(tied.query.value)
        if sub.kind == "in":
            value = exp.EQ(this=_operand(tied.operands[0]), expression=_operand(value))
        return joined, value
    if len(tied.outputs) != 1:
        refuse(f"a scalar sub-query gives one column, this one gives {len(tied.outputs)}", call)
    output = tied.outputs[0]
    if not tied.query.on:
        right = narrowed(tied.right, [output])
        if not one_row(right):
            right = Aggregate(right, (), (_single(by_name(right)[output]),))
        return InnerJoin(op, right, TRUE), column_tree(output)
    if not tied.query.equal:
        refuse("this correlated scalar sub-query is not supported", call, "correlate it by equalities only")
    right, keys, conditions = tied.keys()
    if not any(key <= set(keys) for key in right.keys):
        held = output
        right = narrowed(right, [*keys, output])
        if output in keys:
            held = fresh(f"{output}_value", {*names(right.schema), *names(op.schema)})
        right = Aggregate(right, tuple(keys), (_single(by_name(right)[output], held),))
        output = held
    else:
        right = narrowed(right, [*keys, output])
    return LeftOuterJoin(op, right, predicate(conditions)), column_tree(output)


def _single(column: Column, name: str | None = None) -> AggregateCall:
    return AggregateCall(Column(name or column.name, column.type, True), "single_value", col(column.name))


def one_row(op: Op) -> bool:
    """Whether the tree surely has exactly one row."""
    match op:
        case Aggregate(by=()):
            return True
        case Project():
            return one_row(op.inputs[0])
        case InnerJoin(on=on):
            return on is TRUE and all(one_row(i) for i in op.inputs)
        case Values(rows=rows):
            return len(rows) == 1
        case _:
            return False


def _mark(op: Op, sub: Sub, call: Tree) -> tuple[Op, Tree]:
    """A column that is TRUE where the sub-query has a match, and NULL where it has none."""
    tied = Tied(op, sub, call)
    if not tied.query.on and not tied.operands:
        found = fresh("n", {*names(op.schema)})
        return InnerJoin(op, Aggregate(tied.right, (), (_count(found),)), TRUE), _compare(exp.GT, found, 0)
    pairs = _pairs(tied)
    if tied.query.equal:
        right, keys, conditions = tied.keys()
        distinct = Aggregate(
            narrowed(right, [*keys, *tied.outputs]), tuple(dict.fromkeys([*keys, *(tied.outputs if pairs else ())])), ()
        )
        conditions += pairs
    else:
        distinct, conditions = _matched_values(op, tied, pairs)
    mark = fresh("mark", {*names(op.schema), *names(distinct.schema)})
    marked = Project(distinct, (*(passed(c) for c in distinct.schema), Output(Column(mark, "boolean", False), TRUE)))
    return LeftOuterJoin(op, marked, predicate(conditions)), exp.Not(this=_is_null(column_tree(mark)))


def _matched_values(op: Op, tied: Tied, pairs: Sequence[Tree]) -> tuple[Op, list[Tree]]:
    """The distinct outer values that have a match, and the null-safe condition that ties a row to its values."""
    on = [*tied.on, *pairs]
    spoken = sorted({c for t in on for c in columns_of(t)} & set(names(op.schema)))
    values = Aggregate(narrowed(op, spoken), tuple(spoken), ())
    matched, called = apart(SemiJoin(values, tied.right, predicate(on)), op)
    return matched, [exp.NullSafeEQ(this=column_tree(c), expression=column_tree(called[c])) for c in spoken]


def _possible(op: Op, sub: Sub, call: Tree) -> tuple[Op, Tree]:
    """Whether x may be one of y…: also where x or a y is NULL. In Spark NOT IN is false then, as IN is, and neither is ever NULL."""
    tied = Tied(op, sub, call)
    if not tied.query.equal or len(tied.operands) > 1:
        refuse(
            "IN with a sub-query is not supported here: under NOT its NULLs matter",
            call,
            "make it a conjunct of WHERE, or write EXISTS",
        )
    operand, output = tied.operands[0], tied.outputs[0]
    right, keys, conditions = tied.keys()
    taken = {*names(op.schema), *names(right.schema)}
    rows, known = fresh("n", taken), fresh("nn", taken)
    counted = Aggregate(narrowed(right, [*keys, output]), tuple(keys), (_count(rows), _count(known, output)))
    joined, mark = _mark(op, sub, call)
    counts, called = apart(counted, joined)
    conditions = [renamed(c, called) for c in conditions]
    whole = LeftOuterJoin(joined, counts, predicate(conditions)) if conditions else InnerJoin(joined, counts, TRUE)
    n, nn = called[rows], called[known]
    none = exp.EQ(this=exp.func("COALESCE", column_tree(n), exp.Literal.number(0)), expression=exp.Literal.number(0))
    unknown = exp.or_(_is_null(operand), exp.LT(this=column_tree(nn), expression=column_tree(n)))
    return whole, exp.Case().when(mark, exp.true()).when(none, exp.false()).else_(unknown)
