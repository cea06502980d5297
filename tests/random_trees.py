"""Random queries over all relational operators, and random rows with NULLs and duplicates for their tables.

Sub-queries are used again, as CTEs are: with some chance an input is one that was made before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from tempura.algebra import (
    Aggregate,
    AggregateCall,
    AntiJoin,
    Empty,
    Expand,
    Filter,
    FullOuterJoin,
    InnerJoin,
    LeftOuterJoin,
    Op,
    Output,
    Plus,
    Project,
    Replicate,
    Scan,
    SemiJoin,
    SortKey,
    TopK,
    Values,
    Window,
    WindowCall,
)  # fmt: skip
from tempura.expr import Expr, col, conjunction, parse
from tempura.reference import Bag, bag, bag_of_rows
from tempura.schema import Column, fresh, names

SCANS = (
    Scan("r", tuple(Column(c, "int") for c in "abc"), ()),
    Scan("s", tuple(Column(c, "int") for c in "de"), ()),
    Scan("k", (Column("p", "int", False), Column("q", "int")), ("p",)),
)

_value = st.one_of(st.none(), st.integers(0, 2))
tables: st.SearchStrategy[dict[str, Bag]] = st.fixed_dictionaries(
    {
        "r": st.lists(st.tuples(_value, _value, _value), max_size=4).map(bag_of_rows),
        "s": st.lists(st.tuples(_value, _value), max_size=4).map(bag_of_rows),
        "k": st.dictionaries(st.integers(0, 2), _value, max_size=3).map(
            lambda rows: bag((row, 1) for row in rows.items())
        ),
    }
)

PREDICATES = (
    "{x} = 1", "{x} = {y}", "{x} > {y}", "{x} IS NULL", "{x} IS NOT NULL", "{x} <> 1 OR {y} IS NULL", "{x} IS NOT NULL OR {y} = 1",
    "NOT {x} BETWEEN {y} AND 1", "COALESCE({x}, 0) = 0", "{x} IN (0, 1)", "{x} + {y} > 1", "{x} <=> {y}", "{x} IN (1, 2) AND {y} > 0", "TRUE", "FALSE",
)  # fmt: skip
EXPRESSIONS = (
    "{x} + 1",
    "COALESCE({x}, {y})",
    "{x} = 1 OR {y} = 1",
    "CASE WHEN {x} > 0 THEN {y} ELSE 1 END",
    "7",
    "{x} * {y}",
)
JOINS: tuple[type[Any], ...] = (InnerJoin, LeftOuterJoin, FullOuterJoin, SemiJoin, AntiJoin)

Draw = Callable[[Any], Any]


class _Maker:
    """Makes one tree; remembers what it made so as to use it again."""

    def __init__(self, draw: Draw):
        self.draw = draw
        self.made: list[Op] = []

    def tree(self, depth: int) -> Op:
        if depth == 0:
            return self.draw(st.sampled_from(SCANS))
        if self.made and self.draw(st.integers(0, 3)) == 0:
            return self.draw(st.sampled_from(self.made))
        make = self.draw(st.sampled_from(self.makers))
        found = make(self, depth - 1)
        self.made.append(found)
        return found

    def column(self, op: Op) -> str:
        # A column that is a truth value is not compared with numbers.
        return self.draw(st.sampled_from([c.name for c in op.schema if c.type != "boolean"] or [op.schema[0].name]))

    def some(self, op: Op, least: int = 0) -> tuple[str, ...]:
        return tuple(self.draw(st.lists(st.sampled_from(names(op.schema)), unique=True, min_size=least, max_size=3)))

    def written(self, texts: tuple[str, ...], op: Op) -> Expr:
        text: str = self.draw(st.sampled_from(texts))
        return parse(text.format(x=f"`{self.column(op)}`", y=f"`{self.column(op)}`"))

    def predicate(self, op: Op) -> Expr:
        return conjunction(self.written(PREDICATES, op) for _ in range(self.draw(st.integers(1, 2))))

    def scan(self, depth: int) -> Op:
        return self.draw(st.sampled_from(SCANS))

    def constant(self, depth: int) -> Op:
        columns = (Column("v", "int"), Column("w", "int"))
        rows = self.draw(st.lists(st.tuples(_value, _value), max_size=2))
        return (
            Values(columns, tuple(tuple(parse("NULL" if v is None else str(v)) for v in row) for row in rows))
            if rows
            else Empty(columns)
        )

    def filter(self, depth: int) -> Op:
        below = self.tree(depth)
        return Filter(below, self.predicate(below))

    def project(self, depth: int) -> Op:
        below = self.tree(depth)
        given = {c.name: c for c in below.schema}
        outputs = [Output(given[c], col(c)) for c in self.some(below, least=1)]
        for _ in range(self.draw(st.integers(0, 2))):
            computed = self.written(EXPRESSIONS, below)
            taken = {o.name for o in outputs}
            kind = "boolean" if " OR " in computed.text else "int"
            outputs.append(Output(Column(fresh(self.draw(st.sampled_from(["x", "y", "a"])), taken), kind), computed))
        return Project(below, tuple(outputs))

    def apart(self, left: Op, right: Op) -> Op:
        """The right side of a join, with columns renamed that the left has, too."""
        taken = set(names(left.schema)) | set(names(right.schema))
        if not set(names(left.schema)) & set(names(right.schema)):
            return right
        outputs: list[Output] = []
        for c in right.schema:
            name = fresh(c.name, taken) if c.name in names(left.schema) else c.name
            taken.add(name)
            outputs.append(Output(Column(name, c.type, c.nullable), col(c.name)))
        return Project(right, tuple(outputs))

    def join(self, depth: int) -> Op:
        left = self.tree(depth)
        right = self.apart(left, self.tree(depth))
        pair = InnerJoin(left, right, parse("TRUE"))
        on = [parse(f"`{self.column(left)}` = `{self.column(right)}`")] if self.draw(st.integers(0, 3)) else []
        on += [self.written(PREDICATES, pair) for _ in range(self.draw(st.integers(0, 2)))]
        return self.draw(st.sampled_from(JOINS))(left, right, conjunction(on))

    def aggregate(self, depth: int) -> Op:
        below = self.tree(depth)
        by = self.some(below)
        calls: list[AggregateCall] = []
        for _ in range(self.draw(st.integers(0 if by else 1, 2))):
            function = self.draw(st.sampled_from(["count", "sum", "min", "max"]))
            where = self.written(PREDICATES, below) if self.draw(st.integers(0, 3)) == 0 else parse("TRUE")
            name = fresh(self.draw(st.sampled_from(["m", "n"])), [*by, *(c.name for c in calls)])
            calls.append(
                AggregateCall(Column(name, "int"), function, col(self.column(below)), self.draw(st.booleans()), where)
            )
        return Aggregate(below, by, tuple(calls))

    def distinct(self, depth: int) -> Op:
        below = self.tree(depth)
        return Aggregate(below, names(below.schema), ())

    def window(self, depth: int) -> Op:
        below = self.tree(depth)
        partition = self.some(below)
        by = f"PARTITION BY {', '.join(f'`{c}`' for c in partition)}" if partition else ""
        text = self.draw(
            st.sampled_from(
                [f"SUM(`{self.column(below)}`) OVER ({by})", f"COUNT(*) OVER ({by} ORDER BY `{self.column(below)}`)"]
            )
        )
        return Window(below, partition, (WindowCall(Column(fresh("o", names(below.schema)), "int"), parse(text)),))

    def top(self, depth: int) -> Op:
        below = self.tree(depth)
        order = tuple(SortKey(c, self.draw(st.booleans())) for c in self.some(below))
        return TopK(below, order, self.draw(st.integers(1, 3)), self.draw(st.integers(0, 1)))

    def plus(self, depth: int) -> Op:
        first = self.tree(depth)
        second = self.tree(depth)
        width = min(len(first.schema), len(second.schema))
        kinds = [(a.type, b.type) for a, b in zip(first.schema, second.schema, strict=False)]
        width = next((i for i, (a, b) in enumerate(kinds) if a != b), width) or 1
        inputs = [
            Project(op, tuple(Output(Column(f"u{i}", c.type), col(c.name)) for i, c in enumerate(op.schema[:width])))
            for op in (first, second)
        ]
        return Plus(tuple(inputs))

    def more_plus(self, depth: int) -> Op:
        below = self.tree(depth)
        return Plus((below, Filter(below, self.predicate(below)), Plus((below, below))))

    def expand(self, depth: int) -> Op:
        below = self.tree(depth)
        columns = self.some(below, least=1)
        sets = self.draw(st.lists(st.sets(st.sampled_from(columns)).map(frozenset), min_size=1, max_size=3))
        return Expand(below, columns, tuple(sets), fresh("tag", names(below.schema)))

    def replicate(self, depth: int) -> Op:
        below = self.tree(depth)
        return Replicate(
            below,
            parse(f"CASE WHEN `{self.column(below)}` > 0 THEN 2 WHEN `{self.column(below)}` = 0 THEN 1 ELSE 0 END"),
        )

    makers = (
        scan, constant, filter, filter, filter, project, project, join, join, join, aggregate, distinct, window, top, plus, more_plus, expand, replicate,
    )  # fmt: skip


@st.composite
def trees(draw: Draw, depth: int = 4) -> Op:
    """A tree of at most this depth."""
    return _Maker(draw).tree(depth)
