"""Windows of time, `window(ts, size[, slide[, start]])`: what Spark's analyzer makes of the call, as operators and arithmetic.

To Spark it is no function of a row. The SELECT that has it reads a column `window` beside those of FROM, from rows that have a time, each
as often as there are windows around that time. What counts rows cannot be moved about, pruned, or asked in a join; so the block gets

    WHERE ts IS NOT NULL
    NAMED_STRUCT('start', …, 'end', …) AS window    arithmetic in microseconds, which means the same everywhere
    CROSS JOIN (VALUES 0, 1 day) slide              if windows overlap: window(ts, '2 days', '1 day') starts on the day of ts, and on the day before
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from tempura.algebra import Output, Values
from tempura.expr import Expr, column_tree, comparand, parse
from tempura.schema import Column, fresh
from tempura.sql.bind.grouping import aggregates
from tempura.sql.bind.predicates import columns_of, substituted
from tempura.sql.bind.scope import OUTER, Scope, Source, Tree, refuse
from tempura.sql.bind.subqueries import has_subquery
from tempura.sql.bind.tables import Region
from tempura.sql.bind.types import infer
from tempura.volatile import drawn_function

NAME = "window"
"""The function, and the column that Spark makes of it."""
_MOMENTS = {
    "timestamp": ("UNIX_MICROS(t)", "TIMESTAMP_MICROS({})"),
    "timestamp_ntz": (
        "((t - CAST('1970-01-01' AS TIMESTAMP_NTZ)) DIV INTERVAL '0.000001' SECOND)",
        "CAST('1970-01-01' AS TIMESTAMP_NTZ) + ({}) * INTERVAL '0.000001' SECOND",
    ),
}
"""Microseconds since 1970 of a time t, and the time of so many: neither asks for the session's time zone."""
_CAST = ("date", "string")
"""What Spark casts to a timestamp."""
_UNITS = {
    "microsecond": 1,
    "millisecond": 10**3,
    "second": 10**6,
    "minute": 60 * 10**6,
    "hour": 3600 * 10**6,
    "day": 86400 * 10**6,
    "week": 7 * 86400 * 10**6,
}
_PART = rf"([+-]?\d+)\s+({'|'.join(_UNITS)})s?\b"


def is_time_window(tree: Tree) -> bool:
    return isinstance(tree, exp.Anonymous) and tree.name.lower() == NAME


@dataclass(frozen=True)
class TimeWindow:
    """A call of window(): the time over internal names, and durations in microseconds."""

    column: Column
    """What it is in its block."""
    kind: str
    time: Tree
    size: int
    slide: int
    start: int

    def added(self, scope: Scope, region: Region, where: list[Tree]) -> Output:
        """The column; the region has a row for each window of a row then, and WHERE keeps those that have one."""
        values = {"t": self.time}
        where.append(exp.Not(this=exp.Is(this=comparand(self.time.copy()), expression=exp.Null())))
        micros, moment = _MOMENTS[self.kind]
        before = [f"PMOD({micros} - ({self.start}), {self.slide})" if self.start else f"PMOD({micros}, {self.slide})"]
        if self.slide != self.size:
            before.append("n")
            values["n"] = column_tree(self._slides(scope, region))
            if self.size % self.slide:
                where.append(substituted(parse(f"{' + '.join(before)} < {self.size}").tree, values))
        start = " - ".join([micros, *before])
        text = f"NAMED_STRUCT('start', {moment.format(start)}, 'end', {moment.format(f'{start} + {self.size}')})"
        return Output(self.column, Expr(substituted(parse(text).tree, values)))

    def _slides(self, scope: Scope, region: Region) -> str:
        """Joins with how long before the last window around a time each of them starts; the name of that column."""
        rows = [exp.Literal.number(before) for before in range(0, self.size, self.slide)]
        column = Column("slide", infer(rows[-1], {}).type, False)
        source = Source("", Values((column,), tuple((Expr(row),) for row in rows)), (), visible=False)
        source.used = {column.name}
        region.factors.append(scope.add(source))
        return source.internal[column.name]


def time_window(call: Tree, scope: Scope, resolve: Callable[[Tree], Tree]) -> TimeWindow:
    """What a call asks for."""
    if not 2 <= len(call.expressions) <= 4:
        refuse("window() takes a time, a size, and perhaps a slide and a start", call, "write window(ts, '1 hour')")
    durations = [_duration(argument) for argument in call.expressions[1:]]
    size, slide, start = (*durations, *(durations[0], 0)[len(durations) - 1 :])
    if not 0 < slide <= size or abs(start) >= slide:
        refuse(
            "a window slides by no more than its size, and starts less than that from 1970",
            call,
            "write window(ts, size, slide, start) with 0 < slide <= size and abs(start) < slide",
        )
    time = resolve(call.expressions[0])
    _refuse_what_is_no_value_of_a_row(time, call)
    kind = infer(time, scope.columns()).type
    if kind in _CAST:
        kind, time = "timestamp", substituted(parse("CAST(t AS TIMESTAMP)").tree, {"t": time})
    if kind.startswith("struct"):
        hint = "take a time of it: window(w.end - INTERVAL 1 MICROSECOND, …)"
        refuse("window() of a window is not supported", call, hint)
    if kind not in _MOMENTS:
        refuse(f"window() of a value of type {kind} is not supported", call, "write window(CAST(… AS TIMESTAMP), …)")
    column = Column(fresh(NAME, scope.taken), f"struct<start:{kind},end:{kind}>")
    return TimeWindow(column, kind, time, size, slide, start)


def _duration(tree: Tree) -> int:
    """The microseconds of a text such as '1 day 12 hours', or of a whole number."""
    text = tree.name.lower() if tree.is_string else f"{tree.sql()} microseconds"
    if not re.fullmatch(rf"\s*(?:interval\s+)?{_PART}(?:\s+{_PART})*\s*", text):
        refuse(
            f"{tree.sql(dialect='spark')} is no duration of a window",
            tree,
            "write a text of weeks, days, hours, minutes, seconds, milliseconds or microseconds: '1 day 12 hours'",
        )
    return sum(int(number) * _UNITS[unit] for number, unit in re.findall(_PART, text))


def _refuse_what_is_no_value_of_a_row(time: Tree, call: Tree) -> None:
    found = {
        "a sub-query": has_subquery(time),
        "an aggregate": next(aggregates(time), None) is not None,
        "a window function": time.find(exp.Window) is not None,
        "a column of the query around": any(c.startswith(OUTER) for c in columns_of(time)),
        "what is drawn": drawn_function(time) is not None,
    }
    for what in (what for what, there in found.items() if there):
        refuse(f"window() of {what} is not supported", call, "select the time in a derived table first")
