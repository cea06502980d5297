"""TPC-DS as files that arrive: what a run on Spark reads.

Dimensions are one static file each. A fact table is one folder per point; where its pattern takes rows back, the folders are a change log with a
column of signed counts. All folders are written at once, and each point of the timeline says up to which of them it reads (`upto`).

Besides the patterns of `bench.tpcds`, facts can be dealt by a `Deal`: into many equal parts, some of which come at each point.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import duckdb

from bench import tpcds
from bench.tpcds import CACHE, FACTS, KEYS, PATTERNS
from tempura.catalog import Catalog, Table
from tempura.job import Job
from tempura.job.shapes import Policy
from tempura.sources import Source
from tempura.sources.changes import ChangesSource, Operation
from tempura.sources.files import FilesSource
from tempura.sources.folders import FoldersSource
from tempura.timeline import Timeline

COUNT = "_count"
"""The column of change logs that says how often a row comes (1) or goes (-1)."""
WHOLE = "read_parquet('{}.parquet')"
"""All rows of a table, from the folder of its scale factor."""


@dataclass(frozen=True)
class Deal:
    """Fact tables dealt into equal parts, and which of these come at each point; some may never come. Nothing is taken back."""

    parts: int
    points: tuple[range, ...]


DAY = Deal(24, (range(14), range(14, 19), range(19, 24)))
"""Rows come evenly over 24 hours, and are looked at by 14:00, 19:00 and 24:00."""


def growing(times: int) -> Deal:
    """A history of so many units, up to 16, and then always the same delta: a quarter of a unit."""
    return Deal(65, (range(4 * times), range(64, 65)))


def batch(point: int) -> str:
    """The name of the folder that arrives at a point."""
    return f"batch_{point:03}"


def files(sf: float, pattern: str, points: int) -> Path:
    """The folder with the files of a pattern over so many points, made if it is not there yet."""
    each = {
        f"{table}/{batch(point)}": tpcds.change_sql(WHOLE.format(table), table, pattern, points, point, COUNT)
        for table in FACTS
        for point in range(points)
    }
    return _written(sf, f"sf{sf:g}-{pattern}-{points}", each)


def dealt_files(sf: float, deal: Deal, table: str) -> Path:
    """The folder with the files of a fact table that is dealt, made if it is not there yet."""
    parts = "-".join(f"{part.start}to{part.stop}" for part in deal.points)
    rows = tpcds.dealt_sql(WHOLE.format(table), table, PATTERNS["delta-big"], deal.parts)
    each = {
        batch(point): f"SELECT * EXCLUDE (_in, _out) FROM ({rows}) WHERE _in BETWEEN {part.start} AND {part.stop - 1}"
        for point, part in enumerate(deal.points)
    }
    return _written(sf, f"sf{sf:g}-of{deal.parts}-{parts}-{table}", each)


def _written(sf: float, name: str, each: Mapping[str, str]) -> Path:
    """The folder of that name with the rows of queries, each in a folder of its own, made if it is not there yet. Queries that say otherwise, or another DuckDB, have another folder."""
    dealt = hashlib.sha256(json.dumps([duckdb.__version__, each]).encode()).hexdigest()[:8]
    folder = CACHE / f"{name}-{dealt}"
    if folder.exists():
        return folder
    source = tpcds.generate(sf)
    with tpcds.made_beside(folder) as new, duckdb.connect() as connection:
        connection.execute("SET enable_progress_bar = false")
        connection.execute(f"SET file_search_path = '{source}'")
        for part, rows in each.items():
            (new / part).mkdir(parents=True)
            connection.execute(f"COPY ({rows}) TO '{new / part / 'part.parquet'}' (FORMAT parquet)")
    return folder


def dealt_catalog(sf: float, deal: Deal, timeline: Timeline) -> Catalog:
    """The tables, the facts among them arriving as they are dealt."""
    whole = tpcds.catalog(sf, "delta-big", timeline)
    names = [point.name for point in timeline.points]
    tables = []
    for table in whole.values():
        each = sum(table.arrives.values()) / deal.parts
        arrives = {name: each * len(part) for name, part in zip(names, deal.points, strict=True)}
        tables.append(replace(table, arrives=arrives) if table.name in FACTS else table)
    return Catalog(*tables)


def dealt_sources(sf: float, deal: Deal, catalog: Catalog) -> dict[str, Source]:
    """Where the rows of a catalog's tables come from."""
    found: dict[str, Source] = {}
    for table in catalog.values():
        columns = tuple(column._replace(nullable=True) for column in table.columns)
        if table.name in FACTS:
            path = str(dealt_files(sf, deal, table.name))
            found[table.name] = FoldersSource(table=table.name, columns=columns, path=path, format="parquet")
        else:
            path = str(tpcds.generate(sf) / f"{table.name}.parquet")
            found[table.name] = FilesSource(table=table.name, columns=columns, path=path, format="parquet")
    return found


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
    pattern: str | Deal,
    timeline: Timeline,
    workspace: str | Path,
    *,
    methods: Sequence[str] | None = None,
    policy: Policy = "auto",
    objective: str = "weighted",
    checks: bool = False,
) -> Job:
    """A query, by its number or as text, over files that arrive at the points of a timeline.

    Keys of what arrives are not checked unless told, as a job does by itself: what Tempura is compared with does not check them either.
    """
    timeline = Timeline(tuple(replace(p, upto=batch(i)) for i, p in enumerate(timeline.points)))
    dealt = isinstance(pattern, Deal)
    whole = dealt_catalog(sf, pattern, timeline) if dealt else tpcds.catalog(sf, pattern, timeline)
    text = tpcds.queries()[query] if isinstance(query, int) else query
    used = [table for table in KEYS if re.search(rf"\b{table}\b", text, re.IGNORECASE)]
    catalog = Catalog(*(_alone(whole[table], used) for table in used))
    own = dealt_sources(sf, pattern, catalog) if dealt else sources(sf, pattern, len(timeline), whole)
    return Job(
        name=f"q{query}" if isinstance(query, int) else "query",
        query=text,
        catalog=catalog,
        timeline=timeline,
        sources={table: own[table] for table in used},
        workspace=str(workspace),
        objective=objective,
        policy=policy,
        checks=checks,
        **({} if methods is None else {"methods": list(methods)}),
    )


def _alone(table: Table, used: Sequence[str]) -> Table:
    """A table without references to tables that the job does not have."""
    return replace(table, foreign_keys=tuple(f for f in table.foreign_keys if f.table in used))
