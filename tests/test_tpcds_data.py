"""TPC-DS as a job: tables that arrive as the patterns say, and the grid's bookkeeping."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pytest
from rich.console import Console

from bench import _scale1000, tpcds
from tempura.catalog import Catalog
from tempura.errors import JobError
from tempura.timeline import Timeline
from tests.duckrun import run_batch
from tests.tpcds_grid import Cell, dearer, earlier, exceeds, query_numbers, summarise

SF = 0.01
POINTS = ["t1", "t2", "t3"]
Arrived = tuple[str, duckdb.DuckDBPyConnection, Catalog]


@pytest.fixture(scope="module", params=list(tpcds.PATTERNS))
def arrived(request: pytest.FixtureRequest):
    """A connection with all relations of a pattern, and the tables as they are declared."""
    with duckdb.connect() as connection:
        tpcds.register(connection, SF, request.param, POINTS)
        yield request.param, connection, tpcds.catalog(SF, request.param, Timeline.refresh(POINTS))


def test_snapshot_and_delta_make_the_next_snapshot(arrived: Arrived):
    _, connection, catalog = arrived
    for name in (*tpcds.FACTS, "item"):
        weight = "__w" if catalog[name].can_retract else "1"
        columns = ", ".join(c.name for c in catalog[name].columns)
        for start, end in (("t1", "t2"), ("t2", "t3"), ("t1", "t3")):
            added_up = (
                f'SELECT {columns}, 1 AS n FROM "{name}@{start}" UNION ALL SELECT {columns}, {weight} FROM "{name}@{start}:{end}" '
                f'UNION ALL SELECT {columns}, -1 FROM "{name}@{end}"'
            )
            left = connection.execute(
                f"SELECT count(*) FROM (SELECT 1 FROM ({added_up}) GROUP BY {columns} HAVING sum(n) <> 0)"
            )
            assert left.fetchall() == [(0,)], (name, start, end)


def test_arrivals_are_as_declared(arrived: Arrived):
    pattern, connection, catalog = arrived
    timeline = Timeline.refresh(POINTS)
    for i, point in enumerate(POINTS):
        found = connection.execute(f'SELECT count(*) FROM "store_sales@{point}"').fetchall()[0][0]
        assert found == pytest.approx(catalog["store_sales"].rows(timeline, i), rel=0.03)
    retracting = {n for n, t in catalog.items() if t.can_retract}
    expected = {"delta-R": set(tpcds.SALES), "delta-RS": {*tpcds.SALES, *tpcds.RETURNS}}.get(pattern, set())
    assert retracting == expected
    for name in expected:
        assert connection.execute(f'SELECT count(*) FROM "{name}@t1:t2" WHERE __w < 0').fetchall()[0][0] > 0


def test_some_returns_come_after_their_sales(arrived: Arrived):
    _, connection, _ = arrived
    late = 'SELECT count(*) FROM "store_returns@t1:t2" JOIN "store_sales@t1" ON sr_item_sk = ss_item_sk AND sr_ticket_number = ss_ticket_number'
    assert connection.execute(late).fetchall()[0][0] > 0


def test_shares():
    assert tpcds.PATTERNS["delta-big"].shares(2) == [0.5, 0.5]
    assert tpcds.PATTERNS["delta-small"].shares(3) == pytest.approx([0.8, 0.1, 0.1])
    assert tpcds.PATTERNS["delta-R"].shares(2) == pytest.approx([2 / 3, 1 / 3])
    assert tpcds.PATTERNS["delta-R"].shares(1) == [1.0]


def test_catalog_has_keys_types_and_statistics():
    catalog = tpcds.catalog(SF, "delta-big", Timeline.refresh())
    sales = catalog["store_sales"]
    assert sales.column("ss_list_price").type == "decimal(7,2)"
    assert not sales.column("ss_item_sk").nullable
    assert {(f.columns, f.table) for f in sales.foreign_keys} >= {
        (("ss_sold_date_sk",), "date_dim"),
        (("ss_item_sk",), "item"),
    }
    assert catalog["date_dim"].statistics["d_date_sk"].distinct == 73_049
    assert catalog["date_dim"].statistics["d_date"].least == -25_566, "1900-01-02, in days since 1970-01-01"
    assert 0 < (sales.statistics["ss_customer_sk"].null_share) < 0.1
    assert len(catalog) == 24


def test_virtual_scale():
    small = tpcds.catalog(SF, "delta-big", Timeline.refresh())
    large = _scale1000.catalog("delta-big", Timeline.refresh())
    assert [(t.name, t.columns, t.key) for t in large.values()] == [(t.name, t.columns, t.key) for t in small.values()]
    assert sum(large["store_sales"].arrives.values()) == pytest.approx(2_879_987_999)
    known = {column: s for table in large.values() for column, s in table.statistics.items()}
    assert known["ss_item_sk"].distinct == known["i_item_sk"].distinct == known["i_item_sk"].greatest == 300_000
    assert known["i_item_id"].distinct == 150_000, "a business key has two rows on average"
    assert known["s_store_id"].distinct == 501 and known["c_customer_id"].distinct == 12_000_000
    assert known["i_brand_id"].distinct < 1_000 and known["i_category"].distinct == 10, "there are no more than that"
    assert known["ss_quantity"].distinct == 100 and known["d_date_sk"].distinct == 73_049


def test_too_small_a_scale_is_refused():
    with pytest.raises(JobError, match="does not end below"):
        tpcds.generate(0.001)


def test_queries_run_over_any_point(arrived: Arrived):
    _, connection, _ = arrived
    queries = tpcds.queries()
    assert sorted(queries) == list(range(1, 100))
    for number in (7, 14, 51, 67, 80, 97):
        for point in ("t1", "t3"):
            run_batch(connection, "answer", queries[number], point)
            assert connection.execute("SELECT count(*) FROM answer").fetchall()[0][0] > 0, (number, point)


# The grid.


def record(methods: str, total: float, scenario: str = "warehouse", work: tuple[float, ...] = (), **more: object):
    return {"key": f"q1 {scenario} {methods}", "query": 1, "pattern": "delta-big", "scenario": scenario, "methods": methods,
            "total": total, "work": list(work), "error": None, "full": 20.0, **more}  # fmt: skip


def test_dearer_plans_are_found():
    assert dearer([record("all", 10), record("IM1", 10), record("IM2", 12)]) == []
    found = dearer([record("all", 10), record("IM1", 9)])
    assert len(found) == 1
    assert "IM1 alone [9]" in found[0]
    assert "recomputing 20" in dearer([record("IM1", 21)])[0]
    assert dearer([record("all", 5, "refresh", (9, 5)), record("IM1", 5, "refresh", (8, 6))]) == []
    assert len(dearer([record("all", 5, "refresh", (9, 5)), record("IM1", 5, "refresh", (8, 5))])) == 1


def test_rounding_is_not_dearer():
    assert not exceeds([10 + 1e-10], [10])
    assert exceeds([10.001], [10])
    assert not exceeds([9, 100], [10, 1])


def test_grid_goes_on_where_it_stopped(tmp_path: Path):
    path = tmp_path / "grid.jsonl"
    lines = [record("all", 1, version="a"), record("all", 2, version="b"), record("IM1", 3, version="a")]
    path.write_text("\n".join(json.dumps(r) for r in lines) + '\n{"key": "q1 ware')
    assert earlier(path, "a").keys() == {"q1 warehouse all", "q1 warehouse IM1"}
    assert earlier(path, None)["q1 warehouse all"]["total"] == 2
    assert earlier(tmp_path / "none", "a") == {}


def test_summary_fails_on_failures(capsys: pytest.CaptureFixture[str]):
    done = {
        "steps": 2,
        "results": 1,
        "empty_results": 1,
        "states": 1,
        "empty_states": 0,
        "rows": 9,
        "types": [],
        "plan_seconds": 0.1,
    }
    console = Console(width=160)
    assert summarise([record("all", 10, **done)], console)
    assert not summarise([record("all", 10, **done), record("IM1", 12, **done | {"error": "rows differ"})], console)
    said = capsys.readouterr().out
    assert "FAILED q1 warehouse IM1: rows differ" in said
    assert "1 results compared, 1 of them empty; 1 states compared" in said


def test_query_numbers():
    assert query_numbers("q1,q3-q5,20") == [1, 3, 4, 5, 20]
    assert Cell(3, "delta-R", "refresh", "IM1+IM2").key == "q3 delta-R refresh IM1+IM2"
