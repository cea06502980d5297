"""What a run knows of the runs behind it: enough for the states that are there, and no more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tempura.course as courses
from tempura.catalog import Catalog, Table
from tempura.course import Course
from tempura.job import Job
from tempura.schema import Column
from tempura.sources import FilesSource
from tempura.workspace import Past, RunFile, StateEntry, Workspace

TABLE = "{source: {kind: files, path: t, format: parquet, arrival: at}}"
KEPT = StateEntry("kept", "v", "f", ("states/kept/1-1",), (), False, 1, "d1", read_at=("d9",))


def days(first: int, many: int) -> str:
    return ", ".join(f"{{at: d{i}, deliver: true}}" for i in range(first, first + many))


def laid(job: Job, runs: Sequence[RunFile], folder: Path) -> Course:
    workspace = Workspace.open(folder / "workspace", "j")
    past = Past([run.point for run in runs], 1, lambda number: runs[number - 1])
    return courses.lay(job, workspace, past, 0, courses.pins(job, workspace, past, 0))


@pytest.fixture
def whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """States are taken to be there."""
    check: Callable[..., tuple[str, ...]] = lambda self, entry: ()  # noqa: E731
    monkeypatch.setattr(Workspace, "check_state", check)


@pytest.mark.parametrize("points", [("d1",), None], ids=["told", "untold"])
def test_a_plan_knows_few_runs_behind(points: tuple[str, ...] | None, tmp_path: Path, whole: None):
    """A window of three days that goes on, and a state of the first day, also one of a version that did not tell of which days it is."""
    (tmp_path / "t").mkdir()
    past: list[RunFile] = []
    for day in range(1, 13):
        pq.write_table(pa.table({"id": [day], "at": [day]}), tmp_path / f"t/{day:03}.parquet")
        job = Job.parse(
            f"name: j\nquery: SELECT count(*) AS n FROM t\ntables: {{t: {TABLE}}}\ntimeline: [{days(day, 3)}]\n",
            tmp_path,
        )
        course = laid(job, past, tmp_path)
        behind = [p.name for p in course.job.timeline.points[: course.at]]
        assert len(behind) <= 2 and behind[-1:] == [f"d{day - 1}"][: day - 1]
        assert day == 1 or "d1" in behind
        states = {"kept": replace(KEPT, points=points)}
        past.append(RunFile("j", "", day, f"d{day}", "", "", pins=course.pins[-1], states=states, results={}))


def test_columns_of_a_catalog_may_differ_from_those_of_files_by_case(tmp_path: Path):
    (tmp_path / "t").mkdir()
    pq.write_table(pa.table({"id": [1, 2], "at": [1, 1]}), tmp_path / "t/a.parquet")
    job = Job(
        query="SELECT ID, count(*) AS n FROM t GROUP BY ID",
        tables=Catalog(Table("t", (Column("ID", "bigint"),), arrives={"t1": 2.0})),
        timeline=[{"at": "t1", "deliver": True}],
        sources={"t": FilesSource(table="t", path="t", format="parquet", arrival="at", folder=tmp_path)},
    )
    assert [c.name for c in laid(job, [], tmp_path).job.catalog["t"].columns] == ["ID"]
