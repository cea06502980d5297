"""Columns and schemas.

A relation's columns are named, and names are unique inside one relation. The binder keeps the names of base
columns (`o_id`) and gives computed ones a name that says what they are, not where they are used; only where two inputs of a join
would clash is one side renamed. Two uses of one table, CTE or sub-query therefore get the same columns, and meet
in the same memo group whatever their aliases.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

WEIGHT = "__w"
"""The column that carries a row's signed multiplicity in a weighted bag."""

UNKNOWN = "unknown"
"""The type of a column whose type could not be inferred."""


class Column(NamedTuple):
    """A column: its name, its Spark SQL type in lower case (`decimal(7,2)`), and whether it may be NULL."""

    name: str
    type: str = UNKNOWN
    nullable: bool = True

    def __str__(self) -> str:
        return f"{self.name} {self.type}" + ("" if self.nullable else " not null")


Schema = tuple[Column, ...]
Keys = frozenset[frozenset[str]]
"""Sets of columns, each of which identifies a row: no two rows agree on all of them (NULLs count as equal)."""

NO_KEYS: Keys = frozenset()


def names(schema: Schema) -> tuple[str, ...]:
    return tuple(c.name for c in schema)


def nullable(schema: Schema) -> Schema:
    """The same columns, all of which may be NULL: the padded side of an outer join."""
    return tuple(Column(c.name, c.type, True) for c in schema)


def fresh(name: str, taken: Iterable[str]) -> str:
    """`name`, or the first of `name_1`, `name_2`, … that is not taken."""
    taken = set(taken)
    if name not in taken:
        return name
    n = 1
    while f"{name}_{n}" in taken:
        n += 1
    return f"{name}_{n}"
