"""A SELECT in the making: columns over sources, and where it can still be widened.

A `Block` is open: filters, projections and joins fold into it. `Closed` is a finished query, which others read through a CTE.
Inside a block every column reference carries the token of its source; only when the block is rendered do tokens become aliases,
so that blocks can be merged without a thought about names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, cast

import sqlglot
from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.expressions.core import Expression

from tempura.algebra import SortKey
from tempura.expr import TRUE, Expr, is_operand, standing_in
from tempura.schema import UNKNOWN, WEIGHT, Column, fresh, orderable

Sql = Expression
"""A piece of SQL as a tree."""

FILLER = "__row"
"""The column that a relation without columns is given, since SQL knows none."""


def column(name: str, source: str = "") -> exp.Column:
    table = exp.Identifier(this=source) if source else None
    return exp.Column(this=exp.Identifier(this=name), table=table)


def number(value: int) -> Sql:
    return cast(Sql, exp.Literal.number(value))


def call(name: str, *arguments: Sql) -> Sql:
    return cast(Sql, exp.func(name, *(a.copy() for a in arguments), dialect="spark"))


def cast_to(tree: Sql, type_name: str) -> Sql:
    """The expression with a type; unchanged where the type is not known."""
    if type_name == UNKNOWN:
        return tree
    return exp.Cast(this=tree.copy(), to=exp.DataType.build(type_name, dialect="spark"))


def product(*factors: Sql) -> Sql:
    first, *rest = [atom(f) for f in factors]
    for factor in rest:
        first = exp.Mul(this=first, expression=factor)
    return first


def atom(tree: Sql) -> Sql:
    """A copy that can stand as an operand."""
    return tree.copy() if is_operand(tree) else exp.Paren(this=tree.copy())


def case(*branches: tuple[Sql, Sql], default: Sql | None = None) -> Sql:
    ifs = [exp.If(this=condition.copy(), true=value.copy()) for condition, value in branches]
    return exp.Case(ifs=ifs, default=default.copy() if default is not None else None)


def all_of(predicates: Iterable[Sql]) -> Sql | None:
    parts = [p.copy() for p in predicates]
    return cast(Sql, exp.and_(*parts)) if parts else None


def error(message: str, dialect: str) -> Sql:
    """The expression that fails the query when it is evaluated."""
    return exp.Anonymous(
        this="error" if dialect == "duckdb" else "raise_error", expressions=[exp.Literal.string(message)]
    )


@dataclass(frozen=True)
class Source:
    """A table, CTE or list of values in FROM, and how it is joined to those before it."""

    token: str
    name: str
    join: str = ""
    """Empty for the first; inner, cross, left, full, semi, anti."""
    on: Sql | None = None
    values: exp.Values | None = None
    broadcast: bool = False
    """Whether the join it is in copies it to every core."""


@dataclass(frozen=True)
class Block:
    """An open SELECT: named columns and a weight over joined sources, and conditions."""

    columns: Mapping[str, Sql]
    weight: Sql | None = None
    sources: tuple[Source, ...] = ()
    where: tuple[Sql, ...] = ()
    laterals: tuple[exp.Lateral, ...] = field(default=())

    @property
    def weighted(self) -> bool:
        return self.weight is not None

    @property
    def plain(self) -> bool:
        """Whether every column is nothing but a column of a source, so that padding it with NULLs pads the block."""
        return all(isinstance(c, exp.Column) for c in self.columns.values())

    def bind(self, expr: Expr) -> Sql:
        """The expression over the sources instead of over the columns."""
        return bind(expr, self.columns)

    def keep(self, *predicates: Sql) -> Block:
        return replace(self, where=(*self.where, *(p for p in predicates if not is_true(p))))


@dataclass(frozen=True)
class Closed:
    """A finished query with these columns, and after them the weight if it has one."""

    query: exp.Query
    columns: tuple[str, ...]
    weighted: bool
    name: str = ""
    """What its CTE is best called."""


Relation = Block | Closed

_tokens = count(1)


def token() -> str:
    return f"#{next(_tokens)}"


def reading(name: str, columns: Iterable[str], weighted: bool) -> Block:
    """The block that reads a table or CTE."""
    source = token()
    return Block(
        {c: column(c, source) for c in columns},
        column(WEIGHT, source) if weighted else None,
        (Source(source, name),),
    )


def is_true(tree: Sql) -> bool:
    return isinstance(tree, exp.Boolean) and bool(tree.this)


def bind(expr: Expr, columns: Mapping[str, Sql]) -> Sql:
    """The expression with each column replaced by what stands for it."""

    def swap(tree: Any) -> Any:
        if isinstance(tree, exp.Column) and tree.name in columns:
            found = columns[tree.name]
            return standing_in(found.copy(), tree.parent) if tree.parent is not None else found.copy()
        return tree

    return TRUE.tree.copy() if expr is TRUE else cast(Sql, expr.tree.copy().transform(swap, copy=False))


def heavy(tree: Sql) -> bool:
    """Whether an expression is too big to be written twice."""
    return sum(1 for _ in tree.walk()) > 12


def render(
    block: Block,
    outputs: Mapping[str, Sql] | None = None,
    *,
    distinct: bool = False,
    group: Iterable[Sql] = (),
    having: Sql | None = None,
) -> exp.Select:
    """The SELECT of a block: its columns and weight, or the given outputs."""
    if outputs is None:
        outputs = dict(block.columns)
        if block.weight is not None:
            outputs[WEIGHT] = block.weight if block.weight.find(exp.Column) else cast_to(block.weight, "bigint")
    outputs = outputs or {FILLER: number(1)}
    group = list(group)
    aliases = _aliases(block.sources)
    trees = (*outputs.values(), *block.where, *group)
    # `project.name` would be a column of a table or CTE called project, if there is one.
    alone = len(block.sources) <= 1 and not block.laterals and not any(tree.find(exp.Dot) for tree in trees)
    select = exp.Select(expressions=[_output(name, _named(tree, aliases, alone)) for name, tree in outputs.items()])
    copied: list[Sql] = [exp.Table(this=exp.Identifier(this=aliases[s.token])) for s in block.sources if s.broadcast]
    if copied:
        add_hint(select, exp.JoinHint(this="BROADCAST", expressions=copied))
    # HAVING keeps its qualifiers: engines differ in whether a bare name there means the input's column or the output's.
    qualified = not alone or having is not None
    for source in block.sources:
        _add_source(select, source, aliases, qualified)
    for lateral in block.laterals:
        select.append("laterals", _named(lateral, aliases, False))
    condition = all_of(block.where)
    if condition is not None:
        select.set("where", exp.Where(this=_named(condition, aliases, alone)))
    keys = [_named(k, aliases, alone) for k in group]
    if keys:
        select.set("group", exp.Group(expressions=keys))
    if having is not None:
        select.set("having", exp.Having(this=_named(having, aliases, False)))
    if distinct:
        select.set("distinct", exp.Distinct())
    return select


def distinct(block: Block, columns: Sequence[Column]) -> exp.Select:
    """The distinct values of some columns. Spark groups by maps, but knows no SELECT DISTINCT of them."""
    outputs = {c.name: block.columns[c.name] for c in columns}
    plain = all(c.type != UNKNOWN and orderable(c.type) for c in columns)
    return render(block, outputs, distinct=plain, group=() if plain else outputs.values())


def add_hint(select: exp.Select, hint: Sql) -> None:
    given = cast("exp.Hint | None", select.args.get("hint"))
    before = cast("list[Sql]", given.expressions) if given else []
    select.set("hint", exp.Hint(expressions=[*before, hint]))


_JOINS = {
    "inner": {},
    "cross": {"kind": "CROSS"},
    "left": {"side": "LEFT"},
    "full": {"side": "FULL"},
    "semi": {"side": "LEFT", "kind": "SEMI"},
    "anti": {"side": "LEFT", "kind": "ANTI"},
}


def _add_source(select: exp.Select, source: Source, aliases: Mapping[str, str], qualified: bool) -> None:
    alias = aliases[source.token]
    if source.values is not None:
        table: Sql = source.values.copy()
        table.set("alias", exp.TableAlias(this=exp.Identifier(this=alias), columns=table.args["alias"].columns))
    else:
        table = exp.Table(this=exp.Identifier(this=source.name))
        if qualified and alias != source.name:
            table.set("alias", exp.TableAlias(this=exp.Identifier(this=alias)))
    if not source.join:
        select.set("from_", exp.From(this=table))
        return
    on = None if source.on is None else _named(source.on, aliases, False)
    select.append("joins", exp.Join(this=table, on=on, **_JOINS[source.join]))


def _aliases(sources: Iterable[Source]) -> dict[str, str]:
    found: dict[str, str] = {}
    for source in sources:
        # `sales@t1:t2` is best called sales; a name that is one already stays.
        base = re.sub(r"\W+", "_", source.name.split("@")[0].split(".")[-1]) or "source"
        found[source.token] = fresh(base.lower() if base != source.name else base, found.values())
    return found


def _named(tree: Sql, aliases: Mapping[str, str], alone: bool) -> Sql:
    copy = tree.copy()
    for c in list(copy.find_all(exp.Column)):
        if c.table in aliases:
            c.set("table", None if alone else exp.Identifier(this=aliases[c.table]))
    return copy


def _output(name: str, tree: Sql) -> Sql:
    if isinstance(tree, exp.Column) and tree.name == name:
        return tree
    return exp.Alias(this=tree, alias=exp.Identifier(this=name))


def sort_term(key: SortKey | str) -> exp.Ordered:
    """One term of ORDER BY."""
    if isinstance(key, str):
        return sqlglot.parse_one(key, into=exp.Ordered, dialect="spark")
    return exp.Ordered(this=column(key.column), desc=key.descending, nulls_first=key.nulls_first)


def _reserved_words() -> frozenset[str]:
    words: set[str] = set()
    for name in ("spark", "duckdb"):
        keywords = cast("dict[str, Any]", Dialect.get_or_raise(name).tokenizer_class.KEYWORDS)
        # ORDER BY and the like are one keyword to the tokenizer, and each of their words is taken.
        words |= {word.lower() for k in keywords for word in k.split() if re.fullmatch(r"[A-Za-z_]+", word)}
    return frozenset(words | {"at", "position", "user", "session_user", "current_user", "check", "column", "only", "both", "leading", "trailing", "lateral", "time"})  # fmt: skip


_RESERVED = _reserved_words()
_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def with_needed_quotes(query: exp.Query) -> exp.Query:
    """The query with exactly those names quoted that need it in Spark or DuckDB."""
    for name in query.find_all(exp.Identifier):
        name.set("quoted", not (_BARE.fullmatch(name.this) and name.this.lower() not in _RESERVED))
    return query
