"""Expressions of a block: columns become internal names, sub-queries become calls that stand for them, named windows are written out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from tempura.expr import column_tree, standing_in
from tempura.schema import PARAMETER
from tempura.sql.bind.predicates import detached
from tempura.sql.bind.scope import Scope, Tree, fields, refuse
from tempura.sql.bind.sources import Ctes
from tempura.sql.bind.subqueries import Sub
from tempura.sql.bind.timewindow import NAME, TimeWindow, is_time_window, time_window
from tempura.sql.bind.types import UNKNOWN, clauses, infer, kind_of
from tempura.volatile import drawn_function

if TYPE_CHECKING:
    from tempura.sql.bind.query import Binder

_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE)
_GENERATORS = (exp.Explode, exp.ExplodeOuter, exp.Posexplode, exp.Inline, exp.Unnest, exp.Stack)
_GENERATOR_NAMES = frozenset(["stack", "inline", "inline_outer", "posexplode_outer", "json_tuple", "explode_outer"])


Shadows = Callable[[exp.Column], bool]
"""Whether an alias of the select list comes before a column of FROM of the same name."""


def never(column: exp.Column) -> bool:
    return False


def always(column: exp.Column) -> bool:
    return True


def _is_window(column: exp.Column) -> bool:
    return column.parts[0].name.lower() == NAME


def _refuse_unsupported(tree: Tree) -> None:
    called = tree.name.lower() if isinstance(tree, exp.Anonymous) else ""
    if called == "session_window":
        refuse("session_window() is not supported: a session changes with rows that come later", tree, "use window()")
    if called == "window_time":
        refuse("window_time() is not supported", tree, "write w.end - INTERVAL 1 MICROSECOND")
    if called == "collate" or isinstance(tree, exp.Collate):
        refuse("COLLATE is not supported", tree, "compare lower(…) or upper(…) of both sides")
    if isinstance(tree, exp.DataType) and tree.is_type("time"):
        refuse("the type TIME is not supported", tree, "use a timestamp")


def _call_parameters_apart(tree: exp.Lambda) -> None:
    """Give the parameters of a lambda names that no column has, whatever columns are called later; fields that are named after them keep their names."""
    called = {p.name.lower(): f"{PARAMETER}{p.name}" for p in tree.expressions if not p.name.startswith(PARAMETER)}
    for column in [c for c in tree.find_all(exp.Column) if c.parts[0].name.lower() in called]:
        # The parser goes by the very letters.
        column.replace(column.to_dot() if column.table else column.this.copy())
    for name in [n for n in tree.find_all(exp.Identifier) if n.name.lower() in called and not _names_something(n)]:
        renamed = exp.Identifier(this=called[name.name.lower()], quoted=name.args.get("quoted"))
        if isinstance(name.parent, exp.Tuple):
            name.replace(exp.Alias(this=renamed, alias=name.copy()))
        elif isinstance(name.parent, exp.Struct):
            name.replace(exp.PropertyEQ(this=name.copy(), expression=renamed))
        else:
            name.replace(renamed)


def _names_something(name: exp.Identifier) -> bool:
    """Whether an identifier is the name of a column, a field or an alias, and not a value."""
    places = {exp.Dot: "expression", exp.PropertyEQ: "this", exp.ColumnDef: "this", exp.Alias: "alias"}
    parent: Any = name.parent
    return isinstance(parent, exp.Column) or places.get(kind_of(parent)) == name.arg_key


class Resolver:
    """Resolves the expressions of one block; `subs` holds the sub-queries found in them."""

    def __init__(self, binder: Binder, scope: Scope, ctes: Ctes, windows: Mapping[str, Tree]):
        self._binder = binder
        self._scope = scope
        self._ctes = ctes
        self._windows = windows
        self.subs: dict[str, Sub] = {}
        self.window: Tree = None
        """What `window` stands for where the scope does not know it, as it is written."""
        self.time_window: TimeWindow | None = None
        """The window() of the block, of which Spark allows one."""
        self.takes_windows = False
        """Whether what is resolved may call window()."""
        self.keys: list[Tree] = []
        """What is grouped by: what is drawn for it is drawn once."""

    def resolve(self, tree: Tree, aliases: Mapping[str, Tree] | None = None, alias_first: Shadows = never) -> Tree:
        """The tree over internal names; a name that FROM does not know, or one for which `alias_first` says so, may be one of `aliases`."""
        aliases = aliases or {}
        if isinstance(tree, exp.Column):
            return self._column(tree, aliases, alias_first)
        if isinstance(tree, (exp.Exists, exp.Subquery, exp.Query)) or (
            isinstance(tree, exp.In) and tree.args.get("query")
        ):
            return self._subquery(tree, aliases, alias_first)
        if isinstance(tree, _COMPARISONS) and isinstance(tree.expression, (exp.Any, exp.All)):
            return self._quantified(tree, aliases, alias_first)
        if isinstance(tree, _GENERATORS) or (isinstance(tree, exp.Anonymous) and tree.name.lower() in _GENERATOR_NAMES):
            refuse(f"{tree.sql_name() if isinstance(tree, exp.Func) else tree.name} gives several rows and is not supported in an expression", tree,
                   "write its rows into a table first")  # fmt: skip
        _refuse_unsupported(tree)
        if is_time_window(tree):
            return self._time_window(tree, aliases, alias_first)
        if isinstance(tree, exp.Window) and tree.args.get("alias") is not None:
            self._write_out(tree)
        if isinstance(tree, exp.Lambda):
            _call_parameters_apart(tree)
        if not isinstance(tree, (exp.Count, exp.Distinct)) and any(
            isinstance(child, exp.Star) for child in tree.iter_expressions()
        ):
            return self._of_all(tree, aliases, alias_first)
        for child in list(tree.iter_expressions()):
            new = self.resolve(child, aliases, alias_first)
            if new is not child:
                child.replace(new)
        return tree

    def _of_all(self, tree: Tree, aliases: Mapping[str, Tree], alias_first: Shadows) -> Tree:
        """A function of all columns, such as `hash(*)`; not a struct of them, whose parts would be called as we call them."""
        stars = [e for e in tree.expressions if isinstance(e, exp.Star)]
        if (
            not isinstance(tree, exp.Anonymous)
            or tree.name.lower() == "struct"
            or any(any(s.args.values()) for s in stars)
        ):
            refuse("`*` is not supported here", tree, "name the columns")
        given: list[Tree] = []
        for part in tree.expressions:
            every = isinstance(part, exp.Star)
            given += [t for _, t in self._scope.star(part, "")] if every else [self.resolve(part, aliases, alias_first)]
        tree.set("expressions", given)
        return tree

    def _column(self, tree: exp.Column, aliases: Mapping[str, Tree], alias_first: Shadows) -> Tree:
        if isinstance(tree.this, exp.Star):
            refuse("`*` is not supported inside an expression", tree, "name the columns")
        name = tree.parts[0].name.lower()
        if name in aliases and self._speaks_of(tree, aliases[name], alias_first):
            value = aliases[name].copy()
            if (drawn := drawn_function(value)) is not None and value not in self.keys:
                refuse(
                    f"{tree.name!r} is {drawn}, which would be drawn again here",
                    tree,
                    "select it in a derived table first",
                )
            return fields(standing_in(value, None), tree.parts[1:]) if tree.table else standing_in(value, tree.parent)
        if self.window is not None and _is_window(tree) and self._scope.own(tree) is None:
            window = self._window_column() or self._time_window(self.window.copy(), aliases, never)
            return fields(window, tree.parts[1:])
        found = self._scope.resolve(tree)
        if isinstance(found, exp.Column):
            # What is renamed still has to be called by its name, and found, in an error.
            meta: dict[str, Any] = tree.parts[0].meta
            found.meta.update(meta, user=".".join(p.name for p in tree.parts))
        return found

    def _time_window(self, tree: Tree, aliases: Mapping[str, Tree], alias_first: Shadows) -> Tree:
        if not self.takes_windows:
            refuse(
                "window() is supported in the select list and in GROUP BY only",
                tree,
                "select it in a derived table first; what is grouped by is called `window`",
            )
        found = time_window(tree, self._scope, lambda t: detached(self.resolve(t, aliases, alias_first)).unnest())
        if self.time_window not in (None, found):
            refuse("two different windows of time in one SELECT", tree, "select one of them in a derived table first")
        self.time_window, self._scope.window = found, found.column
        return self._window_column()

    def _window_column(self) -> Tree:
        return None if self.time_window is None else column_tree(self.time_window.column.name)

    def _speaks_of(self, tree: exp.Column, value: Tree, alias_first: Shadows) -> bool:
        """Whether a name that begins like an alias means it, or a field of it."""
        if not tree.table:
            return alias_first(tree) or self._scope.own(tree) is None
        if self._scope.has(tree):
            return False
        columns = self._scope.columns()
        if infer(value, columns).type == UNKNOWN:
            return self._scope.own(tree) is None and not (self.window is not None and _is_window(tree))
        field = exp.Dot(this=value.copy(), expression=tree.parts[1].copy())
        return infer(field, columns).type != UNKNOWN and (alias_first(tree) or self._scope.own(tree) is None)

    def _write_out(self, window: Tree) -> None:
        name = window.args["alias"].name
        found = self._windows.get(name.lower())
        if found is None:
            refuse(f"no window {name!r}", window, "define it in the WINDOW clause")
        window.set("alias", None)
        for part in ("partition_by", "order", "spec"):
            value = found.args.get(part)
            if value is not None and window.args.get(part) is None:
                window.set(part, [v.copy() for v in clauses(found, part)] if part == "partition_by" else value.copy())

    def _subquery(self, tree: Tree, aliases: Mapping[str, Tree], alias_first: Shadows) -> Tree:
        if isinstance(tree, exp.Exists):
            return self._call(tree, "exists", tree.this, [])
        if isinstance(tree, exp.In):
            left = tree.this.unnest() if isinstance(tree.this, exp.Paren) else tree.this
            operands = list(left.expressions) if isinstance(left, exp.Tuple) else [left]
            return self._call(
                tree, "in", tree.args["query"], [detached(self.resolve(o, aliases, alias_first)) for o in operands]
            )
        if tree.parent is not None and isinstance(tree.parent, exp.Array):
            refuse("ARRAY with a sub-query is not supported", tree)
        return self._call(tree, "scalar", tree, [])

    def _quantified(self, tree: Tree, aliases: Mapping[str, Tree], alias_first: Shadows) -> Tree:
        """x > ANY (…) and x > ALL (…); = ANY is IN, <> ALL is NOT IN."""
        quantifier = tree.expression
        query = quantifier.this
        if not isinstance(query, (exp.Query, exp.Subquery)):
            refuse("ANY and ALL are supported with sub-queries only", tree)
        operand = detached(self.resolve(tree.this, aliases, alias_first))
        if isinstance(quantifier, exp.Any):
            if isinstance(tree, exp.EQ):
                return self._call(tree, "in", query, [operand])
            return self._call(tree, "any", query, [operand], kind_of(tree))
        if isinstance(tree, exp.NEQ):
            return exp.Not(this=self._call(tree, "in", query, [operand]))
        return self._call(tree, "all", query, [operand], kind_of(tree))

    def _call(
        self, tree: Tree, kind: str, query: Tree, operands: list[Tree], comparison: type[Any] | None = None
    ) -> Tree:
        nested = self._binder.nested(query, self._ctes, self._scope, kind)
        if operands and nested.value is None and len(nested.outputs) != len(operands):
            refuse(
                f"{len(operands)} value(s) are compared with a sub-query of {len(nested.outputs)} column(s)",
                tree,
                "select as many as there are on the left",
            )
        if kind == "scalar" and nested.value is None and len(nested.outputs) != 1:
            refuse(
                f"a scalar sub-query gives one column, this one gives {len(nested.outputs)}", query, "select one column"
            )
        sub = Sub(kind, nested, len(operands), comparison)
        name = next((n for n, known in self.subs.items() if known == sub), f"?{len(self.subs)}")
        self.subs[name] = sub
        # An outer column of the sub-query is a column of this block, or an outer one of this block too.
        outer = [column_tree(n[1:]) for n in nested.outside]
        call = exp.Anonymous(this=name, expressions=[*operands, *outer])
        place = next((part.meta for part in tree.walk() if "line" in part.meta), None)
        if place:
            call.meta.update(place)
        return call
