"""From operators to SQL: a tree becomes one SELECT, printed for Spark or DuckDB.

Scans, filters, projections and joins fold into one SELECT while they can; what groups, sorts or unites is a SELECT of its own, read
through a CTE, and so is every sub-tree that occurs twice. How each operator is written is a function in `LOWERINGS`, a
table from operator class to function that users may add to; ours are in `relational.py` and `states.py` beside this file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from tempura.algebra import Empty, Op, SortKey
from tempura.schema import fresh
from tempura.sql.lower import relational, states
from tempura.sql.lower.block import Closed, Relation, sort_term, with_needed_quotes
from tempura.sql.lower.lowering import LOWERINGS, Broadcasts, Lowered, Lowering, cte
from tempura.sql.lower.weights import rows_of, weighted_block

if TYPE_CHECKING:
    from tempura.plans import Spread, Step

__all__ = ["LOWERINGS", "Lowered", "Lowering", "expanded", "lower", "lower_rows", "step_sql", "to_sql"]

LOWERINGS.update(relational.LOWERINGS)
LOWERINGS.update(states.LOWERINGS)


def lower(tree: Op, dialect: str = "spark") -> Lowered:
    """The tree as one query, to be printed in the given dialect; its bag may be weighted."""
    lowering = Lowering(tree, dialect)
    return lowering.finish(lowering.relation(tree))


def lower_rows(
    tree: Op, dialect: str = "spark", broadcasts: Broadcasts = (), spreads: Sequence[Spread] = ()
) -> Lowered:
    """The tree as one query whose rows are those of the bag, each as often as it is there."""
    lowering = Lowering(tree, dialect, broadcasts, spreads)
    return lowering.finish(_rows(lowering, lowering.relation(tree)))


def _rows(lowering: Lowering, relation: Relation) -> Relation:
    return rows_of(lowering, relation) if relation.weighted else relation


def expanded(lowered: Lowered, dialect: str = "spark") -> Lowered:
    """The query without weights: each row as often as it is there; it fails where a net weight is negative."""
    if not lowered.weighted:
        return lowered
    query, ctes = _without_ctes(lowered.select)
    lowering = Lowering(Empty(()), dialect)
    for name, part in ctes.items():
        lowering.add_cte(part, name)
    return lowering.finish(rows_of(lowering, Closed(query, lowered.columns, True)))


def _without_ctes(query: exp.Query) -> tuple[exp.Query, dict[str, exp.Query]]:
    query = query.copy()
    given = query.args.get("with_")
    query.set("with_", None)
    return query, {c.alias: c.this for c in given.expressions} if given else {}


def to_sql(tree: Op, dialect: str, order: tuple[SortKey | str, ...] = ()) -> str:
    """The rows of the tree's bag as SQL text, in the given order."""
    return print_sql(ordered(lower_rows(tree, dialect).select, order), dialect)


def step_sql(step: Step, dialect: str) -> str:
    """The SELECT of a step: plain rows for a result, and for a state what its weights say."""
    if step.kind == "result" or not step.weighted:
        rows = lower_rows(step.tree, dialect, step.broadcasts, step.spreads).select
        return print_sql(ordered(rows, step.order if step.kind == "result" else ()), dialect)
    lowering = Lowering(step.tree, dialect, step.broadcasts, step.spreads)
    relation = lowering.relation(step.tree)
    if not relation.weighted:
        relation = weighted_block(lowering.opened(relation))
    return print_sql(lowering.finish(relation).select, dialect)


def ordered(query: exp.Query, order: tuple[SortKey | str, ...]) -> exp.Query:
    """The query with an ORDER BY over its columns."""
    if not order:
        return query
    terms = [sort_term(key) for key in order]
    if query.args.get("limit") and [t.sql() for t in query.args["order"].expressions[: len(terms)]] == [
        t.sql() for t in terms
    ]:
        return query
    if query.args.get("order") or query.args.get("limit"):
        inner, ctes = _without_ctes(query)
        name = fresh("chosen", ctes)
        query = exp.Select(expressions=[exp.Star()], from_=exp.From(this=exp.Table(this=exp.Identifier(this=name))))
        query.set("with_", exp.With(expressions=[cte(n, q) for n, q in {**ctes, name: inner}.items()]))
    query = query.copy()
    query.set("order", exp.Order(expressions=terms))
    return with_needed_quotes(query)


def print_sql(query: exp.Query, dialect: str) -> str:
    """The query as text, one clause a line."""
    return query.sql(dialect=dialect, pretty=True)
