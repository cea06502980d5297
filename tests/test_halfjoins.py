"""Half joins first or last: both ways are there, and the cheaper one is taken."""

from __future__ import annotations

from tempura import Job, plan
from tempura.algebra import AntiJoin, InnerJoin, Op, SemiJoin
from tempura.catalog import Catalog, ColumnStatistics, Table
from tempura.reference import bag_of_rows, evaluate
from tempura.rules.halfjoins import late_half_joins
from tempura.rules.relational import normalize
from tempura.schema import Column, names
from tempura.sql.bind import bind
from tempura.timeline import Timeline

TEXT = (
    "SELECT s.id, d.year FROM sales s JOIN days d ON s.day = d.day WHERE d.year = 2001 "
    "AND EXISTS (SELECT 1 FROM parts p WHERE p.sale = s.id AND p.place <> s.place) AND NOT EXISTS (SELECT 1 FROM backs b WHERE b.sale = s.id)"
)


def catalog(years: float) -> Catalog:
    def table(name: str, rows: float, *columns: str, **distinct: float) -> Table:
        known = {c: ColumnStatistics(distinct=n) for c, n in distinct.items()}
        return Table(
            name, tuple(Column(c, "int") for c in columns), (), {"t1": 0.8 * rows, "t2": 0.2 * rows}, {}, known
        )

    return Catalog(
        table("sales", 1e7, "id", "day", "place", id=1e7, day=2e3),
        table("parts", 3e7, "sale", "place", sale=1e7),
        table("backs", 1e6, "sale", sale=1e6),
        table("days", 2e3, "day", "year", day=2e3, year=years),
    )


def halves_above_joins(root: Op) -> list[type[Op]]:
    return [type(op) for op in root.walk() if isinstance(op, SemiJoin | AntiJoin) and any(isinstance(i, InnerJoin) for i in op.inputs[0].walk())]  # fmt: skip


def test_a_block_has_its_half_joins_first_or_last():
    ((early, late),) = late_half_joins(normalize(bind(TEXT, catalog(5)).root))
    assert halves_above_joins(early) == [] and halves_above_joins(late) == [SemiJoin, AntiJoin]
    assert names(early.schema) == names(late.schema)
    rows = {
        "sales": bag_of_rows([(1, 1, 7), (2, 1, 7), (3, 2, 7), (4, 1, None), (4, 1, 8), (4, 1, 8)]),
        "days": bag_of_rows([(1, 2001), (2, 2000)]),
        "parts": bag_of_rows([(1, 8), (1, 9), (2, 8), (3, 8), (4, 9)]),
        "backs": bag_of_rows([(2,), (None,)]),
    }
    assert evaluate(early, rows) == evaluate(late, rows) == {(1, 2001): 1, (4, 2001): 2}


def test_blocks_without_half_joins_have_one_way():
    text = "SELECT s.id FROM sales s JOIN days d ON s.day = d.day"
    assert list(late_half_joins(normalize(bind(text, catalog(5)).root))) == []


def test_the_cheaper_way_is_taken():
    """With two hundred years of days few sales are left to ask about; with one, all are."""
    few, all_ = (
        plan(Job(query=TEXT, catalog=catalog(years), timeline=Timeline.refresh(), policy="full")) for years in (200, 1)
    )
    last = [p.runs[-1].steps[-1].tree for p in (few, all_)]
    assert halves_above_joins(last[0]) and not halves_above_joins(last[1])
