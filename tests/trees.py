"""Small trees, one for every operator and function, over two relations with NULLs and duplicates."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

from hypothesis import strategies as st

from tempura.algebra import (
    Affected,
    Aggregate,
    AggregateCall,
    AggregateState,
    AntiJoin,
    Empty,
    Expand,
    Filter,
    FinalState,
    FullOuterJoin,
    InnerJoin,
    LeftOuterJoin,
    MergeState,
    Minus,
    Op,
    Output,
    Plus,
    Project,
    Read,
    Replicate,
    SemiJoin,
    SortKey,
    TopK,
    Values,
    Window,
    WindowCall,
)  # fmt: skip
from tempura.expr import TRUE, Expr, parse
from tempura.reference import Bag, bag
from tempura.schema import NO_KEYS, Column, Schema

LEFT: Schema = (Column("a", "int"), Column("b", "int"), Column("s", "string"), Column("d", "decimal(7,2)"))
RIGHT: Schema = (Column("c", "int"), Column("e", "int"), Column("f", "double"))

_ints = st.one_of(st.none(), st.integers(0, 3))
_left_rows = st.tuples(
    _ints,
    _ints,
    st.sampled_from([None, "x", "y", "xy"]),
    st.sampled_from([None, Decimal("0.50"), Decimal("1.25"), Decimal("-3.00")]),
)
_right_rows = st.tuples(_ints, _ints, st.sampled_from([None, 0.5, 2.0, -1.0]))


def _bags(rows: st.SearchStrategy[tuple[object, ...]], weights: st.SearchStrategy[int]) -> st.SearchStrategy[Bag]:
    return st.lists(st.tuples(rows, weights), max_size=6).map(bag)


present = st.integers(1, 3)
signed = st.integers(-2, 2)


def inputs(weights: st.SearchStrategy[int] = present) -> st.SearchStrategy[dict[str, Bag]]:
    return st.fixed_dictionaries({"l@t1": _bags(_left_rows, weights), "r@t1": _bags(_right_rows, weights)})


def left(weighted: bool = False) -> Read:
    return Read("l@t1", LEFT, weighted, NO_KEYS)


def right(weighted: bool = False) -> Read:
    return Read("r@t1", RIGHT, weighted, NO_KEYS)


def output(name: str, text: str, kind: str = "unknown") -> Output:
    return Output(Column(name, kind), parse(text))


def call(
    name: str, function: str, argument: str | None, kind: str = "unknown", *, distinct: bool = False, where: Expr = TRUE
) -> AggregateCall:
    return AggregateCall(Column(name, kind), function, None if argument is None else parse(argument), distinct, where)


def passed(name: str, text: str) -> AggregateCall:
    expression = parse(text)
    return AggregateCall(Column(name), text.split("(")[0], None, call=expression)


ON = parse("a = c")
SAFE = parse("a <=> c and (b > e or f is null)")
SUMS = (
    call("n", "count", None, "bigint"),
    call("nb", "count", "b", "bigint"),
    call("sb", "sum", "b", "bigint"),
    call("sd", "sum", "d", "decimal(17,2)"),
    call("ab", "avg", "b", "double"),
    call("ad", "avg", "d", "double"),
    call("fd", "sum", "d", "decimal(17,2)", where=parse("b > 1")),
    call("fn", "count", None, "bigint", where=parse("b > 1")),
)
SPREADS = tuple(call(f, f, "d", "double") for f in ("var_pop", "var_samp", "stddev_pop", "stddev_samp"))
EXTREMES = (
    call("least", "min", "s", "string"),
    call("most", "max", "d", "decimal(7,2)"),
    call("every", "bool_and", "b > 0", "boolean"),
    call("some", "bool_or", "b > 0", "boolean"),
)
ONCE = (call("cd", "count", "b", "bigint", distinct=True), call("sx", "sum", "b", "bigint", distinct=True))
ROWWISE = (passed("half", "median(b)"), passed("pairs", "count(distinct a, b)"))
OVER_RIGHT = (call("sf", "sum", "f", "double"), call("af", "avg", "f", "double"), call("vf", "var_samp", "f", "double"))

Make = Callable[[Op, Op], Op]

LINEAR: dict[str, Make] = {
    "filter": lambda x, y: Filter(x, parse("a > 1 or s like 'x%'")),
    "project": lambda x, y: Project(x, (output("u", "a + coalesce(b, 10)"), output("v", "case when s is null then d else -d end"))),
    "project twice": lambda x, y: Filter(Project(Project(x, (output("u", "a + 1"),)), (output("w", "u * u"), output("u", "u"))), parse("w > 2")),
    "constant": lambda x, y: Project(x, (output("k", "1"), output("a", "a"))),
    "no columns": lambda x, y: Project(x, ()),
    "expand": lambda x, y: Expand(x, ("a", "s"), (frozenset(["a", "s"]), frozenset(["a"]), frozenset(), frozenset(["a"])), "tag"),
    "replicate": lambda x, y: Replicate(x, parse("coalesce(a, 2)")),
    "inner join": lambda x, y: InnerJoin(x, y, ON),
    "null-safe join": lambda x, y: InnerJoin(Filter(x, parse("b > 0")), Project(Filter(y, parse("e > 0")), (output("c", "c + 0"), output("e", "e"), output("f", "f"))), SAFE),
    "cross join": lambda x, y: InnerJoin(x, y, TRUE),
    "bushy join": lambda x, y: InnerJoin(x, InnerJoin(y, Project(x, (output("a2", "a"), output("s2", "s"))), parse("c = a2")), ON),
    "self join": lambda x, y: InnerJoin(Filter(x, parse("a > 0")), Project(Filter(x, parse("a > 0")), (output("a2", "a"),)), parse("a = a2")),
    "union": lambda x, y: Plus((Project(x, (output("x", "a"), output("y", "b"))), Project(y, (output("x", "c"), output("y", "e"))))),
    "minus": lambda x, y: Minus(Plus((x, x)), Filter(x, parse("a = 1"))),
    "minus of joins": lambda x, y: Minus(InnerJoin(x, y, ON), InnerJoin(Filter(x, parse("b = 1")), y, ON)),
    "constants united": lambda x, y: Plus((Project(x, (output("x", "a"),)), Values((Column("x", "int"),), ((parse("1"),), (parse("null"),))), Empty((Column("x", "int"),)))),
}  # fmt: skip
"""Operators that are defined on any weights."""

PRESENT: dict[str, Make] = {
    "semi join": lambda x, y: SemiJoin(x, y, ON),
    "semi join null-safe": lambda x, y: SemiJoin(x, Filter(y, parse("e > 0")), SAFE),
    "anti join": lambda x, y: AntiJoin(x, y, ON),
    "anti join null-safe": lambda x, y: AntiJoin(Filter(x, parse("b > 0")), Filter(y, parse("e > 0")), SAFE),
    "semi join on anything": lambda x, y: SemiJoin(x, y, TRUE),
    "left outer join": lambda x, y: LeftOuterJoin(Filter(x, parse("a > 0")), Filter(y, parse("e > 1")), ON),
    "left outer join of computed": lambda x, y: LeftOuterJoin(x, Project(y, (output("c", "c"), output("one", "1"))), ON),
    "left outer join null-safe": lambda x, y: LeftOuterJoin(x, y, SAFE),
    "left outer join twice": lambda x, y: LeftOuterJoin(LeftOuterJoin(x, y, ON), Project(y, (output("c2", "c"), output("e2", "e"))), parse("b = c2")),
    "full outer join": lambda x, y: FullOuterJoin(x, y, ON),
    "full outer join of filtered": lambda x, y: FullOuterJoin(Filter(x, parse("b > 0")), Project(y, (output("c", "c"), output("one", "1"))), ON),
    "distinct": lambda x, y: Aggregate(Project(x, (output("a", "a"), output("k", "'k'"))), ("a", "k"), ()),
    "sums": lambda x, y: Aggregate(x, ("a", "s"), SUMS),
    "sums of all": lambda x, y: Aggregate(x, (), SUMS),
    "sums of floats": lambda x, y: Aggregate(y, ("c",), OVER_RIGHT),
    "spreads": lambda x, y: Aggregate(x, ("a",), SPREADS),
    "extremes": lambda x, y: Aggregate(x, ("a",), (*EXTREMES, *SUMS)),
    "extremes of all": lambda x, y: Aggregate(x, (), EXTREMES),
    "distinct calls": lambda x, y: Aggregate(x, ("a",), (*ONCE, *SUMS)),
    "row-wise calls": lambda x, y: Aggregate(x, ("a",), (*ROWWISE, *SUMS)),
    "by expression": lambda x, y: Aggregate(Project(x, (output("g", "coalesce(a, 0) + 1"), output("b", "b"))), ("g",), (call("n", "count", None), call("m", "max", "b"))),
    "having": lambda x, y: Filter(Aggregate(x, ("a",), SUMS[:3]), parse("n > 1")),
    "grouping sets": lambda x, y: Aggregate(Expand(x, ("a", "b"), (frozenset(["a", "b"]), frozenset(["a"]), frozenset()), "tag"), ("a", "b", "tag"), (call("n", "count", None),)),
    "scalar": lambda x, y: InnerJoin(x, Aggregate(TopK(Project(y, (output("e", "e"),)), (SortKey("e"),), 1, 0), (), (call("one", "single_value", "e", "int"),)), parse("a >= one")),
    "ranks": lambda x, y: Window(x, ("a",), (
        WindowCall(Column("rk"), parse("rank() over (partition by a order by b desc)")),
        WindowCall(Column("dr"), parse("dense_rank() over (partition by a order by b desc nulls first)")),
        WindowCall(Column("rn"), parse("row_number() over (partition by a order by b, s, d)")),
        WindowCall(Column("lg"), parse("lag(b, 1, 7) over (partition by a order by b, s, d)")),
        WindowCall(Column("ld"), parse("lead(b) over (partition by a order by b, s, d)")))),
    "frames": lambda x, y: Window(Filter(x, parse("b is not null")), ("a",), (
        WindowCall(Column("t"), parse("sum(b) over (partition by a)")),
        WindowCall(Column("c1"), parse("count(*) over (partition by a order by b)")),
        WindowCall(Column("m1"), parse("max(s) over (partition by a order by b)")),
        WindowCall(Column("v1"), parse("avg(b) over (partition by a order by b, s, d rows between 1 preceding and current row)")),
        WindowCall(Column("m2"), parse("min(b) over (partition by a order by b, s, d rows between unbounded preceding and 1 following)")),
        WindowCall(Column("share"), parse("b * 100 / sum(b) over (partition by a)")))),
    "top": lambda x, y: TopK(x, (SortKey("b", True, False), SortKey("s")), 3, 1),
    "top without limit": lambda x, y: TopK(Project(x, (output("b", "-b"), output("a", "a"))), (SortKey("b", True, True),), None, 2),
    "top of nothing": lambda x, y: TopK(Plus((x, TopK(x, (SortKey("a"),), 2, 0))), (), 4, 0),
    "affected": lambda x, y: Affected(x, ("a", "b")),
    "final": lambda x, y: FinalState(AggregateState(x, ("a",), (*SUMS, *SPREADS, *EXTREMES)), ("a",), (*SUMS, *SPREADS, *EXTREMES)),
    "final of all": lambda x, y: FinalState(AggregateState(x, (), (*SUMS, *SPREADS, *EXTREMES)), (), (*SUMS, *SPREADS, *EXTREMES)),
}  # fmt: skip
"""Operators that need net weights that are not negative."""

STATES: dict[str, Make] = {
    "state": lambda x, y: AggregateState(x, ("a",), (*SUMS, *SPREADS)),
    "state of all": lambda x, y: AggregateState(x, (), SUMS),
    "merged with itself": lambda x, y: MergeState((AggregateState(x, ("a",), SUMS), AggregateState(Filter(x, parse("b > 1")), ("a",), SUMS)), ("a",), SUMS),
    "merged of all": lambda x, y: MergeState((AggregateState(x, (), SUMS), AggregateState(Minus(x, Plus((x, Filter(x, parse("b = 1"))))), (), SUMS)), (), SUMS),
}  # fmt: skip
"""States of aggregates made of sums, which are defined on any weights."""
