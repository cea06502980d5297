"""Weights in SQL: adding them, netting them, and turning them back into rows.

A relation is unweighted (every row counts once) or has the column `__w`, where rows may repeat and weights may be negative and
cancel. Linear operators pass weights on as they are. The others need to know how often a row is really there: they consolidate. So does what may fail for a row that is not there.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from tempura.algebra.op import Op
from tempura.algebra.weights import may_fail_in
from tempura.schema import WEIGHT
from tempura.sql.lower.block import Block, Closed, Relation, Sql, call, case, cast_to, error, number, product, render

if TYPE_CHECKING:
    from tempura.sql.lower.lowering import Lowering

NEGATIVE = "a row that is not there was taken away: the inputs contradict each other"


def times(*weights: Sql | None) -> Sql | None:
    """The product of weights, of which those that are None are 1."""
    given = [w for w in weights if w is not None]
    return product(*given) if given else None


def total(weight: Sql, dialect: str) -> Sql:
    """The sum of weights, as BIGINT."""
    return as_count(call("sum", weight), dialect)


def as_count(tree: Sql, dialect: str) -> Sql:
    """A sum of counts with the type of a count; only DuckDB widens it."""
    return cast_to(tree, "bigint") if dialect == "duckdb" else tree


def differs_from_zero(tree: Sql) -> Sql:
    return exp.NEQ(this=tree.copy(), expression=number(0))


def consolidated(lowering: Lowering, relation: Relation, columns: tuple[str, ...] | None = None) -> Closed:
    """The distinct rows (of some columns) of a weighted relation with their net weights, without those that are 0."""
    block = lowering.groupable(relation, columns)
    kept = {c: block.columns[c] for c in (columns if columns is not None else block.columns)}
    weight = block.weight
    assert weight is not None
    query = render(
        block,
        {**kept, WEIGHT: total(weight, lowering.dialect)},
        group=kept.values(),
        having=differs_from_zero(call("sum", weight)),
    )
    return Closed(query, tuple(kept), True)


def net(lowering: Lowering, op: Op, side: int = 0, columns: tuple[str, ...] | None = None) -> Relation:
    """What an operator is given, consolidated if it is weighted, so that what may fail is asked of no row that is not there.

    Spark asks a condition on what is grouped by before it groups. So the columns that are asked for depend on the weight, which is there only afterwards.
    """
    relation = lowering.relation(op.inputs[side])
    if not relation.weighted:
        return relation
    block = lowering.opened(consolidated(lowering, relation, columns), "net")
    assert block.weight is not None
    there = differs_from_zero(block.weight)
    uses = frozenset[str]().union(*(e.columns for e in may_fail_in(op)))
    return replace(block, columns={c: case((there, tree)) if c in uses else tree for c, tree in block.columns.items()})


def settled(lowering: Lowering, op: Op, side: int = 0) -> Relation:
    """What an operator is given, consolidated if what it asks may fail: in a delta, rows come and go at once."""
    return net(lowering, op, side) if may_fail_in(op) else lowering.relation(op.inputs[side])


def rows_of(lowering: Lowering, relation: Relation) -> Block:
    """The relation without weights: each row as often as it is there."""
    if isinstance(relation, Block) and relation.weight is None:
        return relation
    if isinstance(relation, Closed) and not relation.weighted:
        return lowering.opened(relation)
    block = lowering.opened(consolidated(lowering, relation), "net")
    weight = block.weight
    assert weight is not None
    # SEQUENCE(1, -1) counts down in Spark, so a negative weight must stop the query here.
    negative = exp.LT(this=weight.copy(), expression=number(0))
    times_there = case((negative, error(NEGATIVE, lowering.dialect)), default=weight)
    series = exp.GenerateSeries(start=number(1), end=times_there)
    alias = exp.TableAlias(this=exp.Identifier(this="copies"), columns=[exp.Identifier(this="copy")])
    lateral = exp.Lateral(this=exp.Explode(this=series), view=True, outer=False, alias=alias)
    return replace(block, weight=None, laterals=(lateral,))


def weighted_block(block: Block, sign: int = 1) -> Block:
    """The block with a weight column, negated if the sign is."""
    weight: Sql
    if block.weight is None:
        weight = number(1) if sign > 0 else exp.Neg(this=number(1))
    else:
        weight = block.weight if sign > 0 else exp.Neg(this=product(block.weight))
    return replace(block, weight=weight)


def weight_or_one(weight: Sql | None) -> Sql | None:
    """The weight of the padded side of an outer join."""
    return None if weight is None else call("coalesce", weight, number(1))
