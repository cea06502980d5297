"""Which columns an operator must read so that those wanted of it come out right, and the operator that reads no others.

`pruned` narrows a whole query. What several others use is narrowed to the columns that any of them wants, so that it stays one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tempura.algebra import (
    Aggregate,
    AntiJoin,
    Empty,
    Expand,
    Filter,
    FullOuterJoin,
    InnerJoin,
    LeftOuterJoin,
    Op,
    Output,
    Plus,
    Project,
    Replicate,
    Scan,
    SemiJoin,
    Values,
    Window,
)
from tempura.expr import col
from tempura.rules.dag import Interned, parents_first
from tempura.schema import Schema, names

Columns = frozenset[str]


@dataclass(frozen=True)
class Narrowed:
    """The columns that an operator reads of each input, and how it is built over inputs that have them."""

    reads: tuple[Columns, ...]
    build: Callable[[Sequence[Op]], Op]


def narrowed(op: Op, wanted: Columns) -> Narrowed:
    """The operator cut down to what gives the wanted columns (and perhaps others that it reads itself)."""
    rule = _NARROW.get(type(op))
    if rule is None:
        return Narrowed(tuple(frozenset(names(i.schema)) for i in op.inputs), op.over)
    return rule(op, wanted if wanted or not op.schema else frozenset([spare_column(op)]))


def spare_column(op: Op) -> str:
    """The column to keep where none is wanted, as for COUNT(*): SQL has no relations without columns."""
    if isinstance(op, Scan) and op.key:
        return op.key[0]
    if isinstance(op, Project):
        return next((o.name for o in op.outputs if o.expr.name), op.outputs[0].name)
    return op.schema[0].name


def chosen(op: Op, wanted: Columns) -> Op:
    """The operator's wanted columns and no others, in the order they have."""
    kept = tuple(c for c in op.schema if c.name in wanted)
    if not kept and op.schema:
        spare = spare_column(op)
        kept = tuple(c for c in op.schema if c.name == spare)
    return op if len(kept) == len(op.schema) else Project(op, tuple(Output(c, col(c.name)) for c in kept))


def plain(op: Project) -> bool:
    """Whether the projection computes nothing."""
    return all(o.expr.name for o in op.outputs)


def _columns(op: Op) -> Columns:
    return frozenset(names(op.schema))


def _kept(schema: Schema, wanted: Columns) -> Schema:
    return tuple(c for c in schema if c.name in wanted)


def _values(op: Values, wanted: Columns) -> Narrowed:
    kept = [i for i, c in enumerate(op.columns) if c.name in wanted]
    rows = tuple(tuple(row[i] for i in kept) for row in op.rows)
    return Narrowed((), lambda inputs: Values(_kept(op.columns, wanted), rows))


def _empty(op: Empty, wanted: Columns) -> Narrowed:
    return Narrowed((), lambda inputs: Empty(_kept(op.columns, wanted)))


def _filter(op: Filter, wanted: Columns) -> Narrowed:
    return Narrowed((wanted | op.predicate.columns,), op.over)


def _project(op: Project, wanted: Columns) -> Narrowed:
    outputs = tuple(o for o in op.outputs if o.name in wanted)
    return Narrowed((_read(o.expr.columns for o in outputs),), lambda inputs: Project(inputs[0], outputs))


def _expand(op: Expand, wanted: Columns) -> Narrowed:
    """All grouping columns stay: the tag counts them."""
    return Narrowed(((wanted - {op.tag}) | set(op.columns),), op.over)


def _replicate(op: Replicate, wanted: Columns) -> Narrowed:
    return Narrowed((wanted | op.count.columns,), op.over)


def _join(op: Any, wanted: Columns) -> Narrowed:
    left, right = op.inputs
    read = wanted | op.on.columns
    return Narrowed((read & _columns(left), read & _columns(right)), op.over)


def _half_join(op: Any, wanted: Columns) -> Narrowed:
    """Of the right side of a semi- or anti-join nothing comes out."""
    left, right = op.inputs
    return Narrowed(((wanted | op.on.columns) & _columns(left), op.on.columns & _columns(right)), op.over)


def _aggregate(op: Aggregate, wanted: Columns) -> Narrowed:
    """The grouping columns stay, wanted or not: they say how many rows there are."""
    calls = tuple(c for c in op.calls if c.name in wanted)
    if not op.by and not calls:
        calls = op.calls[:1]
    expressions = [e for c in calls for e in (c.argument, c.where, c.call) if e is not None]
    read = _read(e.columns for e in expressions) | set(op.by)
    return Narrowed((read,), lambda inputs: Aggregate(inputs[0], op.by, calls))


def _window(op: Window, wanted: Columns) -> Narrowed:
    calls = tuple(c for c in op.calls if c.name in wanted)
    passed = wanted & _columns(op.inputs[0])
    if not calls:
        return Narrowed((passed,), lambda inputs: inputs[0])
    read = passed | _read(c.call.columns for c in calls) | set(op.partition)
    return Narrowed((read,), lambda inputs: Window(inputs[0], op.partition, calls))


def _plus(op: Plus, wanted: Columns) -> Narrowed:
    """The inputs must agree on their columns, so each gives exactly those wanted."""
    return Narrowed(tuple(wanted for _ in op.inputs), lambda inputs: op.over([chosen(i, wanted) for i in inputs]))


def _read(columns: Iterable[Columns]) -> Columns:
    return frozenset[str]().union(*columns)


_NARROW: dict[type[Op], Callable[[Any, Columns], Narrowed]] = {
    Values: _values,
    Empty: _empty,
    Filter: _filter,
    Project: _project,
    Expand: _expand,
    Replicate: _replicate,
    InnerJoin: _join,
    LeftOuterJoin: _join,
    FullOuterJoin: _join,
    SemiJoin: _half_join,
    AntiJoin: _half_join,
    Aggregate: _aggregate,
    Window: _window,
    Plus: _plus,
}
"""An operator that is not here reads all columns of its inputs: Scan has none, and TopK breaks ties by all columns."""

_WORTH_IT = (
    InnerJoin,
    LeftOuterJoin,
    FullOuterJoin,
    SemiJoin,
    AntiJoin,
    Aggregate,
    Window,
    Expand,
)
"""The operators that hold, sort or ship their input, so that a narrower one is worth a projection."""


def _fitted(user: Op, op: Op, wanted: Columns) -> Op:
    """An input as its user takes it: narrower where that is worth a projection.

    A base table is always read by column, unless its user picks the columns itself. Inner joins stay next to each other, so that they can be reordered.
    """
    if isinstance(user, Project) and (not isinstance(op, Scan) or plain(user)):
        return op
    if isinstance(op, Scan):
        return chosen(op, wanted)
    if isinstance(user, InnerJoin) and isinstance(op, InnerJoin):
        return op
    return chosen(op, wanted) if isinstance(user, _WORTH_IT) else op


def pruned(root: Op, interned: Interned) -> Op:
    """The query in which every operator gives only the columns that some other reads; its own columns stay as they are."""
    order = parents_first(root)
    wanted: dict[int, Columns] = {id(root): _columns(root)}
    cut: dict[int, Narrowed] = {}
    for op in order:
        found = cut[id(op)] = narrowed(op, wanted[id(op)])
        for i, read in zip(op.inputs, found.reads, strict=True):
            wanted[id(i)] = wanted.get(id(i), frozenset()) | read
    new: dict[int, Op] = {}
    for op in reversed(order):
        own = cut[id(op)]
        inputs = [interned(_fitted(op, new[id(i)], r)) for i, r in zip(op.inputs, own.reads, strict=True)]
        new[id(op)] = interned(own.build(inputs))
    return new[id(root)]
