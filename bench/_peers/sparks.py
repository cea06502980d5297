"""The three that share a Spark session: Tempura, recomputing, and Structured Streaming."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from bench import _arrivals
from bench._peers.views import PATTERN, View, arrived
from bench._spark import Gauge, course, folder, recomputed
from tempura.job import Job
from tempura.spark.verify import compare
from tempura.timeline import Timeline

Figures = dict[str, Any]
SYSTEMS = ("tempura", "recomputing", "structured-streaming")


def round_of(gauge: Gauge, view: View, sf: float) -> dict[str, Figures]:
    """Let each system bring the view up to date once: what it took, and whether it was right."""
    with folder() as place:
        job = _job(view, sf, place / "workspace")
        points, result = course(gauge, job)
        batch, expected = recomputed(gauge, job, place / "batch")
        right = not compare(result, expected).differing
        return {
            "tempura": _figures(points["t2"], right),
            "recomputing": _figures(batch["t2"], True),
            "structured-streaming": _streamed(gauge, view, sf, place / "streaming", expected),
        }


def _job(view: View, sf: float, workspace: Path) -> Job:
    return _arrivals.job(view.text, sf, PATTERN, Timeline.refresh(), workspace, objective="latest-first")


def _figures(spent: Figures, right: bool) -> Figures:
    cpu = spent["jvm_cpu"] + spent["python_cpu"]
    return {"seconds": spent["wall"], "cpu": cpu, "right": right, "refused": None}


def _streamed(gauge: Gauge, view: View, sf: float, place: Path, expected: DataFrame) -> Figures:
    """Structured Streaming in the first output mode in which it takes the query: what the second part took, or why none will do."""
    refused: dict[str, list[str]] = {}
    for mode in ("complete", "update") if view.key else ("append",):
        stream = Stream(gauge.spark, view, sf, place / mode, mode)
        try:
            stream.advance(0)
        except AnalysisException as error:
            said = str(error).splitlines()[0].split(". ")[0].rstrip(";")
            refused.setdefault(said, []).append(mode)
            continue
        spent, _ = gauge.spent(partial(stream.advance, 1))
        found = gauge.spark.read.schema(expected.schema).parquet(stream.latest)
        return _figures(vars(spent), not compare(found, expected).differing)
    told = (f"{said} ({' and '.join(modes)} mode)" for said, modes in refused.items())
    return {"seconds": None, "cpu": None, "right": None, "refused": "; ".join(told)}


@dataclass
class Stream:
    """A view as a stream of files, taken up where it was left each time that more of them are there."""

    spark: SparkSession
    view: View
    sf: float
    place: Path
    mode: str
    latest: str = ""
    """Where the view is."""

    def advance(self, point: int) -> None:
        """Let a part arrive, and take all that is there."""
        for table in self.view.growing:
            there = self.place / "arrived" / table
            there.mkdir(parents=True, exist_ok=True)
            os.link(arrived(self.sf, table)[point], there / f"{_arrivals.batch(point)}.parquet")
        for table in self.view.tables:
            files = arrived(self.sf, table)
            schema = self.spark.read.parquet(str(files[0])).schema
            frame = (
                self.spark.readStream.schema(schema).parquet(str(self.place / "arrived" / table))
                if table in self.view.growing
                else self.spark.read.parquet(str(files[0]))
            )
            frame.createOrReplaceTempView(table)
        writer = self.spark.sql(self.view.text).writeStream.outputMode(self.mode).foreachBatch(self._sink())
        writer = writer.option("checkpointLocation", str(self.place / "checkpoint")).trigger(availableNow=True)
        try:
            writer.start().awaitTermination()
        finally:
            for table in self.view.tables:
                self.spark.catalog.dropTempView(table)

    def _sink(self) -> Callable[[DataFrame, int], None]:
        """Keeps the view as a folder: added to, written anew, or with the rows put in place that have changed."""

        def write(rows: DataFrame, batch: int) -> None:
            before, self.latest = self.latest, str(self.place / f"view-{batch}")
            if before and self.mode == "append":
                self.latest = before
            if before and self.mode == "update":
                rows = rows.unionByName(self._unchanged(rows, self.view.key, before))
            rows.write.mode("append").parquet(self.latest)

        return write

    def _unchanged(self, rows: DataFrame, key: Sequence[str], before: str) -> DataFrame:
        old = self.spark.read.schema(rows.schema).parquet(before)
        same = [old[c].eqNullSafe(rows[c]) for c in key]
        return old.join(rows, same, "left_anti")
