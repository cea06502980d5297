"""States and results as immutable Parquet folders: written once, in one job, and read again with the schema that was written.

A state distributed by a key is bucketed and sorted by it, one file per bucket, so that joining or grouping it by that key shuffles nothing. Buckets
are known to Spark through a table only. It is registered when the folder is read and dropped when the reader is closed; the files stay. A state kept
as a base and later deltas is one table with a partition per folder: Spark then reads bucket i of every folder in one task, which a union does not allow
below an inner join.
"""

from __future__ import annotations

import math
import threading
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.column import Column as SparkColumn
from pyspark.sql.types import ArrayType, DataType, MapType, NullType, StructType

from tempura.algebra import SortKey
from tempura.errors import TempuraError
from tempura.schema import WEIGHT, Column, Schema, part_name
from tempura.spark.names import declared, quoted, text
from tempura.spark.session import parallelism

FILE_BYTES = 128 << 20
"""About how much goes into one file."""

MOST_BUCKETS = 4096

PART = "__part"
"""The partition column that tells the folders of a state apart."""


@dataclass(frozen=True)
class Written:
    """What was written: how many rows, and their columns as Spark typed them, the weight among them."""

    rows: int
    columns: Schema


def buckets(spark: SparkSession, bytes: float) -> int:
    """The number of buckets for all states of a workspace of which the largest has about so many bytes: a power of two."""
    cores = parallelism(spark)
    wanted = max(cores, math.ceil(bytes / FILE_BYTES))
    shuffled = int(spark.conf.get("spark.sql.shuffle.partitions", None) or 0)
    if wanted <= shuffled <= 4 * cores:
        # Rows that an aggregate or join has just shuffled by the key lie right already, and are not shuffled again.
        wanted = shuffled
    return min(1 << (wanted - 1).bit_length(), MOST_BUCKETS)


class StateError(TempuraError):
    """A state cannot be written where it is to be."""


class States:
    """Writes and reads the folders of one run; closing it forgets the tables that were needed for that."""

    def __init__(self, spark: SparkSession):
        self._spark = spark
        self._tables: list[str] = []
        self._lock = threading.Lock()

    def __enter__(self) -> States:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Frames read from bucketed states cannot be used any more; their files are untouched."""
        with self._lock:
            tables, self._tables = self._tables, []
        for table in tables:
            self._spark.sql(f"DROP TABLE IF EXISTS {table}")

    def write(
        self,
        frame: DataFrame,
        path: str,
        *,
        bytes: float = 0.0,
        partition: Sequence[str] = (),
        buckets: int = 0,
        ordered: bool = False,
        order: Sequence[SortKey] = (),
    ) -> Written:
        """Write a frame into a folder, in place of what may be left there of an attempt that failed.

        With `partition` it is bucketed, and sorted by the same columns if `ordered`; with `order` it is sorted. `bytes` is an estimate of its size.
        """
        _check(path)
        frame = _storable(frame)
        if partition:
            return self._write_bucketed(frame, path, list(partition), buckets, ordered)
        files = max(1, math.ceil(bytes / FILE_BYTES))
        if not order:
            # Never fewer tasks than cores: what comes before the write may be most of the work.
            frame = frame.coalesce(max(files, parallelism(self._spark)))
        elif files == 1:
            # In one partition a sort needs no sample of the rows, which would be a second job.
            frame = frame.repartition(1).sortWithinPartitions(*map(_sorted, order))
        else:
            frame = frame.orderBy(*map(_sorted, order))
        counted, rows = _counted(frame)
        counted.write.mode("overwrite").parquet(path)
        return Written(_rows(rows), _columns(frame))

    def _write_bucketed(self, frame: DataFrame, path: str, by: list[str], buckets: int, ordered: bool) -> Written:
        # Hashed as buckets are, so that each task writes one file. Spark leaves the exchange out if the rows lie so already.
        spread = frame.repartition(buckets, *(F.col(quoted(c)) for c in by))
        counted, rows = _counted(spread)
        table = _fresh_table()
        writer = counted.write.format("parquet").mode("overwrite").option("path", path)
        bucketed = writer.bucketBy(buckets, *by)
        (bucketed.sortBy(*by) if ordered else bucketed).saveAsTable(table)
        self._spark.sql(f"DROP TABLE {table}")
        return Written(_rows(rows), _columns(frame))

    def read(
        self,
        folders: Sequence[str],
        columns: Schema,
        *,
        partition: Sequence[str] = (),
        buckets: int = 0,
        ordered: bool = False,
    ) -> DataFrame:
        """The rows of all folders together, with the columns given: those of `Written`. Say `ordered` only of what was written so: Spark believes it.

        A folder written without a weight counts each of its rows once where the columns have one.
        """
        if partition:
            frame = self._read_bucketed(folders, columns, partition, buckets, ordered)
        else:
            frame = self._spark.read.schema(declared(columns)).parquet(*folders)
        if len(folders) > 1 and any(c.name == WEIGHT for c in columns):
            one = F.coalesce(F.col(WEIGHT), F.lit(1).cast("bigint")).alias(WEIGHT)
            frame = frame.select(*(one if c.name == WEIGHT else F.col(quoted(c.name)) for c in columns))
        return frame

    def _read_bucketed(
        self, folders: Sequence[str], columns: Schema, partition: Sequence[str], buckets: int, ordered: bool
    ) -> DataFrame:
        table = _fresh_table()
        by = ", ".join(map(quoted, partition))
        clustered = f"CLUSTERED BY ({by}) {f'SORTED BY ({by}) ' if ordered else ''}INTO {buckets} BUCKETS"
        location = f"USING parquet OPTIONS (path {text(folders[0])})"
        with self._lock:
            self._tables.append(table)
        if len(folders) == 1:
            self._spark.sql(f"CREATE TABLE {table} ({declared(columns)}) {location} {clustered}")
            return self._spark.table(table)
        columns_and_part = f"{declared(columns)}, {PART} INT"
        self._spark.sql(f"CREATE TABLE {table} ({columns_and_part}) {location} PARTITIONED BY ({PART}) {clustered}")
        parts = " ".join(f"PARTITION ({PART} = {i}) LOCATION {text(f)}" for i, f in enumerate(folders))
        self._spark.sql(f"ALTER TABLE {table} ADD {parts}")
        return self._spark.table(table).drop(PART)


def _check(path: str) -> None:
    signs = sorted(set("[]{}*?\\") & set(path))
    if signs:
        raise StateError(
            f"Spark takes {' '.join(signs)} in {path} for a pattern",
            hint="choose a folder for the workspace whose path has none of []{}*?\\",
        )


def _counted(frame: DataFrame) -> tuple[DataFrame, Observation]:
    """The frame, and its number of rows once it has been written."""
    rows = Observation(f"rows {uuid.uuid4().hex}")
    return frame.observe(rows, F.count(F.lit(1)).alias("rows")), rows


def _rows(observed: Observation) -> int:
    return int(observed.get["rows"])


def _storable(frame: DataFrame) -> DataFrame:
    """The frame with columns that Parquet can hold: NULLs without a type become strings."""
    untyped = [f.name for f in frame.schema.fields if isinstance(f.dataType, NullType)]
    return frame.withColumns({c: F.col(quoted(c)).cast("string") for c in untyped}) if untyped else frame


def _columns(frame: DataFrame) -> Schema:
    return tuple(Column(f.name, _spelled(f.dataType), True) for f in frame.schema.fields)


def _spelled(kind: DataType) -> str:
    """A type's name, as Spark's own but for names of parts: these are quoted where they have to be, so that it can be read again."""
    match kind:
        case ArrayType():
            return f"array<{_spelled(kind.elementType)}>"
        case MapType():
            return f"map<{_spelled(kind.keyType)},{_spelled(kind.valueType)}>"
        case StructType():
            return f"struct<{','.join(f'{part_name(f.name)}:{_spelled(f.dataType)}' for f in kind.fields)}>"
        case _:
            return kind.simpleString()


def _sorted(key: SortKey) -> SparkColumn:
    column = F.col(quoted(key.column))
    if key.descending:
        return column.desc_nulls_first() if key.nulls_first else column.desc_nulls_last()
    return column.asc_nulls_first() if key.nulls_first else column.asc_nulls_last()


def _fresh_table() -> str:
    return f"tempura_{uuid.uuid4().hex}"
