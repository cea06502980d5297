"""A representative part of the TPC-DS grid: plans with all methods and with each alone, executed on DuckDB run by run.

`make test-tpcds-duckdb` runs all of it. Plans are made with the statistics of scale factor 1000, so that they are incremental, and executed on the data of
scale factor 0.01; every result equals the batch query and every state its own definition.
"""

from __future__ import annotations

import pytest

from tests.tpcds_grid import Cell, run_cell

CELLS = [
    *(Cell(q, "delta-RS", s, "all") for q in (5, 10, 22, 35, 40, 51, 69, 80, 87, 93, 97) for s in ("warehouse", "refresh")),
    *(Cell(q, "delta-small", "warehouse", "all") for q in (1, 9, 16, 28, 36, 44, 49, 67, 75, 78, 94, 95)),
    *(Cell(q, "delta-R", "refresh", m) for q in (40, 51, 97) for m in ("IM1", "IM2", "OJV", "HOV", "PART")),
    *(Cell(q, "delta-big", "warehouse", m) for q in (5, 93) for m in ("IM1", "IM2", "OJV", "HOV", "PART")),
]  # fmt: skip


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.key.replace(" ", "-"))
def test_every_run_gives_the_batch_answer(cell: Cell):
    record = run_cell(cell, sf=0.01, points=2, limit=120)
    assert record["error"] is None
    assert record["results"] > 0


@pytest.mark.parametrize("query", [3, 40, 77])
def test_three_points(query: int):
    record = run_cell(Cell(query, "delta-RS", "warehouse", "all"), sf=0.01, points=3, limit=120)
    assert record["error"] is None
