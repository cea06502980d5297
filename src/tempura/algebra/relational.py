"""The relational operators, defined on bags whose rows have integer weights.

A relation is a function from rows to integers. Snapshots are never negative; deltas may be. Linear operators (Filter, Project, Expand,
Replicate, Plus, InnerJoin in each input, the left sides of LeftOuterJoin, SemiJoin and AntiJoin) are defined on any weights. The others (Aggregate,
Window, TopK, the right sides of LeftOuterJoin, SemiJoin and AntiJoin, both sides of FullOuterJoin) are defined on net weights, which must not be negative.

There is no operator for what these can say: DISTINCT is `Aggregate` without calls; UNION ALL is `Plus`; UNION is DISTINCT of it; INTERSECT
and EXCEPT are null-safe semi- and anti-joins of DISTINCT, their ALL forms count rows and `Replicate` them; a right outer join is a left one,
swapped; NOT IN is an anti-join beside a count of NULLs; grouping sets are `Expand` below `Aggregate`; a scalar sub-query is an `Aggregate` with
`single_value`, joined. ORDER BY without LIMIT has no meaning for a bag and is kept with the query, not in the algebra.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from tempura.algebra.op import Op, Rel, Rels
from tempura.expr import TRUE, Expr, split_condition
from tempura.schema import NO_KEYS, UNKNOWN, Column, Keys, Schema, names, nullable


class Scan(Op):
    """A base table, as it is at the time in question."""

    table: str
    columns: Schema
    key: tuple[str, ...]

    def columns_from(self, inputs: Sequence[Schema]) -> Schema:
        return self.columns

    def keys_from(self, inputs: Sequence[Keys], schemas: Sequence[Schema]) -> Keys:
        return frozenset([frozenset(self.key)]) if self.key else NO_KEYS

    def show(self) -> str:
        return f"Scan[{self.table}]"


class Values(Op):
    """A constant relation: rows of literal expressions."""

    columns: Schema
    rows: tuple[tuple[Expr, ...], ...]

    def columns_from(self, inputs: Sequence[Schema]) -> Schema:
        return self.columns


class Empty(Op):
    """The relation without rows."""

    columns: Schema

    def columns_from(self, inputs: Sequence[Schema]) -> Schema:
        return self.columns

    def show(self) -> str:
        return "Empty"


class Filter(Op):
    """σ: the rows for which the predicate is true (neither false nor NULL)."""

    input: Rel
    predicate: Expr

    def columns_from(self, inputs: Sequence[Schema]) -> Schema:
        return inputs[0]

    def keys_from(self, inputs: Sequence[Keys], schemas: Sequence[Schema]) -> Keys:
        return inputs[0]


class Output(NamedTuple):
    """One column of a projection: its schema entry and the expression that gives it."""

    column: Column
    expr: Expr

    @property
    def name(self) -> str:
        return self.column.name

    def __str__(self) -> str:
        return self.name if self.expr.name == self.name else f"{self.expr!r} as {self.name}"


class Project(Op):
    """π: each row turned into the given expressions; duplicates stay (bags)."""

    input: Rel
    outputs: tuple[Output, ...]

    def columns_from(self, inputs: Sequence[Schema]) -> Schema:
        return tuple(o.column for o in self.outputs)

    def keys_from(self, inputs: Sequence[Keys], schemas: Sequence[Schema]) -> Keys:
        kept = {o.expr.name: o.name for o in self.outputs if o.expr.name}
        return frozenset(frozenset(kept[c] for c in key) for key in inputs[0] if key <= kept.keys())


class Expand(Op):
    """Grouping sets: every row once per set, with the columns not in the set made NULL and the set's number in `tag`."""

    input: Rel
    columns: tuple[str, ...]
    """The grouping columns, in the order of the GROUPING_ID bits."""
    sets: tuple[frozenset[str], ...]
    tag: str

    def columns_from(self, inputs: Sequence[Schema]) -> Schema:
        made_null = {c for c in self.columns if not all(c in s for s in self.sets)}
        kept = tuple(Column(c.name, c.type, True) if c.name in made_null else c for c in inputs[0])
        return (*kept, Column(self.tag, "bigint", False))

    def show(self) -> str:
        sets = " ".join("(" + ",".join(c for c in self.columns if c in s) + ")" for s in self.sets)
        return f"Expand[{sets} as {self.tag}]"


def expand_tags(columns: Sequence[str], sets: Sequence[frozenset[str]]) -> tuple[int, ...]:
    """The number of each grouping set: its GROUPING_ID, told apart from equal sets before it.

    The first column is the most significant bit, and a bit is 1 if the column is not in the set. The n-th repetition of a set
    adds n times 2^len(columns), so that GROUP BY the tag keeps repeated sets apart and the low bits stay GROUPING_ID.
    """
    seen: dict[int, int] = {}
    tags: list[int] = []
    for members in sets:
        bits = 0
        for c in columns:
            bits = 2 * bits + (c not in members)
        tags.append(bits + (seen.get(bits, 0) << len(columns)))
        seen[bits] = seen.get(bits, 0) + 1
    return tuple(tags)


class Replicate(Op):
    """Every row as often as `count` says (never negative), for INTERSECT ALL and EXCEPT ALL."""

    input: Rel
    count: Expr

    def columns_from(self, inputs: Sequence[Schema]) -> Schema:
        return inputs[0]


class InnerJoin(Op):
    """left ⋈ right: the pairs of rows that satisfy `on`. A cross join has the condition TRUE."""

    left: Rel
    right: Rel
    on: Expr

    def columns_from(self, inputs: Sequence[Schema]) -> Schema:
        return inputs[0] + inputs[1]

    def keys_from(self, inputs: Sequence[Keys], schemas: Sequence[Schema]) -> Keys:
        return join_keys(self.on, inputs, schemas, left_kept=False, right_kept=False)


class LeftOuterJoin(Op):
    """left ⟕ right: the inner join, and the rows of left without a partner, padded with NULLs."""

    left: Rel
    right: Rel
    on: Expr

    def columns_from(self, inputs: Sequence[Schema]) -> Schema:
        return inputs[0] + nullable(inputs[1])

    def keys_from(self, inputs: Sequence[Keys], schemas: Sequence[Schema]) -> Keys:
        return join_keys(self.on, inputs, schemas, left_kept=True, right_kept=False)


class FullOuterJoin(Op):
    """left ⟗ right: the inner join, and the rows of either side without a partner, padded with NULLs."""

    left: Rel
    right: Rel
    on: Expr

    def columns_from(self, inputs: Sequence[Schema]) -> Schema:
        return nullable(inputs[0]) + nullable(inputs[1])

    def keys_from(self, inputs: Sequence[Keys], schemas: Sequence[Schema]) -> Keys:
        # A row of either side without a partner whose key is NULL throughout would look like one of the other.
        never_null = {c.name for schema in schemas for c in schema if not c.nullable}
        return frozenset(a | b for a in inputs[0] for b in inputs[1] if (a | b) & never_null)


class SemiJoin(Op):
    """left ⋉ right: the rows of left that have a partner in right, each with its own weight."""

    left: Rel
    right: Rel
    on: Expr

    def columns_from(self, inputs: Sequence[Schema]) -> Schema:
        return inputs[0]

    def keys_from(self, inputs: Sequence[Keys], schemas: Sequence[Schema]) -> Keys:
        return inputs[0]


class AntiJoin(Op):
    """left ▷ right: the rows of left that have no partner in right, each with its own weight."""

    left: Rel
    right: Rel
    on: Expr

    def columns_from(self, inputs: Sequence[Schema]) -> Schema:
        return inputs[0]

    def keys_from(self, inputs: Sequence[Keys], schemas: Sequence[Schema]) -> Keys:
        return inputs[0]


class AggregateCall(NamedTuple):
    """One aggregate of an `Aggregate`: `sum(price)`, `count(distinct x)`, `sum(a) filter (where b)`."""

    column: Column
    function: str
    """Lower-case name: sum, count, avg, min, max, stddev_samp, var_pop, single_value, …; anything else is passed through as `call`."""
    argument: Expr | None
    """The only argument; None for COUNT(*) and for functions passed through."""
    distinct: bool = False
    where: Expr = TRUE
    """The FILTER clause."""
    call: Expr | None = None
    """The whole call as written over the input's columns, for functions Tempura does not know."""

    @property
    def name(self) -> str:
        return self.column.name

    def __str__(self) -> str:
        inner = "*" if self.argument is None else repr(self.argument)
        text = repr(self.call) if self.call else f"{self.function}({'distinct ' if self.distinct else ''}{inner})"
        return text + (f" filter ({self.where!r})" if self.where is not TRUE else "") + f" as {self.name}"


class Aggregate(Op):
    """γ: one row per group of rows that agree on `by` (NULLs agree), with the aggregates of the group.

    A group exists while it has rows. Without `by` there is one group, and it always exists. Without calls this is DISTINCT.
    """

    input: Rel
    by: tuple[str, ...]
    calls: tuple[AggregateCall, ...]

    def columns_from(self, inputs: Sequence[Schema]) -> Schema:
        given = {c.name: c for c in inputs[0]}
        return (*(given[c] for c in self.by), *(c.column for c in self.calls))

    def keys_from(self, inputs: Sequence[Keys], schemas: Sequence[Schema]) -> Keys:
        return frozenset([frozenset(self.by), *(key for key in inputs[0] if key <= set(self.by))])


class SortKey(NamedTuple):
    """One column of an order."""

    column: str
    descending: bool = False
    nulls_first: bool = True

    def __str__(self) -> str:
        usual = self.nulls_first != self.descending
        return (
            self.column
            + (" desc" if self.descending else "")
            + ("" if usual else " nulls first" if self.nulls_first else " nulls last")
        )


class WindowCall(NamedTuple):
    """A window function: `call` is the whole text with its OVER clause, over the input's columns."""

    column: Column
    call: Expr

    @property
    def name(self) -> str:
        return self.column.name

    def __str__(self) -> str:
        return f"{self.call!r} as {self.name}"


class Window(Op):
    """Each row, and window functions over the rows that agree on `partition` (NULLs agree).

    The binder completes an order that leaves ties wherever the function would then depend on the order of equal rows.
    """

    input: Rel
    partition: tuple[str, ...]
    calls: tuple[WindowCall, ...]

    def columns_from(self, inputs: Sequence[Schema]) -> Schema:
        return (*inputs[0], *(c.column for c in self.calls))

    def keys_from(self, inputs: Sequence[Keys], schemas: Sequence[Schema]) -> Keys:
        return inputs[0]


class TopK(Op):
    """The rows from number `offset` on, `limit` of them (None: all), in the given order.

    The order is completed by all other columns, so that which rows are taken is a function of the bag.
    """

    input: Rel
    order: tuple[SortKey, ...]
    limit: int | None
    offset: int

    def columns_from(self, inputs: Sequence[Schema]) -> Schema:
        return inputs[0]

    def keys_from(self, inputs: Sequence[Keys], schemas: Sequence[Schema]) -> Keys:
        return inputs[0]


class Plus(Op):
    """+: the bags added up, weight by weight. UNION ALL of snapshots; the paper's merge of a snapshot and its deltas.

    The columns are those of the first input; the others have the same names, in any order.
    """

    inputs_: Rels

    def columns_from(self, inputs: Sequence[Schema]) -> Schema:
        return of_any(inputs)


def of_any(inputs: Sequence[Schema]) -> Schema:
    """The columns of rows that come from any of some inputs: the first one's, NULL if it may be in one of them, of the first type that is known."""
    first, *rest = inputs
    others = [{c.name: c for c in schema} for schema in rest]

    def both(column: Column) -> Column:
        also = [other.get(column.name, column) for other in others]
        kind = next((c.type for c in (column, *also) if c.type != UNKNOWN), UNKNOWN)
        return Column(column.name, kind, column.nullable or any(c.nullable for c in also))

    return tuple(map(both, first))


def plus(*inputs: Any) -> Any:
    """Plus of several inputs; of one, the input itself."""
    return inputs[0] if len(inputs) == 1 else Plus(tuple(inputs))


def join_keys(on: Expr, keys: Sequence[Keys], schemas: Sequence[Schema], *, left_kept: bool, right_kept: bool) -> Keys:
    """The keys of a join. A side with at most one partner per row of the other leaves the other's keys keys; else pairs of keys are."""
    left, right = keys
    equi = split_condition(on, names(schemas[0]), names(schemas[1])).equi
    bound_left = {e.left.name for e in equi}
    bound_right = {e.right.name for e in equi}
    found: set[frozenset[str]] = {a | b for a in left for b in right}
    if any(k <= bound_right for k in right) and not right_kept:
        found |= left
    if any(k <= bound_left for k in left) and not left_kept:
        found |= right
    return frozenset(k for k in found if not any(o < k for o in found))
