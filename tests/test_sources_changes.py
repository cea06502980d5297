"""Change logs, Delta Lake tables and Spark tables: retractions, versions, and what is refused."""

from __future__ import annotations

import json
import shutil
import sys
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from tempura.errors import JobError, SourceError
from tempura.schema import Column
from tempura.sources import (
    KINDS,
    Change,
    ChangesSource,
    DeltaSource,
    Files,
    Operation,
    Part,
    Source,
    SparkTable,
    TableSource,
    Version,
)
from tests.readings import bag


def write(path: Path, **columns: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)


def changes(folder: Path, **options: Any) -> ChangesSource:
    given = {
        "table": "sales",
        "path": "log",
        "format": "parquet",
        "folder": folder,
        "operation": Operation(column="op"),
    }
    return ChangesSource(**{**given, **options})


def pinned(source: Source, since: Version | None = None, upto: str | None = None) -> Version:
    """A version that went through JSON, as in a run file."""
    return json.loads(json.dumps(source.pin(since, upto)))


def error(source: Source, since: Version | None = None, upto: str | None = None) -> str:
    with pytest.raises(SourceError) as caught:
        source.pin(since, upto)
    assert caught.value.hint
    return str(caught.value)


# Change logs.


def test_operations(tmp_path: Path):
    write(tmp_path / "log/1.parquet", id=[1, 2, 2, 3], op=["I", "insert", "c", "+i"])
    source = changes(tmp_path)
    assert source.retracts and source.schema() == (Column("id", "bigint"),)
    first = pinned(source)
    snapshot = source.snapshot(first)
    assert source.logged and snapshot.weighted and bag(snapshot) == Counter({(1,): 1, (2,): 2, (3,): 1})
    write(tmp_path / "log/0.parquet", id=[2, 3, 4, 3, 5], op=["D", "update_preimage", "U+", "insert", "UB"])
    write(tmp_path / "log/2.parquet", id=[5], op=["r"])
    second = pinned(source, first)
    delta = source.delta(first, second)
    assert delta.weighted
    assert {row: weight for row, weight in bag(delta).items()} == {(2,): -1, (4,): 1}
    assert source.change(first, second) == Change(3, 3)
    assert bag(source.snapshot(second)) == Counter({(1,): 1, (2,): 1, (3,): 1, (4,): 1})
    assert source.statistics(second).rows == 4 and source.change(None, second) == Change(7, 3)


def test_signed_counts_by_folder(tmp_path: Path):
    write(tmp_path / "log/batch=9/a.parquet", id=[1, 2], n=pa.array([3, 1], pa.int32()))
    source = changes(tmp_path, operation=Operation(count="n"), by="folders")
    first = pinned(source)
    assert bag(source.snapshot(first)) == Counter({(1,): 3, (2,): 1})
    write(tmp_path / "log/batch=10/a.parquet", id=[1, 2, 3], n=pa.array([-2, -1, 0], pa.int32()))
    second = pinned(source, first)
    assert dict(bag(source.delta(first, second))) == {(1,): -2, (2,): -1}
    assert source.change(first, second) == Change(0, 3)
    assert bag(source.snapshot(second)) == Counter({(1,): 1})


def test_changes_by_arrival(tmp_path: Path):
    write(tmp_path / "log/a.parquet", id=[1, 2, 1], op=["I", "I", "D"], at=[1, 2, 3])
    source = changes(tmp_path, arrival="at")
    first = pinned(source, None, "2")
    assert source.schema() == (Column("id", "bigint"),)
    assert bag(source.snapshot(first)) == Counter({(1,): 1, (2,): 1}) and source.change(None, first) == Change(2, 0)
    second = pinned(source, first)
    assert dict(bag(source.delta(first, second))) == {(1,): -1} and source.change(first, second) == Change(0, 1)


def test_the_operation_may_stand_among_the_columns(tmp_path: Path):
    """Without a header there is no other way to say where it stands; the query does not see it, or a row and its deletion would be two."""
    (tmp_path / "log").mkdir()
    (tmp_path / "log/a.csv").write_text("I,1\nI,2\nD,1\n")
    source = changes(tmp_path, format="csv", columns=(Column("op", "string"), Column("id", "int")))
    version = pinned(source)
    assert source.schema() == source.visible(version) == (Column("id", "int"),)
    assert bag(source.snapshot(version)) == Counter({(2,): 1}) and source.change(None, version) == Change(2, 1)


@pytest.mark.parametrize("format", ["csv", "json"])
def test_changes_in_text(format: str, tmp_path: Path):
    rows = [(1, "add"), (2, "add"), (1, "gone")]
    (tmp_path / "log").mkdir()
    lines = ["id,op", *(f"{i},{op}" for i, op in rows)]
    if format == "json":
        lines = [json.dumps({"id": i, "op": op}) for i, op in rows]
    (tmp_path / f"log/a.{format}").write_text("\n".join(lines) + "\n")
    operation = Operation(column="op", insert=("Add",), delete=("gone",))
    source = changes(
        tmp_path, format=format, operation=operation, columns=(Column("id", "int"),), options={"header": "true"}
    )
    assert bag(source.snapshot(pinned(source))) == Counter({(2,): 1})
    assert source.change(None, pinned(source)) == Change(2, 1)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["I", "X"], "'b.parquet' has rows with the unknown operation 'x'\n  hint: known: i, insert"),
        (
            ["I", "update"],
            "'b.parquet' has rows with the operation 'update': an update needs its images before and after",
        ),
        (["u", "I"], "an update needs its images before and after"),
        (["I", None], "1 rows of 'b.parquet' have no operation in 'op'"),
    ],
)
def test_operations_that_are_not_understood(words: list[str | None], said: str, tmp_path: Path):
    write(tmp_path / "log/a.parquet", id=[1], op=["I"])
    source = changes(tmp_path)
    first = pinned(source)
    write(tmp_path / "log/b.parquet", id=[1, 2], op=words)
    assert said in error(source, first)


def test_operation_column_must_be_there(tmp_path: Path):
    write(tmp_path / "log/a.parquet", id=[1])
    assert "'a.parquet' has no operation column 'op'" in error(changes(tmp_path))
    assert "no operation column 'op'" in error(changes(tmp_path, columns=(Column("id", "bigint"),)))
    with pytest.raises(JobError, match="ordered both by an arrival column and by folders"):
        changes(tmp_path, arrival="at", by="folders")


def test_log_files_stay_as_they_are(tmp_path: Path):
    write(tmp_path / "log/a.parquet", id=[1], op=["I"])
    source = changes(tmp_path)
    first = pinned(source)
    write(tmp_path / "log/a.parquet", id=[1, 1], op=["I", "D"])
    assert "'a.parquet', which was read before, has changed" in error(source, first)


# Delta Lake.

CDF = {"delta.enableChangeDataFeed": "true"}


def delta(folder: Path, **options: Any) -> DeltaSource:
    return DeltaSource(**{"table": "sales", "path": "lake", "folder": folder, **options})


def held(folder: Path, version: int) -> Counter[tuple[Any, ...]]:
    rows = DeltaTable(str(folder / "lake"), version=version).to_pyarrow_table().to_pylist()
    return Counter(tuple(row.values()) for row in rows)


def difference(after: Counter[Any], before: Counter[Any]) -> dict[Any, int]:
    found = Counter(after)
    found.subtract(before)
    return {row: weight for row, weight in found.items() if weight}


def lake(folder: Path, feed: bool = False, partitioned: bool = False) -> list[int]:
    """A table with every kind of commit; the versions worth comparing."""
    path = str(folder / "lake")
    rows = pa.table({
        "id": pa.array([1, 2, 3, 4, 4]),
        "name": ["a", None, "c'%/ d", "a", "a"],
        "day": pa.array([date(2026, 11, 15), date(2026, 11, 15), None, date(2026, 11, 16), date(2026, 11, 16)]),
    })  # fmt: skip
    by = ["day", "name"] if partitioned else None
    write_deltalake(path, rows, partition_by=by, configuration=CDF if feed else None)
    write_deltalake(path, rows.slice(3), mode="append")
    DeltaTable(path).update(predicate="id = 4", updates={"id": "40"})
    DeltaTable(path).delete("id = 1")
    DeltaTable(path).optimize.compact()
    other = pa.table({"id": [2, 7], "name": ["a", "z"], "day": pa.array([date(2026, 11, 15), None])})
    merge = DeltaTable(path).merge(other, "t.id = s.id", source_alias="s", target_alias="t")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    DeltaTable(path).restore(3)
    write_deltalake(path, rows.slice(0, 2), mode="overwrite")
    return list(range(DeltaTable(path).version() + 1))


@pytest.mark.parametrize("partitioned", [False, True])
@pytest.mark.parametrize("feed", [False, True])
def test_every_delta_is_the_difference(feed: bool, partitioned: bool, tmp_path: Path):
    versions = lake(tmp_path, feed, partitioned)
    assert len(versions) >= 7
    check_every_delta(tmp_path, versions)


def test_removed_files_need_not_tell_their_partitions(tmp_path: Path):
    """The format leaves it to the writer, whether they do."""
    versions = lake(tmp_path, partitioned=True)

    def forget(action: dict[str, Any]) -> None:
        if "remove" in action:
            del action["remove"]["partitionValues"]

    for version in versions:
        edit_log(tmp_path, forget, version)
    check_every_delta(tmp_path, versions)


def test_partitions_without_a_value_are_null(tmp_path: Path):
    """The format says so of empty texts, whatever the type; some writers have them, and others write null."""
    path = str(tmp_path / "lake")
    days = pa.array([date(2026, 11, 15), None, None], pa.date32())
    rows = pa.table({"id": [1, 2, 3], "name": ["a", "", None], "day": days})
    write_deltalake(path, rows, partition_by=["day", "name"])
    write_deltalake(path, rows, mode="append")
    DeltaTable(path).delete("id = 2")

    def emptied(action: dict[str, Any]) -> None:
        for kind in ("add", "remove"):
            if kind in action:
                action[kind]["partitionValues"] = {k: v or "" for k, v in action[kind]["partitionValues"].items()}

    edit_log(tmp_path, emptied, 1)
    edit_log(tmp_path, emptied, 2)
    assert held(tmp_path, 1)[2, None, None] == 2
    check_every_delta(tmp_path, [0, 1, 2])


def test_files_that_were_made_by_compaction_need_not_tell_their_partitions(tmp_path: Path):
    path = str(tmp_path / "lake")
    rows = pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"], "day": [date(2026, 11, 1)] * 2 + [date(2026, 11, 2)]})
    write_deltalake(path, rows, partition_by=["day"])
    write_deltalake(path, rows, mode="append")
    assert DeltaTable(path).optimize.compact()["numFilesRemoved"] == 4
    DeltaTable(path).delete("day = '2026-11-01'")

    def forget(action: dict[str, Any]) -> None:
        if "remove" in action:
            del action["remove"]["partitionValues"]

    edit_log(tmp_path, forget, 3)
    check_every_delta(tmp_path, [0, 1, 2, 3])


def check_every_delta(folder: Path, versions: list[int]) -> None:
    """Between any two versions, what is told of the change is the difference of what they hold."""
    source = delta(folder)
    assert source.retracts and [c.type for c in source.schema()] == ["bigint", "string", "date"]
    pins = [pinned(source, None, str(v)) for v in versions]
    for v in versions:
        assert bag(source.snapshot(pins[v])) == held(folder, v)
        assert source.change(None, pins[v]) == Change(held(folder, v).total(), 0)
        for u in versions[v:]:
            reading = source.delta(pins[v], pins[u])
            assert dict(bag(reading)) == difference(held(folder, u), held(folder, v)), (v, u)
            change = source.change(pins[v], pins[u])
            assert change.inserted - change.deleted == held(folder, u).total() - held(folder, v).total()


def test_updates_that_collide_with_other_rows(tmp_path: Path):
    """The change feed of deltalake 1.6 lacks the row after such an update; the files do not."""
    write_deltalake(str(tmp_path / "lake"), pa.table({"id": [4, 40, 5]}), configuration=CDF)
    DeltaTable(str(tmp_path / "lake")).update(predicate="id = 4", updates={"id": "40"})
    source = delta(tmp_path)
    first, second = pinned(source, None, "0"), pinned(source)
    assert dict(bag(source.delta(first, second))) == {(4,): -1, (40,): 1}
    assert source.change(first, second) == Change(3, 3)


def test_compaction_changes_nothing(tmp_path: Path):
    path = str(tmp_path / "lake")
    for i in range(3):
        write_deltalake(path, pa.table({"id": [i]}), mode="append", configuration={"delta.appendOnly": "true"})
    source = delta(tmp_path)
    assert not source.retracts
    first = pinned(source)
    DeltaTable(path).optimize.compact()
    second = pinned(source, first)
    assert second["version"] == first["version"] + 1
    assert source.delta(first, second).parts == () and source.change(first, second) == Change(0, 0)
    write_deltalake(path, pa.table({"id": [9]}), mode="append")
    DeltaTable(path).optimize.compact()
    third = pinned(source, first)
    assert not source.delta(first, third).weighted and bag(source.delta(first, third)) == Counter({(9,): 1})


def test_delta_statistics(tmp_path: Path):
    day = [date(1970, 1, 1) + timedelta(days=i % 5) for i in range(100)]
    write_deltalake(str(tmp_path / "lake"), pa.table({"id": range(100), "day": day, "n": [None, 1.5] * 50}))
    source = delta(tmp_path)
    known = source.statistics(pinned(source))
    assert known.rows == 100 and known.bytes and source.sketch() == known
    assert (known.columns["id"].least, known.columns["id"].greatest, known.columns["id"].distinct) == (0, 99, 100)
    assert (known.columns["day"].greatest, known.columns["day"].distinct) == (4, 5)
    assert known.columns["n"].null_share == 0.5


def test_a_delta_table_at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    write_deltalake(str(tmp_path / "lake"), pa.table({"id": [1]}))
    source = delta(tmp_path / "elsewhere", path="~/lake")
    (part,) = source.snapshot(pinned(source)).parts
    assert isinstance(part.origin, Files) and all(p.startswith(f"{tmp_path}/lake/") for p in part.origin.paths)


def test_delta_upto_a_time(tmp_path: Path):
    path = str(tmp_path / "lake")
    write_deltalake(path, pa.table({"id": [1]}))
    between = datetime.now(UTC) + timedelta(milliseconds=50)
    while datetime.now(UTC) < between + timedelta(milliseconds=50):
        pass
    write_deltalake(path, pa.table({"id": [2]}), mode="append")
    source = delta(tmp_path)
    first = pinned(source, None, between.isoformat())
    assert first["version"] == 0
    assert pinned(source, first, "2020-01-01") == first
    assert "it had no version at 2020-01-01" in error(source, None, "2020-01-01")
    assert "`upto` is 'noon', neither a version nor a time" in error(source, None, "noon")


def test_delta_drift(tmp_path: Path):
    path = str(tmp_path / "lake")
    write_deltalake(path, pa.table({"id": [1]}))
    source = delta(tmp_path)
    first = pinned(source)
    write_deltalake(path, pa.table({"id": [2], "tax": [1]}), mode="append", schema_mode="merge")
    assert "the column 'tax' (bigint), not read before, was added in 'lake'" in error(source, first)
    kept = delta(tmp_path, ignore_new_columns=True)
    second = pinned(kept, first)
    assert bag(kept.delta(first, second)) == Counter({(2,): 1}) and bag(kept.snapshot(second)) == Counter(
        {(1,): 1, (2,): 1}
    )
    turned = delta(tmp_path, columns=(Column("tax", "bigint"), Column("id", "bigint")))
    assert bag(turned.snapshot(turned.pin(None))) == Counter({(None, 1): 1, (1, 2): 1})
    declared = delta(tmp_path, columns=(Column("id", "int"), Column("tax", "bigint")))
    assert "the column 'id' was retyped: declared as int, it is bigint in 'lake'" in error(declared)
    write_deltalake(path, pa.table({"tax": [1]}), mode="overwrite", schema_mode="overwrite")
    assert "the column 'id', read before as bigint, was removed" in error(source, first)


def test_delta_tables_that_went_back_or_away(tmp_path: Path):
    path = str(tmp_path / "lake")
    source = delta(tmp_path)
    assert source.retracts
    assert "there is no Delta table at 'lake'" in error(source)
    for i in range(3):
        write_deltalake(path, pa.table({"id": [i]}), mode="append")
    first, third = pinned(source, None, "0"), pinned(source)
    shutil.copytree(path, tmp_path / "copy")
    Path(path, "_delta_log", f"{2:020}.json").unlink()
    assert "its version went backwards: 2 was read before, it is 1 now" in error(source, third)
    shutil.rmtree(path)
    write_deltalake(path, pa.table({"id": [1]}))
    assert "'lake' is another Delta table than the one that was read before" in error(source, first)
    shutil.rmtree(path)
    shutil.move(tmp_path / "copy", path)
    table = DeltaTable(path)
    table.create_checkpoint()
    Path(path, "_delta_log", f"{1:020}.json").unlink()
    with pytest.raises(SourceError, match="the log of version 1 is no longer there\n  hint: forget the states"):
        source.delta(first, third)


def test_a_delta_table_that_was_put_back_and_then_changed_otherwise(tmp_path: Path):
    path = str(tmp_path / "lake")
    source = delta(tmp_path)
    write_deltalake(path, pa.table({"id": [0]}))
    shutil.copytree(path, tmp_path / "copy")
    write_deltalake(path, pa.table({"id": [1]}), mode="append")
    second = pinned(source)
    shutil.copytree(path, tmp_path / "same")
    write_deltalake(path, pa.table({"id": [2]}), mode="append")
    assert pinned(source, second)["version"] == 2
    shutil.rmtree(path)
    shutil.move(tmp_path / "same", path)
    assert pinned(source, second) == second, "put back, and not changed"
    shutil.rmtree(path)
    shutil.move(tmp_path / "copy", path)
    for i in (3, 4):
        write_deltalake(path, pa.table({"id": [i]}), mode="append")
    assert "version 1 is another than the one that was read before" in error(source, second)
    before_that = {name: told for name, told in second.items() if name != "commit"}
    assert pinned(source, before_that)["version"] == 2, "pinned when commits were not noted"
    DeltaTable(path).create_checkpoint()
    Path(path, "_delta_log", f"{1:020}.json").unlink()
    assert pinned(source, second)["version"] == 2, "nothing is left to compare with"


def test_upto_takes_in_the_file_that_it_names(tmp_path: Path):
    for name in ("2026-11-14", "2026-11-15", "2026-11-16"):
        write(tmp_path / f"log/{name}.parquet", op=["I"], id=[1])
    source = changes(tmp_path, by="files")
    assert sorted(source.pin(None, "2026-11-15")["files"]) == ["2026-11-14.parquet", "2026-11-15.parquet"]
    assert len(source.pin(None, "2026-11")["files"]) == 3, "all of November"
    assert len(source.pin(None, "2026-10")["files"]) == 0
    for name in ("20261115-am", "20261115-pm"):
        write(tmp_path / f"halves/{name}.parquet", op=["I"], id=[1])
    halves = changes(tmp_path, by="files", path="halves")
    assert list(halves.pin(None, "20261115-am")["files"]) == ["20261115-am.parquet"]


def test_rows_by_spark_that_the_log_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    write_deltalake(str(tmp_path / "lake"), pa.table({"id": [1, 2]}))
    source = delta(tmp_path, reader="spark")
    actions = source._actions
    monkeypatch.setattr(DeltaSource, "_actions", lambda _, table: [a | {"num_records": None} for a in actions(table)])
    rows = source.statistics(pinned(source)).rows
    assert rows and rows > 0, "a table without rows would not be read"


@pytest.mark.parametrize("feed", [False, True])
def test_rows_by_spark_add_up(feed: bool, tmp_path: Path):
    """What comes less what goes is what there is more of, over any number of steps; and no change counts as none."""
    versions = lake(tmp_path, feed)
    source = delta(tmp_path, reader="spark")
    pins = [pinned(source, None, str(v)) for v in versions]
    for v in versions:
        for u in versions[v + 1 :]:
            change = source.change(pins[v], pins[u])
            assert change.inserted - change.deleted == source._held(pins[u]) - source._held(pins[v]), (v, u)
            assert change.inserted > 0 and change.deleted > 0, (v, u)
    if not feed:
        assert source.change(pins[0], pins[1]) == Change(source._held(pins[1]), source._held(pins[0])), "all of it"


def test_by_spark_a_table_that_became_append_only(tmp_path: Path):
    path = str(tmp_path / "lake")
    write_deltalake(path, pa.table({"id": [1, 2]}), configuration={"delta.enableChangeDataFeed": "true"})
    source = delta(tmp_path, reader="spark")
    first = pinned(source)
    DeltaTable(path).delete("id = 1")
    DeltaTable(path).alter.set_table_properties({"delta.appendOnly": "true"})
    with pytest.raises(SourceError, match="rows may have been taken back after version 0"):
        source.delta(first, pinned(source, first))


def test_by_spark_a_change_feed_that_was_switched_on(tmp_path: Path):
    path = str(tmp_path / "lake")
    write_deltalake(path, pa.table({"id": [1, 2]}), configuration={"delta.appendOnly": "true"})
    source = delta(tmp_path, reader="spark")
    first = pinned(source)
    DeltaTable(path).alter.set_table_properties({"delta.enableChangeDataFeed": "true"})
    write_deltalake(path, pa.table({"id": [3]}), mode="append")
    with pytest.raises(SourceError, match="its change feed was switched on after version 0"):
        source.delta(first, pinned(source, first))


def test_vacuumed_versions(tmp_path: Path):
    path = str(tmp_path / "lake")
    write_deltalake(path, pa.table({"id": [1, 2]}))
    source = delta(tmp_path)
    first = pinned(source)
    DeltaTable(path).delete("id = 1")
    second = pinned(source, first)
    DeltaTable(path).vacuum(0, dry_run=False, enforce_retention_duration=False)
    for read, version in ((lambda: source.snapshot(first), 0), (lambda: source.delta(first, second), 1)):
        with pytest.raises(SourceError, match=f"version {version} was vacuumed: its file 'part-.*' is no longer there"):
            read()
    assert bag(source.snapshot(second)) == Counter({(2,): 1})


def edit_log(folder: Path, change: Any, version: int = 0) -> None:
    """Rewrites a commit, as a writer with more features, or with fewer, would have written it."""
    log = folder / "lake/_delta_log" / f"{version:020}.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for action in actions:
        change(action)
    log.write_text("\n".join(json.dumps(a) for a in actions))


def with_features(*features: str) -> Any:
    def change(action: dict[str, Any]) -> None:
        if "protocol" in action:
            action["protocol"] = {
                "minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": list(features), "writerFeatures": list(features),
            }  # fmt: skip

    return change


def test_what_plain_files_cannot_say(tmp_path: Path):
    write_deltalake(str(tmp_path / "lake"), pa.table({"id": [1, 2, 3]}))
    edit_log(tmp_path, with_features("deletionVectors"))
    assert bag(delta(tmp_path).snapshot(delta(tmp_path).pin(None))) == Counter({(1,): 1, (2,): 1, (3,): 1})

    def vector(action: dict[str, Any]) -> None:
        if "add" in action:
            # A vector that holds no row, from the examples of the protocol.
            action["add"]["deletionVector"] = {
                "storageType": "i", "pathOrInlineDv": "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L", "sizeInBytes": 44, "cardinality": 6,
            }  # fmt: skip

    edit_log(tmp_path, vector)
    assert "uses deletion vectors, which plain Parquet readers cannot follow" in error(delta(tmp_path))


def test_vectors_that_are_gone_again(tmp_path: Path):
    """What would have helped before does not help now: the change is not told by files."""
    path = str(tmp_path / "lake")
    write_deltalake(path, pa.table({"id": [1, 2, 3]}))
    source = delta(tmp_path)
    first = pinned(source)
    write_deltalake(path, pa.table({"id": [4]}), mode="append")
    write_deltalake(path, pa.table({"id": [5]}), mode="overwrite")

    def vector(action: dict[str, Any]) -> None:
        if "add" in action:
            action["add"]["deletionVector"] = {"storageType": "u", "pathOrInlineDv": "x", "sizeInBytes": 4}

    last = pinned(source, first)
    edit_log(tmp_path, vector, 1)
    with pytest.raises(SourceError, match="commits after version 0 used deletion vectors") as told:
        source.change(first, last)
    assert "tempura reset" in told.value.hint


def test_a_file_that_is_missing_or_broken_is_told(tmp_path: Path):
    write_deltalake(str(tmp_path / "lake"), pa.table({"id": [1, 2, 3]}))
    (file,) = (tmp_path / "lake").glob("*.parquet")
    file.write_bytes(b"no Parquet")
    assert "cannot be read" in error(delta(tmp_path))
    file.unlink()
    assert "is no longer there" in error(delta(tmp_path))


def test_dates_that_python_has_not(tmp_path: Path):
    far = pa.array([3_000_000, 1], pa.int32()).cast(pa.date32())
    write_deltalake(str(tmp_path / "lake"), pa.table({"id": [1, 2], "day": far}))
    assert delta(tmp_path).statistics(pinned(delta(tmp_path))).rows == 2


def test_column_mapping_is_refused(tmp_path: Path):
    write_deltalake(str(tmp_path / "lake"), pa.table({"id": [1]}))

    def mapped(action: dict[str, Any]) -> None:
        with_features("columnMapping")(action)
        if "metaData" in action:
            schema = json.loads(action["metaData"]["schemaString"])
            for i, field in enumerate(schema["fields"], 1):
                field["metadata"] = {"delta.columnMapping.id": i, "delta.columnMapping.physicalName": f"col-{i}"}
            action["metaData"]["schemaString"] = json.dumps(schema)
            action["metaData"]["configuration"] = {
                "delta.columnMapping.mode": "name",
                "delta.columnMapping.maxColumnId": "1",
            }

    edit_log(tmp_path, mapped)
    assert "uses column mapping, which plain Parquet readers cannot follow" in error(delta(tmp_path))


def test_append_only_that_was_not(tmp_path: Path):
    path = str(tmp_path / "lake")
    write_deltalake(path, pa.table({"id": [1, 2]}))
    source = delta(tmp_path)
    first = pinned(source)
    DeltaTable(path).delete("id = 1")
    DeltaTable(path).alter.set_table_properties({"delta.appendOnly": "true"})
    with pytest.raises(SourceError, match="rows were taken back after version 0 of a table that is append-only now"):
        source.delta(first, pinned(source, first))


def test_without_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "deltalake", None)
    assert "pip install tempura[delta]" in error(delta(tmp_path))


# Spark tables.


def test_spark_tables():
    columns = (Column("id", "int"), Column("a b", "string"))
    source = TableSource(table="d", name="shop.dates", columns=columns)
    version = pinned(source)
    assert version == {"table": "shop.dates"} and source.static and not source.retracts
    assert source.snapshot(version).parts == (Part(SparkTable("shop.dates"), {"id": "`id`", "a b": "`a b`"}),)
    assert source.delta(version, version).parts == () and source.change(version, version) == Change(0, 0)
    assert source.statistics(version).rows is None
    other = TableSource(table="d", name="shop.days", columns=columns)
    assert "it was 'shop.dates' when it was read before, and is 'shop.days' now" in error(other, version)
    with pytest.raises(JobError, match="only known when Spark runs\n  hint: give the table's `columns`"):
        TableSource(table="d", name="shop.dates")


def test_kinds():
    assert set(KINDS) >= {"files", "folders", "changes", "delta", "table"}
