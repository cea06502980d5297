"""TPC-DS on Spark, through whole runs: every query, planned and run point by point over files that arrive, each result compared with the batch query.

    python -m tests.spark.tpcds_spark --sf 0.1 --queries q1,q3-q7 --patterns delta-small

What is done is written to `.cache/grid/`, one line of JSON per query and pattern, and not done again while the code stays the same, unless it was wrong.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from pyspark.sql import SparkSession
from rich.console import Console

from bench import _arrivals
from tempura.schema import Column
from tempura.spark.reading import read_rows
from tempura.spark.run import RunReport, run
from tempura.spark.session import session
from tempura.spark.states import States
from tempura.spark.steps import frame
from tempura.spark.verify import verify
from tempura.timeline import Timeline
from tests.spark.sparkrun import _definition, _difference  # pyright: ignore[reportPrivateUsage]
from tests.tpcds_grid import FOLDER, code_version, earlier, query_numbers

SETTINGS = {
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}
"""Each query runs once, on little: compiling it and planning it again while it runs would take longer than running it."""
PRICES = {"14:00": 0.25, "19:00": 0.3, "24:00": 1.0}


def run_query(
    spark: SparkSession, query: int, sf: float, pattern: str, policy: str = "auto", timeline: Timeline | None = None
) -> dict[str, Any]:
    """Run all points; what was compared, and what differs."""
    workspace = Path(tempfile.mkdtemp(prefix="tempura-tpcds-"))
    record: dict[str, Any] = {"results": 0, "empty": 0, "states": 0, "loaded": 0, "steps": 0, "problems": []}
    started = time.perf_counter()
    try:
        job = _arrivals.job(query, sf, pattern, timeline or Timeline.warehouse(PRICES), workspace / "w", policy=policy)
        known: set[str] = set()
        for point in job.timeline.points:
            done = run(job, point.name, spark=spark)
            assert done.file is not None and done.plan is not None
            record["steps"] += len(done.steps)
            record["loaded"] += sum(1 for s in done.plan.runs[0].steps for name in s.reads if name in known)
            record["problems"] += _states(spark, done, record)
            known |= set(done.file.states)
            for verified in verify(job, spark=spark).results if point.deliver else ():
                record["results"] += 1
                record["empty"] += verified.expected == 0
                if not verified.same:
                    record["problems"].append(f"at {point.name}: {verified}")
    finally:
        shutil.rmtree(workspace, ignore_errors=True)
    return record | {"seconds": time.perf_counter() - started}


def _states(spark: SparkSession, done: RunReport, record: dict[str, Any]) -> list[str]:
    """What is wrong with the states that the run left for later ones."""
    assert done.plan is not None and done.file is not None and done.course is not None and done.workspace is not None
    problems: list[str] = []
    with States(spark) as states:
        for step in done.plan.runs[0].steps:
            entry = done.file.states.get(step.name)
            if entry is None or step.kind != "state":
                continue
            definition = _definition(step)
            readings = done.course.readings(definition.reads)
            names = {name: read_rows(spark, reading, name) for name, reading in readings.items()}
            folders = [done.workspace.storage.uri(f) for f in entry.folders]
            found = states.read(folders, tuple(Column(*c) for c in entry.schema))
            problems += _difference(spark, step, done.point, found, frame(spark, definition, names))
            record["states"] += 1
    return problems


def main(
    sf: Annotated[float, typer.Option(help="Scale factor of the data.")] = 0.1,
    queries: Annotated[str, typer.Option(help="Numbers and ranges: q1,q3-q7.")] = "q1-q99",
    patterns: Annotated[str, typer.Option(help="Arrival patterns.")] = "delta-small,delta-RS",
    policy: Annotated[str, typer.Option(help="auto, incremental, full.")] = "auto",
) -> None:
    """Run the queries on Spark, or go on with it."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    path, version, console = (
        FOLDER / f"spark-sf{sf:g}-{policy}.jsonl",
        code_version(),
        Console(width=None if sys.stdout.isatty() else 140),
    )
    done = {key: record for key, record in earlier(path, version).items() if not record["problems"]}
    cells = [(q, p) for p in patterns.split(",") for q in query_numbers(queries)]
    todo: Sequence[tuple[int, str]] = [c for c in cells if f"q{c[0]} {c[1]}" not in done]
    spark = session(**SETTINGS) if todo else None
    for n, (query, pattern) in enumerate(todo, 1):
        assert spark is not None
        key = f"q{query} {pattern}"
        try:
            record = run_query(spark, query, sf, pattern, policy)
        except Exception as error:  # The grid is there to list whatever can go wrong.
            record = {"problems": [f"{type(error).__name__}: {error}"]}
        record |= {"key": key, "version": version}
        done[key] = record
        with path.open("a") as log:
            log.write(json.dumps(record, default=str) + "\n")
        said = "; ".join(record["problems"])[:300] or "right"
        console.print(f"{n}/{len(todo)} {key} {record.get('seconds', 0):.1f} s: {said}", markup=False, highlight=False)
    wanted = [done[f"q{q} {p}"] for q, p in cells]
    wrong = [r["key"] for r in wanted if r["problems"]]
    total = {k: sum(r.get(k, 0) for r in wanted) for k in ("steps", "results", "empty", "states", "loaded")}
    console.print(f"{len(wanted)} jobs, {len(wrong)} wrong {wrong}; {total}", markup=False, highlight=False)
    if wrong:
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
