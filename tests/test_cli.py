"""The command line, and what it prints."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tempura import optimizer
from tempura.cli import app, coloured
from tempura.errors import PlanError
from tempura.explain import explain, number, size, to_json
from tempura.job import Job
from tempura.plans import Reason, Run
from tests.running_example import JOB, hand_made_plan


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Job, dict[str, Any]]]:
    """Planning gives the plan made by hand; what it was called with is remembered."""
    calls: list[tuple[Job, dict[str, Any]]] = []

    def plan(job: Job, **options: Any):
        calls.append((job, options))
        return hand_made_plan()

    def why(job: Job, view: str, cost: str) -> str:
        if view != "summary[t2]":
            raise PlanError(f"there is no view {view!r}", hint="see --memo")
        return "summary[t2] is known by merge_state"

    monkeypatch.setattr(optimizer, "plan", plan)
    monkeypatch.setattr(optimizer, "memo_text", lambda job: f"memo of {job.name}")
    monkeypatch.setattr(optimizer, "trace_text", lambda job: f"trace of {job.name}")
    monkeypatch.setattr(optimizer, "why_text", why)
    return calls


def run(*arguments: str):
    return CliRunner().invoke(app, list(arguments))


def test_help_has_examples():
    result = run("plan", "--help")
    assert result.exit_code == 0
    assert "tempura plan job.yaml --sql > steps.sql" in result.output
    for option in ("--methods", "--objective", "--cost-model", "--json", "--sql", "--memo", "--trace", "--why"):
        assert option in result.output


def test_explanation(planned: list[Any]):
    result = run("plan", str(JOB))
    assert result.exit_code == 0
    assert result.output == explain(hand_made_plan()) + "\n"
    assert planned[0][0].name == "gross-revenue"
    assert planned[0][1] == {"cost": "spark"}


def test_options_change_the_job(planned: list[Any]):
    result = run(
        "plan", str(JOB), "--methods", "im-2,IM1", "--objective", "last-run-at-most:2.5", "--cost-model", "unit"
    )
    assert result.exit_code == 0, result.output
    job, options = planned[0]
    assert job.methods == ("IM1", "IM2")
    assert (job.objective.kind, job.objective.limit) == ("last-run-at-most", 2.5)
    assert options == {"cost": "unit"}


@pytest.mark.usefixtures("planned")
def test_json_has_the_promised_names():
    result = run("plan", str(JOB), "--json")
    found = json.loads(result.output)
    assert found["cost"]["total"] == 11.8
    assert found["cost"]["by_point"] == {"t1": 1.8, "t2": 10.0}
    assert found["baselines"] == {"full": 21.0, "IM1": 11.8, "IM2": 12.2, "OJV": None}
    step = found["runs"][1]["steps"][1]
    assert {"name", "kind", "sql", "rows", "bytes", "cost", "methods"} <= step.keys()
    assert step["kind"] == "result"
    assert step["sql"].startswith(("SELECT", "WITH"))
    assert found["states"][0]["until"] == "t2"
    assert found["planning"].keys() == {"explore_seconds", "share_seconds", "groups", "tvrs", "facts", "firings", "costings", "stop_reason"}  # fmt: skip


@pytest.mark.usefixtures("planned")
def test_sql_of_every_step():
    output = run("plan", str(JOB), "--sql").output
    assert [line for line in output.splitlines() if line.startswith("--")] == [
        "-- at t1, state summary_t1: state(summary)[t1]",
        "-- at t2, state status_t1_t2: sales_status[t1:t2]",
        "-- at t2, result result@t2: summary[t2]",
    ]
    assert output.count(";\n") == 3


@pytest.mark.usefixtures("planned")
def test_memo_trace_and_why():
    assert run("plan", str(JOB), "--memo").output == "memo of gross-revenue\n"
    assert run("plan", str(JOB), "--trace").output == "trace of gross-revenue\n"
    assert "merge_state" in run("plan", str(JOB), "--why", "summary[t2]").output
    unknown = run("plan", str(JOB), "--why", "nothing[t2]")
    assert (unknown.exit_code, unknown.stderr) == (2, "error: there is no view 'nothing[t2]'\n  hint: see --memo\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.yaml"], "error: cannot read the job file 'nowhere.yaml'"),
        ([str(JOB), "--methods", "IM7"], "error: unknown method 'IM7'"),
        ([str(JOB), "--objective", "quick"], "error: unknown objective 'quick'"),
        ([str(JOB), "--json", "--sql"], "error: --json and --sql cannot be shown at once"),
    ],
)
def test_mistakes_are_told_without_a_traceback(arguments: list[str], message: str, planned: list[Any]):
    result = run("plan", *arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith(message)
    assert "hint: " in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""
    assert planned == []


def test_options_without_effect_are_refused(tmp_path: Path, planned: list[Any]):
    job = tmp_path / "job.yaml"
    job.write_text(JOB.read_text().replace("policy: auto", "policy: full").replace("summary.sql", "select 1 as x"))
    result = run("plan", str(job), "--methods", "IM1")
    assert (result.exit_code, planned) == (2, []) and "policy is `full`" in result.stderr


def test_a_profile_that_could_not_be_written_is_not_measured(tmp_path: Path):
    for place, said in ((tmp_path, "cannot be written"), (tmp_path / "none/p.json", "there is no folder")):
        result = run("calibrate", "--out", str(place))
        assert result.exit_code == 2 and said in result.stderr


def test_an_error_in_one_of_several_queries_says_in_which(tmp_path: Path):
    job = tmp_path / "job.yaml"
    (tmp_path / "summary.sql").write_text("select 1 as x\n, wrong from sales")
    job.write_text(JOB.read_text())
    assert "(line 2, column 3 of the query)" in run("plan", str(job)).stderr
    job.write_text(JOB.read_text().replace("query: summary.sql", "queries: {a: select 1 as x, b: summary.sql}"))
    assert "error: query 'b': " in run("plan", str(job)).stderr


def test_all_mistakes_of_a_job_are_told(tmp_path: Path):
    job = tmp_path / "job.yaml"
    job.write_text(JOB.read_text().replace("price: 0.2", "price: -1").replace("policy: auto", "policy: never"))
    result = run("plan", str(job))
    assert result.exit_code == 2
    assert "error: job.yaml has 3 problems" in result.stderr
    for part in ("'summary.sql' is missing (line 4)", "below zero (line 14)", "unknown policy 'never' (line 18)"):
        assert part in result.stderr


def test_explanation_says_what_it_must():
    text = explain(hand_made_plan())
    for part in (
        "gross-revenue: total cost 11.8 (weighted), 43.8 % less than recomputing",
        "summary_t1    ●━━━○",
        "kept until t2",
        "merged with the change of summary at t2",
        "reads summary_t1 (from t1)",
        "2 rows, 64 B, cost 9; IM1",
        "IM1 final_of_state",
        "recomputing    21",
        "returns has no key",
        "stopped: no more firings",
    ):
        assert part in text
    lines = text.splitlines()
    bars = [next(line for line in lines if line.startswith(f"  {p} ")).count("█") for p in ("t1", "t2")]
    assert bars == [5, 32], "bars are as long as the cost"
    assert all(line == line.rstrip() for line in lines)


def test_methods_that_cost_the_same_share_a_line():
    plan = replace(hand_made_plan(), baselines={"full": 21.0, "IM1": 11.8, "IM2": 12.2, "OJV": 12.2, "HOV": math.inf})
    text = explain(plan)
    assert re.search(r"IM2, OJV alone +12.2 +\+3.39 %", text)
    assert re.search(r"HOV alone +∞ +no plan", text)


def test_dearer_than_recomputing_is_said():
    plan = replace(hand_made_plan(), baselines={"full": 5.9})
    assert "total cost 11.8 (weighted), 100 % more than recomputing" in explain(plan)


def test_reasons_are_grouped_in_the_text_and_whole_in_json():
    reasons = tuple(Reason(f"Project p{i}", "OJV", "it is not an outer join") for i in range(5))
    plan = replace(hand_made_plan(), reasons=reasons)
    assert re.search(r"OJV +it is not an outer join +Project p0, Project p1, Project p2 and 2 more", explain(plan))
    assert [(r["operator"], r["method"]) for r in to_json(plan)["reasons"]] == [(r.operator, "OJV") for r in reasons]


def test_states_are_spans_over_the_points():
    plan = hand_made_plan()
    runs = tuple(Run(f"t{i}", plan.runs[0].steps if i == 1 else ()) for i in range(1, 6))
    state = replace(plan.states[0], read_at=("t3", "t4"), bytes=100.0)
    late = replace(plan.states[0], name="late", written="t4", read_at=("t5",), bytes=50.0)
    text = explain(replace(plan, runs=runs, states=(state, late)))
    assert "states: 2, at most 100 B at once" in text, "the first is dropped when t4 is done, the second kept after it"
    assert "  summary_t1  ●━━━━━━━○━━━○     " in text
    assert "  late                    ●━━━○ " in text


def test_long_names_lose_their_middle():
    plan = hand_made_plan()
    long = replace(plan.states[0], name="a" * 30 + "b" * 30)
    assert "a" * 26 + "…" + "b" * 13 in explain(replace(plan, states=(long,)))


def test_colours_are_for_terminals_only():
    text = explain(hand_made_plan())
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured(text)) == text
    assert coloured(text) != text
    assert "\x1b" not in run("plan", str(JOB)).output


# The planner itself, on the example as it is shipped.


def test_the_example_is_planned_and_explained():
    result = run("plan", str(JOB), "--cost-model", "unit")
    assert result.exit_code == 0, result.output
    for heading in ("gross-revenue: total cost", "compared with", "states: ", "at t1: ", "at t2: ", "methods not used"):
        assert f"\n{heading}" in "\n" + result.output
    assert max(map(len, result.output.splitlines())) <= 200


KEYS = {
    "": {"name", "objective", "cost", "baselines", "runs", "states", "reasons", "notes", "planning"},
    "cost": {"total", "by_point", "work"},
    "baselines": {"full", "IM1", "IM2", "OJV", "HOV", "PART"},
    "runs": {"point", "steps"},
    "states": {"name", "view", "written", "read_at", "until", "rows", "bytes", "partition", "why"},
    "reasons": {"operator", "method", "reason"},
}
STEP = {
    "name", "kind", "view", "sql", "rows", "bytes", "cost", "methods", "columns", "weighted", "partition", "order",
    "reads", "operators",
}  # fmt: skip


def test_json_of_the_example_has_the_schema_and_every_reason():
    found = json.loads(run("plan", str(JOB), "--cost-model", "unit", "--json").output)
    for part, keys in KEYS.items():
        value = found[part] if part else found
        for entry in value if isinstance(value, list) else [value]:
            assert entry.keys() == keys, part
    steps = [step for r in found["runs"] for step in r["steps"]]
    assert all(step.keys() == STEP for step in steps)
    assert {step["kind"] for step in steps} == {"state", "result"}
    assert found["cost"]["total"] <= min(found["baselines"].values()) * (1 + 1e-9)
    used = {
        (re.sub(r"state\((.*)\)", r"\1", o["view"].rpartition("[")[0]), o["method"])
        for s in steps
        for o in s["operators"]
    }
    told = {(r["operator"].partition(" ")[2], r["method"]) for r in found["reasons"]}
    both = {(name, method) for name in ("result", "(sales ⟕ returns)") for method in KEYS["baselines"] - {"full"}}
    assert both <= used | told, "a method is used by an operator, or there is a reason"


def test_memo_trace_and_why_of_the_example():
    assert (
        "  [:] = LeftOuterJoin[o_id = o_id_1](sales[:], returns[:])  -- query" in run("plan", str(JOB), "--memo").output
    )
    trace = run("plan", str(JOB), "--trace", "--methods", "IM2").output
    assert " positive_left_outer_join (IM2) on (sales ⟕ returns)" in trace
    assert "(IM1)" not in trace
    why = run("plan", str(JOB), "--why", "result[t2]").output
    assert re.search(r"^-> .* -- \w+ \(\w+\)$", why, re.MULTILINE)
    assert "-> FinalState" in run("plan", str(JOB), "--cost-model", "unit", "--why", "result[t2]").output
    near = run("plan", str(JOB), "--why", "rsult[t2]")
    assert near.exit_code == 2
    assert "near are result[t2]" in near.stderr


def test_a_limit_on_the_last_run_that_only_recomputing_meets():
    """What recomputing meets is met, although avoiding it would not; and what other baselines cannot meet is no error."""
    least = json.loads(run("plan", str(JOB), "--objective", "latest-first", "--json").output)["cost"]["total"]
    shown = run("plan", str(JOB), "--objective", "latest-first").output
    assert shown.startswith(f"gross-revenue: work of the last run {number(least)} (latest-first)")
    assert "recomputing (last run)" in shown
    result = run("plan", str(JOB), "--objective", f"last-run-at-most:{least * 1.01}", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.output)["cost"]["work"]["t2"] <= least * 1.01
    below = run("plan", str(JOB), "--objective", f"last-run-at-most:{least / 2}")
    assert (below.exit_code, below.stdout) == (2, "")
    assert "no plan was found whose last run costs at most" in below.stderr


def test_json_of_a_plan_is_finite():
    assert json.loads(json.dumps(to_json(hand_made_plan()), allow_nan=False))["baselines"]["OJV"] is None


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (9, "9"), (11.8, "11.8"), (0.01234, "0.0123"), (8.5e-6, "<0.001"), (99.97, "100"), (1234, "1,234"), (4.56e6, "4.56 M"), (999_999, "1 M"), (2.5e13, "25 T"), (math.inf, "∞")],
)  # fmt: skip
def test_numbers(value: float, text: str):
    assert number(value) == text


@pytest.mark.parametrize(("value", "text"), [(0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (2.345e9, "2.35 GB")])
def test_sizes(value: float, text: str):
    assert size(value) == text
