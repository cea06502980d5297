"""Runs of whole jobs over real files: after every run the result is that of the batch query on the same data, and every state is what it is by definition."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyarrow import fs
from pyspark.sql import SparkSession

from tempura.errors import JobError
from tempura.job import Job
from tempura.schema import WEIGHT
from tempura.spark import point as running
from tempura.spark.run import run
from tempura.workspace import Workspace
from tempura.workspace.remote import RemoteStorage
from tempura.workspace.storage import Storage
from tests.profiles import STEADY
from tests.spark.runjobs import GROSS, SHOP, arrive, interpreted, loaded, magnify, put, ran, shop, verify


@pytest.fixture(scope="module", autouse=True)
def quick(spark: SparkSession) -> Iterator[None]:
    with interpreted(spark):
        yield


@pytest.fixture
def no_session(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A run that asks for a session fails."""

    def refuse(spark: SparkSession | None = None) -> SparkSession:
        raise AssertionError("a session is asked for")

    monkeypatch.setattr(running, "session", refuse)
    return monkeypatch


def bag(rows: Any) -> list[Any]:
    return sorted((tuple(r) for r in rows.collect()), key=repr)


def test_late_returns(spark: SparkSession, tmp_path: Path, no_session: pytest.MonkeyPatch):
    """Sales left joined with returns that come later; work begins before the first result is due."""
    arrive(tmp_path, 1, 8, ["o1-0"])
    job = shop(tmp_path)
    told: list[str] = []
    with no_session.context() as free:
        free.setattr(running, "session", lambda given: given)
        first = run(job, "t1", spark=spark, told=told.append)
        verify(spark, job, first)
        assert first.result is None and first.delta is None and first.file
        assert first.file.states and not any("result@" in name for name in first.file.states)
        assert "checking sales" in told and any(line.startswith("done state") for line in told)

        arrive(tmp_path, 2, 5, ["o1-1", "o2-0"])
        second = ran(spark, job, "t2")
        assert loaded(second) <= set(first.file.states) and loaded(second), "the states of t1 are read at t2"
        assert bag(second.result.select("n")) and bag(second.delta.drop(WEIGHT)) == bag(second.result)

        arrive(tmp_path, 3, 5, ["o1-2", "o1-3", "o3-0"])
        third = ran(spark, job)
        assert third.point == "t3" and loaded(third)
        weights = {tuple(r)[:1]: r[WEIGHT] for r in third.delta.collect() if r[WEIGHT] > 0}
        assert (("c3",) in weights) and (("c2",) not in weights), "what has not changed is not in the delta"
    # Done is done: no session, no plan, the same files.
    again = run(job, "t3", spark=spark)
    assert again.status == "repeated" and again.file == third.file and bag(again.result) == bag(third.result)
    earlier = run(job, "t2")
    assert earlier.status == "repeated" and earlier.point == "t2" and earlier.file == second.file
    assert run(job).status == "repeated"
    assert Workspace.open(job.workspace, job.name).garbage() == ()


def test_delta_lake(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A Delta table that is appended to, updated, deleted from and merged into, joined with one that is static."""
    magnify(monkeypatch)
    lake = str(tmp_path / "lake")
    days = [date(2026, 11, 14), None, date(2026, 11, 15)]
    rows = pa.table({"id": range(12), "cust": [i % 4 for i in range(12)], "day": [days[i % 3] for i in range(12)]})
    write_deltalake(lake, rows)
    put(tmp_path / "cust.parquet", {"cust": pa.int64(), "name": pa.string()}, [(0, "x"), (1, None), (2, "z")])
    text = """\
name: lake
query: "SELECT day, name, count(*) AS n FROM orders LEFT JOIN customers ON orders.cust = customers.cust GROUP BY day, name ORDER BY n DESC, day, name"
tables:
  orders: {source: {kind: delta, path: lake}, key: id}
  customers: {source: {kind: files, path: cust.parquet, format: parquet}, key: cust}
timeline: [{at: a}, {at: b, deliver: true}, {at: c, deliver: true}]
policy: incremental
"""
    job = replace(Job.parse(text, tmp_path), cluster=STEADY)
    first = ran(spark, job)
    write_deltalake(lake, rows.slice(0, 2).set_column(0, "id", pa.array([20, 21])), mode="append")
    DeltaTable(lake).update(predicate="id = 3", updates={"cust": "2"})
    second = ran(spark, job)
    assert second.file and [c.split(" ")[0] for c in second.file.results["result"].order] == ["n", "day", "name"]
    assert first.file and loaded(second) <= set(first.file.states) and loaded(second)
    counts = [row["n"] for row in second.result.collect()]
    assert counts == sorted(counts, reverse=True)
    DeltaTable(lake).delete("id < 2")
    fresh = pa.table({"id": [5, 30], "cust": [0, 9], "day": pa.array([None, days[0]], pa.date32())})
    merge = DeltaTable(lake).merge(fresh, "t.id = s.id", source_alias="s", target_alias="t")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    third = ran(spark, job)
    assert loaded(third)


TWO = """\
name: two
queries:
  gross: "SELECT category, sum(price) AS gross FROM sales GROUP BY category"
  kept: "SELECT o_id, price FROM sales WHERE o_id NOT IN (SELECT o_id FROM returns)"
tables:
  sales: {columns: {o_id: string not null, category: string, price: 'decimal(9,2)'}, source: {kind: files, path: sales, format: parquet, arrival: {at: bigint}}}
  returns: {columns: {o_id: string not null, cost: 'decimal(9,2)'}, source: {kind: files, path: returns, format: parquet, arrival: {at: bigint}}}
timeline: [{at: t1, deliver: gross}, {at: t2, deliver: kept}, {at: t3, deliver: true}]
policy: auto
"""


def test_two_queries(spark: SparkSession, tmp_path: Path):
    arrive(tmp_path, 1, 6, ["o1-0"])
    job = replace(Job.parse(TWO, tmp_path), cluster=STEADY)
    first = ran(spark, job)
    assert first.file and set(first.file.results) == {"gross"} and first.result is not None
    arrive(tmp_path, 2, 3, ["o1-1", "o2-0"])
    second = ran(spark, job)
    assert second.file and {q: r.point for q, r in second.file.results.items()} == {"gross": "t1", "kept": "t2"}
    assert bag(second.result)
    arrive(tmp_path, 3, 3, ["o1-2"])
    third = ran(spark, job)
    assert third.file and {r.point for r in third.file.results.values()} == {"t3"}
    with pytest.raises(Exception, match="2 results are due at t3\n  hint: read them by their folders"):
        _ = third.result
    latest = Path(job.workspace, "results/kept/latest")
    assert latest.resolve() == Path(job.workspace, third.file.results["kept"].folder)


def test_nothing_new(spark: SparkSession, tmp_path: Path, no_session: pytest.MonkeyPatch):
    """A run with nothing new costs no Spark job, and needs no session."""
    arrive(tmp_path, 1, 6, ["o1-1"])
    job = shop(tmp_path, timeline="{at: t1, deliver: true}, {at: t2, deliver: true}, {at: t3, deliver: true}")
    with no_session.context() as free:
        free.setattr(running, "session", lambda given: given)
        first = ran(spark, job)
    again = run(job, "t2")
    verify(spark, job, again)
    assert again.status == "done" and [s.reused for s in again.steps] == [True] and not again.file.measured  # type: ignore[union-attr]
    assert bag(again.result) == bag(first.result) and bag(again.delta) == []
    no_session.undo()
    arrive(tmp_path, 3, 2, ["o1-0"])
    third = ran(spark, job)
    assert len(bag(third.delta)) > 0 and not third.steps[0].reused


def test_skipped_points(spark: SparkSession, tmp_path: Path):
    """What arrived at a point where nothing was run belongs to the next one that is."""
    arrive(tmp_path, 1, 8, ["o1-0"])
    job = shop(tmp_path, timeline="{at: t1, price: 0.1}, {at: t2, deliver: true}, {at: t3}, {at: t4, deliver: true}")
    first = ran(spark, job, "t1")
    arrive(tmp_path, 2, 3, ["o1-1"])
    arrive(tmp_path, 3, 3, ["o1-2"])
    third = ran(spark, job, "t3")
    arrive(tmp_path, 4, 3, ["o3-0"])
    last = ran(spark, job)
    assert last.point == "t4" and len(bag(last.result)) and first.file
    assert loaded(last) & set(third.file.states) and first.file.results == {}  # type: ignore[union-attr]
    assert run(job).status == "repeated"


def test_points_that_end_at_a_time(spark: SparkSession, tmp_path: Path):
    """With `upto`, all rows may be there from the beginning."""
    for at in (10, 20, 30):
        arrive(tmp_path, at, 4, [f"o{at}-1", "o10-0"][: at // 10])
    timeline = "{at: t1, upto: 10}, {at: t2, upto: 20, deliver: true}, {at: t3, deliver: true}"
    job = shop(tmp_path, timeline=timeline)
    counts: list[int] = []
    for point in ("t1", "t2", "t3"):
        report = ran(spark, job, point)
        counts.append(sum(r["n"] for r in report.result.collect()) if report.result else 0)
    assert counts == [0, 8, 13]


def test_changed_query(spark: SparkSession, tmp_path: Path):
    """What an earlier query computed serves another one, if it is the same; results are told apart."""
    arrive(tmp_path, 1, 8, ["o1-0"])
    first = ran(spark, shop(tmp_path), "t1")
    arrive(tmp_path, 2, 4, ["o1-1"])
    other = GROSS.replace("count(*) AS n", "count(*) AS n, max(price) AS top")
    second = ran(spark, shop(tmp_path, other))
    assert first.file and loaded(second) & set(first.file.states), "the join was kept, whatever is summed"
    assert second.result.columns == ["category", "gross", "n", "top"]
    arrive(tmp_path, 3, 4, ["o1-2"])
    third = ran(spark, shop(tmp_path, GROSS))
    assert third.result.columns == ["category", "gross", "n"]
    with pytest.raises(JobError, match="what was delivered before was damaged or had other columns"):
        _ = third.delta


def test_added_table(spark: SparkSession, tmp_path: Path):
    """A query that needs another table: what was computed without it is not known to be of use."""
    arrive(tmp_path, 1, 8, ["o1-0"])
    text = SHOP[: SHOP.index("  returns:")] + SHOP[SHOP.index("timeline:") :]
    simple = "SELECT category, sum(price) AS gross, count(*) AS n FROM sales GROUP BY category"
    timeline = "{at: t1, deliver: true}, {at: t2, deliver: true}, {at: t3, deliver: true}"
    ran(spark, Job.parse(text.format(query=simple, timeline=timeline, policy="incremental"), tmp_path))
    arrive(tmp_path, 2, 4, ["o1-1"])
    second = ran(spark, shop(tmp_path, timeline=timeline))
    assert second.point == "t2" and not loaded(second) and second.file and set(second.file.pins) == {"sales", "returns"}
    arrive(tmp_path, 3, 4, ["o1-2"])
    assert ran(spark, shop(tmp_path, timeline=timeline)).point == "t3"


def test_changed_order(spark: SparkSession, tmp_path: Path):
    """Nothing new but the order: the result is written again."""
    arrive(tmp_path, 1, 7, ["o1-1"])
    timeline = "{at: t1, deliver: true}, {at: t2, deliver: true}"
    ran(spark, shop(tmp_path, GROSS + " ORDER BY n, gross", timeline))
    second = ran(spark, shop(tmp_path, GROSS + " ORDER BY n DESC, gross", timeline))
    counts = [row["n"] for row in second.result.collect()]
    assert counts == sorted(counts, reverse=True) and len(set(counts)) > 1 and bag(second.delta) == []


def test_a_timeline_without_end(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Each day the job has that day and the two after it: what was kept is used although its points are gone, also of a table that never changes and of one
    that seldom does, and a plan does not get longer with the days behind it."""
    magnify(monkeypatch)
    names = {"category": pa.string(), "title": pa.string()}
    put(tmp_path / "titles/all.parquet", names, [("a", "Art"), ("b", "Books"), ("c1", None)])
    text = SHOP.replace("timeline:", "  titles:\n    source: {{kind: files, path: titles, format: parquet}}\ntimeline:")
    query = "SELECT title, sum(price) AS sold, sum(cost) AS back, count(*) AS n FROM sales JOIN titles ON sales.category = titles.category LEFT JOIN returns ON sales.o_id = returns.o_id GROUP BY title"
    kept: set[str] = set()
    behind: list[int] = []
    for day in range(1, 7):
        arrive(tmp_path, day, 9, ["o1-0", "o1-1", "o2-0"][day // 2 - 1 : day // 2] if day % 2 == 0 else ())
        points = ", ".join(f"{{at: d{d}, deliver: true}}" for d in range(day, day + 3))
        job = Job.parse(text.format(query=query, timeline=points, policy="incremental"), tmp_path)
        done = ran(spark, replace(job, cluster=STEADY))
        assert done.point == f"d{day}" and done.file and done.course
        assert loaded(done) & kept if day > 1 else not loaded(done)
        kept = set(done.file.states)
        behind.append(done.course.at)
    assert max(behind) <= 3, behind


def test_changed_schedule(spark: SparkSession, tmp_path: Path):
    """Points come and go between runs; what was computed at one that is gone is known all the same."""
    arrive(tmp_path, 1, 8, ["o1-0"])
    first = ran(spark, shop(tmp_path), "t1")
    arrive(tmp_path, 2, 3, ["o1-1"])
    longer = shop(
        tmp_path, timeline="{at: t1}, {at: noon, deliver: true}, {at: t2, deliver: true}, {at: t3, deliver: true}"
    )
    noon = ran(spark, longer)
    assert noon.point == "noon" and first.file and loaded(noon) & set(first.file.states)
    arrive(tmp_path, 3, 3, ["o1-2"])
    without = shop(tmp_path, timeline="{at: t1}, {at: t2, deliver: true}, {at: t3, deliver: true}")
    second = ran(spark, without)
    assert second.point == "t2" and noon.file and loaded(second) & set(noon.file.states)
    arrive(tmp_path, 4, 3, ["o1-3"])
    other = shop(tmp_path, timeline="{at: mon, deliver: true}, {at: tue, deliver: true}")
    assert ran(spark, other).point == "mon"
    arrive(tmp_path, 5, 3, ["o2-0"])
    assert ran(spark, other).point == "tue"


def test_a_workspace_that_pyarrow_reaches(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Nothing but what every file system of pyarrow can do is asked of the one that has the workspace."""

    def at(place: str | Path) -> RemoteStorage:
        return RemoteStorage(fs.LocalFileSystem(), str(place), f"file://{place}")

    monkeypatch.setattr(Storage, "at", at)
    job = shop(tmp_path)
    for point, returned in enumerate((["o1-0"], ["o1-1", "o2-0"], ["o1-2", "o3-0"]), start=1):
        arrive(tmp_path, point, 5, returned)
        report = ran(spark, job)
    assert loaded(report) and report.delta.count()
    assert run(job).status == "repeated"
    workspace = Workspace.open(job.workspace, job.name)
    assert isinstance(workspace.storage, RemoteStorage) and workspace.garbage() == ()


@pytest.mark.parametrize("policy", ["auto", "full"])
def test_policies(spark: SparkSession, tmp_path: Path, policy: str):
    arrive(tmp_path, 1, 8, ["o1-0"])
    job = shop(tmp_path, policy=policy, timeline="{at: t1, price: 0.1}, {at: t2, deliver: true}")
    dry = run(job, "t1", dry_run=True)
    assert dry.status == "dry" and dry.plan and not Path(job.workspace).exists()
    first = ran(spark, job)
    assert [s.name for s in first.steps] == [s.name for s in dry.plan.runs[0].steps]
    arrive(tmp_path, 2, 8, ["o1-1"])
    second = ran(spark, job)
    assert policy != "full" or not loaded(second)


def test_reset_keeps_results(spark: SparkSession, tmp_path: Path):
    arrive(tmp_path, 1, 8, ["o1-0"])
    job = shop(tmp_path, timeline="{at: t1, deliver: true}, {at: t2}, {at: t3, deliver: true}")
    first = ran(spark, job)
    workspace = Workspace.open(job.workspace, job.name)
    with workspace.lock("test"):
        workspace.reset()
    arrive(tmp_path, 2, 2, ["o1-1"])
    again = run(shop(tmp_path, timeline="{at: t2}, {at: t3, deliver: true}"), spark=spark)
    assert again.file and first.file and again.file.results == first.file.results and again.file.pins != first.file.pins
    assert again.point == "t2" and not loaded(again)


def test_what_a_run_file_tells(spark: SparkSession, tmp_path: Path):
    """Estimates beside measurements, and checks as a line of their own."""
    arrive(tmp_path, 1, 8, ["o1-0"])
    job = shop(tmp_path)
    report = ran(spark, job)
    assert report.file
    for step in report.steps:
        assert step.estimated["rows"] is not None and step.measured and (step.measured["jobs"] or 0) >= 1
    told: Any = report.file.measured
    assert told["rows"] == sum(s.measured["rows"] for s in report.steps) and told["checks"]["jobs"] >= 1  # type: ignore[index,misc]
    assert report.file.plan["checked"] == {
        "sales": {"key": ["o_id"], "not null": ["o_id"]},
        "returns": {"key": [], "not null": []},
    }
    assert set(report.seconds) == {"planning", "steps", "rest"}
