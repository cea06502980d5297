"""Columns and schemas.

A relation's columns are named, and names are unique inside one relation. The binder keeps the names of base
columns (`o_id`) and gives computed ones a name that says what they are, not where they are used; only where two inputs of a join
would clash is one side renamed. Two uses of one table, CTE or sub-query therefore get the same columns, and meet
in the same memo group whatever their aliases.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

WEIGHT = "__w"
"""The column that carries a row's signed multiplicity in a weighted bag."""

UNKNOWN = "unknown"
"""The type of a column whose type could not be inferred."""

PARAMETER = "__x_"
"""Begins the names of parameters of lambdas."""

_OURS = re.compile(
    r"__(?:[dnw]|row|old|new|part|copy|least|k\d+|(?:new|window)_\d+|[cmqsx]_.*)|.+__(?:k|moved)", re.IGNORECASE
)
"""What plans call columns of their own: weights, parts of states, keys beside others. Whoever adds a name adds it here."""


def reserved(name: str) -> bool:
    """Whether a column of this name could be taken for one of those that plans make."""
    return _OURS.fullmatch(name) is not None


def numeric(type_name: str) -> bool:
    """Whether values of a type are numbers."""
    return type_name in ("tinyint", "smallint", "int", "bigint", "float", "double") or type_name.startswith("decimal")


def orderable(type_name: str) -> bool:
    """Whether Spark can sort values of a type, and take the greatest."""
    return re.search(r"\bmap<|\bvariant\b(?!\s*:)", re.sub("`[^`]*`", "", type_name)) is None


def part_name(name: str) -> str:
    """The name of a part of a structure, as a type's name has it: quoted if it is more than a word."""
    return name if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) else "`" + name.replace("`", "``") + "`"


_ALIASES = {
    "integer": "int",
    "long": "bigint",
    "short": "smallint",
    "byte": "tinyint",
    "real": "float",
    "text": "string",
    "dec": "decimal",
}


def normal(name: str) -> str:
    """A type's name as we write it: lower case, no blanks, `decimal(10,0)` for a bare decimal, `string` for all text."""
    name = name.lower().replace(" ", "")
    if name.startswith("interval"):
        return UNKNOWN  # There are many of them, and what they are called has blanks.
    name = _ALIASES.get(name, name)
    if name in ("decimal", "numeric"):
        return "decimal(10,0)"
    if name.startswith("numeric("):
        name = "decimal" + name[7:]
    if name.startswith("decimal(") and "," not in name:
        name = name[:-1] + ",0)"
    return "string" if name.startswith(("varchar", "char(", "char")) else name


def as_declared(name: str) -> str:
    """The type of a column that somebody declares, as we write it; what has parts stays as it is."""
    return name if "<" in name or name.startswith("interval") else normal(name)


class Column(NamedTuple):
    """A column: its name, its Spark SQL type in lower case (`decimal(7,2)`; names of parts are as they are), and whether it may be NULL."""

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
