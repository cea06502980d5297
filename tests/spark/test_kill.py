"""Runs that are killed: at fault points spread over a whole job, and in the middle of a write, with a driver of their own.

`python -m tests.spark.kill_all` (`make test-kill`) kills at every one.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession

from tempura.spark.run import run
from tempura.workspace import Workspace
from tests.spark.kill_all import address
from tests.spark.runjobs import QUICK, SALES, arrive, put, shop, verify

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = 4
ENVIRONMENT = {**os.environ, **QUICK, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}


def test_killed_at_fault_points(spark: SparkSession):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.spark.kill_all", "--sample", str(SAMPLE)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**ENVIRONMENT, **address(spark)},
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    points = report["points"]
    for kind in ("write", "name", "wrote", "delete", "deleted", "link", "linked", "before", "after"):
        assert any(point.startswith(f"{kind} ") for point in points), f"no fault point of the kind {kind}"
    assert {"before the checks", "after the checks", "before result@t2", "after the delta of result"} <= set(points)
    assert [point for point in points if point.startswith("wrote runs/")] == [f"wrote runs/{n}.json" for n in (1, 2, 3)]
    assert len(report["killed"]) == SAMPLE and len(points) > 80


ALONE = """
import sys
from tempura.spark.run import run
from tests.spark.runjobs import Path, shop

run(shop(Path(sys.argv[1])), "t1")
"""


def test_killed_in_the_middle_of_a_write(spark: SparkSession, tmp_path: Path):
    """A process with a driver of its own is killed while Spark writes; both are gone, and the next run takes over."""
    arrive(tmp_path, 1, 8, ["o1-0"])
    put(tmp_path / "sales/000.parquet", SALES, [(f"x{i}", f"c{i % 7}", None, 0) for i in range(300_000)])
    job = shop(tmp_path)
    child = subprocess.Popen([sys.executable, "-c", ALONE, str(tmp_path)], cwd=ROOT, env=ENVIRONMENT)
    try:
        deadline = time.monotonic() + 120
        while not list(Path(job.workspace).glob("states/*/*/_temporary")):
            assert child.poll() is None and time.monotonic() < deadline, "the run ended before it could be killed"
            time.sleep(0.001)
    finally:
        child.kill()
    assert child.wait() == -signal.SIGKILL
    workspace = Workspace.open(job.workspace, job.name)
    assert workspace.latest() is None and workspace.pending() is not None
    report = run(job, "t1", spark=spark)
    verify(spark, job, report)
    assert workspace.garbage() == ()
