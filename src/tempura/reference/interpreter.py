"""The reference interpreter: what each operator means, on bags of rows with signed weights.

It is the oracle against which rules and lowering are tested, and so is written to be seen to be right: one function per operator,
in a table that users may add to, over dictionaries from rows to weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from tempura.algebra import (
    Affected,
    Aggregate,
    AggregateState,
    AntiJoin,
    Empty,
    Expand,
    Filter,
    FinalState,
    FullOuterJoin,
    InnerJoin,
    LeftOuterJoin,
    MergeState,
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
from tempura.algebra.incremental import ROWS
from tempura.algebra.relational import expand_tags
from tempura.errors import PlanError, TempuraError
from tempura.expr import TRUE, Expr
from tempura.reference.aggregates import aggregate_value, final_value, merged_parts, state_values
from tempura.reference.scalar import Evaluator, Row, compile_expr
from tempura.reference.windows import window_values
from tempura.schema import Schema, names

Bag = dict[Row, int]
"""Rows, with their columns in the order of the schema, and their net weights, of which none is 0."""

_NAN = float("nan")


def bag(weighted_rows: Iterable[tuple[Row, int]]) -> Bag:
    """The bag of rows with weights: equal rows added up, those that cancel left out."""
    found: Bag = {}
    for row, weight in weighted_rows:
        # NaN is a value like any other in a group or a distinct; one object stands for it, because Python finds it by identity.
        key = tuple(_NAN if isinstance(v, float) and v != v else v for v in row)
        found[key] = found.get(key, 0) + weight
    return {row: weight for row, weight in found.items() if weight}


def bag_of_rows(rows: Iterable[Sequence[Any]]) -> Bag:
    """The bag in which each row counts as often as it is given."""
    return bag((tuple(r), 1) for r in rows)


def rows_of(given: Bag, what: str = "the input") -> list[Row]:
    """Every row as often as it is there."""
    _check_present(given, what)
    return [row for row, weight in given.items() for _ in range(weight)]


def _check_present(given: Bag, what: str) -> None:
    for row, weight in given.items():
        if weight < 0:
            raise TempuraError(
                f"{what} has the row {row} {weight} times",
                hint="this operator is defined on net weights that are not negative",
            )


def evaluate(op: Op, tables: Mapping[str, Bag]) -> Bag:
    """The bag of a tree, given those of its tables (Scan) and relations (Read) by name."""
    known: dict[int, Bag] = {}

    def value(part: Op) -> Bag:
        if id(part) not in known:
            known[id(part)] = (
                _leaf(part, tables)
                if isinstance(part, (Scan, Read))
                else apply(part, [value(i) for i in part.inputs], [i.schema for i in part.inputs])
            )
        return known[id(part)]

    return value(op)


def _leaf(op: Scan | Read, tables: Mapping[str, Bag]) -> Bag:
    name = op.table if isinstance(op, Scan) else op.name
    if name not in tables:
        raise PlanError(f"there is no relation {name!r} to evaluate", hint=f"given are {', '.join(tables) or 'none'}")
    return tables[name]


def apply(op: Op, inputs: Sequence[Bag], schemas: Sequence[Schema]) -> Bag:
    """The bag of one operator, given the bags and schemas of its inputs; what the operator itself holds as inputs is not looked at."""
    function = EVALUATORS.get(type(op))
    if function is None:
        raise PlanError(
            f"the reference interpreter does not know the operator {type(op).__name__}",
            hint="register a function for it in tempura.reference.EVALUATORS",
        )
    return function(op, inputs, schemas)


def _columns(schema: Schema, wanted: Iterable[str]) -> Callable[[Row], Row]:
    position = {name: i for i, name in enumerate(names(schema))}
    indices = [position[c] for c in wanted]
    return lambda row: tuple(row[i] for i in indices)


def _values(op: Values, inputs: Sequence[Bag], schemas: Sequence[Schema]) -> Bag:
    return bag((tuple(compile_expr(e, ())(()) for e in row), 1) for row in op.rows)


def _empty(op: Empty, inputs: Sequence[Bag], schemas: Sequence[Schema]) -> Bag:
    return {}


def _filter(op: Filter, inputs: Sequence[Bag], schemas: Sequence[Schema]) -> Bag:
    holds = compile_expr(op.predicate, schemas[0])
    return {row: weight for row, weight in inputs[0].items() if holds(row) is True}


def _project(op: Project, inputs: Sequence[Bag], schemas: Sequence[Schema]) -> Bag:
    outputs = [compile_expr(o.expr, schemas[0]) for o in op.outputs]
    return bag((tuple(o(row) for o in outputs), weight) for row, weight in inputs[0].items())


def _expand(op: Expand, inputs: Sequence[Bag], schemas: Sequence[Schema]) -> Bag:
    columns = names(schemas[0])
    tagged = list(zip(op.sets, expand_tags(op.columns, op.sets), strict=True))

    def rows() -> Iterator[tuple[Row, int]]:
        for row, weight in inputs[0].items():
            for members, tag in tagged:
                kept = (None if c in op.columns and c not in members else v for c, v in zip(columns, row, strict=True))
                yield (*kept, tag), weight

    return bag(rows())


def _replicate(op: Replicate, inputs: Sequence[Bag], schemas: Sequence[Schema]) -> Bag:
    count = compile_expr(op.count, schemas[0])

    def rows() -> Iterator[tuple[Row, int]]:
        for row, weight in inputs[0].items():
            times = count(row)
            if times is None or times < 0:
                raise TempuraError(
                    f"the row {row} is to be replicated {times} times", hint="the count is never NULL or negative"
                )
            yield row, weight * int(times)

    return bag(rows())


def _condition(on: Expr, schemas: Sequence[Schema]) -> Evaluator:
    if on is TRUE:
        return lambda row: True
    left, right = schemas
    clash = set(names(left)) & set(names(right)) & on.columns
    if clash:
        raise PlanError(f"both sides of a join have the column {min(clash)!r}", hint="rename one side by a projection")
    return compile_expr(on, (*left, *right))


def _pairs(on: Expr, inputs: Sequence[Bag], schemas: Sequence[Schema]) -> Iterator[tuple[Row, Row]]:
    holds = _condition(on, schemas)
    return ((a, b) for a in inputs[0] for b in inputs[1] if holds((*a, *b)) is True)


def _inner_join(op: InnerJoin, inputs: Sequence[Bag], schemas: Sequence[Schema]) -> Bag:
    left, right = inputs
    return bag(((*a, *b), left[a] * right[b]) for a, b in _pairs(op.on, inputs, schemas))


def _outer_join(op: LeftOuterJoin | FullOuterJoin, inputs: Sequence[Bag], schemas: Sequence[Schema]) -> Bag:
    left, right = inputs
    _check_present(right, "the right side of an outer join")
    if isinstance(op, FullOuterJoin):
        _check_present(left, "the left side of a full outer join")
    pairs = list(_pairs(op.on, inputs, schemas))
    found = [((*a, *b), left[a] * right[b]) for a, b in pairs]
    met = {a for a, _ in pairs}
    found += [((*a, *(None,) * len(schemas[1])), weight) for a, weight in left.items() if a not in met]
    if isinstance(op, FullOuterJoin):
        met = {b for _, b in pairs}
        found += [((*(None,) * len(schemas[0]), *b), weight) for b, weight in right.items() if b not in met]
    return bag(found)


def _semi_join(op: SemiJoin, inputs: Sequence[Bag], schemas: Sequence[Schema]) -> Bag:
    _check_present(inputs[1], "the right side of a semi-join")
    met = {a for a, _ in _pairs(op.on, inputs, schemas)}
    return {a: weight for a, weight in inputs[0].items() if a in met}


def _anti_join(op: AntiJoin, inputs: Sequence[Bag], schemas: Sequence[Schema]) -> Bag:
    _check_present(inputs[1], "the right side of an anti-join")
    met = {a for a, _ in _pairs(op.on, inputs, schemas)}
    return {a: weight for a, weight in inputs[0].items() if a not in met}


def _groups(by: Sequence[str], given: Bag, schema: Schema) -> dict[Row, Bag]:
    key = _columns(schema, by)
    found: dict[Row, Bag] = {}
    for row, weight in given.items():
        found.setdefault(key(row), {})[row] = weight
    return found


def _aggregate(op: Aggregate, inputs: Sequence[Bag], schemas: Sequence[Schema]) -> Bag:
    _check_present(inputs[0], "the input of an aggregate")
    groups = _groups(op.by, inputs[0], schemas[0])
    if not op.by:
        groups = groups or {(): {}}
    return {(*key, *(aggregate_value(c, rows, schemas[0]) for c in op.calls)): 1 for key, rows in groups.items()}


def _aggregate_state(op: AggregateState, inputs: Sequence[Bag], schemas: Sequence[Schema]) -> Bag:
    groups = _groups(op.by, inputs[0], schemas[0])
    found = {(*key, sum(rows.values()), *state_values(op.calls, rows, schemas[0])): 1 for key, rows in groups.items()}
    return {row: 1 for row in found if any(row[len(op.by) :])}


def _states(given: Bag, schema: Schema, by: Sequence[str]) -> Iterator[tuple[Row, dict[str, Any]]]:
    key = _columns(schema, by)
    for row, weight in given.items():
        if weight != 1:
            raise TempuraError(f"a state has the row {row} {weight} times", hint="a state has one row for each group")
        yield key(row), dict(zip(names(schema), row, strict=True))


def _pieces(given: Bag, schema: Schema, by: Sequence[str]) -> Iterator[tuple[Row, dict[str, Any]]]:
    """Pieces of states to be merged: one that counts several times, or negatively, has its sums multiplied."""
    key = _columns(schema, by)
    for row, weight in given.items():
        state = dict(zip(names(schema), row, strict=True))
        for c, value in state.items():
            if c not in by and value is not None and weight != 1:
                if not c.startswith("__m_"):
                    state[c] = value * weight
                elif weight < 0:
                    raise TempuraError(
                        f"the state {row} is taken back", hint="a least or greatest value cannot be taken back"
                    )
        yield key(row), state


def _merge_state(op: MergeState, inputs: Sequence[Bag], schemas: Sequence[Schema]) -> Bag:
    groups: dict[Row, list[dict[str, Any]]] = {}
    for given, schema in zip(inputs, schemas, strict=True):
        for key, state in _pieces(given, schema, op.by):
            groups.setdefault(key, []).append(state)
    found: Bag = {}
    for key, states in groups.items():
        rows = sum(s[ROWS] for s in states)
        if rows:
            merged = {**dict(zip(op.by, key, strict=True)), ROWS: rows, **merged_parts(op.calls, states)}
            found[tuple(merged[c] for c in names(schemas[0]))] = 1
    return found


def _final_state(op: FinalState, inputs: Sequence[Bag], schemas: Sequence[Schema]) -> Bag:
    states = list(_states(inputs[0], schemas[0], op.by))
    if not op.by and not states:
        nothing: dict[str, Any] = {}
        states = [((), nothing)]
    return {(*key, *(final_value(c, state) for c in op.calls)): 1 for key, state in states}


def _window(op: Window, inputs: Sequence[Bag], schemas: Sequence[Schema]) -> Bag:
    rows = rows_of(inputs[0], "the input of a window")
    columns = [window_values(c, rows, schemas[0]) for c in op.calls]
    return bag(
        ((*row, *extra), 1)
        for row, extra in zip(rows, zip(*columns, strict=True) if columns else [()] * len(rows), strict=True)
    )


def _top_k(op: TopK, inputs: Sequence[Bag], schemas: Sequence[Schema]) -> Bag:
    columns = names(schemas[0])
    given = {k.column for k in op.order}
    rows = rows_of(inputs[0], "the input of a top-k")
    for key in reversed((*op.order, *(SortKey(c) for c in columns if c not in given))):
        position = columns.index(key.column)
        null_rank = -1 if key.nulls_first != key.descending else 1
        rows.sort(key=_ranked(position, null_rank), reverse=key.descending)
    end = None if op.limit is None else op.offset + op.limit
    return bag((row, 1) for row in rows[op.offset : end])


def _ranked(position: int, null_rank: int) -> Callable[[Row], Any]:
    return lambda row: (null_rank, 0) if row[position] is None else (0, row[position])


def _plus(op: Plus, inputs: Sequence[Bag], schemas: Sequence[Schema]) -> Bag:
    return bag((row, weight) for given in inputs for row, weight in given.items())


def _minus(op: Minus, inputs: Sequence[Bag], schemas: Sequence[Schema]) -> Bag:
    left, right = inputs
    return bag([*left.items(), *((row, -weight) for row, weight in right.items())])


def _affected(op: Affected, inputs: Sequence[Bag], schemas: Sequence[Schema]) -> Bag:
    key = _columns(schemas[0], op.columns)
    return {key(row): 1 for row in inputs[0]}


EVALUATORS: dict[type[Op], Callable[[Any, Sequence[Bag], Sequence[Schema]], Bag]] = {
    Values: _values,
    Empty: _empty,
    Filter: _filter,
    Project: _project,
    Expand: _expand,
    Replicate: _replicate,
    InnerJoin: _inner_join,
    LeftOuterJoin: _outer_join,
    FullOuterJoin: _outer_join,
    SemiJoin: _semi_join,
    AntiJoin: _anti_join,
    Aggregate: _aggregate,
    Window: _window,
    TopK: _top_k,
    Plus: _plus,
    Minus: _minus,
    AggregateState: _aggregate_state,
    MergeState: _merge_state,
    FinalState: _final_state,
    Affected: _affected,
}
"""What each operator means, by its class; users may add their own. Scan and Read are looked up by `evaluate`."""
