"""What is published is compared with the batch query: as bags, with NULLs, whatever rounding did, and wherever it differs."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from typer.testing import CliRunner

import tempura
from tempura.cli import app
from tempura.errors import JobError, WorkspaceError
from tempura.spark import verify as verifying
from tempura.spark.verify import _spoken_of, compare
from tempura.workspace import Workspace, runfile
from tests.spark.runjobs import SHOP, THREE, arrive, interpreted, shop

TOP = "SELECT category, price FROM sales ORDER BY price LIMIT 2"
"""Some have the same price, and some have none: which are taken is open."""


@pytest.fixture(scope="module", autouse=True)
def quick(spark: SparkSession) -> Iterator[None]:
    with interpreted(spark):
        yield


@pytest.fixture(scope="module")
def finished(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a job whose points have all been run."""
    folder = tmp_path_factory.mktemp("finished")
    for at, returned in enumerate([["o1-0"], ["o1-1"], ["o2-2"]], 1):
        arrive(folder, at, 6, returned)
        tempura.run(shop(folder), at=f"t{at}", spark=spark)
    return folder


@pytest.fixture
def job(finished: Path, tmp_path: Path) -> tempura.Job:
    """A copy of it."""
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True, symlinks=True)
    return shop(tmp_path)


def publish_instead(job: tempura.Job, table: pa.Table) -> None:
    """Put other rows into the newest result, and into the run file that names it."""
    workspace = Workspace.open(job.workspace, job.name)
    latest = workspace.latest()
    assert latest is not None
    entry = latest.results["result"]
    folder = Path(job.workspace) / entry.folder
    shutil.rmtree(folder)
    folder.mkdir()
    pq.write_table(table, folder / "part-0.parquet")
    size = (folder / "part-0.parquet").stat().st_size
    checksum = {**entry.checksum, entry.folder: {"part-0.parquet": size}}
    results = {"result": replace(entry, checksum=checksum, rows=table.num_rows)}
    path = Path(job.workspace) / f"runs/{latest.number}.json"
    path.write_bytes(runfile.write(replace(latest, results=results)))


def test_what_was_run_is_the_same(spark: SparkSession, job: tempura.Job):
    report = tempura.verify(job, spark=spark)
    (result,) = report.results
    assert report.same and (result.query, result.point, result.run) == ("result", "t3", 3)
    assert result.rows == result.expected > 4 and result.columns == ("category", "gross", "n")
    # Rows that have come since do not count: the versions are those of the run.
    arrive(job.folder, 4, 9)
    assert tempura.verify(job, spark=spark).same


def test_rows_that_differ_are_shown(spark: SparkSession, job: tempura.Job, tmp_path: Path):
    found = pq.read_table(Path(job.workspace) / "results/result/latest").to_pylist()
    nulls = next(row for row in found if row["category"] is None)
    rest = [row for row in found if row["category"] is not None]
    schema = pa.schema([("category", pa.string()), ("gross", pa.decimal128(19, 2)), ("n", pa.int64())])
    publish_instead(job, pa.Table.from_pylist([nulls | {"n": 77}, rest[0], *rest], schema))
    (result,) = tempura.verify(job, spark=spark).results
    assert not result.same and result.differing == 3 and result.rows == result.expected + 1
    assert {(d.row[0], d.row[2] == 77, d.weight) for d in result.differences} == {
        (None, True, 1), (None, False, -1), (rest[0]["category"], False, 1),
    }  # fmt: skip
    assert len(result.types) == 0

    file = tmp_path / "job.yaml"
    file.write_text(SHOP.format(query=job.queries["result"], timeline=THREE, policy="incremental"))
    said = CliRunner().invoke(app, ["verify", str(file)])
    assert said.exit_code == 1
    assert (
        f"result of t3: DIFFERENT; {result.rows} rows published, {result.expected} by the batch query, 3 differ"
        in said.output
    )
    assert "1 too many  NULL, " in said.output and "1 missing   NULL, " in said.output
    as_json = CliRunner().invoke(app, ["verify", str(file), "--json"])
    assert as_json.exit_code == 1 and '"same": false' in as_json.output


def test_a_query_that_has_changed(spark: SparkSession, job: tempura.Job):
    """What it gives now says nothing of what was delivered, unless it is the same."""
    query = job.queries["result"]
    assert tempura.verify(replace(job, queries={"result": f"{query} -- as before"}), spark=spark).same
    for other in ("SELECT category FROM sales", query.replace("count(*)", "count(*) + 1")):
        with pytest.raises(
            JobError, match="result of t3 cannot be compared: its query has changed since it was"
        ) as said:
            tempura.verify(replace(job, queries={"result": other}), spark=spark)
        assert said.value.hint.startswith("run the next point that delivers it")


def test_types_differ(spark: SparkSession, job: tempura.Job):
    """A query that is not the one that was run gives other types, or other columns; older run files do not tell that it has changed."""
    latest = Workspace.open(job.workspace, job.name).latest()
    assert latest is not None
    plan = {name: said for name, said in latest.plan.items() if name != "queries"}
    (Path(job.workspace) / "runs/3.json").write_bytes(runfile.write(replace(latest, plan=plan)))
    other = replace(job, queries={"result": job.queries["result"].replace("count(*)", "CAST(count(*) AS INT)")})
    (result,) = tempura.verify(other, spark=spark).results
    assert result.types == ("n is published as bigint, the query gives int",) and result.differing == 0
    fewer = replace(job, queries={"result": "SELECT category FROM sales"})
    (result,) = tempura.verify(fewer, spark=spark).results
    assert result.types == ("published are the columns category, gross, n, the query gives category",)


def test_queries_that_are_gone_are_left_out(spark: SparkSession, tmp_path: Path):
    """What was published of them stays, also after the next run."""
    text = SHOP.replace('query: "{query}"', "queries: {{kept: SELECT category FROM sales{more}}}")
    file = tmp_path / "job.yaml"
    for at, more in (("t2", ", old: SELECT o_id FROM sales"), ("t3", "")):
        file.write_text(text.format(more=more, timeline=THREE, policy="auto"))
        arrive(tmp_path, int(at[1]))
        tempura.run(tempura.Job.load(file), at=at, spark=spark)
    report = tempura.verify(tempura.Job.load(file), spark=spark)
    assert report.same and [(r.query, r.point) for r in report.results] == [("kept", "t3")]
    said = CliRunner().invoke(app, ["verify", str(file)])
    assert said.exit_code == 0
    assert said.output.splitlines() == [
        "kept of t3: the same; 12 rows published, 12 by the batch query",
        "old: left out, as the job does not have this query any more",
    ]
    assert (tmp_path / ".tempura/shop/results/old/latest").exists()


def test_refusals(spark: SparkSession, job: tempura.Job, tmp_path: Path):
    elsewhere = replace(job, workspace=str(tmp_path / "none"))
    with pytest.raises(WorkspaceError, match="the job `shop` has no published result yet"):
        tempura.verify(elsewhere, spark=spark)
    text = SHOP.replace('query: "{query}"', 'queries: {{other: "{query}"}}')
    renamed = tempura.Job.parse(text.format(query="SELECT o_id FROM sales", timeline=THREE, policy="auto"), tmp_path)
    with pytest.raises(
        WorkspaceError, match="published result yet, but of queries that it does not have any more: res"
    ):
        tempura.verify(renamed, spark=spark)
    arrive(tmp_path, 1, 7, ["o1-0"])
    with pytest.raises(WorkspaceError, match=r"of t3 cannot be computed anew: table 'sales': the file .* has changed"):
        tempura.verify(job, spark=spark)
    next((Path(job.workspace) / "results/result").glob("3-*/*.parquet")).unlink()
    with pytest.raises(WorkspaceError, match=r"the result result of t3 is damaged: .* is missing"):
        tempura.verify(job, spark=spark)


def test_a_file_that_is_gone(spark: SparkSession, job: tempura.Job, tmp_path: Path):
    """That the query cannot be computed anew is told, and why."""
    next((tmp_path / "sales").glob("*.parquet")).unlink()
    with pytest.raises(WorkspaceError, match=r"cannot be computed anew: .*has vanished"):
        tempura.verify(job, spark=spark)


@pytest.mark.parametrize(
    "query",
    [
        TOP,
        f"SELECT * FROM ({TOP}) LIMIT 1",
        "SELECT * FROM sales LIMIT 3",
        "WITH s AS (SELECT '{' || category AS c, price FROM sales) SELECT c FROM s -- all;",
    ],
)
def test_queries_that_leave_things_open(spark: SparkSession, tmp_path: Path, query: str):
    """Which of equal rows a LIMIT takes is decided as in plans; braces, comments and names of tables are left as they are."""
    arrive(tmp_path, 1, 8)
    job = replace(shop(tmp_path, timeline="{at: t1, deliver: true}"), queries={"result": query})
    tempura.run(job, spark=spark)
    assert tempura.verify(job, spark=spark).same


def test_rounding_is_no_difference(spark: SparkSession):
    def frame(*rows: str) -> DataFrame:
        return spark.sql(f"SELECT * FROM VALUES {', '.join(rows)} AS t(k, v)")

    same = frame(
        "('a', 0.1D)", "('a', 0.1D)", "(NULL, NULL)", "('z', 0D)", "('n', double('NaN'))", "('b', 0.9999999994999999D)"
    )
    near = frame(
        "('a', 0.1D)",
        "('a', 0.1D + 1e-17D)",
        "(NULL, NULL)",
        "('z', -1e-13D)",
        "('n', double('NaN'))",
        "('b', 0.9999999995000001D)",
    )
    assert compare(same, near).differing == 0, "also across the boundary of the tenth digit"
    one = frame("('a', 1D)")
    assert compare(one, frame("('a', 1.00000001D)")).differing == 2
    assert compare(frame("('a', CAST(NULL AS DOUBLE))"), frame("('a', 0D)")).differing == 2
    assert compare(frame("('a', 1D)", "('a', 1D)"), one).more == 1


def test_maps_are_compared_by_their_entries(spark: SparkSession):
    one = spark.sql("SELECT map('a', 1, 'b', 2) AS m")
    assert compare(one, spark.sql("SELECT map('b', 2, 'a', 1) AS m")).differing == 0
    assert compare(one, spark.sql("SELECT map('b', 2) AS m")).differing == 2


def test_many_differences_are_counted_not_listed(spark: SparkSession, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(verifying, "MOST", 50)
    found = compare(spark.range(100).toDF("a"), spark.range(60, 101).toDF("b"))
    assert (found.differing, found.more, len(found.differences)) == (61, 59, verifying.SHOWN)


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("SELECT A, count(*) FROM t AS x WHERE EXISTS (SELECT * FROM u WHERE u.b = x.a)", {"a", "b", "t", "u", "x"}),
        ("SELECT count(`odd name`) FROM t", {"odd name", "t"}),
        ("SELECT * FROM t", None),
        ("SELECT t.*, 1 AS one FROM t", None),
        ("SELECT count(t.*) FROM t", None),
        ("SELECT a FROM (SELECT * FROM t)", None),
        ("SELECT a FROM t WHERE a IN (SELECT * FROM u)", None),
        ("SELECT a FROM t NATURAL JOIN u", None),
        ("SELECT x FROM t AS s(x, y)", None),
        ("SELECT x FROM (SELECT a, b FROM t) AS s(x, y)", None),
        ("SELECT a FROM t PIVOT (sum(b) FOR c IN (1, 2))", None),
    ],
)
def test_columns_that_a_query_does_not_name_are_not_read(query: str, names: set[str] | None):
    """Of change logs, which have to be added up by all columns that are read."""
    assert _spoken_of(query) == names
