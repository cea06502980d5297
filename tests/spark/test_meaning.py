"""What a query means to Spark it means to a plan: functions as they were written, equalities across types, NULL keys, and values that another evaluation changes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tempura.job import Job
from tempura.spark.run import run
from tempura.spark.verify import verify
from tempura.sql.bind.grouping import is_aggregate
from tempura.sqltext import read_expression
from tests.profiles import STEADY
from tests.spark.runjobs import interpreted, put

T = {"id": pa.int32(), "a": pa.int32(), "long": pa.int64(), "x": pa.float64(), "ts": pa.timestamp("us", tz="UTC"), "unit": pa.string(), "m": pa.decimal128(7, 2), "dec": pa.decimal128(10, 0), "wide": pa.decimal128(23, 4), "at": pa.int64()}  # fmt: skip
S = {"code": pa.string(), "d": pa.int32(), "a": pa.int32(), "at": pa.int64()}
JOB = """\
name: meaning
queries: {queries}
tables:
  t:
    columns: {{id: int not null, a: int, long: bigint, x: double, ts: timestamp, unit: string, m: "decimal(7,2)", dec: decimal, wide: "decimal(23,4)"}}
    source: {{kind: files, path: t, format: parquet, arrival: {{at: bigint}}}}
  s:
    columns: {{code: string, d: int, a: int}}
    source: {{kind: files, path: s, format: parquet, arrival: {{at: bigint}}}}
timeline: [{{at: '1', deliver: true}}, {{at: '2', deliver: true}}]
policy: {policy}
"""
NOON = datetime(2026, 3, 31, 12, 34, 56)


@pytest.fixture(scope="module", autouse=True)
def quick(spark: SparkSession) -> Iterator[None]:
    with interpreted(spark):
        yield


def job(folder: Path, queries: Mapping[str, str], policy: str = "incremental") -> Job:
    return replace(Job.parse(JOB.format(queries=json.dumps(queries), policy=policy), folder), cluster=STEADY)


def arrive(folder: Path, at: int) -> None:
    """Codes that are the same number and not the same text, large numbers close to each other, and NULLs."""
    units = ("day", "month", "hour", None)
    rows = [
        (10 * at + i, (1, 2, None, 1000, 5)[i % 5], 2**53 + 2 * i + at % 2, 1e9 + at + i, NOON + timedelta(hours=7 * i), units[i % 4], Decimal(100 * at + 37 * i) / 100, Decimal(at + i), Decimal(5 if i + at == 1 else 0) / 10000, at)
        for i in range(6)
    ]  # fmt: skip
    put(folder / f"t/{at}.parquet", T, rows)
    codes = {1: ("1", "2", None), 2: ("01", "1000", "+1", None)}[at]
    put(folder / f"s/{at}.parquet", S, [(c, at + i, (1, None, 7)[i % 3], at) for i, c in enumerate(codes)])


GROUPS = "FROM (SELECT a, count(*) AS n FROM t GROUP BY a) p FULL JOIN (SELECT a, count(*) AS n FROM s WHERE a IS NULL GROUP BY a) q ON p.a = q.a"
QUERIES = {
    "functions": "SELECT id, floor(log10(a)) AS l, id * mod(a, 3) AS m, ts - interval 1 day 2 hours AS t, date_trunc(unit, ts) AS u, to_char(a, '9999') AS c FROM t",
    "aggregates": "SELECT unit, percentile_cont(0.25) WITHIN GROUP (ORDER BY x DESC) AS p, percentile(x, 0.5, id) AS f, count_if(DISTINCT a > 1) AS d, "
    "listagg(string(id)) WITHIN GROUP (ORDER BY id) AS l, max_by(id, x) AS b FROM t GROUP BY unit",
    "any": "SELECT any(a > 1) AS x, some(a > 9999) AS y, every(a > 0) AS z, bitmap_count(bitmap_construct_agg(id)) AS n FROM t",
    "variance": "SELECT unit, stddev(a + 1000000000) AS d, var_pop(long) AS l, stddev_samp(x) AS f, variance(a) AS v FROM t GROUP BY unit",
    "sum of equals": "SELECT id, (SELECT sum(d) FROM s WHERE s.code = t.a) AS d, size((SELECT collect_list(d) FROM s WHERE s.a = t.id)) AS c FROM t",
    "in": "SELECT id, a FROM t WHERE a IN (SELECT code FROM s)",
    "not in": "SELECT id, a FROM t WHERE a NOT IN (SELECT code FROM s WHERE code IS NOT NULL)",
    "values": "SELECT id, a IN (SELECT code FROM s) AS m, a NOT IN (SELECT code FROM s) AS n, NOT (a IN (SELECT code FROM s) AND id > 0) AS o, (a IN (SELECT a FROM s)) IS NULL AS p FROM t",
    "left join": "SELECT id, code, d FROM t LEFT JOIN s ON t.a = s.code",
    "large": "SELECT id FROM (SELECT id, 9007199254740996D AS y FROM t) WHERE y IN (SELECT long FROM t)",
    "full join": f"SELECT DISTINCT p.a, q.a AS b {GROUPS}",
    "concatenated": "SELECT t.id, s.d FROM t JOIN s ON string(t.a) || '' = s.code",
    "powers": "SELECT pow(a, 0.5) AS v FROM t UNION ALL SELECT CAST(a AS DECIMAL(10, 2)) AS v FROM t",
    "unknown types": "SELECT unit, avg(mod(m, 10)) AS v, sum(mod(m, 10)) AS s, avg(nvl2(a, long, 1)) AS l FROM t GROUP BY unit",
    "bare decimals": "SELECT unit, avg(dec) AS v, sum(dec) AS s, avg(m * m) AS w FROM t GROUP BY unit",
    "rounded once": "SELECT avg(wide) AS z FROM t WHERE id < 25",
    "texts": "SELECT a, sum(code) AS s, avg(code) AS v FROM s GROUP BY a",
    "maps": "SELECT id, map(id, a) AS m, array(map(id, a)) AS n FROM t ORDER BY id LIMIT 5",
    "any map": "SELECT unit, size(any_value(map(id, a))) AS n, (SELECT max(size(map(d, code))) FROM s) AS k FROM t GROUP BY unit",
    "values in range": "SELECT id, first_value(x) OVER (PARTITION BY unit ORDER BY id RANGE BETWEEN UNBOUNDED PRECEDING AND 5 FOLLOWING) AS f FROM t",
    "spans": "SELECT t.id, r.due, r.whole FROM t LEFT JOIN (SELECT a, CASE WHEN d > 1 THEN INTERVAL '1' DAY ELSE INTERVAL '3' DAY END AS due, INTERVAL '2' YEAR AS whole FROM s) r ON t.a = r.a",
    "sums of spans": "SELECT a, sum(INTERVAL '1' DAY * d) AS s, avg(INTERVAL '1' HOUR * d) AS v FROM s GROUP BY a",
    "guarded calls": "SELECT unit, sum(10 / (a - 5)) FILTER (WHERE a <> 5) AS s, count(*) AS n FROM t GROUP BY unit",
    "one group": "SELECT 'x' AS c FROM t WHERE a > 99999 HAVING TRUE",
    "one group each": "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM s WHERE s.a = t.a HAVING TRUE)",
    "none left over": "SELECT 10 / (a - 5) AS y FROM (SELECT a FROM t EXCEPT ALL SELECT a FROM t WHERE a = 5)",
    "no infinity left over": "SELECT sum(x) AS s FROM (SELECT IF(a = 5, double('Infinity'), x) AS x FROM t EXCEPT ALL SELECT double('Infinity') FROM t WHERE a = 5)",
    "guards": "SELECT id FROM t WHERE a - 5 <> 0 AND unit <> 'month' AND 10 / (a - 5) > -9",
    "drawn once": "SELECT count(*) AS n FROM (SELECT r AS a, r AS b FROM (SELECT rand() AS r FROM t)) WHERE a <> b OR a > 1",
    "tried": "SELECT t.id FROM t LEFT JOIN (SELECT id, try_cast(id * 100 AS tinyint) AS c FROM t) r ON t.id = r.id WHERE r.c IS NULL",
    "patterns": "SELECT id, f = true AS g, f IS NULL AS h FROM (SELECT id, unit RLIKE 'd' AS f FROM t)",
    "extracted": "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM s WHERE regexp_extract(s.code, '[0-9]+', 0) = t.a)",
    "float windows": "SELECT id, s FROM (SELECT id, sum(x / 3) OVER (PARTITION BY unit) AS s FROM t) WHERE s > 5",
    "using": "SELECT * FROM t JOIN s USING (a) JOIN (SELECT id, count(*) AS n FROM t GROUP BY id) u USING (id)",
    "using in parentheses": "SELECT t.id, x.d AS e, y.code AS c, s.* FROM (t JOIN s USING (a)) JOIN ((SELECT d, a FROM s) x LEFT JOIN s y USING (a)) ON t.id > x.d",
    "one set of nothing": "SELECT count(*) AS n, sum(a) AS s, grouping_id() AS g FROM t WHERE a > 9999 GROUP BY GROUPING SETS (())",
    "fields of what is called like a table": "SELECT id, named_struct('a', a, 'q', long) AS t, t.q + 1 AS y, t.a AS z FROM t WHERE EXISTS (SELECT 1 FROM s t WHERE t.d > t.id)",
    "columns called like their table": "SELECT id, t.q FROM (SELECT id, struct(a AS q) AS t FROM t) t",
    "conditions that are NULL": "SELECT id, d FROM t FULL JOIN s ON TRUE AND NULL WHERE id > 1 OR NULL",
    "keys of a name that means another": "WITH q AS (SELECT coalesce(a, 7) AS a, id FROM t) SELECT a % 3 AS g, sum(id) AS n FROM q GROUP BY a % 3",
    "keys of one column": "SELECT year(ts) AS y, day(ts) AS d, sum(a) AS n FROM t GROUP BY year(ts), day(ts)",
    "commas": "SELECT u.d, t.id, s.a AS sa FROM s AS u, t RIGHT JOIN s ON t.a = s.a AND u.d = s.d",
    "any and any": "SELECT any(a > 1) AND any(a < 9) AS x, NOT any(a > 9999) AS y FROM t",
    "parameters": "SELECT id, transform(array(1, 2), a -> a + t.a) AS y, exists(array(a, 1), v -> v = 2) AS e, filter(array(struct(a AS id)), x -> x.id > 1) AS f, "
    "to_json(transform(array(1), a -> struct(a AS a, t.id))) AS g, to_json(transform(array(1), a -> (a, 2))) AS h, transform(array(1), A -> a + 1) AS i, to_json(transform(array(1), a -> struct(a, 2))) AS j FROM t",
    "parameters of a name that means another": "SELECT id, transform(sequence(1, 2), a -> a + b) AS y FROM (SELECT a AS b, id FROM t)",
    "parts of a column named like a step": "WITH q AS (SELECT id, unit AS name, struct(a AS name, id AS other) AS project FROM t) SELECT name, project.name AS p FROM q WHERE id % 2 = 1 UNION ALL SELECT name, project.name FROM q WHERE id % 2 = 0",
    "in a greatest": "SELECT id, id IN (SELECT max(d) FROM s WHERE s.a = t.a) AS x, a NOT IN (SELECT max(d) FROM s WHERE s.a = t.a) AS y, (id IN (SELECT d FROM s WHERE s.a = t.a)) = FALSE AS z, "
    "(a IN (SELECT max(d) FROM s WHERE s.a = t.a)) <> TRUE AS u FROM t",
    "cases of what is drawn": "SELECT count_if(g = 'x') AS n FROM (SELECT CASE WHEN r < 0.5 THEN 'a' WHEN r >= 0.5 THEN 'b' ELSE 'x' END AS g FROM (SELECT id, rand() AS r FROM t))",
    "texts as numbers": "SELECT t.id FROM t JOIN s ON abs(s.code || '.7') = t.a UNION ALL SELECT abs(code) FROM s",
    "lists put together": "SELECT t.id, r.zs FROM t LEFT JOIN (SELECT a, concat(array(a), array(d)) AS zs FROM s) r ON t.a = r.a",
    "escapes": "SELECT id, unit LIKE 'd!_y' ESCAPE '!' AS e, datediff(HOUR, ts, ts + interval 3 hours) AS h FROM t UNION ALL SELECT d, NULL, NULL FROM s",
    "names that differ by case": "SELECT upper(unit) AS Unit, id FROM t ORDER BY t.unit, id",
    "literals as keys": "SELECT 0 AS total, unit, round(sum(x), 0) AS s, lag(sum(a), 1) OVER (ORDER BY unit) AS l, 1 AS one FROM t GROUP BY ALL",
    "order of what is distinct": "SELECT DISTINCT unit FROM t ORDER BY CASE WHEN unit = 'day' THEN 0 ELSE 1 END, lower(unit) LIMIT 3",
    "aliases in having": "SELECT unit, round(sum(x), 2) AS x FROM t GROUP BY unit HAVING x > 100",
    "keys in having": "SELECT a + 1 AS a, count(*) AS n FROM t GROUP BY a + 1 HAVING a + 1 > 5 OR a > 1",
    "signed literals as keys": "SELECT -1 AS m, unit, round(sum(x), -1) AS s FROM t GROUP BY ALL",
    "rows of the greatest": "SELECT id FROM t WHERE id - 9 IN (SELECT max(d) FROM s WHERE s.a = t.a)",
    "quotes": """SELECT id, 'O''Brien' AS s, "a""b" AS d, 'c' 'd' AS e, 'it\\'s' AS f FROM t -- don't""",
    "computed order": "SELECT id, a * 2 AS twice FROM t ORDER BY twice DESC, id",
    "passed over": "SELECT id, first_value(a) IGNORE NULLS OVER (PARTITION BY unit) AS f, first_value(a, true) OVER (PARTITION BY unit ORDER BY at2) AS g FROM (SELECT *, 1 AS at2 FROM t WHERE a IS NULL OR a = 5)",
    "keys that are called like outer columns": "SELECT id, EXISTS (SELECT 1 FROM s WHERE upper(s.code) = q.upper_code) AS e FROM (SELECT id, string(a) AS upper_code FROM t) q",
    "truths that are equal": "SELECT id, (SELECT count(*) FROM s WHERE (s.a > 1) = (t.a > 1 OR t.id > 12)) AS n, (SELECT max(d) FROM s WHERE (s.a IS NULL) = (t.a IS NULL)) AS m FROM t",
    "truths that join": "SELECT t.id, s.d FROM t LEFT JOIN s ON (s.a > 1) = (t.a > 1 OR t.id > 12)",
    "order of sets": "SELECT Unit, count(*) AS Total FROM t GROUP BY Unit UNION ALL SELECT 'All', count(*) FROM t ORDER BY CASE WHEN Unit = 'All' THEN 1 ELSE 0 END, Unit",
    "dates as written": "SELECT id, to_date(string(date(ts)), 'yyyy-MM-dd') AS d, timestampdiff(HOUR, ts, ts + interval 1 day) AS h, timestampadd(DAY, 1, ts) AS x FROM t",
    "windows of time": "SELECT unit, window.start, window.end AS until, count(*) AS n FROM t GROUP BY unit, window(ts, '1 day')",
    "one distinct value": "SELECT id, (SELECT DISTINCT 7 FROM s WHERE s.a + 0 * s.d = t.a) AS d FROM t",
    "first of some": "SELECT unit, first(a, true) FILTER (WHERE a > 1 AND a < 3) AS f, any_value(a) FILTER (WHERE a = 5) AS g FROM t GROUP BY unit",
    "counts of padded rows": "SELECT t.a, count(r.d) AS n, sum(r.d) AS g FROM (SELECT DISTINCT a FROM t WHERE id < 20) t LEFT JOIN (SELECT coalesce(d, 0) AS d, coalesce(a, 0) AS b FROM s) r ON t.a = r.b GROUP BY t.a",
    "guarded pieces": "SELECT s.d, sum(100 / (t.a - 5)) AS n FROM t JOIN s ON t.a = s.a GROUP BY s.d",
    "aliases after what is qualified": "SELECT t.a, sum(s.d) AS total FROM t JOIN s ON t.a = s.a GROUP BY t.a HAVING t.a > 0 AND total > 1 AND count(t.a) > 0",
    "windows of aliases": "SELECT date_trunc('day', ts) AS day2, count(*) AS n FROM t GROUP BY day2, window(day2, '1 day')",
    "keys called like columns": "SELECT t.a, t.a + d AS d, count(*) AS n FROM t JOIN s ON t.a = s.a GROUP BY t.a, t.a + d HAVING t.a + d < 9",
    "constants in totals": "SELECT 'x' AS k, unit, coalesce(k, 'all') AS g, count(*) AS n FROM t GROUP BY ROLLUP(k, unit) HAVING k IS NULL OR unit IS NOT NULL",
    "fields of what is computed": "SELECT a, max(struct(id, unit)) AS last, last.id + 1 AS next FROM t GROUP BY a HAVING last.id > 1 ORDER BY last.unit, last.id",
    "fields of columns": "SELECT p.n AS p, a, p.m AS q FROM (SELECT struct(id AS n, -id AS m) AS p, a FROM t) ORDER BY p.m, a LIMIT 7",
    "grouped fields": "SELECT p.n AS k, max(p.m) AS p FROM (SELECT struct(a AS n, id AS m) AS p FROM t) GROUP BY p.n HAVING p.n > 1",
    "merged keys in having": "SELECT a AS k, count(*) AS a FROM t FULL JOIN s USING (a) GROUP BY a HAVING a > 1",
    "parts of windows": "SELECT window.start AS window, count(*) AS n FROM t GROUP BY window(ts, '1 day') HAVING window.end > timestamp'2000-01-01' ORDER BY n, window.end",
    "long numbers": "SELECT id, m * n AS z FROM (SELECT id, m, 99999999999999999999 AS n FROM t)",
    "lags over NULLs": "SELECT id, lag(a) IGNORE NULLS OVER (PARTITION BY unit ORDER BY a, id) AS l FROM t",
    "numbers by name": "SELECT m / k AS v, 7 AS n, m / n AS w FROM (SELECT m, 3 AS k FROM t)",
    "texts and whole numbers": "SELECT code + 1 AS v FROM s WHERE code IS NOT NULL UNION ALL SELECT d FROM s",
    "spans and nothing": "SELECT date(ts) - ts AS lag FROM t UNION ALL SELECT NULL",
    "all in order": "SELECT a FROM t UNION ALL SELECT d FROM s ORDER BY ALL LIMIT 4",
    "grouped maps": "SELECT m FROM (SELECT map('a', a) AS m FROM t) GROUP BY m",
    "maps of rows that go": "SELECT m, max(id) AS n FROM (SELECT map('a', t.a, 'd', d) AS m, id FROM t LEFT JOIN s ON t.a = s.code) GROUP BY m",
    "distinct values by maps": "SELECT m, count(DISTINCT unit) AS n FROM (SELECT array(map('a', a)) AS m, unit FROM t) GROUP BY m",
    "medians by maps": "SELECT m, median(x) AS x FROM (SELECT map('a', a) AS m, x FROM t) GROUP BY m",
    "keys of maps": "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM (SELECT map('d', d) AS m, code, a FROM s) r WHERE r.m['d'] = t.a AND r.a < t.id)",
    "words for days": "SELECT id, unit IN ('today', 'day') AS u FROM t WHERE date(ts) <> 'today' AND date(ts) IN ('2026-03-31', 'now') AND ts < date_add('tomorrow', 7)",
    "words that are texts": "SELECT unit, count(*) AS n FROM t WHERE unit <> 'now' AND unit NOT IN ('today', 'x') GROUP BY unit",
    "decimals that are rounded to meet": "SELECT id FROM (SELECT id, CAST(id / id AS DECIMAL(38, 2)) AS m FROM t) WHERE m IN (SELECT CAST(1 + d / 1000 AS DECIMAL(38, 18)) FROM s)",
    "rows of no columns": "SELECT id FROM t WHERE EXISTS (SELECT d FROM s UNION ALL SELECT x.a FROM t x JOIN t y ON x.a = y.a)",
    "distinct texts that go": "SELECT r.a, sum(DISTINCT trim(coalesce(r.code, '1.5'))) AS n FROM (SELECT t.a, s.code FROM t LEFT JOIN s ON t.a = s.code) r GROUP BY r.a",
    "the last of each": """SELECT id, v.Name AS n, v.attrs['d'] AS d FROM (SELECT *, row_number() OVER (PARTITION BY a ORDER BY unit DESC) AS rn FROM (SELECT id, a, unit, """
    """from_json(concat('{"Name": "', id, '", "attrs": {"d": ', id, '}}'), 'Name STRING, attrs MAP<STRING, INT>') AS v FROM t)) WHERE rn = 1""",
    "maps of texts": "SELECT id, str_to_map(unit, ' ', ':') AS m FROM t ORDER BY a LIMIT 8",
    "signed numbers beside decimals": "SELECT m AS x FROM t UNION ALL SELECT m * -1 FROM t UNION ALL SELECT -2 / m + wide * -3 FROM t WHERE m <> 0",
    "hours beside days": "SELECT id, ts, to_date(ts) AS day, datediff(HOUR, ts, max(ts + interval 90 minutes)) AS h FROM t GROUP BY id, ts, to_date(ts)",
    "casts as they are written": "SELECT date(ts) AS d, count(*) AS n FROM t GROUP BY CAST(ts AS DATE) UNION ALL SELECT CAST(ts AS DATE), count(*) FROM t GROUP BY ts::date",
    "order of what is shown": "SELECT t.id, s.d FROM s LEFT JOIN t USING (a) ORDER BY coalesce(t.id, 0), -d LIMIT 4",
    "order of a name that both have": "SELECT t.a, t.id, d FROM t JOIN s ON t.a = s.a ORDER BY abs(a), id + d",
    "hashes of all columns": "SELECT id, hash(*) AS h, xxhash64('k', *) AS x FROM (SELECT id, trim(unit) AS unit, a FROM t) JOIN (SELECT DISTINCT a FROM s) USING (a)",
    "numbers by name in parentheses": "SELECT m / (k) AS v, m / -k AS w, try_divide(m, k) AS x, pmod(m, -(k)) AS y FROM (SELECT m, 3 AS k FROM t)",
    "days and times together": "SELECT id, string(x) AS x FROM (SELECT id, date_add(date(ts), 1) AS x FROM t UNION ALL SELECT id, ts FROM t WHERE a > 1) WHERE x >= '2026-04-01 12:00:00'",
    "times without a zone": "SELECT x FROM (SELECT date(ts) AS x FROM t UNION ALL SELECT CAST(ts AS TIMESTAMP_NTZ) FROM t) WHERE x > '2026-03-31 20:00:00' UNION ALL SELECT CAST(ts AS TIMESTAMP_NTZ) FROM t EXCEPT SELECT date(ts) FROM t",
    "texts that are guarded": "SELECT d FROM s WHERE d > 2 AND substring(code, 2) > 0",
    "texts that find no partner": "SELECT t.a, sum(replace(w.code, '?', 'x')) AS s, count(w.code) AS n FROM t JOIN (SELECT a + 100000 AS a, code || '?' AS code FROM s) w ON t.a = w.a GROUP BY t.a",
    "days of what has no partner": "SELECT t.id, r.due FROM t LEFT JOIN (SELECT a, date_add(current_date(), 1) AS due, d FROM s) r ON t.a = r.a WHERE r.a IS NULL",
    "names of functions": "WITH week(w, n) AS (SELECT unit, count(*) FROM t GROUP BY unit) SELECT * FROM week",
}


JOBS = 5
"""So many jobs: a run of several queries takes not much longer than of one."""


@pytest.mark.parametrize("some", [list(QUERIES)[n::JOBS] for n in range(JOBS)], ids=", ".join)
def test_plans_mean_what_the_query_means(spark: SparkSession, tmp_path: Path, some: Sequence[str]):
    for at in (1, 2):
        arrive(tmp_path, at)
        asked = job(tmp_path, {name: QUERIES[name] for name in some})
        assert run(asked, spark=spark).status == "done"
        found = verify(asked, spark=spark)
        assert found.same, found


def test_time_goes_on_where_nothing_arrives(spark: SparkSession, tmp_path: Path):
    """A result with the time in it is not the one of the run before, even if no row has come."""
    arrive(tmp_path, 1)
    query = {"result": "SELECT count(*) AS n, max(current_timestamp()) AS at FROM t"}
    first, second = (run(job(tmp_path, query, "auto"), spark=spark) for _ in range(2))
    ((n, at),) = first.result.collect()  # type: ignore[union-attr]
    ((again, later),) = second.result.collect()  # type: ignore[union-attr]
    assert n == again == 6 and later > at


def test_every_aggregate_of_spark_is_known(spark: SparkSession):
    """One that is not would be computed of each delta by itself."""
    registry = spark._jvm.org.apache.spark.sql.catalyst.analysis.FunctionRegistry.builtin()  # type: ignore[union-attr]
    listed = registry.listFunction().iterator()
    groups: dict[str, str] = {}
    while listed.hasNext():
        name = listed.next()
        groups[name.funcName()] = registry.lookupFunction(name).get().getGroup()
    aggregates = {n for n, g in groups.items() if g == "agg_funcs"} - {"grouping", "grouping_id"}
    assert len(aggregates) > 70
    assert [n for n in sorted(aggregates) if not is_aggregate(read_expression(f"SELECT {n}(x)").expressions[0])] == []
