"""Filters that equalities carry across joins: where they go, where they must not, and that answers stay the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tempura.algebra import Filter, InnerJoin, Op, Plus, Scan
from tempura.catalog import Catalog, Table
from tempura.expr import Expr, parse
from tempura.reference import bag_of_rows, evaluate
from tempura.rules.relational import normalize
from tempura.schema import Column
from tempura.sql.bind import bind

CATALOG = Catalog(
    Table("r", (Column("a", "int"), Column("b", "int"), Column("f", "double")), (), {"t1": 1.0}),
    Table("s", (Column("d", "int"), Column("e", "int"), Column("g", "double"), Column("w", "bigint")), (), {"t1": 1.0}),
)
small = st.one_of(st.none(), st.integers(0, 3))
ROWS = st.fixed_dictionaries(
    {
        "r": st.lists(st.tuples(small, small, small.map(lambda v: v and float(v))), max_size=6),
        "s": st.lists(st.tuples(small, small, small.map(lambda v: v and float(v)), small), max_size=6),
    }
)


def below(op: Op) -> str:
    """The only table below an operator, if there is only one."""
    tables = {scan.table for scan in op.walk() if isinstance(scan, Scan)}
    return tables.pop() if len(tables) == 1 else ""


def filters(text: str, table: str) -> set[Expr]:
    """What the rows of a table are filtered by in the normalised query."""
    root = normalize(bind(text, CATALOG).root)
    return {p for op in root.walk() if isinstance(op, Filter) and below(op) == table for p in [op.predicate]}


CARRIED = {
    "inner": "SELECT * FROM r JOIN s ON a = d WHERE a = 2",
    "outer": "SELECT * FROM r LEFT JOIN s ON a = d AND b = e WHERE a = 2",
    "semi": "SELECT * FROM r WHERE a = 2 AND EXISTS (SELECT 1 FROM s WHERE d = a)",
    "anti": "SELECT * FROM r WHERE a = 2 AND NOT EXISTS (SELECT 1 FROM s WHERE d = a)",
    "from aggregates": "SELECT * FROM (SELECT a, COUNT(*) AS n FROM r WHERE a = 2 GROUP BY a) x LEFT JOIN s ON a = d",
    "into aggregates": "SELECT * FROM r LEFT JOIN (SELECT d, COUNT(*) AS n FROM s GROUP BY d) x ON a = d WHERE a = 2",
    "through names": "SELECT * FROM (SELECT a AS x FROM r WHERE a = 2) q JOIN (SELECT d AS y, e FROM s) p ON x = y",
}


@pytest.mark.parametrize("text", CARRIED.values(), ids=CARRIED)
def test_an_equality_carries_a_filter_to_the_other_side(text: str) -> None:
    assert parse("d = 2") in filters(text, "s")


@pytest.mark.parametrize("predicate", ["{} > 1", "{} BETWEEN 1 AND 2", "{} IN (1, 2)", "{} <> 3"])
def test_comparisons_are_carried(predicate: str) -> None:
    text = f"SELECT * FROM r JOIN s ON a = d WHERE {predicate.format('d')}"
    assert parse(predicate.format("a")) in filters(text, "r")


KEPT = {
    "rows without a partner stay": "SELECT * FROM r LEFT JOIN (SELECT * FROM s WHERE d = 2) x ON a = d",
    "rows without a partner pass": "SELECT * FROM r WHERE NOT EXISTS (SELECT 1 FROM s WHERE d = a AND d = 2)",
}


@pytest.mark.parametrize("text", KEPT.values(), ids=KEPT)
def test_nothing_is_carried_to_a_side_that_need_not_match(text: str) -> None:
    assert filters(text, "r") == set()


DIFFERENT = {
    "0.0 and -0.0 are equal": "SELECT * FROM r JOIN s ON f = g WHERE f > 1",
    "types differ": "SELECT * FROM r JOIN s ON a = w WHERE a = 2",
    "it is no comparison with a constant": "SELECT * FROM r JOIN s ON a = d WHERE a % 2 = 1",
    "it reads two columns": "SELECT * FROM r JOIN s ON a = d WHERE a > b",
    "NULLs are partners": "SELECT * FROM r LEFT JOIN s ON a <=> d WHERE a = 2",
    "it is no equality": "SELECT * FROM r JOIN s ON a < d WHERE a = 2",
}


@pytest.mark.parametrize("text", DIFFERENT.values(), ids=DIFFERENT)
def test_nothing_is_carried_where_equal_is_not_the_same(text: str) -> None:
    assert filters(text, "s") == set()


def test_a_union_has_what_all_of_its_branches_have() -> None:
    r, s = (Scan(name, CATALOG[name].columns, ()) for name in ("r", "s"))
    same, other = Filter(r, parse("a = 2")), Filter(r, parse("a = 1"))
    for branch, carried in ((same, True), (other, False)):
        root = normalize(InnerJoin(Plus((same, branch)), s, parse("a = d")))
        assert any(isinstance(op, Filter) and below(op) == "s" for op in root.walk()) is carried


@given(rows=ROWS, text=st.sampled_from([*CARRIED.values(), *KEPT.values(), *DIFFERENT.values()]))
def test_answers_stay_the_same(rows: dict[str, list[tuple[object, ...]]], text: str) -> None:
    bags = {name: bag_of_rows(listed) for name, listed in rows.items()}
    bound = bind(text, CATALOG).root
    assert evaluate(normalize(bound), bags) == evaluate(bound, bags)


def test_it_ends_where_joins_imply_each_other() -> None:
    text = "SELECT * FROM r JOIN s ON a = d AND b = e WHERE a > 1 AND e > 1 AND a < 9 AND d <> 4"
    assert {p for op in normalize(bind(text, CATALOG).root).walk() if isinstance(op, Filter) for p in [below(op)]} == {"r", "s"}  # fmt: skip
