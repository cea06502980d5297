"""Aggregate calls in SQL: over rows, over weights, as states, and back from states.

A weighted aggregate is its state written out and finished in one expression, so there is one place that says how each
function is made from sums. Types follow the batch query: what merging or weighting widens is cast back.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from sqlglot import exp

from tempura.algebra import AggregateCall
from tempura.algebra.incremental import ROWS, part_column, parts
from tempura.errors import PlanError
from tempura.expr import TRUE, Expr
from tempura.schema import UNKNOWN, Column, orderable
from tempura.sql.bind.types import digits, infer
from tempura.sql.lower.block import Sql, all_of, atom, call, case, cast_to, error, is_true, number, product
from tempura.sql.lower.weights import as_count

Bind = Callable[[Expr], Sql]
"""From an expression over the input's columns to SQL over its sources."""

MANY_ROWS = "a scalar sub-query gave more than one row"

_LEAST = frozenset(["min", "bool_and"])
_EXTREMES = frozenset(["min", "max", "any_value", "bool_and", "bool_or"])
_VARIANCE = re.compile(r"(var|stddev)_(pop|samp)")
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")


def sum_type(aggregate: AggregateCall, dialect: str) -> str:
    """The type of a call's sum if adding sums up would widen it: Spark's decimals."""
    found = _DECIMAL.fullmatch(aggregate.column.type)
    if dialect == "duckdb" or found is None:
        return UNKNOWN
    precision, scale = int(found[1]), int(found[2])
    if aggregate.function == "avg":
        # The average of decimal(p, s) is decimal(p + 4, s + 4); its sum is decimal(p + 10, s), both at most 38 digits.
        return f"decimal({min(precision + 6, 38)},{max(scale - 4, 0)})"
    return f"decimal({precision},{scale})"


def weighed(value: Sql, weight: Sql, kind: str) -> Sql:
    """A value as often as its weight says; `kind` is the type of its sum.

    In a product Spark makes room for a weight of twenty digits, and rounds a decimal that is long itself. So such a one is only multiplied by weights other than 1 and -1, and by shorter ones
    where that is possible.
    """
    found = _DECIMAL.fullmatch(kind)
    if found is None or int(found[1]) <= 17 or int(found[2]) <= 6:
        return product(value, weight)
    scale = int(found[2])
    several = cast_to(product(value, weight), f"decimal(38,{scale})")
    if scale <= 28:
        short = [(value, f"decimal(28,{scale})"), (weight, "decimal(9,0)")]
        tried = [
            exp.TryCast(this=tree.copy(), to=exp.DataType.build(to, dialect="spark"), safe=True) for tree, to in short
        ]
        several = call("coalesce", product(*tried), several)
    once, back = (exp.EQ(this=atom(weight), expression=times) for times in (number(1), exp.Neg(this=number(1))))
    return case((once, value), (back, exp.Neg(this=atom(value))), default=several)


def exact(aggregate: AggregateCall, columns: Mapping[str, Column]) -> bool:
    """Whether adding and taking away the same values surely leaves what was there: counts, integers and decimals do, floats do not."""
    if aggregate.distinct or aggregate.function not in ("count", "sum", "avg"):
        return False
    if aggregate.function == "count":
        return True
    known = _type(aggregate, columns)
    kinds = (aggregate.column.type, known) if aggregate.function == "sum" else (known, aggregate.column.type)
    integral = ("tinyint", "smallint", "int", "bigint", "integer", "long")
    if aggregate.function == "avg":
        return aggregate.column.type.startswith("decimal") or known in integral or known.startswith("decimal")
    return any(kind.startswith("decimal") or kind in integral for kind in kinds)


def _type(aggregate: AggregateCall, columns: Mapping[str, Column]) -> str:
    """The type of what a call is over."""
    return infer(aggregate.argument.tree, columns).type if aggregate.argument else UNKNOWN


def needs_rows(aggregate: AggregateCall) -> bool:
    """Whether a call must see every row as often as it is there: it is neither made of sums nor blind to repetition."""
    return parts(aggregate) is None and not aggregate.distinct


def over_rows(aggregate: AggregateCall, bind: Bind) -> Callable[[str], Sql]:
    """The call over unweighted rows; the result takes the dialect."""

    def make(dialect: str) -> Sql:
        if aggregate.call is not None:
            tree = bind(aggregate.call)
            return tree if isinstance(tree, exp.Filter) else _filtered(tree, aggregate, bind)
        if aggregate.function == "count" and aggregate.argument is None:
            return _filtered(exp.Count(this=exp.Star(), big_int=True), aggregate, bind)
        if aggregate.argument is None:
            raise PlanError(
                f"{aggregate} has no argument and no text", hint="give an AggregateCall either `argument` or `call`"
            )
        argument = bind(aggregate.argument)
        sortable = orderable(aggregate.column.type)
        if aggregate.function == "single_value":
            many = exp.GT(
                this=_filtered(exp.Count(this=exp.Star(), big_int=True), aggregate, bind), expression=number(1)
            )
            value = _filtered(call("max" if sortable else "any_value", argument), aggregate, bind)
            return case((many, error(MANY_ROWS, dialect)), default=value)
        # Any value is right; the greatest is the same one whichever way it is computed.
        name = "max" if aggregate.function == "any_value" and sortable else aggregate.function
        inner: Sql = exp.Distinct(expressions=[argument]) if aggregate.distinct else argument
        return _filtered(call(name, inner), aggregate, bind)

    return make


def state_parts(
    aggregate: AggregateCall, bind: Bind, weight: Sql | None, dialect: str, known: Mapping[str, Column]
) -> dict[str, Sql]:
    """The columns of a call's state as aggregates over rows with weights."""
    found: dict[str, Sql] = {}
    for part in parts(aggregate) or ():
        found[part_column(aggregate, part)] = _part(part, aggregate, bind, weight, dialect, known)
    return found


def _part(
    part: str, aggregate: AggregateCall, bind: Bind, weight: Sql | None, dialect: str, known: Mapping[str, Column]
) -> Sql:
    if part == "c":
        return _count(aggregate, bind, weight, dialect, known)
    assert aggregate.argument is not None
    argument = bind(aggregate.argument)
    if part == "m":
        return _filtered(call("min" if aggregate.function in _LEAST else "max", argument), aggregate, bind)
    if _VARIANCE.fullmatch(aggregate.function):
        return _power(part, aggregate, argument, bind, weight, dialect, known)
    if aggregate.function == "avg" and _type(aggregate, known) in ("bigint", "long"):
        # Spark adds these up as doubles, which do not overflow. Nor do decimals, of as many digits as sums of sums have, and they are exact.
        argument = cast_to(argument, "decimal(28,0)")
    elif _type(aggregate, known) == "string":
        argument = cast_to(argument, "double")  # As Spark does, unless there is a weight to multiply by.
    if weight is None:
        return _filtered(call("sum", argument), aggregate, bind)
    kind = sum_type(aggregate, dialect)
    return cast_to(_filtered(call("sum", weighed(argument, weight, kind)), aggregate, bind), kind)


def _power(
    part: str,
    aggregate: AggregateCall,
    argument: Sql,
    bind: Bind,
    weight: Sql | None,
    dialect: str,
    known: Mapping[str, Column],
) -> Sql:
    """The sum of a variance's arguments, or of their squares: of numbers that are short enough an exact one."""
    found = None if dialect == "duckdb" else digits(_type(aggregate, known))
    value = cast_to(argument, "double" if found is None else f"decimal({found[0]},{found[1]})")
    value = product(value, value) if part == "q" else value
    kind = UNKNOWN if found is None else f"decimal(38,{found[1] * (2 if part == 'q' else 1)})"
    value = value if weight is None else weighed(value, weight, kind)
    return cast_to(_filtered(call("sum", value), aggregate, bind), kind)


def _count(aggregate: AggregateCall, bind: Bind, weight: Sql | None, dialect: str, known: Mapping[str, Column]) -> Sql:
    name = aggregate.argument.name if aggregate.argument else None
    never_null = aggregate.argument is None or (name is not None and name in known and not known[name].nullable)
    if weight is None and (aggregate.where is TRUE or name is not None or aggregate.argument is None):
        counted: Sql = exp.Star() if aggregate.argument is None else bind(aggregate.argument)
        return _filtered(exp.Count(this=counted, big_int=True), aggregate, bind)
    # An expression that occurs in several calls is evaluated by Spark before their filters, which it may need.
    conditions = [] if aggregate.where is TRUE else [bind(aggregate.where)]
    if not never_null and aggregate.argument is not None:
        conditions.append(exp.Not(this=exp.Is(this=atom(bind(aggregate.argument)), expression=exp.Null())))
    condition = all_of(conditions)
    tree = call("sum", weight) if weight is not None else exp.Count(this=exp.Star(), big_int=True)
    if condition is not None:
        tree = exp.Filter(this=tree, expression=exp.Where(this=condition))
    return tree if weight is None else as_count(call("coalesce", tree, number(0)), dialect)


def merged(aggregate: AggregateCall, state: Callable[[str], Sql], dialect: str) -> dict[str, Sql]:
    """The columns of a call's state as aggregates over the states of one group.

    A sum over no values is NULL, so it becomes NULL again when the last value has gone.
    """
    found: dict[str, Sql] = {}
    for part in parts(aggregate) or ():
        name = part_column(aggregate, part)
        if part == "m":
            found[name] = call("min" if aggregate.function in _LEAST else "max", state(name))
        elif part == "c":
            found[name] = as_count(call("sum", state(name)), dialect)
        else:
            some = exp.NEQ(this=call("sum", state(part_column(aggregate, "c"))), expression=number(0))
            kind = sum_type(aggregate, dialect) if part == "s" else UNKNOWN
            found[name] = case((some, cast_to(call("sum", state(name)), kind)))
    return found


def final(aggregate: AggregateCall, state: Callable[[str], Sql], dialect: str) -> Sql:
    """The call's value from the columns of its state."""

    def part(letter: str) -> Sql:
        return state(part_column(aggregate, letter))

    function = aggregate.function
    if function == "count":
        return part("c")
    if function in _EXTREMES:
        return part("m")
    if function == "single_value":
        return case((exp.GT(this=state(ROWS), expression=number(1)), error(MANY_ROWS, dialect)), default=part("m"))
    some = exp.GT(this=part("c"), expression=number(1 if function.endswith("_samp") else 0))
    if function == "sum":
        return case((some, part("s")))
    if function == "avg":
        kind = aggregate.column.type
        if dialect == "duckdb":
            return case((some, quotient(cast_to(part("s"), "double"), part("c"))))
        if kind == "double":
            # A sum may be of intervals, which cannot be cast to a number.
            return case((some, quotient(product(part("s"), cast_to(number(1), "double")), part("c"))))
        return case((some, cast_to(quotient(part("s"), part("c")), kind if kind.startswith("decimal") else UNKNOWN)))
    if _VARIANCE.fullmatch(function):
        spread = _spread(part("c"), part("s"), part("q"), dialect)
        # Rounding may leave a little less than nothing.
        spread_or_zero = call("greatest", spread, cast_to(number(0), "double"))
        divisor: Sql = (
            exp.Paren(this=exp.Sub(this=part("c"), expression=number(1))) if function.endswith("_samp") else part("c")
        )
        variance = quotient(spread_or_zero, divisor)
        return case((some, call("sqrt", variance) if function.startswith("stddev") else variance))
    raise PlanError(
        f"{function} cannot be computed from a state",
        hint="give it parts in tempura.algebra.incremental.PARTS and a formula here",
    )


def _spread(count: Sql, total: Sql, squares: Sql, dialect: str) -> Sql:
    """The sum of squared distances from the mean: squares - total² / count.

    In floating point these two cancel out where the mean is far from zero. So distances are first taken from m, a whole number near the mean, by sums that are
    exact: squares - 2m·total + count·m². What is left to subtract is small: (total - count·m)² / count.
    """
    if dialect == "duckdb":
        return exp.Sub(this=squares, expression=quotient(product(total, total), count))
    near = cast_to(quotient(cast_to(total, "double"), count), "decimal(15,0)")
    from_near = exp.Add(
        this=exp.Sub(this=squares, expression=product(product(near, number(2)), total)),
        expression=product(product(count, near), near),
    )
    off = cast_to(exp.Sub(this=total, expression=product(count, near)), "double")
    return exp.Sub(this=cast_to(from_near, "double"), expression=quotient(product(off, off), count))


def quotient(dividend: Sql, divisor: Sql) -> Sql:
    return exp.Div(this=atom(dividend), expression=atom(divisor), typed=False, safe=False)


def over_weights(aggregate: AggregateCall, bind: Bind, weight: Sql, dialect: str, known: Mapping[str, Column]) -> Sql:
    """The call over rows with weights; where repetition does not matter the rows must be consolidated."""
    if parts(aggregate) is None:
        return over_rows(aggregate, bind)(dialect)
    state = {ROWS: call("sum", weight), **state_parts(aggregate, bind, weight, dialect, known)}
    return final(aggregate, lambda name: state[name].copy(), dialect)


def _filtered(tree: Sql, aggregate: AggregateCall, bind: Bind) -> Sql:
    if aggregate.where is TRUE:
        return tree
    condition = bind(aggregate.where)
    if is_true(condition):
        return tree
    if isinstance(tree, (exp.IgnoreNulls, exp.RespectNulls)):
        return type(tree)(this=_filtered(tree.this, aggregate, bind))
    return exp.Filter(this=tree, expression=exp.Where(this=condition))
