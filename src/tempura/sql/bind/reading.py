"""The text of a select block, read: every name resolved, every sub-query bound, which tells what is used before the tree is built."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from tempura.errors import SqlError
from tempura.sql.bind.grouping import Groups, aggregates, cube, is_aggregate, rollup
from tempura.sql.bind.ordering import Key, each_of_all, key_of, ordered_terms, slice_of
from tempura.sql.bind.predicates import conjuncts_of, detached, replaced
from tempura.sql.bind.resolve import Resolver, always
from tempura.sql.bind.scope import OUTER, Scope, Tree, nearest, refuse
from tempura.sql.bind.select import Item, Select
from tempura.sql.bind.sources import Ctes, From
from tempura.sql.bind.subqueries import has_subquery
from tempura.sql.bind.timewindow import NAME, is_time_window
from tempura.sql.bind.types import clauses, kind_of

if TYPE_CHECKING:
    from tempura.sql.bind.query import Binder

_REFUSED = {
    "match": "MATCH_RECOGNIZE",
    "into": "SELECT INTO",
    "connect": "CONNECT BY",
    "kind": "SELECT AS STRUCT",
    "prewhere": "PREWHERE",
}


def read(binder: Binder, node: Tree, ctes: Ctes, scope: Scope) -> Select:
    """The select block of a tree. SORT BY, CLUSTER BY, DISTRIBUTE BY and hints say nothing about a bag, and are left out."""
    return _Reader(binder, node, ctes, scope).select()


class _Reader:
    """Reads the clauses of one block, in the order in which they see each other's names."""

    def __init__(self, binder: Binder, node: Tree, ctes: Ctes, scope: Scope):
        for clause, what in _REFUSED.items():
            if node.args.get(clause):
                refuse(f"{what} is not supported", node)
        self._scope = scope
        self._resolver = Resolver(binder, scope, ctes, {w.this.name.lower(): w for w in clauses(node, "windows")})
        self._subs = self._resolver.subs
        resolve = self._resolver.resolve
        reader = From(
            binder.catalog,
            ctes,
            scope,
            lambda q: binder.query(q, ctes, Scope(scope, lateral=False)),
            resolve,
        )
        self._region = reader.read(node)
        self._where = self._conjuncts(node, "where", resolve)
        self._resolver.window = self._time_window(node)
        self._resolver.takes_windows = True
        self._items = self._select_list(node)
        aliases = self._aliases = {i.spelling.lower(): i.tree for i in self._items if i.aliased}
        self._groups = self._group_by(node, lambda t: resolve(t, aliases))
        self._resolver.takes_windows = False
        self._resolver.keys = self._groups.keys if self._groups else []
        meant = self._shadowed(node)
        self._having = self._conjuncts(
            node, "having", lambda t: resolve(t, aliases, lambda c: any(c is m for m in meant)), aggregated=True
        )
        if node.args.get("having") is not None and self._groups is None:
            self._groups = Groups()  # HAVING makes one group of all rows, also if it is TRUE.
        self._qualify = self._conjuncts(node, "qualify", lambda t: resolve(t, aliases), aggregated=True)
        self._slice = slice_of(node)
        self._distinct = self._is_distinct(node)
        self._order = [self._key(term, aliases) for term in self._order_terms(node)]

    def select(self) -> Select:
        asked = self._resolver.time_window
        window = asked.added(self._scope, self._region, self._where) if asked is not None else None
        return Select(self._scope, self._region, self._where, self._items, self._groups, self._having, self._qualify, self._order, self._slice,
                      self._distinct, self._subs, window)  # fmt: skip

    def _conjuncts(
        self, node: Tree, clause: str, resolve: Callable[[Tree], Tree], aggregated: bool = False
    ) -> list[Tree]:
        found = node.args.get(clause)
        if found is None:
            return []
        trees = conjuncts_of(resolve(found.this))
        for tree in trees:
            call = next(aggregates(tree), None)
            if call is not None and not aggregated:
                if any(c.name.startswith(OUTER) for c in call.find_all(exp.Column)):
                    refuse(
                        f"an aggregate of the query around is not supported in a sub-query: {_shown(call)}",
                        call,
                        "aggregate in a derived table first",
                    )
                refuse(f"an aggregate in WHERE: {_shown(call)}", call, "put the condition into HAVING")
            window = next(tree.find_all(exp.Window), None)
            if window is not None and clause != "qualify":
                refuse(
                    f"a window function in {clause.upper()}: {_shown(window)}", window, "put the condition into QUALIFY"
                )
        return trees

    def _time_window(self, node: Tree) -> Tree:
        """The window() that is grouped by or selected, as it is written: `window` is a name of it."""
        parts = [p for p in (node.args.get("group"), *node.expressions) if p is not None]
        own = (t for part in parts for t in part.walk(prune=_is_query))
        return next((t.copy() for t in own if is_time_window(t)), None)

    def _shadowed(self, node: Tree) -> list[exp.Column]:
        """The columns of HAVING that would mean nothing there, so that aliases of their names are meant; to be asked while all of it is as it was written."""
        having = node.args.get("having")
        columns = having.find_all(exp.Column) if having is not None else ()
        return [column for column in columns if self._neither_grouped_nor_aggregated(column)]

    def _neither_grouped_nor_aggregated(self, column: exp.Column) -> bool:
        keys = self._groups.keys if self._groups else []
        kinds = {kind_of(key) for key in keys}
        part: Tree = column
        while part is not None and not isinstance(part, exp.Having):
            # A column may be grouped by as something else: a field, or what USING has merged.
            wanted = part is column or kind_of(part) in kinds
            if is_aggregate(part) or (wanted and self._resolved(part) in keys):
                return False
            part = part.parent
        return True

    def _resolved(self, tree: Tree) -> Tree:
        """A part of HAVING over internal names, if all of its columns are the block's own."""
        try:
            return replaced(detached(tree), lambda t: self._scope.own(t) if isinstance(t, exp.Column) else None)
        except SqlError:
            return None

    def _is_distinct(self, node: Tree) -> bool:
        distinct = node.args.get("distinct")
        if distinct is not None and distinct.args.get("on") is not None:
            refuse("DISTINCT ON is not supported", distinct, "use QUALIFY row_number() OVER (…) = 1")
        return distinct is not None

    def _select_list(self, node: Tree) -> list[Item]:
        items: list[Item] = []
        for tree in list(node.expressions):
            star = (
                tree
                if isinstance(tree, exp.Star)
                else tree.this
                if isinstance(tree, exp.Column) and isinstance(tree.this, exp.Star)
                else None
            )
            if star is not None:
                items += self._star(tree, star)
                continue
            if isinstance(tree, exp.Aliases):
                refuse("a function that gives several columns is not supported in the select list", tree)
            lateral = {i.spelling.lower(): i.tree for i in items if i.aliased}
            body = (tree.this if isinstance(tree, exp.Alias) else tree).unnest()
            aliased = isinstance(tree, exp.Alias)
            spelling = tree.alias if aliased else _spelling(body)
            items.append(Item(detached(self._resolver.resolve(body, lateral)), spelling, aliased))
        return items

    def _star(self, tree: Tree, star: Tree) -> list[Item]:
        if star.args.get("replace") or star.args.get("rename"):
            refuse("* REPLACE and * RENAME are not supported", tree, "name the columns")
        dropped = {c.name.lower() for c in clauses(star, "except_")}
        alias = tree.args["table"].name.lower() if tree.args.get("table") else ""
        found = self._scope.star(tree, alias)
        unknown = dropped - {spelling.lower() for spelling, _ in found}
        if unknown:
            name = min(unknown)
            refuse(
                f"EXCEPT names {name!r}, which `*` does not have", tree, nearest(name, [s.lower() for s, _ in found])
            )
        return [Item(t, spelling, False) for spelling, t in found if spelling.lower() not in dropped]

    def _group_by(self, node: Tree, resolve: Callable[[Tree], Tree]) -> Groups | None:
        clause = node.args.get("group")
        if clause is None:
            return None
        groups = Groups()
        if clause.args.get("all"):
            groups.keys = [i.tree for i in self._items if next(aggregates(i.tree), None) is None]
            for key in groups.keys:
                _refuse_subquery(key)
            return groups
        part = _GroupReader(groups, lambda t: self._group_key(t, resolve))
        sets: list[tuple[int, ...]] = [()]
        elements = list(clause.expressions)
        wholes: list[Tree] = [w for kind in ("rollup", "cube", "grouping_sets") for w in clauses(clause, kind)]
        listed = (
            [part.members(e) for e in elements]
            if any(not w.expressions for w in wholes) or clause.args.get("grouping_sets")
            else []
        )
        for element in (*(elements if not listed else ()), *wholes):
            added = part.sets(element, listed)
            sets = [tuple(dict.fromkeys((*a, *b))) for a in sets for b in added]
        if wholes or any(isinstance(e, (exp.Rollup, exp.Cube, exp.GroupingSets)) for e in elements):
            groups.sets = sets
        return groups

    def _group_key(self, tree: Tree, resolve: Callable[[Tree], Tree]) -> Tree:
        if isinstance(tree, exp.Literal) and not tree.args.get("is_string") and tree.name.isdigit():
            key = self._items[self._ordinal(tree)].tree.copy()
        elif (
            isinstance(tree, exp.Column)
            and not tree.table
            and tree.name.lower() in self._aliases
            and self._scope.own(tree) is None
        ):
            key = self._aliases[tree.name.lower()].copy()
        else:
            key = detached(resolve(tree)).unnest()
        call = next(aggregates(key), None)
        if call is not None:
            refuse(f"an aggregate in GROUP BY: {_shown(call)}", tree, "group by what it is computed from")
        _refuse_subquery(key)
        return detached(key)

    def _ordinal(self, tree: Tree) -> int:
        number = int(tree.name)
        if not 1 <= number <= len(self._items):
            refuse(f"position {number} is not in the select list, which has {len(self._items)} columns", tree)
        return number - 1

    def _order_terms(self, node: Tree) -> list[Tree]:
        return each_of_all(ordered_terms(node), len(self._items))

    def _key(self, term: Tree, aliases: dict[str, Tree]) -> Key:
        tree = term.this
        if isinstance(tree, exp.Literal) and not tree.args.get("is_string") and tree.name.isdigit():
            return key_of(term, None, self._ordinal(tree))
        if isinstance(tree, exp.Column) and not tree.table:
            found = [n for n, i in enumerate(self._items) if i.spelling.lower() == tree.name.lower()]
            if found and (len({self._items[n].tree for n in found}) == 1 or self._items[found[0]].aliased):
                return key_of(term, None, found[0])
        resolved = detached(self._resolver.resolve(tree, {**self._columns_shown(), **aliases}, alias_first=always))
        item = next((n for n, i in enumerate(self._items) if i.tree == resolved), None)
        return key_of(term, resolved if item is None else None, item)

    def _columns_shown(self) -> dict[str, Tree]:
        """The columns of the select list under their own names, which ORDER BY looks for there first, unless two have the same."""
        shown: dict[str, list[Tree]] = {}
        for item in self._items:
            if isinstance(item.tree, exp.Column):
                shown.setdefault(item.spelling.lower(), []).append(item.tree)
        return {name: trees[0] for name, trees in shown.items() if len(set(trees)) == 1}


def _is_query(tree: Tree) -> bool:
    return isinstance(tree, exp.Query)


def _refuse_subquery(key: Tree) -> None:
    if has_subquery(key):
        refuse("a sub-query in GROUP BY is not supported", key, "compute it in a derived table first")


def _spelling(tree: Tree) -> str:
    """The name of an output that the user gave none: as in Spark, the column's own, or the text of the expression."""
    tree = replaced(tree.copy(), lambda t: exp.column(NAME) if is_time_window(t) else None)
    if isinstance(tree, exp.Column):
        return tree.name
    return "scalarsubquery()" if isinstance(tree, exp.Query) else tree.sql(dialect="spark").lower()


def _shown(tree: Tree) -> str:
    """The text of a tree, with columns called as the user calls them."""
    tree = tree.copy()
    for column in tree.find_all(exp.Column):
        column.this.set("this", column.meta.get("user", column.name.lstrip(OUTER)))
    return tree.sql(dialect="spark").replace("`", "").lower()


class _GroupReader:
    """Reads the elements of GROUP BY into sets of positions."""

    def __init__(self, groups: Groups, key: Callable[[Tree], Tree]):
        self.groups = groups
        self._key = key

    def members(self, tree: Tree) -> tuple[int, ...]:
        """The keys of one element: several in parentheses, else one."""
        inside = tree.expressions if isinstance(tree, exp.Tuple) else [tree.unnest()]
        return tuple(self.groups.position(self._key(t)) for t in inside)

    def sets(self, tree: Tree, listed: Sequence[tuple[int, ...]] = ()) -> list[tuple[int, ...]]:
        if isinstance(tree, (exp.Rollup, exp.Cube)):
            parts = [self.members(e) for e in tree.expressions] or list(listed)
            return rollup(parts) if isinstance(tree, exp.Rollup) else cube(parts)
        if isinstance(tree, exp.GroupingSets):
            return [s for e in tree.expressions for s in self.sets(e)]
        return [self.members(tree)]
