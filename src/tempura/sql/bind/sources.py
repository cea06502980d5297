"""FROM: its items become sources of the scope, its joins a region."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from tempura.algebra import Op, Scan, Values
from tempura.catalog import Catalog
from tempura.expr import Expr
from tempura.schema import Column
from tempura.sql.bind.grouping import aggregates
from tempura.sql.bind.predicates import conjuncts_of
from tempura.sql.bind.scope import Scope, Shown, Source, Tree, nearest, refuse
from tempura.sql.bind.tables import Joined, Region
from tempura.sql.bind.types import clauses, infer, widened


@dataclass(frozen=True)
class Bound:
    """A bound query: its tree, and the columns it shows in order; two of them may be the same column of the tree."""

    op: Op
    shown: tuple[Shown, ...]


Ctes = Mapping[str, Bound]
ONE_ROW = Values((Column("one", "int", False),), ((Expr(exp.Literal.number(1)),),))
"""What a query without FROM reads."""


class From:
    """Reads one FROM clause into a scope."""

    def __init__(
        self,
        catalog: Catalog,
        ctes: Ctes,
        scope: Scope,
        derived: Callable[[Tree], Bound],
        resolve: Callable[[Tree], Tree],
    ):
        self._catalog = catalog
        self._ctes = ctes
        self._scope = scope
        self._derived = derived
        self._resolve = resolve

    def read(self, select: Tree) -> Region:
        for view in clauses(select, "laterals"):
            refuse("LATERAL VIEW is not supported", view, "explode the column before, into a table of its own")
        clause = select.args.get("from_")
        if clause is None:
            source = self._scope.add(Source("", ONE_ROW, ()))
            return Region([source])
        return self._relation(clause.this, clauses(select, "joins"))

    def _relation(self, item: Tree, joins: Sequence[Tree]) -> Region:
        """An item and what it is joined with, from left to right: to Spark a comma is a CROSS JOIN that binds no looser than others."""
        region = self._item(item)
        for join in joins:
            region = self._join(region, join)
        return region

    def _join(self, left: Region, join: Tree) -> Region:
        side, kind, method = (join.side or "").upper(), (join.kind or "").upper(), (join.method or "").upper()
        if method not in ("", "NATURAL") or kind not in ("", "INNER", "CROSS", "OUTER", "SEMI", "ANTI"):
            refuse(f"{' '.join(w for w in (method, side, kind) if w)} JOIN is not supported", join.this)
        before = [s for s in left.sources() if s.visible]
        right = self._item(join.this)
        on = self._condition(join, before, list(right.sources()), side, kind, method)
        if kind in ("SEMI", "ANTI"):
            for source in right.sources():
                source.visible = False
            return Region([Joined("semi" if kind == "SEMI" else "anti", left, right, on)])
        if side == "LEFT":
            return Region([Joined("left", left, right, on)])
        if side == "RIGHT":
            return Region([Joined("left", right, left, on)])
        if side == "FULL":
            return Region([Joined("full", left, right, on)])
        return left.with_(right, on)

    def _condition(
        self, join: Tree, left: list[Source], right: list[Source], side: str, kind: str, method: str
    ) -> list[Tree]:
        using = [i.name.lower() for i in clauses(join, "using")]
        if method == "NATURAL":
            theirs = {s.name for source in right for s in source.shown}
            using = list(dict.fromkeys(s.name for source in left for s in source.shown if s.name in theirs))
        if not using:
            on = conjuncts_of(self._resolve(join.args["on"])) if join.args.get("on") is not None else []
            for tree in on:
                call = next(aggregates(tree), None)
                if call is not None:
                    refuse("an aggregate in ON", call, "aggregate in a derived table, and join that")
            return on
        equalities = [self._merged(join, name, left, right, side, kind) for name in using]
        # `*` shows the columns that the last join merged first.
        shared = self._scope.shared
        self._scope.shared = {name: shared[name] for name in using if name in shared} | shared
        return equalities

    def _merged(self, join: Tree, name: str, left: list[Source], right: list[Source], side: str, kind: str) -> Tree:
        """The equality that USING says for one column, which is one column for unqualified names from here on."""
        scope = self._scope
        a = scope.shared[name].copy() if name in scope.shared else self._only(join, name, left)
        b = self._only(join, name, right)
        scope.touch(a)
        if kind not in ("SEMI", "ANTI"):
            if side == "FULL":
                scope.shared[name] = exp.Coalesce(this=a.copy(), expressions=[b.copy()])
            else:
                scope.shared[name] = (b if side == "RIGHT" else a).copy()
            for source in (*left, *right):
                if source.find(name):
                    source.merged.add(name)
        return exp.EQ(this=a, expression=b)

    def _only(self, join: Tree, name: str, sources: list[Source]) -> Tree:
        found = [(s, base) for s in sources for base in s.find(name)]
        if len(found) != 1:
            known = [s.name for source in sources for s in source.shown]
            what = "is ambiguous on" if found else "does not exist on"
            refuse(
                f"column {name!r} of USING {what} one side of the join",
                join.args.get("using", [join])[0],
                nearest(name, known),
            )
        return found[0][0].use(found[0][1])

    def _item(self, item: Tree) -> Region:
        for clause, what in (
            ("pivots", "PIVOT and UNPIVOT are"),
            ("sample", "TABLESAMPLE is"),
            ("version", "time travel is"),
        ):
            if item.args.get(clause):
                refuse(f"{what} not supported", item, "let a query write what you need into a table of its own")
        if isinstance(item, exp.Table):
            if item.args.get("joins"):
                joins = item.args["joins"]
                item.set("joins", None)
                return self._relation(item, joins)
            return Region([self._table(item)])
        if isinstance(item, exp.Subquery):
            return self._parenthesised(item)
        if isinstance(item, exp.Values):
            return Region([self._source(item, values(item))])
        name = "LATERAL" if isinstance(item, exp.Lateral) else type(item).__name__.upper()
        refuse(f"{name} in FROM is not supported", item, "use a table, a sub-query or VALUES")

    def _parenthesised(self, item: Tree) -> Region:
        inner = item.this
        if isinstance(inner, (exp.Table, exp.Subquery)) and (
            isinstance(inner, exp.Table) or inner.args.get("joins") or inner.args.get("alias")
        ):
            if item.args.get("alias"):
                refuse(
                    "an alias for a join in parentheses is not supported",
                    item.args["alias"],
                    "select from the join, and give that an alias",
                )
            joins = clauses(inner, "joins")
            inner.set("joins", None)
            return self._relation(inner, joins)
        joins = clauses(item, "joins")
        if joins:
            item.set("joins", None)
            return self._relation(item, joins)
        return Region([self._source(item, self._derived(inner))])

    def _table(self, item: Tree) -> Source:
        if not isinstance(item.this, exp.Identifier):
            refuse(
                f"the table function {item.this.sql(dialect='spark')} is not supported",
                item,
                "write its rows into a table",
            )
        name = item.name.lower()
        path = ".".join(p.name.lower() for p in item.parts)
        if path == name and name in self._ctes:
            return self._source(item, self._ctes[name], name)
        found = self._catalog.get(path) or self._catalog.get(name)
        if found is None:
            refuse(f"unknown table {path!r}", item, nearest(name, [*self._ctes, *self._catalog]))
        scan = Scan(found.name, found.columns, found.key)
        bound = Bound(scan, tuple(Shown(c.name, c.name) for c in found.columns))
        return self._source(item, bound, path)

    def _source(self, item: Tree, bound: Bound, name: str = "") -> Source:
        alias = item.args.get("alias")
        shown = bound.shown
        if alias is not None and alias.args.get("columns"):
            shown = relabelled(shown, alias.args["columns"], alias)
        return self._scope.add(Source((alias.name if alias and alias.name else name).lower(), bound.op, shown))


def relabelled(shown: tuple[Shown, ...], columns: Sequence[Tree], tree: Tree) -> tuple[Shown, ...]:
    """The columns under the names of an alias such as `t(a, b)`."""
    if len(columns) != len(shown):
        refuse(f"{len(columns)} column names are given for {len(shown)} columns", tree, "name every column")
    return tuple(Shown(c.name, s.base) for c, s in zip(columns, shown, strict=True))


def values(item: Tree) -> Bound:
    """A VALUES list; its columns are called col1, col2, … as in Spark."""
    rows: list[list[Tree]] = [
        list(r.expressions) if isinstance(r, exp.Tuple) else [r.unnest()] for r in item.expressions
    ]
    width = len(rows[0])
    for row in rows:
        if len(row) != width:
            refuse(
                f"a row of VALUES has {len(row)} values, the first has {width}",
                row[0],
                "give every row the same number",
            )
        for value in row:
            if next(value.find_all(exp.Column, exp.Query), None) is not None:
                refuse("VALUES takes constants only", value, "select from a table instead")
    kinds = [[infer(row[i], {}) for row in rows] for i in range(width)]
    columns = tuple(
        Column(f"col{i + 1}", widened(k.type for k in kind), any(k.nullable for k in kind))
        for i, kind in enumerate(kinds)
    )
    op = Values(columns, tuple(tuple(Expr(v.copy()) for v in row) for row in rows))
    return Bound(op, tuple(Shown(c.name, c.name) for c in columns))
