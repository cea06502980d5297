"""The operators that only incremental plans use: differences of bags, and aggregates kept as mergeable states.

The attribute perspective of an aggregate Q over X is a relation of its own, `state(Q)`:

    state(Q)[t:u] = AggregateState(X[t:u])                    Initialize and Iterate, on any weights
    state(Q)[u]   = MergeState(state(Q)[t], state(Q)[t:u])    Merge, per group; groups left without rows are dropped
    Q[t]          = FinalState(state(Q)[t])                   Final

A state row holds the group's columns, `__n` (net number of rows) and for each call the parts its function needs (`parts`).
All parts are sums, which deltas with negative weights subtract from, except `m` (least or greatest value), which can only grow.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from tempura.algebra.op import Op, Rel, Rels
from tempura.algebra.relational import AggregateCall, of_any
from tempura.schema import UNKNOWN, Column, Keys, Schema, orderable

SPARE = 10
"""So many digits more than are asked for are enough: no group has ten billion rows."""
ROWS = "__n"
"""The state column with the net number of rows of a group."""

PARTS: dict[str, tuple[str, ...]] = {
    "count": ("c",),
    "sum": ("c", "s"),
    "avg": ("c", "s"),
    "min": ("m",),
    "max": ("m",),
    "any_value": ("m",),
    "single_value": ("m",),
    "bool_and": ("m",),
    "bool_or": ("m",),
    "var_pop": ("c", "s", "q"),
    "var_samp": ("c", "s", "q"),
    "stddev_pop": ("c", "s", "q"),
    "stddev_samp": ("c", "s", "q"),
}
"""What a function's state is made of: c non-null arguments, s their sum, q the sum of their squares, m the least or greatest."""


def parts(call: AggregateCall) -> tuple[str, ...] | None:
    """The parts of a call's state, or None if it cannot be kept as one. What stands as it was written cannot."""
    if call.distinct or call.call is not None or (call.function == "avg" and _rounded(call.column.type)):
        return None
    if call.function in ("sum", "avg") and call.column.type == UNKNOWN:
        return None  # Of what type a sum of sums is depends on what it is of.
    if call.function in ("any_value", "single_value") and not orderable(call.column.type):
        return None
    return PARTS.get(call.function)


@cache
def _rounded(mean: str) -> bool:
    """Whether a mean of this type could not be told exactly from its sum and count.

    The mean of decimal(p, s) is decimal(p + 4, s + 4), its sum decimal(p + 10, s), and all have at most 38 digits; of a quotient that would have more, those after the point go first, down to six. If the quotient has fewer of them than the
    mean, digits are missing. If it has a few more, it is rounded twice, which makes a difference in groups of more than ten to the power of these few rows.
    """
    found = re.fullmatch(r"decimal\((\d+),\s*(\d+)\)", mean)
    if found is None:
        return False
    digits, scale = min(int(found[1]) + 6, 38), int(found[2])
    more = max(38 - (digits - (scale - 4)), 6) - scale
    return more < 0 or 0 < more < SPARE


def part_column(call: AggregateCall, part: str) -> str:
    """The name of a state column: `__s_gross` is the sum behind the column `gross`."""
    return f"__{part}_{call.name}"


def state_columns(calls: Sequence[AggregateCall]) -> tuple[Column, ...]:
    found = [Column(ROWS, "bigint", False)]
    for call in calls:
        for part in parts(call) or ():
            kind = "bigint" if part == "c" else call.column.type if part == "m" or call.function == "sum" else UNKNOWN
            found.append(Column(part_column(call, part), kind, part != "c"))
    return tuple(found)


class AggregateState(Op):
    """Initialize and Iterate: the state of each group of the rows of any bag, weights counted with their sign.

    A group in which all parts come to zero says nothing, and need not appear. Without `by` and without rows the state has no row.
    """

    input: Rel
    by: tuple[str, ...]
    calls: tuple[AggregateCall, ...]

    def columns_from(self, inputs: Sequence[Schema]) -> Schema:
        given = {c.name: c for c in inputs[0]}
        return (*(given[c] for c in self.by), *state_columns(self.calls))

    def keys_from(self, inputs: Sequence[Keys], schemas: Sequence[Schema]) -> Keys:
        return frozenset([frozenset(self.by)])


class MergeState(Op):
    """+γ: states of the same groups, whole or in pieces, added up part by part; groups whose `__n` becomes 0 are dropped.

    A piece counts as often as its weight says, so pieces may be joined, repeated and taken back before they are merged; not so their `m` parts.
    """

    inputs_: Rels
    by: tuple[str, ...]
    calls: tuple[AggregateCall, ...]

    def columns_from(self, inputs: Sequence[Schema]) -> Schema:
        return of_any(inputs)

    def keys_from(self, inputs: Sequence[Keys], schemas: Sequence[Schema]) -> Keys:
        return frozenset([frozenset(self.by)])


class FinalState(Op):
    """Final: the aggregate's rows from its state. Without `by` there is always one row, also for a state without rows."""

    input: Rel
    by: tuple[str, ...]
    calls: tuple[AggregateCall, ...]

    def columns_from(self, inputs: Sequence[Schema]) -> Schema:
        given = {c.name: c for c in inputs[0]}
        return (*(given[c] for c in self.by), *(c.column for c in self.calls))

    def keys_from(self, inputs: Sequence[Keys], schemas: Sequence[Schema]) -> Keys:
        return frozenset([frozenset(self.by)])


class Minus(Op):
    """−: the bags' weights subtracted; the difference of two snapshots is the delta between them."""

    left: Rel
    right: Rel

    def columns_from(self, inputs: Sequence[Schema]) -> Schema:
        return of_any(inputs)


class Affected(Op):
    """The distinct values of some columns in the rows that a delta speaks of, whatever their weights, even where they cancel.

    This is not a function of the bag but of a superset of its support: what it names is looked at again, no more.
    """

    input: Rel
    columns: tuple[str, ...]

    def columns_from(self, inputs: Sequence[Schema]) -> Schema:
        given = {c.name: c for c in inputs[0]}
        return tuple(given[c] for c in self.columns)

    def keys_from(self, inputs: Sequence[Keys], schemas: Sequence[Schema]) -> Keys:
        return frozenset([frozenset(self.columns)])
