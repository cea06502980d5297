"""The relational operators as SQL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import cast

from sqlglot import exp

from tempura.algebra import (
    Aggregate,
    AntiJoin,
    Empty,
    Expand,
    Filter,
    FullOuterJoin,
    InnerJoin,
    LeftOuterJoin,
    Minus,
    Op,
    Plus,
    Project,
    Read,
    Replicate,
    Scan,
    SemiJoin,
    SortKey,
    TopK,
    Values,
    Window,
)
from tempura.algebra.relational import expand_tags
from tempura.errors import PlanError
from tempura.expr import TRUE, Expr, conjuncts
from tempura.failing import fails
from tempura.schema import Column, Schema, names, orderable
from tempura.sql.lower.aggregates import exact, needs_rows, over_rows, over_weights
from tempura.sql.lower.block import (
    FILLER,
    Block,
    Closed,
    Relation,
    Source,
    Sql,
    add_hint,
    all_of,
    bind,
    call,
    case,
    cast_to,
    column,
    distinct,
    heavy,
    is_true,
    number,
    reading,
    render,
    sort_term,
    token,
)
from tempura.sql.lower.lowering import Lowering, Writer
from tempura.sql.lower.weights import (
    consolidated,
    differs_from_zero,
    net,
    rows_of,
    settled,
    times,
    weight_or_one,
    weighted_block,
)
from tempura.volatile import volatile


def lower_scan(lowering: Lowering, op: Scan) -> Relation:
    return reading(op.table, names(op.columns), False)


def lower_read(lowering: Lowering, op: Read) -> Relation:
    return reading(op.name, names(op.columns), op.weighted)


def lower_values(lowering: Lowering, op: Values) -> Relation:
    if not op.rows:
        return _empty(op.columns)
    if len(op.rows) == 1:
        return Block({c.name: e.tree for c, e in zip(op.columns, op.rows[0], strict=True)})
    rows = [tuple(e.tree for e in row) or (number(1),) for row in op.rows]
    source = token()
    columns = names(op.columns)
    block = Block(
        {c: column(c, source) for c in columns},
        None,
        (Source(source, "rows", values=_values(columns or (FILLER,), rows)),),
    )
    return block


def _values(columns: tuple[str, ...], rows: list[tuple[Sql, ...]]) -> exp.Values:
    alias = exp.TableAlias(this=exp.Identifier(this="rows"), columns=[exp.Identifier(this=c) for c in columns])
    return exp.Values(expressions=[exp.Tuple(expressions=[v.copy() for v in row]) for row in rows], alias=alias)


def lower_empty(lowering: Lowering, op: Empty) -> Relation:
    return _empty(op.columns)


def _empty(columns: Schema) -> Relation:
    outputs = {c.name: cast_to(exp.Null(), c.type) for c in columns}
    return Closed(render(Block(outputs, where=(exp.false(),))), names(columns), False)


def lower_filter(lowering: Lowering, op: Filter) -> Relation:
    block = lowering.opened(settled(lowering, op))
    if any(heavy(block.columns[c]) for c in op.predicate.columns if c in block.columns):
        block = lowering.reopened(block)
    kept = block.keep(block.bind(_guarded(op.predicate, op.inputs[0].schema)))
    # What another evaluation changes is asked once of each row, and not of what it is joined with.
    return lowering.reopened(kept) if volatile(op.predicate) else kept


def _guarded(predicate: Expr, schema: Schema) -> Expr:
    """The conjunction with the parts last that may fail by the types of their columns: a text beside a number, which another part may guard."""
    found = sorted(conjuncts(predicate), key=lambda part: fails(part, schema))
    return Expr(exp.and_(*(part.tree for part in found), copy=True)) if len(found) > 1 else predicate


def lower_project(lowering: Lowering, op: Project) -> Relation:
    block = lowering.opened(settled(lowering, op))
    uses = [c.name for o in op.outputs for c in o.expr.tree.find_all(exp.Column)]
    if any(heavy(tree) and uses.count(name) > 1 for name, tree in block.columns.items()):
        block = lowering.reopened(block)
    projected = replace(block, columns={o.name: block.bind(o.expr) for o in op.outputs})
    # What another evaluation changes is evaluated once, whoever reads it.
    return lowering.reopened(projected) if any(volatile(o.expr) for o in op.outputs) else projected


def lower_expand(lowering: Lowering, op: Expand) -> Relation:
    block = _joinable(lowering, lowering.block(op.input))  # type: ignore[arg-type]
    tags = expand_tags(op.columns, op.sets)
    source = token()
    tag = column("id", source)
    columns: dict[str, Sql] = dict(block.columns)
    for name in op.columns:
        within = [t for t, s in zip(tags, op.sets, strict=True) if name in s]
        if len(within) < len(tags):
            chosen = exp.In(this=tag.copy(), expressions=[number(t) for t in within]) if within else exp.false()
            columns[name] = case((chosen, columns[name]))
    columns[op.tag] = cast_to(tag, "bigint")
    sets = Source(source, "grouping_sets", "cross", values=_values(("id",), [(number(t),) for t in tags]))
    return lowering.closed(replace(block, columns=columns, sources=(*block.sources, sets)))


def lower_replicate(lowering: Lowering, op: Replicate) -> Relation:
    block = lowering.block(op.input)  # type: ignore[arg-type]
    count = cast_to(block.bind(op.count), "bigint")
    return replace(block, weight=times(block.weight, count))


def _joinable(lowering: Lowering, relation: Relation) -> Block:
    """A block to whose sources another can be joined."""
    block = lowering.opened(relation)
    return lowering.reopened(block) if block.laterals or not block.sources else block


def _single(lowering: Lowering, relation: Relation, *, padded: bool) -> Block:
    """A block with one source, whose columns are that source's own if the join pads them with NULLs."""
    block = _joinable(lowering, relation)
    one_table = len(block.sources) == 1 and all(s.values is None for s in block.sources)
    if not one_table or (padded and not (block.plain and _plain(block.weight))):
        return lowering.opened(lowering.closed(block), "side")
    return block


def _plain(weight: Sql | None) -> bool:
    return weight is None or isinstance(weight, exp.Column)


def _condition(op: Op, on: Expr, left: Block, right: Block) -> Sql:
    clash = left.columns.keys() & right.columns.keys() & on.columns
    if clash:
        raise PlanError(
            f"{type(op).__name__}: both sides have the column {min(clash)!r}", hint="rename one side by a projection"
        )
    return bind(on, {**left.columns, **right.columns})


def _sides(lowering: Lowering, op: Op, left: Relation, right: Relation, *, padded: bool) -> tuple[Block, Block]:
    """The two sides of a join that goes on from its left side's sources; the side that every core gets a copy of is marked."""
    first, second = _joinable(lowering, left), _single(lowering, right, padded=padded)
    side = lowering.broadcast(op)
    if side == "left":
        first = _copied(_single(lowering, first, padded=False))
    return first, _copied(second) if side == "right" else second


def _copied(block: Block) -> Block:
    return replace(block, sources=(replace(block.sources[0], broadcast=True),))


def _join(kind: str, left: Block, right: Block, on: Sql, columns: Mapping[str, Sql], weight: Sql | None) -> Block:
    conditions = [] if is_true(on) else [on]
    where = left.where
    if kind == "inner":
        where = (*where, *right.where)
        kind = "inner" if conditions else "cross"
    else:
        # A condition on the side that is looked up is part of the look-up.
        conditions += right.where
    condition = all_of(conditions)
    if condition is None and kind != "cross":
        condition = TRUE.tree.copy()
    source = replace(right.sources[0], join=kind, on=condition)
    return Block(dict(columns), weight, (*left.sources, source), where)


def lower_inner_join(lowering: Lowering, op: InnerJoin) -> Relation:
    left, right = _sides(lowering, op, settled(lowering, op, 0), settled(lowering, op, 1), padded=False)
    on = _condition(op, op.on, left, right)
    return _join("inner", left, right, on, {**left.columns, **right.columns}, times(left.weight, right.weight))


def lower_left_outer_join(lowering: Lowering, op: LeftOuterJoin) -> Relation:
    left, right = _sides(lowering, op, settled(lowering, op), net(lowering, op, 1), padded=True)
    on = _condition(op, op.on, left, right)
    weight = times(left.weight, weight_or_one(right.weight))
    return _join("left", left, right, on, {**left.columns, **right.columns}, weight)


def lower_full_outer_join(lowering: Lowering, op: FullOuterJoin) -> Relation:
    sides = net(lowering, op, 0), net(lowering, op, 1)
    left, right = (_single(lowering, lowering.reopened(s, "side"), padded=True) for s in sides)
    on = _condition(op, op.on, left, right)
    weight = times(weight_or_one(left.weight), weight_or_one(right.weight))
    return _join("full", left, right, on, {**left.columns, **right.columns}, weight)


def lower_semi_join(lowering: Lowering, op: SemiJoin) -> Relation:
    return _look_up("semi", lowering, op)


def lower_anti_join(lowering: Lowering, op: AntiJoin) -> Relation:
    return _look_up("anti", lowering, op)


def _look_up(kind: str, lowering: Lowering, op: SemiJoin | AntiJoin) -> Relation:
    # Net weights are never negative here, so the columns compared are there exactly if they sum to more than nothing.
    compared = tuple(c for c in names(op.inputs[1].schema) if c in op.on.columns)
    left, right = _sides(lowering, op, settled(lowering, op), net(lowering, op, 1, compared), padded=False)
    on = _condition(op, op.on, left, right)
    return _join(kind, left, right, on, left.columns, left.weight)


def lower_aggregate(lowering: Lowering, op: Aggregate) -> Relation:
    relation = settled(lowering, op)
    known: dict[str, Column] = {c.name: c for c in op.inputs[0].schema}
    if any(needs_rows(c) for c in op.calls):
        relation = rows_of(lowering, relation)
    block = lowering.groupable(relation, op.by)
    if block.weight is not None and not all(exact(c, known) for c in op.calls):
        block = lowering.opened(consolidated(lowering, block), "net")
    keys = {c: block.columns[c] for c in op.by}
    weight = block.weight
    if weight is None:
        # SELECT DISTINCT may change the order of a union's columns, which for Spark is a projection of its first input.
        if not op.calls and op.by and not isinstance(op.inputs[0], Plus):
            return Closed(distinct(block, [known[c] for c in op.by]), op.by, False)
        outputs = {c.name: over_rows(c, block.bind)(lowering.dialect) for c in op.calls}
        query = render(block, {**keys, **outputs} or _one_row(), group=keys.values())
        return Closed(query, (*keys, *outputs), False)
    outputs = {c.name: over_weights(c, block.bind, weight, lowering.dialect, known) for c in op.calls}
    having = differs_from_zero(call("sum", weight)) if keys else None
    query = render(block, {**keys, **outputs} or _one_row(), group=keys.values(), having=having)
    return Closed(query, (*keys, *outputs), False)


def _one_row() -> dict[str, Sql]:
    return {FILLER: exp.Count(this=exp.Star(), big_int=True)}


def lower_window(lowering: Lowering, op: Window) -> Relation:
    block = rows_of(lowering, lowering.relation(op.input))  # type: ignore[arg-type]
    if not block.plain:
        # What is partitioned or sorted by would be computed, and carried, beside the column that it is.
        block = lowering.reopened(block)
    outputs = {c.name: block.bind(c.call) for c in op.calls}
    query = render(block, {**block.columns, **outputs})
    return Closed(query, (*block.columns, *outputs), False)


def lower_top_k(lowering: Lowering, op: TopK) -> Relation:
    """The rows in order. LIMIT gives Spark one sorted partition; without it that has to be asked for, or writers may mix the partitions."""
    block = rows_of(lowering, lowering.relation(op.input))  # type: ignore[arg-type]
    query = render(block)
    given = {k.column for k in op.order}
    maps = {c.name for c in op.schema if not orderable(c.type)}
    order = (*op.order, *(SortKey(c) for c in block.columns if c not in given | maps))
    if order:
        query.set("order", exp.Order(expressions=[sort_term(k) for k in order]))
    if op.limit is not None:
        query.set("limit", exp.Limit(expression=number(op.limit)))
    elif lowering.dialect == "spark":
        add_hint(query, exp.Anonymous(this="REPARTITION", expressions=[number(1)]))
    if op.offset:
        query.set("offset", exp.Offset(expression=number(op.offset)))
    return Closed(query, tuple(block.columns), False)


def lower_plus(lowering: Lowering, op: Plus) -> Relation:
    return _united(lowering, op)


def lower_minus(lowering: Lowering, op: Minus) -> Relation:
    return _united(lowering, op)


def _terms(lowering: Lowering, op: Op, sign: int, top: bool = True) -> list[tuple[int, Op]]:
    """The summands of nested Plus and Minus with their signs; what is shared stays whole."""
    if not top and lowering.shared(op):
        return [(sign, op)]
    if isinstance(op, Plus):
        return [t for i in op.inputs for t in _terms(lowering, i, sign, False)]
    if isinstance(op, Minus):
        left, right = op.inputs
        return _terms(lowering, left, sign, False) + _terms(lowering, right, -sign, False)
    return [(sign, op)]


def _united(lowering: Lowering, op: Plus | Minus) -> Relation:
    columns = names(op.schema)
    terms = [(s, t) for s, t in _terms(lowering, op, 1) if not isinstance(t, Empty)]
    terms.sort(key=lambda term: lowering.spread(term[1]) is None)
    if not terms:
        return _empty(op.schema)
    relations = [(sign, _in_order(lowering, lowering.relation(t), columns)) for sign, t in terms]
    weighted = any(s < 0 for s, _ in relations) or any(r.weighted for _, r in relations)
    queries: list[exp.Query] = []
    for (sign, relation), (_, term) in zip(relations, terms, strict=True):
        if weighted:
            relation = weighted_block(lowering.opened(relation), sign)
        if isinstance(relation, Closed) and (relation.query.args.get("order") or relation.query.args.get("limit")):
            relation = lowering.opened(relation, "chosen")
        queries.append(brought_together(lowering, term, relation))
    query = queries[0]
    for other in queries[1:]:
        query = cast(exp.Query, exp.Union(this=query, expression=other, distinct=False))
    return Closed(query, columns, weighted)


def brought_together(lowering: Lowering, op: Op, relation: Relation) -> exp.Query:
    """A summand as a query, with its rows where those lie that they are added to, if the plan says so.

    Such summands come first. Spark compares how the inputs of a union lie by the columns of the first, and takes a column that was read under another table's name for another
    one (SPARK-58819). So the columns by which rows are moved get names of their own.
    """
    spread = lowering.spread(op)
    if spread is None:
        return lowering.closed(relation).query
    block = lowering.opened(relation)
    new = {c: f"{c}__moved" if c in spread.by else c for c in block.columns}
    moved = render(replace(block, columns={new[c]: tree for c, tree in block.columns.items()}))
    parts = [number(spread.parts)] if spread.parts else []
    columns = [exp.column(new[c]) for c in spread.by]
    add_hint(moved, exp.Anonymous(this="REPARTITION", expressions=[*parts, *columns]))
    there = reading(lowering.add_cte(moved, "moved"), new.values(), block.weighted)
    return render(replace(there, columns={c: there.columns[name] for c, name in new.items()}))


def _in_order(lowering: Lowering, relation: Relation, columns: tuple[str, ...]) -> Relation:
    """The relation with its columns in this order: UNION goes by position, and the terms of a sum may be joined in different orders."""
    if tuple(relation.columns) == columns:
        return relation
    block = lowering.opened(relation)
    return replace(block, columns={c: block.columns[c] for c in columns})


LOWERINGS: dict[type[Op], Writer] = {
    Scan: lower_scan,
    Read: lower_read,
    Values: lower_values,
    Empty: lower_empty,
    Filter: lower_filter,
    Project: lower_project,
    Expand: lower_expand,
    Replicate: lower_replicate,
    InnerJoin: lower_inner_join,
    LeftOuterJoin: lower_left_outer_join,
    FullOuterJoin: lower_full_outer_join,
    SemiJoin: lower_semi_join,
    AntiJoin: lower_anti_join,
    Aggregate: lower_aggregate,
    Window: lower_window,
    TopK: lower_top_k,
    Plus: lower_plus,
    Minus: lower_minus,
}
