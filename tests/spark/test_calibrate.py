"""Calibration: costs tell what they are made of, the fit finds the coefficients behind them, and the trials tell all of them."""

from __future__ import annotations

import errno
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

import tempura.spark.calibrate as package
from tempura.cli import app
from tempura.estimate.profile import COEFFICIENTS, DEFAULT, Profile
from tempura.job import Job
from tempura.optimizer import plan
from tempura.spark.calibrate import Calibration, CalibrationError, calibrate
from tempura.spark.calibrate.calibration import Laboratory, _is_local, _obedient
from tempura.spark.calibrate.charge import amounts, itemized, priced
from tempura.spark.calibrate.fit import Observation, disagreement, fitted
from tempura.spark.calibrate.tables import Shop
from tempura.spark.calibrate.trials import trials
from tests.running_example import JOB

SHOP = Shop("nowhere", 2_000_000)


def charged(profile: Profile = DEFAULT) -> list[tuple[str, dict[str, float], float]]:
    """What the runs of all trials are made of, by their plans alone."""
    laboratory = Laboratory(None, SHOP, itemized(profile))  # type: ignore[arg-type]
    found = []
    for trial in trials():
        job = replace(laboratory._job(trial, "nowhere"), sources={})
        for run in plan(job, baselines=False).runs:
            cost = sum(step.cost for step in run.steps)
            found.append((f"{trial.name} at {run.point}", amounts(cost), float(cost)))
    return found


def observations(truth: Profile) -> list[Observation]:
    return [Observation(name, found, priced(found, truth)) for name, found, _ in charged()]


# Costs that know what they are made of.


def test_a_cost_is_the_price_of_its_amounts():
    for name, found, cost in charged():
        assert priced(found, DEFAULT) == pytest.approx(cost, rel=1e-6), name


def test_itemizing_changes_no_plan():
    job = Job.load(JOB)
    plain, itemised = plan(job), plan(replace(job, cluster=itemized(DEFAULT)))
    assert [s.sql for r in plain.runs for s in r.steps] == [s.sql for r in itemised.runs for s in r.steps]
    assert plain.cost.total == itemised.cost.total
    assert amounts(plain.cost.total) == {}


def test_amounts_are_linear():
    p = itemized(Profile(job=0.5, scan_row=2e-7, file=0.1))
    cost = (3e6 * p.scan_row + p.job / 2) * 2 + 1.0 + sum([p.file, p.file])
    assert amounts(cost) == {"scan_row": 6e6, "job": 1.0, "file": 2.0}
    assert cost == pytest.approx(1.2 + 0.5 + 1.0 + 0.2)


# The fit.


def test_every_coefficient_is_told_by_some_trial():
    told = {name for _, found, _ in charged() for name in found}
    assert told == set(COEFFICIENTS)


def test_the_fit_finds_the_profile_behind_the_figures():
    truth = replace(DEFAULT, **{n: getattr(DEFAULT, n) * (0.5, 1.0, 3.0)[i % 3] for i, n in enumerate(COEFFICIENTS)})
    observed = observations(truth)
    found = fitted(observed, DEFAULT)
    assert disagreement(observed, found) < min(0.05, disagreement(observed, DEFAULT) / 2)
    for name in (
        "broadcast",
        "column",
        "file",
        "exchange_row",
        "save_byte",
        "group_row",
        "window_row",
        "merge_compared_row",
    ):
        assert getattr(found, name) == pytest.approx(getattr(truth, name), rel=0.2), "it is much of some trial"
    assert found.cores == DEFAULT.cores


def test_on_a_machine_half_as_fast_everything_is_twice_as_dear():
    twice = replace(DEFAULT, **{n: 2 * getattr(DEFAULT, n) for n in COEFFICIENTS})
    found = fitted(observations(twice), DEFAULT)
    for name in COEFFICIENTS:
        assert getattr(found, name) == pytest.approx(getattr(twice, name), rel=1e-3), name


def test_what_no_trial_tells_keeps_its_proportion():
    twice = 2 * DEFAULT.job
    observed = [Observation("jobs", {"job": 1.0}, twice), Observation("more jobs", {"job": 3.0}, 3 * twice)]
    found = fitted(observed, DEFAULT)
    assert found.job == pytest.approx(twice)
    assert found.scan_row == pytest.approx(2 * DEFAULT.scan_row)


def test_nothing_becomes_free():
    observed = [Observation(str(n), {"job": 1.0, "file": n}, DEFAULT.job) for n in (5.0, 50.0)]
    assert 0 < fitted(observed, DEFAULT).file < DEFAULT.file


# The whole.


def test_a_calibration_on_a_session(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    few = [t for t in trials() if t.name in ("copy of a handful", "star, few rows", "kept groups")]
    monkeypatch.setattr("tempura.spark.calibrate.calibration.trials", lambda: iter(few))
    said: list[tuple[str, int, int]] = []
    found = calibrate(spark, sales=2000, rounds=1, folder=str(tmp_path), told=lambda *told: said.append(told))
    assert [o.name for o in found.observed] == [*(t.name for t in few[:2]), "kept groups at t1", "kept groups at t2"]
    assert all(o.seconds > 0 and o.amounts["job"] >= 1 for o in found.observed)
    assert list(tmp_path.iterdir()) == []
    assert (said[0], said[-1][1:]) == (("making tables", 0, 10), (9, 10))
    assert (found.profile.cores, found.profile.buckets) == (2, 2)
    document = json.loads(found.to_json())
    assert Profile.from_json(found.to_json()) == found.profile
    assert document["measured"]["versions"]["spark"] == spark.version
    assert {"java", "python", "tempura"} < document["measured"]["versions"].keys()
    assert document["measured"]["trials"].keys() == {o.name for o in found.observed}


def test_joins_are_carried_out_as_planned_meanwhile(spark: SparkSession):
    adaptive = "spark.sql.adaptive.autoBroadcastJoinThreshold"
    before = spark.conf.get("spark.sql.autoBroadcastJoinThreshold")
    spark.conf.set(adaptive, "64m")
    with _obedient(spark):
        assert (spark.conf.get("spark.sql.autoBroadcastJoinThreshold"), spark.conf.get(adaptive)) == ("-1", "-1")
    assert (spark.conf.get("spark.sql.autoBroadcastJoinThreshold"), spark.conf.get(adaptive)) == (before, "64m")
    spark.conf.unset(adaptive)
    with _obedient(spark):
        assert spark.conf.get(adaptive) == "-1"
    assert spark.conf.get(adaptive, None) is None


@pytest.mark.parametrize(("master", "local"), [("local", True), ("local[2]", True), ("local-cluster[2,1,1024]", False)])
def test_where_tasks_run(master: str, local: bool):
    assert _is_local(SimpleNamespace(conf={"spark.master": master})) is local  # type: ignore[arg-type]


def test_without_figures_of_the_tasks_there_is_no_calibration(spark: SparkSession, monkeypatch: pytest.MonkeyPatch):
    class Report:
        steps = ()

    laboratory = Laboratory(spark, SHOP, DEFAULT)
    monkeypatch.setattr("tempura.spark.calibrate.calibration._is_local", lambda spark: False)
    assert laboratory._took(Report(), 1.0, 1.5) == 0.5  # type: ignore[arg-type]
    Report.steps = (type("Entry", (), {"measured": {"cpu_seconds": 2.0}}),)  # type: ignore[assignment]
    assert laboratory._took(Report(), 1.0, 1.5) == 2.5, "the driver's CPU counts, too"  # type: ignore[arg-type]
    with pytest.raises(CalibrationError, match="driver's Java process is not known"):
        laboratory._took(Report(), None, None)  # type: ignore[arg-type]
    Report.steps = (type("Entry", (), {"measured": {"cpu_seconds": None}}),)  # type: ignore[assignment]
    with pytest.raises(CalibrationError, match="does not tell"):
        laboratory._took(Report(), 1.0, 1.5)  # type: ignore[arg-type]


def test_what_cannot_be_measured_is_told_before_anything_is_made(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("tempura.spark.calibrate.calibration.jvm_seconds", lambda: None)
    said: list[str] = []
    with pytest.raises(CalibrationError, match="driver's Java process is not known"):
        calibrate(spark, folder=str(tmp_path), told=lambda what, *parts: said.append(what))
    assert said == [] and list(tmp_path.iterdir()) == []


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Calibration:
    """What the command gets instead of a calibration, which takes minutes."""
    observed = (Observation("some trial", {"job": 1.0}, 2 * DEFAULT.job),)
    found = Calibration(
        fitted(observed, DEFAULT), DEFAULT, observed, {"spark": "4.3.0"}, 3, 1000, "2026-11-15T15:00:00+00:00"
    )
    monkeypatch.setattr(package, "calibrate", lambda **options: found)
    return found


def test_the_command_writes_a_profile_that_a_job_can_name(measured: Calibration, tmp_path: Path):
    out = tmp_path / "here.json"
    result = CliRunner().invoke(app, ["calibrate", "--out", str(out), "--trials"])
    assert result.exit_code == 0, result.output
    assert (
        "1 trials: the model errs by 50% in the median as shipped, and by 0% with what was just fitted" in result.output
    )
    assert "some trial" in result.output
    text = JOB.read_text().replace("query: summary.sql", f"query: {JOB.parent}/summary.sql\ncluster: here.json")
    (tmp_path / "job.yaml").write_text(text)
    assert Job.load(tmp_path / "job.yaml").cluster == measured.profile


def test_the_command_refuses_before_it_measures(measured: Calibration, tmp_path: Path):
    result = CliRunner().invoke(app, ["calibrate", "--out", str(tmp_path / "nowhere/here.json")])
    assert result.exit_code == 2
    assert "there is no folder" in result.output


def test_what_was_measured_is_shown_where_it_cannot_be_written(
    measured: Calibration, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def full(*told: object, **options: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    result = CliRunner().invoke(app, ["calibrate", "--out", str(tmp_path / "here.json")])
    assert result.exit_code == 1
    assert (
        "cannot be written: No space left on device" in result.output and f"{measured.profile.job:.2e}" in result.output
    )
    assert "wrote" not in result.output


def test_trials_have_names_of_their_own():
    names = [trial.name for trial in trials()]
    assert len(set(names)) == len(names)
