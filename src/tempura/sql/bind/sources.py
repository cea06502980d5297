"""FROM: its items become sources of the scope, its joins a region."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from tempura.algebra import Op, Scan, Values
from tempura.catalog import Catalog
from tempura.expr import Expr
from tempura.schema import Column
from tempura.sql.bind.grouping import aggregates
from tempura.sql.bind.predicates import conjuncts_of
from tempura.sql.bind.scope import Offer, Scope, Shown, Source, Tree, nearest, refuse
from tempura.sql.bind.tables import Joined, Region
from tempura.sql.bind.types import clauses, infer, widened


@dataclass(frozen=True)
class Bound:
    """A bound query: its tree, and the columns it shows in order; two of them may be the same column of the tree."""

    op: Op
    shown: tuple[Shown, ...]


Ctes = Mapping[str, Bound]
Using = Sequence[tuple[Offer, Offer]]
"""The columns that USING or NATURAL make equal, of the left side and of the right."""
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
        _refuse_clauses(join, join.this)
        right = self._item(join.this)
        half = kind in ("SEMI", "ANTI")
        self._scope.offers = [*left.offers, *right.offers]
        using = self._using(join, left, right, method)
        on = self._equal(using) if using else self._condition(join)
        region = _joined(left, right, on, side, kind)
        region.offers = _merged(using, left.offers if half else self._scope.offers, side, half)
        for source in right.sources() if half else ():
            source.visible = False
        self._scope.offers = region.offers
        return region

    def _condition(self, join: Tree) -> list[Tree]:
        on = conjuncts_of(self._resolve(join.args["on"])) if join.args.get("on") is not None else []
        for tree in on:
            call = next(aggregates(tree), None)
            if call is not None:
                refuse("an aggregate in ON", call, "aggregate in a derived table, and join that")
        return on

    def _using(self, join: Tree, left: Region, right: Region, method: str) -> Using:
        names: Iterable[str] = [i.name.lower() for i in clauses(join, "using")]
        if method == "NATURAL":
            theirs = {o.name for o in right.offers if not o.hidden}
            names = dict.fromkeys(o.name for o in left.offers if not o.hidden and o.name in theirs)
        return [(self._only(join, name, left), self._only(join, name, right)) for name in names]

    def _equal(self, using: Using) -> list[Tree]:
        return [exp.EQ(this=self._scope.use(a.tree), expression=self._scope.use(b.tree)) for a, b in using]

    def _only(self, join: Tree, name: str, side: Region) -> Offer:
        known = [o for o in side.offers if not o.hidden]
        found = {o.tree: o for o in known if o.name == name}
        if len(found) != 1:
            what = "is ambiguous on" if found else "does not exist on"
            refuse(
                f"column {name!r} of USING {what} one side of the join",
                join.args.get("using", [join])[0],
                nearest(name, [o.name for o in known]),
            )
        return next(iter(found.values()))

    def _item(self, item: Tree) -> Region:
        _refuse_clauses(item, item)
        if isinstance(item, exp.Table):
            if item.args.get("joins"):
                joins = item.args["joins"]
                item.set("joins", None)
                return self._relation(item, joins)
            return _read(self._table(item))
        if isinstance(item, exp.Subquery):
            return self._parenthesised(item)
        if isinstance(item, exp.Values):
            return _read(self._source(item, values(item)))
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
        return _read(self._source(item, self._derived(inner)))

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
        scan = Scan(found.name, found.columns, found.trusted)
        bound = Bound(scan, tuple(Shown(c.name, c.name) for c in found.columns))
        return self._source(item, bound, path)

    def _source(self, item: Tree, bound: Bound, name: str = "") -> Source:
        alias = item.args.get("alias")
        shown = bound.shown
        if alias is not None and alias.args.get("columns"):
            shown = relabelled(shown, alias.args["columns"], alias)
        return self._scope.add(Source((alias.name if alias and alias.name else name).lower(), bound.op, shown))


def _refuse_clauses(tree: Tree, item: Tree) -> None:
    """What may follow an item of FROM, or a join with it, and is not supported."""
    for clause, what in (
        ("pivots", "PIVOT and UNPIVOT are"),
        ("sample", "TABLESAMPLE is"),
        ("version", "time travel is"),
    ):
        if tree.args.get(clause):
            refuse(f"{what} not supported", item, "let a query write what you need into a table of its own")


def _read(source: Source) -> Region:
    return Region([source], offers=[*source.offers])


def _joined(left: Region, right: Region, on: list[Tree], side: str, kind: str) -> Region:
    if kind in ("SEMI", "ANTI"):
        return Region([Joined("semi" if kind == "SEMI" else "anti", left, right, on)])
    if side == "LEFT":
        return Region([Joined("left", left, right, on)])
    if side == "RIGHT":
        return Region([Joined("left", right, left, on)])
    if side == "FULL":
        return Region([Joined("full", left, right, on)])
    return left.with_(right, on)


def _merged(using: Using, offers: Sequence[Offer], side: str, half: bool) -> list[Offer]:
    """What a join offers: as in Spark, of two columns that USING makes equal it shows one, before all others."""
    left, right = [a for a, _ in using], [b for _, b in using]
    shown, hidden = (right, left) if side == "RIGHT" else (left, [] if half else right)
    if side == "FULL":
        shown = [Offer(a.spelling, exp.Coalesce(this=a.tree.copy(), expressions=[b.tree.copy()])) for a, b in using]
        hidden = [*left, *right]
    names = {o.name for o in left}
    rest = [o for o in offers if o.hidden or o.name not in names]
    return [*(replace(o, hidden=True) for o in hidden), *shown, *rest]


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
