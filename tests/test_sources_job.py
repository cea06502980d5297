"""Sources in a job: how they are named, what planning expects of them, and how mistakes are reported."""

from __future__ import annotations

import dataclasses
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

import tempura
from tempura.catalog import Catalog, Table
from tempura.errors import JobError, JobProblems
from tempura.job import Job
from tempura.schema import Column
from tempura.sources import (
    KINDS,
    ChangesSource,
    FilesSource,
    FoldersSource,
    Operation,
    Options,
    Reading,
    TableSource,
    register,
)
from tempura.sources.expected import UNSEEN
from tempura.timeline import Point, Timeline
from tests.readings import bag

JOB = """\
name: daily revenue
query: SELECT id, sum(price) AS total FROM sales GROUP BY id
tables:
  sales:
    source: {kind: files, path: data/sales, format: parquet, arrival: at}
    key: id
timeline:
  - {at: 14:00, upto: 20, price: .2}
  - {at: 19:00, upto: '30'}
  - {at: 24:00, deliver: true}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "data/sales/a.parquet"
    path.parent.mkdir(parents=True)
    columns = {"id": range(100), "price": [1.0, 2.0, 3.0, None] * 25, "at": [10] * 100}
    pq.write_table(pa.table(columns), path)
    return tmp_path


def problem(text: str, folder: Path) -> JobError:
    with pytest.raises(JobError) as caught:
        Job.parse(text, folder)
    assert not isinstance(caught.value, JobProblems), str(caught.value)
    return caught.value


def test_a_source_tells_columns_and_numbers(folder: Path):
    job = Job.parse(JOB, folder)
    sales = job.catalog["sales"]
    assert sales.columns == (Column("id", "bigint", False), Column("price", "double"), Column("at", "bigint"))
    assert sales.arrives == {"14:00": 100, "19:00": 25, "24:00": 25}
    assert sales.retracts == {} and not sales.can_retract
    assert sales.statistics["price"].null_share == 0.25 and sales.statistics["price"].distinct == 3
    assert sales.statistics["id"].distinct is None and sales.statistics["id"].greatest == 99
    assert [p.upto for p in job.timeline.points] == ["20", "30", None]
    source = job.sources["sales"]
    assert isinstance(source, FilesSource) and source.folder == folder == job.folder
    assert sum(bag(source.snapshot(source.pin(None, job.timeline.points[0].upto))).values()) == 100
    assert job.workspace == str(folder / ".tempura/daily-revenue")
    assert Job.parse(JOB + "workspace: s3://bucket/w\n", folder).workspace == "s3://bucket/w"
    assert Job.parse(JOB + "workspace: here\n", folder).workspace == str(folder / "here")
    assert tempura.plan(job).cost.total > 0


def test_what_is_declared_stays(folder: Path):
    declared = JOB.replace("    key: id\n", "    columns: {id: bigint, price: double}\n    arrives: {14:00: 7}\n")
    sales = Job.parse(declared, folder).catalog["sales"]
    assert (
        sales.arrives == {"14:00": 7} and sales.statistics == {} and [c.name for c in sales.columns] == ["id", "price"]
    )


def test_tables_that_are_not_there_yet(tmp_path: Path):
    declared = JOB.replace("    key: id\n", "    columns: {id: bigint, price: double}\n")
    job = Job.parse(declared, tmp_path)
    assert job.catalog["sales"].arrives == {"14:00": UNSEEN, "19:00": UNSEEN / 4, "24:00": UNSEEN / 4}
    found = problem(JOB, tmp_path)
    assert "table 'sales': 'data/sales' does not exist" in str(found) and found.line == 5


def test_static_sources(folder: Path):
    text = JOB.replace(", arrival: at", "")
    assert Job.parse(text, folder).catalog["sales"].arrives == {"14:00": 100}
    table = JOB.replace(
        "{kind: files, path: data/sales, format: parquet, arrival: at}", "{kind: table, name: shop.sales}"
    )
    table = table.replace("    key: id\n", "    columns: {id: int, price: double}\n")
    assert "cannot tell how many rows there are" in str(problem(table, folder))
    job = Job.parse(table.replace("timeline:", "    static: 12\ntimeline:"), folder)
    assert isinstance(job.sources["sales"], TableSource) and job.catalog["sales"].arrives == {"14:00": 12}


def test_sources_that_retract(folder: Path):
    path = folder / "data/sales/a.parquet"
    pq.write_table(pq.read_table(path).append_column("op", pa.array(["I"] * 100)), path)
    text = JOB.replace("kind: files", "kind: changes, operation: op")
    sales = Job.parse(text, folder).catalog["sales"]
    assert sales.retractable and sales.can_retract and sales.retracts == {"19:00": 0.01, "24:00": 0.01}
    told = Job.parse(text.replace("    key: id\n", "    retracts: {24:00: 0}\n"), folder).catalog["sales"]
    assert told.can_retract and told.retracts == {"24:00": 0}
    plan = str(tempura.plan(Job.parse(text, folder)))
    assert "result@24:00" in plan


def test_recomputing_from_a_log_is_known_to_be_dearer(folder: Path):
    path = folder / "data/sales/a.parquet"
    pq.write_table(pq.read_table(path).append_column("op", pa.array(["I"] * 100)), path)
    text = JOB.replace("kind: files", "kind: changes, operation: op")
    job = Job.parse(text.replace("    key: id\n", "    arrives: {14:00: 1e6, 19:00: 1e6, 24:00: 1e6}\n"), folder)
    sales = job.catalog["sales"]
    assert sales.logged and sales.listed(job.timeline, 2) == pytest.approx(3e6 + 0.01 * 1e6 + 0.01 * 1.99e6)

    def recomputed(table: Table) -> float:
        return tempura.plan(dataclasses.replace(job, policy="full", catalog=Catalog(table), sources={})).cost.total

    plain, logged, long = (
        recomputed(dataclasses.replace(sales, **made)) for made in ({"logged": False}, {}, {"cancelled": 5e6})
    )
    assert plain < logged < long
    auto = tempura.plan(job).cost.total
    assert auto <= logged, "never dearer than recomputing"


def test_delta_tables_retract_unless_they_only_grow(folder: Path):
    text = JOB.replace("{kind: files, path: data/sales, format: parquet, arrival: at}", "{kind: delta, path: lake}")
    rows = pa.table({"id": [1, 2], "price": [1.0, 2.0]})
    write_deltalake(str(folder / "lake"), rows)
    sales = Job.parse(text, folder).catalog["sales"]
    assert sales.can_retract and sales.arrives["14:00"] == 2
    write_deltalake(str(folder / "grows"), rows, configuration={"delta.appendOnly": "true"})
    assert not Job.parse(text.replace("lake", "grows"), folder).catalog["sales"].can_retract


def test_all_options(folder: Path):
    text = JOB.replace(
        "{kind: files, path: data/sales, format: parquet, arrival: at}",
        "{kind: changes, path: log, format: csv, options: {header: true, sep: ;}, ignore_new_columns: true, "
        "arrival: {at: date}, operation: {column: op, insert: new, delete: [gone, lost]}}",
    ).replace("    key: id\n", "    columns: {id: int, price: double}\n    arrives: {14:00: 1}\n")
    source = Job.parse(text, folder).sources["sales"]
    assert source == ChangesSource(
        table="sales", columns=(Column("id", "int"), Column("price", "double")), folder=folder, path="log", format="csv",
        options={"header": "true", "sep": ";"}, ignore_new_columns=True, arrival={"at": "date"},
        operation=Operation(column="op", insert=("new",), delete=("gone", "lost")),
    )  # fmt: skip
    folders = JOB.replace("files", "folders").replace(", arrival: at", "").replace("data/sales", "data")
    assert isinstance(Job.parse(folders, folder).sources["sales"], FoldersSource)


@pytest.mark.parametrize("written", ["-999.00", "1e3", "1_000", "+7", "7", "0.5", "x", '"NULL"', "true"])
def test_options_are_as_they_are_written(folder: Path, written: str):
    text = JOB.replace("arrival: at", f"options: {{nullValue: {written}}}")
    source = Job.parse(text, folder).sources["sales"]
    assert isinstance(source, FilesSource) and source.options == {"nullValue": written.strip('"')}


@pytest.mark.parametrize(
    ("old", "new", "said", "hint"),
    [
        ("kind: files, ", "", "`kind` is missing", "known: files, "),
        ("kind: files", "kind: file", "unknown kind of source 'file'", "did you mean `files`?"),
        ("path: data/sales, ", "", "`path` is missing", "add `path: …`"),
        ("format: parquet", "format: orc", "unknown format 'orc'", "known: parquet, csv, json"),
        ("arrival: at", "arival: at", "unknown key `arival`", "did you mean `arrival`?"),
        ("arrival: at", "arrival: {a: int, b: int}", "`arrival`: one column is needed", "give its name"),
        ("arrival: at", "ignore_new_columns: 3", "`ignore_new_columns` is 3; expected true or false", "true or false"),
        ("arrival: at", "arrival: when, columns: {}", "unknown key `columns`", "known: path"),
        (
            "format: parquet",
            "format: csv",
            "CSV files do not say what types their columns have",
            "give the table's `columns`",
        ),
        ("kind: files", "kind: changes", "`operation` is missing", "add `operation: …`"),
        (
            "kind: files",
            "kind: changes, operation: {}",
            "either a column of words or one of counts",
            "give `column: …`",
        ),
        ("arrival: at", "options: {nullValue: NULL}", "`nullValue`: the option is empty", '`nullValue: "NULL"`'),
        ("arrival: at", "options: {nullValue: }", "`nullValue`: the option is empty", '`nullValue: "NULL"`'),
        ("arrival: at", "options: {sep: [;]}", "`sep`: the option is more than one value", "give a text"),
        ("arrival: at", "options: {sep: {a: b}}", "`sep`: the option is more than one value", "give a text"),
        (
            "arrival: at",
            "options: {IGNOREcorruptFiles: true}",
            "with the option `IGNOREcorruptFiles` rows could be left out",
            "leave the option out",
        ),
        (
            "arrival: at",
            "options: {ignoreMissingFiles: true}",
            "with the option `ignoreMissingFiles`",
            "leave the option",
        ),
        ("kind: files", "kind: changes, operation: {colum: op}", "unknown key `colum`", "did you mean `column`?"),
        ("kind: files", "kind: changes, by: rows, operation: op", "unknown by 'rows'", "known: files, folders"),
        (
            "kind: files",
            "kind: changes, operation: {column: op, insert: [x], delete: [X]}",
            "'x' both gives and takes a row",
            "give each word one meaning",
        ),
        (
            "kind: files",
            "kind: changes, by: folders, operation: op",
            "both by an arrival column and by folders",
            "keep one",
        ),
    ],
)
def test_mistakes_have_lines_and_hints(old: str, new: str, said: str, hint: str, folder: Path):
    found = problem(JOB.replace(old, new), folder)
    assert said in found.message and found.line == 5, str(found)
    assert hint in found.hint, str(found)


def test_sources_of_python_tables(folder: Path):
    source = FilesSource(table="sales", path="data/sales", format="parquet", arrival="at", folder=folder)
    timeline = Timeline((Point("t1"), Point("t2", 1.0, ("result",))))
    table = Table("Sales", source.schema())
    job = Job(
        query="select * from sales",
        tables={"Sales": table},
        timeline=timeline,
        sources={"sales": source},
        folder=folder,
    )
    assert job.sources == {"sales": source} and job.catalog["sales"].arrives == {"t1": 100, "t2": 25}
    again = dataclasses.replace(job, name="other")
    assert again.sources == job.sources and again.catalog["sales"] == job.catalog["sales"]
    assert (again.folder, again.workspace) == (job.folder, job.workspace)
    log = ChangesSource(table="sales", path="log", format="parquet", operation=Operation(column="op"), folder=folder)
    given = Table("sales", (Column("id", "bigint"),), arrives={"t1": 1})
    retracting = Job(query="select * from sales", tables=Catalog(given), timeline=timeline, sources={"sales": log})
    assert retracting.catalog["sales"].can_retract
    with pytest.raises(
        JobError, match="a source is given for 'sale', which is no table of the job\n  hint: did you mean"
    ):
        Job(query="select * from sales", tables={"sales": table}, timeline=timeline, sources={"sale": source})


def test_a_kind_of_ones_own(folder: Path):
    class MirrorOptions(Options):
        path: str

    @register
    @dataclass(frozen=True, kw_only=True)
    class MirrorSource(FilesSource):
        """Files that are read as they are, and mirrored: every snapshot is taken twice."""

        kind = "mirror"
        shape = MirrorOptions
        format: str = "parquet"  # pyright: ignore

        def snapshot(self, version: tempura.sources.Version) -> Reading:  # pyright: ignore
            once = super().snapshot(version)
            return dataclasses.replace(once, parts=once.parts * 2)

    try:
        text = JOB.replace(
            "kind: files, path: data/sales, format: parquet, arrival: at", "kind: mirror, path: data/sales"
        )
        source = Job.parse(text, folder).sources["sales"]
        assert isinstance(source, MirrorSource)
        assert set(Counter(bag(source.snapshot(source.pin(None)))).values()) == {2}
    finally:
        del KINDS["mirror"]
