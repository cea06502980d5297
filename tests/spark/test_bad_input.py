"""Bad input of a run: a clear error, nothing committed, nothing lost, and the next good run works."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from tempura.errors import JobError, LockedError, SourceError, TempuraError, WorkspaceError
from tempura.job import Job
from tempura.spark import point as running
from tempura.spark.checks import CheckError, due
from tempura.spark.run import run
from tempura.spark.states import States
from tempura.spark.steps import StepError
from tempura.workspace import Attempt, RunFile, Workspace
from tests.spark.runjobs import GROSS, RETURNS, SALES, SHOP, arrive, interpreted, put, ran, shop, verify

DAILY = "{at: t1, deliver: true}, {at: t2, deliver: true}, {at: t3, deliver: true}"
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module", autouse=True)
def quick(spark: SparkSession) -> Iterator[None]:
    with interpreted(spark):
        yield


@pytest.fixture(scope="module")
def begun(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data and the workspace of the shop after its first run."""
    folder = tmp_path_factory.mktemp("shop")
    arrive(folder, 1, 8, ["o1-0"])
    ran(spark, shop(folder, timeline=DAILY), "t1")
    return folder


@pytest.fixture
def folder(begun: Path, tmp_path: Path) -> Path:
    """A copy of them; at t2 new rows have come."""
    shutil.copytree(begun, tmp_path / "shop", symlinks=True)
    arrive(tmp_path / "shop", 2, 5, ["o1-1", "o2-0"])
    return tmp_path / "shop"


def committed(workspace: str) -> dict[str, bytes]:
    """All that a reader of the workspace can see: run files, the rows that they name, and the pointers to the newest."""
    root = Path(workspace)
    seen = [p for p in root.glob("runs/*.json")]
    named = {f for p in seen for e in _entries(json.loads(p.read_text())) for f in e}
    files = [f for folder in named for f in (root / folder).rglob("*.parquet")]
    return {str(p): p.read_bytes() for p in (*seen, *files, *root.glob("results/*/latest.json"))}


def _entries(document: dict[str, Any]) -> list[list[str]]:
    results = document["results"].values()
    return [*(s["folders"] for s in document["states"].values()), *([r["folder"]] for r in results)]


def refused(spark: SparkSession, job: Job, kind: type[TempuraError], at: str | None = None) -> str:
    """What a run is refused with; it has committed nothing and lost nothing, and holds no lock."""
    before = committed(job.workspace)
    with pytest.raises(kind) as caught:
        run(job, at, spark=spark)
    assert committed(job.workspace) == before
    assert Workspace.open(job.workspace, "shop" if job.name == "other" else job.name).holder() is None
    assert caught.value.hint, "the error says what to do"
    return str(caught.value)


# Sources.


def _row(**changes: Any) -> tuple[dict[str, Any], list[tuple[Any, ...]]]:
    types = {**SALES, **{k: v for k, v in changes.items() if v is not None}}
    types = {k: v for k, v in types.items() if changes.get(k, "") is not None}
    values = {"o_id": "n", "category": "a", "price": Decimal(1), "at": 3, "tax": 1}
    if changes.get("price") == pa.string():
        values["price"] = "dear"
    return types, [tuple(values[c] for c in types)]


def _write(**changes: Any) -> Callable[[Path], None]:
    return lambda folder: (put(folder / "sales/009.parquet", *_row(**changes)), None)[1]


SPOILT: dict[str, tuple[Callable[[Path], Any], str]] = {
    "missing": (lambda f: shutil.move(f / "returns", f / "gone"), "table 'returns': 'returns' does not exist"),
    "not parquet": (lambda f: (f / "sales/009.parquet").write_text("rows"), "the file '009.parquet' cannot be read as parquet"),
    "added": (_write(tax=pa.int64()), "the column 'tax' (bigint), not declared, was added in '009.parquet'"),
    "removed": (_write(price=None), "the column 'price', declared as decimal(9,2), was removed"),
    "retyped": (_write(price=pa.string()), "the column 'price' was retyped: declared as decimal(9,2), it is string in '009.parquet'"),
    "late": (lambda f: put(f / "sales/009.parquet", SALES, [("n", "a", None, 1)]), "'009.parquet' has rows that arrive at 1, but all until 1 were read before"),
    "changed": (lambda f: put(f / "sales/001.parquet", SALES, [("n", "a", None, 1)]), "the file '001.parquet', which was read before, has changed"),
    "vanished": (lambda f: (f / "sales/001.parquet").unlink(), "the file '001.parquet', which was read before, has vanished"),
}  # fmt: skip


def test_sources_that_cannot_be_read(spark: SparkSession, folder: Path, tmp_path: Path):
    job = shop(folder, timeline=DAILY)
    for name, (spoil, said) in SPOILT.items():
        shutil.copytree(folder, tmp_path / "good", symlinks=True)
        spoil(folder)
        assert said in refused(spark, job, SourceError), name
        for part in ("sales", "returns"):
            shutil.rmtree(folder / part, ignore_errors=True)
            shutil.copytree(tmp_path / "good" / part, folder / part)
        shutil.rmtree(tmp_path / "good")
        assert run(job, dry_run=True).status == "dry", name
    assert ran(spark, job).point == "t2"


def test_delta_tables_that_went_back_or_were_vacuumed(spark: SparkSession, tmp_path: Path):
    lake = str(tmp_path / "lake")
    write_deltalake(lake, pa.table({"id": [1, 2, 3]}))
    text = 'name: lake\nquery: "SELECT count(*) AS n, sum(id) AS s FROM t"\ntables: {t: {source: {kind: delta, path: lake}, key: id}}\n'
    job = Job.parse(text + f"timeline: [{DAILY}]\npolicy: incremental\n", tmp_path)
    ran(spark, job)
    shutil.copytree(lake, tmp_path / "first")
    DeltaTable(lake).delete("id = 1")
    shutil.copytree(lake, tmp_path / "second")
    DeltaTable(lake).vacuum(0, dry_run=False, enforce_retention_duration=False)
    assert "was vacuumed: its file 'part-" in refused(spark, job, SourceError)
    shutil.rmtree(lake)
    shutil.copytree(tmp_path / "second", lake)
    assert ran(spark, job).point == "t2"
    shutil.rmtree(lake)
    shutil.copytree(tmp_path / "first", lake)
    assert "its version went backwards: 1 was read before, it is 0 now" in refused(spark, job, SourceError)
    shutil.rmtree(lake)
    write_deltalake(lake, pa.table({"id": [1]}))
    assert "is another Delta table than the one that was read before" in refused(spark, job, SourceError)
    shutil.rmtree(lake)
    shutil.copytree(tmp_path / "second", lake)
    write_deltalake(lake, pa.table({"id": [3]}), mode="append")
    assert """table 't': a key is not one, as it is there more than once: {"id":3} 2 times""" in refused(
        spark, job, CheckError
    )
    DeltaTable(lake).delete("id = 3")
    assert ran(spark, job).point == "t3"


# Keys and deletes.


def test_duplicate_keys(spark: SparkSession, folder: Path):
    job = shop(folder, timeline=DAILY)
    good = (folder / "sales/002.parquet").read_bytes()
    rows = [("twice", "a", None, 2), ("twice", "b", None, 2), ("once", "a", None, 2)]
    put(folder / "sales/002.parquet", SALES, rows)
    said = refused(spark, job, CheckError)
    assert """table 'sales': a key is not one, as it is there more than once: {"o_id":"twice"} 2 times""" in said
    assert "hint: nothing was committed; correct the new rows, or give the table no `key`, then run again" in said
    put(folder / "sales/002.parquet", SALES, [("o1-3", "a", None, 2)])
    assert """more than once: {"o_id":"o1-3"} 2 times""" in refused(spark, job, CheckError), "against what was there"
    put(folder / "sales/002.parquet", SALES, [("new", "a", None, 2)])
    put(folder / "sales/003.parquet", {**SALES, "o_id": pa.string()}, [("new", "a", None, 3)])
    assert """{"o_id":"new"} 2 times""" in refused(spark, job, CheckError), "between two new files"
    (folder / "sales/003.parquet").unlink()
    (folder / "sales/002.parquet").write_bytes(good)
    assert ran(spark, job).point == "t2"


def test_a_key_that_is_dear_to_look_up(spark: SparkSession, folder: Path):
    """It is doubted where the plan does not need it, and what it is declared for is right all the same; once it is cheap, it is looked up among all rows."""
    put(
        folder / "sales/002.parquet",
        SALES,
        [("twice", "a", None, 2), ("twice", "b", Decimal(3), 2), (None, "a", None, 2)],
    )
    query = "SELECT category, sum(price) AS total FROM sales GROUP BY category"
    job = shop(folder, timeline=DAILY, query=query)
    dear = replace(job, cluster=replace(job.cluster, exchange_row=1.0))
    assert "the column 'o_id' is declared not null, but '002.parquet' has 1 NULLs" in refused(spark, dear, SourceError)
    put(folder / "sales/002.parquet", SALES, [("twice", "a", None, 2), ("twice", "b", Decimal(3), 2)])
    report = ran(spark, dear)
    assert report.file
    told: Any = report.file.plan
    assert told["checked"]["sales"] == {"key": [], "not null": ["o_id"]}
    assert any("sales: no plan relies on the key" in note for note in told["notes"])
    put(folder / "sales/003.parquet", SALES, [("fine", "a", None, 3)])
    assert """{"o_id":"twice"} 2 times""" in refused(spark, job, CheckError)
    assert ran(spark, dear).point == "t3"


def test_a_log_whose_key_is_dear_to_look_up(spark: SparkSession, tmp_path: Path):
    """What is taken away is looked up all the same, by the key, whether it is one or not."""
    text = 'name: log\nquery: "SELECT v, count(*) AS n FROM log GROUP BY v"\ntables:\n  log:\n    columns: {id: bigint, v: string}\n    key: id\n'
    text += f"    source: {{kind: changes, path: log, format: parquet, operation: op}}\ntimeline: [{DAILY}]\n"
    put(tmp_path / "log/1.parquet", LOG, [("I", 1, "a"), ("I", 1, "b"), ("I", 2, None)])
    job = Job.parse(text, tmp_path)
    dear = replace(job, cluster=replace(job.cluster, exchange_row=1.0))
    ran(spark, dear)
    put(tmp_path / "log/2.parquet", LOG, [("D", 1, "c")])
    assert """a row that is not there is taken away: {"id":1,"v":"c"}""" in refused(spark, dear, CheckError)
    put(tmp_path / "log/2.parquet", LOG, [("D", 1, "a")])
    assert ran(spark, dear).point == "t2"


def test_a_key_that_was_none_before(spark: SparkSession, tmp_path: Path):
    """That two rows had it can no more be seen, but states and results were made of them; a plan that relied on it would lose the order that is left."""
    text = 'name: log\nquery: "SELECT * FROM orders o LEFT JOIN items i ON o.id = i.oid"\nmethods: [OJV]\npolicy: incremental\ntables:\n'
    text += "  orders: {columns: {id: bigint, v: string}, KEY source: {kind: changes, path: orders, format: parquet, operation: op}}\n"
    text += "  items: {columns: {oid: bigint, w: string}, source: {kind: changes, path: items, format: parquet, operation: op}}\n"
    keyless, keyed = (
        Job.parse(text.replace("KEY", key) + f"timeline: [{DAILY}]\n", tmp_path) for key in ("", "key: id,")
    )
    put(tmp_path / "orders/1.parquet", LOG, [("I", 1, "a"), ("I", 1, "a")])
    put(tmp_path / "items/1.parquet", {"op": pa.string(), "oid": pa.int64(), "w": pa.string()}, [("I", 1, "x")])
    ran(spark, keyless)
    put(tmp_path / "orders/2.parquet", LOG, [("D", 1, "a")])
    put(tmp_path / "items/2.parquet", {"op": pa.string(), "oid": pa.int64(), "w": pa.string()}, [("D", 1, "x")])
    second = ran(spark, keyed)
    assert [tuple(row) for row in second.result.collect()] == [(1, "a", None, None)]
    assert second.plan and any("as of points before it cannot be" in note for note in second.plan.notes)


def test_a_key_that_was_not_checked_before(spark: SparkSession, folder: Path):
    """A key that is declared later, or checked later, is checked over all rows once."""
    put(folder / "sales/002.parquet", SALES, [("o1-3", "a", None, 2)])
    free = shop(
        folder,
        timeline=DAILY,
        changes="checks: false\n",
        query="SELECT category, count(*) AS n FROM sales GROUP BY category",
    )
    report = ran(spark, free)
    assert report.file and report.file.plan["checked"] == {} and "checks" not in report.file.measured
    put(folder / "sales/003.parquet", SALES, [("fine", "a", None, 3)])
    job = shop(folder, timeline=DAILY)
    assert """{"o_id":"o1-3"} 2 times""" in refused(spark, job, CheckError)
    pins = {name: job.sources[name].pin(None) for name in job.catalog}
    assert [(c.table, c.arrived) for c in due(job, report.file, pins)] == [("sales", None), ("returns", None)][:1]
    assert ran(spark, free).point == "t3"


def test_null_keys(spark: SparkSession, tmp_path: Path):
    """Where the files say what columns there are, nothing but the key says that one is never NULL."""
    put(tmp_path / "t/1.parquet", {"id": pa.int64(), "at": pa.int64()}, [(1, 1), (None, 1)])
    text = 'name: nulls\nquery: "SELECT count(*) AS n FROM t"\ntables: {t: {source: {kind: files, path: t, format: parquet, arrival: at}, key: id}}\n'
    job = Job.parse(text + f"timeline: [{DAILY}]\n", tmp_path)
    assert """table 't': a key is NULL: {"id":null}""" in refused(spark, job, CheckError)
    assert not Path(job.workspace, "runs").exists()
    put(tmp_path / "t/1.parquet", {"id": pa.int64(), "at": pa.int64()}, [(1, 1)])
    ran(spark, job)


LOG = {"op": pa.string(), "id": pa.int64(), "v": pa.string()}


@pytest.mark.parametrize("key", ["key: id", ""], ids=["key", "no key"])
def test_deletes_of_rows_that_are_not_there(spark: SparkSession, tmp_path: Path, key: str):
    text = f'name: log\nquery: "SELECT v, count(*) AS n FROM log GROUP BY v"\ntables:\n  log:\n    columns: {{id: bigint, v: string}}\n    {key}\n'
    text += f"    source: {{kind: changes, path: log, format: parquet, operation: op}}\ntimeline: [{DAILY}]\n"
    put(tmp_path / "log/1.parquet", LOG, [("I", 1, "a"), ("I", 2, None), ("D", 3, "c")])
    job = Job.parse(text, tmp_path)
    row = '{"id":3}' if key else '{"id":3,"v":"c"}'
    assert f"table 'log': a row that is not there is taken away: {row}" in refused(spark, job, CheckError)
    put(tmp_path / "log/1.parquet", LOG, [("I", 1, "a"), ("I", 2, None), ("I", 3, "c"), ("D", 3, "c")])
    ran(spark, job)
    # Another value than the row has; one that has gone; and one that is NULL as it should be.
    put(tmp_path / "log/2.parquet", LOG, [("U-", 1, "b"), ("U+", 1, "c"), ("D", 2, None)])
    row = '{"id":1}' if key else '{"id":1,"v":"b"}'
    assert f"a row that is not there is taken away: {row}\n" in refused(spark, job, CheckError)
    put(tmp_path / "log/2.parquet", LOG, [("D", 3, "c"), ("D", 2, None)])
    assert 'taken away: {"id":3' in refused(spark, job, CheckError)
    # It may as well be mended by what comes next.
    put(tmp_path / "log/3.parquet", LOG, [("I", 3, "c")])
    second = ran(spark, job)
    assert second.point == "t2" and [tuple(r) for r in second.delta.collect()] == [(None, 1, -1)]
    put(tmp_path / "log/4.parquet", LOG, [("I", 9, "z")])
    pins = {"log": job.sources["log"].pin(second.file.pins["log"])}  # type: ignore[union-attr]
    assert [(c.key, c.taken) for c in due(job, second.file, pins)] == ([(("id",), False)] if key else [])
    assert (due(job, second.file, second.file.pins) == ()) and ran(spark, job).point == "t3"  # type: ignore[union-attr]


@pytest.mark.parametrize("columns", ["k: int, m: 'map<string,int>'", "m: 'array<struct<x:map<string,int>>>'"])
def test_rows_with_maps_are_taken_away(spark: SparkSession, tmp_path: Path, columns: str):
    """Spark groups by maps, but does not join by them: one that is beside another column, and one that is alone."""
    text = f"name: log\nquery: SELECT count(*) AS n FROM log\ntables:\n  log:\n    columns: {{{columns}}}\n"
    text += f"    source: {{kind: changes, path: log, format: json, operation: op}}\ntimeline: [{DAILY}]\n"

    def logged(name: str, *rows: tuple[str, int, dict[str, int]]) -> None:
        (tmp_path / "log").mkdir(exist_ok=True)
        lines = [{"op": op, "k": k, "m": m} if "k:" in columns else {"op": op, "m": [{"x": m}]} for op, k, m in rows]
        (tmp_path / f"log/{name}.json").write_text("".join(json.dumps(line) + "\n" for line in lines))

    logged("1", ("I", 1, {"a": 1, "b": 2}), ("I", 1, {"a": 1}), ("I", 2, {}))
    job = Job.parse(text, tmp_path)
    ran(spark, job)
    logged("2", ("D", 1, {"a": 3}))
    assert "a row that is not there is taken away: {" in refused(spark, job, CheckError)
    logged("2", ("D", 1, {"b": 2, "a": 1}))
    assert [tuple(row) for row in ran(spark, job).result.collect()] == [(2,)]


# States and run files.


def _states(job: Job, kind: str = "states") -> list[Path]:
    return sorted(p for p in Path(job.workspace).glob(f"{kind}/*/*/*.parquet"))


def _missing(job: Job) -> None:
    shutil.rmtree(_states(job)[0].parent)


def _cut(job: Job) -> None:
    path = _states(job)[0]
    path.write_bytes(path.read_bytes()[:-10])


def _flipped(job: Job) -> None:
    """As many bytes as before, and one of them another."""
    for path in (*_states(job), *_states(job, "results")):
        content = bytearray(path.read_bytes())
        content[5:9] = b"\0\0\0\0"
        path.write_bytes(content)


def _undelivered(job: Job) -> None:
    shutil.rmtree(_states(job, "results")[0].parent)


@pytest.mark.parametrize("damage", [_missing, _cut, _flipped, _undelivered])
def test_damaged_states_are_computed_again(spark: SparkSession, folder: Path, damage: Callable[[Job], None]):
    job = shop(folder, timeline=DAILY)
    before = Workspace.open(job.workspace, job.name).latest()
    assert before and _states(job)
    damage(job)
    told: list[str] = []
    report = run(job, spark=spark, told=told.append)
    assert report.point == "t2" and report.file
    # What is damaged cannot be what a change is measured by; and results that were delivered stay as they are.
    lost = report.file.results["result"].delta_folder is None
    assert lost == (damage in (_flipped, _undelivered))
    if not lost:
        verify(spark, job, report)
    else:
        assert "what was delivered of result before is damaged, so that its change cannot be told" in told
    said = " ".join(report.notes)
    assert "is damaged, and is not used but computed again if need be: " in said
    assert said in " ".join(report.file.plan["notes"])  # type: ignore[arg-type]
    arrive(folder, 3, 3, ["o1-2"])
    assert ran(spark, job).point == "t3"


def test_run_files_edited_by_hand(spark: SparkSession, folder: Path):
    job = shop(folder, timeline=DAILY)
    path = Path(job.workspace, "runs/1.json")
    good = path.read_text()
    path.write_text(good.replace('"point": "t1"', '"point": "t0"'))
    said = refused(spark, job, WorkspaceError)
    assert "1.json is damaged: its digest does not fit its content, so it was cut short or edited by hand" in said
    path.write_text(good)
    assert ran(spark, job).point == "t2"


def test_points_and_workspaces_of_others(spark: SparkSession, folder: Path):
    job = shop(folder, timeline=DAILY)
    assert "the timeline has no point 't9'" in refused(spark, job, JobError, "t9")
    Path(folder, "other.yaml").write_text("")
    other = shop(folder, timeline=DAILY, changes="workspace: .tempura/shop\n")
    object.__setattr__(other, "name", "other")
    assert "is the workspace of the job `shop`, not of `other`" in refused(spark, other, WorkspaceError)
    assert ran(spark, job, "t3").point == "t3"
    assert "the point 't2' is in the past: 't3' has been run already" in refused(spark, job, JobError, "t2")
    workspace = Workspace.open(job.workspace, job.name)
    with workspace.lock("tempura run elsewhere"), pytest.raises(LockedError, match="tempura run elsewhere"):
        run(job, spark=spark)
    assert run(job, spark=spark).status == "repeated"


# Spark.


def test_sql_that_fails(spark: SparkSession, folder: Path):
    """A cast of what is no number: the error has what Spark says of it, and correct rows make the run work."""
    job = shop(
        folder, "SELECT category, sum(CAST(substring(o_id, 2, 1) AS INT)) AS n FROM sales GROUP BY category", DAILY
    )
    good = (folder / "sales/002.parquet").read_bytes()
    put(folder / "sales/002.parquet", SALES, [("word", "a", None, 2)])
    said = refused(spark, job, StepError)
    assert "Spark cannot run " in said and "[CAST_INVALID_INPUT]" in said and "'o'" in said and "\tat " not in said
    assert "`tempura plan --sql` shows its SQL" in said
    (folder / "sales/002.parquet").write_bytes(good)
    assert ran(spark, job).point == "t2"


def test_finished_steps_of_a_run_that_failed(spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch):
    """What was finished before another step failed is found again if the sources are as they were, and not taken if they have moved."""
    shutil.rmtree(folder / ".tempura")
    arrive(folder, 1, 8, ["o1-0"])
    job = shop(folder)
    write, numbers = States.write, itertools.count()

    def failing(self: States, frame: Any, path: str, **rest: Any) -> Any:
        if next(numbers):
            raise StepError(f"{path} cannot be written", hint="this time")
        return write(self, frame, path, **rest)

    monkeypatch.setattr(States, "write", failing)
    assert "cannot be written\n  hint: this time" in refused(spark, job, StepError, "t1")
    done = {json.loads(p.read_text())["step"]["name"] for p in Path(job.workspace).glob("pending/1/steps/*.json")}
    assert len(done) == 1
    monkeypatch.undo()
    shutil.copytree(folder, folder.parent / "moved", symlinks=True)
    report = ran(spark, job, "t1")
    assert {s.name for s in report.steps if s.reused} == done and {s.name for s in report.steps} > done
    moved = folder.parent / "moved"
    arrive(moved, 3, 2, ["o1-1"])
    report = ran(spark, shop(moved), "t1")
    assert not any(s.reused for s in report.steps) and "003.parquet" in report.file.pins["sales"]["files"]  # type: ignore[union-attr,operator]


def test_rows_that_change_after_a_kill(spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch):
    """A killed run's versions are kept, if they can still be had."""
    job = shop(folder, timeline=DAILY)

    def killed(name: str) -> None:
        if name.startswith("before result@"):
            raise KeyboardInterrupt

    monkeypatch.setattr(running, "fault", killed)
    with pytest.raises(KeyboardInterrupt):
        run(job, spark=spark)
    monkeypatch.undo()
    shutil.copytree(folder, folder.parent / "same", symlinks=True)
    same = shop(folder.parent / "same", timeline=DAILY)
    arrive(folder.parent / "same", 3, 2, ["o1-1"])
    report = ran(spark, same)
    assert "003.parquet" not in report.file.pins["sales"]["files"], "what came later is for the next point"  # type: ignore[union-attr,operator]
    put(folder / "sales/002.parquet", SALES, [("other", "a", None, 2)])
    put(folder / "returns/002.parquet", RETURNS, [("other", None, 2)])
    report = ran(spark, job)
    assert sum(r["n"] for r in report.result.collect()) == 9


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A disk of one megabyte."""
    place = tmp_path / "disk"
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)], capture_output=True).returncode:
        pytest.skip("a small disk cannot be mounted here")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_full_disk(spark: SparkSession, folder: Path, small: Path):
    shutil.copytree(folder / ".tempura/shop", small / "shop", symlinks=True)
    job = shop(folder, timeline=DAILY, changes=f"workspace: {small}/shop\n")
    fill(small, leaving=12_288)
    said = refused(spark, job, StepError)
    assert "Spark cannot run " in said and "No space left on device" in said
    fill(small, leaving=0)
    before = committed(job.workspace)
    with pytest.raises(WorkspaceError, match=r"the disk is full: cannot write .*\n  hint: free some space"):
        run(job, spark=spark)
    assert committed(job.workspace) == before
    (small / "ballast").unlink()
    assert ran(spark, job).point == "t2"


def fill(disk: Path, leaving: int) -> None:
    (disk / "ballast").unlink(missing_ok=True)
    free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
    (disk / "ballast").write_bytes(b"x" * (free - leaving))


GREEDY = """
import sys
from tempura.spark.run import run
from tempura.spark.session import session
from tests.spark.runjobs import Path, shop

session(**{"spark.driver.memory": "512m", "spark.master": "local[1]", "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"})
try:
    run(shop(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
except Exception as error:
    print(type(error).__name__, error)
    sys.exit(1)
"""


def test_driver_out_of_memory(spark: SparkSession, folder: Path):
    """A driver of its own, which a value of two gigabytes is too much for."""
    query = "SELECT category, max(length(repeat(o_id, 400000000))) AS n FROM sales GROUP BY category"
    job = shop(folder, timeline=DAILY)
    before = committed(job.workspace)
    done = subprocess.run(
        [sys.executable, "-c", GREEDY, str(folder), query, DAILY],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert done.stdout.startswith("StepError Spark's driver has ended, or has no memory left: "), done
    assert "\n  hint: give it more memory (`spark.driver.memory`" in done.stdout, done
    assert committed(job.workspace) == before
    assert ran(spark, job).point == "t2"


def test_a_file_that_changes_while_it_is_read(spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch):
    """What was read is not what was pinned, so nothing is delivered; the next run reads what is there then."""
    job = shop(folder, timeline=DAILY)
    before = committed(job.workspace)

    def rewritten(name: str) -> None:
        if name == "before result@t2":
            arrive(folder, 2, 7, ["o1-1"])

    with monkeypatch.context() as patch:
        patch.setattr(running, "fault", rewritten)
        with pytest.raises(SourceError, match=r"has changed since the run began to read it") as failed:
            run(job, "t2", spark=spark)
    assert "move them into place" in str(failed.value)
    assert committed(job.workspace) == before
    ran(spark, job, "t2")


def test_a_file_that_changes_while_it_is_read_and_is_put_back(
    spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    """What was pinned is there again, but it is not what was read: no step is taken for done."""
    job = shop(folder, timeline=DAILY)
    for table in ("sales", "returns"):
        shutil.copytree(folder / table, folder / "kept" / table)

    def rewritten(name: str) -> None:
        if name == "before result@t2":
            arrive(folder, 2, 7, ["o1-1"])

    with monkeypatch.context() as patch:
        patch.setattr(running, "fault", rewritten)
        with pytest.raises(SourceError, match=r"has changed since the run began to read it"):
            run(job, "t2", spark=spark)
    shutil.copytree(folder / "kept", folder, dirs_exist_ok=True)
    ran(spark, job, "t2")


def test_notes_of_an_attempt_that_a_crash_cut_short(spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch):
    """What was checked, and in what session, is not on the disk when the machine crashes; then it counts as not noted."""
    job = shop(folder, timeline=DAILY)

    def crash(attempt: Attempt, file: RunFile) -> RunFile:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Attempt, "commit", crash)
        with pytest.raises(KeyboardInterrupt):
            run(job, "t2", spark=spark)
    checks, settings = (Path(job.workspace) / f"pending/2/{name}.json" for name in ("checks", "settings"))
    checks.write_bytes(bytes(len(checks.read_bytes())))
    settings.write_bytes(settings.read_bytes()[:20])
    assert all(step.reused for step in ran(spark, job, "t2").file.steps)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "path: sales, format: parquet",
            "path: sales, format: parquet, options: {mergeSchema: 'true'}",
            "`options` was []",
        ),
        ("kind: files, path: returns", "kind: folders, path: returns", "`kind` was files"),
    ],
)
def test_what_is_read_otherwise_than_before(spark: SparkSession, folder: Path, old: str, new: str, said: str):
    """States of what was read before do not go together with what is read now."""
    text = SHOP.format(query=GROSS, timeline=DAILY, policy="incremental")
    changed = text.replace(old, new).replace(", arrival: {at: bigint}}\ntimeline", "}\ntimeline" if "folders" in new else ", arrival: {at: bigint}}\ntimeline")  # fmt: skip
    assert changed != text
    with pytest.raises(SourceError, match=re.escape(said)) as failed:
        run(Job.parse(changed, folder), "t2", spark=spark)
    assert "tempura reset" in str(failed.value)


def test_a_session_by_which_the_query_means_something_else(spark: SparkSession, folder: Path):
    job = shop(folder, timeline=DAILY)
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        with pytest.raises(JobError, match=r"timeZone = Europe/Berlin, and had UTC") as failed:
            run(job, "t2", spark=spark)
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(zone))
    assert "set it to UTC again" in str(failed.value)
    ran(spark, job, "t2")


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MILLIS", "milliseconds"),
        ("spark.sql.files.ignoreCorruptFiles", "true", "leaves out files that it cannot read"),
        ("spark.sql.files.ignoreMissingFiles", "true", "leaves out files that it cannot read"),
    ],
)
def test_a_session_that_loses_something(spark: SparkSession, folder: Path, name: str, value: str, said: str):
    spark.conf.set(name, value)
    try:
        with pytest.raises(JobError, match=said):
            run(shop(folder, timeline=DAILY), "t2", spark=spark)
    finally:
        spark.conf.unset(name)
