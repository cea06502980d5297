"""Aggregation: which calls are aggregates, the columns grouped by, grouping sets, and what the select list means above them.

GROUPING SETS, ROLLUP and CUBE become `Expand` below `Aggregate`. The tag of a set is Spark's grouping_id: one bit per grouping column, the
first the most significant, 1 where the column is not in the set. A set that equals an earlier one has 2^k added for each such
earlier set (k the number of columns), so that equal sets stay apart; grouping() and grouping_id() look at the lower k bits only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from sqlglot import exp

from tempura.algebra import Aggregate, AggregateCall, Expand, Op, Output
from tempura.algebra.incremental import PARTS
from tempura.expr import TRUE, Expr, column_tree, comparand
from tempura.schema import Column, fresh, names
from tempura.sql.bind.predicates import detached, predicate, renamed, replaced
from tempura.sql.bind.projection import by_name, computed, extended, passed, project, slug
from tempura.sql.bind.scope import Tree, refuse
from tempura.sql.bind.types import aggregate_type, digits, infer, kind_of
from tempura.volatile import volatile_function

_KNOWN: dict[type[Any], str] = {
    exp.Sum: "sum",
    exp.Count: "count",
    exp.Avg: "avg",
    exp.Min: "min",
    exp.Max: "max",
    exp.AnyValue: "any_value",
    exp.LogicalAnd: "bool_and",
    exp.LogicalOr: "bool_or",
    exp.Stddev: "stddev_samp",
    exp.StddevSamp: "stddev_samp",
    exp.StddevPop: "stddev_pop",
    exp.Variance: "var_samp",
    exp.VariancePop: "var_pop",
    exp.CountIf: "count_if",
}
_SPELLINGS = {
    "mean": "avg",
    "every": "bool_and",
    "some": "bool_or",
    "std": "stddev_samp",
    **{name: name for name in PARTS},
}
_OTHER_WORDS = (
    "approx_percentile approx_top_k approx_top_k_accumulate approx_top_k_combine bit_and bit_or bit_xor bitmap_and_agg bitmap_construct_agg bitmap_or_agg "
    "collect_union corr count_min_sketch covar_pop covar_samp histogram_numeric hll_sketch_agg hll_union_agg kll_merge_agg_bigint kll_merge_agg_double "
    "kll_merge_agg_float kll_sketch_agg_bigint kll_sketch_agg_double kll_sketch_agg_float kurtosis listagg max_by measure min_by mode percentile "
    "percentile_approx percentile_cont percentile_disc product regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy "
    "schema_of_json_agg schema_of_variant_agg skewness string_agg theta_intersection_agg theta_sketch_agg theta_union_agg try_avg try_sum "
    "tuple_intersection_agg_double tuple_intersection_agg_integer tuple_sketch_agg_double tuple_sketch_agg_integer tuple_union_agg_double "
    "tuple_union_agg_integer"
)
_OTHERS = frozenset(_OTHER_WORDS.split())
"""All other aggregates that Spark has, by name; those that the parser knows by a class of their own tell by that."""
_NONE: dict[str, Tree] = {
    **dict.fromkeys(("count", "approx_count_distinct", "regr_count"), exp.Literal.number(0)),
    **dict.fromkeys(("arrayagg", "arrayuniqueagg"), exp.Array()),
}
"""What an aggregate of no rows is where it is not NULL; collect_list and collect_set go by the names of their classes."""
_WRAPPERS = (exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)


def core(tree: Tree) -> Tree:
    """A call without its FILTER, WITHIN GROUP and NULLS clauses."""
    while isinstance(tree, _WRAPPERS):
        tree = tree.this
    return tree


def is_aggregate(tree: Tree) -> bool:
    call = core(tree)
    if isinstance(call, (exp.Grouping, exp.GroupingId)):
        return False
    if isinstance(call, exp.Anonymous):
        name = call.name.lower()
        return name in _SPELLINGS or name in _OTHERS
    return isinstance(call, exp.AggFunc)


def aggregates(tree: Tree) -> Iterator[Tree]:
    """The aggregate calls in a tree, outermost; the function of a window is none, but its arguments may hold some."""
    if isinstance(tree, exp.Window):
        for child in (*core(tree.this).iter_expressions(), *(c for c in tree.iter_expressions() if c is not tree.this)):
            yield from aggregates(child)
    elif is_aggregate(tree):
        yield tree
    else:
        for child in tree.iter_expressions():
            yield from aggregates(child)


def has_grouping(tree: Tree) -> bool:
    return next(tree.find_all(exp.Grouping, exp.GroupingId), None) is not None


@dataclass
class Groups:
    """GROUP BY as resolved: the expressions grouped by, and the grouping sets as positions among them, if there are any."""

    keys: list[Tree] = field(default_factory=list[Tree])
    sets: list[tuple[int, ...]] | None = None

    def position(self, tree: Tree) -> int:
        for i, key in enumerate(self.keys):
            if key == tree:
                return i
        self.keys.append(tree)
        return len(self.keys) - 1

    @property
    def whole(self) -> bool:
        """Whether all rows are one group, which is there also if they are none: so Spark reads GROUPING SETS (()) too."""
        return not self.keys and self.sets in (None, [()])


def rollup(parts: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    return [_joined(parts[:n]) for n in range(len(parts), -1, -1)]


def cube(parts: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    return [_joined(chosen) for n in range(len(parts), -1, -1) for chosen in combinations(parts, n)]


def _joined(parts: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(i for part in parts for i in part))


_MADE = "made"
"""Marks a column that stands for a key or a call: a column of the input may have the same name."""


def _like(tree: Tree, other: Tree) -> bool:
    """Whether trees are of a kind, so that they may be equal: a cast is written in several ways."""
    return kind_of(tree) is kind_of(other) or (isinstance(tree, exp.Cast) and isinstance(other, exp.Cast))


def _made(name: str) -> Tree:
    column = column_tree(name)
    column.meta[_MADE] = True
    return column


class Grouped:
    """An aggregation over `op`: builds the tree, and rewrites expressions to stand above it."""

    def __init__(
        self, op: Op, groups: Groups, hints: Sequence[tuple[Tree, str]], carried: Sequence[str], trees: Sequence[Tree]
    ):
        self._hints = hints
        self._columns = by_name(op)
        self._taken: set[str] = {*carried, *(k.name for k in groups.keys if isinstance(k, exp.Column))}
        self._keys, outputs = self._key_columns(groups.keys, set(names(op.schema)))
        self._computed = {
            Expr(detached(k)): n for k, n in zip(groups.keys, self._keys, strict=True) if not isinstance(k, exp.Column)
        }
        self._calls: dict[Tree, AggregateCall] = {}
        self._tag = ""
        grouped = bool(groups.keys or carried)
        for tree in trees:
            for call in aggregates(tree):
                self._add(call, grouped)
        if outputs:
            spoken = {c for call in self._calls.values() for e in _expressions(call) for c in e.columns}
            kept = {*spoken, *carried, *_column_names(groups.keys)}
            op = project(op, [*(passed(c) for c in op.schema if c.name in kept), *outputs])
        by = list(dict.fromkeys([*carried, *self._keys]))
        self._by_sets = groups.sets is not None
        if groups.sets is not None and not groups.whole:
            op = self._expanded(op, [frozenset(self._keys[i] for i in s) for s in groups.sets])
            by.append(self._tag)
        self.op: Op = Aggregate(op, tuple(by), tuple(self._calls.values()))
        self._known = set(by)

    def _key_columns(self, keys: Sequence[Tree], present: set[str]) -> tuple[list[str], list[Output]]:
        found: list[str] = []
        outputs: dict[Expr, Output] = {}
        for key in keys:
            if isinstance(key, exp.Column):
                found.append(key.name)
                continue
            tree = detached(key)
            expr = Expr(tree)
            if expr not in outputs:
                outputs[expr] = computed(fresh(self._hint(tree), present | self._taken), tree, self._columns)
                self._taken.add(outputs[expr].name)
            found.append(outputs[expr].name)
        return found, list(outputs.values())

    def _hint(self, tree: Tree) -> str:
        return next((alias for item, alias in self._hints if alias and item == tree), "") or slug(tree)

    def _add(self, tree: Tree, grouped: bool) -> None:
        if tree in self._calls:
            return
        for inner in core(tree).iter_expressions():
            if next(aggregates(inner), None) is not None:
                refuse("an aggregate inside an aggregate", tree, "aggregate in a derived table first")
        name = fresh(self._hint(tree), self._taken)
        self._taken.add(name)
        own = detached(tree)
        self._calls[own] = aggregate_call(name, own, self._columns, grouped)

    def _expanded(self, op: Op, sets: Sequence[frozenset[str]]) -> Op:
        """`op` once per grouping set; what is both grouped and aggregated is copied first, since the aggregate wants its value."""
        columns = tuple(dict.fromkeys(self._keys))
        spoken = {c for call in self._calls.values() for e in _expressions(call) for c in e.columns}
        copies = {c: fresh(f"{c}_value", set(names(op.schema)) | self._taken) for c in columns if c in spoken}
        if copies:
            present = by_name(op)
            op = extended(op, [passed(present[c], copy) for c, copy in copies.items()])
            self._calls = {tree: _renamed(call, copies) for tree, call in self._calls.items()}
        self._tag = fresh("grouping_id", set(names(op.schema)) | self._taken)
        return Expand(op, columns, tuple(sets), self._tag)

    def above(self, tree: Tree) -> Tree:
        """An expression of the select list, HAVING or ORDER BY over the columns of the aggregation."""
        tree = replaced(detached(tree), self._replacement)
        for column in tree.find_all(exp.Column):
            if column.name not in self._known and not column.meta.get(_MADE):
                refuse(
                    f"column {column.meta.get('user', column.name)!r} is neither grouped nor aggregated",
                    column,
                    "add it to GROUP BY, or take any_value() of it",
                )
        return tree

    def _replacement(self, tree: Tree) -> Tree:
        # The parser makes dates of what DATEDIFF has; printed, they are not there.
        if isinstance(tree, exp.Column) or (
            isinstance(tree, exp.TsOrDsToDate) and isinstance(tree.parent, exp.DateDiff)
        ):
            return None
        # A constant is what it says also where something is grouped by an equal one: ROUND(x, 0) wants no column. What is
        # drawn is drawn once, though, and in the rows of a ROLLUP a constant may be NULL.
        constant = (
            not self._tag
            and tree.parent is not None
            and tree.find(exp.Column) is None
            and volatile_function(tree) is None
        )
        if self._computed and not constant and any(_like(tree, e.tree) for e in self._computed):
            name = self._computed.get(Expr(detached(tree)))
            if name is not None:
                return _made(name)
        if isinstance(tree, exp.Window):
            return self._window(tree)
        if isinstance(tree, (exp.Grouping, exp.GroupingId)):
            return self._grouping(tree)
        if is_aggregate(tree):
            return _made(self._calls[tree].name)
        return None

    def _window(self, tree: Tree) -> Tree:
        """A window above the aggregation: its function stays, all inside it is rewritten."""
        function = core(tree.this)
        for parent in (function, tree):
            for child in list(parent.iter_expressions()):
                if parent is function or child is not tree.this:
                    new = replaced(child, self._replacement)
                    if new is not child:
                        child.replace(new)
        return tree

    def _grouping(self, tree: Tree) -> Tree:
        columns = list(dict.fromkeys(self._keys))
        if not self._by_sets:
            refuse(
                "grouping() and grouping_id() need ROLLUP, CUBE or GROUPING SETS", tree, "take it out, or group by sets"
            )
        bits = [columns.index(self._grouped_name(a, columns)) for a in tree.expressions]
        if not self._tag:
            return exp.cast(exp.Literal.number(0), "bigint")
        if isinstance(tree, exp.Grouping) and len(bits) == 1:
            return exp.cast(self._bit(len(columns) - 1 - bits[0]), "tinyint")
        if not bits or bits == list(range(len(columns))):
            return exp.paren(
                exp.BitwiseAnd(this=column_tree(self._tag), expression=exp.Literal.number(2 ** len(columns) - 1)),
                copy=False,
            )
        total: Tree = None
        for place, bit in enumerate(reversed(bits)):
            shifted = exp.Mul(this=self._bit(len(columns) - 1 - bit), expression=exp.Literal.number(2**place))
            total = shifted if total is None else exp.Add(this=total, expression=shifted)
        return exp.paren(total, copy=False)

    def _grouped_name(self, tree: Tree, columns: Sequence[str]) -> str:
        name = tree.name if isinstance(tree, exp.Column) else self._computed.get(Expr(detached(tree)), "")
        if name not in columns:
            refuse(f"grouping() of {tree.sql()!r}, which is not grouped by", tree, "use an expression of GROUP BY")
        return name

    def _bit(self, place: int) -> Tree:
        tag = column_tree(self._tag)
        shifted = tag if place == 0 else exp.BitwiseRightShift(this=tag, expression=exp.Literal.number(place))
        return exp.paren(exp.BitwiseAnd(this=shifted, expression=exp.Literal.number(1)), copy=False)

    def when_empty(self, tree: Tree) -> Tree:
        """A value above the aggregation as it is where the group has no row at all: counts are 0 then, not NULL, and lists are empty."""
        empty = {c.name: _NONE[c.function] for c in self._calls.values() if c.function in _NONE}

        def coalesced(part: Tree) -> Tree:
            if isinstance(part, exp.Column) and part.name in empty:
                return exp.Coalesce(this=part.copy(), expressions=[empty[part.name].copy()])
            return None

        return replaced(tree.copy(), coalesced)


def _column_names(trees: Sequence[Tree]) -> set[str]:
    return {t.name for t in trees if isinstance(t, exp.Column)}


def _expressions(call: AggregateCall) -> list[Expr]:
    return [e for e in (call.argument, call.call, call.where) if e is not None]


def _renamed(call: AggregateCall, names_: dict[str, str]) -> AggregateCall:
    return call._replace(
        argument=call.argument and Expr(renamed(call.argument.tree, names_)),
        call=call.call and Expr(renamed(call.call.tree, names_)),
        where=Expr(renamed(call.where.tree, names_)),
    )


def aggregate_call(name: str, tree: Tree, columns: dict[str, Column], grouped: bool) -> AggregateCall:
    """The call as the algebra writes it: by name and argument where its function is known, else as it stands."""
    where = TRUE
    if isinstance(tree, exp.Filter):
        where = Expr(detached(tree.expression.this))
        tree = detached(tree.this)
    function = _KNOWN.get(kind_of(tree)) or (
        _SPELLINGS.get(tree.name.lower()) if isinstance(tree, exp.Anonymous) else None
    )
    if function == "count_if" and isinstance(tree.this, exp.Distinct):
        function = None
    if function is None or (function.startswith(("var", "stddev")) and not _exact_squares(tree, columns)):
        inner = core(tree)
        called = inner.name.lower() if isinstance(inner, exp.Anonymous) else _class_name(inner)
        kind = infer(inner, columns)
        return AggregateCall(Column(name, kind.type, True), called, None, False, where, Expr(tree))
    argument, distinct = _argument(tree, function)
    if function == "count_if":
        assert argument is not None
        where = predicate([argument, where.tree])
        function, argument = "count", None
    kind = aggregate_type(function, None if argument is None else infer(argument, columns), grouped and where is TRUE)
    return AggregateCall(
        Column(name, kind.type, kind.nullable), function, None if argument is None else Expr(argument), distinct, where
    )


def _exact_squares(tree: Tree, columns: dict[str, Column]) -> bool:
    """Whether sums of squares of the argument are exact: integers and decimals that are short enough. Those of others would cancel out against the square of the sum."""
    argument = tree.expressions[0] if isinstance(tree, exp.Anonymous) else tree.this
    found = digits(infer(argument, columns).type)
    return found is not None and found[0] <= 14 and found[1] <= 3


def _class_name(tree: Tree) -> str:
    return {"ApproxDistinct": "approx_count_distinct"}.get(type(tree).__name__, type(tree).__name__.lower())


def _argument(tree: Tree, function: str) -> tuple[Tree, bool]:
    arguments: list[Tree] = (
        tree.expressions
        if isinstance(tree, exp.Anonymous)
        else [a for a in (tree.this, *tree.expressions) if a is not None]
    )
    distinct = bool(arguments) and isinstance(arguments[0], exp.Distinct)
    if distinct:
        arguments = arguments[0].expressions
    if function == "count":
        if not arguments or (
            not distinct and len(arguments) == 1 and isinstance(arguments[0], (exp.Star, exp.Literal))
        ):
            return None, False
        if any(isinstance(a, exp.Star) or isinstance(a.this, exp.Star) for a in arguments):
            refuse("count(DISTINCT *) is not supported", tree, "name the columns")
        if len(arguments) > 1:
            # SQL counts the rows in which none of several arguments is NULL.
            missing = exp.or_(*(exp.Is(this=comparand(a.copy()), expression=exp.Null()) for a in arguments))
            whole = exp.Struct(expressions=[a.copy() for a in arguments])
            return exp.If(this=missing, true=exp.Null(), false=whole), distinct
    if len(arguments) != 1:
        refuse(f"{function}() takes one argument", tree)
    if function in ("min", "max", "any_value", "bool_and", "bool_or"):
        distinct = False
    return detached(arguments[0]), distinct
