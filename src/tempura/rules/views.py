"""Ways of writing views that several rules need: renamed keys, padded rows, the rows that a delta touches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tempura.algebra import Affected, Output, Project, SemiJoin
from tempura.expr import Expr, JoinCondition, col, conjunction, equality, parse, same_columns, split_condition
from tempura.rules.lang import decline
from tempura.schema import UNKNOWN, Column, Schema, orderable

NOT_COMPARED = "Spark groups by maps, but does not compare them"


def key_names(columns: Sequence[str]) -> tuple[str, ...]:
    """The names of key columns beside the columns they are compared with."""
    return tuple(f"{c}__k" for c in columns)


def compared(schema: Schema, columns: Sequence[str]) -> tuple[Column, ...]:
    """The columns that rows are to be compared by, if Spark compares their values."""
    given = {c.name: c for c in schema}
    found = tuple(given[c] for c in columns)
    if not all(orderable(c.type) for c in found):
        decline(NOT_COMPARED)
    return found


def affected(delta: Any, schema: Schema, columns: Sequence[str]) -> Project:
    """The values of some columns that a delta speaks of, under the names `key_names` gives."""
    outputs = tuple(
        Output(c._replace(name=k), col(c.name))
        for c, k in zip(compared(schema, columns), key_names(columns), strict=True)
    )
    return Project(Affected(delta, tuple(columns)), outputs)


def touched(rel: Any, keys: Any, columns: Sequence[str]) -> SemiJoin:
    """The rows of `rel` that agree on some columns with what `affected` gave."""
    return SemiJoin(rel, keys, same_columns(columns, key_names(columns)))


def kept(schema: Schema) -> tuple[Output, ...]:
    """The projection to these columns."""
    return tuple(Output(c, col(c.name)) for c in schema)


def padded(left: Schema, right: Schema) -> tuple[Output, ...]:
    """The columns of the left, and NULLs for those of the right."""
    return (*kept(left), *(Output(Column(c.name, c.type, True), null(c.type)) for c in right))


def padded_left(left: Schema, right: Schema) -> tuple[Output, ...]:
    """NULLs for the columns of the left, and the columns of the right."""
    return (*(Output(Column(c.name, c.type, True), null(c.type)) for c in left), *kept(right))


def null(type_name: str) -> Expr:
    """NULL of a type, so that a union finds it."""
    untyped = type_name == UNKNOWN or type_name.startswith("interval")
    return parse("NULL" if untyped else f"CAST(NULL AS {type_name})")


def condition(left: Any, right: Any, on: Expr) -> JoinCondition:
    """A join condition of two TVRs, split into equalities and the rest."""
    return split_condition(on, left.columns, right.columns)


def join_key_outputs(on: JoinCondition, right: Schema) -> tuple[Output, ...]:
    """The right side's join keys as columns `__k0`, `__k1`, …

    A key is NULL where its column is, whether or not a NULL finds a partner; one that is computed may be NULL whatever it is computed from.
    """
    given = {c.name: c for c in right}
    keys = (given.get(e.right.name or "", Column("")) for e in on.equi)
    return tuple(
        Output(k._replace(name=f"__k{i}"), e.right) for i, (k, e) in enumerate(zip(keys, on.equi, strict=True))
    )


def join_key_condition(on: JoinCondition) -> Expr:
    """The equalities of a join against `join_key_outputs` instead of the right side."""
    return conjunction(equality(e.left, col(f"__k{i}"), e.null_safe) for i, e in enumerate(on.equi))
