"""Where only the presence of rows is asked, joins may be half joins: both ways give the same, and the cheaper one is taken."""

from __future__ import annotations

import random

import pytest

from tempura import Job, plan
from tempura.algebra import Aggregate, InnerJoin, LeftOuterJoin, Op, SemiJoin
from tempura.catalog import Catalog, ColumnStatistics, Table
from tempura.reference import bag_of_rows, evaluate
from tempura.rules.existence import by_existence
from tempura.rules.relational import normalize
from tempura.schema import Column
from tempura.sql.bind import bind
from tempura.timeline import Timeline

CATALOG = Catalog(
    Table("orders", (Column("o", "int"), Column("c", "int")), (), {"t1": 1e6, "t2": 1e5}),
    Table("lines", (Column("lo", "int"), Column("place", "int")), (), {"t1": 1e7, "t2": 1e6}, {}, {"lo": ColumnStatistics(distinct=1e6)}),
    Table("backs", (Column("bo", "int"), Column("why", "int")), (), {"t1": 1e6, "t2": 1e5}, {}, {"bo": ColumnStatistics(distinct=1e5)}),
    Table("whys", (Column("w", "int", False), Column("kind", "int")), ("w",), {"t1": 50}),
)  # fmt: skip

PAIRS = "SELECT a.lo FROM lines a JOIN lines b ON a.lo = b.lo AND a.place <> b.place"
FEWER = {
    "IN": f"SELECT o FROM orders WHERE o IN ({PAIRS})",
    "NOT IN": f"SELECT o FROM orders WHERE o NOT IN ({PAIRS})",
    "NOT EXISTS": "SELECT o FROM orders WHERE NOT EXISTS (SELECT 1 FROM lines JOIN backs ON lo = bo WHERE lo = o AND why > place)",
    "the right side is asked": "SELECT o FROM orders WHERE o IN (SELECT b.lo FROM backs JOIN lines b ON bo = lo)",
    "twice": f"SELECT o FROM orders WHERE o IN ({PAIRS}) AND o IN (SELECT bo FROM backs JOIN ({PAIRS}) p ON p.lo = bo)",
    "DISTINCT": "SELECT DISTINCT o, c + 1 AS d FROM orders JOIN backs ON o = bo WHERE c > 1",
    "of a union": f"SELECT o FROM orders WHERE o IN ({PAIRS} UNION ALL SELECT bo FROM backs)",
    "of a union whose first part has no join": "SELECT o FROM orders WHERE EXISTS (SELECT bo FROM backs UNION ALL SELECT a.lo FROM lines a JOIN lines b ON a.lo = b.lo)",
    "below a half join": "SELECT o FROM orders WHERE o IN (SELECT lo FROM lines JOIN backs ON lo = bo WHERE place IN (SELECT c FROM orders))",
    "of an outer join": "SELECT DISTINCT o FROM orders LEFT JOIN backs ON o = bo",
    "NULL-safe": "SELECT DISTINCT o FROM orders JOIN backs ON o <=> bo",
}
AS_IT_IS = {
    "one partner at most": "SELECT o FROM orders WHERE o IN (SELECT bo FROM backs JOIN whys ON why = w)",
    "both sides are read": "SELECT DISTINCT c, why FROM orders JOIN backs ON o = bo",
    "rows are counted": "SELECT o, count(*) AS n FROM orders JOIN backs ON o = bo GROUP BY o",
    "a limit": "SELECT o FROM orders WHERE o IN (SELECT lo FROM lines JOIN backs ON lo = bo ORDER BY lo, place, why LIMIT 3)",
    "no equality": "SELECT o FROM orders WHERE o IN (SELECT lo FROM lines JOIN backs ON lo < bo)",
}


def tree(text: str) -> Op:
    return normalize(bind(text, CATALOG).root)


def kinds(root: Op, *of: type[Op]) -> int:
    return sum(isinstance(op, of) for op in root.walk())


def random_rows(rng: random.Random) -> dict[str, dict[tuple[object, ...], int]]:
    def rows(n: int, nullable: bool = True) -> list[tuple[object, ...]]:
        value = lambda: None if nullable and rng.random() < 0.15 else rng.randint(0, 3)  # noqa: E731
        return [(value(), value()) for _ in range(rng.randint(0, n))]

    found = {name: bag_of_rows(rows(7)) for name in ("orders", "lines", "backs")}
    return found | {"whys": bag_of_rows([(n, n % 2) for n in range(rng.randint(0, 4))])}


@pytest.mark.parametrize("text", FEWER.values(), ids=FEWER)
def test_both_ways_give_the_same(text: str):
    ways = list(by_existence(tree(text)))
    assert ways
    rng = random.Random(7)
    found: set[bool] = set()
    for _ in range(200):
        rows = random_rows(rng)
        for one, other in ways:
            assert kinds(other, InnerJoin, LeftOuterJoin) < kinds(one, InnerJoin, LeftOuterJoin)
            assert one.schema == other.schema
            given = evaluate(one, rows)
            assert given == evaluate(other, rows)
            found.add(bool(given))
    assert found == {False, True}


@pytest.mark.parametrize("text", AS_IT_IS.values(), ids=AS_IT_IS)
def test_what_is_not_better_otherwise_stays(text: str):
    assert list(by_existence(tree(text))) == []


def test_a_join_of_many_with_many_is_not_computed_to_ask_who_is_there():
    found = plan(Job(query=FEWER["IN"], catalog=CATALOG, timeline=Timeline.refresh(), policy="full"))
    last = found.runs[-1].steps[-1].tree
    assert kinds(last, SemiJoin) == 2 and kinds(last, InnerJoin, Aggregate) == 0
