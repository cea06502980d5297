"""Files with an arrival column, static files, and folders of batches: what is pinned, read, counted and refused."""

from __future__ import annotations

import io
import json
import os
import re
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.fs as fs
import pyarrow.parquet as pq
import pytest

from tempura.catalog import Table
from tempura.errors import JobError, SourceError
from tempura.schema import Column
from tempura.sources import Change, Files, FilesSource, FoldersSource, Source, Version, listing
from tempura.sources.expected import expected
from tempura.sources.listing import Place
from tempura.sources.parquet import ParquetContents
from tempura.sources.summary import SAMPLE, Known, Summary, sampled
from tempura.timeline import Timeline
from tests.readings import bag

SALES = (Column("id", "bigint"), Column("price", "double"))


def write(path: Path, **columns: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)


def files(folder: Path, **options: Any) -> FilesSource:
    given = {"table": "sales", "path": "data", "format": "parquet", "folder": folder, "arrival": "at", **options}
    return FilesSource(**given)


def folders(folder: Path, **options: Any) -> FoldersSource:
    return FoldersSource(**{"table": "sales", "path": "data", "format": "parquet", "folder": folder, **options})


def pinned(source: Source, since: Version | None = None, upto: str | None = None) -> Version:
    """A version that went through JSON, as in a run file."""
    return json.loads(json.dumps(source.pin(since, upto)))


def opened(source: FilesSource, since: Version, monkeypatch: pytest.MonkeyPatch) -> tuple[Version, list[str]]:
    """A pin, and the files it opened."""
    seen: list[str] = []
    real = pq.ParquetFile

    def spy(stream: Any, *args: Any, **options: Any) -> Any:
        seen.append(Path(stream.name if hasattr(stream, "name") else str(stream)).name)
        return real(stream, *args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(pq, "ParquetFile", spy)
        return pinned(source, since), seen


def error(source: Source, since: Version | None = None, upto: str | None = None) -> str:
    with pytest.raises(SourceError) as caught:
        source.pin(since, upto)
    assert caught.value.hint
    return str(caught.value)


# Files with an arrival column.


def test_snapshot_and_delta(tmp_path: Path):
    write(tmp_path / "data/a.parquet", id=[1, 2], price=[1.0, None], at=[10, 20])
    source = files(tmp_path)
    assert source.schema() == (Column("id", "bigint"), Column("price", "double"), Column("at", "bigint"))
    first = pinned(source)
    assert bag(source.snapshot(first)) == Counter({(1, 1.0, 10): 1, (2, None, 20): 1})
    write(tmp_path / "data/deep/b.parquet", id=[3, 3], price=[3.0, 3.0], at=[21, 21])
    second = pinned(source, first)
    delta = source.delta(first, second)
    assert bag(delta) == Counter({(3, 3.0, 21): 2})
    assert not delta.weighted and not source.retracts and not source.static
    assert bag(source.snapshot(second)) == bag(source.snapshot(first)) + bag(delta)
    assert bag(source.snapshot(first)) == Counter({(1, 1.0, 10): 1, (2, None, 20): 1})
    assert source.change(None, second) == Change(4, 0)
    assert source.change(first, second) == Change(2, 0)
    assert bag(source.delta(second, second)) == Counter() and source.delta(second, second).parts == ()


def test_arrival_need_not_be_seen(tmp_path: Path):
    write(tmp_path / "data/a.parquet", id=[1], price=[1.0], at=[10])
    source = files(tmp_path, columns=SALES)
    reading = source.snapshot(pinned(source))
    assert reading.schema == SALES and bag(reading) == Counter({(1, 1.0): 1})
    (part,) = reading.parts
    assert isinstance(part.origin, Files)
    assert part.origin.columns == (*SALES, Column("at", "bigint"))
    assert part.where is None and part.origin.paths == (str(tmp_path / "data/a.parquet"),)


def test_pin_opens_new_files_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for i in range(5):
        write(tmp_path / f"data/{i}.parquet", id=[i], at=[i])
    source = files(tmp_path)
    first = pinned(source)
    write(tmp_path / "data/5.parquet", id=[5], at=[5])
    second, seen = opened(source, first, monkeypatch)
    assert len(seen) == 1 and source.change(first, second) == Change(1, 0)
    third, seen = opened(source, second, monkeypatch)
    assert seen == [] and third == second


def test_upto_cuts_through_files(tmp_path: Path):
    write(tmp_path / "data/a.parquet", id=[1, 2, 3, 4], at=[10, 20, 30, 40])
    write(tmp_path / "data/b.parquet", id=[5, 6], at=[35, 50])
    source = files(tmp_path)
    versions = [pinned(source, None, "5")]
    for upto in ("20", "30", "35", None):
        versions.append(pinned(source, versions[-1], upto))
    held: Counter[Any] = Counter()
    for since, version in pairwise(versions):
        delta = bag(source.delta(since, version))
        assert source.change(since, version) == Change(sum(delta.values()), 0)
        held += delta
        assert held == bag(source.snapshot(version))
        assert source.statistics(version).rows == sum(held.values())
    assert bag(source.snapshot(versions[0])) == Counter()
    assert [sum(bag(source.snapshot(v)).values()) for v in versions] == [0, 2, 3, 4, 6]
    assert pinned(source, versions[2], "5") == versions[2], "a version never goes back"


ARRIVALS: list[tuple[str, pa.DataType, list[Any], str]] = [
    ("timestamp", pa.timestamp("us", "UTC"), [datetime(2026, 11, 15, h, tzinfo=UTC) for h in (9, 14, 19)], "2026-11-15 14:00"),
    ("timestamp", pa.timestamp("us", "UTC"), [datetime(2026, 11, 15, h, tzinfo=UTC) for h in (9, 14, 19)], "2026-11-15T15:30+01:00"),
    ("timestamp_ntz", pa.timestamp("ms"), [datetime(2026, 11, 15, h) for h in (9, 14, 19)], "2026-11-15 18:59:59.999999"),
    ("date", pa.date32(), [date(2026, 11, d) for d in (1, 2, 10)], "2026-11-09"),
    ("string", pa.string(), ["a", "b'\\", "c"], "b'\\"),
    ("double", pa.float64(), [-1.5, 2.5, 1e300], "2.5"),
    ("decimal(12,2)", pa.decimal128(12, 2), [Decimal("-10.00"), Decimal("9.50"), Decimal("10.00")], "9.999"),
    ("smallint", pa.int16(), [-10, 9, 10], "9"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "arrow", "values", "upto"), ARRIVALS)
def test_arrivals_of_every_type(kind: str, arrow: pa.DataType, values: list[Any], upto: str, tmp_path: Path):
    write(tmp_path / "data/a.parquet", id=[1, 2, 3], at=pa.array(values, arrow))
    source = files(tmp_path)
    assert source.schema()[1].type == kind
    first = pinned(source, None, upto)
    second = pinned(source, first)
    assert {row[0] for row in bag(source.snapshot(first))} == {1, 2}
    assert {row[0] for row in bag(source.delta(first, second))} == {3}
    assert (source.change(None, first), source.change(first, second)) == (Change(2, 0), Change(1, 0))


def test_patterns_and_single_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("a.parquet", "x/b.parquet", "x/y/c.parquet", "_hidden/d.parquet", "x/.e.parquet"):
        write(tmp_path / "data" / name, id=[1], at=[1])
    (tmp_path / "data/readme.txt").write_text("not data")
    (tmp_path / "data/_SUCCESS").write_text("")

    def found(path: str) -> list[str]:
        return [
            Path(f).name
            for p in files(tmp_path, path=path).snapshot(files(tmp_path, path=path).pin(None)).parts
            for f in p.origin.paths
        ]  # pyright: ignore

    assert found("data/**/*.parquet") == ["a.parquet", "b.parquet", "c.parquet"]
    assert found("data/*.parquet") == ["a.parquet"]
    assert found("data/[!a-w]") == ["b.parquet", "c.parquet"], "a folder that matches is taken with what is below it"
    assert found("data/a.parquet") == found("~/data/a.parquet") == ["a.parquet"]
    assert found((tmp_path / "data/x").as_uri()) == ["b.parquet", "c.parquet"]
    assert "'readme.txt' cannot be read as parquet" in error(files(tmp_path))


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("data/[ab", r"'data/\[ab' is no pattern: unterminated character set"),
        ("data/x[ab", "is no pattern: unterminated character set"),
        ("data/*/[b-a].parquet", "is no pattern: bad character range b-a"),
        ("da\0ta", r"'da\\x00ta' is no path: it has a NUL in it"),
    ],
)
def test_paths_that_nothing_can_have(path: str, said: str, tmp_path: Path):
    write(tmp_path / "data/1/a.parquet", id=[1])
    assert re.search(said, error(files(tmp_path, path=path, arrival=None)))
    write(tmp_path / "data/1/b]-.parquet", id=[1])
    assert [*Place("sales", "data/*/[]b][!a][--].parquet", tmp_path).files()] == ["1/b]-.parquet"]


def test_uris_are_kept_for_spark(tmp_path: Path):
    write(tmp_path / "my data/a b.parquet", id=[1], at=[1])
    source = files(tmp_path, path=(tmp_path / "my data").as_uri())
    assert "%20" in source.path
    (part,) = source.snapshot(source.pin(None)).parts
    assert isinstance(part.origin, Files) and part.origin.paths == (f"file://{tmp_path}/my data/a b.parquet",)


def test_statistics_come_from_footers_and_a_sample(tmp_path: Path):
    days = [date(1970, 1, 1) + timedelta(days=i % 10) for i in range(1000)]
    names = [None if i % 4 == 0 else f"n{i % 7:04}" for i in range(1000)]
    write(tmp_path / "data/a.parquet", id=range(1000), day=days, name=names, at=[1] * 1000)
    write(tmp_path / "data/b.parquet", id=range(1000, 3000), day=days * 2, name=["n"] * 2000, at=[2] * 2000)
    source = files(tmp_path)
    known = source.statistics(pinned(source))
    assert known.rows == 3000 and known.bytes == sum(p.stat().st_size for p in (tmp_path / "data").iterdir())
    assert (known.columns["id"].least, known.columns["id"].greatest, known.columns["id"].distinct) == (0, 2999, 3000)
    assert (known.columns["day"].least, known.columns["day"].greatest, known.columns["day"].distinct) == (0, 9, 10)
    assert known.columns["name"].null_share == pytest.approx(250 / 3000)
    assert (known.columns["name"].distinct, known.columns["name"].width) == (7, 5)
    rough = source.sketch()
    assert rough.rows == pytest.approx(3000, rel=0.5) and rough.columns["day"].distinct == 10


def test_a_sample_of_several_places_is_not_deceived_by_rows_in_order(tmp_path: Path):
    """Sorted by day, a hundred rows of each; a customer buys five things in a row; texts in no order."""
    rows = 100_000
    drawn = Random(1)
    customers = [drawn.randrange(15_000) for _ in range(rows // 5)]
    columns = {
        "day": [i // 100 for i in range(rows)],
        "customer": [customers[i // 5] for i in range(rows)],
        "name": [f"n{drawn.randrange(31)}" for _ in range(rows)],
    }
    pq.write_table(pa.table(columns), tmp_path / "sorted.parquet", row_group_size=5_000)
    source = files(tmp_path, path="sorted.parquet", arrival=None)
    known = source.statistics(source.pin(None)).columns
    assert known["day"].distinct == pytest.approx(1_000, rel=0.05)
    assert known["customer"].distinct == pytest.approx(len(set(customers)), rel=0.3)
    assert known["name"].distinct == 31


def test_of_a_large_row_group_a_sample_reads_the_beginning(tmp_path: Path):
    rows, draw = 400_000, Random(1)
    path = tmp_path / "a.parquet"
    table = pa.table({n: [draw.getrandbits(60) for _ in range(rows)] for n in "ab"})
    pq.write_table(table, path, row_group_size=rows, use_dictionary=False)
    read = 0

    class Counted(io.FileIO):
        def read(self, size: int | None = -1, /) -> bytes:
            nonlocal read
            found = super().read(size)
            read += len(found)
            return found

    with Counted(path) as stream:
        sample = ParquetContents(pa.PythonFile(stream, mode="r")).sample()
    assert sample.equals(table.slice(0, SAMPLE))
    assert read < path.stat().st_size / 2


def test_infinite_numbers_are_no_bounds(tmp_path: Path):
    write(tmp_path / "data/a.parquet", id=[1, 2], price=[1.0, float("inf")], at=[10, 20])
    source = files(tmp_path)
    version = source.pin(None)
    assert json.dumps(version, allow_nan=False)
    assert source.statistics(version).columns["price"].greatest is None
    assert source.never_null(version) == {"id", "price", "at"}


# What can go wrong.


def test_a_file_outside_of_the_folders_that_tell_a_column(tmp_path: Path):
    columns = (Column("id", "bigint"), Column("day", "date"))
    write(tmp_path / "data/day=2026-11-15/a.parquet", id=[1])
    source = files(tmp_path, columns=columns, arrival=None)
    write(tmp_path / "data/extra/b.parquet", id=[2])
    assert "the column 'day' is told by folders, and 'extra/b.parquet' is in none that tells it" in error(source)
    for name in ("a/x.json", "day=2026-11-15/y.json"):
        (tmp_path / "json" / name).parent.mkdir(parents=True)
        (tmp_path / "json" / name).write_text('{"id": 1}\n')
    source = files(tmp_path, columns=columns, arrival=None, path="json", format="json")
    assert "the column 'day' is told by folders, and 'a/x.json' is in none that tells it" in error(source)


def test_an_empty_file_does_not_tell_what_another_does_not():
    known, unknown = Summary(0, {"a": Known(0)}), Summary(3)
    assert known.merged(unknown).known == unknown.merged(known).known == {}


def test_missing_and_unreadable_paths(tmp_path: Path):
    assert "'data' does not exist" in error(files(tmp_path))
    (tmp_path / "data").mkdir()
    assert "there are no files at 'data', so its columns are not known" in error(files(tmp_path))
    declared = files(tmp_path, columns=SALES)
    empty = pinned(declared)
    assert declared.snapshot(empty).parts == () and declared.change(None, empty) == Change(0, 0)
    write(tmp_path / "data/a.parquet", id=[1], price=[1.0], at=[1])
    assert bag(declared.delta(empty, pinned(declared, empty))) == Counter({(1, 1.0): 1})
    (tmp_path / "data/a.parquet").write_bytes(b"PAR1 this is not")
    assert "the file 'a.parquet' cannot be read as parquet" in error(files(tmp_path))
    assert "cannot be opened" in error(files(tmp_path, path="nowhere://x/y"))
    with pytest.raises(SourceError, match="does not exist"):
        files(tmp_path, path="other").schema()


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_forbidden_paths(tmp_path: Path):
    write(tmp_path / "data/in/a.parquet", id=[1], at=[1])
    (tmp_path / "data/in").chmod(0)
    try:
        assert "cannot be listed" in error(files(tmp_path))
    finally:
        (tmp_path / "data/in").chmod(0o700)


def test_drift_against_what_was_read_before(tmp_path: Path):
    write(tmp_path / "data/a.parquet", id=[1], price=[1.0], at=[1])
    source = files(tmp_path)
    first = pinned(source)
    new = tmp_path / "data/b.parquet"
    write(new, id=[1], price=[1.0], at=[2], tax=[1])
    assert "the column 'tax' (bigint), not read before, was added in 'b.parquet'" in error(source, first)
    kept = files(tmp_path, ignore_new_columns=True)
    second = pinned(kept, first)
    assert bag(kept.delta(first, second)) == Counter({(1, 1.0, 2): 1})
    write(new, id=[1], at=[2])
    assert "the column 'price', read before as double, was removed: 'b.parquet' has only id, at" in error(source, first)
    write(new, id=pa.array([1], pa.int32()), price=[1.0], at=[2])
    assert "the column 'id' was retyped: read before as bigint, it is int in 'b.parquet'" in error(source, first)


def test_drift_against_what_is_declared(tmp_path: Path):
    write(tmp_path / "data/a.parquet", id=pa.array([1], pa.int32()), price=[1.0], at=[1])
    assert "the column 'id' was retyped: declared as bigint, it is int in 'a.parquet'" in error(
        files(tmp_path, columns=SALES)
    )
    declared = (Column("id", "int"),)
    assert "the column 'price' (double), not declared, was added" in error(files(tmp_path, columns=declared))
    source = files(tmp_path, columns=declared, ignore_new_columns=True)
    assert bag(source.snapshot(source.pin(None))) == Counter({(1,): 1})
    more = (*declared, Column("tax", "int"))
    assert "the column 'tax', declared as int, was removed" in error(files(tmp_path, columns=more))
    assert "no arrival column 'when'" in error(files(tmp_path, arrival="when"))


def test_columns_that_the_job_has_changed(tmp_path: Path):
    write(tmp_path / "data/a.parquet", id=[1], price=[1.0], at=[1])
    first = pinned(files(tmp_path, columns=SALES))
    again = files(tmp_path, columns=SALES[:1], ignore_new_columns=True)
    assert "the column 'price' was double when the table was read before, and is not declared now" in error(
        again, first
    )
    again = files(tmp_path, columns=(SALES[0], Column("price", "float")))
    assert "the column 'price' was double when the table was read before, and is float now" in error(again, first)


def test_nulls_where_there_should_be_none(tmp_path: Path):
    write(tmp_path / "data/a.parquet", id=[1, None], at=[1, 1])
    source = files(tmp_path, columns=(Column("id", "bigint", False),))
    assert "the column 'id' is declared not null, but 'a.parquet' has 1 NULLs in it" in error(source)


def test_pinned_files_stay_as_they_are(tmp_path: Path):
    write(tmp_path / "data/a.parquet", id=[1], at=[1])
    write(tmp_path / "data/b.parquet", id=[1], at=[2])
    source = files(tmp_path)
    first = pinned(source)
    write(tmp_path / "data/b.parquet", id=[1, 2], at=[2, 3])
    assert "the file 'b.parquet', which was read before, has changed" in error(source, first)
    (tmp_path / "data/b.parquet").unlink()
    assert "the file 'b.parquet', which was read before, has vanished" in error(source, first)


def test_rows_cannot_arrive_in_the_past(tmp_path: Path):
    write(tmp_path / "data/a.parquet", id=[1], at=[10])
    source = files(tmp_path)
    first = pinned(source)
    write(tmp_path / "data/b.parquet", id=[1, 2], at=[10, 11])
    assert "the new file 'b.parquet' has rows that arrive at 10, but all until 10 were read before" in error(
        source, first
    )


def test_arrivals_that_cannot_be_ordered(tmp_path: Path):
    write(tmp_path / "data/a.parquet", id=[1, 2], at=[1, None], yes=[True, True], nan=[1.0, float("nan")])
    assert "1 rows have no value in the arrival column 'at'" in error(files(tmp_path))
    assert "1 rows have no value in the arrival column 'nan'" in error(files(tmp_path, arrival="nan"))
    assert "a boolean does not say when a row arrives" in error(files(tmp_path, arrival="yes"))
    assert "'noon' is no bigint" in error(files(tmp_path, arrival="id"), upto="noon")


def test_types_that_spark_cannot_read(tmp_path: Path):
    write(tmp_path / "data/a.parquet", at=[1], t=pa.array([1], pa.timestamp("ns")))
    assert "the column 't' of 'a.parquet' cannot be used: Spark cannot read its type timestamp[ns]" in error(
        files(tmp_path)
    )
    source = files(tmp_path, ignore_new_columns=True)
    assert bag(source.snapshot(source.pin(None))) == Counter({(1,): 1})
    declared = (Column("t", "timestamp_ntz"),)
    assert "write it in microseconds" in error(files(tmp_path, columns=declared))


def test_names_that_spark_would_take_for_patterns(tmp_path: Path):
    write(tmp_path / "data/a[1].parquet", id=[1], at=[1])
    source = files(tmp_path)
    with pytest.raises(SourceError, match=r"take the name of the file .* for a pattern"):
        source.snapshot(source.pin(None))


# Static files.


def test_static_files(tmp_path: Path):
    write(tmp_path / "data/a.parquet", id=[1, 2])
    source = files(tmp_path, arrival=None)
    assert source.static and not source.retracts
    first = pinned(source)
    assert pinned(source, first, "whatever") == first and source.delta(first, first).parts == ()
    assert bag(source.snapshot(first)) == Counter({(1,): 1, (2,): 1}) and source.statistics(first).rows == 2
    write(tmp_path / "data/b.parquet", id=[1])
    assert "a static table changed: the file 'b.parquet' is new\n  hint: give the source an arrival column" in error(
        source, first
    )
    (tmp_path / "data/b.parquet").unlink()
    write(tmp_path / "data/a.parquet", id=[1, 3])
    assert "a static table changed: the file 'a.parquet' has changed" in error(source, first)


# Folders.


def test_batches_in_natural_order(tmp_path: Path):
    write(tmp_path / "data/batch=2/x.parquet", id=[2])
    write(tmp_path / "data/batch=2/y.parquet", id=[2])
    write(tmp_path / "data/batch=10/x.parquet", id=[10])
    source = folders(tmp_path)
    assert source.schema() == (Column("id", "bigint"),)
    first = pinned(source, None, "9")
    assert bag(source.snapshot(first)) == Counter({(2,): 2})
    (tmp_path / "data/batch=3").mkdir()
    second = pinned(source, first)
    assert bag(source.delta(first, second)) == Counter({(10,): 1}) and source.change(first, second) == Change(1, 0)
    assert source.statistics(second).rows == 3
    write(tmp_path / "data/batch=9/x.parquet", id=[9])
    assert "the batch 'batch=9' comes before 'batch=10', which was read before" in error(source, second)


def test_batches_are_complete(tmp_path: Path):
    write(tmp_path / "data/2026-11-15/x.parquet", id=[2])
    source = folders(tmp_path)
    first = pinned(source)
    write(tmp_path / "data/2026-11-15/y.parquet", id=[2])
    assert "the batch '2026-11-15', which was read before, has a new file '2026-11-15/y.parquet'" in error(
        source, first
    )
    (tmp_path / "data/2026-11-15/y.parquet").unlink()
    write(tmp_path / "data/loose.parquet", id=[2])
    assert "'loose.parquet' is in no batch folder" in error(source, first)


def test_folders_give_columns_that_files_lack(tmp_path: Path):
    for day in ("2026-11-15", "2026-11-16", "__HIVE_DEFAULT_PARTITION__"):
        write(tmp_path / f"data/day={day}/x.parquet", id=[1])
    source = folders(tmp_path, columns=(Column("day", "date"), Column("id", "bigint")))
    first = pinned(source, None, "2026-11-15 12:00")
    assert bag(source.snapshot(first)) == Counter({(date(2026, 11, 15), 1): 1})
    second = pinned(source, first)
    assert bag(source.delta(first, second)) == Counter({(date(2026, 11, 16), 1): 1, (None, 1): 1})


# CSV and JSON.

TEXT = (Column("id", "bigint"), Column("name", "string"), Column("price", "decimal(7,2)"))


def text_source(folder: Path, format: str, **options: Any) -> FilesSource:
    given = {"columns": TEXT, "arrival": {"at": "timestamp"}, "options": {"header": "true"}}
    return files(folder, format=format, **{**given, **options})


def test_csv(tmp_path: Path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/a.csv").write_text(
        'id,at,name,price\n1,2026-11-15 14:00:00,"x,y",1.50\n2,2026-11-15T15:00:00+02:00,,\n'
    )
    source = text_source(tmp_path, "csv")
    first = pinned(source, None, "2026-11-15 13:30")
    assert bag(source.snapshot(first)) == Counter({(2, None, None): 1})
    (tmp_path / "data/b.csv").write_text("price,id,name,at\n2.5,3,z,2026-11-16\n")
    second = pinned(source, first)
    assert source.pin(first) == second, "a version is JSON from the start"
    assert bag(source.delta(first, second)) == Counter({(1, "x,y", Decimal("1.50")): 1, (3, "z", Decimal("2.50")): 1})
    assert source.change(first, second) == Change(2, 0)
    origin = source.snapshot(second).parts[0].origin
    assert isinstance(origin, Files) and (origin.options["mode"], origin.options["timeZone"]) == ("FAILFAST", "UTC")
    assert source.sketch().rows == pytest.approx(4, rel=0.5)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"sep": r"\t"}, "1\tx\t1.5\t2026-11-15\n"),
        ({"escape": '"'}, '1,"x",1.5,2026-11-15\n'),
        ({"quote": ""}, "1,x,1.5,2026-11-15\n"),
        ({"lineSep": "\r"}, "1,x,1.5,2026-11-15\r"),
        ({"lineSep": "\r\n"}, "1,x,1.5,2026-11-15\r\n"),
    ],
)
def test_signs_of_csv(options: dict[str, str], text: str, tmp_path: Path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/a.csv").write_text(text)
    source = text_source(tmp_path, "csv", options=options)
    assert source.change(None, pinned(source)) == Change(1, 0)


@pytest.mark.parametrize("header", ["header", "Header", "HEADER"])
def test_options_in_any_case(header: str, tmp_path: Path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/a.csv").write_text("name;id;at;price\nx;1;2026-11-15;1.5\n", "latin-1")
    (tmp_path / "data/b.csv").write_text("id;at;price;name\n2;2026-11-15;;é\n", "latin-1")
    options = {header: True, "Delimiter": ";", "sep": ";", "SEP": ";", "charset": "ISO-8859-1", "Mode": "DROPMALFORMED"}
    source = text_source(tmp_path, "csv", options=options)
    version = pinned(source)
    assert source.change(None, version) == Change(2, 0)
    told = {"header": "true", "sep": ";", "encoding": "ISO-8859-1", "mode": "DROPMALFORMED", "timeZone": "UTC"}
    found = [part.origin for part in source.snapshot(version).parts if isinstance(part.origin, Files)]
    assert [origin.options for origin in found] == [told, told]
    assert [[c.name for c in origin.columns] for origin in found] == [
        ["name", "id", "at", "price"],
        ["id", "at", "price", "name"],
    ]
    assert source.read_as()["options"] == str(sorted(options.items())), "as it was noted before"


def test_options_that_are_refused_in_any_case(tmp_path: Path):
    for format, options, said in (
        ("json", {"multiline": True}, "JSON over several lines is not supported"),
        ("csv", {"TIMEZONE": "CET"}, "times that name no zone are in UTC"),
        ("csv", {"Delimiter": "||"}, r"the option `sep` is '\|\|', which is not a single sign"),
        ("csv", {"lineSep": ";", "header": "true"}, "the option `lineSep` is ';', which is not a line break"),
        (
            "json",
            {"LINESEP": ";"},
            "the option `lineSep` is ';', which is not a line break\n.*write the files with one",
        ),
        ("csv", {"header": "true", "Header": "false"}, "`header` is 'true', and as `Header` it is 'false'\n.*keep one"),
    ):
        with pytest.raises(JobError, match=said):
            text_source(tmp_path, format, options=options)


@pytest.mark.parametrize("format", ["csv", "json"])
def test_rows_of_many_bytes(format: str, tmp_path: Path):
    (tmp_path / "data").mkdir()
    rows = [(i, "x" * size, 1.5, "2026-11-15") for i, size in enumerate((1, 2_500_000, 1, 1_500_000))]
    named = (dict(zip(("id", "name", "price", "at"), row, strict=True)) for row in rows)
    lines = {"csv": (",".join(map(str, row)) for row in rows), "json": map(json.dumps, named)}[format]
    (tmp_path / f"data/a.{format}").write_text("\n".join(lines))
    source = text_source(tmp_path, format, options={})
    version = pinned(source)
    assert source.change(None, version) == Change(4, 0) and version["arrival"].startswith("2026-11-15")


def test_batches_that_are_left_for_later_bind_nobody(tmp_path: Path):
    write(tmp_path / "data/14-00/x.parquet", id=[1], extra=[2])
    source = folders(tmp_path, ignore_new_columns=True)
    early = pinned(source, upto="8-00")
    assert source.change(None, early) == Change(0, 0)
    write(tmp_path / "data/9-00/x.parquet", id=[1])
    assert [c.name for c in source.visible(pinned(source, early, "9-00"))] == ["id"]
    declared = folders(tmp_path, path="other", columns=SALES)
    (tmp_path / "other/10").mkdir(parents=True)
    (tmp_path / "other/10/x.parquet").write_bytes(b"PAR1 and no end yet")
    early = pinned(declared, upto="5")
    assert declared.change(None, early) == Change(0, 0)
    write(tmp_path / "other/10/x.parquet", id=[1], price=[1.0])
    assert declared.change(early, pinned(declared, early, "10")) == Change(1, 0)


def test_signs_of_csv_that_cannot_be_checked(tmp_path: Path):
    assert text_source(tmp_path, "csv", options={"sep": ";", "delimiter": "||"}), "Spark takes `sep`"
    with pytest.raises(JobError, match=r"the option `sep` is '\|\|', which is not a single sign"):
        text_source(tmp_path, "csv", options={"sep": "||"})


def test_dates_that_python_has_not(tmp_path: Path):
    far = pa.array([3_000_000, 1], pa.int32()).cast(pa.date32())
    write(tmp_path / "data/a.parquet", id=[1, 2], day=far, at=[1, 2])
    source = files(tmp_path)
    statistics = source.statistics(pinned(source))
    assert statistics.rows == 2 and statistics.columns["day"].greatest is None and source.sketch().rows == 2
    by_day = files(tmp_path, arrival="day")
    assert "cannot be read as parquet" in error(by_day)


def test_what_cannot_be_read_yet_can_be_planned_for(tmp_path: Path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/a.csv.gz").write_bytes(b"no archive")
    source = text_source(tmp_path, "csv")
    with pytest.raises(SourceError, match="cannot be read as csv"):
        source.sketch()
    timeline = Timeline.refresh(["t1", "t2"])
    assert expected(Table("sales", TEXT), source, timeline).arrives["t1"] > 0


def test_uris_of_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """What is s3a to Spark is s3 to pyarrow, whichever of them a job says."""
    asked: list[str] = []

    def opened(uri: str) -> tuple[Any, str]:
        asked.append(uri)
        return fs.LocalFileSystem(), str(tmp_path)

    monkeypatch.setattr(
        listing, "fs", SimpleNamespace(FileSystem=SimpleNamespace(from_uri=opened), FileType=fs.FileType)
    )
    for scheme in ("s3", "s3a"):
        assert Place("sales", f"{scheme}://bucket/sales").uri("a.parquet") == "s3a://bucket/sales/a.parquet"
    assert asked == ["s3://bucket/sales"] * 2


def test_csv_without_header(tmp_path: Path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/a.csv").write_text("1|x|1.5|2026-11-15\n")
    (tmp_path / "data/b.csv").write_text("")
    source = text_source(tmp_path, "csv", options={"sep": "|"})
    version = pinned(source)
    assert bag(source.snapshot(version)) == Counter({(1, "x", Decimal("1.50")): 1})
    (tmp_path / "data/c.csv").write_text("1|x|1.5\n")
    assert "'c.csv' cannot be read as csv" in error(source, version)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("id,name,price,at,tax\n1,x,1,2026-11-16,1\n", "the column 'tax' (string), not declared, was added in 'b.csv'"),
        ("id,price,at\n1,1,2026-11-16\n", "the column 'name', declared as string, was removed"),
        ("id,name,price,at\none,x,1,2026-11-16\n", "invalid value 'one'"),
        ("id,name,price,at\n1,x,1,soon\n", "soon"),
        ("id,name,price,at\n1,x,1,\n", "1 rows have no value in the arrival column 'at'"),
    ],
)
def test_csv_drift(text: str, said: str, tmp_path: Path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/a.csv").write_text("id,name,price,at\n1,x,1,2026-11-15\n")
    source = text_source(tmp_path, "csv")
    first = pinned(source)
    (tmp_path / "data/b.csv").write_text(text)
    assert said in error(source, first)


def test_new_columns_of_csv_can_be_ignored(tmp_path: Path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/a.csv").write_text("id,name,price,at\n1,x,1,2026-11-15\n")
    (tmp_path / "data/b.csv").write_text(
        "tax,id,name,price,at\n" + "1,2,x,1,2026-11-16\n" * 99_999 + "none,2,x,1,2026-11-16\n"
    )
    source = text_source(tmp_path, "csv", ignore_new_columns=True)
    row = ("x", Decimal("1.00"))
    assert bag(source.snapshot(pinned(source))) == Counter({(1, *row): 1, (2, *row): 100_000})


def test_json(tmp_path: Path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/a.json").write_text(
        '{"id": 1, "name": "x", "at": "2026-11-15T14:00:00Z"}\n{"id": 2, "price": 2.5, "at": "2026-11-15T15:00:00+02:00"}\n'
    )
    (tmp_path / "data/b.json").write_text("")
    source = text_source(tmp_path, "json")
    first = pinned(source, None, "2026-11-15 13:30")
    assert bag(source.snapshot(first)) == Counter({(2, None, Decimal("2.50")): 1})
    second = pinned(source, first)
    assert bag(source.delta(first, second)) == Counter({(1, "x", None): 1})
    for text, said in (
        ('{"id": 3, "tax": 1, "at": "2026-11-16"}\n', "the column 'tax' (string), not declared, was added"),
        ('{"id": "3", "at": "2026-11-16"}\n', "in line 1 the column 'id' is '3', which is no bigint"),
        ('{"id": 3}\n', "have no value in the arrival column 'at'"),
        ('{"id": 3, ', "cannot be read as json"),
    ):
        (tmp_path / "data/c.json").write_text(text)
        assert said in error(source, second)


SPARKS_JSON = """\
{"id": 1, "name": "x", "price": 1.5, "level": 0.5, "more": {"a": 1}, "at": "2026-11-15"}

{"id": 2, "name": 12, "price": "2.50", "level": "NaN", "at": "2026-11-16 12:00:00"}
{"id": 3, "name": {"a": 1}, "price": 1, "level": -Infinity, "more": {"a": 2, "b": []}, "at": "2026-11-15"}
{"id": 4, "name": null, "level": "+INF", "seen": 1763164800, "at": "2026-11-15"}
"""


def test_json_that_spark_reads_and_arrow_does_not(tmp_path: Path):
    (tmp_path / "data").mkdir()
    columns = (
        *TEXT,
        Column("level", "double"),
        Column("more", "struct<a: int, b: array<int>>"),
        Column("seen", "timestamp"),
    )
    (tmp_path / "data/a.json").write_text(SPARKS_JSON)
    source = text_source(tmp_path, "json", columns=columns, options={})
    version = pinned(source)
    assert source.change(None, version) == Change(4, 0) and version["arrival"] == "2026-11-16 12:00:00.000000+00:00"
    assert source.change(None, pinned(source, upto="2026-11-15")) == Change(3, 0)
    statistics = source.statistics(version).columns
    assert statistics["name"].null_share == 0.25 and statistics["level"].distinct == 4
    for text, said in (
        ('{"id": 1.0, "name": 1}\n', "in line 2 the column 'id' is 1.0, which is no bigint"),
        ('{"id": true, "name": 1}\n', "in line 2 the column 'id' is True"),
        ('{"id": 9223372036854775808}\n', "in line 2 the column 'id' is 9223372036854775808"),
        ('{"id": 1, "name": 1, "level": "1.5"}\n', "in line 2 the column 'level' is '1.5', which is no double"),
        ('{"id": 1, "name": 1, "at": 2026}\n', "in line 2 the column 'at' is 2026, which is no timestamp"),
        ('{"name": 1, "tax": 0}\n', "the column 'tax' (string), not declared, was added"),
        ('[{"id": 1}]\n', "line 2 is not one object"),
        ("{'id': 1}\n", "line 2, at character 2: Expecting property name enclosed in double quotes"),
        ('{"name": ' + "[" * 100_000, "line 2 is nested too deeply"),
    ):
        (tmp_path / "data/b.json").write_text('{"name": "x", "at": "2026-11-17"}\n' + text)
        assert said in error(source, version)


def test_json_without_columns_to_keep(tmp_path: Path):
    (tmp_path / "data/1").mkdir(parents=True)
    (tmp_path / "data/1/a.json").write_text('{"name": "x"}\n{"name": 1}\n{}\n')
    source = folders(tmp_path, format="json", columns=TEXT)
    assert source.change(None, pinned(source)) == Change(3, 0)


def test_decimal_arrivals_of_json_are_written_either_way(tmp_path: Path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/a.json").write_text('{"at": 1}\n{"at": "10.50"}\n{"at": 1e1}\n')
    source = text_source(tmp_path, "json", columns=(Column("at", "decimal(7,2)"),), arrival="at")
    assert pinned(source)["arrival"] == "10.50"


def test_text_needs_types(tmp_path: Path):
    with pytest.raises(
        JobError, match="CSV files do not say what types their columns have\n  hint: give the table's `columns`"
    ):
        text_source(tmp_path, "csv", columns=None)
    with pytest.raises(JobError, match="the type of the column 'at' is not known"):
        text_source(tmp_path, "csv", arrival="at")
    with pytest.raises(JobError, match="`arrival`: a boolean does not say when a row arrives\n  hint: choose date"):
        text_source(tmp_path, "csv", arrival={"at": "boolean"})
    with pytest.raises(JobError, match="times that name no zone are in UTC"):
        text_source(tmp_path, "csv", options={"timeZone": "CET"})
    with pytest.raises(JobError, match="JSON over several lines"):
        text_source(tmp_path, "json", options={"multiLine": "true"})


# Columns that rise together.


def test_a_sample_shows_which_columns_rise_together() -> None:
    days = list(range(1000))
    table = pa.table(
        {
            "month": [None if d % 7 == 0 else d // 30 for d in days],
            "day": days,
            "date": pa.array(days, pa.date32()),
            "weekday": [d % 7 for d in days],
            "one": [1] * 1000,
            "name": [f"{d:04}" for d in days],
        }
    ).take(pa.array(Random(5).sample(days, 1000)))
    assert {name for name, shown in sampled(table).items() if shown.rises} == {"month", "day", "date"}
    assert not any(shown.rises for shown in sampled(table.slice(0, 5)).values())
    assert not any(shown.rises for shown in sampled(table.select(["day", "weekday"])).values())
    summary = Summary(sampled=sampled(table))
    assert Summary.of_json(summary.to_json()).statistics(1000)["month"].rises


def test_a_sample_shows_runs_of_rows_that_agree() -> None:
    random = Random(5)
    people = [random.randrange(1000) for _ in range(100)]
    table = pa.table(
        {
            "ticket": [n // 10 for n in range(1000)],
            "who": [None if n % 9 == 0 else people[n // 10] for n in range(1000)],
            "item": [random.randrange(1000) for _ in range(1000)],
            "coin": [random.randrange(2) for _ in range(1000)],
            "one": [1] * 1000,
        }
    )
    two_places = pa.concat_tables([table.slice(0, 495), table.slice(495)])
    runs = {name: shown.run for name, shown in sampled(two_places).items()}
    assert runs["ticket"] == pytest.approx(1000 / 101)
    assert 8 < runs["who"] < 10, "NULLs do not end a run"
    assert (runs["item"], runs["coin"]) == (1, 1), "a coin shows the same side twice by chance"
    assert runs["one"] == 500
    assert Summary.of_json(Summary(sampled=sampled(table)).to_json()).statistics(1000)["ticket"].run == 10
    assert sampled(table.slice(0, 0)) == {}
