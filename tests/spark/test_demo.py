"""The demo and the commands on Spark: a retailer's day in small."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

import tempura
from examples.retail import demo, generate
from tempura.cli import app
from tempura.workspace import Workspace
from tests.profiles import STEADY
from tests.spark.runjobs import interpreted


@pytest.fixture(scope="module", autouse=True)
def quick(spark: SparkSession) -> Iterator[None]:
    with interpreted(spark):
        yield


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The example with few orders, which is to keep states all the same, whatever is measured."""
    monkeypatch.setattr(generate, "ORDERS", {"14:00": 300, "19:00": 200, "24:00": 100})
    monkeypatch.setattr(generate, "LINES", 3)
    for name in ("job.yaml", "margin.sql"):
        shutil.copy(demo.HERE / name, tmp_path)
    with (tmp_path / "job.yaml").open("a") as job:
        job.write(f"policy: incremental\ncluster: {tmp_path / 'steady.json'}\n")
    (tmp_path / "steady.json").write_text(STEADY.to_json())
    return tmp_path


def tempura_(*arguments: str | Path):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def test_the_day_is_run_and_compared(spark: SparkSession, folder: Path, capsys: pytest.CaptureFixture[str]):
    assert demo.main(folder, spark) == 0
    shown = capsys.readouterr().out
    for said in (
        "retail: total cost",
        "at 14:00",
        "at 19:00",
        "at 24:00",
        "keeps ",
        "together",
        "recomputing",
        "the day costs",
    ):
        assert said in shown
    assert "the result is that of the batch query" in shown
    job = tempura.Job.load(folder / "job.yaml")
    runs = list(Workspace.open(job.workspace, job.name).history())
    assert [run.point for run in runs] == ["24:00", "19:00", "14:00"]
    assert any(state.read_at for run in runs for state in run.states.values()), "states are kept from run to run"

    delivered = tempura.run(job, at="24:00", spark=spark).result
    assert delivered is not None and delivered.count() == 24
    bill, same = demo.recompute(spark, job, delivered.limit(23), demo.Console())
    assert not same and bill.cpu > 0, "a row that is missing is noticed"


def test_late_returns_are_of_earlier_sales(folder: Path):
    generate.prepare(folder / "data")
    for point in generate.ORDERS:
        generate.arrive(point, folder / "data")
    sold = {
        p: set(pq.read_table(folder / "data/sales" / p)["order_id"].to_pylist()) for p in ("14-00", "19-00", "24-00")
    }
    back = {p: pq.read_table(folder / "data/returns" / p)["order_id"].to_pylist() for p in sold}
    assert (
        set(back["19-00"]) & sold["14-00"] and set(back["24-00"]) & sold["14-00"] and set(back["24-00"]) & sold["19-00"]
    )
    everything = [order for orders in back.values() for order in orders]
    assert len(everything) == len(set(everything)), "an order is returned once"
    assert not set(back["14-00"]) & (sold["19-00"] | sold["24-00"])


def test_commands(spark: SparkSession, folder: Path):
    """Run, repeat, look, verify, collect, reset, with one job."""
    generate.prepare(folder / "data")
    generate.arrive("14:00", folder / "data")
    job = folder / "job.yaml"

    dry = tempura_("run", job, "--dry-run")
    assert dry.exit_code == 0, dry.output
    assert (
        "what would be done at 14:00; nothing was done" in dry.output and "at 24:00: 1 result delivered" in dry.output
    )
    assert not list(Workspace.open(folder / ".tempura/retail", "retail").history())

    first = tempura_("run", job, "--at", "14:00")
    assert first.exit_code == 0, first.output
    assert "run 1 at 14:00" in first.output and "nothing was worth doing yet" in first.output
    again = tempura_("run", job, "--at", "14:00")
    assert again.exit_code == 0 and "14:00 was run at 20" in again.output and "nothing to do" in again.output

    generate.arrive("19:00", folder / "data")
    second = tempura_("run", job)
    assert "✓ state" in second.output and "run 2 at 19:00" in second.output and "besides the steps" in second.output
    assert "  keeps " in second.output and " for 24:00" in second.output
    standing = tempura_("status", job).output
    assert "next is 24:00" in standing and "results: none yet" in standing and re.search(r"states: [1-9]", standing)

    generate.arrive("24:00", folder / "data")
    rest = tempura_("run", job, "--until", "24:00", "--json")
    assert rest.exit_code == 0, rest.output
    found = json.loads(rest.stdout)
    assert [(r["point"], r["status"]) for r in found["runs"]] == [("24:00", "done")]
    assert found["runs"][0]["results"][0]["rows"] == 24 and found["runs"][0]["measured"]["cpu_seconds"] > 0
    assert "retail at 24:00" in rest.stderr
    late = tempura_("run", job)
    assert late.exit_code == 0 and "24:00 was run at" in late.output

    status = tempura_("status", job)
    assert "all points are done" in status.output and "results/result/latest" in status.output
    runs = tempura_("status", job, "--runs")
    assert runs.output == tempura_("explain", job, "--runs").output
    assert "run 2 at 19:00" in runs.output and "result result@24:00" in runs.output

    verified = tempura_("verify", job)
    assert verified.exit_code == 0, verified.output
    assert verified.output == "result of 24:00: the same; 24 rows published, 24 by the batch query\n"
    assert tempura_("gc", job).output == "nothing to free\n"
    reset = tempura_("reset", job)
    assert reset.exit_code == 0 and "the next point is 14:00" in reset.output and "(24 rows) stays: " in reset.output
    assert "next is 14:00" in tempura_("status", job).output
    assert tempura_("verify", job).exit_code == 0, "results stay, and can still be verified"


def test_a_step_that_fails_ends_with_a_message(spark: SparkSession, folder: Path):
    generate.prepare(folder / "data")
    generate.arrive("14:00", folder / "data")
    job = folder / "job.yaml"
    text = (folder / "margin.sql").read_text().replace("COUNT(refund)", "SUM(CAST(region AS INT))")
    (folder / "margin.sql").write_text(text)
    job.write_text(job.read_text().replace('price: 0.25, upto: "14-00"', 'price: 0.25, upto: "14-00", deliver: true'))
    failed = tempura_("run", job)
    assert failed.exit_code == 1
    assert "error: Spark cannot run result@14:00: " in failed.stderr and "CAST_INVALID_INPUT" in failed.stderr
    assert "Traceback" not in failed.output and "\tat " not in failed.output
    pending = tempura_("status", job)
    assert "the run at 14:00 was begun" in pending.output
