"""What names mean: the sources of a select block, and which column an identifier speaks of.

A source shows columns under visible names; inside the block every column has an internal name, unique among all sources, which is
the base column's own name unless an earlier source has it already. A name that no source knows is looked for in the enclosing
query: such a column is **outer**, and its internal name carries `OUTER` once for every level between.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NoReturn

from sqlglot import exp

from tempura.algebra import Op
from tempura.errors import SqlError
from tempura.expr import column_tree
from tempura.schema import Column, fresh
from tempura.sql.bind.types import UNKNOWN, Tree, infer

OUTER = "^"
"""Begins the internal name of a column of the enclosing query."""


def position(tree: Any) -> tuple[int, int] | tuple[None, None]:
    """Line and column of the first token of `tree` that the parser kept the place of, or of what encloses it."""
    while tree is not None:
        metas = [part.meta for part in tree.walk() if "line" in part.meta]
        if metas:
            first = min(metas, key=lambda meta: meta["start"])
            return first["line"], first["col"] - (first["end"] - first["start"])
        tree = tree.parent
    return None, None


def refuse(message: str, tree: Tree = None, hint: str = "") -> NoReturn:
    """Raise the error at the place of `tree`."""
    line, column = position(tree)
    raise SqlError(message, hint=hint, line=line, column=column)


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint that names what the user may have meant."""
    known = list(dict.fromkeys(known))
    close = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.6)
    return (
        f"did you mean {close[0]!r}?"
        if close
        else f"known here: {', '.join(known[:12])}" + (", …" if len(known) > 12 else "")
    )


@dataclass(frozen=True)
class Shown:
    """A column as a source shows it: its visible name as spelled, and the column of the source's tree it is."""

    spelling: str
    base: str

    @property
    def name(self) -> str:
        return self.spelling.lower()


@dataclass(frozen=True)
class Offer:
    """A column that FROM offers to the block, over internal names: `*` is all that are not hidden, in their order."""

    spelling: str
    tree: Tree
    source: Source | None = None
    """Whose column it is; that of a FULL JOIN with USING is nobody's."""
    hidden: bool = False
    """USING shows the column that it is equal to instead: it is reached by the source's alias only."""

    @property
    def name(self) -> str:
        return self.spelling.lower()


@dataclass(eq=False)
class Source:
    """One item of FROM: its alias, its tree, the columns it shows, their internal names, and those that are used."""

    alias: str
    op: Op
    shown: tuple[Shown, ...]
    internal: dict[str, str] = field(default_factory=dict[str, str])
    """Column of `op` → internal name."""
    used: set[str] = field(default_factory=set[str])
    """Columns of `op` that the block speaks of."""
    visible: bool = True
    """The right side of a semi- or anti-join is seen by its ON clause only."""
    offers: tuple[Offer, ...] = ()
    """The columns that it shows, over their internal names."""

    def find(self, name: str) -> list[Offer]:
        return [o for o in self.offers if o.name == name]


class Scope:
    """The names of one select block."""

    def __init__(self, outer: Scope | None = None, lateral: bool = True):
        self.outer = outer
        self.lateral = lateral
        """Whether the enclosing query's columns may be used: not inside FROM."""
        self.sources: list[Source] = []
        self.taken: set[str] = set()
        self.offers: list[Offer] = []
        """What unqualified names and `*` mean: while FROM is read, on both sides of the join at hand."""
        self.outside: dict[str, Column] = {}
        """The outer columns the block speaks of, by internal name."""
        self.window: Column | None = None
        """The column that a window() of the block is."""

    def add(self, source: Source) -> Source:
        for column in source.op.schema:
            self.taken.add(source.internal.setdefault(column.name, fresh(column.name.lower(), self.taken)))
        self.sources.append(source)
        source.offers = tuple(Offer(s.spelling, column_tree(source.internal[s.base]), source) for s in source.shown)
        self.offers = [*self.offers, *source.offers]
        return source

    def columns(self) -> dict[str, Column]:
        """Every column of the block by internal name, outer ones included."""
        found = dict(self.outside)
        if self.window is not None:
            found[self.window.name] = self.window
        for source in self.sources:
            found |= {
                source.internal[c.name]: Column(source.internal[c.name], c.type, c.nullable) for c in source.op.schema
            }
        return found

    def resolve(self, tree: exp.Column) -> Tree:
        """What a column of the text stands for, as a tree over internal names."""
        found = self.own(tree) or self._enclosing(tree)
        if found is None:
            self._unknown(tree)
        return found

    def own(self, tree: exp.Column) -> Tree:
        """The same among this block's own sources; None if none of them knows the name."""
        parts = [p.name.lower() for p in tree.parts]
        named: list[Source] = []
        for i in range(len(parts) - 1, 0, -1):
            alias = ".".join(parts[:i])
            named = self.named(alias)
            if len(named) > 1:
                refuse(f"{alias!r} names more than one table of this FROM clause", tree, "give each its own alias")
            found = named[0].find(parts[i]) if named else []
            if found:
                return fields(self._one(tree, found), tree.parts[i + 1 :])
        column = self._unqualified(tree, parts[0])
        if column is None:
            return None
        if named and not infer(column, self.columns()).type.startswith(("struct", UNKNOWN)):
            return None  # A misspelt column of a table, and no field of the column that is called like the table.
        return fields(column, tree.parts[1:])

    def named(self, alias: str) -> list[Source]:
        """The sources that may be called so."""
        return [s for s in self.sources if s.visible and alias in (s.alias, s.alias.rpartition(".")[2])]

    def has(self, tree: exp.Column) -> bool:
        """Whether a name begins with that of a source, and goes on with one of its columns."""
        parts = [p.name.lower() for p in tree.parts]
        prefixes = (self.named(".".join(parts[:i])) for i in range(1, len(parts)))
        return any(source.find(parts[i]) for i, found in enumerate(prefixes, 1) for source in found)

    def _unqualified(self, tree: exp.Column, name: str) -> Tree:
        found = [o for o in self.offers if o.name == name and not o.hidden]
        return self._one(tree, found) if found else None

    def use(self, tree: Tree) -> Tree:
        """A copy of a tree over internal names, whose columns count as used."""
        wanted = {c.name for c in tree.find_all(exp.Column)}
        for source in self.sources:
            source.used |= {base for base, name in source.internal.items() if name in wanted}
        return tree.copy()

    def _one(self, tree: exp.Column, found: list[Offer]) -> Tree:
        if len({o.tree for o in found}) > 1:
            owners = ", ".join(f"{(o.source and o.source.alias) or 'a sub-query'}.{tree.name}" for o in found)
            refuse(
                f"column {tree.name!r} is ambiguous: {owners}", tree, "write the table's name or alias in front of it"
            )
        return self.use(found[0].tree)

    def _enclosing(self, tree: exp.Column) -> Tree:
        if self.outer is None:
            return None
        found = self.outer.own(tree) or self.outer._enclosing(tree)
        if found is None:
            return None
        if not self.lateral:
            refuse(
                f"{tree.sql()!r} belongs to the query around this derived table or set operation, which cannot see it",
                tree,
                "LATERAL is not supported: put the condition into the WHERE clause of the sub-query itself",
            )
        known = self.outer.columns()
        found = found.copy()
        for column in list(found.find_all(exp.Column)):
            name = OUTER + column.name
            self.outside[name] = known[column.name]._replace(name=name)
            column.this.set("this", name)
        return found

    def _unknown(self, tree: exp.Column) -> NoReturn:
        self._refuse_missing(tree)
        if tree.table:
            aliases = [s.alias for s in self.sources if s.alias]
            refuse(
                f"no table {tree.table!r} in this FROM clause", tree, nearest(tree.table, aliases) if aliases else ""
            )
        known = [s.name for source in self.sources if source.visible for s in source.shown]
        refuse(
            f"unknown column {tree.name!r}",
            tree,
            nearest(tree.name, known) if known else "this query has no FROM clause",
        )

    def _refuse_missing(self, tree: exp.Column) -> None:
        """Refuse a name that begins with that of a source, here or in a query around, which has no such column."""
        parts = [p.name.lower() for p in tree.parts]
        for i in range(len(parts) - 1, 0, -1):
            for source in self.named(".".join(parts[:i])):
                known = [s.name for s in source.shown]
                refuse(f"{source.alias!r} has no column {parts[i]!r}", tree, nearest(parts[i], known))
        if self.outer is not None:
            self.outer._refuse_missing(tree)

    def star(self, tree: Tree, alias: str) -> list[tuple[str, Tree]]:
        """The columns that `*` or `alias.*` stands for, with their spelling."""
        if not self.sources or (alias and not self.named(alias)):
            if any(o.name == alias for o in self.offers):
                refuse(f"{alias!r} is a column, and `*` is of tables", tree, f"name its fields: {alias}.a, {alias}.b")
            refuse(f"no table {alias!r} in this FROM clause" if alias else "`*` needs a FROM clause", tree)
        if alias:
            owned = [o for o in self.offers if any(o.source is s for s in self.named(alias))]
            found = sorted(owned, key=lambda o: not o.hidden)
        else:
            found = [o for o in self.offers if not o.hidden]
        return [(o.spelling, self.use(o.tree)) for o in found]


def fields(tree: Tree, fields: Iterable[Any]) -> Tree:
    """Access to the fields of a struct: what follows the column's name."""
    for name in fields:
        tree = exp.Dot(this=tree, expression=name.copy())
    return tree
