"""What an operator is: a class whose fields annotated `Rel` are its inputs, and whose other fields are payload.

    class InnerJoin(Op):
        left: Rel
        right: Rel
        on: Expr

One class serves trees (inputs are operators), the memo (inputs are numbers of groups or TVRs) and rule patterns (inputs are
pattern terms). What is intrinsic to an operator (schema, keys) is a method of its class; what varies by concern (statistics,
cost, lowering, evaluation) lives in that concern's module as a table from operator class to function.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, ClassVar, cast, dataclass_transform

from tempura.expr import Expr
from tempura.schema import NO_KEYS, Keys, Schema


class Rel:
    """Whatever can stand as the input of an operator: an operator, a view in the memo, a term of a pattern."""


Rels = tuple[Rel, ...]
"""The inputs of an operator that takes any number of them (Plus)."""

Key = tuple[type["Op"], tuple[Any, ...]]
"""An operator's class and payload: what is left of it when its inputs are taken away."""


@dataclass_transform(frozen_default=True)
class Op(Rel):
    """An operator with its inputs."""

    input_names: ClassVar[tuple[str, ...]] = ()
    payload_names: ClassVar[tuple[str, ...]] = ()
    variadic: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True, repr=False)(cls)
        kinds = {f.name: f.type for f in fields(cls)}  # type: ignore[arg-type]
        cls.input_names = tuple(n for n, kind in kinds.items() if kind in ("Rel", "Rels"))
        cls.payload_names = tuple(n for n, kind in kinds.items() if kind not in ("Rel", "Rels"))
        cls.variadic = "Rels" in kinds.values()

    @property
    def inputs(self) -> tuple[Any, ...]:
        if self.variadic:
            return getattr(self, self.input_names[0])
        return tuple(getattr(self, n) for n in self.input_names)

    @property
    def payload(self) -> tuple[Any, ...]:
        return tuple(getattr(self, n) for n in self.payload_names)

    @classmethod
    def build(cls, inputs: Sequence[Any], payload: Sequence[Any]) -> Op:
        """The operator with these inputs and this payload, in the order of their fields."""
        given = {cls.input_names[0]: tuple(inputs)} if cls.variadic else dict(zip(cls.input_names, inputs, strict=True))
        return cls(**given, **dict(zip(cls.payload_names, payload, strict=True)))

    def over(self, inputs: Sequence[Any]) -> Op:
        """The same operator over other inputs."""
        return type(self).build(inputs, self.payload)

    # What follows is about trees.

    def columns_from(self, inputs: Sequence[Schema]) -> Schema:
        """The schema, given those of the inputs."""
        raise NotImplementedError(f"{type(self).__name__} does not say its columns")

    def keys_from(self, inputs: Sequence[Keys], schemas: Sequence[Schema]) -> Keys:
        """The keys that surely hold, given those of the inputs."""
        return NO_KEYS

    @cached_property
    def schema(self) -> Schema:
        return self.columns_from([i.schema for i in self.inputs])

    @cached_property
    def keys(self) -> Keys:
        return self.keys_from([i.keys for i in self.inputs], [i.schema for i in self.inputs])

    def walk(self) -> Iterator[Op]:
        """This operator and all below it, inputs first."""
        for i in self.inputs:
            yield from i.walk()
        yield self

    def show(self) -> str:
        """The operator's name and payload in one line."""
        parts = [p for p in (show_payload(v) for v in self.payload) if p]
        return type(self).__name__ + (f"[{'; '.join(parts)}]" if parts else "")

    def __repr__(self) -> str:
        inner = ", ".join(repr(i) for i in self.inputs)
        return f"{self.show()}({inner})" if self.inputs else self.show()


def expressions(payload: Any) -> Iterator[Expr]:
    """All scalar expressions in a payload."""
    if isinstance(payload, Expr):
        yield payload
    elif isinstance(payload, tuple):
        for part in cast("tuple[Any, ...]", payload):
            yield from expressions(part)


def show_payload(value: Any) -> str:
    """A payload value as people read it."""
    if isinstance(value, tuple) and not hasattr(cast("Any", value), "_fields"):
        return ", ".join(show_payload(v) for v in cast("tuple[Any, ...]", value))
    return str(cast("Any", value))


def show_tree(op: Op, indent: int = 0) -> str:
    """The tree as indented text, one operator a line."""
    lines = ["  " * indent + op.show()]
    lines += [show_tree(i, indent + 1) for i in op.inputs]
    return "\n".join(lines)
