"""TPC-DS as a job: data and queries from DuckDB, tables with measured statistics, and fact tables that arrive in parts.

The seven fact tables grow over the points of a timeline; dimensions are there from the first point on. A pattern says how they grow:

    delta-big     equal parts at all points (1:1)
    delta-small   four fifths at the first point, the rest in equal parts (4:1)
    delta-R       two thirds at the first point (2:1); at every later point 5 % of the sales held until then are taken back
    delta-RS      likewise, and 5 % of the returns as well

When a row arrives or is taken back is a hash of its key. Returns are dealt independently of their sales, so that some come a
point later than their sale, and some, as late data will, earlier.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import sqlglot
from pyarrow import Table as ArrowTable
from pyarrow.parquet import ParquetFile

from tempura.algebra.physical import delta_name, snapshot_name
from tempura.catalog import Catalog, ColumnStatistics, ForeignKey, Table
from tempura.errors import JobError
from tempura.schema import WEIGHT, Column
from tempura.sources.summary import SAMPLE, Sampled, sampled
from tempura.timeline import Timeline

CACHE = Path(__file__).resolve().parent.parent / ".cache" / "tpcds"

KEYS: dict[str, tuple[str, ...]] = {
    "call_center": ("cc_call_center_sk",), "catalog_page": ("cp_catalog_page_sk",), "customer": ("c_customer_sk",),
    "customer_address": ("ca_address_sk",), "customer_demographics": ("cd_demo_sk",), "date_dim": ("d_date_sk",),
    "household_demographics": ("hd_demo_sk",), "income_band": ("ib_income_band_sk",), "item": ("i_item_sk",), "promotion": ("p_promo_sk",),
    "reason": ("r_reason_sk",), "ship_mode": ("sm_ship_mode_sk",), "store": ("s_store_sk",), "time_dim": ("t_time_sk",),
    "warehouse": ("w_warehouse_sk",), "web_page": ("wp_web_page_sk",), "web_site": ("web_site_sk",),
    "store_sales": ("ss_item_sk", "ss_ticket_number"), "store_returns": ("sr_item_sk", "sr_ticket_number"),
    "catalog_sales": ("cs_item_sk", "cs_order_number"), "catalog_returns": ("cr_item_sk", "cr_order_number"),
    "web_sales": ("ws_item_sk", "ws_order_number"), "web_returns": ("wr_item_sk", "wr_order_number"),
    "inventory": ("inv_date_sk", "inv_item_sk", "inv_warehouse_sk"),
}  # fmt: skip

SALES = ("store_sales", "catalog_sales", "web_sales")
RETURNS = ("store_returns", "catalog_returns", "web_returns")
FACTS = (*SALES, *RETURNS, "inventory")

REFERENCES = {
    "_date_sk": "date_dim", "_time_sk": "time_dim", "_item_sk": "item", "_customer_sk": "customer", "_cdemo_sk": "customer_demographics",
    "_hdemo_sk": "household_demographics", "_addr_sk": "customer_address", "_store_sk": "store", "_promo_sk": "promotion",
    "_warehouse_sk": "warehouse", "_call_center_sk": "call_center", "_catalog_page_sk": "catalog_page", "_ship_mode_sk": "ship_mode",
    "_web_page_sk": "web_page", "_web_site_sk": "web_site", "_reason_sk": "reason", "_income_band_sk": "income_band",
}  # fmt: skip
"""Which dimension a column with this ending refers to. Facts refer to no facts: a return may arrive before its sale."""


@dataclass(frozen=True)
class Pattern:
    """How the fact tables arrive: the share that is there at the first point, and which tables take rows back later."""

    first: float | None
    """None: as much as at every other point."""
    retracting: tuple[str, ...] = ()

    def shares(self, points: int) -> list[float]:
        """The share of a fact table that arrives at each point."""
        if points == 1:
            return [1.0]
        first = 1 / points if self.first is None else self.first
        return [first] + [(1 - first) / (points - 1)] * (points - 1)


PATTERNS = {
    "delta-big": Pattern(None),
    "delta-small": Pattern(4 / 5),
    "delta-R": Pattern(2 / 3, SALES),
    "delta-RS": Pattern(2 / 3, SALES + RETURNS),
}
RETRACTED = 0.05


def load_extension(connection: duckdb.DuckDBPyConnection) -> None:
    """Make dsdgen and the queries known to a connection, from the package that carries them."""
    try:
        from duckdb_extension_tpcds import __path__ as places

        found = next(Path(places[0]).rglob("tpcds.duckdb_extension"))
        connection.execute(f"LOAD '{found}'")
    except (ImportError, StopIteration, duckdb.Error) as error:
        hint = "`make test` sets up .venv with those that go together: run .venv/bin/python"
        raise JobError(f"DuckDB {duckdb.__version__} cannot load its TPC-DS extension: {error}", hint=hint) from error


@cache
def queries() -> dict[int, str]:
    """The 99 queries in Spark SQL."""
    with duckdb.connect() as connection:
        load_extension(connection)
        rows = connection.execute("SELECT query_nr, query FROM tpcds_queries() ORDER BY query_nr").fetchall()
    return {number: sqlglot.transpile(text, read="duckdb", write="spark")[0] for number, text in rows}


def generate(sf: float) -> Path:
    """The folder with one Parquet file per table at a scale factor, made if it is not there yet."""
    if sf < 0.01:
        raise JobError(f"scale factor {sf:g}: the generator does not end below 0.01", hint="give --sf 0.01 or more")
    folder = CACHE / f"sf{sf:g}"
    if (folder / "statistics.json").exists():
        return folder
    with made_beside(folder) as new, duckdb.connect() as connection:
        load_extension(connection)
        connection.execute(f"CALL dsdgen(sf={sf:g})")
        for table in KEYS:
            connection.execute(f"COPY {table} TO '{new / table}.parquet' (FORMAT parquet)")
        statistics = {table: measure(connection, table) for table in KEYS}
        (new / "statistics.json").write_text(json.dumps(statistics, indent=1))
    return folder


@contextmanager
def made_beside(folder: Path) -> Generator[Path]:
    """A folder to be filled, which gets its name when it is whole, so that nobody sees half of it; where another process was quicker, its folder is as good."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    new = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=folder.parent))
    try:
        yield new
        try:
            os.rename(new, folder)
        except OSError:
            if not folder.exists():
                raise
    finally:
        shutil.rmtree(new, ignore_errors=True)


def measure(connection: duckdb.DuckDBPyConnection, table: str, exactly: bool = False) -> dict[str, Any]:
    """Rows, and for each column its Spark type and statistics, and the dimension it always refers to; distinct values are estimated, unless told otherwise."""
    described = connection.execute(f"DESCRIBE {table}").fetchall()
    rows = int(_one(connection, f"SELECT count(*) FROM {table}"))
    if rows != int(_one(connection, f"SELECT count(*) FROM (SELECT DISTINCT {', '.join(KEYS[table])} FROM {table})")):
        raise ValueError(f"{KEYS[table]} is no key of {table}")
    columns: dict[str, Any] = {}
    for name, kind, *_ in described:
        number = {"DATE": f"datediff('day', DATE '1970-01-01', {name})", "VARCHAR": "NULL::DOUBLE"}.get(
            kind, f"{name}::DOUBLE"
        )
        width = f"avg(length({name}))" if kind == "VARCHAR" else "NULL"
        distinct = f"count(DISTINCT {name})" if exactly else f"approx_count_distinct({name})"
        text = f"SELECT {distinct}, count(*) - count({name}), min({number}), max({number}), {width} FROM {table}"
        distinct, nulls, least, greatest, bytes_each = connection.execute(text).fetchall()[0]
        columns[name] = {
            "type": sqlglot.exp.DataType.build(kind, dialect="duckdb").sql("spark").lower().replace(", ", ","),
            "distinct": rows if KEYS[table] == (name,) else min(distinct, rows - nulls),
            "nulls": nulls / rows if rows else 0.0,
            "min": least,
            "max": greatest,
            "width": bytes_each,
            "refers_to": _reference(connection, table, name),
        }
    return {"rows": rows, "columns": columns}


def _reference(connection: duckdb.DuckDBPyConnection, table: str, column: str) -> str | None:
    """The dimension that has every value of the column, if its name says that there is one and the rows agree."""
    to = next((t for ending, t in REFERENCES.items() if column.endswith(ending)), None)
    if to is None or KEYS[table] == (column,):
        return None
    dangling = _one(
        connection,
        f"SELECT count(*) FROM {table} ANTI JOIN {to} ON {column} = {KEYS[to][0]} WHERE {column} IS NOT NULL",
    )
    return to if dangling == 0 else None


def _one(connection: duckdb.DuckDBPyConnection, text: str) -> Any:
    return connection.execute(text).fetchall()[0][0]


def statistics(sf: float) -> dict[str, Any]:
    """What was measured when the tables of a scale factor were made."""
    return json.loads((generate(sf) / "statistics.json").read_text())


@cache
def shown(sf: float) -> Mapping[str, Sampled]:
    """What a sample shows of the columns of all tables."""
    files = (ParquetFile(generate(sf) / f"{table}.parquet") for table in KEYS)
    found = (sampled(ArrowTable.from_batches([next(file.iter_batches(SAMPLE))])) for file in files)
    return {column: each for columns in found for column, each in columns.items()}


def described(sf: float) -> dict[str, Any]:
    """The statistics of a scale factor, with the columns that rise together; how rows lie, files that are there tell themselves."""
    measured = statistics(sf)
    for table in measured.values():
        for name, column in table["columns"].items():
            column |= {"rises": shown(sf)[name].rises, "run": None}
            if column["refers_to"]:
                column["distinct"] = min(column["distinct"], measured[column["refers_to"]]["rows"])
    return measured


def catalog(sf: float, pattern: str, timeline: Timeline) -> Catalog:
    """The tables of a scale factor, arriving over the timeline."""
    return catalog_of(described(sf), pattern, timeline)


def catalog_of(measured: Mapping[str, Any], pattern: str, timeline: Timeline) -> Catalog:
    """Tables of which so much is known, arriving over the timeline."""
    points = [p.name for p in timeline.points]
    return Catalog(*(_table(t, measured[t]["rows"], measured[t]["columns"], PATTERNS[pattern], points) for t in KEYS))


def _table(name: str, rows: float, columns: Mapping[str, Any], pattern: Pattern, points: Sequence[str]) -> Table:
    shares = pattern.shares(len(points)) if name in FACTS else [1.0]
    known = {
        column: ColumnStatistics(s["distinct"], s["nulls"], s["min"], s["max"], s["width"], s["rises"], s["run"])
        for column, s in columns.items()
    }
    return Table(
        name,
        tuple(Column(c, s["type"], c not in KEYS[name]) for c, s in columns.items()),
        KEYS[name],
        {point: rows * share for point, share in zip(points, shares, strict=False)},
        dict.fromkeys(points[1:], RETRACTED) if name in pattern.retracting else {},
        known,
        tuple(ForeignKey((c,), s["refers_to"], KEYS[s["refers_to"]]) for c, s in columns.items() if s["refers_to"]),
    )


def register(connection: duckdb.DuckDBPyConnection, sf: float, pattern: str, points: Sequence[str]) -> None:
    """Create what plans read: every table as of every point, and its change between every two points.

    The tables are held once, with the numbers of the points at which a row comes (`_in`) and goes (`_out`); the rest are views.
    """
    folder = generate(sf)
    how = PATTERNS[pattern]
    for table in KEYS:
        base = f'"{table}@"'
        dealt = dealt_sql(f"read_parquet('{folder / table}.parquet')", table, how, len(points))
        connection.execute(f"CREATE OR REPLACE TABLE {base} AS {dealt}")
        for i, start in enumerate(points):
            snapshot = f"SELECT * EXCLUDE (_in, _out) FROM {base} WHERE {_alive(i)}"
            connection.execute(f'CREATE OR REPLACE VIEW "{snapshot_name(table, start)}" AS {snapshot}')
            for j in range(i + 1, len(points)):
                weight = (
                    f", CASE WHEN {_alive(j)} THEN 1::BIGINT ELSE -1 END AS {WEIGHT}"
                    if table in how.retracting and len(points) > 1
                    else ""
                )
                delta = f"SELECT * EXCLUDE (_in, _out){weight} FROM {base} WHERE ({_alive(i)}) <> ({_alive(j)})"
                connection.execute(f'CREATE OR REPLACE VIEW "{delta_name(table, start, points[j])}" AS {delta}')


def change_sql(source: str, table: str, pattern: str, points: int, point: int, count: str) -> str:
    """What comes to a fact table, and goes, at a point; with a column of signed counts where the pattern takes its rows back."""
    how = PATTERNS[pattern]
    dealt = dealt_sql(source, table, how, points)
    if table not in how.retracting or points == 1:
        return f"SELECT * EXCLUDE (_in, _out) FROM ({dealt}) WHERE _in = {point}"
    counted = f"SELECT * EXCLUDE (_in, _out), CASE WHEN _in = {point} THEN 1::BIGINT ELSE -1 END AS {count}"
    return f"{counted} FROM ({dealt}) WHERE _in = {point} OR _out = {point}"


def dealt_sql(source: str, table: str, how: Pattern, points: int) -> str:
    """The rows with the numbers of the points at which they come and go."""
    arrival = _arrival(table, how, points) if table in FACTS else "0"
    return f"SELECT *, {_departure(table, how, points)} AS _out FROM (SELECT *, {arrival} AS _in FROM {source})"


def _alive(point: int) -> str:
    return f"_in <= {point} AND _out > {point}"


def _share(table: str, salt: str) -> str:
    """A number in [0, 1) that depends on a row's key and on `salt` alone."""
    return f"(hash({', '.join(KEYS[table])}, '{table} {salt}') % 1000003) / 1000003.0"


def _arrival(table: str, pattern: Pattern, points: int) -> str:
    bounds: list[float] = []
    for share in pattern.shares(points)[:-1]:
        bounds.append(share + (bounds[-1] if bounds else 0.0))
    whens = " ".join(f"WHEN {_share(table, 'arrives')} < {bound!r} THEN {i}" for i, bound in enumerate(bounds))
    return f"CASE {whens} ELSE {points - 1} END" if whens else "0"


def _departure(table: str, pattern: Pattern, points: int) -> str:
    """The first point after its arrival at which a row is taken back; a number beyond the last point if there is none."""
    if table not in pattern.retracting or points == 1:
        return str(points)
    whens = " ".join(
        f"WHEN _in < {i} AND {_share(table, f'leaves {i}')} < {RETRACTED} THEN {i}" for i in range(1, points)
    )
    return f"CASE {whens} ELSE {points} END"
