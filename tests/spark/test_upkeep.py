"""What goes on around a job between its runs: tables are vacuumed, a process is killed, settings and policies change, values are odd."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from tempura.errors import JobError, WorkspaceError
from tempura.job import Job
from tempura.job.shapes import Policy
from tempura.spark import point as running
from tempura.spark.checks import CheckError
from tempura.spark.run import RunReport, run
from tempura.spark.steps import StepError
from tempura.spark.verify import verify as verified
from tempura.workspace import Workspace
from tests.spark.runjobs import arrive, interpreted, put, ran, shop

DAILY = "timeline: [{at: t1, deliver: true}, {at: t2, deliver: true}, {at: t3, deliver: true}]\n"


@pytest.fixture(scope="module", autouse=True)
def quick(spark: SparkSession) -> Iterator[None]:
    with interpreted(spark):
        yield


def one_table(folder: Path, query: str, table: str) -> Job:
    return Job.parse(f'name: one\nquery: "{query}"\ntables: {{t: {table}}}\n{DAILY}', folder)


def rows(report: RunReport) -> list[tuple[Any, ...]]:
    assert report.result is not None
    return sorted((tuple(row) for row in report.result.collect()), key=repr)


def test_what_was_vacuumed_is_not_missed_when_nothing_needs_it(spark: SparkSession, tmp_path: Path):
    lake = str(tmp_path / "lake")
    write_deltalake(lake, pa.table({"id": [1, 2, 3]}))
    job = one_table(tmp_path, "SELECT count(*) AS n, sum(id) AS s FROM t", "{source: {kind: delta, path: lake}}")
    ran(spark, job)
    DeltaTable(lake).delete("id = 1")
    ran(spark, job)
    DeltaTable(lake).vacuum(0, dry_run=False, enforce_retention_duration=False)
    write_deltalake(lake, pa.table({"id": [7]}), mode="append")
    assert rows(ran(spark, job)) == [(3, 12)]


def test_what_was_vacuumed_is_not_missed_by_recomputing(spark: SparkSession, tmp_path: Path):
    lake = str(tmp_path / "lake")
    write_deltalake(lake, pa.table({"id": [1, 2, 3]}))
    job = one_table(tmp_path, "SELECT count(*) AS n, sum(id) AS s FROM t", "{source: {kind: delta, path: lake}}")
    job = replace(job, policy="full")
    ran(spark, job)
    DeltaTable(lake).delete("id = 1")
    DeltaTable(lake).vacuum(0, dry_run=False, enforce_retention_duration=False)
    second = run(job, spark=spark)
    assert rows(second) == [(2, 5)]


@pytest.mark.parametrize("policy", ["incremental", "full"])
def test_a_table_that_stays_may_be_compacted_and_vacuumed(spark: SparkSession, tmp_path: Path, policy: Policy):
    """It is spoken of as of the first point, of which there is no file any more."""
    lake = str(tmp_path / "lake")
    for row in (1, 2):
        write_deltalake(lake, pa.table({"k": [row], "name": [f"n{row}"]}), mode="append")
    put(tmp_path / "t/1.parquet", {"id": pa.int64(), "at": pa.int64()}, [(1, 1), (2, 1)])
    text = f'name: one\nquery: "SELECT name, count(*) AS n FROM t JOIN d ON id = k GROUP BY name"\npolicy: {policy}\n{DAILY}tables:\n'
    text += "  t: {source: {kind: files, path: t, format: parquet, arrival: at}}\n  d: {source: {kind: delta, path: lake}}\n"
    job = Job.parse(text, tmp_path)
    ran(spark, job)
    DeltaTable(lake).optimize.compact()
    DeltaTable(lake).vacuum(0, dry_run=False, enforce_retention_duration=False)
    put(tmp_path / "t/2.parquet", {"id": pa.int64(), "at": pa.int64()}, [(2, 2)])
    assert rows(run(job, spark=spark)) == [("n1", 1), ("n2", 2)]
    write_deltalake(lake, pa.table({"k": [3], "name": ["n3"]}), mode="append")
    put(tmp_path / "t/3.parquet", {"id": pa.int64(), "at": pa.int64()}, [(3, 3)])
    assert rows(run(job, spark=spark)) == [("n1", 1), ("n2", 2), ("n3", 1)]


def test_a_table_that_comes_back_has_changed_meanwhile(spark: SparkSession, tmp_path: Path):
    """As many rows as before, and all of them other ones."""
    lake = str(tmp_path / "lake")
    write_deltalake(lake, pa.table({"id": [1, 2, 3]}))
    put(tmp_path / "u/1.parquet", {"x": pa.int64()}, [(1,)])
    u = "u: {source: {kind: files, path: u, format: parquet}}"
    both, alone = (
        Job.parse(f'name: one\nqueries: {{q: "{query}"}}\ntables: {{{tables}}}\n{DAILY}', tmp_path)
        for query, tables in (
            ("SELECT sum(id) AS s FROM t CROSS JOIN u", f"t: {{source: {{kind: delta, path: lake}}}}, {u}"),
            ("SELECT sum(x) AS s FROM u", u),
        )
    )
    assert rows(ran(spark, both)) == [(6,)]
    run(alone, spark=spark)
    DeltaTable(lake).update({"id": "id + 10"})
    assert rows(run(both, spark=spark)) == [(36,)]


def test_names_of_parts_of_any_kind(spark: SparkSession, tmp_path: Path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/1.json").write_text('{"id": 1, "payload": {"userId": "x"}}\n')
    table = (
        "{columns: {id: bigint, payload: 'struct<userId: string>'}, source: {kind: files, path: data, format: json}}"
    )
    assert rows(ran(spark, one_table(tmp_path, "SELECT payload.userId AS u FROM t", table))) == [("x",)]
    odd = pa.table({"id": [1], "user": pa.array([{"user-id": "y"}], pa.struct({"user-id": pa.string()}))})
    put(tmp_path / "odd/1.parquet", {f.name: f.type for f in odd.schema}, [tuple(r.values()) for r in odd.to_pylist()])
    query = "SELECT named_struct('first name', user.`user-id`) AS named FROM t"
    job = replace(one_table(tmp_path, query, "{source: {kind: files, path: odd, format: parquet}}"), name="odd")
    job = replace(job, workspace=str(tmp_path / "other"))
    assert rows(run(job, spark=spark)) == [(("y",),)]
    assert verified(job, spark=spark).same


def test_infinite_numbers(spark: SparkSession, tmp_path: Path):
    put(tmp_path / "data/1.parquet", {"x": pa.float64()}, [(float("inf"),), (1.0,)])
    job = one_table(tmp_path, "SELECT max(x) AS x FROM t", "{source: {kind: files, path: data, format: parquet}}")
    assert rows(ran(spark, job)) == [(float("inf"),)]


def test_full_recomputes_what_did_not_change(spark: SparkSession, tmp_path: Path):
    arrive(tmp_path, 1, 4, ["o1-0"])
    job = shop(tmp_path, timeline="{at: t1, deliver: true}, {at: t2, deliver: true}, {at: t3, deliver: true}")
    first = ran(spark, job)
    again = ran(spark, replace(job, policy="full"))
    assert not again.steps[0].reused and again.file and first.file
    assert again.file.results["result"].folder != first.file.results["result"].folder
    assert ran(spark, job).steps[0].reused


def test_what_is_declared_not_null_is_looked_at(spark: SparkSession, tmp_path: Path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/1.csv").write_text("id,name\n1,a\n2,\n")
    query = "SELECT count(*) AS n FROM t WHERE 'b' NOT IN (SELECT name FROM t)"
    table = "{{columns: {{id: bigint, name: {kind}}}, source: {{kind: files, path: data, format: csv, options: {{header: true}}}}}}"
    believed = one_table(tmp_path, query, table.format(kind="string not null"))
    with pytest.raises(CheckError, match="a column that is declared not null is NULL: name") as caught:
        run(believed, spark=spark)
    assert "declare the column without `not null`" in str(caught.value)
    assert rows(ran(spark, one_table(tmp_path, query, table.format(kind="string")))) == [(0,)]
    # Declared later, all that was read before is looked at, too.
    with pytest.raises(CheckError, match="declared not null"):
        run(believed, spark=spark)


def test_a_key_without_a_value_that_is_gone_again(spark: SparkSession, tmp_path: Path):
    types = {"op": pa.string(), "id": pa.int64(), "x": pa.int64()}
    put(tmp_path / "log/1.parquet", types, [("I", None, 1), ("I", 2, 5), ("D", None, 1)])
    table = "{key: id, columns: {id: bigint, x: bigint}, source: {kind: changes, path: log, format: parquet, operation: op}}"
    job = one_table(tmp_path, "SELECT id, sum(x) AS x FROM t GROUP BY id", table)
    assert rows(ran(spark, job)) == [(2, 5)]
    put(tmp_path / "log/2.parquet", types, [("I", None, 1)])
    with pytest.raises(CheckError, match="a key is NULL"):
        run(job, spark=spark)


def test_a_change_that_cannot_be_told_is_not_made_up(spark: SparkSession, tmp_path: Path):
    table = "{source: {kind: folders, path: batches, format: parquet}}"
    put(tmp_path / "batches/1/1.parquet", {"id": pa.int64()}, [(1,)])
    job = one_table(tmp_path, "SELECT map('a', id) AS m FROM t", table)
    assert run(job, spark=spark).delta.count() == 1, "at first, all of it is new"
    put(tmp_path / "batches/2/1.parquet", {"id": pa.int64()}, [(2,)])
    second = run(job, spark=spark)
    assert second.result.count() == 2
    with pytest.raises(JobError, match="how result changed at t2 is not known"):
        second.delta.count()


def test_a_part_may_have_any_name(spark: SparkSession, tmp_path: Path):
    put(tmp_path / "batches/1/1.parquet", {"id": pa.int64()}, [(1,)])
    job = one_table(
        tmp_path,
        "SELECT named_struct('variant', id, 'map', id) AS s FROM t",
        "{source: {kind: folders, path: batches, format: parquet}}",
    )
    run(job, spark=spark)
    put(tmp_path / "batches/2/1.parquet", {"id": pa.int64()}, [(2,)])
    assert run(job, spark=spark).delta.count() == 1, "what is new, and nothing else"


def test_after_a_failure_other_settings_may_be_tried(spark: SparkSession, tmp_path: Path):
    put(tmp_path / "data/1.parquet", {"x": pa.string()}, [("one",)])
    job = one_table(
        tmp_path, "SELECT CAST(x AS int) AS x FROM t", "{source: {kind: files, path: data, format: parquet}}"
    )
    with pytest.raises(StepError):
        run(job, spark=spark)
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        assert rows(run(job, spark=spark)) == [(None,)]
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")


def test_what_is_declared_after_a_kill_is_looked_at(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/1.csv").write_text("id,name\n1,a\n2,\n")
    table = "{{key: id, columns: {{id: bigint, name: {kind}}}, source: {{kind: files, path: data, format: csv, options: {{header: true}}}}}}"
    query = "SELECT count(*) AS n FROM t"
    killed(monkeypatch, spark, one_table(tmp_path, query, table.format(kind="string")))
    with pytest.raises(CheckError, match="declared not null is NULL: name"):
        run(one_table(tmp_path, query, table.format(kind="string not null")), spark=spark)


class Killed(BaseException):
    """Ends a run like a kill does: nothing is cleaned up or marked."""


def killed(monkeypatch: pytest.MonkeyPatch, spark: SparkSession, job: Job) -> None:
    """Run until all steps are done, and no further."""

    def end(run: running.PointRun) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(running.PointRun, "_run_file", end)
        with pytest.raises(Killed):
            run(job, spark=spark)


def test_settings_of_a_killed_run_hold_for_the_next_attempt(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    arrive(tmp_path, 1, 4, ["o1-0"])
    job = shop(tmp_path, timeline="{at: t1, deliver: true}, {at: t2, deliver: true}")
    zone = spark.conf.get("spark.sql.session.timeZone")
    killed(monkeypatch, spark, job)
    report = run(job, spark=spark)
    assert report.file and all(step.reused for step in report.steps)
    assert report.file.settings["spark.sql.session.timeZone"] == zone
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        arrive(tmp_path, 2, 4, ["o1-1"])
        with pytest.raises(JobError, match="timeZone = Asia/Tokyo"):
            run(job, spark=spark)
        with pytest.raises(JobError, match="timeZone = Asia/Tokyo"):
            verified(job, spark=spark)
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    ran(spark, job)


def test_another_end_of_a_point_is_heeded_after_a_kill(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for at in (10, 20):
        arrive(tmp_path, at, 4)
    line = "{{at: t1, deliver: true{upto}}}, {{at: t2, deliver: true}}"
    killed(monkeypatch, spark, shop(tmp_path, timeline=line.format(upto="")))
    report = ran(spark, shop(tmp_path, timeline=line.format(upto=", upto: 10")))
    assert sum(row["n"] for row in report.result.collect()) == 4


def test_columns_that_came_later_are_ignored(spark: SparkSession, tmp_path: Path):
    """Also by `SELECT *`, and where the file that has them is the first by its name."""
    source = "{kind: files, path: t, format: parquet, arrival: at, ignore_new_columns: true}"
    put(tmp_path / "t/b.parquet", {"id": pa.int64(), "at": pa.int64()}, [(1, 1)])
    ran(spark, one_table(tmp_path, "SELECT * FROM t", f"{{source: {source}}}"))
    put(tmp_path / "t/a.parquet", {"id": pa.int64(), "at": pa.int64(), "tax": pa.int64()}, [(2, 2, 5)])
    second = ran(spark, one_table(tmp_path, "SELECT * FROM t", f"{{source: {source}}}"))
    assert rows(second) == [(1, 1), (2, 2)]


def test_what_goes_wrong_after_a_commit_is_a_note(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A folder of somebody else that cannot be deleted, say: the run is done, and the next one goes on."""
    arrive(tmp_path, 1)
    job = shop(tmp_path, timeline="{at: t1, deliver: true}, {at: t2, deliver: true}")

    def refused(workspace: Workspace, keep_results: int | None = None) -> int:
        raise WorkspaceError("cannot delete states/old: Permission denied")

    told: list[str] = []
    with monkeypatch.context() as patch:
        patch.setattr(Workspace, "collect", refused)
        done = run(job, spark=spark, told=told.append)
    assert done.status == "done" and done.file and done.file.number == 1
    assert done.notes == (told[-1],) and "the run is committed" in told[-1] and "Permission denied" in told[-1]
    assert ran(spark, job).point == "t2"


def test_a_table_of_which_nothing_has_come_yet(spark: SparkSession, tmp_path: Path):
    """Its columns are those of files that are left for later."""
    put(tmp_path / "t/19-00/a.parquet", {"id": pa.int64()}, [(1,)])
    text = "name: one\nquery: SELECT count(*) AS n, max(id) AS m FROM t\ntables: {t: {source: {kind: folders, path: t, format: parquet}}}\n"
    job = Job.parse(
        text + 'timeline: [{at: t1, upto: "14-00", deliver: true}, {at: t2, upto: "19-00", deliver: true}]\n', tmp_path
    )
    assert [rows(ran(spark, job)) for _ in range(2)] == [[(0, None)], [(1, 1)]]
