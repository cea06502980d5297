"""The tables that trials read: made up, and in Parquet files like those of a shop, so that reading them costs what reading such files does.

A sale has numbers that repeat (stored as dictionaries), amounts of money, either of them missing now and then, and a text; its parcel is found by its number, and every fifth sale comes back. Values are hashes
of the sale's number: spread evenly and without relation to each other, so that what is estimated of them is right, and what is fitted is the cost of work and not of wrong estimates.
Sales come in batches: a few, many, some more for the runs that add to what they kept, and most of all for what a row costs little of.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from tempura.catalog import Catalog, ColumnStatistics, Table
from tempura.schema import Column
from tempura.sources import Source
from tempura.sources.files import FilesSource
from tempura.sources.folders import FoldersSource
from tempura.workspace import Storage

FEW, MANY, MORE, MOST = "batch_1", "batch_2", "batch_3", "batch_4"
"""The batches; a point reads all up to one of them."""

SHARES = {FEW: (0.0, 0.25), MANY: (0.25, 1.0), MORE: (1.0, 1.2), MOST: (1.2, 4.0)}
"""Which sales are in a batch, as shares of the number of sales up to `MANY`."""

MISSING = 25
"""Of so many values one is NULL, where any is: reading those takes longer."""


@dataclass(frozen=True)
class Values:
    """A column: its type, how many values it has, the expression that makes one out of a row's number `id`, and how often it is NULL."""

    type: str
    distinct: float
    sql: str
    width: float | None = None
    nulls: float = 0.0


def _spread(type: str, distinct: int, seed: int, sql: str = "{}", width: float | None = None) -> Values:
    """Values that are spread over the rows by a hash; `sql` makes one out of its number, from zero on."""
    return Values(type, distinct, f"CAST({sql.format(_hash(distinct, seed))} AS {type})", width)


def _hash(distinct: int, seed: int) -> str:
    return f"pmod(xxhash64(id, {seed}), {distinct})"


def _money(seed: int) -> Values:
    return _spread("decimal(7,2)", 20_000, seed, "{} / 100")


def _missing(values: Values, seed: int) -> Values:
    """The same, now and then NULL."""
    return replace(values, sql=f"CASE WHEN {_hash(MISSING, seed)} > 0 THEN {values.sql} END", nulls=1 / MISSING)


SALES: Mapping[str, Values] = {
    "sale": Values("bigint", 0, "id"),
    "day": _missing(_spread("int", 1800, 1), 21),
    "item": _spread("int", 20_000, 2),
    "shop": _missing(_spread("int", 50, 3), 22),
    "customer": _missing(_spread("bigint", 100_000, 4), 23),
    "quantity": _missing(_spread("bigint", 100, 5), 24),
    "price": _missing(_money(6), 25),
    "cost": _missing(_money(7), 26),
    "tax": _missing(_money(8), 27),
    "note": _spread("string", 1000, 9, "concat('for the kitchen ', {})", 19.0),
}
PARCELS: Mapping[str, Values] = {
    "sale": SALES["sale"],
    "shelf": _spread("int", 500, 11),
    "weight": _money(12),
    "label": _spread("string", 1000, 28, "concat('for the kitchen ', {})", 19.0),
}
RETURNS: Mapping[str, Values] = {
    "sale": Values("bigint", 0, "id * 5"),
    "reason": _spread("int", 20, 13),
    "amount": _money(14),
}
ITEMS: Mapping[str, Values] = {
    "item": Values("int", 0, "CAST(id AS int)"),
    "brand": _spread("string", 500, 15, "concat('brand ', {})", 9.0),
    "category": _spread("string", 10, 16, "concat('category ', {})", 10.0),
    "list_price": _money(17),
}
DAYS: Mapping[str, Values] = {
    "day": Values("int", 0, "CAST(id AS int)"),
    "year": Values("int", 5, "CAST(id DIV 365 AS int)"),
    "weekday": _spread("string", 7, 18, "concat('weekday ', {})", 9.0),
}
CUSTOMERS: Mapping[str, Values] = {
    "customer": Values("bigint", 0, "id"),
    "state": _spread("string", 50, 19, "concat('state ', {})", 8.0),
    "born": _spread("int", 70, 20),
}
HANDFUL: Mapping[str, Values] = {name: SALES[name] for name in ("sale", "day", "shop", "quantity", "price")}

STATIC = {"items": (ITEMS, 20_000), "days": (DAYS, 1800), "customers": (CUSTOMERS, 100_000), "handful": (HANDFUL, 500)}
ARRIVING = {"sales": (SALES, 1.0), "parcels": (PARCELS, 1.0), "returns": (RETURNS, 0.2)}
"""Tables that come in batches, and how many rows they have for each sale."""


@dataclass(frozen=True)
class Shop:
    """The tables in their files."""

    folder: str
    sales: int
    """So many come with the first two batches."""

    def write(self, spark: SparkSession) -> None:
        """Make all files: two for a batch, one for a table that does not change."""
        for name, (columns, rows) in STATIC.items():
            self._write(spark, name, columns, 0, rows, 1)
        for name, (columns, share) in ARRIVING.items():
            for batch, (start, end) in SHARES.items():
                first, last = (int(self.sales * share * part) for part in (start, end))
                self._write(spark, f"{name}/{batch}", columns, first, last, 2)

    def _write(
        self, spark: SparkSession, path: str, columns: Mapping[str, Values], first: int, last: int, files: int
    ) -> None:
        made = [f"{values.sql} AS {name}" for name, values in columns.items()]
        rows = spark.range(first, last, 1, files).selectExpr(*made)
        rows.write.mode("overwrite").parquet(Storage.at(self.folder).uri(path))

    def catalog(self, batches: Mapping[str, str]) -> Catalog:
        """The tables over a timeline; `batches` has the batch up to which each of its points reads."""
        found = [self._table(n, columns, {next(iter(batches)): rows}) for n, (columns, rows) in STATIC.items()]
        for name, (columns, share) in ARRIVING.items():
            there = [int(self.sales * share * SHARES[batch][1]) for batch in batches.values()]
            arrives = {p: rows - before for p, rows, before in zip(batches, there, [0, *there], strict=False)}
            found.append(self._table(name, columns, arrives))
        return Catalog(*found)

    def _table(self, name: str, columns: Mapping[str, Values], arrives: Mapping[str, float]) -> Table:
        key = next(iter(columns))
        statistics = {c: ColumnStatistics(v.distinct, v.nulls, width=v.width) for c, v in columns.items() if c != key}
        schema = tuple(Column(c, v.type, c != key) for c, v in columns.items())
        return Table(name, schema, (key,), arrives, statistics=statistics)

    def sources(self, catalog: Catalog) -> dict[str, Source]:
        """Where the tables' rows are."""
        return {
            table.name: (FoldersSource if table.name in ARRIVING else FilesSource)(
                table=table.name,
                columns=tuple(c._replace(nullable=True) for c in table.columns),
                path=Storage.at(self.folder).uri(table.name),
                format="parquet",
            )
            for table in catalog.values()
        }
