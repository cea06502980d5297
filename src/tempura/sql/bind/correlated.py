"""A select block inside an expression, which may speak of columns of the query around it.

A correlated block is built in one of two ways. Where outer columns occur only in conjuncts of WHERE, these are lifted out and become
the condition of the join with the outer query. Otherwise the distinct outer values are a factor of the block's own joins (a `Hole`
until the outer tree is known), and all that groups, numbers or cuts rows does so for each of them.
"""

from __future__ import annotations

from sqlglot import exp

from tempura.algebra import Op
from tempura.expr import column_tree, comparand
from tempura.schema import fresh, names
from tempura.sql.bind.equalities import aligned
from tempura.sql.bind.ordering import Slice
from tempura.sql.bind.predicates import columns_of, detached, renamed
from tempura.sql.bind.projection import named_columns, narrowed
from tempura.sql.bind.scope import OUTER, Source, Tree, refuse
from tempura.sql.bind.select import Select
from tempura.sql.bind.subqueries import Hole, Nested, equal_sides, has_subquery
from tempura.sql.bind.tables import Joined, Region
from tempura.sql.bind.windows import find_windows


def nested(block: Select, kind: str) -> Nested:
    """The block as a sub-query that may speak of outer columns."""
    if kind == "exists":
        _for_existence(block)
    spoken = {c for t in block.trees() for c in columns_of(t) if c.startswith(OUTER)}
    outside = tuple(n for n in block.scope.outside if n in spoken)
    if not outside:
        return _uncorrelated(block, kind)
    columns = block.scope.columns()
    block.where = [aligned(t, columns) if _is_outer(t) else t for t in block.where]
    block.region.conjuncts = [aligned(t, columns) if _is_outer(t) else t for t in block.region.conjuncts]
    lifted = [t for t in (*block.where, *block.region.conjuncts) if _is_outer(t)]
    elsewhere = any(_is_outer(t) for t in block.trees() if not any(t is x for x in lifted))
    rigid = (
        block.aggregated
        or not block.slice.whole
        or (block.distinct and kind == "scalar")
        or any(find_windows(t) for t in block.expressions())
    )
    equal = all(equal_sides(t, outside) is not None for t in lifted)
    if elsewhere or any(has_subquery(t) for t in lifted) or (rigid and not equal):
        return _for_each_outer_value(block, kind, outside)
    block.where = [t for t in block.where if not _is_outer(t)]
    block.region.conjuncts = [t for t in block.region.conjuncts if not _is_outer(t)]
    op = block.joins()
    if rigid:
        sides = [equal_sides(t, outside) for t in lifted]
        op, carried = named_columns(op, [(detached(s[0]), "") for s in sides if s])
        on = [
            (exp.NullSafeEQ if s[2] else exp.EQ)(this=column_tree(c), expression=comparand(s[1].copy()))
            for c, s in zip(carried, (s for s in sides if s), strict=True)
        ]
    else:
        carried, on = sorted({c for t in lifted for c in columns_of(t) if not c.startswith(OUTER)}), lifted
    return _tied(block, op, kind, outside, list(dict.fromkeys(carried)), on, equal, hole=False)


def _for_existence(block: Select) -> None:
    """Leave out what does not change whether there is a row."""
    if block.slice.limit == 0 or block.slice.offset:
        refuse("LIMIT 0 and OFFSET inside EXISTS are not supported", block.items[0].tree if block.items else None)
    block.slice = Slice(None, 0)
    block.distinct, block.order = False, []
    if not block.aggregated and not block.qualify:
        block.items = []


def _uncorrelated(block: Select, kind: str) -> Nested:
    if kind == "exists" and not block.items:
        op = block.joins()
        return Nested(narrowed(op, names(op.schema)[:1]), ())
    bound = block.bound()
    if kind == "exists":
        return Nested(bound.op, ())
    return Nested(bound.op, tuple(s.base for s in bound.shown))


def _for_each_outer_value(block: Select, kind: str, outside: tuple[str, ...]) -> Nested:
    """The block with the outer values as one more factor of its joins."""
    called: dict[str, str] = {}
    for name in outside:
        called[name] = fresh("outer_" + name.lstrip(OUTER), {*block.scope.taken, *called.values()})
    hole = Hole(tuple(block.scope.outside[n]._replace(name=called[n]) for n in outside))
    source = Source("", hole, (), visible=False)
    block.scope.add(source)
    source.used = set(called.values())
    block.mapped(lambda t: renamed(t, called))
    block.where = [renamed(t, called) for t in block.where]
    _rename_region(block.region, called)
    if block.groups is not None:
        block.groups.keys = [renamed(t, called) for t in block.groups.keys]
    block.region.factors.append(source)
    on: list[Tree] = [exp.NullSafeEQ(this=column_tree(called[n]), expression=column_tree(n)) for n in outside]
    return _tied(block, block.joins(), kind, outside, list(called.values()), on, True, hole=True)


def _rename_region(region: Region, called: dict[str, str]) -> None:
    region.conjuncts = [renamed(t, called) for t in region.conjuncts]
    for factor in region.factors:
        inside = (*factor.on, *factor.left.trees(), *factor.right.trees()) if isinstance(factor, Joined) else ()
        for tree in inside:
            if _is_outer(tree):
                refuse(
                    "an outer column in the ON clause of an outer join is not supported",
                    tree,
                    "move the condition into WHERE",
                )


def _tied(
    block: Select,
    op: Op,
    kind: str,
    outside: tuple[str, ...],
    carried: list[str],
    on: list[Tree],
    equal: bool,
    hole: bool,
) -> Nested:
    if block.aggregated and (block.groups is None or block.groups.whole):
        return _one_value(block, op, kind, outside, carried, on, hole)
    if kind == "exists" and not block.items:
        return Nested(narrowed(op, carried), (), tuple(on), outside, hole, equal)
    bound = block.bound(op, carried)
    outputs = () if kind == "exists" else tuple(s.base for s in bound.shown)
    return Nested(bound.op, outputs, tuple(on), outside, hole, equal)


def _one_value(
    block: Select, op: Op, kind: str, outside: tuple[str, ...], carried: list[str], on: list[Tree], hole: bool
) -> Nested:
    """A correlated aggregate without GROUP BY: it has a value also where no row matches, so the value is taken above the join."""
    if block.slice.limit == 0 or block.slice.offset:
        refuse("LIMIT 0 and OFFSET in a correlated sub-query are not supported", on[0])
    if len(block.items) != 1 and kind != "exists":
        refuse(f"a sub-query used as a value gives one column, this one gives {len(block.items)}", block.items[0].tree)
    if kind == "in" and block.having:
        refuse(
            "IN with a correlated aggregate and HAVING is not supported",
            block.having[0],
            "compare with = and a scalar sub-query",
        )
    grouped = block.aggregate(op, carried)
    trees = [*(i.tree for i in block.items), *block.having]
    if block.qualify or any(has_subquery(t) or find_windows(t) for t in trees):
        refuse(
            "a sub-query or window inside a correlated aggregate is not supported",
            on[0],
            "compute it in a derived table or CTE",
        )
    value: Tree = exp.true() if kind == "exists" else grouped.when_empty(block.items[0].tree)
    if block.having:
        held = exp.and_(*(grouped.when_empty(t) for t in block.having), copy=True)
        value = exp.Case(ifs=[exp.If(this=held, true=value)])
    if hole:
        value = renamed(value, dict(zip(carried, outside, strict=True)))
    return Nested(grouped.op, (), tuple(on), outside, hole, True, value)


def _is_outer(tree: Tree) -> bool:
    return any(c.startswith(OUTER) for c in columns_of(tree))
