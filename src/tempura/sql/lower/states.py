"""The operators of incremental plans as SQL: states of aggregates, and the keys that a delta affects."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sqlglot import exp

from tempura.algebra import Affected, AggregateState, FinalState, MergeState, Op
from tempura.algebra.incremental import ROWS, part_column, parts
from tempura.errors import PlanError
from tempura.schema import UNKNOWN, Column, names
from tempura.sql.lower.aggregates import final, merged, state_parts, sum_type, weighed
from tempura.sql.lower.block import FILLER, Block, Closed, Relation, Sql, call, distinct, number, render
from tempura.sql.lower.lowering import Lowering, Writer
from tempura.sql.lower.relational import brought_together
from tempura.sql.lower.weights import as_count, consolidated, differs_from_zero, settled, total


def lower_aggregate_state(lowering: Lowering, op: AggregateState) -> Relation:
    block = lowering.groupable(settled(lowering, op), op.by)
    if block.weight is not None and any("m" in (parts(c) or ()) for c in op.calls):
        # The least value must not be one that another row takes back.
        block = lowering.opened(consolidated(lowering, block), "net")
    known: dict[str, Column] = {c.name: c for c in op.inputs[0].schema}
    keys = {c: block.columns[c] for c in op.by}
    rows: Sql = exp.Count(this=exp.Star(), big_int=True)
    outputs = {**keys, ROWS: rows if block.weight is None else total(block.weight, lowering.dialect)}
    for aggregate in op.calls:
        outputs |= state_parts(aggregate, block.bind, block.weight, lowering.dialect, known)
    # Without groups SQL would give a row for no rows. Groups in which all parts cancel out stay: a filter over k sums, renamed above it,
    # takes Spark's optimizer 2^k steps, and whoever merges or finishes states leaves groups without rows out. Of DISTINCT, all that a state tells is which groups are there.
    having = None if keys else exp.GT(this=exp.Count(this=exp.Star(), big_int=True), expression=number(0))
    if keys and not op.calls and block.weight is not None:
        having = differs_from_zero(call("sum", block.weight))
    return Closed(render(block, outputs, group=keys.values(), having=having), tuple(outputs), False)


def lower_merge_state(lowering: Lowering, op: MergeState) -> Relation:
    queries: list[exp.Query] = []
    for i in sorted(op.inputs, key=lambda i: lowering.spread(i) is None):
        block = lowering.reopened(lowering.relation(i), "state")
        # The states may have been written with their columns in any order.
        piece = replace(block, columns={c: _weighed(block, c, op, lowering) for c in names(op.schema)}, weight=None)
        queries.append(brought_together(lowering, i, piece))
    query = queries[0]
    for other in queries[1:]:
        query = exp.Union(this=query, expression=other, distinct=False)
    block = lowering.opened(Closed(query, names(op.schema), False), "states")
    keys = {c: block.columns[c] for c in op.by}
    rows = call("sum", block.columns[ROWS])
    outputs = {**keys, ROWS: as_count(rows, lowering.dialect)}
    for aggregate in op.calls:
        outputs |= merged(aggregate, lambda name: block.columns[name].copy(), lowering.dialect)
    return Closed(render(block, outputs, group=keys.values(), having=differs_from_zero(rows)), tuple(outputs), False)


def _weighed(block: Block, column: str, op: MergeState, lowering: Lowering) -> Sql:
    """A column of a state; a part of a piece that counts several times, or negatively, is multiplied."""
    if block.weight is None or column in op.by:
        return block.columns[column]
    kinds = {part_column(c, "s"): sum_type(c, lowering.dialect) for c in op.calls}
    return weighed(block.columns[column], block.weight, kinds.get(column, UNKNOWN))


def lower_final_state(lowering: Lowering, op: FinalState) -> Relation:
    block = _state(lowering, op.inputs[0])
    if op.by:
        plain = _columns_of(block)
        outputs = {
            **{c: block.columns[c] for c in op.by},
            **{c.name: final(c, plain, lowering.dialect) for c in op.calls},
        }
        there = () if isinstance(op.inputs[0], MergeState) else (differs_from_zero(block.columns[ROWS]),)
        return Block(outputs, None, block.sources, (*block.where, *there), block.laterals)

    def of_at_most_one_row(name: str) -> Sql:
        greatest = call("max", block.columns[name])
        return call("coalesce", greatest, number(0)) if name == ROWS or name.startswith("__c_") else greatest

    outputs = {c.name: final(c, of_at_most_one_row, lowering.dialect) for c in op.calls}
    return Closed(render(block, outputs or {FILLER: exp.Count(this=exp.Star(), big_int=True)}), tuple(outputs), False)


def _columns_of(block: Block) -> Callable[[str], Sql]:
    return lambda name: block.columns[name].copy()


def _state(lowering: Lowering, op: Op) -> Block:
    block = lowering.reopened(lowering.relation(op), "state")
    if block.weight is not None:
        raise PlanError(
            "a state of an aggregate has weights", hint="states are merged by MergeState, not added by Plus"
        )
    return block


def lower_affected(lowering: Lowering, op: Affected) -> Relation:
    block = lowering.groupable(lowering.relation(op.inputs[0]), op.columns)
    return Closed(distinct(block, op.schema), op.columns, False)


LOWERINGS: dict[type[Op], Writer] = {
    AggregateState: lower_aggregate_state,
    MergeState: lower_merge_state,
    FinalState: lower_final_state,
    Affected: lower_affected,
}
