"""The three that share a Spark session: Tempura, recomputing, and Structured Streaming."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from bench import _arrivals
from bench._peers.views import PATTERN, View, arrived
from bench._spark import Gauge, course, folder, recomputed
from tempura.job import Job
from tempura.spark.verify import compare
from tempura.timeline import Timeline

Figures = dict[str, Any]
SYSTEMS = ("tempura", "recomputing", "structured-streaming")


def round_of(gauge: Gauge, view: View, sf: float, backwards: bool) -> dict[str, Figures]:
    """Let each system bring the view up to date once, in turn or backwards: what it took, and whether it was right."""
    with folder() as place:
        job = _job(view, sf, place / "workspace")
        systems: dict[str, Callable[[], tuple[Figures, DataFrame | None]]] = {
            "tempura": partial(_last_of, course, gauge, job),
            "recomputing": partial(_last_of, recomputed, gauge, job, place / "batch"),
            "structured-streaming": partial(_streamed, gauge, view, sf, place / "streaming"),
        }
        found = {name: systems[name]() for name in SYSTEMS[:: -1 if backwards else 1]}
        _, expected = found["recomputing"]
        assert expected is not None
        return {
            name: figures | {"right": None if rows is None else not compare(rows, expected).differing}
            for name, (figures, rows) in found.items()
        }


def _last_of(done: Callable[..., tuple[Figures, DataFrame]], *given: Any) -> tuple[Figures, DataFrame]:
    """The figures of the last point of what is done, and its result."""
    points, result = done(*given)
    return _figures(points["t2"]), result


def _job(view: View, sf: float, workspace: Path) -> Job:
    return _arrivals.job(view.text, sf, PATTERN, Timeline.refresh(), workspace, objective="latest-first")


def _figures(spent: Figures) -> Figures:
    return {"seconds": spent["wall"], "cpu": spent["jvm_cpu"] + spent["python_cpu"], "refused": None}


def _streamed(gauge: Gauge, view: View, sf: float, place: Path) -> tuple[Figures, DataFrame | None]:
    """Structured Streaming in the first output mode in which it takes the query: what the second part took, and the view; or why none will do."""
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
        return _figures(vars(spent)), stream.rows
    told = (f"{said} ({' and '.join(modes)} mode)" for said, modes in refused.items())
    return {"seconds": None, "cpu": None, "refused": "; ".join(told)}, None


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
    schema: StructType | None = None

    @cached_property
    def _schemas(self) -> dict[str, StructType]:
        """What every table's files have, looked up once: a user would tell."""
        return {t: self.spark.read.parquet(str(arrived(self.sf, t)[0])).schema for t in self.view.tables}

    @property
    def rows(self) -> DataFrame:
        """The view."""
        assert self.schema is not None
        return self.spark.read.schema(self.schema).parquet(self.latest)

    def advance(self, point: int) -> None:
        """Let a part arrive, and take all that is there."""
        for table in self.view.growing:
            there = self.place / "arrived" / table
            there.mkdir(parents=True, exist_ok=True)
            os.link(arrived(self.sf, table)[point], there / f"{_arrivals.batch(point)}.parquet")
        for table, schema in self._schemas.items():
            frame = (
                self.spark.readStream.schema(schema).parquet(str(self.place / "arrived" / table))
                if table in self.view.growing
                else self.spark.read.schema(schema).parquet(str(arrived(self.sf, table)[0]))
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
            self.schema = rows.schema
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
