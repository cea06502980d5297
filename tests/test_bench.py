"""Benchmarks go on where they were stopped, and measure anew what has changed."""

from __future__ import annotations

import json
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from matplotlib.text import Annotation
from rich.table import Table

from bench import (
    _planned,
    _plots,
    _record,
    ablation,
    complexity,
    effect_ivm,
    effect_pdw,
    exact,
    methods,
    planning,
    report,
    sensitivity,
    size,
    states,
)
from bench._record import experiment, names_of, queries_of, query_numbers
from tempura import plan
from tempura.errors import JobError
from tests.test_bench_judges import METHODS, a_day


def counted(log: list[int], answer: int = 1):
    def compute() -> dict[str, int]:
        log.append(answer)
        return {"answer": answer}

    return compute


def test_a_stopped_benchmark_goes_on(tmp_path: Path):
    log: list[int] = []
    first = experiment("size", 1, tmp_path, pattern="delta-big")
    assert first.cell("q1", counted(log, 1)) == {"answer": 1}
    with (tmp_path / "size.jsonl").open("a") as file:
        file.write('{"key": "q2", "vers')  # Killed while it wrote.
    again = experiment("size", 1, tmp_path, pattern="delta-big")
    assert again.cell("q1", counted(log, 2)) == {"answer": 1}
    assert again.cell("q2", counted(log, 3)) == {"answer": 3}
    third = experiment("size", 1, tmp_path, pattern="delta-big")
    assert third.cell("q2", counted(log, 4)) == {"answer": 3}
    assert log == [1, 3]


def test_what_is_measured_together_is_measured_together_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Sides that take turns are compared: what is left of a group says nothing beside what another session measures."""
    log: list[int] = []

    def measure() -> list[dict[str, int]]:
        log.append(len(log))
        return [{"round": log[-1]}, {"round": log[-1]}]

    first = experiment("real-ivm", 1, tmp_path)
    first.total = 4
    assert first.together(["q40 all", "q40 full"], measure) == [{"round": 0}] * 2
    told = capsys.readouterr().out.splitlines()
    assert [line.partition(" (")[0] for line in told] == ["real-ivm 1 of 4: q40 all", "real-ivm 2 of 4: q40 full"]
    assert all(" s for 2)" in line for line in told), "the time is that of both"
    (lines := (tmp_path / "real-ivm.jsonl")).write_text(lines.read_text().splitlines()[0])
    again = experiment("real-ivm", 1, tmp_path)
    assert again.together(["q40 all", "q40 full"], measure) == [{"round": 1}] * 2
    capsys.readouterr()
    last = experiment("real-ivm", 1, tmp_path)
    assert last.together(["q40 all", "q40 full"], measure) == [{"round": 1}] * 2 and log == [0, 1]
    assert "real-ivm 1: q40 all (known)" in capsys.readouterr().out, "how many there will be is not known"


def test_other_settings_code_and_versions_are_measured_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    log: list[int] = []
    experiment("size", 1, tmp_path, pattern="delta-big").cell("q1", counted(log, 1))
    experiment("size", 1, tmp_path, pattern="delta-small").cell("q1", counted(log, 2))
    experiment("size", 2, tmp_path, pattern="delta-big").cell("q1", counted(log, 3))
    monkeypatch.setattr(_record, "code_version", lambda name: "another")
    experiment("size", 1, tmp_path, pattern="delta-big").cell("q1", counted(log, 4))
    monkeypatch.setattr(_record, "_java", lambda: "another")
    experiment("size", 1, tmp_path, pattern="delta-big").cell("q1", counted(log, 5))
    assert log == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("limit", "bench/growth.py"), ("exact", "tests/random_graphs.py"), ("exact", "examples/sales/summary.sql"), ("real-sensitivity", "bench/sensitivity.py"),
        ("limit", "bench/limit.py"), ("size", "bench/_planned.py"), ("size", "src/tempura/optimizer.py"),
    ],
)  # fmt: skip
def test_a_benchmark_has_the_version_of_all_that_it_rests_on(
    name: str, file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    import_module(f"bench.{name.replace('-', '_')}")  # As its command does.
    monkeypatch.setattr(_record, "ROOT", tmp_path)
    path = tmp_path / file
    path.parent.mkdir(parents=True)
    versions: list[str] = []
    for text in ("one", "one", "two"):
        path.write_text(text)
        versions.append(_record.code_version(name))
    assert versions[0] == versions[1] != versions[2]


def test_benchmarks_name_what_they_rest_on():
    for path in sorted(Path(_record.__file__).parent.glob("[!_]*.py")):
        found = re.findall(r"^ *from ((?:bench|tests)\.[a-z]\w*) import", path.read_text(), re.MULTILINE)
        taken = [name for name in found if name != "bench.tpcds"]
        named = getattr(import_module(f"bench.{path.stem}"), "RESTS_ON", ())
        assert not {name.replace(".", "/") + ".py" for name in taken} - set(named), path.name
        assert all(list(_record.ROOT.glob(names)) for names in named), path.name


def test_what_was_expected_stands_beside_what_came_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    found = experiment("effect_ivm", 1000, tmp_path)
    found.cell("q40", lambda: {"ratio": 0.2})
    found.expect("at most half", "0.2", True)
    found.expect("at most a tenth", "0.2", False)
    table = Table("query", "ratio", title="Effect")
    table.add_row("q40", "0.2")
    found.finish(table)
    said = capsys.readouterr().out
    assert "NOT MET  at most a tenth: 0.2" in said
    document = json.loads((tmp_path / "effect-ivm.json").read_text())
    assert document["cells"] == {"q40": {"ratio": 0.2}}
    assert [e["met"] for e in document["expectations"]] == [True, False]
    assert document["table"]["rows"] == [["q40", "0.2"]]
    assert document["sf"] == 1000 and document["machine"]["cores"] and document["versions"]["pyspark"]


def test_a_document_has_its_command_without_places_on_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sys.argv", ["bench", "peers", "--flink-python", "/home/me/flink/bin/python", "--rounds", "2"])
    found = experiment("peers", 1, tmp_path)
    assert found.document(None)["command"] == "python -m bench peers --flink-python python --rounds 2"


def test_queries_are_named_by_numbers_and_ranges():
    assert query_numbers("q10, q40,q3-q5,4") == [10, 40, 3, 4, 5]
    for text in ("star", "q100", "q7-q3", "q0", "q10-", "q22,-5"):
        with pytest.raises(JobError, match="is no query"):
            query_numbers(text)
    with pytest.raises(JobError, match="no query is named"):
        query_numbers(" , ")


def test_numbers_of_points_are_compared():
    assert size._sizes("3, 9") == [3, 9]
    for text in ("3", "3,3", "0,3", "3,nine", ""):
        with pytest.raises(JobError, match="are no numbers of points to compare"):
            size._sizes(text)


def test_a_document_of_other_settings_or_cells_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """It may have taken hours."""

    def finish(settings: int, *cells: str) -> None:
        found = experiment("warehouse", 1, tmp_path, rounds=settings)
        for cell in cells:
            found.cell(cell, lambda: {"answer": 1})
        found.finish()

    finish(1, "q1", "q2")
    finish(1, "q1", "q2", "q3")
    assert {p.name for p in tmp_path.glob("*.json")} == {"warehouse.json"}
    finish(1, "q1")
    (aside,) = tmp_path.glob("warehouse-*.json")
    assert f"is in {aside.name}" in capsys.readouterr().out
    assert json.loads(aside.read_text())["cells"].keys() == {"q1", "q2", "q3"}
    documents, _ = report.finished(tmp_path)
    assert list(documents) == ["warehouse", aside.stem]


def test_a_cell_tells_its_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(_record, "commit", lambda: "one")
    experiment("size", 1, tmp_path).cell("q1", lambda: {})
    monkeypatch.setattr(_record, "commit", lambda: "two")
    again = experiment("size", 1, tmp_path)
    for query in ("q1", "q2"):
        again.cell(query, lambda: {})
    again.finish()
    assert json.loads((tmp_path / "size.json").read_text())["versions"]["commit"] == "one, two"


def document(name: str, cells: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": name, "title": "What <it> shows.", "command": f"python -m bench {name}", "date": "2026-01-01", "measured": [None, None],
        "machine": {"cores": 2, "memory": "8 GiB", "platform": "Linux", "cpu": "x"}, "versions": {"python": "3"}, "sf": 1.0,
        "settings": {"sf": 1.0, "points": 3}, "cells": cells, "expectations": [{"text": "a < b", "figure": "1", "met": False}],
        "table": {"title": "T", "caption": "", "columns": ["q", "s"], "right": [False, True], "rows": [["q1", "1"]]},
    }  # fmt: skip


AGREES = {"measured": 1.0, "guessed": 2.0, "shipped": 1.3, "calibrated": 1.1}
CPU = {
    "bytes_shuffled": 1e6,
    "last_cpu": 1.0,
    "last_jvm": 2.0,
    "batch_cpu": 3.0,
    "batch_jvm": 4.0,
    "weighted_cpu": 1.0,
    "weighted_jvm": 2.0,
}
ON_SPARK: dict[str, dict[str, Any]] = {
    "warehouse": {"q1": a_day(5.0, 1.0) | {"weighted_ratio": 0.5}, "q2": {"error": "no"}},
    "refresh": {"star": {side: {"cpu": 2.0, "tasks": 1.0, "compiling": 0.5, "garbage": 0.1, "driver": 0.4} for side in ("last", "batch")}},
    "growth": {f"star {h}x": CPU | {"history": h} for h in (1, 2, 4)},
    "limit": {"q40": CPU | {"least_cpu": 0.5, "least_jvm": 1.0}},
    "choice": {"q40 delta-big": {"measured": dict.fromkeys(METHODS, 1.0), "measured_jvm": dict.fromkeys(METHODS, 3.0), "estimated": dict.fromkeys(METHODS, 2.0), "distinct": ["all", "IM1"]}},
    "peers": {"sums tempura": {"cpu": 1.0, "refused": None}, "sums streaming": {"cpu": None, "refused": "no"}},
    "real-ivm": {f"q40 delta-big {m}": CPU for m in METHODS},
    "real-pdw": {f"q40 delta-big {m}": CPU for m in METHODS},
    "real-sensitivity": {f"q10 delta-big {m}": CPU for m in (*METHODS, "wrong")},
    "calibration": {"profile": {"job": 0.1}, "q1 auto": {"t1": AGREES | {"steps": {"result": AGREES}}, "t2": AGREES | {"steps": {}}}},
}  # fmt: skip


def test_the_report_has_every_finished_experiment(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    seconds = {f"q1 {kind}": {"seconds": 0.1} for kind in ("|T|=1", "|T|=3", "spark")}
    for name, cells in {**ON_SPARK, "planning": seconds, "something": {"q1": {"x": 1}}}.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(document(name, cells)))
    (tmp_path / "other.json").write_text('{"a": 1}')
    (tmp_path / "half.json").write_text('{"name": "siz')
    (tmp_path / "stopped.jsonl").write_text("")
    report.run(tmp_path)
    told = capsys.readouterr().out
    assert all(f"left out, as it is no finished experiment: {name}" in told for name in ("other.json", "half.json", "stopped.jsonl"))  # fmt: skip
    page = (tmp_path / "report.html").read_text()
    assert page.count("<section>") == len(ON_SPARK) + 2
    assert page.count("<svg") == len(ON_SPARK) + 1
    assert "✗" in page and "a &lt; b" in page and "What &lt;it&gt; shows." in page
    assert not re.search(r"""(src|href)=["'](?!#)""", page.replace("xlink:href", "href")), "the page needs other files"
    assert {p.stem for p in tmp_path.glob("*.svg")} == {*ON_SPARK, "planning"}


def test_what_was_not_measured_is_listed_with_its_command(tmp_path: Path):
    (tmp_path / "growth.json").write_text(json.dumps(document("growth", ON_SPARK["growth"])))
    report.run(tmp_path)
    page = (tmp_path / "report.html").read_text()
    listed = re.findall(r"not measured here: <code>python -m bench ([\w-]+)</code>", page)
    assert listed == [name for name in report.ORDER if name != "growth"]
    assert "<td class=text>Planning as methods are added one by one: what" in page and page.count("<section>") == 1
    modules = {path.stem.replace("_", "-") for path in Path(report.__file__).parent.glob("[!_]*.py")}
    assert set(report.ORDER) == modules - {"tpcds", "report"}


def test_a_plan_of_several_methods_is_drawn_once_and_what_was_missed_is_named():
    took = dict.fromkeys(METHODS, 1.0)
    cell = {"estimated": took, "distinct": ["all", "OJV"]}
    cells = {
        "q1 delta-R": cell | {"measured": took, "measured_jvm": took | {"all": 1.2}},
        "q1 delta-RS": cell | {"measured": took, "measured_jvm": took | {"all": 1.2}},
        "q2 delta-R": cell | {"measured": took | {"all": 0.0}, "measured_jvm": took},
    }
    figure = _plots.figure_of(document("choice", cells))
    assert figure is not None
    tasks, jvm, plans = figure.axes
    assert [t.get_text() for t in tasks.texts] == [] and tasks.get_title().endswith("in 2 of 2")
    assert [t.get_text() for t in jvm.texts] == ["q1 delta-R", "q1 delta-RS"] and jvm.get_title().endswith("in 1 of 3")
    assert len({t.xyann for t in jvm.texts if isinstance(t, Annotation)}) == 2, "one above the other"
    drawn = [line for line in plans.lines if line.get_marker() == "o"]
    assert [line.get_label() for line in drawn] == ["all methods", "OJV"]
    assert sum(len(line.get_xdata()) for line in drawn) == 6


def test_peers_are_points_relative_to_tempura_and_crosses():
    cells = {"sums tempura": 2.0, "sums flink": 2.5, "pairs tempura": 1.0, "pairs flink": None}
    figure = _plots.figure_of(document("peers", {key: {"cpu": cpu} for key, cpu in cells.items()}))
    assert figure is not None
    (axes,) = figure.axes
    points = [list(line.get_ydata()) for line in axes.lines if line.get_marker() == "o"]
    crosses = [len(line.get_xdata()) for line in axes.lines if line.get_marker() == "x"]
    assert points == [[1.0, 1.0], [1.25]] and crosses == [0, 1] and not axes.patches


def test_a_figure_that_cannot_be_drawn_costs_no_page(tmp_path: Path):
    (tmp_path / "planning.json").write_text(json.dumps(document("planning", {"q1 |T|=1": {}})))
    (tmp_path / "growth.json").write_text(json.dumps(document("growth", ON_SPARK["growth"])))
    report.run(tmp_path)
    page = (tmp_path / "report.html").read_text()
    assert page.count("<section>") == 2 and page.count("<svg") == 1 and "There is no figure" in page
    assert not (tmp_path / "planning.svg").exists()


def test_a_report_of_nothing_is_refused(tmp_path: Path):
    with pytest.raises(JobError, match="there is no finished experiment"):
        report.run(tmp_path / "mistyped")
    assert not (tmp_path / "mistyped").exists()


def test_what_was_begun_anew_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    found = experiment("size", 1, tmp_path)
    found.cell("q1", lambda: {})
    found.finish()
    assert not report.finished(tmp_path)[0]["size"]["newer"]
    monkeypatch.setattr(_record, "code_version", lambda name: "another")
    experiment("size", 1, tmp_path).cell("q1", lambda: {})
    documents, _ = report.finished(tmp_path)
    assert documents["size"]["newer"] and "It was begun anew since" in report.page(documents, {"size": ""})
    monkeypatch.undo()
    again = experiment("size", 1, tmp_path)
    again.cell("q1", lambda: {})
    again.finish()
    assert not report.finished(tmp_path)[0]["size"]["newer"], "it has ended, though other cells stand last"


def test_findings_stand_with_their_experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(report, "FINDINGS", tmp_path / "findings.md")
    report.FINDINGS.write_text("# Findings\n\nWhy.\n\n## size\n\nOne < two: `q22`.\n\nTwo.\n\n## methods\n\nThree.\n")
    said = report.findings(document("size", {}))
    assert said.endswith("<p class=what>One &lt; two: <code>q22</code>.</p><p class=what>Two.</p>")
    assert "of which this need not be one" in said
    assert "has not been looked into" in report.findings(document("exact", {}))
    assert report.findings(document("exact", {}) | {"expectations": []}) == ""


PLANNED = [
    (complexity.run, {"repeat": 1}), (size.run, {"repeat": 1, "points": "3,5"}), (methods.run, {"repeat": 1}), (ablation.run, {"repeat": 1}),
    (planning.run, {"repeat": 1, "spark": False}), (exact.run, {"graphs": 5, "places": 6}), (effect_ivm.run, {}), (effect_pdw.run, {}), (states.run, {}), (sensitivity.run, {}),
]  # fmt: skip


@pytest.mark.parametrize(("run", "options"), PLANNED, ids=lambda x: x.__module__.split(".")[-1] if callable(x) else "")
def test_every_experiment_on_planning_ends_with_a_figure(
    run: Any, options: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    run(queries="q93", out=tmp_path, **options)
    (path,) = tmp_path.glob("*.json")
    found = json.loads(path.read_text())
    assert f" {len(found['cells'])} of {len(found['cells'])}: " in capsys.readouterr().out
    assert found["cells"] and found["expectations"] and found["table"]["rows"]
    assert found["title"].endswith((".", ":")) or ":" in found["title"]
    assert _plots.figure_of(found) is not None


def test_what_failed_is_tried_again(tmp_path: Path):
    log: list[int] = []
    experiment("warehouse", 1, tmp_path).cell("q1", lambda: {"error": "no space left"})
    again = experiment("warehouse", 1, tmp_path)
    assert again.cell("q1", counted(log)) == {"answer": 1} and log == [1]


def test_names_that_nobody_knows_are_told():
    assert names_of("", ["star", "outer"]) == ["star", "outer"]
    assert names_of("outer, star,outer", ["star", "outer"]) == ["outer", "star"]
    with pytest.raises(JobError, match="'stars'"):
        names_of("stars", ["star", "outer"])


def test_queries_are_views_of_its_own_or_of_tpcds():
    own = {"star": "SELECT 1", "outer": "SELECT 2"}
    assert queries_of("", own) == own
    assert queries_of("outer, q3-q4,7,Q9", own) == {"outer": "SELECT 2", "q3": 3, "q4": 4, "q7": 7, "q9": 9}
    with pytest.raises(JobError, match="there is no 'quick'"):
        queries_of("star,quick", own)
    with pytest.raises(JobError, match="'q100' is no query"):
        queries_of("q100", own)


def test_a_plan_carried_out_as_planned_costs_what_it_was_to_cost():
    job = _planned.job_of(40, 1000, "delta-small", _planned.refresh())
    assert sensitivity.carried_out(job, job) == pytest.approx(list(plan(job, baselines=False).cost.work.values()))
