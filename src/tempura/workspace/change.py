"""How a small result differs from its last delivery, told without Spark: a job has a price however few its rows."""

from __future__ import annotations

import re
from typing import Any

from tempura.schema import WEIGHT
from tempura.sources.arrow import pa, pc, pq
from tempura.workspace.runfile import Columns
from tempura.workspace.storage import Storage, join, passed_over

SMALL = 4 << 20
"""Bytes of files up to which two results are compared here."""

_PLAIN = re.compile(r"boolean|tinyint|smallint|int|bigint|float|double|decimal\(\d+,\d+\)|date|string|binary")
"""Types that Spark and Arrow write to Parquet alike."""


def write_change(storage: Storage, new: str, old: str, columns: Columns, folder: str) -> bool:
    """Write the rows that the folder `new` has more (weight above zero) or less (below) than `old`; whether that could be done here."""
    if not all(_PLAIN.fullmatch(kind) for _, kind, _ in columns):
        return False
    if sum(storage.size_of(f).bytes for f in (new, old)) > SMALL:
        return False
    names = [name for name, _, _ in columns]
    try:
        both = pa.concat_tables([_rows(storage, new, names, 1), _rows(storage, old, names, -1)])
    except (OSError, pa.ArrowException):
        # A damaged file is found by Spark as well, and what to do then is known there.
        return False
    total = f"{WEIGHT}_sum"
    grouped = both.group_by(names, use_threads=False).aggregate([(WEIGHT, "sum")])
    changed = grouped.filter(pc.not_equal(grouped[total], 0)).select([*names, total]).rename_columns([*names, WEIGHT])
    sink = pa.BufferOutputStream()
    pq.write_table(changed, sink)
    storage.delete(folder)
    storage.replace(join(folder, "part-0.parquet"), sink.getvalue().to_pybytes())
    return True


def _rows(storage: Storage, folder: str, names: list[str], weight: int) -> Any:
    files = [name for name in storage.sizes(folder) if not passed_over(name.rpartition("/")[2])]
    parts = [pq.read_table(pa.BufferReader(storage.read(join(folder, name)) or b""), columns=names) for name in files]
    rows = pa.concat_tables(parts)
    return rows.append_column(WEIGHT, pa.array([weight] * rows.num_rows, pa.int64()))
