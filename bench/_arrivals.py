"""TPC-DS as files that arrive: what a run on Spark reads.

Dimensions are one static file each. A fact table is one folder per point; where its pattern takes rows back, the folders are a change log with a
column of signed counts. All folders are written at once, and each point of the timeline says up to which of them it reads (`upto`).
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import duckdb

from bench import tpcds
from bench.tpcds import CACHE, FACTS, KEYS, PATTERNS
from tempura.catalog import Catalog, Table
from tempura.job import Job
from tempura.sources import Source
from tempura.sources.changes import ChangesSource, Operation
from tempura.sources.files import FilesSource
from tempura.sources.folders import FoldersSource
from tempura.timeline import Timeline

COUNT = "_count"
"""The column of change logs that says how often a row comes (1) or goes (-1)."""


def batch(point: int) -> str:
    """The name of the folder that arrives at a point."""
    return f"batch_{point:03}"


def files(sf: float, pattern: str, points: int) -> Path:
    """The folder with the files of a pattern over so many points, made if it is not there yet."""
    folder = CACHE / f"sf{sf:g}-{pattern}-{points}"
    if folder.exists():
        return folder
    source = tpcds.generate(sf)
    new = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=CACHE))
    with duckdb.connect() as connection:
        for table in FACTS:
            for point in range(points):
                at = new / table / batch(point)
                at.mkdir(parents=True)
                rows = tpcds.change_sql(
                    f"read_parquet('{source / table}.parquet')", table, pattern, points, point, COUNT
                )
                connection.execute(f"COPY ({rows}) TO '{at / 'part.parquet'}' (FORMAT parquet)")
    try:
        os.rename(new, folder)
    except OSError:
        shutil.rmtree(new)
        if not folder.exists():
            raise
    return folder


def sources(sf: float, pattern: str, points: int, catalog: Catalog) -> dict[str, Source]:
    """Where each table's rows come from."""
    folder = files(sf, pattern, points)
    found: dict[str, Source] = {}
    for table in KEYS:
        columns = tuple(column._replace(nullable=True) for column in catalog[table].columns)
        if table not in FACTS:
            path = str(tpcds.generate(sf) / f"{table}.parquet")
            found[table] = FilesSource(table=table, columns=columns, path=path, format="parquet")
        elif table in PATTERNS[pattern].retracting and points > 1:
            found[table] = ChangesSource(
                table=table,
                columns=columns,
                path=str(folder / table),
                format="parquet",
                operation=Operation(count=COUNT),
                by="folders",
            )
        else:
            found[table] = FoldersSource(table=table, columns=columns, path=str(folder / table), format="parquet")
    return found


def job(
    query: int | str,
    sf: float,
    pattern: str,
    timeline: Timeline,
    workspace: str | Path,
    *,
    methods: Sequence[str] | None = None,
    policy: str = "auto",
    objective: str = "weighted",
) -> Job:
    """A query, by its number or as text, over files that arrive at the points of a timeline."""
    timeline = Timeline(tuple(replace(p, upto=batch(i)) for i, p in enumerate(timeline.points)))
    catalog = tpcds.catalog(sf, pattern, timeline)
    text = tpcds.queries()[query] if isinstance(query, int) else query
    used = [table for table in KEYS if table in text.lower()]
    own = sources(sf, pattern, len(timeline), catalog)
    return Job(
        name=f"q{query}" if isinstance(query, int) else "query",
        query=text,
        catalog=Catalog(*(_alone(catalog[table], used) for table in used)),
        timeline=timeline,
        sources={table: own[table] for table in used},
        workspace=str(workspace),
        objective=objective,
        policy=policy,  # type: ignore[arg-type]
        checks=False,
        **({} if methods is None else {"methods": list(methods)}),
    )


def _alone(table: Table, used: Sequence[str]) -> Table:
    """A table without references to tables that the job does not have."""
    return replace(table, foreign_keys=tuple(f for f in table.foreign_keys if f.table in used))
