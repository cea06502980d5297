"""One select block. First every name is resolved and every sub-query bound, which tells what is used; then the tree is built.

The tree of a block, from below: the joins of FROM under WHERE, the aggregation, HAVING, the sub-queries of the select list, windows,
QUALIFY, the projection, DISTINCT, TopK.

A correlated block is built in one of two ways. Where outer columns occur only in conjuncts of WHERE, these are lifted out and become
the condition of the join with the outer query. Otherwise the distinct outer values are a factor of the block's own joins (a `Hole`
until the outer tree is known), and all that groups, numbers or cuts rows does so for each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from tempura.algebra import Aggregate, Filter, Op, Output, Project, SortKey
from tempura.expr import Expr, column_tree
from tempura.schema import Column, fresh, names
from tempura.sql.grouping import Grouped, Groups, aggregates, cube, has_grouping, rollup
from tempura.sql.ordering import Key, key_of, ordered_terms, slice_of, top, top_of_each
from tempura.sql.predicates import columns_of, conjuncts_of, detached, predicate, renamed
from tempura.sql.projection import by_name, computed, named_columns, narrowed, passed, slug
from tempura.sql.resolve import Resolver
from tempura.sql.scope import OUTER, Scope, Shown, Source, Tree, refuse
from tempura.sql.sources import Bound, Ctes, From
from tempura.sql.subqueries import Hole, Nested, attach, equal_sides, has_subquery, restrict
from tempura.sql.tables import JoinTree, Joined, Region
from tempura.sql.windows import Windowed, find_windows

if TYPE_CHECKING:
    from tempura.sql.bind import Binder

_IGNORED = ("hint", "sort", "cluster", "distribute")
_REFUSED = {"match": "MATCH_RECOGNIZE", "into": "SELECT INTO", "connect": "CONNECT BY", "kind": "SELECT AS STRUCT", "prewhere": "PREWHERE"}


@dataclass
class Item:
    """One column of the select list: its expression, the name it shows, and whether the user gave it that name."""

    tree: Tree
    spelling: str
    aliased: bool

    @property
    def hint(self) -> str:
        return self.spelling.lower() if self.aliased else ""


class Select:
    """A select block, resolved."""

    def __init__(self, binder: Binder, node: Tree, ctes: Ctes, scope: Scope):
        for clause, what in _REFUSED.items():
            if node.args.get(clause):
                refuse(f"{what} is not supported", node)
        self._scope = scope
        self._resolver = Resolver(binder, scope, ctes, {w.this.name.lower(): w for w in node.args.get("windows") or []})
        self._subs = self._resolver.subs
        resolve = self._resolver.resolve
        reader = From(binder.catalog, ctes, scope, binder.text, lambda q: binder.query(q, ctes, Scope(scope, lateral=False)), resolve)
        self._region: Region = reader.read(node)
        self._where = self._conjuncts(node, "where", resolve)
        self._items = self._select_list(node)
        aliases = {i.spelling.lower(): i.tree for i in self._items if i.aliased}
        self._groups = self._group_by(node, lambda t: resolve(t, aliases))
        self._having = self._conjuncts(node, "having", lambda t: resolve(t, aliases), aggregated=True)
        self._qualify = self._conjuncts(node, "qualify", lambda t: resolve(t, aliases), aggregated=True)
        self._slice = slice_of(node)
        self._distinct = self._is_distinct(node)
        self._order = [self._key(term, aliases) for term in self._order_terms(node)]

    # Reading the text.

    def _conjuncts(self, node: Tree, clause: str, resolve: Callable[[Tree], Tree], aggregated: bool = False) -> list[Tree]:
        found = node.args.get(clause)
        if found is None:
            return []
        trees = conjuncts_of(resolve(found.this))
        for tree in trees:
            call = next(aggregates(tree), None)
            if call is not None and not aggregated:
                refuse(f"aggregate {call.sql(dialect='spark')} in WHERE", call, "put the condition into HAVING")
        return trees

    def _is_distinct(self, node: Tree) -> bool:
        distinct = node.args.get("distinct")
        if distinct is not None and distinct.args.get("on") is not None:
            refuse("DISTINCT ON is not supported", distinct, "use QUALIFY row_number() OVER (…) = 1")
        return distinct is not None

    def _select_list(self, node: Tree) -> list[Item]:
        items: list[Item] = []
        for tree in list(node.expressions):
            star = tree if isinstance(tree, exp.Star) else tree.this if isinstance(tree, exp.Column) and isinstance(tree.this, exp.Star) else None
            if star is not None:
                items += self._star(tree, star)
                continue
            if isinstance(tree, exp.Aliases):
                refuse("a function that gives several columns is not supported in the select list", tree)
            lateral = {i.spelling.lower(): i.tree for i in items if i.aliased}
            body = (tree.this if isinstance(tree, exp.Alias) else tree).unnest()
            aliased = isinstance(tree, exp.Alias)
            spelling = tree.alias if aliased else body.name if isinstance(body, exp.Column) else body.sql(dialect="spark").lower()
            items.append(Item(detached(self._resolver.resolve(body, lateral)), spelling, aliased))
        return items

    def _star(self, tree: Tree, star: Tree) -> list[Item]:
        if star.args.get("replace") or star.args.get("rename"):
            refuse("* REPLACE and * RENAME are not supported", tree, "name the columns")
        dropped = {c.name.lower() for c in star.args.get("except_") or []}
        alias = tree.args["table"].name.lower() if tree.args.get("table") else ""
        return [Item(t, spelling, False) for spelling, t in self._scope.star(tree, alias) if spelling.lower() not in dropped]

    def _group_by(self, node: Tree, resolve: Callable[[Tree], Tree]) -> Groups | None:
        clause = node.args.get("group")
        if clause is None:
            return None
        groups = Groups()
        if clause.args.get("all"):
            groups.keys = [i.tree for i in self._items if next(aggregates(i.tree), None) is None]
            return groups
        part = _GroupReader(groups, lambda t: self._group_key(t, resolve))
        sets: list[tuple[int, ...]] = [()]
        elements = list(clause.expressions)
        wholes: list[Tree] = [w for kind in ("rollup", "cube", "grouping_sets") for w in clause.args.get(kind) or []]
        listed = [part.members(e) for e in elements] if any(not w.expressions for w in wholes) or clause.args.get("grouping_sets") else []
        for element in (*(elements if not listed else ()), *wholes):
            added = part.sets(element, listed)
            sets = [tuple(dict.fromkeys((*a, *b))) for a in sets for b in added]
        if wholes or any(isinstance(e, (exp.Rollup, exp.Cube, exp.GroupingSets)) for e in elements):
            groups.sets = sets
        return groups

    def _group_key(self, tree: Tree, resolve: Callable[[Tree], Tree]) -> Tree:
        if isinstance(tree, exp.Literal) and not tree.args.get("is_string") and tree.name.isdigit():
            key = self._items[self._ordinal(tree)].tree.copy()
        else:
            key = detached(resolve(tree)).unnest()
        call = next(aggregates(key), None)
        if call is not None:
            refuse(f"aggregate {call.sql(dialect='spark')} in GROUP BY", tree, "group by what it is computed from")
        if has_subquery(key):
            refuse("a sub-query in GROUP BY is not supported", tree, "compute it in a derived table first")
        return detached(key)

    def _ordinal(self, tree: Tree) -> int:
        number = int(tree.name)
        if not 1 <= number <= len(self._items):
            refuse(f"position {number} is not in the select list, which has {len(self._items)} columns", tree)
        return number - 1

    def _order_terms(self, node: Tree) -> list[Tree]:
        terms = ordered_terms(node)
        if len(terms) == 1 and isinstance(terms[0].this, exp.Var) and terms[0].this.name.upper() == "ALL":
            return [exp.Ordered(this=exp.Literal.number(i + 1), desc=terms[0].args.get("desc"), nulls_first=terms[0].args.get("nulls_first"))
                    for i in range(len(self._items))]  # fmt: skip
        return terms

    def _key(self, term: Tree, aliases: dict[str, Tree]) -> Key:
        tree = term.this
        if isinstance(tree, exp.Literal) and not tree.args.get("is_string") and tree.name.isdigit():
            return key_of(term, None, self._ordinal(tree))
        if isinstance(tree, exp.Column) and not tree.table:
            found = [n for n, i in enumerate(self._items) if i.spelling.lower() == tree.name.lower()]
            if found and (len({self._items[n].tree for n in found}) == 1 or self._items[found[0]].aliased):
                return key_of(term, None, found[0])
        resolved = detached(self._resolver.resolve(tree, aliases, alias_first=True))
        return key_of(term, resolved, next((n for n, i in enumerate(self._items) if i.tree == resolved), None))

    # Building the tree.

    def _expressions(self) -> list[Tree]:
        """All that is computed above FROM and WHERE, except what is grouped by."""
        return [*(i.tree for i in self._items), *self._having, *self._qualify, *(k.tree for k in self._order if k.tree is not None)]

    @property
    def _aggregated(self) -> bool:
        return self._groups is not None or bool(self._having) or any(next(aggregates(t), None) is not None for t in self._expressions())

    def _joins(self) -> Op:
        tree = JoinTree(self._region, has_subquery, lambda op, conjunct: restrict(op, conjunct.copy(), self._subs))
        return tree.build(self._region, self._where)

    def _mapped(self, above: Callable[[Tree], Tree]) -> None:
        for item in self._items:
            item.tree = above(item.tree)
        self._having = [above(t) for t in self._having]
        self._qualify = [above(t) for t in self._qualify]
        self._order = [k.over(above(k.tree)) if k.tree is not None else k for k in self._order]

    def _hints(self) -> list[tuple[Tree, str]]:
        return [(i.tree, i.hint) for i in self._items]

    def _aggregate(self, op: Op, carried: Sequence[str]) -> Grouped:
        for tree in self._expressions():
            for call in aggregates(tree):
                if has_subquery(call):
                    op, _ = attach(op, call, self._subs)
        grouped = Grouped(op, self._groups or Groups(), self._hints(), carried, self._expressions())
        self._mapped(grouped.above)
        return grouped

    def _kept(self, op: Op, conjuncts: Sequence[Tree]) -> Op:
        plain = [t for t in conjuncts if not has_subquery(t)]
        op = Filter(op, predicate(plain)) if plain else op
        for tree in conjuncts:
            if has_subquery(tree):
                op = restrict(op, tree, self._subs)
        return op

    def _attached(self, op: Op) -> Op:
        """`op` joined with the sub-queries of the select list and ORDER BY."""
        for holder in (*self._items, *(k for k in self._order if k.tree is not None)):
            tree = holder.tree
            if tree is not None and has_subquery(tree):
                op, holder.tree = attach(op, detached(tree), self._subs)
        return op

    def _body(self, op: Op, carried: Sequence[str] = ()) -> Op:
        """All between WHERE and the projection."""
        if self._aggregated:
            op = self._aggregate(op, carried).op
            op = self._kept(op, self._having)
        elif any(has_grouping(t) for t in self._expressions()):
            refuse("grouping() and grouping_id() need GROUP BY", self._expressions()[0])
        op = self._attached(op)
        trees = [*(i.tree for i in self._items), *self._qualify, *(k.tree for k in self._order if k.tree is not None)]
        if any(find_windows(t) for t in trees):
            windowed = Windowed(op, trees, self._hints(), carried)
            self._mapped(windowed.above)
            op = windowed.op
        elif self._qualify:
            refuse("QUALIFY needs a window function", self._qualify[0], "use WHERE or HAVING")
        return self._kept(op, self._qualify)

    def bound(self, carried: Sequence[str] = ()) -> Bound:
        """The block as a sub-query: its columns under internal names, and those carried for correlation."""
        op = self._body(self._joins() if not carried else self._opened, carried)
        outputs = self._internal_outputs(op, carried)
        return self._finished(op, outputs, carried)[0]

    def final(self) -> tuple[Bound, tuple[SortKey, ...]]:
        """The block as the whole query: its columns under the user's names."""
        op = self._body(self._joins())
        columns, taken, outputs = by_name(op), set[str](), list[Output]()
        for item in self._items:
            name = fresh(item.spelling, {t for t in taken if t.lower() == item.spelling.lower()} | taken)
            name = name if name.lower() not in {t.lower() for t in taken} else fresh(name.lower(), {t.lower() for t in taken})
            taken.add(name)
            outputs.append(computed(name, item.tree, columns))
        return self._finished(op, outputs, ())

    def _internal_outputs(self, op: Op, carried: Sequence[str]) -> list[Output]:
        columns = by_name(op)
        taken = {i.tree.name for i in self._items if isinstance(i.tree, exp.Column)} | set(carried)
        made: dict[Expr, Output] = {}
        outputs: list[Output] = []
        for item in self._items:
            if isinstance(item.tree, exp.Column):
                outputs.append(passed(columns[item.tree.name]))
                continue
            tree = detached(item.tree)
            expr = Expr(tree)
            if expr not in made:
                made[expr] = computed(fresh(item.hint or slug(tree), taken), tree, columns)
                taken.add(made[expr].name)
            outputs.append(made[expr])
        return outputs

    def _finished(self, op: Op, outputs: list[Output], carried: Sequence[str]) -> tuple[Bound, tuple[SortKey, ...]]:
        shown = tuple(Shown(i.spelling, o.name) for i, o in zip(self._items, outputs, strict=True))
        columns = by_name(op)
        unique = list({o.name: o for o in (*outputs, *(passed(columns[c]) for c in carried))}.values())
        cut = not self._slice.whole
        keys, hidden = self._sort_keys(columns, unique, outputs, cut and not self._distinct)
        op = projected(op, [*unique, *hidden])
        if self._distinct:
            op = Aggregate(op, names(op.schema), ())
        if cut:
            op = top_of_each(op, keys, self._slice, carried) if carried else top(op, keys, self._slice)
        op = narrowed(op, [o.name for o in unique])
        seen = {o.name for o in unique}
        presented: list[SortKey] = []
        for key in keys:
            if key.column not in seen:
                break
            presented.append(key)
        return Bound(op, shown), tuple(presented)

    def _sort_keys(self, columns: dict[str, Column], unique: list[Output], outputs: list[Output], hide: bool) -> tuple[list[SortKey], list[Output]]:
        """The keys of ORDER BY as columns, and the columns that have to be added for them."""
        by_expr = {o.expr: o.name for o in reversed(unique)}
        taken = {o.name for o in unique}
        hidden: dict[Expr, Output] = {}
        keys: list[SortKey] = []
        for key in self._order:
            if key.item is not None:
                name = outputs[key.item].name
            else:
                assert key.tree is not None
                expr = Expr(detached(key.tree))
                name = by_expr.get(expr)
                if name is None and self._distinct:
                    refuse("ORDER BY of SELECT DISTINCT must use columns of the select list", key.tree, "add the expression to the select list")
                if name is None and expr in hidden:
                    name = hidden[expr].name
                if name is None:
                    name = fresh(expr.name or slug(expr.tree), taken)
                    hidden[expr] = computed(name, expr.tree, columns)
                    taken.add(name)
            keys.append(SortKey(name, key.descending, key.nulls_first))
        return keys, list(hidden.values()) if hide else []

    # As a sub-query of an expression.

    def nested(self, kind: str) -> Nested:
        """The block as a sub-query that may speak of outer columns."""
        if kind == "exists":
            self._for_existence()
        spoken = {c for t in self._all_trees() for c in columns_of(t) if c.startswith(OUTER)}
        outside = tuple(n for n in self._scope.outside if n in spoken)
        if not outside:
            return self._uncorrelated(kind)
        lifted = [t for t in (*self._where, *self._region.conjuncts) if _is_outer(t)]
        elsewhere = any(_is_outer(t) for t in self._all_trees() if not any(t is x for x in lifted))
        rigid = self._aggregated or not self._slice.whole or any(find_windows(t) for t in self._expressions())
        equal = all(equal_sides(t, outside) is not None for t in lifted)
        if elsewhere or any(has_subquery(t) for t in lifted) or (rigid and not equal):
            return self._for_each_outer_value(kind, outside)
        self._where = [t for t in self._where if not _is_outer(t)]
        self._region.conjuncts = [t for t in self._region.conjuncts if not _is_outer(t)]
        op = self._joins()
        if rigid:
            sides = [equal_sides(t, outside) for t in lifted]
            op, carried = named_columns(op, [(detached(s[0]), "") for s in sides if s])
            on = [(exp.NullSafeEQ if s[2] else exp.EQ)(this=column_tree(c), expression=s[1].copy()) for c, s in zip(carried, (s for s in sides if s), strict=True)]
        else:
            carried, on = sorted({c for t in lifted for c in columns_of(t) if not c.startswith(OUTER)}), lifted
        return self._tied(op, kind, outside, list(dict.fromkeys(carried)), on, equal, hole=False)

    def _for_existence(self) -> None:
        """Leave out what does not change whether there is a row."""
        if self._slice.limit == 0 or self._slice.offset:
            refuse("LIMIT 0 and OFFSET inside EXISTS are not supported", self._items[0].tree if self._items else None)
        self._slice = type(self._slice)(None, 0)
        self._distinct, self._order = False, []
        if not self._aggregated and not self._qualify:
            self._items = []

    def _all_trees(self) -> Iterable[Tree]:
        yield from self._where
        yield from self._region.trees()
        yield from self._expressions()
        if self._groups is not None:
            yield from self._groups.keys

    def _uncorrelated(self, kind: str) -> Nested:
        if kind == "exists" and not self._items:
            op = self._joins()
            return Nested(narrowed(op, names(op.schema)[:1]), ())
        bound = self.bound()
        if kind == "exists":
            return Nested(bound.op, ())
        return Nested(bound.op, tuple(s.base for s in bound.shown))

    def _for_each_outer_value(self, kind: str, outside: tuple[str, ...]) -> Nested:
        """The block with the outer values as one more factor of its joins."""
        called = {n: fresh("outer_" + n.lstrip(OUTER), self._scope.taken) for n in outside}
        hole = Hole(tuple(self._scope.outside[n]._replace(name=called[n]) for n in outside))
        source = Source("", hole, (), False, visible=False)
        self._scope.add(source)
        source.used = set(called.values())
        self._mapped(lambda t: renamed(t, called))
        self._where = [renamed(t, called) for t in self._where]
        self._rename_region(self._region, called)
        if self._groups is not None:
            self._groups.keys = [renamed(t, called) for t in self._groups.keys]
        self._region.factors.append(source)
        on: list[Tree] = [exp.NullSafeEQ(this=column_tree(called[n]), expression=column_tree(n)) for n in outside]
        return self._tied(self._joins(), kind, outside, list(called.values()), on, True, hole=True)

    def _rename_region(self, region: Region, called: dict[str, str]) -> None:
        region.conjuncts = [renamed(t, called) for t in region.conjuncts]
        for factor in region.factors:
            if isinstance(factor, Joined):
                if any(_is_outer(t) for t in (*factor.on, *factor.left.trees(), *factor.right.trees())):
                    refuse("an outer column in the ON clause of an outer join is not supported", factor.on[0], "move the condition into WHERE")

    def _tied(self, op: Op, kind: str, outside: tuple[str, ...], carried: list[str], on: list[Tree], equal: bool, hole: bool) -> Nested:
        if self._aggregated and self._groups is None or (self._groups is not None and not self._groups.keys and self._groups.sets is None):
            return self._one_value(op, kind, outside, carried, on, hole)
        if kind == "exists" and not self._items:
            return Nested(narrowed(op, carried), (), tuple(on), outside, hole, equal)
        self._opened = op
        bound = self.bound(carried)
        outputs = () if kind == "exists" else tuple(s.base for s in bound.shown)
        return Nested(bound.op, outputs, tuple(on), outside, hole, equal)

    def _one_value(self, op: Op, kind: str, outside: tuple[str, ...], carried: list[str], on: list[Tree], hole: bool) -> Nested:
        """A correlated aggregate without GROUP BY: it has a value also where no row matches, so the value is taken above the join."""
        if self._slice.limit == 0 or self._slice.offset:
            refuse("LIMIT 0 and OFFSET in a correlated sub-query are not supported", on[0])
        if len(self._items) != 1 and kind != "exists":
            refuse(f"a sub-query used as a value gives one column, this one gives {len(self._items)}", self._items[0].tree)
        if kind == "in" and self._having:
            refuse("IN with a correlated aggregate and HAVING is not supported", self._having[0], "compare with = and a scalar sub-query")
        grouped = self._aggregate(op, carried)
        trees = [*(i.tree for i in self._items), *self._having]
        if any(has_subquery(t) or find_windows(t) for t in trees):
            refuse("a sub-query or window inside a correlated aggregate is not supported", on[0], "compute it in a derived table or CTE")
        value: Tree = exp.true() if kind == "exists" else grouped.when_empty(self._items[0].tree)
        if self._having:
            held = exp.and_(*(grouped.when_empty(t) for t in self._having), copy=True)
            value = exp.Case(ifs=[exp.If(this=held, true=value)])
        if hole:
            value = renamed(value, dict(zip(carried, outside, strict=True)))
        return Nested(grouped.op, (), tuple(on), outside, hole, True, value)


def projected(op: Op, outputs: Sequence[Output]) -> Op:
    """The outputs as a projection, unless `op` has just these columns already."""
    same = all(o.expr.name == o.name for o in outputs) and {o.name for o in outputs} == set(names(op.schema))
    return op if same and [o.name for o in outputs] == list(names(op.schema)) else Project(op, tuple(outputs))


def _is_outer(tree: Tree) -> bool:
    return any(c.startswith(OUTER) for c in columns_of(tree))


class _GroupReader:
    """Reads the elements of GROUP BY into sets of positions."""

    def __init__(self, groups: Groups, key: Callable[[Tree], Tree]):
        self._groups = groups
        self._key = key

    def members(self, tree: Tree) -> tuple[int, ...]:
        """The keys of one element: several in parentheses, else one."""
        inside = tree.expressions if isinstance(tree, exp.Tuple) else [tree.unnest()]
        return tuple(self._groups.position(self._key(t)) for t in inside)

    def sets(self, tree: Tree, listed: Sequence[tuple[int, ...]] = ()) -> list[tuple[int, ...]]:
        if isinstance(tree, (exp.Rollup, exp.Cube)):
            parts = [self.members(e) for e in tree.expressions] or list(listed)
            return rollup(parts) if isinstance(tree, exp.Rollup) else cube(parts)
        if isinstance(tree, exp.GroupingSets):
            return [s for e in tree.expressions for s in self.sets(e)]
        return [self.members(tree)]
