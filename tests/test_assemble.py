"""What assembling adds to the search's choice: which sides of joins are copied, which rows are moved to which, and an order by columns that a result does not show."""

from __future__ import annotations

from dataclasses import replace

import duckdb
import pytest

from tempura import IncrementalPlan, Job, plan
from tempura.algebra import InnerJoin, Op, Plus, Project, Read, SortKey, TopK
from tempura.algebra.joins import JOINS
from tempura.assemble import presented, sorting_first, unsorted
from tempura.catalog import Catalog, ColumnStatistics, Table
from tempura.estimate import Profile, table_stats
from tempura.expr import parse
from tempura.rules.views import kept
from tempura.schema import NO_KEYS, Column
from tempura.sql.bind import bind
from tempura.timeline import Timeline
from tests.profiles import STEADY

SALES = {"columns": {"o": "bigint", "c": "bigint", "p": "bigint"}, "key": ["o"]}
CATALOG = Catalog(Table("sales", (Column("o", "bigint"), Column("c", "bigint"), Column("p", "bigint"))))


DAYS = {"item": ColumnStatistics(10_000), "day": ColumnStatistics(300)}
CATALOG_OF_DAYS = Catalog(Table("days", (Column("day", "int"), Column("item", "int")), (), {"t1": 1e6}, {}, DAYS))


def planned(query: str, cluster: Profile = STEADY, **more: object) -> IncrementalPlan:
    sales = {**SALES, "arrives": {"t1": 8e6, "t2": 1e6}}
    names = {"columns": {"c": "bigint", "n": "string"}, "key": ["c"], "arrives": {"t1": 500}}
    timeline = [{"at": "t1", "price": 0.2, "deliver": True}, {"at": "t2", "deliver": True}]
    tables = {"sales": sales, "names": names}
    return plan(Job(query=query, tables=tables, timeline=timeline, cluster=cluster, **more), baselines=False)


def test_the_copied_sides_of_joins_are_data():
    found = planned("SELECT n, sum(p) AS p FROM sales JOIN names ON sales.c = names.c GROUP BY n")
    steps = [s for run in found.runs for s in run.steps]
    said = [line.operator for s in steps for line in s.lines if " broadcast " in line.operator]
    copied = [(list(s.tree.walk())[i], side) for s in steps for i, side in s.broadcasts]
    assert said and sorted(said) == sorted(f"{op.show()} broadcast {side}" for op, side in copied)
    assert all(isinstance(op, JOINS) for op, _ in copied)
    assert all(s.sql.count("BROADCAST(") == len(s.broadcasts) for s in steps)


def test_what_is_added_to_a_distributed_state_is_brought_to_where_it_lies():
    found = planned("SELECT c, count(DISTINCT p) AS p FROM sales GROUP BY c", policy="incremental")
    (step,) = (s for s in found.runs[1].steps if s.spreads)
    (spread,) = step.spreads
    state = next(s for s in found.states if s.partition == spread.by)
    moved = list(step.tree.walk())[spread.place]
    (total,) = (op for op in step.tree.walk() if any(i is moved for i in op.inputs))
    assert isinstance(total, Plus) and any(isinstance(i, Read) and i.name == state.name for i in total.inputs)
    assert f"/*+ REPARTITION({', '.join(f'{c}__moved' for c in spread.by)}) */" in step.sql
    assert "REPARTITION" not in step.to_sql("duckdb")


def test_a_join_sorts_by_the_key_of_most_values_first():
    (sales,) = (table_stats(t, Timeline.refresh(), 0) for t in CATALOG_OF_DAYS.values())
    on = parse("day = d2 AND item = i2")
    assert str(sorting_first(on, sales)) == str(parse("item = i2 AND day = d2"))
    assert sorting_first(parse("day = d2"), sales) == parse("day = d2")
    residual = sorting_first(parse("a2 < b2 AND day = d2 AND item = i2"), sales)
    assert str(residual) == str(parse("item = i2 AND day = d2 AND a2 < b2"))
    guarded = "day = d2 AND day <> i2 AND 1 / (item - i2) > 5"
    assert str(sorting_first(parse(guarded), sales)) == str(parse(guarded)), "what may fail comes after its guard"


def test_a_state_is_sorted_only_for_joins_that_read_it_as_it_is():
    counted = planned("SELECT c, count(DISTINCT p) AS p FROM sales GROUP BY c", policy="incremental")
    states = [s for run in counted.runs for s in run.steps if s.partition]
    assert states and not any(s.ordered for s in states), "grouping needs no order"
    query = "SELECT a.o, b.p FROM sales AS a JOIN sales AS b ON a.c = b.p AND a.p = b.o"
    sorting_is_free = replace(STEADY, merge_row=0.0)  # Or one side would be copied, and nothing be kept for a join.
    joined = planned(query, sorting_is_free, policy="incremental")
    states = [s for run in joined.runs for s in run.steps if s.partition]
    assert any(s.ordered for s in states)


HIDDEN = "SELECT o FROM sales ORDER BY p DESC, c"


def key(o: int) -> tuple[int, int]:
    """What the query orders by, of the row with this `o`."""
    return -(o * 7919 % 61), o % 3


@pytest.mark.parametrize("policy", ["auto", "incremental", "full"])
@pytest.mark.parametrize("query", [HIDDEN, HIDDEN + " LIMIT 50"])
def test_a_result_is_in_an_order_by_columns_that_it_does_not_show(query: str, policy: str):
    found = planned(query, policy=policy)
    with duckdb.connect() as connection:
        rows = "SELECT i AS o, i % 3 AS c, i * 7919 % 61 AS p FROM range({}, {}) t(i)"
        connection.execute(f'CREATE VIEW "sales@t1" AS {rows.format(0, 300)}')
        connection.execute(f'CREATE VIEW "sales@t1:t2" AS {rows.format(300, 400)}')
        connection.execute(f'CREATE VIEW "sales@t2" AS {rows.format(0, 400)}')
        for run in found.runs:
            for step in run.steps:
                connection.execute(f'CREATE TABLE "{step.name}" AS {step.to_sql("duckdb")}')
            (step,) = [s for s in run.steps if s.kind == "result"]
            listed = [o for (o,) in connection.execute(f'FROM "{step.name}"').fetchall()]
            everything = [o for (o,) in connection.execute(f'SELECT o FROM "sales@{run.point}"').fetchall()]
            wanted = sorted(map(key, everything))[: 50 if "LIMIT" in query else None]
            assert [key(o) for o in listed] == wanted and len(set(listed)) == len(wanted)
            assert step.order == () and step.schema[0].name == "o" and len(step.schema) == 1


def read(name: str, *columns: str) -> Read:
    return Read(name, tuple(Column(c, "bigint") for c in columns), False, NO_KEYS)


def test_rows_from_a_state_are_sorted_again():
    query = bind(HIDDEN, CATALOG)
    order = (SortKey("p", True, False), SortKey("c"))
    state: Op = read("kept", "o", "p", "c")
    shown = kept(query.root.schema)
    assert presented(Project(state, shown), query) == Project(TopK(state, order, None, 0), shown)
    cut = TopK(state, (*order, SortKey("o")), 9, 0)
    assert presented(Project(cut, shown), query) == Project(cut, shown)


def test_a_state_is_not_sorted():
    first = planned(HIDDEN).runs[0].steps
    assert [s.kind for s in first] == ["state", "result"]
    assert "ORDER BY" not in first[0].sql and "ORDER BY" in first[1].sql
    cut = TopK(read("x", "o"), (SortKey("o"),), None, 2)
    assert unsorted(cut) == cut


def test_an_earlier_result_stays_as_it_was_written():
    again = read("result@t1", "o")
    assert presented(again, bind(HIDDEN, CATALOG)) == again


def test_an_order_by_what_is_shown_is_left_to_the_step():
    query = bind("SELECT o, p FROM sales ORDER BY p", CATALOG)
    joined = InnerJoin(read("x", "p", "o"), read("y", "z"), parse("o = z"))
    assert presented(joined, query) == Project(joined, kept(query.root.schema))
