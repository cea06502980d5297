"""The reference interpreter agrees with DuckDB, and says no where an operator is not defined."""

from __future__ import annotations

from decimal import Decimal

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings

from tempura.algebra import AggregateState, FinalState, InnerJoin, MergeState, Minus, Op, Plus, Window, WindowCall
from tempura.algebra.relational import expand_tags
from tempura.errors import PlanError, SqlError, TempuraError
from tempura.expr import TRUE, parse
from tempura.reference import EVALUATORS, Bag, apply, bag_of_rows, evaluate
from tempura.scalar import compile_expr
from tempura.schema import Column
from tests.duck import comparable, register_all, run
from tests.trees import (
    EXTREMES, LEFT, LINEAR, PRESENT, SPREADS, STATES, SUMS, Make, call, inputs, left, right, signed,
)  # fmt: skip

CALM = settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
EVERY = {**LINEAR, **PRESENT, **STATES}


@pytest.fixture(scope="module")
def connection():
    with duckdb.connect() as opened:
        yield opened


def agree(connection: duckdb.DuckDBPyConnection, tree: Op, tables: dict[str, Bag]) -> None:
    register_all(connection, tree, tables)
    assert comparable(run(connection, tree, rows=False)) == comparable(evaluate(tree, tables))


@pytest.mark.parametrize("make", EVERY.values(), ids=EVERY.keys())
@CALM
@given(tables=inputs())
def test_rows_agree_with_duckdb(connection: duckdb.DuckDBPyConnection, make: Make, tables: dict[str, Bag]) -> None:
    agree(connection, make(left(), right()), tables)


# Affected is a superset on bags that are not consolidated.
@pytest.mark.parametrize("make", [m for n, m in EVERY.items() if n != "affected"], ids=[n for n in EVERY if n != "affected"])
@CALM
@given(tables=inputs())
def test_weighted_rows_agree_with_duckdb(connection: duckdb.DuckDBPyConnection, make: Make, tables: dict[str, Bag]) -> None:
    for weighted in ((True, False), (False, True), (True, True)):
        agree(connection, make(left(weighted[0]), right(weighted[1])), tables)


LINEAR_STATES = {**LINEAR, **{n: m for n, m in STATES.items() if n.startswith("state")}}
