"""What only a finished plan contains: reading a relation that exists by the time the step runs."""

from __future__ import annotations

from collections.abc import Sequence

from tempura.algebra.op import Op
from tempura.schema import Keys, Schema


class Read(Op):
    """A relation that exists when the step runs, by name: a version or a delta of a base table, or a state.

    A weighted relation has one more column, `__w`, with each row's signed weight; rows may repeat and weights may cancel.
    """

    name: str
    columns: Schema
    weighted: bool
    keys_held: Keys

    def columns_from(self, inputs: Sequence[Schema]) -> Schema:
        return self.columns

    def keys_from(self, inputs: Sequence[Keys], schemas: Sequence[Schema]) -> Keys:
        return self.keys_held

    def show(self) -> str:
        return f"Read[{self.name}]"


def snapshot_name(table: str, point: str) -> str:
    """The name under which a step reads a base table as of a point."""
    return f"{table}@{point}"


def point_of(snapshot: str) -> str:
    """The point as of which a base table is read under a name; no point's name has an `@`."""
    return snapshot.rpartition("@")[2]


def delta_name(table: str, start: str, end: str) -> str:
    """The name under which a step reads what a base table's rows changed by, from one point to another."""
    return f"{table}@{start}:{end}"
