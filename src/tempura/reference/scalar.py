"""The scalar evaluator: SQL expressions as Python functions over rows, with SQL's NULLs.

It serves the reference interpreter, so it is meant to be read rather than to be fast, and it refuses what it does not know.
Values are int, float, Decimal, str, bool, date and None.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, cast

from sqlglot import exp
from sqlglot.expressions.core import Expression

from tempura.errors import SqlError
from tempura.expr import Expr
from tempura.reference.values import (
    CASTS,
    EXACT,
    Value,
    alike,
    arithmetic,
    bit_and,
    cast_value,
    compare,
    date_part,
    divide,
    earlier,
    int_divide,
    inverted,
    joined,
    later,
    length,
    like,
    lower,
    modulo,
    negated,
    rounded,
    shifted_right,
    sign,
    substring,
    to_date,
    upper,
)
from tempura.schema import Schema, names

Row = tuple[Any, ...]
Evaluator = Callable[[Row], Value]


def compile_expr(expr: Expr, schema: Schema) -> Evaluator:
    """The function that evaluates the expression on a row of the schema."""
    return compile_tree(expr.tree, {name: i for i, name in enumerate(names(schema))})


def compile_tree(tree: Any, positions: dict[str, int]) -> Evaluator:
    kind = cast(type[Any], type(tree))
    special = _SPECIAL.get(kind)
    if special is not None:
        return special(tree, positions)
    strict = _STRICT.get(kind)
    if strict is not None:
        arguments = [compile_tree(a, positions) for a in _arguments(tree)]
        return _strict(strict, arguments)
    raise SqlError(f"the reference interpreter cannot evaluate {tree.sql(dialect='spark')} ({kind.__name__})")


def _arguments(tree: Expression) -> list[Expression]:
    found = [tree.args.get(name) for name in tree.arg_types]
    return [cast(Expression, a) for a in found if isinstance(a, exp.Expr)]


def _strict(function: Callable[..., Value], arguments: Sequence[Evaluator]) -> Evaluator:
    """NULL if any argument is."""

    def evaluate(row: Row) -> Value:
        values = [a(row) for a in arguments]
        return None if any(v is None for v in values) else function(*values)

    return evaluate


# Trees that need more than the values of their arguments.


def _literal(tree: exp.Literal, positions: dict[str, int]) -> Evaluator:
    text = str(tree.this)
    value: Value = text if tree.is_string else int(text) if re.fullmatch(r"\d+", text) else Decimal(text)
    if not tree.is_string and "e" in text.lower():
        value = float(text)
    return lambda row: value


def _column(tree: exp.Column, positions: dict[str, int]) -> Evaluator:
    if tree.name not in positions:
        raise SqlError(f"there is no column {tree.name!r}", hint=f"the columns are {', '.join(positions)}")
    position = positions[tree.name]
    return lambda row: row[position]


def _and(tree: exp.And, positions: dict[str, int]) -> Evaluator:
    parts = [compile_tree(a, positions) for a in tree.flatten()]

    def evaluate(row: Row) -> Value:
        values = [p(row) for p in parts]
        return False if any(v is False for v in values) else None if any(v is None for v in values) else True

    return evaluate


def _or(tree: exp.Or, positions: dict[str, int]) -> Evaluator:
    parts = [compile_tree(a, positions) for a in tree.flatten()]

    def evaluate(row: Row) -> Value:
        values = [p(row) for p in parts]
        return True if any(v is True for v in values) else None if any(v is None for v in values) else False

    return evaluate


def _is(tree: exp.Is, positions: dict[str, int]) -> Evaluator:
    subject, wanted = compile_tree(tree.this, positions), compile_tree(tree.expression, positions)
    return lambda row: subject(row) is wanted(row)


def _null_safe(tree: Any, positions: dict[str, int]) -> Evaluator:
    a, b = compile_tree(tree.this, positions), compile_tree(tree.expression, positions)
    wanted = isinstance(tree, exp.NullSafeEQ)

    def evaluate(row: Row) -> Value:
        x, y = alike(a(row), b(row))
        return (x == y) is wanted

    return evaluate


def _in(tree: exp.In, positions: dict[str, int]) -> Evaluator:
    if tree.args.get("query") is not None or not tree.expressions:
        raise SqlError(
            f"the reference interpreter cannot evaluate {tree.sql(dialect='spark')}", hint="bind sub-queries to joins"
        )
    subject = compile_tree(tree.this, positions)
    choices = [compile_tree(e, positions) for e in tree.expressions]

    def evaluate(row: Row) -> Value:
        value = subject(row)
        if value is None:
            return None
        others = [c(row) for c in choices]
        if any(o is not None and _equal(value, o) for o in others):
            return True
        return None if any(o is None for o in others) else False

    return evaluate


def _equal(a: Value, b: Value) -> bool:
    a, b = alike(a, b)
    return a == b


def _between(tree: exp.Between, positions: dict[str, int]) -> Evaluator:
    both = exp.And(
        this=exp.GTE(this=tree.this.copy(), expression=tree.args["low"].copy()),
        expression=exp.LTE(this=tree.this.copy(), expression=tree.args["high"].copy()),
    )
    return compile_tree(both, positions)


def _case(tree: exp.Case, positions: dict[str, int]) -> Evaluator:
    subject = tree.this
    tests = [exp.EQ(this=subject.copy(), expression=i.this.copy()) if subject else i.this for i in tree.args["ifs"]]
    branches = [
        (compile_tree(t, positions), compile_tree(i.args["true"], positions))
        for t, i in zip(tests, tree.args["ifs"], strict=True)
    ]
    default = compile_tree(tree.args["default"], positions) if tree.args.get("default") else None
    return _first_true(branches, default)


def _if(tree: exp.If, positions: dict[str, int]) -> Evaluator:
    otherwise = tree.args.get("false")
    branch = (compile_tree(tree.this, positions), compile_tree(tree.args["true"], positions))
    return _first_true([branch], compile_tree(otherwise, positions) if otherwise else None)


def _first_true(branches: Sequence[tuple[Evaluator, Evaluator]], default: Evaluator | None) -> Evaluator:
    def evaluate(row: Row) -> Value:
        for test, value in branches:
            if test(row) is True:
                return value(row)
        return default(row) if default else None

    return evaluate


def _coalesce(tree: exp.Coalesce, positions: dict[str, int]) -> Evaluator:
    parts = [compile_tree(a, positions) for a in (tree.this, *tree.expressions)]
    return lambda row: next((v for p in parts if (v := p(row)) is not None), None)


def _null_if(tree: exp.Nullif, positions: dict[str, int]) -> Evaluator:
    a, b = compile_tree(tree.this, positions), compile_tree(tree.expression, positions)

    def evaluate(row: Row) -> Value:
        x, y = a(row), b(row)
        return None if x is not None and y is not None and _equal(x, y) else x

    return evaluate


def _extreme(tree: exp.Greatest | exp.Least, positions: dict[str, int]) -> Evaluator:
    """NULLs are passed over, as in Spark and DuckDB."""
    parts = [compile_tree(a, positions) for a in (tree.this, *tree.expressions)]
    choose: Callable[..., Value] = max if isinstance(tree, exp.Greatest) else min
    return lambda row: choose((v for p in parts if (v := p(row)) is not None), default=None)


def _concat(tree: exp.Concat, positions: dict[str, int]) -> Evaluator:
    return _strict(joined, [compile_tree(a, positions) for a in tree.expressions])


def _cast(tree: exp.Cast, positions: dict[str, int]) -> Evaluator:
    kind = tree.to.this.name
    if kind not in CASTS:
        raise SqlError(f"the reference interpreter cannot cast to {tree.to.sql(dialect='spark')}")
    given = [int(e.name) for e in tree.to.expressions] if kind == "DECIMAL" else []
    precision, scale = [*given, 0][:2] if given else (10, 0)
    value = compile_tree(tree.this, positions)
    return lambda row: cast_value(value(row), kind, scale, precision)


def _date_shift(shift: Callable[[Value, Value], Value]) -> Callable[[Any, dict[str, int]], Evaluator]:
    def compile_shift(tree: Any, positions: dict[str, int]) -> Evaluator:
        unit = tree.args.get("unit")
        if unit is not None and unit.name.upper() not in ("DAY", "DAYS"):
            raise SqlError(f"the reference interpreter adds only days to dates, not {unit.name}")
        return _strict(shift, [compile_tree(tree.this, positions), compile_tree(tree.expression, positions)])

    return compile_shift


def _inner(tree: Any, positions: dict[str, int]) -> Evaluator:
    return compile_tree(tree.this, positions)


def _constant(value: Value) -> Callable[[Any, dict[str, int]], Evaluator]:
    return lambda tree, positions: lambda row: value


def _boolean(tree: exp.Boolean, positions: dict[str, int]) -> Evaluator:
    value = bool(tree.this)
    return lambda row: value


_SPECIAL: dict[type[Any], Callable[[Any, dict[str, int]], Evaluator]] = {
    exp.Literal: _literal,
    exp.Boolean: _boolean,
    exp.Null: _constant(None),
    exp.Column: _column,
    exp.Paren: _inner,
    exp.Alias: _inner,
    exp.TsOrDsToDate: lambda tree, positions: _strict(to_date, [compile_tree(tree.this, positions)]),
    exp.And: _and,
    exp.Or: _or,
    exp.Is: _is,
    exp.NullSafeEQ: _null_safe,
    exp.NullSafeNEQ: _null_safe,
    exp.In: _in,
    exp.Between: _between,
    exp.Case: _case,
    exp.If: _if,
    exp.Coalesce: _coalesce,
    exp.Nullif: _null_if,
    exp.Greatest: _extreme,
    exp.Least: _extreme,
    exp.Concat: _concat,
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.DateAdd: _date_shift(later),
    exp.DateSub: _date_shift(earlier),
    exp.TsOrDsAdd: _date_shift(later),
}

_STRICT: dict[type[Any], Callable[..., Value]] = {
    exp.Add: arithmetic(EXACT.add, operator.add),
    exp.Sub: arithmetic(EXACT.subtract, operator.sub),
    exp.Mul: arithmetic(EXACT.multiply, operator.mul),
    exp.Div: divide,
    exp.Mod: modulo,
    exp.IntDiv: int_divide,
    exp.Neg: negated,
    exp.EQ: compare(operator.eq),
    exp.NEQ: compare(operator.ne),
    exp.LT: compare(operator.lt),
    exp.LTE: compare(operator.le),
    exp.GT: compare(operator.gt),
    exp.GTE: compare(operator.ge),
    exp.Not: inverted,
    exp.Like: like,
    exp.Abs: abs,
    exp.Round: rounded,
    exp.Upper: upper,
    exp.Lower: lower,
    exp.Length: length,
    exp.Substring: substring,
    exp.DPipe: joined,
    exp.Year: date_part("year"),
    exp.Month: date_part("month"),
    exp.Day: date_part("day"),
    exp.Sign: sign,
    exp.BitwiseAnd: bit_and,
    exp.BitwiseRightShift: shifted_right,
}
