"""Kills a run at its fault points, one after the other, and goes on after each: `python -m tests.spark.kill_all` takes all of them.

The fault points are found by a run that nobody kills. Every kill is that of a real process, forked from this one, which has all loaded and speaks to Spark through a
session that survives; what the dead one had Spark doing is cancelled, as it would end with a driver of its own. Then the next process runs the points that are due, checks
that no finished step was repeated, that results and states are right, and that nothing is left over.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

from py4j.java_gateway import java_import
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from tempura.job import Job
from tempura.spark import run
from tempura.spark.report import RunReport
from tempura.spark.session import session
from tempura.workspace import Workspace, faults, layout
from tests.spark.runjobs import arrive, interpreted, shop, verify

POINTS = ("t1", "t2", "t3")


def connected() -> SparkSession:
    """The session that the environment names."""
    from pyspark.java_gateway import launch_gateway

    gateway = launch_gateway()
    java_import(gateway.jvm, "org.apache.spark.api.java.*")
    java = gateway.jvm.org.apache.spark.SparkContext.getOrCreate()
    context = SparkContext(
        gateway=gateway, jsc=gateway.jvm.JavaSparkContext(java), conf=SparkConf(_jconf=java.getConf())
    )
    return SparkSession(context, gateway.jvm.org.apache.spark.sql.classic.SparkSession.active())


def address(spark: SparkSession) -> dict[str, str]:
    """The environment of a process that is to be connected to a session."""
    parameters = spark.sparkContext._gateway.gateway_parameters  # pyright: ignore
    return {"PYSPARK_GATEWAY_PORT": str(parameters.port), "PYSPARK_GATEWAY_SECRET": str(parameters.auth_token)}


def play(folder: Path, points: Sequence[str], spark: SparkSession) -> RunReport:
    """Run points, if they are due. At each, rows come, unless they have come before."""
    assert points
    with interpreted(spark):
        for point in points:
            at = POINTS.index(point) + 1
            if not (folder / f"returns/{at:03}.parquet").exists():
                arrive(folder, at, 5, ["o1-0", f"o{at}-1"][: at + 1])
            report = run.run(shop(folder), point, spark=spark, told=_log(folder))
    return report


def _log(folder: Path) -> Callable[[str], None]:
    def tell(line: str) -> None:
        with (folder / "told").open("a") as log:
            log.write(f"{line}\n")

    return tell


def go_on(folder: Path, points: Sequence[str]) -> None:
    """Run what is due, and check all: no finished step was done again, every result and state is right, no garbage is left."""
    spark = connected()
    spark.sparkContext.cancelAllJobs()
    workspace = Path(shop(folder).workspace)
    done = {path: path.read_bytes() for path in workspace.glob("runs/*.json")}
    pending = workspace / f"pending/{len(done) + 1}"
    finished = {json.loads(path.read_text())["step"]["name"] for path in pending.glob("steps/*.json")}
    checked = (pending / "checks.json").exists()
    (folder / "told").unlink(missing_ok=True)
    report = play(folder, points, spark)
    told = (folder / "told").read_text().splitlines() if (folder / "told").exists() else []
    started = [line.rpartition(" ")[2] for line in told if line.startswith("started ")]
    assert len(started) == len(set(started)) and not finished & set(started), (finished, told)
    due = [point for point in points if POINTS.index(point) >= len(done)]
    assert told.count("checking sales") == len(due) - checked, (checked, told)
    assert {path: path.read_bytes() for path in done} == done, "a committed run was changed"
    verify(spark, shop(folder), report)
    look(shop(folder), points[-1], finished)


def look(job: Job, last: str, finished: set[str]) -> None:
    """The runs are all there, have taken what was finished, and after a collection nothing else is left."""
    workspace = Workspace.open(job.workspace, job.name)
    runs = list(workspace.history())[::-1]
    assert [r.point for r in runs] == list(POINTS[: POINTS.index(last) + 1])
    reused = {step.name for r in runs for step in r.steps if step.reused}
    assert reused == finished, (reused, finished)
    with workspace.lock("gc"):
        workspace.collect()
    assert workspace.garbage() == () and workspace.holder() is None
    root = Path(job.workspace)
    kept = {f for e in (*runs[-1].states.values(), *(x for r in runs for x in r.results.values())) for f in e.folders}
    rows = {p.relative_to(root).as_posix() for kind in layout.ROWS for p in root.glob(f"{kind}/*/*-*") if p.is_dir()}
    assert rows == kept, (rows, kept)
    assert not list(root.rglob(".tmp-*")) and not list(root.rglob("_temporary"))


def forked(
    work: Callable[[Path, Sequence[str]], object], folder: Path, points: Sequence[str], *, fault: int = 0, log: str = ""
) -> int:
    """How a child that does some work ended; at a fault point it is killed."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            # Processes are killed here, not machines.
            os.fsync = lambda fd: None
            os.environ |= {"TEMPURA_FAULT": str(fault), "TEMPURA_FAULT_LOG": log}
            importlib.reload(faults)
            _rebind()
            work(folder, points)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _rebind() -> None:
    """Modules that have taken `fault` by name get the one that has read the environment."""
    for name, module in list(sys.modules.items()):
        if name.startswith("tempura.") and getattr(module, "fault", None) is not None and module is not faults:
            module.fault = faults.fault


def play_alone(folder: Path, points: Sequence[str]) -> None:
    play(folder, points, connected())


def sweep(folder: Path, sample: int | None) -> dict[str, object]:
    """Kill at all fault points, or at a number of them spread evenly; each time from a copy of what was there before the run."""
    reached: list[tuple[str, int, str]] = []
    (folder / "before t1").mkdir()
    for point, following in zip(POINTS, (*POINTS[1:], "the end"), strict=True):
        log, place = folder / f"{point}.log", folder / f"before {following}"
        shutil.copytree(folder / f"before {point}", place, symlinks=True)
        assert forked(play_alone, place, [point], log=str(log)) == 0
        reached += [(point, n, name) for n, name in enumerate(log.read_text().splitlines(), 1)]
    chosen = reached
    if sample is not None:
        chosen = [reached[round(i * (len(reached) - 1) / (sample - 1))] for i in range(sample)]
    for i, (point, number, name) in enumerate(chosen, 1):
        began, place = time.monotonic(), folder / "killed"
        shutil.copytree(folder / f"before {point}", place, symlinks=True)
        end = forked(play_alone, place, [point], fault=number)
        assert end == -signal.SIGKILL, (point, number, name, end)
        # In a sample, what comes after the run that was killed is left out.
        rest = [point] if sample is not None else POINTS[POINTS.index(point) :]
        assert forked(go_on, place, rest) == 0, f"at {point}, after a kill at {name!r}, something is wrong"
        shutil.rmtree(place)
        print(f"{i}/{len(chosen)} {point} {name}: {time.monotonic() - began:.1f} s", file=sys.stderr, flush=True)
    return {"points": [name for _, _, name in reached], "killed": [name for _, _, name in chosen]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sample", type=int, help="so many fault points instead of all")
    sample = parser.parse_args().sample
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps(sweep(Path(folder), sample)))
        return
    # Forking is for processes that have no connection to Spark themselves.
    spark = session(**{"spark.sql.shuffle.partitions": "2", "spark.driver.memory": "2g"})
    os.environ |= address(spark)
    code = os.spawnv(os.P_WAIT, sys.executable, [sys.executable, "-m", "tests.spark.kill_all", *sys.argv[1:]])
    spark.stop()
    sys.exit(code)


if __name__ == "__main__":
    main()
