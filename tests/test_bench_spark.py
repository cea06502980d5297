"""What the benchmarks on Spark share, on little data: every point and recomputing are measured, taking turns, and plans that are the same only once."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark.sql import DataFrame, SparkSession

from bench import _arrivals, _real, _spark, calibration, real_sensitivity
from bench._record import ALL, FULL, PLAN, experiment
from bench._spark import Gauge, Workbench, close, course, folder, median, raced, weighted
from tempura.estimate.profile import DEFAULT
from tempura.job import Job
from tempura.job.shapes import METHODS, Policy
from tempura.spark.session import session
from tempura.timeline import Timeline

SETTINGS = {
    "spark.master": "local[2]",
    "spark.default.parallelism": "2",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "2g",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
}
VIEW = "SELECT cr_reason_sk, SUM(cr_return_amount) AS returned FROM catalog_returns GROUP BY cr_reason_sk"


@pytest.fixture(scope="module")
def bench() -> Iterator[Workbench]:
    """A workbench that is not warmed up, on the session that is there or on one of its own."""
    there = SparkSession.getActiveSession()
    started = there or session(**SETTINGS)
    yield Workbench(warm_ups=0)
    if there is None:
        started.stop()


def test_a_gauge_counts_all_that_is_done_meanwhile(bench: Workbench):
    gauge = Gauge(bench.spark)
    with folder() as place:
        gauge.spark.range(1000).write.parquet(str(place / "rows"))
        spent, count = gauge.spent(lambda: gauge.spark.read.parquet(str(place / "rows")).where("id >= 0").count())
    assert count == 1000
    assert spent.rows_read == 1000 and spent.jobs >= 1 and spent.bytes_read > 0
    assert spent.task_cpu > 0 and spent.jvm_cpu >= 0 and spent.wall > 0
    nothing, _ = gauge.spent(lambda: None)
    assert (nothing.rows_read, nothing.jobs, nothing.task_cpu) == (0, 0, 0)


def test_a_job_and_recomputing_take_turns(bench: Workbench):
    def place(workspace: Path, policy: Policy) -> Job:
        prices = Timeline.warehouse([0.25, 0.3, 1.0])
        return _arrivals.job(VIEW, 0.01, _arrivals.DAY, prices, workspace, policy=policy)

    found = bench.turns({ALL: partial(place, policy="auto"), PLAN: partial(place, policy="full")}, rounds=1, warm=0)
    assert list(found) == [ALL, PLAN, FULL] and found[ALL]["right"] and found[PLAN]["right"]
    assert list(found[ALL]["points"]) == ["t1", "t2", "t3"]
    assert list(found[PLAN]["points"]) == list(found[FULL]["points"]) == ["t3"], "recomputing waits for all rows"
    assert found[PLAN]["points"]["t3"]["rows_read"] == found[FULL]["points"]["t3"]["rows_read"]
    recomputed = found[FULL]["points"]["t3"]
    assert recomputed["rows_read"] > 1000 and recomputed["bytes_written"] > 0
    assert weighted(found[FULL]["points"], "task_cpu") == recomputed["task_cpu"]


def test_the_last_run_alone_goes_on_from_what_was_run_once(bench: Workbench, monkeypatch: pytest.MonkeyPatch):
    went: list[str] = []
    alone = _real.method_jobs(VIEW, 0.01, "delta-small", Timeline.refresh(), "latest-first")["IM1"]
    real = _spark.run_point
    monkeypatch.setattr(_spark, "run_point", lambda job, at, **how: went.append(at) or real(job, at, **how))
    with folder() as where:
        found = bench.turns({ALL: alone}, rounds=2, warm=1, begun=bench.begin({ALL: alone}, where))
    assert went == ["t1", "t2", "t2", "t2"]
    assert list(found[ALL]["points"]) == ["t2"] and found[ALL]["right"]
    assert found[ALL]["points"]["t2"]["rows_read"] < found[FULL]["points"]["t2"]["rows_read"], "it reads what is new"


def test_a_result_that_is_wrong_in_the_last_round_only_is_wrong(bench: Workbench, monkeypatch: pytest.MonkeyPatch):
    held: list[bool] = []

    def compare(result: DataFrame, expected: DataFrame) -> SimpleNamespace:
        held.append(result.exceptAll(expected).isEmpty() and expected.exceptAll(result).isEmpty())
        return SimpleNamespace(differing=len(held) > 1)

    monkeypatch.setattr(_spark, "compare", compare)
    alone = _real.method_jobs(VIEW, 0.01, "delta-small", Timeline.refresh(), "latest-first")["IM1"]
    found = bench.turns({ALL: alone}, rounds=2, warm=1)
    assert held == [True, True], "the first round and the last, with what both compare still there"
    assert not found[ALL]["right"]


def test_each_method_is_planned_and_equal_plans_are_found():
    jobs = _real.method_jobs(VIEW, 0.01, "delta-small", Timeline.refresh(), "latest-first")
    assert list(jobs) == [ALL, *METHODS]
    same = _real.by_plan(jobs)
    assert sorted(name for names in same.values() for name in names) == sorted(jobs)
    assert len(same) < len(jobs)
    assert set(_real.recomputing_work(jobs[ALL])) == {"t1", "t2"}


def test_methods_that_take_turns_say_which_round_it_is(
    bench: Workbench, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    every = _real.method_jobs(VIEW, 0.01, "delta-small", Timeline.refresh(), "latest-first")
    jobs = {name: every[name] for name in (ALL, "IM1")}
    found = experiment("real-ivm", 0.01, tmp_path)
    cells = _real.cells(found, bench, "view", jobs, rounds=1)
    assert list(cells) == [ALL, "IM1", FULL] and all(cell["right"] for cell in cells.values())
    told = capsys.readouterr().out.splitlines()
    assert told[0] == "  view: 2 jobs are planned"
    rounds = [line for line in told if ", round " in line]
    assert len(set(rounds)) == len(rounds)
    for name in (ALL, FULL):
        assert [line for line in rounds if line.endswith(f": {name}")] == [
            f"  view, round {n}: {name}" for n in (1, 2, 3)
        ]


def test_what_is_kept_for_later_points_is_weighed(bench: Workbench):
    with folder() as place:
        alone = _real.method_jobs(VIEW, 0.01, "delta-small", Timeline.refresh(), "latest-first")["IM1"](place / "w")
        points, _ = course(Gauge(bench.spark), alone)
        written = sum(file.stat().st_size for file in (place / "w").rglob("*.parquet"))
    assert 0 < points["t1"]["state_bytes"] < written
    assert points["t2"]["state_bytes"] == 0, "there is no later point"


def test_a_job_that_expects_other_rows_reads_the_same():
    jobs = real_sensitivity._jobs(VIEW, 0.01, "delta-big", "delta-small")
    assert list(jobs) == [ALL, real_sensitivity.MISTOLD, *METHODS]
    right, wrong = (jobs[name](Path("w")) for name in (ALL, real_sensitivity.MISTOLD))
    other = _arrivals.job(VIEW, 0.01, "delta-small", Timeline.refresh(), "w")
    table = "catalog_returns"
    assert wrong.sources == right.sources != other.sources
    assert wrong.catalog[table].arrives == other.catalog[table].arrives != right.catalog[table].arrives


def test_dealt_parts_make_up_history_and_delta():
    small, large = (_arrivals.job(VIEW, 0.01, _arrivals.growing(n), Timeline.refresh(), "w") for n in (1, 16))
    for job, history in ((small, 4), (large, 64)):
        source, expected = job.sources["catalog_returns"], job.catalog["catalog_returns"].arrives
        first, last = (source.pin(None, point.upto) for point in job.timeline.points)
        came, new = source.change(None, first).inserted, source.change(first, last).inserted
        assert expected["t1"] == pytest.approx(history * expected["t2"])
        assert came == pytest.approx(expected["t1"], rel=0.3) and new == pytest.approx(expected["t2"], rel=0.6)
    deltas = [job.sources["catalog_returns"].pin(None, job.timeline.points[1].upto) for job in (small, large)]
    rows = [job.sources["catalog_returns"].statistics(v).rows for job, v in zip((small, large), deltas, strict=True)]
    assert rows[0] is not None and rows[1] is not None and rows[0] < rows[1] / 8


def test_a_race_goes_on_with_the_first_and_with_who_is_close_by_either_kind_of_cpu():
    pairs = {"all": (9.0, 9.0), "a": (1.0, 2.0), "b": (1.4, 4.0), "c": (1.6, 3.1), "d": (4.0, 2.9)}
    taken = {name: {"task_cpu": tasks, "jvm_cpu": jvm} for name, (tasks, jvm) in pairs.items()}
    assert close(taken, 1.5) == ["all", "a", "b", "d"]
    assert close(taken, math.inf) == list(taken)


def test_a_race_is_about_the_last_run_or_about_all_at_their_prices():
    points = {
        "t1": {"task_cpu": 4.0, "jvm_cpu": 6.0, "price": 0.5},
        "t2": {"task_cpu": 1.0, "jvm_cpu": 2.0, "price": 1.0},
    }
    assert raced(points, weigh=False) == {"task_cpu": 1, "jvm_cpu": 2}
    assert raced(points, weigh=True) == {"task_cpu": 3, "jvm_cpu": 5}


def test_a_query_has_the_tables_it_names_and_no_others():
    named = "SELECT ss_item_sk FROM Store_Sales JOIN (SELECT d_date_sk FROM date_dim) ON ss_sold_date_sk = d_date_sk"
    job = _arrivals.job(named, 0.01, "delta-small", Timeline.refresh(), "w")
    assert set(job.catalog) == set(job.sources) == {"store_sales", "date_dim"}


def test_recomputing_is_charged_for_the_batch_query_as_it_stands(bench: Workbench, monkeypatch: pytest.MonkeyPatch):
    analysed: list[str] = []
    over = _spark.over
    monkeypatch.setattr(_spark, "over", lambda spark, text, frames: analysed.append(text) or over(spark, text, frames))
    limited = "SELECT cr_item_sk, cr_return_amount FROM catalog_returns ORDER BY cr_return_amount DESC LIMIT 10"
    job = _arrivals.job(limited, 0.01, "delta-small", Timeline.refresh(), "w")
    with folder() as place:
        work = _spark.recomputing(bench.spark, job, job.timeline.points[-1], place)
        assert not analysed, "which of equal rows a LIMIT takes was settled before"
        assert work().count() == 10 and len(analysed) == 1
    assert "ORDER BY cr_return_amount DESC" in analysed[0] and analysed[0] != limited


def test_medians_of_rounds():
    rounds = [
        {"a": {"cpu": 1.0}, "right": True},
        {"a": {"cpu": 5.0}, "right": False},
        {"a": {"cpu": 2.0}, "right": True},
    ]
    assert median(rounds) == {"a": {"cpu": 2.0}, "right": False}


def test_a_run_is_held_against_every_profile(bench: Workbench):
    profiles = {calibration.GUESS: calibration.GUESSED, calibration.SHIPPED: DEFAULT, calibration.HERE: DEFAULT}
    found = calibration._measured(bench, 3, "auto", 0.01, 1, profiles)  # pyright: ignore[reportPrivateUsage]
    assert set(found) <= {"t1", "t2"} and "t2" in found
    for taken in found.values():
        assert taken["measured"] > 0 and taken["guessed"] > 0 and taken["shipped"] > 0
        assert taken["guessed"] != taken["shipped"]
        assert taken["steps"] and all(0 < step["shipped"] < taken["shipped"] for step in taken["steps"].values())
