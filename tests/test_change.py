"""The change of a small result, told without Spark."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tempura.schema import WEIGHT
from tempura.workspace import change
from tempura.workspace.storage import Storage

TYPES = {
    "b": ("boolean", pa.bool_()), "t": ("tinyint", pa.int8()), "i": ("int", pa.int32()), "l": ("bigint", pa.int64()), "f": ("double", pa.float64()),
    "d": ("decimal(12,2)", pa.decimal128(12, 2)), "day": ("date", pa.date32()), "s": ("string", pa.string()), "bin": ("binary", pa.binary()),
}  # fmt: skip
SCHEMA = pa.schema([(name, kind) for name, (_, kind) in TYPES.items()])
COLUMNS = tuple((name, text, True) for name, (text, _) in TYPES.items())
ONE: tuple[Any, ...] = (True, 1, 2, 3, 1.5, Decimal("10.25"), datetime.date(2026, 1, 31), "a", b"x")
OTHER: tuple[Any, ...] = (False, -1, None, 3, float("nan"), Decimal("-0.01"), None, "", b"")
NULLS: tuple[Any, ...] = (None,) * len(TYPES)


def put(folder: Path, rows: list[tuple[Any, ...]], files: int = 1) -> None:
    folder.mkdir()
    (folder / "_SUCCESS").touch()
    for i in range(files):
        values = [dict(zip(TYPES, row, strict=True)) for row in rows[i::files]]
        pq.write_table(pa.Table.from_pylist(values, SCHEMA), folder / f"part-{i}.parquet")


def told(tmp_path: Path) -> dict[str, int]:
    found = pq.read_table(tmp_path / "to" / "part-0.parquet")
    assert found.schema.remove_metadata() == SCHEMA.append(pa.field(WEIGHT, pa.int64()))
    return {repr(tuple(row.values())[:-1]): row[WEIGHT] for row in found.to_pylist()}


@pytest.mark.parametrize(
    ("new", "old", "expected"),
    [
        ([ONE, ONE, NULLS], [ONE, OTHER], {ONE: 1, NULLS: 1, OTHER: -1}),
        ([OTHER, NULLS, OTHER], [NULLS, OTHER, OTHER], {}),
        ([], [ONE, ONE], {ONE: -2}),
        ([NULLS], [], {NULLS: 1}),
        ([], [], {}),
    ],
)
def test_what_there_is_more_and_less(tmp_path: Path, new: list[Any], old: list[Any], expected: dict[Any, int]):
    put(tmp_path / "new", new, files=2)
    put(tmp_path / "old", old)
    assert change.write_change(Storage.at(tmp_path), "new", "old", COLUMNS, "to")
    assert told(tmp_path) == {repr(row): weight for row, weight in expected.items()}


def test_what_is_left_to_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    put(tmp_path / "new", [ONE])
    put(tmp_path / "old", [NULLS])
    storage = Storage.at(tmp_path)
    for kind in ("timestamp", "array<int>", "struct<a:int>", "map<int,int>"):
        assert not change.write_change(storage, "new", "old", (*COLUMNS[:-1], ("bin", kind, True)), "to"), kind
    with monkeypatch.context() as patch:
        patch.setattr(change, "SMALL", 10)
        assert not change.write_change(storage, "new", "old", COLUMNS, "to")
    (tmp_path / "old" / "part-0.parquet").write_bytes(b"not Parquet")
    assert not change.write_change(storage, "new", "old", COLUMNS, "to")
    assert not (tmp_path / "to").exists()
