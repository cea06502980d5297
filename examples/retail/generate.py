"""A day of a retailer, made with a fixed seed: sales and returns in three batches, stores and products.

    python examples/retail/generate.py        # the whole day at once

About one order in eleven is returned: half of those with the batch of their sale, the others one or two batches later.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

DATA = Path(__file__).resolve().parent / "data"
ORDERS = {"14:00": 168_000, "19:00": 48_000, "24:00": 24_000}
"""How many orders come in each batch."""
LINES = 25
"""The lines of an order, on average."""
STORES, PRODUCTS = 200, 5_000
REGIONS = ("coast", "east", "islands", "lakes", "north", "south", "valley", "west")
FORMATS = ("kiosk", "market", "warehouse")
MONEY = pa.decimal128(7, 2)
SHARES = (0.05, 0.03, 0.02)
"""Of the orders of a batch, how many are returned with it, one batch later and two batches later."""


def prepare(folder: Path = DATA) -> None:
    """Delete what an earlier day left, and write what does not change: the stores and the products."""
    shutil.rmtree(folder, ignore_errors=True)
    stores = pa.array(range(STORES), pa.int32())
    regions = pa.array([REGIONS[i % len(REGIONS)] for i in range(STORES)])
    formats = pa.array([FORMATS[i % len(FORMATS)] for i in range(STORES)])
    _write(folder / "stores", store_id=stores, region=regions, format=formats)
    products = pa.array(range(PRODUCTS), pa.int32())
    _write(folder / "products", product_id=products, purchase_price=_money(PRODUCTS, 1, 0.5, 15.0))


def arrive(point: str, folder: Path = DATA) -> int:
    """Write the batch of a point; returns how many rows it has."""
    batch = point.replace(":", "-")
    first, orders = _first(point), ORDERS[point]
    lines = orders * LINES
    order = pc.floor(pc.multiply(_random(lines, first), float(orders)))
    order = pc.add(pc.cast(pc.take(order, pc.sort_indices(order)), pa.int64()), first)
    _write(
        folder / "sales" / batch,
        order_id=order,
        store_id=_store(order),
        product_id=_whole(lines, first + 1, PRODUCTS),
        quantity=pc.add(_whole(lines, first + 2, 4), pa.scalar(1, pa.int32())),
        price=_money(lines, first + 3, 1.0, 40.0),
    )
    returned = pa.concat_arrays([_returned(sold, point) for sold in ORDERS if sold <= point])
    _write(folder / "returns" / batch, order_id=returned, refund=_money(len(returned), first + 5, 1.0, 60.0))
    return lines + len(returned)


def _returned(sold: str, point: str) -> pa.Array:
    """The orders of one batch that are returned with another."""
    points = list(ORDERS)
    later = points.index(point) - points.index(sold)
    low = sum(SHARES[:later])
    drawn = _random(ORDERS[sold], _first(sold) + 4)
    orders = pa.array(range(_first(sold), _first(sold) + ORDERS[sold]), pa.int64())
    return orders.filter(pc.and_(pc.greater_equal(drawn, low), pc.less(drawn, low + SHARES[later])))


def _first(point: str) -> int:
    """The number of a batch's first order."""
    return 1_000_000 + sum(orders for earlier, orders in ORDERS.items() if earlier < point)


def _store(order: pa.Array) -> pa.Array:
    """The store in which an order was placed."""
    mixed = pc.multiply(order, 7919)
    return pc.cast(pc.subtract(mixed, pc.multiply(pc.divide(mixed, STORES), STORES)), pa.int32())


def _random(rows: int, seed: int) -> pa.Array:
    return pc.random(rows, initializer=seed)


def _whole(rows: int, seed: int, below: int) -> pa.Array:
    return pc.cast(pc.floor(pc.multiply(_random(rows, seed), float(below))), pa.int32())


def _money(rows: int, seed: int, least: float, most: float) -> pa.Array:
    return pc.cast(pc.add(pc.multiply(_random(rows, seed), most - least), least), MONEY)


def _write(folder: Path, **columns: pa.Array) -> None:
    folder.mkdir(parents=True)
    pq.write_table(pa.table(columns), folder / "rows.parquet")


if __name__ == "__main__":
    prepare()
    for name in ORDERS:
        print(f"{name}: {arrive(name):,} rows")
