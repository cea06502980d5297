"""The commands around runs that need no Spark: what they say, what they refuse, and how they end."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

import tempura
from tempura.cli import app, upkeep
from tempura.cli.progress import Shown
from tempura.status import run_text, status_of, status_text
from tempura.workspace import ResultEntry, RunFile, StateEntry, StepEntry, Workspace, runfile

COLUMNS = (("c", "string", True),)
PINS = {"sales": {"files": []}}
MEASURED = {"rows": 3, "wall_seconds": 1.5, "cpu_seconds": 0.25, "rows_read": 40, "bytes_read": None, "shuffle_written": 2048, "bytes_written": 812}  # fmt: skip
JOB = """\
name: shop
query: SELECT category, COUNT(*) AS n FROM sales GROUP BY category
tables:
  sales: {columns: {category: string}, arrives: {t1: 5, t2: 5, t3: 5}}
timeline: [{at: t1, price: 0.5}, {at: t2, deliver: true}, {at: t3, deliver: true}]
"""


@pytest.fixture
def job(tmp_path: Path) -> Path:
    path = tmp_path / "job.yaml"
    path.write_text(JOB)
    return path


@pytest.fixture
def workspace(job: Path) -> Workspace:
    return Workspace.open(job.parent / ".tempura/shop", "shop")


def run(*arguments: object, **options: str):
    return CliRunner().invoke(app, [str(a) for a in arguments], **options)


def commit(workspace: Workspace, point: str, read_at: tuple[str, ...] = ("t3",)) -> RunFile:
    """A run that leaves a state, and from t2 on a result."""
    with workspace.lock("test"):
        attempt = workspace.begin(point, PINS, f"plan of {point}")
        folder = attempt.folder_for_state("kept")
        attempt.storage.write_new(f"{folder}/part-0.parquet", b"x" * 2500)
        step = StepEntry("kept", "state", "kept[t1]", "SELECT 1", {"rows": 4.0, "bytes": 64.0, "cost": 0.5}, MEASURED)
        entry = StateEntry("kept", "kept[t1]", "f", (folder,), COLUMNS, False, attempt.number, point, ("c",), 2, rows=3, read_at=read_at)  # fmt: skip
        state = attempt.record(step, entry).output
        assert isinstance(state, StateEntry)
        results: dict[str, ResultEntry] = {}
        if point != "t1":
            place = attempt.folder_for_result("result")
            attempt.storage.write_new(f"{place}/part-0.parquet", b"y" * 1000)
            step_2 = StepEntry("result@t2", "result", "result[t2]", "SELECT 2", {"cost": 1.0}, reused=True)
            result = attempt.record(step_2, ResultEntry("result", place, COLUMNS, attempt.number, point, rows=2)).output
            assert isinstance(result, ResultEntry)
            results = {"result": result}
        begun = attempt.begun
        return attempt.commit(
            RunFile(
                "shop",
                "d",
                attempt.number,
                point,
                begun.started,
                runfile.now(),
                PINS,
                {"kept": state},
                results,
                steps=(step,) if not results else (step, step_2),
                measured=MEASURED,
            )
        )


@pytest.mark.parametrize("command", ["plan", "run", "status", "explain", "verify", "gc", "reset"])
def test_every_command_has_examples(command: str):
    shown = run(command, "--help").output
    assert f"\n    tempura {command} job.yaml" in shown
    assert command in run("--help").output


def test_status_before_the_first_run(job: Path):
    shown = run("status", job)
    assert shown.exit_code == 0 and shown.output.startswith("shop: next is t1\n")
    assert re.search(r"t1 +next", shown.output) and re.search(r"t3 +due", shown.output)
    assert "states: none" in shown.output and "results: none yet" in shown.output
    assert run("status", job, "--runs").output == "no run yet\n"
    assert not (job.parent / ".tempura").exists(), "looking changes nothing"


def test_status_tells_where_a_job_stands(job: Path, workspace: Workspace):
    commit(workspace, "t1")
    shown = run("status", job).output
    assert "next is t2" in shown
    assert re.search(r"t1 +done +0\.5 +\d{4}-\d\d-\d\d \d\d:\d\d:\d\d +0\.5 s +0\.25 s +1\.5 s", shown)
    assert "states: 1, 2.5 kB" in shown and re.search(r"kept +t1 +\d s +3 +2\.5 kB +t3 +c", shown)

    commit(workspace, "t3")
    shown = run("status", job).output
    assert "the last point is done" in shown and re.search(r"t2 +passed over", shown)
    assert re.search(r"result +t3 +2 +1 kB +\S+/results/result/latest", shown)
    assert "garbage: 2.5 kB; `tempura gc` frees it" in shown


def test_status_as_json(job: Path, workspace: Workspace):
    commit(workspace, "t1")
    found = json.loads(run("status", job, "--json").output)
    assert found["next"] == "t2" and found["garbage_bytes"] == 0 and "runs" not in found
    assert found["points"][0]["measured"]["cpu_seconds"] == 0.25 and found["points"][0]["estimated"] == 0.5
    assert found["states"][0]["read_at"] == ["t3"] and 0 <= found["states"][0]["age_seconds"] < 60
    assert json.loads(run("status", job, "--json", "--runs").output)["runs"][0]["steps"][0]["name"] == "kept"


def test_status_tells_who_is_at_work_and_what_is_unfinished(job: Path, workspace: Workspace):
    with workspace.lock("tempura run shop"):
        attempt = workspace.begin("t1", PINS, "plan")
        shown = run("status", job).output
        assert f"in use by process {os.getpid()} on " in shown and "(tempura run shop)" in shown
        assert json.loads(run("status", job, "--json").output)["garbage_bytes"] is None
        assert run("gc", job).exit_code == 2, "somebody else may be writing"
        folder = attempt.folder_for_state("kept")
        attempt.storage.write_new(f"{folder}/part-0.parquet", b"x")
        entry = StateEntry("kept", "kept[t1]", "f", (folder,), COLUMNS, False, attempt.number, "t1")
        attempt.record(StepEntry("kept", "state", "kept[t1]", "SELECT 1"), entry)
    shown = run("status", job).output
    assert "the run at t1 was begun 20" in shown and "has finished 1 step; `tempura run` goes on with it" in shown


def test_a_damaged_state_is_told(job: Path, workspace: Workspace):
    file = commit(workspace, "t1")
    (job.parent / ".tempura/shop" / file.states["kept"].folders[0] / "part-0.parquet").unlink()
    assert f"damaged: {file.states['kept'].folders[0]}/part-0.parquet is missing" in run("status", job).output


def test_runs_show_estimates_beside_measurements(workspace: Workspace, job: Path):
    shown = run_text(commit(workspace, "t2"))
    kept = next(line for line in shown.splitlines() if "state kept" in line)
    assert re.split(" {2,}", kept.strip()) == [
        "state kept",
        "4",
        "3",
        "64 B",
        "812 B",
        "0.5 s",
        "0.25 s",
        "1.5 s",
        "40",
        "–",
        "2.05 kB",
    ]
    assert "found" in next(line for line in shown.splitlines() if "result result@t2" in line)
    assert re.search(r"together +812 B +1\.5 s +0\.25 s", shown)
    assert run("explain", job, "--runs").output == run("status", job, "--runs").output == shown + "\n"
    idle = run_text(replace(commit(workspace, "t3"), steps=(), measured={"checks": {"cpu_seconds": 0.125, "jobs": 1}}))
    assert "nothing was worth doing yet" in idle and re.search(r"checks of what arrived +0\.125 s", idle)


def test_explain_without_runs_is_the_plan(job: Path):
    assert run("explain", job).output.startswith("shop: total cost ")


def test_gc_says_what_it_frees(job: Path, workspace: Workspace):
    assert run("gc", job).output == "nothing to free\n"
    old = commit(workspace, "t1").states["kept"].folders[0]
    commit(workspace, "t2")
    shown = run("gc", job)
    assert shown.exit_code == 0 and shown.output == f"    2.5 kB  {old}\nfreed 2.5 kB\n"
    commit(workspace, "t3")
    assert "results/result/2-" in run("gc", job, "--keep-results", "1").output
    wrong = run("gc", job, "--keep-results", "0")
    assert wrong.exit_code == 2 and "error: at least one result of each query is kept" in wrong.stderr


def test_nothing_is_made_where_nothing_was_run(job: Path):
    assert run("gc", job).output == "nothing to free: the job has never been run\n"
    assert run("reset", job).output == "nothing to forget: the job has never been run\n"
    assert not (job.parent / ".tempura").exists()


@pytest.mark.parametrize("command", ["status", "gc", "reset"])
def test_a_workspace_that_is_a_file_is_told(job: Path, command: str):
    job.write_text(JOB + "workspace: job.yaml\n")
    shown = run(command, job)
    assert shown.exit_code == 2 and "job.yaml/workspace.json: Not a directory" in shown.stderr
    assert "hint: check that the place exists" in shown.stderr


def test_reset_forgets_states_and_keeps_results(job: Path, workspace: Workspace):
    commit(workspace, "t2")
    shown = run("reset", job)
    assert shown.exit_code == 0, shown.output
    assert "forgot all states and versions, freed 2.5 kB; the next point is t1" in shown.output
    assert re.search(r"result of t2 \(2 rows\) stays: \S+/results/result/latest", shown.output)
    found = status_of(tempura.Job.load(job))
    assert found.next == "t1" and not found.states and found.results[0].point == "t2"
    assert "next is t1" in status_text(found)


def test_reset_asks_on_a_terminal(job: Path, workspace: Workspace, monkeypatch: pytest.MonkeyPatch):
    commit(workspace, "t1")

    class Terminal:
        def isatty(self) -> bool:
            return True

    class Module:
        stdin = Terminal()

    monkeypatch.setattr(upkeep, "sys", Module)
    refused = run("reset", job, input="n\n")
    assert (
        refused.exit_code == 1 and "Forget all states of shop and begin with its first point again?" in refused.output
    )
    assert status_of(tempura.Job.load(job)).states
    assert run("reset", job, input="y\n").exit_code == 0
    commit(workspace, "t1")
    assert run("reset", job, "--yes").exit_code == 0 and not status_of(tempura.Job.load(job)).states


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--at", "t1", "--until", "t2"], "error: --at and --until cannot be given at once"),
        (["--at", ""], "error: the timeline has no point ''\n  hint: its points are t1, t2, t3"),
        (["--dry-run", "--at", ""], "error: the timeline has no point ''\n  hint: its points are t1, t2, t3"),
        (["--at", "t9"], "error: the timeline has no point 't9'\n  hint: its points are t1, t2, t3"),
        (["--until", "t9"], "error: the timeline has no point 't9'"),
        ([], "error: table 'sales' has no source, so its rows cannot be read"),
        (["--dry-run"], "error: table 'sales' has no source"),
        (["--policy", "eager"], "'eager' is not one of"),
    ],
)
def test_what_run_refuses(job: Path, options: list[str], said: str):
    refused = run("run", job, *options)
    assert refused.exit_code == 2 and said in refused.stderr
    assert "Traceback" not in refused.output


def test_run_refuses_points_after_the_last_result(job: Path):
    job.write_text(JOB.replace("{at: t3, deliver: true}]", "{at: t3, deliver: true}, {at: t9}]"))
    refused = run("run", job, "--at", "t9")
    assert refused.exit_code == 2 and "nothing is due at 't9' or later, so there is nothing to run" in refused.stderr


def test_run_refuses_the_past_and_says_what_is_done(job: Path, workspace: Workspace):
    commit(workspace, "t2")
    past = run("run", job, "--at", "t1")
    assert past.exit_code == 2 and "error: the point 't1' is in the past: 't2' has been run already" in past.stderr
    done = run("run", job, "--at", "t2")
    assert done.exit_code == 0 and re.search(r"t2 was run at 20[\d: -]+; nothing to do", done.output)
    assert "nothing to do" in run("run", job, "--until", "t2").output
    as_json = json.loads(run("run", job, "--at", "t2", "--json").stdout)
    assert as_json["runs"][0]["status"] == "repeated" and as_json["runs"][0]["run"] == 1
    assert "t2 was run at" in run("run", job, "--at", "t2", "--dry-run").output


@pytest.mark.parametrize("options", [["--dry-run"], ["--dry-run", "--until", "t3"]])
def test_of_the_runs_behind_only_the_newest_is_read(
    job: Path, workspace: Workspace, monkeypatch: pytest.MonkeyPatch, options: list[str]
):
    """The next point is found without them, and without looking for garbage."""
    for point in ("t1", "t2", "t3"):
        commit(workspace, point)
    read: set[int] = set()
    reading = Workspace._run

    def noted(self: Workspace, number: int) -> RunFile:
        read.add(number)
        return reading(self, number)

    monkeypatch.setattr(Workspace, "_run", noted)
    monkeypatch.setattr(Workspace, "garbage", lambda *_: pytest.fail("it looks for garbage"))
    assert "t3 was run at" in run("run", job, *options).output
    assert read == {3}


def test_a_locked_workspace_is_told(job: Path, workspace: Workspace):
    with workspace.lock("the other one"):
        refused = run("run", job, "--at", "t1")
    assert (
        refused.exit_code == 2
        and "(the other one)" in refused.stderr
        and "hint: wait until it has ended" in refused.stderr
    )


def test_verify_without_a_result(job: Path, workspace: Workspace):
    refused = run("verify", job)
    assert refused.exit_code == 2 and "error: the job `shop` has no published result yet" in refused.stderr


def test_a_missing_job_file(tmp_path: Path):
    for command in ("run", "status", "verify", "gc", "reset", "explain"):
        refused = run(command, tmp_path / "none.yaml")
        assert refused.exit_code == 2 and "error: cannot read the job file" in refused.stderr


def test_a_damaged_run_file_is_told_and_reset_helps(job: Path, workspace: Workspace):
    commit(workspace, "t1")
    path = job.parent / ".tempura/shop/runs/1.json"
    path.write_text(path.read_text().replace('"t1"', '"t2"'))
    refused = run("status", job)
    assert (
        refused.exit_code == 2
        and "it was cut short or edited by hand" in refused.stderr
        and "tempura reset" in refused.stderr
    )
    assert run("reset", job).exit_code == 0 and "next is t1" in run("status", job).output


def test_progress_moves_on_a_terminal_and_is_lines_elsewhere():
    told = [
        "going on with the run",
        "started Spark",
        "done Spark",
        "started state a",
        "started state b",
        "done state a",
    ]
    plain = Console(width=80)
    with plain.capture() as captured, Shown(plain) as shown:
        for line in told:
            shown(line)
    lines = [re.sub(r"[\d.]+ s", "… s", line) for line in captured.get().splitlines()]
    assert lines == [
        "  going on with the run",
        "  … Spark",
        "  ✓ Spark, … s",
        "  … state a",
        "  … state b",
        "  ✓ state a, … s",
    ]
    terminal = Console(width=80, force_terminal=True, legacy_windows=False)
    with terminal.capture() as captured, Shown(terminal) as shown:
        for line in told:
            shown(line)
    assert "✓ state a" in re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", captured.get()) and "\x1b[" in captured.get()


def test_spark_is_loaded_by_its_first_use():
    code = (
        "import sys, tempura; before = 'pyspark' in sys.modules\n"
        "from tempura.cli import app; still = 'pyspark' in sys.modules\n"
        "print(before, still, tempura.run.__module__, tempura.verify.__name__, 'pyspark' in sys.modules)\n"
        "try: tempura.nothing\n"
        "except AttributeError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False False tempura.spark.run verify True\nmodule 'tempura' has no attribute 'nothing'\n"
