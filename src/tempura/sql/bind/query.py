"""From Spark SQL text to the algebra.

    bind("SELECT category, sum(price) AS gross FROM sales GROUP BY category", catalog)

Names are resolved and the tree is built in one pass per select block; CTEs are bound once and their tree is shared by all uses. What
cannot be bound is a `SqlError` that names the construct and its place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

from tempura.algebra import Op, SortKey
from tempura.catalog import Catalog
from tempura.errors import SqlError
from tempura.expr import column_tree
from tempura.schema import reserved
from tempura.sql.bind.correlated import nested
from tempura.sql.bind.equalities import with_casts
from tempura.sql.bind.ordering import each_of_all, key_of, ordered_terms, slice_of, top
from tempura.sql.bind.predicates import detached
from tempura.sql.bind.projection import by_name, named_columns, narrowed, passed, projected, unique_spellings
from tempura.sql.bind.reading import read
from tempura.sql.bind.scope import Scope, Shown, Source, Tree, refuse
from tempura.sql.bind.setops import combined
from tempura.sql.bind.sources import Bound, Ctes, relabelled, values
from tempura.sql.bind.subqueries import Nested
from tempura.sqltext import as_written, piped, read_statements


@dataclass(frozen=True)
class Query:
    """A query bound to tables: its name, its text, its tree, and the order in which its rows are presented."""

    name: str
    text: str
    root: Op
    order: tuple[SortKey, ...]
    """ORDER BY. Where it needs columns that are not shown, the root is a projection of a TopK by them, and nothing else sorts."""


def bind(text: str, catalog: Catalog, name: str = "result") -> Query:
    """The query of `text` over the tables of `catalog`; raises SqlError for what cannot be bound."""
    try:
        bound, order = Binder(catalog).whole(parsed(text))
    except RecursionError:
        hint = "write a long chain of OR as IN (…), one of AND as several sub-queries"
        raise SqlError("the query is nested too deeply to be read", hint=hint) from None
    own = next((c.name for op in bound.op.walk() for c in op.schema if reserved(c.name)), None)
    if own is not None:
        raise SqlError(
            f"the query has a column {own!r}, a name that plans use themselves", hint="give it another alias"
        )
    return Query(name, text, with_casts(bound.op), order)


def parsed(text: str) -> Tree:
    """The only statement in the text, which must be a query."""
    try:
        pipe = piped(text)
        if pipe is not None:
            hint = "write its steps as sub-queries, from the first to the last"
            raise SqlError("the pipe syntax, `|>`, is not supported", hint=hint, line=pipe.line, column=pipe.col - 1)
        statements = read_statements(text)
    except ParseError as error:
        found = error.errors[0] if error.errors else {}
        raise SqlError(
            f"the query cannot be read: {_described(found)}, near {as_written(found.get('highlight', ''))!r}",
            hint="is it Spark SQL?",
            line=found.get("line"),
            column=found["col"] - len(found.get("highlight") or " ") + 1 if found.get("col") else None,
        ) from error
    except TokenError as error:
        raise SqlError(
            f"the query cannot be read: {error}", hint="look for a quote or a comment that is not closed"
        ) from error
    if len(statements) != 1:
        raise SqlError(f"the text holds {len(statements)} statements", hint="a job has one SELECT per query")
    tree = statements[0]
    if not isinstance(tree, (exp.Query, exp.Values)):
        refuse(f"{type(tree).__name__.upper()} is not a query", tree, "write a SELECT")
    return tree


def _described(error: dict[str, Any]) -> str:
    """What the parser says is wrong, without the names of its classes."""
    text = as_written(str(error.get("description", ""))).rstrip(".")
    return "something is missing" if "<class" in text else text[:1].lower() + text[1:]


class Binder:
    """Binds the queries inside one text."""

    def __init__(self, catalog: Catalog):
        self.catalog = catalog

    def whole(self, tree: Tree) -> tuple[Bound, tuple[SortKey, ...]]:
        """The outermost query, under the user's column names."""
        tree, ctes = self._with(_unwrapped(tree), {})
        if isinstance(tree, exp.Select):
            return read(self, tree, ctes, Scope()).final()
        bound = self._unordered(tree, ctes, Scope())
        taken = unique_spellings(s.spelling for s in bound.shown)
        columns = by_name(bound.op)
        op = projected(bound.op, [passed(columns[s.base], n) for s, n in zip(bound.shown, taken, strict=True)])
        shown = tuple(Shown(s.spelling, n) for s, n in zip(bound.shown, taken, strict=True))
        return self._ordered(tree, Bound(op, shown), last=True)

    def query(self, tree: Tree, ctes: Ctes, scope: Scope) -> Bound:
        """A query inside FROM, a CTE or a set operation; `scope` is new, and knows what is around it."""
        tree, ctes = self._with(_unwrapped(tree), ctes)
        if isinstance(tree, exp.Select):
            return read(self, tree, ctes, scope).bound()
        return self._ordered(tree, self._unordered(tree, ctes, scope))[0]

    def nested(self, tree: Tree, ctes: Ctes, outer: Scope, kind: str) -> Nested:
        """A query inside an expression."""
        tree, ctes = self._with(_unwrapped(tree), ctes)
        if isinstance(tree, exp.Select):
            return nested(read(self, tree, ctes, Scope(outer)), kind)
        bound = self._ordered(tree, self._unordered(tree, ctes, Scope(outer, lateral=False)))[0]
        return Nested(bound.op, () if kind == "exists" else tuple(s.base for s in bound.shown))

    def _unordered(self, tree: Tree, ctes: Ctes, scope: Scope) -> Bound:
        if isinstance(tree, exp.Subquery):
            return self.query(tree.this, ctes, scope)
        if isinstance(tree, exp.Values):
            return values(tree)
        if isinstance(tree, exp.SetOperation):
            if tree.args.get("by_name"):
                refuse(
                    f"{type(tree).__name__.upper()} BY NAME is not supported",
                    tree,
                    "select the columns in the same order",
                )
            sides = (
                self._union_sides(tree)
                if isinstance(tree, exp.Union) and not tree.args.get("distinct")
                else [tree.this, tree.expression]
            )
            return combined(
                tree, [self.query(s, ctes, Scope(scope.outer, scope.lateral and scope.outer is None)) for s in sides]
            )
        refuse(f"{type(tree).__name__.upper()} is not supported here", tree, "write a SELECT")

    def _union_sides(self, tree: Tree) -> list[Tree]:
        """The queries of a chain of UNION ALL."""
        sides: list[Tree] = [tree.expression]
        left = tree.this
        while isinstance(left, exp.Union) and not left.args.get("distinct") and not _modified(left):
            sides.append(left.expression)
            left = left.this
        return [left, *reversed(sides)]

    def _with(self, tree: Tree, ctes: Ctes) -> tuple[Tree, Ctes]:
        """The query without its WITH clause, and the CTEs it sees."""
        clause = tree.args.get("with_")
        if clause is None:
            return tree, ctes
        known = dict(ctes)
        for cte in clause.expressions:
            name = cte.alias.lower()
            if clause.args.get("recursive") and any(t.name.lower() == name for t in cte.this.find_all(exp.Table)):
                refuse(
                    f"the recursive CTE {cte.alias!r} is not supported",
                    cte.args["alias"],
                    "unroll it, or keep its result as a table",
                )
            bound = self.query(cte.this, known, Scope())
            columns = cte.args["alias"].args.get("columns")
            known[name] = Bound(bound.op, relabelled(bound.shown, columns, cte)) if columns else bound
        return tree, known

    def _ordered(self, tree: Tree, bound: Bound, *, last: bool = False) -> tuple[Bound, tuple[SortKey, ...]]:
        """ORDER BY and LIMIT of what is not a select block: over the columns it shows; without LIMIT only the `last` order counts."""
        part, terms = slice_of(tree), each_of_all(ordered_terms(tree), len(bound.shown))
        if part.whole and not terms:
            return bound, ()
        scope = Scope()
        scope.add(Source("", bound.op, bound.shown, {c.name: c.name for c in bound.op.schema}))
        trees: list[tuple[Tree, str]] = []
        for term in terms:
            trees.append((self._order_key(term.this, bound, scope), ""))
        op, found = named_columns(bound.op, trees)
        keys = [
            SortKey(n, k.descending, k.nulls_first)
            for n, k in zip(found, (key_of(t, None, None) for t in terms), strict=True)
        ]
        known = by_name(bound.op)
        cut = not part.whole or (last and any(k.column not in known for k in keys))
        op = narrowed(top(op, keys, part), known) if cut else bound.op
        return Bound(op, bound.shown), tuple(keys)

    def _order_key(self, tree: Tree, bound: Bound, scope: Scope) -> Tree:
        if isinstance(tree, exp.Literal) and tree.name.isdigit():
            number = int(tree.name)
            if not 1 <= number <= len(bound.shown):
                refuse(f"position {number} is not in the select list, which has {len(bound.shown)} columns", tree)
            return column_tree(bound.shown[number - 1].base)
        for column in list(tree.find_all(exp.Column)):
            found = scope.resolve(column)
            if column is tree:
                return found
            column.replace(found)
        return detached(tree)


def _modified(tree: Tree) -> bool:
    return any(tree.args.get(k) for k in ("order", "limit", "offset", "with_"))


def _unwrapped(tree: Tree) -> Tree:
    """A query without parentheses that say nothing."""
    while isinstance(tree, exp.Subquery) and not _modified(tree):
        tree = tree.this
    return tree
