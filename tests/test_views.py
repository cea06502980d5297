"""Ways of writing views that several rules need."""

from __future__ import annotations

from tempura.expr import parse, split_condition
from tempura.rules.views import join_key_outputs
from tempura.schema import Column

RIGHT = (Column("b", "int"), Column("k", "bigint", False), Column("s", "string", False))


def keys(on: str) -> list[Column]:
    return [o.column for o in join_key_outputs(split_condition(parse(on), ["a", "x"], [c.name for c in RIGHT]), RIGHT)]


def test_a_join_key_may_be_null_where_its_column_may():
    assert keys("a = b") == [Column("__k0", "int", True)]
    assert keys("a <=> k AND x = b") == [Column("__k0", "bigint", False), Column("__k1", "int", True)]


def test_a_computed_join_key_may_be_null_whatever_it_is_computed_from():
    assert keys("a = CAST(s AS INT)") == [Column("__k0", "unknown", True)]
