"""Windows of time are to plans what they are to Spark, over rows that come and go, in a time zone whose days are not all as long."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import tempura
from tempura.catalog import Catalog
from tempura.job import Job
from tempura.spark.run import run
from tempura.spark.verify import verify
from tests.profiles import STEADY
from tests.spark.runjobs import interpreted, put
from tests.spark.sparkrun import execute
from tests.spark.test_steps_on_spark import TIMELINE, Histories
from tests.test_perturbation import Perturbed
from tests.test_soundness import table

T = {"op": pa.string(), "id": pa.int32(), "ts": pa.timestamp("us", tz="UTC"), "nt": pa.timestamp("us"), "d": pa.date32(), "said": pa.string(), "x": pa.int32()}  # fmt: skip
JOB = """\
name: windows
queries: {queries}
tables:
  t:
    columns: {{id: int, ts: timestamp, nt: timestamp_ntz, d: date, said: string, x: int}}
    source: {{kind: changes, path: t, format: parquet, operation: op}}
timeline: [{{at: t1, deliver: true}}, {{at: t2, deliver: true}}]
policy: incremental
"""
SPRING = datetime(2026, 3, 8, 6, 59, 59, 999999)
"""In New York the clocks go forward in a microsecond."""
TIMES = [
    SPRING, SPRING + timedelta(microseconds=1), SPRING + timedelta(hours=23), SPRING - timedelta(hours=30), None, datetime(1969, 12, 31, 23, 59, 59, 999999),
    datetime(1970, 1, 1), datetime(1600, 2, 29, 1, 2, 3, 4), datetime(2026, 11, 1, 6, 30), datetime(2026, 11, 1, 5, 30), None,
]  # fmt: skip
QUERIES = {
    "tumbling": "SELECT window, count(*) AS n FROM t GROUP BY window(ts, '1 day')",
    "selected": "SELECT id, window(ts, '7 hours') FROM t ORDER BY window.start, id",
    "started": "SELECT window(ts, 'interval 1 day', 86400000000, '-1 hour -30 minutes').start AS s, id FROM t",
    "pruned": "SELECT count(*) AS n FROM (SELECT id, window(ts, '1 day') AS w FROM t)",
    "having": "SELECT window.start AS s, count(*) AS n FROM t GROUP BY window(ts, '2 days', '1 day') HAVING window.start >= timestamp'2026-03-07' ORDER BY window.end",
    "sliding": "SELECT id, window(ts, '3 days', '2 days', '1 hour') AS w, w.start AS s FROM t",
    "small slides": "SELECT window(ts, 1000000, 300000).end AS e, sum(x) AS n FROM t GROUP BY ALL",
    "local": "SELECT window(nt, '1 week', '1 week', '1 hour') AS w, max(x) AS m FROM t GROUP BY w",
    "local and sliding": "SELECT id, window(nt, '1 hour', '25 minutes') AS w FROM t",
    "dates": "SELECT id, window(d, '5 hours').start AS s FROM t",
    "texts": "SELECT id, window(said, '1 day').start AS s FROM t",
    "joined": "SELECT e.id, p.n FROM (SELECT id, window(ts, '1 hour').start AS h FROM t) e JOIN (SELECT date_trunc('HOUR', ts) AS h, count(*) AS n FROM t GROUP BY 1) p ON e.h = p.h",
    "in": "SELECT id, s FROM (SELECT id, window(ts, '1 day').start AS s FROM t) WHERE s IN (SELECT window(ts, '2 days', '1 day').start FROM t WHERE id % 2 = 0)",
    "exists": "SELECT id FROM (SELECT id, window(ts, '1 day').start AS s FROM t) q WHERE NOT EXISTS (SELECT 1 FROM (SELECT id, window(ts, '2 days').start AS s FROM t) r WHERE r.s = q.s AND r.id <> q.id)",
    "each": "SELECT id, (SELECT count(*) FROM (SELECT window(ts, '2 days', '1 day').start AS s, id FROM t) q WHERE q.id = t.id) AS n FROM t",
    "padded": "SELECT a.id, window(b.ts, '1 day').start AS s FROM t a LEFT JOIN t b ON a.id = b.id + 1",
    "stacked": "SELECT window(day, '2 days').start AS s, max(n) AS n FROM (SELECT window(ts, '1 day').start AS day, count(*) AS n FROM t GROUP BY window(ts, '1 day')) GROUP BY window(day, '2 days')",
    "merged": "SELECT window(h, '1 day').start AS day, h FROM (SELECT window(ts, '1 hour').start AS h FROM t WHERE x > 1)",
    "totals": "SELECT window.start AS s, count(*) AS n FROM t GROUP BY ROLLUP(window(ts, '1 day'))",
    "rows around": "SELECT id, count(*) OVER (PARTITION BY window(ts, '1 day')) AS n FROM t",
    "whole": "SELECT max(window(ts, '2 days', '1 day').end) AS e, count(*) AS n FROM t",
    "distinct": "SELECT DISTINCT window(ts, '2 days', '1 day').start AS s FROM t",
}
GREATEST = (
    "SELECT window.start AS s, max(x) AS m FROM t GROUP BY window(ts, '1 day')",
    "SELECT window, max(x) AS m FROM t WHERE id > 0 GROUP BY window(ts, '2 days', '1 day')",
)


@pytest.fixture(scope="module", autouse=True)
def in_new_york(spark: SparkSession) -> Iterator[None]:
    before = str(spark.conf.get("spark.sql.session.timeZone"))
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    with interpreted(spark):
        yield
    spark.conf.set("spark.sql.session.timeZone", before)


def arrive(folder: Path, at: int) -> None:
    """Rows at all times; at the second of them every third one of the first goes, and the greatest is one of these."""

    def rows(op: str, number: int) -> list[tuple[object, ...]]:
        return [
            (op, 20 * number + i, t and t.replace(tzinfo=UTC), t, t and t.date(), t and str(t), -i - number)
            for i, t in enumerate(TIMES)
        ]

    put(folder / f"t/{at}.parquet", T, [*rows("I", at), *(rows("D", at - 1)[::3] if at > 1 else [])])


@pytest.mark.parametrize("some", [list(QUERIES)[n::2] for n in range(2)], ids=", ".join)
def test_windows_are_those_of_spark(spark: SparkSession, tmp_path: Path, some: Sequence[str]):
    text = JOB.format(queries=json.dumps({name: QUERIES[name] for name in some}))
    for at in (1, 2):
        arrive(tmp_path, at)
        asked = replace(Job.parse(text, tmp_path), cluster=STEADY)
        assert run(asked, spark=spark).status == "done"
        found = verify(asked, spark=spark)
        assert found.same, found


@pytest.mark.parametrize("query", GREATEST)
@pytest.mark.parametrize("method", ["PART", "IM1"])
def test_windows_that_are_touched(spark: SparkSession, tmp_path: Path, method: str, query: str):
    """What is computed anew is found by a join with the windows of the rows that changed."""
    rows = [(i, t and t.replace(tzinfo=UTC), i % 4) for i, t in enumerate(TIMES)]
    came = [table("t", "id int, ts timestamp, x int", retracts=True)]
    history = [dict.fromkeys(rows[:8], 1), dict.fromkeys(rows[1:9], 1), dict.fromkeys(rows[3:], 2)]
    large = [replace(t, arrives={"t1": 1e8, "t2": 1e3, "t3": 1e3}) for t in came]
    job = Job(query=query, catalog=Catalog(*large), timeline=TIMELINE, policy="incremental", methods=[method])
    plans = (tempura.plan(job, cost=Perturbed(seed), baselines=False) for seed in range(20))
    plan = next(p for p in plans if any("SEMI JOIN" in step.sql for run in p.runs for step in run.steps))
    report = execute(spark, plan, Histories(spark, Catalog(*came), {"t": history}), job.queries, tmp_path)
    assert report.rows and not report.problems and not report.state_types
