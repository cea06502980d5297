"""What window functions mean: ranks, neighbours, and aggregates over frames."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sqlglot import exp

from tempura.algebra import AggregateCall, WindowCall
from tempura.errors import SqlError
from tempura.expr import Expr, column_tree
from tempura.reference.aggregates import aggregate_value
from tempura.reference.scalar import Row, compile_expr
from tempura.reference.values import Value
from tempura.schema import Column, Schema

_AGGREGATES: dict[type[Any], str] = {
    exp.Sum: "sum",
    exp.Count: "count",
    exp.Avg: "avg",
    exp.Min: "min",
    exp.Max: "max",
    exp.StddevSamp: "stddev_samp",
    exp.Stddev: "stddev_samp",
    exp.Variance: "var_samp",
}


def window_values(call: WindowCall, rows: Sequence[Row], schema: Schema) -> list[Value]:
    """The value of a call for every row; the call may be an expression over several window functions."""
    tree = call.call.tree.copy()
    extended = list(rows)
    columns = schema
    holder = exp.Paren(this=tree)
    for i, window in enumerate(list(holder.find_all(exp.Window))):
        found = _one_window(window, call.column, rows, schema)
        extended = [(*row, value) for row, value in zip(extended, found, strict=True)]
        columns = (*columns, Column(f"__window_{i}"))
        window.replace(column_tree(f"__window_{i}"))
    value = compile_expr(Expr(holder.this), columns)
    return [value(row) for row in extended]


def _one_window(window: exp.Window, column: Column, rows: Sequence[Row], schema: Schema) -> list[Value]:
    partition = [compile_expr(Expr(p), schema) for p in window.args.get("partition_by") or ()]
    groups: dict[Row, list[int]] = {}
    for i, row in enumerate(rows):
        groups.setdefault(tuple(p(row) for p in partition), []).append(i)
    order = window.args.get("order")
    terms: list[exp.Ordered] = order.expressions if order is not None else []
    found: list[Value] = [None] * len(rows)
    for members in groups.values():
        for term in reversed(terms):
            members.sort(key=_sort_key(term, rows, schema), reverse=bool(term.args.get("desc")))
        keys = [tuple(compile_expr(Expr(t.this), schema)(rows[i]) for t in terms) for i in members]
        values = _partition_values(window, column, [rows[i] for i in members], keys, schema)
        for i, value in zip(members, values, strict=True):
            found[i] = value
    return found


def _sort_key(term: exp.Ordered, rows: Sequence[Row], schema: Schema) -> Callable[[int], Any]:
    value = compile_expr(Expr(term.this), schema)
    null_rank = -1 if bool(term.args.get("nulls_first")) != bool(term.args.get("desc")) else 1

    def key(i: int) -> Any:
        found = value(rows[i])
        return (null_rank, 0) if found is None else (0, found)

    return key


def _partition_values(
    window: exp.Window, column: Column, rows: list[Row], keys: list[Row], schema: Schema
) -> list[Value]:
    function = window.this
    places = range(len(rows))
    if isinstance(function, exp.RowNumber):
        return [i + 1 for i in places]
    if isinstance(function, exp.Rank):
        return [keys.index(keys[i]) + 1 for i in places]
    if isinstance(function, exp.DenseRank):
        distinct = list(dict.fromkeys(keys))
        return [distinct.index(k) + 1 for k in keys]
    if isinstance(function, (exp.Lag, exp.Lead)):
        return _neighbours(function, rows, schema)
    frames = [_frame(window, i, keys) for i in places]
    if isinstance(function, (exp.FirstValue, exp.LastValue)):
        value = compile_expr(Expr(function.this), schema)
        at = 0 if isinstance(function, exp.FirstValue) else -1
        return [value(rows[frame[at]]) if frame else None for frame in frames]
    if type(function) not in _AGGREGATES:
        raise SqlError(f"the reference interpreter does not know the window function {function.sql(dialect='spark')}")
    argument = None if isinstance(function.this, exp.Star) else Expr(function.this)
    call = AggregateCall(column, _AGGREGATES[type(function)], argument)
    return [_over(call, [rows[j] for j in frame], schema) for frame in frames]


def _over(call: AggregateCall, rows: list[Row], schema: Schema) -> Value:
    counted: dict[Row, int] = {}
    for row in rows:
        counted[row] = counted.get(row, 0) + 1
    return aggregate_value(call, counted, schema)


def _neighbours(function: exp.Lag | exp.Lead, rows: list[Row], schema: Schema) -> list[Value]:
    value = compile_expr(Expr(function.this), schema)
    offset = function.args.get("offset")
    default = function.args.get("default")
    step = int(compile_expr(Expr(offset), ())(())) if offset is not None else 1
    step = -step if isinstance(function, exp.Lag) else step
    otherwise = compile_expr(Expr(default), schema) if default is not None else None
    found: list[Value] = []
    for i, row in enumerate(rows):
        inside = 0 <= i + step < len(rows)
        found.append(value(rows[i + step]) if inside else otherwise(row) if otherwise else None)
    return found


def _frame(window: exp.Window, place: int, keys: list[Row]) -> range:
    """The places of the rows that the frame of a row holds."""
    spec = window.args.get("spec")
    ordered = window.args.get("order") is not None
    peers = [i for i, k in enumerate(keys) if k == keys[place]] if ordered else list(range(len(keys)))
    if spec is None:
        return range(0, peers[-1] + 1)
    kind = (spec.args.get("kind") or "RANGE").upper()

    def edge(which: str, bound: Any, side: str, at_current: int) -> int:
        word = str(bound).upper()
        if word == "UNBOUNDED":
            return 0 if side.upper() == "PRECEDING" else len(keys) - 1
        if word == "CURRENT ROW" or bound is None:
            return place if kind == "ROWS" else at_current
        if kind != "ROWS":
            raise SqlError(f"the reference interpreter does not know RANGE {which} an offset", hint="use ROWS")
        steps = int(bound.name)
        return place - steps if side.upper() == "PRECEDING" else place + steps

    start = edge("from", spec.args.get("start"), spec.args.get("start_side") or "PRECEDING", peers[0])
    end = edge("to", spec.args.get("end"), spec.args.get("end_side") or "FOLLOWING", peers[-1])
    return range(max(start, 0), min(end, len(keys) - 1) + 1)
