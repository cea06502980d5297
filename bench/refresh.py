"""Is it really cheaper? The last run of a refresh against recomputing, on Spark, in one warm session, the two alternating.

The data arrive in two parts, four fifths and one fifth (delta-small). Each round runs the first point (not counted), then the last one, then the batch
query on the same files, which writes its result as well. CPU is that of the whole JVM: tasks, planning, compiling and garbage collection.
"""

from __future__ import annotations

import json
import platform
import shutil
import statistics
import tempfile
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from bench import _arrivals
from tempura.algebra.physical import snapshot_name
from tempura.spark.measure import jvm_seconds
from tempura.spark.reading import read
from tempura.spark.run import run as run_point
from tempura.spark.session import session
from tempura.timeline import Timeline

STAR = """
SELECT d_year, i_category, s_state, SUM(ss_ext_sales_price) AS sales, COUNT(*) AS items
FROM store_sales JOIN date_dim ON ss_sold_date_sk = d_date_sk JOIN item ON ss_item_sk = i_item_sk JOIN store ON ss_store_sk = s_store_sk
GROUP BY d_year, i_category, s_state
"""
QUERIES: dict[str, int | str] = {"star": STAR, "q40": 40, "q10": 10, "q35": 35, "q80": 80, "q93": 93}
MOST = 1.05
"""No refresh may cost more than this share of recomputing."""
AIM = 0.35


@dataclass
class Figures:
    """CPU seconds of the JVM in each round."""

    last: list[float] = field(default_factory=list[float])
    batch: list[float] = field(default_factory=list[float])
    steps: int = 0
    """Jobs that write, in the last run."""
    states: int = 0
    overhead: list[float] = field(default_factory=list[float])
    """Seconds on the clock around Spark's own jobs: pinning, planning, committing."""

    @property
    def ratio(self) -> float:
        return statistics.median(self.last) / statistics.median(self.batch)


def run(
    sf: Annotated[float, typer.Option(help="Scale factor; claims need 5 or more.")] = 5.0,
    queries: Annotated[str, typer.Option(help="Of star,q40,q10,q35,q80,q93.")] = ",".join(QUERIES),
    rounds: Annotated[int, typer.Option(help="How often each is measured, after one round to warm up.")] = 3,
    policy: Annotated[str, typer.Option(help="auto, incremental, full.")] = "auto",
    out: Annotated[Path | None, typer.Option(help="A folder for the figures as JSON.")] = None,
) -> None:
    """CPU of the last run of a refresh over CPU of recomputing."""
    console = Console()
    spark = session()
    shown = Table(title=f"TPC-DS at scale factor {sf:g}, delta-small, two points, policy {policy}, {rounds} rounds")
    for column in (
        "query",
        "batch CPU s",
        "last run CPU s",
        "ratio",
        "steps",
        "states",
        "around jobs s",
        f"aim {AIM}, at most {MOST}",
    ):
        shown.add_column(column, justify="left" if column == "query" else "right")
    figures: dict[str, Figures] = {}
    for name in queries.split(","):
        found = figures[name] = _measured(spark, QUERIES[name], sf, policy, rounds, console, name)
        verdict = "met" if found.ratio <= AIM else "kept" if found.ratio <= MOST else "NOT KEPT"
        shown.add_row(
            name, f"{statistics.median(found.batch):.2f}", f"{statistics.median(found.last):.2f}", f"{found.ratio:.2f}",
            str(found.steps), str(found.states), f"{statistics.median(found.overhead):.2f}", verdict,
        )  # fmt: skip
    console.print(shown)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        document: dict[str, Any] = {
            "sf": sf, "policy": policy, "rounds": rounds, "date": datetime.now(UTC).isoformat(), "machine": platform.platform(),
            "spark": spark.version, "figures": {name: vars(f) | {"ratio": f.ratio} for name, f in figures.items()},
        }  # fmt: skip
        (out / "refresh.json").write_text(json.dumps(document, indent=1))


def _measured(
    spark: SparkSession, query: int | str, sf: float, policy: str, rounds: int, console: Console, name: str
) -> Figures:
    found = Figures()
    for n in range(rounds + 1):
        folder = Path(tempfile.mkdtemp(prefix="tempura-refresh-"))
        try:
            job = _arrivals.job(
                query,
                sf,
                "delta-small",
                Timeline.refresh(),
                folder / "workspace",
                policy=policy,
                objective="latest-first",
            )
            run_point(job, "t1", spark=spark)
            before = jvm_seconds()
            done = run_point(job, "t2", spark=spark)
            between = jvm_seconds()
            assert done.course is not None and done.file is not None
            for table in job.catalog:
                name_now = snapshot_name(job.catalog[table].name, done.course.point)
                read(spark, done.course.readings([name_now])[name_now], table).createOrReplaceTempView(table)
            spark.sql(job.queries["result"]).write.parquet(str(folder / "batch"))
            after = jvm_seconds()
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        assert before is not None and between is not None and after is not None
        console.print(f"{name} round {n}: last run {between - before:.2f} s, batch {after - between:.2f} s CPU")
        if n:
            found.last.append(between - before)
            found.batch.append(after - between)
            found.overhead.append(done.seconds["planning"] + done.seconds["rest"])
        found.steps = len(done.steps)
        found.states = len(done.file.states)
    return found
