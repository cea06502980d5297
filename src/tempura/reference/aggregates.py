"""What each aggregate function means: over the rows of a group, as a state, and from a state.

Integers and decimals are added exactly. Floats are added exactly too and rounded once, so that the order of rows does not matter.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

from sqlglot import exp

from tempura.algebra import AggregateCall
from tempura.algebra.incremental import PARTS, ROWS, part_column, parts
from tempura.errors import SqlError, TempuraError
from tempura.expr import Expr
from tempura.reference.scalar import Row, compile_expr
from tempura.reference.values import EXACT, Value, alike, cast_value
from tempura.schema import Schema

Counted = list[tuple[Value, int]]
"""Values that are not NULL, with the weights of their rows."""


def aggregate_value(call: AggregateCall, rows: Mapping[Row, int], schema: Schema) -> Value:
    """The value of a call over the rows of one group, whose weights are positive."""
    if call.call is not None:
        return _unknown_call(call, rows, schema)
    counted = _arguments(call, rows, schema)
    if call.distinct:
        # NULL was left out above, so what remains is a set of values, each of which counts once.
        counted = [(value, 1) for value in dict(counted)]
    if call.function == "single_value":
        return _single_value(counted, sum(w for r, w in rows.items() if _kept(call, schema)(r)))
    if call.function in _MORE:
        return _MORE[call.function](counted)
    state: dict[str, Value] = {ROWS: sum(w for _, w in counted)}
    for part in PARTS.get(call.function, ()):
        state[part_column(call, part)] = _part(part, call, counted)
    return final_value(call, state)


def _single_value(counted: Counted, rows: int) -> Value:
    if rows > 1:
        raise TempuraError("a scalar sub-query gave more than one row")
    return counted[0][0] if counted else None


def _kept(call: AggregateCall, schema: Schema) -> Callable[[Row], bool]:
    holds = compile_expr(call.where, schema)
    return lambda row: holds(row) is True


def _arguments(call: AggregateCall, rows: Mapping[Row, int], schema: Schema, argument: Expr | None = None) -> Counted:
    argument = argument or call.argument
    value: Callable[[Row], Value] = compile_expr(argument, schema) if argument else lambda row: True
    kept = _kept(call, schema)
    return [(v, w) for row, w in rows.items() if kept(row) and (v := value(row)) is not None]


def state_values(calls: Sequence[AggregateCall], rows: Mapping[Row, int], schema: Schema) -> tuple[Value, ...]:
    """The parts of the calls' states for the rows of one group, in the order of the state's columns."""
    found: list[Value] = []
    for call in calls:
        counted = _arguments(call, rows, schema)
        found += [_part(part, call, counted) for part in parts(call) or ()]
    return tuple(found)


def _part(part: str, call: AggregateCall, counted: Counted) -> Value:
    match part:
        case "c":
            return sum(weight for _, weight in counted)
        case "s":
            return add(value if weight == 1 else times(value, weight) for value, weight in counted)
        case "q":
            return add(times(times(value, value), weight) for value, weight in counted)
        case _:
            for value, weight in counted:
                if weight < 0:
                    raise TempuraError(
                        f"{call} is to forget the value {value}",
                        hint="the least or greatest of values can only be kept where nothing is retracted",
                    )
            return extreme(call, [value for value, _ in counted])


def extreme(call: AggregateCall, values: Sequence[Value]) -> Value:
    choose: Callable[..., Value] = min if call.function in ("min", "bool_and") else max
    return choose((v for v in values if v is not None), default=None)


def times(a: Value, b: Value) -> Value:
    a, b = alike(a, b)
    return EXACT.multiply(a, b) if isinstance(a, Decimal) else a * b


def add(values: Any) -> Value:
    """The exact sum of the values that are not NULL; NULL if there are none."""
    given = [v for v in values if v is not None]
    if not given:
        return None
    if any(isinstance(v, float) for v in given):
        if not all(math.isfinite(v) for v in given):
            return sum(float(v) for v in given)
        return float(sum((Fraction(v) for v in given), Fraction(0)))
    total: Value = 0
    for v in given:
        a, b = alike(total, v)
        total = EXACT.add(a, b) if isinstance(a, Decimal) else a + b
    return total


def merged_parts(calls: Sequence[AggregateCall], states: Sequence[Mapping[str, Value]]) -> dict[str, Value]:
    """The parts of the calls' states for one group, from several states of it."""
    found: dict[str, Value] = {}
    for call in calls:
        for part in parts(call) or ():
            name = part_column(call, part)
            values = [s[name] for s in states]
            if part == "m":
                found[name] = extreme(call, values)
            elif part == "c":
                found[name] = sum(values)
            else:
                # The sum of no values is NULL, also when all have been taken away again.
                found[name] = add(values) if found[part_column(call, "c")] else None
    return found


def final_value(call: AggregateCall, state: Mapping[str, Value]) -> Value:
    """The value of a call from its state; from no state at all, its value over no rows."""
    if call.call is not None or call.function not in PARTS:
        raise SqlError(f"the reference interpreter does not know the aggregate {call}")
    count = state.get(part_column(call, "c"), 0)
    function = call.function
    if function == "count":
        return count
    if function == "sum":
        return state[part_column(call, "s")] if count else None
    if function == "avg":
        return _average(call, state[part_column(call, "s")], count) if count else None
    if function.startswith(("var_", "stddev_")):
        return _variance(function, count, *(state.get(part_column(call, p)) for p in ("s", "q")))
    if function == "single_value" and state.get(ROWS, 0) > 1:
        raise TempuraError("a scalar sub-query gave more than one row")
    return state.get(part_column(call, "m"))


def _average(call: AggregateCall, total: Value, count: int) -> Value:
    if isinstance(total, Decimal) and call.column.type.startswith("decimal("):
        scale = int(call.column.type.rstrip(")").split(",")[1])
        return cast_value(EXACT.divide(total, Decimal(count)), "DECIMAL", scale)
    if isinstance(total, float):
        return total / count
    return float(Fraction(total) / count)


def _variance(function: str, count: int, total: Value, squares: Value) -> Value:
    divisor = count - 1 if function.endswith("_samp") else count
    if divisor <= 0:
        return None
    if isinstance(total, float) and not (math.isfinite(total) and math.isfinite(squares)):
        return math.nan
    spread = Fraction(squares) - Fraction(total) ** 2 / count
    # Sums of floats were rounded, which may leave a little less than nothing.
    variance = max(float(spread / divisor), 0.0)
    return math.sqrt(variance) if function.startswith("stddev") else variance


# Functions that have no state.


def _repeated(counted: Counted) -> list[Value]:
    return sorted(value for value, weight in counted for _ in range(weight))


def percentile(counted: Counted, share: float) -> Value:
    values = [float(v) for v in _repeated(counted)]
    if not values:
        return None
    place = (len(values) - 1) * share
    low = math.floor(place)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (place - low)


_MORE: dict[str, Callable[[Counted], Value]] = {
    "collect_list": lambda counted: tuple(_repeated(counted)),
    "array_agg": lambda counted: tuple(_repeated(counted)),
    "collect_set": lambda counted: tuple(sorted({v for v, _ in counted})),
    "count_if": lambda counted: sum(w for v, w in counted if v),
    "median": lambda counted: percentile(counted, 0.5),
    "approx_count_distinct": lambda counted: len({v for v, _ in counted}),
}
"""Other aggregates over the values of a group; where the order of rows would matter, values are sorted."""

_TREES: dict[type[Any], str] = {
    exp.ArrayAgg: "collect_list",
    exp.ArrayUniqueAgg: "collect_set",
    exp.CountIf: "count_if",
    exp.Median: "median",
    exp.ApproxDistinct: "approx_count_distinct",
}


def _unknown_call(call: AggregateCall, rows: Mapping[Row, int], schema: Schema) -> Value:
    """A call that is passed through, where the text is of a function that has a meaning here."""
    assert call.call is not None
    tree = call.call.tree
    if isinstance(tree, exp.Count) and isinstance(tree.this, exp.Distinct):
        columns = [compile_expr(Expr(e), schema) for e in tree.this.expressions]
        kept = _kept(call, schema)
        tuples = {tuple(c(row) for c in columns) for row in rows if kept(row)}
        return sum(1 for t in tuples if None not in t)
    if isinstance(tree, exp.Quantile):
        share = compile_expr(Expr(tree.args["quantile"]), ())(())
        return percentile(_arguments(call, rows, schema, Expr(tree.this)), float(share))
    if type(tree) in _TREES:
        return _MORE[_TREES[type(tree)]](_arguments(call, rows, schema, Expr(tree.this)))
    raise SqlError(f"the reference interpreter does not know the aggregate {call}")
